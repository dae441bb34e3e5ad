"""`escalera plugins`: what is installed, what it brings, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.authoring import check, new
from orchestrator.cli.front import Front
from orchestrator.cli.installing import install, missing_plugins, remove, sync
from orchestrator.session import Role

if TYPE_CHECKING:
    from orchestrator.documents.kinds.plugins import MissingPlugin, PluginObject
    from orchestrator.hooks import Trouble
    from orchestrator.installing import Missing
    from orchestrator.plugins import PluginManager, PluginReport


@click.group("plugins")
def command() -> None:
    """Installed plugins, those that shall be, and what helps to write one."""


command.add_command(install)
command.add_command(remove)
command.add_command(sync)
command.add_command(check)
command.add_command(new)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """Each plugin with its distribution, version, provider kinds and hooks, or with the reason why it did not load.

    Hooks that give tools and template folders are tried: what they give wrongly stands with the plugin.
    """
    manager = front.found_plugins()
    troubles, missing = _tried(front, manager), missing_plugins(front)
    if as_json:
        plugins = [_plugin_object(report, troubles.get(report, ())) for report in manager.reports()]
        front.output.print_json({"format": "escalera.plugins/1", "plugins": plugins, "missing": [_missing_object(one) for one in missing]})
        return
    for report in manager.reports():
        front.output.say(f"{report.name}  {report.distribution} {report.version}  {_brings(report)}".rstrip())
        for problem in (*([report.problem] if report.problem and report.loaded else []), *troubles.get(report, ())):
            front.output.say(f"  problem: {problem}")
    if not manager.reports():
        front.output.say("no plugin is installed")
    for one in missing:
        front.output.say(f"{one.distribution}  wanted, missing: {one.problem}; escalera plugins sync")


def _tried(front: Front, manager: PluginManager) -> Mapping[PluginReport, Sequence[str]]:
    """What is wrong with what the plugins give to the configured roles, by plugin."""
    from orchestrator.hooks import Hooks

    hooks = Hooks(manager.implementations)
    found: list[Trouble] = [*hooks.template_folders().troubles]
    for role in Role:
        agent = front.settings.explain(role).value
        if agent is not None:
            found += hooks.tools(agent=agent, role=role, workspace=front.workspace).troubles
    troubles: dict[PluginReport, list[str]] = {}
    for trouble in dict.fromkeys(found):
        troubles.setdefault(trouble.plugin, []).append(trouble.text)
    return troubles


def _brings(report: PluginReport) -> str:
    if not report.loaded:
        return f"not loaded: {report.problem}"
    hooks = [name for name in report.hooks if name != "escalera_provider_kinds"]
    return "  ".join(f"{what}: {', '.join(names)}" for what, names in (("kinds", report.kinds), ("hooks", hooks)) if names)


def _missing_object(one: Missing) -> MissingPlugin:
    return {"requirement": one.shown, "distribution": one.distribution, "problem": one.problem}


def _plugin_object(report: PluginReport, troubles: Sequence[str]) -> PluginObject:
    return {
        "name": report.name,
        "distribution": report.distribution,
        "version": report.version,
        "loaded": report.loaded,
        "kinds": list(report.kinds),
        "problem": report.problem,
        "blocked": report.blocked,
        "hooks": list(report.hooks),
        "hook_problems": list(troubles),
    }
