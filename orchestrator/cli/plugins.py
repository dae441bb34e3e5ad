"""`escalera plugins`: what is installed, what it brings, and what is wrong with it; and for authors, a check and a beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from orchestrator import __version__
from orchestrator.cli.front import Front
from orchestrator.session import Role

if TYPE_CHECKING:
    from orchestrator.documents.kinds import ConformanceDocument, PluginObject
    from orchestrator.hooks import Trouble
    from orchestrator.plugins import PluginManager, PluginReport


@click.group("plugins")
def command() -> None:
    """Installed plugins, and what helps to write one."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """Each plugin with its distribution, version, provider kinds and hooks, or with the reason why it did not load.

    Hooks that give tools and template folders are tried: what they give wrongly stands with the plugin.
    """
    manager = front.found_plugins()
    troubles = _tried(front, manager)
    if as_json:
        plugins = [_plugin_object(report, troubles.get(report, ())) for report in manager.reports()]
        front.output.print_json({"format": "escalera.plugins/1", "plugins": plugins})
        return
    for report in manager.reports():
        front.output.say(f"{report.name}  {report.distribution} {report.version}  {_brings(report)}".rstrip())
        for problem in (*([report.problem] if report.problem and report.loaded else []), *troubles.get(report, ())):
            front.output.say(f"  problem: {problem}")
    if not manager.reports():
        front.output.say("no plugin is installed")


@command.command("check")
@click.argument("kind")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def check(front: Front, kind: str, as_json: bool) -> int:
    """Run the provider kit's conformance suite against one installed provider kind.

    Its backend is a scripted stand-in on this machine: no key, no vendor's program and no network are needed. What the provider does not
    claim to do is `not claimed`, what its harness cannot play is `not shown`. Exit code 0 where nothing failed, 1 otherwise.
    """
    from orchestrator.testing.conformance.engine import Conformance
    from orchestrator.testing.conformance.subject import harness_named, installed_subject

    subject = installed_subject(kind, front.found_plugins())
    suite = Conformance(harness_named(kind), subject)
    if as_json:
        report = suite.report()
        front.output.print_json(cast("ConformanceDocument", report.document()))
    else:
        report = suite.report(lambda result: front.output.say(result.row(suite.width)))
        front.output.say(report.summary)
    return 0 if report.ok else 1


@command.command("new")
@click.argument("name")
@click.option("--http", "style", flag_value="http", default=True, help="Its backend is a server that is asked over HTTP; the default.")
@click.option("--subprocess", "style", flag_value="subprocess", help="Its backend is a program that is started for each turn.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def new(front: Front, name: str, style: str, as_json: bool) -> None:
    """Write a whole package for a new provider kind NAME into the folder escalera-NAME, here.

    It has a provider, its tests with the provider kit, a README and a workflow for CI, and passes as it is written. Nothing is written
    where that folder holds anything.
    """
    from orchestrator.errors import UsageError
    from orchestrator.hookspecs import API_LEVEL
    from orchestrator.plugins import DISTRIBUTIONS
    from orchestrator.scaffold import Style, write_package

    if name in DISTRIBUTIONS or f"escalera-{name}" in DISTRIBUTIONS.values():
        raise UsageError(f"{name} is a kind of Escalera's own", hint="choose another name")
    folder, files = write_package(name, cast("Style", style), Path(front.cwd), version=__version__, api_level=API_LEVEL)
    if as_json:
        front.output.print_json({"format": "escalera.package/1", "folder": str(folder), "kind": name, "files": list(files)})
        return
    front.output.say(f"{folder} has a provider kind {name}, whose tests pass. Begin with {folder.name}/{files[3].partition('/')[0]}/protocol.py.")
    front.output.say(f"to try it: cd {folder.name} && uv sync && uv run pytest && uv run escalera plugins check {name}")


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
