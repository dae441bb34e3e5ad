"""`escalera plugins`: what is installed, and what failed to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front

if TYPE_CHECKING:
    from orchestrator.documents.kinds import PluginObject
    from orchestrator.plugins import PluginReport


@click.group("plugins")
def command() -> None:
    """Installed plugins."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """Each plugin with its distribution, version and provider kinds, or with the reason why it did not load."""
    reports = front.plugins.reports()
    if as_json:
        front.output.print_json({"format": "escalera.plugins/1", "plugins": [_plugin_object(report) for report in reports]})
        return
    for report in reports:
        found = f"kinds: {', '.join(report.kinds)}" if report.problem is None else f"not loaded: {report.problem}"
        front.output.say(f"{report.name}  {report.distribution} {report.version}  {found}")
    if not reports:
        front.output.say("no plugin is installed")


def _plugin_object(report: PluginReport) -> PluginObject:
    return {
        "name": report.name,
        "distribution": report.distribution,
        "version": report.version,
        "loaded": report.loaded,
        "kinds": list(report.kinds),
        "problem": report.problem,
        "blocked": report.blocked,
    }
