"""`escalera trust`: accept a project file as it is now."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.front import Front
from orchestrator.errors import NotFound, UsageError
from orchestrator.settings.files import find_project_file, read_config
from orchestrator.settings.paths import home_of
from orchestrator.settings.trust import TrustStore, would_enable


@click.command("trust")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="The files that are accepted.")
@click.option("--revoke", is_flag=True, help="Take it back.")
@click.option("--yes", is_flag=True, help="Accept without asking; for scripts that have read the file.")
@click.pass_obj
def command(front: Front, path: Path | None, listing: bool, revoke: bool, yes: bool) -> None:
    """Show what this directory's escalera.toml (or PATH) would enable, then accept it; a changed file asks again."""
    accepted = TrustStore(front.paths.trust_file)
    if listing:
        for known in accepted.list():
            front.output.say(known)
        return
    file = path.absolute() if path is not None else find_project_file(front.cwd, home=home_of(front.environ))
    if file is None:
        raise NotFound(f"there is no escalera.toml in {front.cwd} or above it")
    if revoke:
        front.output.say(f"no longer accepted: {file}" if accepted.revoke(file) else f"was not accepted: {file}")
        return
    config = read_config(file)
    enabled = would_enable(config)
    front.output.say(f"{file} would enable:" if enabled else f"{file} holds nothing that needs to be accepted")
    for key, value in enabled:
        front.output.say(f"  {key} = {value!r}")
    if not yes:
        if not front.output.interactive:
            raise UsageError("accepting a file needs a terminal to ask at", hint="read the file, then use --yes")
        click.confirm("accept it as it is now?", abort=True)
    accepted.trust(file, config.content)
    front.output.say("accepted")
