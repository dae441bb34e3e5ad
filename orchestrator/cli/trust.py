"""`escalera trust`: accept a project file as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.front import Front
from orchestrator.errors import NotFound, UsageError
from orchestrator.settings.files import find_project_file, read_config
from orchestrator.settings.paths import home_of
from orchestrator.settings.trust import TrustStore, would_enable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.documents.kinds import ProjectFileDocument


@click.command("trust")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="The files that are accepted.")
@click.option("--revoke", is_flag=True, help="Take it back.")
@click.option("--yes", is_flag=True, help="Accept without asking; for scripts that have read the file.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def command(front: Front, path: Path | None, listing: bool, revoke: bool, yes: bool, as_json: bool) -> None:
    """Show what this directory's escalera.toml (or PATH) would enable, then accept it; a changed file asks again."""
    accepted = TrustStore(front.paths.trust_file)
    if listing:
        _list(front, accepted, as_json)
        return
    file = path.absolute() if path is not None else find_project_file(front.cwd, home=home_of(front.environ))
    if file is None:
        raise NotFound(f"there is no escalera.toml in {front.cwd} or above it")
    if revoke:
        known = accepted.revoke(file)
        _done(front, f"no longer accepted: {file}" if known else f"was not accepted: {file}", _document(file, False, []), as_json)
        return
    config = read_config(file)
    enabled = would_enable(config)
    tell = front.output.notice if as_json else front.output.say
    tell(f"{file} would enable:" if enabled else f"{file} holds nothing that needs to be accepted")
    for key, value in enabled:
        tell(f"  {key} = {value!r}")
    if not yes:
        if not front.output.interactive:
            raise UsageError("accepting a file needs a terminal to ask at", hint="read the file, then use --yes")
        click.confirm("accept it as it is now?", abort=True, err=as_json)
    accepted.trust(file, config.content)
    _done(front, "accepted", _document(file, True, enabled), as_json)


def _list(front: Front, accepted: TrustStore, as_json: bool) -> None:
    files = accepted.list()
    if as_json:
        front.output.print_json({"format": "escalera.trusted/1", "files": [{"file": file, "sha256": digest} for file, digest in files.items()]})
        return
    for file in files:
        front.output.say(file)


def _document(file: Path, accepted: bool, enables: Sequence[tuple[str, Any]]) -> ProjectFileDocument:
    return {"format": "escalera.project-file/1", "file": str(file), "accepted": accepted, "enables": [{"path": key, "value": value} for key, value in enables]}


def _done(front: Front, text: str, document: ProjectFileDocument, as_json: bool) -> None:
    if as_json:
        front.output.print_json(document)
    else:
        front.output.say(text)
