"""What a workspace brings beside its escalera.toml: AGENTS.md, templates, named files, and what agents' programs go by, once the user accepts it (page 5)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.settings.declarations import SETTINGS
from orchestrator.settings.files import find_project_file, read_config, read_found, shown_path
from orchestrator.settings.named_files import IsTrusted, Places, ProjectPart, parts_at
from orchestrator.settings.placing import placed_command
from orchestrator.settings.secrets import with_secrets
from orchestrator.settings.tool_servers import TABLE
from orchestrator.settings.trust import TrustStore, trust_key

INSTRUCTIONS = "AGENTS.md"
TEMPLATES = Path(".escalera", "templates")

_CLAUDE = ".claude"
OBEYED_SETTINGS = (Path(_CLAUDE, "settings.json"), Path(_CLAUDE, "settings.local.json"))
"""Of Claude Code: hooks, variables, permissions. Version 2.1 takes those of its working directory; here all up to the top of the repository count."""
OBEYED_DEFINITIONS = (Path(_CLAUDE, "agents"), Path(_CLAUDE, "skills"), Path(_CLAUDE, "commands"))
"""Of Claude Code: folders of Markdown, at any depth, that may hold hooks, servers and permissions of their own."""
_MOST_DEFINITIONS = 500
"""Files of one such folder; one with more cannot be accepted."""
OBEYED_SERVERS = Path(".mcp.json")
"""Of Claude Code, from its working directory upward: servers that it starts."""


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of the project that a workspace belongs to."""

    root: Path
    """The folder of its escalera.toml, else the workspace."""
    instructions: ProjectPart | None = None
    templates: tuple[ProjectPart, ...] = ()
    named: tuple[ProjectPart, ...] = ()
    """The files that its escalera.toml names for agents and servers: prompts, programs, configurations."""
    obeyed: tuple[ProjectPart, ...] = ()
    """By which programs of agents go on their own account, also those above the project."""
    unreadable: tuple[Path, ...] = ()
    """Such files that cannot be accepted: pipes, devices, what is too large or not to be read."""
    changed: tuple[Path, ...] = ()
    """Named files that are used although they are not as they were accepted: what programs are given and may keep there."""

    @property
    def parts(self) -> tuple[ProjectPart, ...]:
        return (*self._ours, *self.obeyed)

    @property
    def unaccepted(self) -> tuple[str, ...]:
        """What an agent's program must not go by, by its name."""
        paths = [*(part.path for part in self.obeyed if not part.accepted), *self.unreadable]
        return tuple(shown_path(Path(self._name(path))) for path in paths)

    @property
    def _ours(self) -> tuple[ProjectPart, ...]:
        return (*([] if self.instructions is None else [self.instructions]), *self.templates, *self.named)

    def name(self, part: ProjectPart) -> str:
        """The part's name within the project."""
        return self._name(part.path)

    @property
    def notice(self) -> str | None:
        """What to say about parts that are not accepted; about those that agents' programs obey, `unaccepted` says it where one is asked."""
        waiting = [shown_path(Path(self.name(part))) for part in self._ours if part.pinned and not part.accepted]
        changed = [shown_path(Path(self._name(path))) for path in self.changed]
        texts = [f"these are not trusted and therefore ignored: {', '.join(waiting)}"] if waiting else []
        texts += [f"these have changed since they were accepted, and are used as they are: {', '.join(changed)}"] if changed else []
        return f"in {shown_path(self.root)} {'; '.join(texts)}. To accept them as they are: escalera trust" if texts else None

    def purpose(self, part: ProjectPart) -> str:
        """What it is there for, to follow its size."""
        if part in self.obeyed:
            return "by which Claude Code starts programs and sets variables"
        if part in self.named:
            return "that escalera.toml names"
        return "in the place of a text of ours" if part in self.templates else "that agents are told"

    def _name(self, path: Path) -> str:
        return Path(os.path.relpath(path, self.root)).as_posix()


def project_of(workspace: Path, *, home: Path | None, trusted: TrustStore) -> Project:
    """The parts of a workspace's project. A workspace that is not there has none; and no file that leads out of the project is one."""
    workspace = Path(os.path.abspath(workspace))
    if not os.path.isdir(workspace):  # unlike the method of a path, it takes any text
        return Project(workspace)
    file = find_project_file(workspace, home=home)
    root = workspace if file is None else file.parent
    folders = [folder for folder in (workspace, *workspace.parents) if folder == root or root in folder.parents]
    found = (part for folder in folders for part in parts_at(root, [folder / INSTRUCTIONS], trusted.is_trusted))
    named = () if file is None else tuple(_named(file, Places(root, workspace, home), trusted))
    known = trusted.list() if any(not part.pinned and not part.accepted for part in named) else {}
    changed = tuple(part.path for part in named if not part.pinned and not part.accepted and trust_key(part.path) in known)
    obeyed, unreadable = _obeyed(workspace, home, trusted.is_trusted)
    return Project(root, next(found, None), tuple(parts_at(root, _templates(root), trusted.is_trusted)), named, obeyed, unreadable, changed)


