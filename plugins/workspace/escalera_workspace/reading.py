"""`read_file` and `list_dir`."""

from __future__ import annotations

import os
import stat

from escalera_workspace.arguments import Arguments, text, whole
from escalera_workspace.places import Content, Place, decoded, entries, failing, folder, lines_of, place_of, read, visible
from orchestrator.providers import ToolSchema
from orchestrator.tools import Act, Tool, ToolContext, ToolFailed

PAGE = 8000
"""Characters of a page where the agent's results have no limit of their own."""
MOST_ENTRIES = 1000
_HEAD_ROOM = 200
"""Characters for the line above a page."""
_MOST_LINES = 10**9


def _read_file(arguments: Arguments, context: ToolContext) -> str:
    place = place_of(context.workspace, text(arguments, "path"))
    first = whole(arguments, "offset", 1, least=1, most=_MOST_LINES)
    most = whole(arguments, "limit", _MOST_LINES, least=1, most=_MOST_LINES)
    content = read_with_permission(place, context)
    found = decoded(content.data)
    if found is None:
        raise ToolFailed(f"{place.name} is no text: {len(content.data):,} bytes with NUL among them")
    room = max(1, (context.result_chars or PAGE) - _HEAD_ROOM)
    return _page(place.name, lines_of(found.removeprefix("\ufeff")), first, most, room)


def read_with_permission(place: Place, context: ToolContext) -> Content:
    """What a file holds, where the rules let it be read and the user does where they say to ask. Raises `ToolFailed`."""
    context.permit(may_read(place))
    content = read(place)
    if content is None:
        raise ToolFailed(f"there is no file {place.name}")
    if content.names > 1:
        context.permit(may_read(place, names=content.names))
    return content


def may_read(place: Place, *, names: int = 1) -> Act:
    """Reading is allowed where no rule says otherwise; for a file that may as well lie outside the workspace the user is asked."""
    note = (f"This file has {names} names (hard links), and the others may be outside the workspace.",) if names > 1 else ()
    return Act("read", place.name, f"={place.name}", notes=note, asks=names > 1)


def _page(name: str, lines: list[str], first: int, most: int, room: int) -> str:
    """As many lines from `first` on as there is room for, and where to go on."""
    if not lines:
        return f"{name} is empty"
    if first > len(lines):
        raise ToolFailed(f"{name} has {len(lines):,} lines; there is no line {first:,}")
    shown: list[str] = []
    for line in lines[first - 1 : first - 1 + most]:
        if shown and len(line) > room:
            break
        shown.append(line if len(line) <= room else f"{line[:room]}… ({len(line.rstrip()) - room:,} more characters in this line)\n")
        room -= len(line)
        if room <= 0:
            break
    last = first - 1 + len(shown)
    more = f"; go on with offset={last + 1}" if last < len(lines) else ""
    head = "" if first == 1 and not more else f"[{name}: lines {first:,} to {last:,} of {len(lines):,}{more}]\n"
    return head + "".join(shown)


def _list_dir(arguments: Arguments, context: ToolContext) -> str:
    place = place_of(context.workspace, text(arguments, "path", "."))
    context.permit(may_read(place))
    with failing(place.name):
        try:
            with folder(place) as descriptor:
                found, more = entries(descriptor, MOST_ENTRIES)
                lines = [_line(entry) for entry in found]
        except FileNotFoundError as error:
            raise ToolFailed(f"there is no folder {place.name}") from error
    if more:
        lines.append(f"… and more than these {MOST_ENTRIES:,}; `search` finds what you look for")
    return "\n".join(lines) or f"{place.name} is empty"


def _line(entry: os.DirEntry[str]) -> str:
    """A name on a line of its own, whatever is in it, with what it is."""
    name = visible(entry.name)
    try:
        seen = entry.stat(follow_symlinks=False)
    except OSError:  # gone since
        return name
    if stat.S_ISDIR(seen.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(seen.st_mode):
        return f"{name} (a link)"
    return f"{name} ({seen.st_size:,} bytes)" if stat.S_ISREG(seen.st_mode) else f"{name} (no file)"


READ_FILE = Tool(
    ToolSchema(
        "read_file",
        "Read a text file of the workspace, from line `offset` on; a long one comes in pages.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Relative to the workspace."},
                "offset": {"type": "integer", "description": "The first line, counted from 1."},
                "limit": {"type": "integer", "description": "How many lines at most."},
            },
            "required": ["path"],
        },
    ),
    _read_file,
    parallel=True,
    on_request=True,
)
LIST_DIR = Tool(
    ToolSchema(
        "list_dir",
        "List a folder of the workspace.",
        {"type": "object", "properties": {"path": {"type": "string", "description": "Relative to the workspace; without it the workspace itself."}}},
    ),
    _list_dir,
    parallel=True,
    on_request=True,
)
