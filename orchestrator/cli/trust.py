"""`escalera trust`: accept a project file as it is now."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.front import Front
from orchestrator.errors import ConfigError, NotFound, UsageError
from orchestrator.settings.files import find_project_file, read_config, shown_path
from orchestrator.settings.named_files import ProjectPart
from orchestrator.settings.paths import home_of
from orchestrator.settings.project import Project
from orchestrator.settings.resolution import Files, read_files, resolved
from orchestrator.settings.toml_text import spelled
from orchestrator.settings.trust import TrustStore, would_enable
from orchestrator.settings.values import shown_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from orchestrator.documents.kinds.settings import AcceptedFile, ProjectFileDocument
    from orchestrator.settings.files import ConfigFile
    from orchestrator.settings.problems import Problem

_MOST_PROBLEMS = 10
_STANDINGS = {"accepted": "", "changed": "  (has changed since: it is asked about again)", "gone": "  (is gone)"}


@click.command("trust")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="The files that are accepted.")
@click.option("--revoke", is_flag=True, help="Take it back.")
@click.option("--yes", is_flag=True, help="Accept without asking; for scripts that have read the file.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def command(front: Front, path: Path | None, listing: bool, revoke: bool, yes: bool, as_json: bool) -> None:
    """Show what this directory's escalera.toml (or PATH) would enable, then accept it; a changed file asks again.

    The AGENTS.md of the project, its templates in .escalera/templates and the prompt files that it names are shown and accepted with it, and so
    are the files by which Claude Code would start programs on its own account: .claude/settings.json,
    .claude/settings.local.json, the Markdown in .claude/agents, skills and commands, and .mcp.json.
    """
    accepted = TrustStore(front.paths.trust_file)
    if listing:
        _list(front, accepted, as_json)
        return
    offer = _offer(front, path)
    if revoke:
        taken = [accepted.revoke(file) for file in (*offer.files, *accepted.gone_below(offer.project.root), *_once_named(front, offer, accepted))]
        text = f"{'no longer accepted' if any(taken) else 'was not accepted'}: {shown_path(offer.subject)}"
        _done(front, text, _document(offer.subject, False, []), as_json)
        return
    config = None if offer.file is None else read_config(offer.file, found=True)
    enabled = [] if config is None else would_enable(config, agents=_own_agents(front))
    parts = offer.project.parts
    tell = front.output.notice if as_json else front.output.say
    tell(f"{shown_path(offer.subject)} {'would enable:' if enabled or parts else 'holds nothing that needs to be accepted'}")
    for key, value in enabled:
        tell(f"  {shown_key(key)} = {spelled(value)}")
    for part in parts:
        tell(f"  {shown_path(Path(offer.project.name(part)))}: {len(part.text):,} characters {offer.project.purpose(part)}")
        for line in _text(front, offer.project, part).splitlines() if part in offer.project.obeyed else ():
            tell(f"    | {line}")
    for file in offer.project.unreadable:
        tell(f"  {shown_path(file)} is no file of a usual kind and size, and cannot be accepted")
    if not yes:
        if not front.output.interactive:
            raise UsageError("accepting a file needs a terminal to ask at", hint="read the file, then use --yes")
        click.confirm("accept it as it is now?", abort=True, err=as_json)
    if config is not None:
        accepted.trust(config.path, config.content)
        for problem in _problems(front, config):
            front.output.notice(f"it is wrong, and keeps commands from running here until it is corrected: {problem}")
    for part in parts:
        accepted.trust(part.path, part.content)
    _done(
        front,
        "accepted",
        _document(offer.subject, True, [*enabled, *((offer.project.name(part), _text(front, offer.project, part)) for part in parts)]),
        as_json,
    )


@dataclass(frozen=True, slots=True)
class _Offer:
    """What there is to accept: a project file, where there is one, and what lies beside it."""

    file: Path | None
    project: Project

    @property
    def subject(self) -> Path:
        """What it is called: the project file, or its folder."""
        return self.file or self.project.root

    @property
    def files(self) -> list[Path]:
        return [*([] if self.file is None else [self.file]), *(part.path for part in self.project.parts)]


def _offer(front: Front, path: Path | None) -> _Offer:
    folder = front.cwd if path is None else path.absolute() if path.is_dir() else None
    file = find_project_file(folder, home=home_of(front.environ)) if folder is not None else path.absolute() if path is not None else None
    project = front.project(str(folder or (file.parent if file is not None else front.cwd)))
    if file is None and not project.parts and not project.unreadable:
        raise NotFound(f"there is no escalera.toml in {folder} or above it, and nothing beside that waits for it, such as AGENTS.md or .mcp.json")
    return _Offer(file, project)


def _once_named(front: Front, offer: _Offer, accepted: TrustStore) -> Iterator[Path]:
    """Accepted files of the same project, also those that its file does not name any more."""
    home = home_of(front.environ)
    for file in map(Path, accepted.list()) if offer.file is not None else ():
        nearest = find_project_file(file.parent, home=home)
        if nearest is not None and os.path.realpath(nearest.parent) == os.path.realpath(offer.project.root):
            yield file


def _text(front: Front, project: Project, part: ProjectPart) -> str:
    """As it is shown: what a program is to go by may hold keys for it."""
    return front.masked(part.text) if part in project.obeyed else part.text


def _own_agents(front: Front) -> Collection[str]:
    """The agents that the user's own sources configure; a project file may choose among these."""
    try:
        return resolved(front.sources, Files(user=read_files(front.sources).user))[0].agents
    except ConfigError:
        return ()


def _problems(front: Front, config: ConfigFile) -> Sequence[Problem]:
    """What is wrong with the file itself, now that it counts."""
    try:
        user = read_files(front.sources).user
    except ConfigError:
        user = None
    sources = (shown_path(config.path), f"file:{config.path}")
    return [problem for problem in resolved(front.sources, Files(user, config, trusted=True))[1] if problem.source in sources][:_MOST_PROBLEMS]


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
