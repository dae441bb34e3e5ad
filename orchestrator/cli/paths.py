"""`escalera paths`: the folders that are used."""

from __future__ import annotations

import click

from orchestrator.cli.front import Front


@click.command("paths")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def command(front: Front, as_json: bool) -> None:
    """The folders for configuration, data, state and cache; nothing is made by asking."""
    paths = front.paths
    if as_json:
        front.output.print_json(
            {"format": "escalera.paths/1", "config": str(paths.config), "data": str(paths.data), "state": str(paths.state), "cache": str(paths.cache)}
        )
        return
    for name in ("config", "data", "state", "cache"):
        front.output.say(f"{name:7}{getattr(paths, name)}")
