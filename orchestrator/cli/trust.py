"""`escalera trust`: accept a project file as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.front import Front
from orchestrator.errors import ConfigError, NotFound, UsageError
from orchestrator.settings.files import find_project_file, read_config
from orchestrator.settings.paths import home_of
from orchestrator.settings.resolution import Files, read_files, resolved
from orchestrator.settings.toml_text import spelled
from orchestrator.settings.trust import TrustStore, would_enable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from orchestrator.documents.kinds import AcceptedFile, ProjectFileDocument

_STANDINGS = {"accepted": "", "changed": "  (has changed since: it is asked about again)", "gone": "  (is gone)"}


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
    enabled = would_enable(config, agents=_own_agents(front))
    tell = front.output.notice if as_json else front.output.say
    tell(f"{file} would enable:" if enabled else f"{file} holds nothing that needs to be accepted")
    for key, value in enabled:
        tell(f"  {key} = {spelled(value)}")
    if not yes:
        if not front.output.interactive:
            raise UsageError("accepting a file needs a terminal to ask at", hint="read the file, then use --yes")
        click.confirm("accept it as it is now?", abort=True, err=as_json)
    accepted.trust(file, config.content)
    _done(front, "accepted", _document(file, True, enabled), as_json)


def _own_agents(front: Front) -> Collection[str]:
    """The agents that the user's own sources configure; a project file may choose among these."""
    try:
        return resolved(front.sources, Files(user=read_files(front.sources).user))[0].agents
    except ConfigError:
        return ()


def _list(front: Front, accepted: TrustStore, as_json: bool) -> None:
    files: list[AcceptedFile] = [{"file": file, "sha256": digest, "standing": accepted.standing(file)} for file, digest in accepted.list().items()]
    if as_json:
        front.output.print_json({"format": "escalera.trusted/1", "files": files})
        return
    for file in files:
        front.output.say(file["file"] + _STANDINGS[file["standing"]])


def _document(file: Path, accepted: bool, enables: Sequence[tuple[str, Any]]) -> ProjectFileDocument:
    return {"format": "escalera.project-file/1", "file": str(file), "accepted": accepted, "enables": [{"path": key, "value": value} for key, value in enables]}


def _done(front: Front, text: str, document: ProjectFileDocument, as_json: bool) -> None:
    if as_json:
        front.output.print_json(document)
    else:
        front.output.say(text)