def obeyed_settings(workspace: Path, *, home: Path | None, is_trusted: IsTrusted) -> list[ProjectPart]:
    """The settings that Claude Code goes by in a workspace; none where it runs without, since something of the kind is not accepted."""
    parts, unreadable = _obeyed(Path(os.path.abspath(workspace)), home, is_trusted)
    if unreadable or not all(part.accepted for part in parts):
        return []
    names = {path.name for path in OBEYED_SETTINGS}
    return [part for part in parts if part.path.parent.name == _CLAUDE and part.path.name in names]


def _templates(root: Path) -> list[Path]:
    try:
        return sorted(path for path in (root / TEMPLATES).iterdir() if path.name.endswith(".jinja"))
    except OSError:
        return []


def _named(file: Path, places: Places, trusted: TrustStore) -> Iterator[ProjectPart]:
    """Files that its agents, servers and commands name, each once. A file that cannot be read names none, and says so elsewhere."""
    try:
        data = read_config(file, found=True).data
    except ConfigError:
        return
    agents, servers = ([table for table in _tables(data.get(name)) if isinstance(table, Mapping)] for name in ("agents", TABLE))
    commands = [{"command": places.placed_words(_at(data, setting.path))} for setting in SETTINGS if setting.is_command]
    found: dict[Path, ProjectPart] = {}
    for values in (*agents, *(_with_program(table, places) for table in servers), *commands):
        found |= {part.path: part for part in places.named_parts(_with_references(values), trusted.is_trusted)}
    yield from found.values()


def _tables(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, Mapping) else ()


def _with_references(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Commands of secrets as what they are; a malformed one is somebody else's to tell."""
    wrapped = dict(table)
    for key, value in table.items():
        with suppress(ValueError):
            wrapped[key] = with_secrets(key, value)
    return wrapped


def _with_program(table: Mapping[str, Any], places: Places) -> Mapping[str, Any]:
    return {key: placed_command([value], places.root, places.home)[0] if key == "command" else value for key, value in table.items()}


def _at(data: object, path: str) -> object:
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data


def _obeyed(workspace: Path, home: Path | None, is_trusted: IsTrusted) -> tuple[tuple[ProjectPart, ...], tuple[Path, ...]]:
    """Files that are there and can be accepted, wherever they lead, and those that cannot. What lies in the home folder itself is the user's own."""
    folders = list(takewhile(lambda folder: folder != home, (workspace, *workspace.parents)))
    top = next((number for number, folder in enumerate(folders) if os.path.lexists(folder / ".git")), 0)
    near = [folder for folder in folders[: top + 1] if os.path.isdir(folder / _CLAUDE)]
    paths = [*(folder / name for folder in near for name in OBEYED_SETTINGS), *(folder / OBEYED_SERVERS for folder in folders)]
    parts, unreadable = [], []
    for folder in (folder / name for folder in near for name in OBEYED_DEFINITIONS):
        found = _definitions(folder)
        if len(found) > _MOST_DEFINITIONS:
            unreadable.append(folder)
        else:
            paths += found
    for path in paths:
        if os.path.isdir(path) or not os.path.exists(path):
            continue
        try:
            content = read_found(path)
        except ConfigError:
            unreadable.append(path)
        else:
            parts.append(ProjectPart(path, content, is_trusted(path, content)))
    return tuple(parts), tuple(unreadable)


def _definitions(folder: Path) -> list[Path]:
    """The Markdown files in it, a few more than can be accepted at most; what a link leads to counts as if it were there."""
    return sorted(islice(_markdown_in(folder), _MOST_DEFINITIONS + 1))


def _markdown_in(folder: Path) -> Iterator[Path]:
    """Each folder once, however many links lead to it: a repository may hold circles."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(place))
        folders[:] = [name for name in sorted(folders) if os.path.realpath(Path(place, name)) not in seen]
        yield from (Path(place, name) for name in sorted(names) if name.lower().endswith(".md"))
