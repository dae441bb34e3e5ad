"""`escalera paths`: the folders that are used."""

from __future__ import annotations

import click

from orchestrator.cli.front import Front


@click.command("paths")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def command(front: Front, as_json: bool) -> None:
    """The folders for configuration, data, state and cache; nothing is made by asking."""
    paths = {name: str(getattr(front.paths, name)) for name in ("config", "data", "state", "cache")}
    if as_json:
        front.output.print_json({"format": "escalera.paths/1"} | paths)
        return
    for name, path in paths.items():
        front.output.say(f"{name:7}{path}")
