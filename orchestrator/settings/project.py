"""What a workspace brings beside its escalera.toml: AGENTS.md, templates, named files, and what agents' programs go by, once the user accepts it (page 5)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.settings.files import find_project_file, read_bytes, read_config, read_found, shown_path
from orchestrator.settings.secrets import SecretRef
from orchestrator.settings.tool_servers import TABLE
from orchestrator.settings.trust import TrustStore

INSTRUCTIONS = "AGENTS.md"
TEMPLATES = Path(".escalera", "templates")

OBEYED_SETTINGS = (Path(".claude", "settings.json"), Path(".claude", "settings.local.json"))
"""Of Claude Code: hooks, variables, permissions. Version 2.1 takes those of its working directory; here all up to the top of the repository count."""
OBEYED_DEFINITIONS = (Path(".claude", "agents"), Path(".claude", "skills"), Path(".claude", "commands"))
"""Of Claude Code: folders of Markdown, at any depth, that may hold hooks, servers and permissions of their own."""
_MOST_DEFINITIONS = 500
"""Files of one such folder; one with more cannot be accepted."""
OBEYED_SERVERS = Path(".mcp.json")
"""Of Claude Code, from its working directory upward: servers that it starts."""

IsTrusted = Callable[[Path, bytes], bool]


@dataclass(frozen=True, slots=True)
class ProjectPart:
    """One file, as it was read once: what is accepted and what is used are the same bytes."""

    path: Path
    content: bytes
    accepted: bool

    @property
    def text(self) -> str:
        """Its text, whatever bytes it is made of."""
        return self.content.decode("utf-8-sig", "replace")


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
        waiting = [shown_path(Path(self.name(part))) for part in self._ours if not part.accepted]
        if not waiting:
            return None
        return f"in {shown_path(self.root)} these are not trusted and therefore ignored: {', '.join(waiting)}. To accept them as they are: escalera trust"

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
    found = (part for folder in folders for part in _parts(root, [folder / INSTRUCTIONS], trusted.is_trusted))
    named = () if file is None else tuple(named_parts(root, _tables(file), trusted.is_trusted))
    obeyed, unreadable = _obeyed(workspace, home, trusted)
    return Project(root, next(found, None), tuple(_parts(root, _templates(root), trusted.is_trusted)), named, obeyed, unreadable)


def named_parts(root: Path, value: object, is_trusted: IsTrusted) -> Iterator[ProjectPart]:
    """The files of a project that texts in a value of its escalera.toml name, at any depth, as they are now."""
    paths = (Path(os.path.abspath(root / text)) for text in _texts(value) if text and "\0" not in text)
    return _parts(root, dict.fromkeys(paths), is_trusted)


def leads_into(folder: Path, path: Path) -> bool:
    """Whether that is where the path really ends, links followed."""
    inside = os.path.realpath(folder)
    return os.path.commonpath([inside, os.path.realpath(path)]) == inside


def _templates(root: Path) -> list[Path]:
    try:
        return sorted(path for path in (root / TEMPLATES).iterdir() if path.name.endswith(".jinja"))
    except OSError:
        return []


def _tables(file: Path) -> list[object]:
    """Those of agents and servers; a file that cannot be read has none, and says so elsewhere."""
    try:
        data = read_config(file, found=True).data
    except ConfigError:
        return []
    return [data.get("agents"), data.get(TABLE)]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, SecretRef):
        yield from value.cmd
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _obeyed(workspace: Path, home: Path | None, trusted: TrustStore) -> tuple[tuple[ProjectPart, ...], tuple[Path, ...]]:
    """Files that are there and can be accepted, wherever they lead, and those that cannot. What lies in the home folder itself is the user's own."""
    folders = list(takewhile(lambda folder: folder != home, (workspace, *workspace.parents)))
    top = next((number for number, folder in enumerate(folders) if os.path.lexists(folder / ".git")), 0)
    paths = [*(folder / name for folder in folders[: top + 1] for name in OBEYED_SETTINGS), *(folder / OBEYED_SERVERS for folder in folders)]
    parts, unreadable = [], []
    for folder in (folder / name for folder in folders[: top + 1] for name in OBEYED_DEFINITIONS):
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
            parts.append(ProjectPart(path, content, trusted.is_trusted(path, content)))
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


def _parts(root: Path, paths: Iterable[Path], is_trusted: IsTrusted) -> Iterator[ProjectPart]:
    for path in paths:
        if not os.path.isfile(path) or not leads_into(root, path):
            continue
        try:
            content = read_bytes(path)
        except ConfigError:
            continue
        yield ProjectPart(path, content, is_trusted(path, content))
