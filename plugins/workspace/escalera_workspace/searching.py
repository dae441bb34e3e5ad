"""`search`: lines of files that a regular expression finds, within bounds of time and size."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import regex

from escalera_workspace.arguments import Arguments, text, truth
from escalera_workspace.places import Place, decoded, entries, failing, folder, is_of_the_system, place_of, read_in, visible
from escalera_workspace.reading import may_read
from orchestrator.providers import ToolSchema
from orchestrator.tools import Tool, ToolContext, ToolFailed

SECONDS = 10.0
MOST_FOUND = 200
MOST_FILES = 50_000
MAX_FILE = 2 * 1024 * 1024
"""Bytes of a file that is searched; larger ones are counted and left out."""
MAX_PATTERN = 1000
DEEPEST = 64
SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
"""Folders that are only searched when they are named."""
_MOST_ENTRIES = 20_000
_LINE = 300
"""Characters of a line that are shown."""


@dataclass(slots=True)
class Search:
    """One search under way."""

    pattern: regex.Pattern[str]
    glob: str
    context: ToolContext
    until: float
    found: list[str] = field(default_factory=list)
    files: int = 0
    left_out: int = 0
    """Files that are no text, too large, forbidden, or known under other names that may be outside."""
    ended_by: str | None = None

    @property
    def left(self) -> float:
        return self.until - time.monotonic()

    def goes_on(self) -> bool:
        """Whether there is time and room for more; says in `ended_by` what there is not."""
        if self.ended_by is not None:
            return False
        if self.context.cancel.is_set():
            self.ended_by = "the turn was cancelled"
        elif len(self.found) >= MOST_FOUND:
            self.ended_by = f"{MOST_FOUND} lines were found"
        elif self.files >= MOST_FILES:
            self.ended_by = f"{MOST_FILES:,} files were searched"
        elif self.left <= 0:
            self.ended_by = "the time was over"
        return self.ended_by is None


def _search(arguments: Arguments, context: ToolContext) -> str:
    wanted = text(arguments, "pattern")
    place = place_of(context.workspace, text(arguments, "path", "."))
    context.permit(may_read(place))
    return searched(place, Search(_compiled(wanted, literal=truth(arguments, "literal")), text(arguments, "glob", "*"), context, time.monotonic() + SECONDS))


def searched(place: Place, search: Search) -> str:
    """What is found at or below a place, a line each, and what may be missing. Raises `ToolFailed` where the place cannot be read."""
    with failing(place.name), closing(_files(place, search)) as files:
        for parent, name, found in files:
            _search_file(search, parent, name, found)
            if not search.goes_on():
                break
    return _told(search)


def _compiled(wanted: str, *, literal: bool) -> regex.Pattern[str]:
    if not wanted or len(wanted) > MAX_PATTERN:
        raise ToolFailed(f"argument 'pattern' must have 1 to {MAX_PATTERN:,} characters")
    try:
        return regex.compile(regex.escape(wanted) if literal else wanted, regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ToolFailed(f"argument 'pattern' is no regular expression: {error}; with literal=true it is taken as it is") from error


def _files(start: Place, search: Search) -> Generator[tuple[int, str, Place], None, None]:
    """Each plain file at or below a place, with a descriptor of its folder; no link is followed. Raises `OSError` for the place itself."""
    if start.parts and _is_file(start):
        with folder(Place(start.root, start.parts[:-1])) as parent:
            yield parent, start.parts[-1], start
        return
    waiting = [start]
    while waiting and search.goes_on():
        place = waiting.pop()
        try:
            with folder(place) as descriptor:
                found, _ = entries(descriptor, _MOST_ENTRIES)
                kinds = [(entry.name, _kind(entry)) for entry in found]
                for name, kind in kinds:
                    if kind == stat.S_IFREG and fnmatchcase(name, search.glob):
                        yield descriptor, name, place.below(name)
        except OSError:
            if place is start:
                raise
            continue  # not ours to read, or gone
        inner = [place.below(name) for name, kind in kinds if kind == stat.S_IFDIR and name not in SKIPPED and len(place.parts) < DEEPEST]
        waiting += [one for one in reversed(inner) if not is_of_the_system(one.root, os.path.join(one.root, *one.parts))]


def _is_file(place: Place) -> bool:
    with folder(Place(place.root, place.parts[:-1])) as parent:
        return stat.S_ISREG(os.stat(place.parts[-1], dir_fd=parent, follow_symlinks=False).st_mode)


def _kind(entry: os.DirEntry[str]) -> int:
    try:
        return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return 0


def _search_file(search: Search, parent: int, name: str, place: Place) -> None:
    search.files += 1
    content = None
    if search.context.permit.stands(may_read(place)):
        try:
            content = read_in(parent, name, place.name, most=MAX_FILE)
        except (ToolFailed, OSError):
            content = None
    if content is None or not search.context.permit.stands(may_read(place, names=content.names)):
        search.left_out += 1
        return
    found = decoded(content.data)
    if found is None:
        search.left_out += 1
        return
    try:
        _search_text(search, found, visible(place.name))
    except TimeoutError:
        search.ended_by = "the time was over; the pattern may be one that takes very long"


def _search_text(search: Search, found: str, name: str) -> None:
    """One line of output for each line in which a match begins."""
    position, number, counted = 0, 1, 0
    while position <= len(found) and search.goes_on():
        match = search.pattern.search(found, position, timeout=max(0.001, search.left), concurrent=True)
        if match is None:
            return
        number += found.count("\n", counted, match.start())
        counted = match.start()
        start, end = found.rfind("\n", 0, counted) + 1, found.find("\n", counted)
        end = len(found) if end < 0 else end
        if start < len(found) or not found:
            search.found.append(f"{name}:{number}: {_line(found[start:end], counted - start)}")
        position = end + 1


def _line(line: str, at: int) -> str:
    """A line, of a long one what is around the match."""
    if len(line) <= _LINE:
        return line.rstrip("\r")
    start = max(0, min(at - _LINE // 3, len(line) - _LINE))
    return f"{'…' if start else ''}{line[start : start + _LINE]}{'…' if start + _LINE < len(line) else ''}"


def _told(search: Search) -> str:
    remarks = []
    if search.ended_by is not None:
        remarks.append(f"[there may be more: {search.ended_by}; search a folder, or with another pattern]")
    if search.left_out:
        remarks.append(f"[{search.left_out:,} files were left out: no text, larger than {MAX_FILE // 1024:,} KiB, or not to be read]")
    return "\n".join([*search.found, *remarks] if search.found else [f"nothing found in {search.files:,} files", *remarks])


SEARCH = Tool(
    ToolSchema(
        "search",
        "Find lines in the files of the workspace by a regular expression. Folders such as .git and node_modules are searched only when named.",
        {
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "A regular expression."},
                "literal": {"type": "boolean", "description": "Take the pattern as plain text."},
                "path": {"type": "string", "description": "The folder or file to search; without it the whole workspace."},
                "glob": {"type": "string", "description": "Only files called so, such as *.py."},
            },
            "required": ["pattern"],
        },
    ),
    _search,
    parallel=True,
    on_request=True,
)
