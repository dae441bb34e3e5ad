"""What a workspace brings beside its escalera.toml: AGENTS.md, templates and prompts, which count once the user has accepted them (page 5)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.settings.files import find_project_file, read_bytes, read_config, shown_path
from orchestrator.settings.trust import TrustStore

INSTRUCTIONS = "AGENTS.md"
TEMPLATES = Path(".escalera", "templates")

_MOST_NAMED = 12


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
    prompts: tuple[ProjectPart, ...] = ()
    """The files that its escalera.toml names as `prompt_file` of agents."""

    @property
    def parts(self) -> tuple[ProjectPart, ...]:
        return (*([] if self.instructions is None else [self.instructions]), *self.templates, *self.prompts)

    def name(self, part: ProjectPart) -> str:
        """The part's name within the project."""
        return Path(os.path.relpath(part.path, self.root)).as_posix()

    @property
    def notice(self) -> str | None:
        """What to say about parts that are not accepted."""
        waiting = [shown_path(Path(self.name(part))) for part in self.parts if not part.accepted]
        if not waiting:
            return None
        more = f" and {len(waiting) - _MOST_NAMED} more" if len(waiting) > _MOST_NAMED else ""
        named = ", ".join(waiting[:_MOST_NAMED])
        return f"in {shown_path(self.root)} these are not trusted and therefore ignored: {named}{more}. To accept them as they are: escalera trust"


def project_of(workspace: Path, *, home: Path | None, trusted: TrustStore) -> Project:
    """The parts of a workspace's project. A workspace that is not there has none; and no file that leads out of the project is one."""
    workspace = Path(os.path.abspath(workspace))
    if not os.path.isdir(workspace):  # unlike the method of a path, it takes any text
        return Project(workspace)
    file = find_project_file(workspace, home=home)
    root = workspace if file is None else file.parent
    folders = [folder for folder in (workspace, *workspace.parents) if folder == root or root in folder.parents]
    found = (part for folder in folders for part in _parts(root, [folder / INSTRUCTIONS], trusted))
    prompts = [] if file is None else _prompts(file)
    return Project(root, next(found, None), tuple(_parts(root, _templates(root), trusted)), tuple(_parts(root, prompts, trusted)))


def leads_into(folder: Path, path: Path) -> bool:
    """Whether that is where the path really ends, links followed."""
    inside = os.path.realpath(folder)
    return os.path.commonpath([inside, os.path.realpath(path)]) == inside


def _templates(root: Path) -> list[Path]:
    try:
        return sorted(path for path in (root / TEMPLATES).iterdir() if path.name.endswith(".jinja"))
    except OSError:
        return []


def _prompts(file: Path) -> list[Path]:
    """Of the agents of a project file; one that cannot be read has none, and says so elsewhere."""
    try:
        tables = read_config(file).data.get("agents")
    except ConfigError:
        return []
    named = [table.get("prompt_file") for table in tables.values() if isinstance(table, Mapping)] if isinstance(tables, Mapping) else []
    return list(dict.fromkeys(Path(os.path.abspath(file.parent / name)) for name in named if isinstance(name, str)))


def _parts(root: Path, paths: list[Path], trusted: TrustStore) -> Iterator[ProjectPart]:
    for path in paths:
        if not os.path.isfile(path) or not leads_into(root, path):
            continue
        try:
            content = read_bytes(path)
        except ConfigError:
            continue
        yield ProjectPart(path, content, trusted.is_trusted(path, content))
