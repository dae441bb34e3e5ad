"""`write_file` and `edit_file`: nothing is written but what the user has seen and allowed."""

from __future__ import annotations

from dataclasses import dataclass

from escalera_workspace.arguments import Arguments, text, truth
from escalera_workspace.changes import difference, tally
from escalera_workspace.places import Content, Place, place_of, read, replace
from escalera_workspace.reading import may_read
from orchestrator.providers import ToolSchema
from orchestrator.tools import Act, Tool, ToolContext, ToolFailed

MAX_TEXT = 1024 * 1024
"""Bytes that are written at once."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What a file held, and is to hold."""

    place: Place
    before: Content | None
    old: str
    new: str


def _write_file(arguments: Arguments, context: ToolContext) -> str:
    place = _file(arguments, context)
    new = text(arguments, "content")
    before = read(place)
    return _carried_out(_Change(place, before, "" if before is None else _shown(before), new), context)


def _edit_file(arguments: Arguments, context: ToolContext) -> str:
    place = _file(arguments, context)
    old, new, everywhere = text(arguments, "old_text"), text(arguments, "new_text"), truth(arguments, "all")
    context.permit(may_read(place))
    before = read(place)
    if before is None:
        raise ToolFailed(f"there is no file {place.name}; write_file makes one")
    if before.names > 1:  # before anything is said of what it holds
        context.permit(may_read(place, names=before.names))
    found = _exact(place, before)
    if "\r\n" in found and "\n" not in found.replace("\r\n", ""):  # its lines end as the model does not write them
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    _require_found(place, found, old, everywhere=everywhere)
    return _carried_out(_Change(place, before, found, found.replace(old, new)), context)


def _file(arguments: Arguments, context: ToolContext) -> Place:
    place = place_of(context.workspace, text(arguments, "path"))
    if not place.parts:
        raise ToolFailed(". is the workspace itself, not a file")
    return place


def _require_found(place: Place, found: str, old: str, *, everywhere: bool) -> None:
    times = found.count(old) if old else 0
    if not times:
        raise ToolFailed(f"old_text does not stand in {place.name} as it is given; read the file, and copy the lines exactly" if old else "old_text is empty")
    if times > 1 and not everywhere:
        raise ToolFailed(f"old_text stands in {place.name} {times:,} times; give more of the lines around it, or all=true")


def _carried_out(change: _Change, context: ToolContext) -> str:
    place, before = change.place, change.before
    data = _encoded(change.new)
    if before is not None and before.data == data and before.names == 1:
        return f"{place.name} holds that already; nothing was written"
    if before is not None and not before.mode & 0o222:
        raise ToolFailed(f"{place.name} is read-only")
    context.permit(_act(change))
    replace(place, data, before)
    return f"{place.name} {'made' if before is None else 'changed'}: {tally(change.old, change.new)}"


def _act(change: _Change) -> Act:
    place, before = change.place, change.before
    notes = []
    if before is None:
        notes.append("The file is new.")
    elif before.names > 1:
        notes.append(f"The file has {before.names} names (hard links); the others keep what it holds now.")
    return Act("write", place.name, _pattern(place), difference(change.old, change.new) or "(empty)", notes=tuple(notes))


def _pattern(place: Place) -> str:
    """All that is in its folder and below; at the top of the workspace, or where anything is hidden, this file alone."""
    *above, _ = place.parts
    hidden = any(part.startswith(".") for part in place.parts)
    special = any(letter in part for part in above for letter in "*?[")
    return f"={place.name}" if not above or hidden or special else f"{'/'.join(above)}/**"


def _encoded(new: str) -> bytes:
    try:
        data = new.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailed("that is no proper text: it has half a character (a lone surrogate) in it") from error
    if len(data) > MAX_TEXT:
        raise ToolFailed(f"that is {len(data):,} bytes; at most {MAX_TEXT:,} are written at once")
    return data


def _exact(place: Place, before: Content) -> str:
    """The text of a file that can be changed without losing a byte."""
    try:
        if b"\0" not in before.data:
            return before.data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise ToolFailed(f"{place.name} is no text in UTF-8, and is not changed in parts")


def _shown(before: Content) -> str:
    """What is shown of a file that is replaced; of one that is no text, that it goes."""
    if b"\0" in before.data:
        return f"({len(before.data):,} bytes that are no text)\n"
    return before.data.decode("utf-8", "backslashreplace")


WRITE_FILE = Tool(
    ToolSchema(
        "write_file",
        "Make a file of the workspace, or replace all that is in it. The user is shown the change and asked first.",
        {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Relative to the workspace."}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    ),
    _write_file,
    on_request=True,
)
EDIT_FILE = Tool(
    ToolSchema(
        "edit_file",
        "Replace a part of a file of the workspace. The user is shown the change and asked first.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Relative to the workspace."},
                "old_text": {"type": "string", "description": "What stands there now, exactly, with enough around it to be the only such place."},
                "new_text": {"type": "string", "description": "What shall stand there instead."},
                "all": {"type": "boolean", "description": "Replace it wherever it stands."},
            },
            "required": ["path", "old_text", "new_text"],
        },
    ),
    _edit_file,
    on_request=True,
)
