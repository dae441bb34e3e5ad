"""TOML text in which one key is changed and every other byte stays as it is.

The text is cut into statements only to find where a key stands. What comes of a change is read again with `tomllib` and must hold the old
values and the new one, else the change is refused: a file is edited rightly or not at all.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

Path = tuple[str, ...]
"""A key from the root of the file."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_KEY = re.compile(rf"({_DOTTED})[ \t]*=[ \t]*")
_HEADER = re.compile(rf"(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_LAST_PART = re.compile(rf"{_PART}$")
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_BLANK = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"[ \t]*")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' + r"|'''.*?'{3,5}" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'" + r"|#[^\n]*|[\[\]{},\n]" + r"|[^\"'#\[\]{},\n]+",
    re.DOTALL,
)


class Uneditable(ValueError):
    """The key cannot be changed without touching others; the text says why."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A line, or the lines of a value that takes several."""

    kind: Literal["header", "array", "entry", "comment", "blank"]
    start: int
    end: int
    """After its line ending."""
    path: Path = ()
    key: tuple[int, int] = (0, 0)
    value: tuple[int, int] = (0, 0)
    """Of an entry: where its key and its value stand; of a header, where it stands itself."""


def with_key(text: str, path: Path, value: object) -> str:
    """The text with that key set: its value replaced where it stands, else a line added to its table, else a table at the end.

    Raises `Uneditable`, and `ValueError` for text that is not TOML or a value that TOML cannot hold.
    """
    written = spelled(value)
    wanted = _with(_parsed(text), path, tomllib.loads(f"v = {written}")["v"])
    for candidate in _placings(text, path, written):
        if _holds(candidate, wanted):
            return candidate
    raise Uneditable(f"{'.'.join(path)} cannot be set without touching other keys")


def without_key(text: str, path: Path) -> str:
    """The text without that key, and without the table that held nothing else, not even a comment; the same text where there is no such key."""
    data = _parsed(text)
    if _lookup(data, path) is _ABSENT:
        return text
    wanted = _without(data, path)
    for candidate in _removals(text, path):
        if _holds(candidate, wanted, pruned=path):
            return candidate
    raise Uneditable(f"{'.'.join(path)} is not one value but a table; unset its keys one by one")


def spelled(value: object) -> str:
    """A value in TOML, on one line. Raises `ValueError` for what TOML has no spelling for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's spelling is TOML's too but for DEL; a lone surrogate is no text at all.
        value.encode("utf-8")
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_spelled_key((key,))} = {spelled(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(spelled, value))}]"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise ValueError(f"TOML has no spelling for {type(value).__name__}")


# -- where a key can go -------------------------------------------------------------------------------


def _placings(text: str, path: Path, written: str) -> Iterator[str]:
    statements = list(_statements(text))
    if (entry := _entry(text, statements, path)) is not None:
        yield text[: entry.value[0]] + written + text[entry.value[1] :]
        return
    if (holder := _inline_holder(text, statements, path)) is not None:
        yield _in_inline_table(text, holder, f"{_spelled_key(path[len(holder.path) :])} = {written}")
        return
    line = f"{_spelled_key(path[-1:])} = {written}"
    if len(path) == 1:
        yield _at_top(text, statements, line)
        return
    for index, statement in enumerate(statements):
        if statement.kind == "header" and statement.path == path[:-1]:
            section = _section(statements, index)
            yield _inserted(text, next((s for s in reversed(section) if s.kind == "entry"), statement), line)
    for sibling in reversed(statements):
        if sibling.kind == "entry" and sibling.path[:-1] == path[:-1]:
            yield _inserted(text, sibling, _LAST_PART.sub("", text[slice(*sibling.key)]) + line)
            break
    yield _in_new_table(text, f"[{_spelled_key(path[:-1])}]", line)


def _at_top(text: str, statements: Sequence[_Statement], line: str) -> str:
    """After the last key that stands before all tables; where there is none, before the first table and its comment, but below the file's own."""
    first = next((index for index, s in enumerate(statements) if s.kind in ("header", "array")), len(statements))
    last = next((s for s in reversed(statements[:first]) if s.kind == "entry"), None)
    if last is not None:
        return _inserted(text, last, line)
    if first == len(statements):
        return _inserted(text, statements[-1], line) if statements else line + "\n"
    table = first
    while first > 0 and statements[first - 1].kind == "comment":
        first -= 1
    if first == 0:  # what a file begins with speaks of the file; an editor looks for `#:schema` in its first lines
        while first < table and (not _is_directive(text, statements[0]) or _is_directive(text, statements[first])):
            first += 1
    at, eol = statements[first].start, _line_ending(text)
    return text[:at] + line + eol + eol + text[at:]


def _is_directive(text: str, statement: _Statement) -> bool:
    return text[statement.start : statement.end].lstrip("\ufeff").startswith("#:")


def _inserted(text: str, after: _Statement, line: str) -> str:
    """A line below a statement, indented as that is; the last line of a file keeps what it has of a line ending."""
    match = _INDENT.match(text, after.start)
    line = (match[0] if match and after.kind == "entry" else "") + line
    eol, before = _line_ending(text), text[: after.end]
    if before and not before.endswith("\n"):
        return before + eol + line
    return before + line + eol + text[after.end :]


def _in_new_table(text: str, header: str, line: str) -> str:
    eol = _line_ending(text)
    if not text:
        return header + eol + line + eol
    if text.endswith("\n"):
        return text + eol + header + eol + line + eol
    return text + eol + eol + header + eol + line


def _in_inline_table(text: str, holder: _Statement, entry: str) -> str:
    inner = list(_inline_entries(text, holder))
    if inner:
        at = inner[-1].value[1]
        return f"{text[:at]}, {entry}{text[at:]}"
    at = holder.value[0] + 1
    return text[:at] + entry + text[at:]


# -- taking a key away --------------------------------------------------------------------------------


def _removals(text: str, path: Path) -> Iterator[str]:
    statements = list(_statements(text))
    for index, statement in enumerate(statements):
        if statement.kind == "entry" and statement.path == path:
            yield _line_removed(text, statements, index)
    holder = _inline_holder(text, statements, path)
    if holder is not None:
        inner = list(_inline_entries(text, holder))
        for index, entry in enumerate(inner):
            if entry.path == path:
                start = inner[index - 1].value[1] if index else entry.start
                end = inner[1].start if not index and len(inner) > 1 else entry.value[1]
                yield text[:start] + text[end:]


def _line_removed(text: str, statements: Sequence[_Statement], index: int) -> str:
    """Without the line, and without what `with_key` would have put there for it: its table, or the blank line below the only key of the top."""
    gone = [index]
    head = next((i for i in range(index, -1, -1) if statements[i].kind in ("header", "array")), None)
    if head is None:
        first = next((i for i, s in enumerate(statements) if s.kind in ("header", "array")), None)
        alone = sum(s.kind == "entry" for s in statements[:first]) == 1
        if first is not None and alone and statements[index + 1].kind == "blank":
            gone.append(index + 1)
    elif _holds_only(text, statements, head, index):
        gone.append(head)
        if head > 0 and statements[head - 1].kind == "blank":
            gone.append(head - 1)
    kept = "".join(text[s.start : s.end] for i, s in enumerate(statements) if i not in gone)
    return kept.removesuffix("\n").removesuffix("\r") if not text.endswith("\n") and kept.endswith("\n") else kept


def _holds_only(text: str, statements: Sequence[_Statement], head: int, index: int) -> bool:
    """Whether a table holds nothing but that entry, not even a comment. One before its own tables was not put there for an entry: that would be behind them."""
    header = statements[head]
    if any(s.kind in ("header", "array") and s.path[: len(header.path)] == header.path for s in statements[head + 1 :]):
        return False
    rest = [s for s in _section(statements, head) if s is not statements[index]]
    return header.kind == "header" and not text[header.value[1] : header.end].strip() and all(s.kind == "blank" for s in rest)


# -- reading the text ---------------------------------------------------------------------------------


def _statements(text: str) -> Iterator[_Statement]:
    """The statements of valid TOML, in order, without gaps."""
    start, table = 0, Path()
    while start < len(text):
        at = _INDENT.match(text, start).end()  # type: ignore[union-attr]  # it matches nothing too
        line_end = text.find("\n", start) + 1 or len(text)
        header, key = _HEADER.match(text, at), _KEY.match(text, at)
        if header is not None:
            table = _parts(header[2])
            yield _Statement("array" if header[1] == "[[" else "header", start, line_end, table, value=header.span())
            # Keys below belong to one of many tables of this name: no path of ours leads there.
            table = (*table, "[]") if header[1] == "[[" else table
        elif key is not None:
            end, line_end = _value(text, key.end(), {"\n"})
            line_end = min(line_end + 1, len(text))
            yield _Statement("entry", start, line_end, (*table, *_parts(key[1])), key.span(1), (key.end(), end))
        else:
            yield _Statement("blank" if not text[start:line_end].strip() else "comment", start, line_end)
        start = line_end


def _inline_entries(text: str, holder: _Statement) -> Iterator[_Statement]:
    """The keys of an inline table."""
    stop = holder.value[0]
    while text[stop] != "}":
        at = _BLANK.match(text, stop + 1).end()  # type: ignore[union-attr]  # it matches nothing too
        key = _KEY.match(text, at)
        if key is None:
            return
        end, stop = _value(text, key.end(), {",", "}"})
        yield _Statement("entry", at, end, (*holder.path, *_parts(key[1])), key.span(1), (key.end(), end))


def _entry(text: str, statements: Sequence[_Statement], path: Path) -> _Statement | None:
    found = next((s for s in statements if s.kind == "entry" and s.path == path), None)
    if found is None and (holder := _inline_holder(text, statements, path)) is not None:
        found = next((s for s in _inline_entries(text, holder) if s.path == path), None)
    return found


def _inline_holder(text: str, statements: Sequence[_Statement], path: Path) -> _Statement | None:
    """The innermost inline table that the key belongs to."""
    holder = None
    candidates: Sequence[_Statement] = statements
    while True:
        found = next((s for s in candidates if s.kind == "entry" and len(s.path) < len(path) and path[: len(s.path)] == s.path), None)
        if found is None or text[found.value[0]] != "{":
            return holder
        holder, candidates = found, list(_inline_entries(text, found))


def _section(statements: Sequence[_Statement], head: int) -> Sequence[_Statement]:
    """What stands between a header and the next."""
    end = next((i for i in range(head + 1, len(statements)) if statements[i].kind in ("header", "array")), len(statements))
    return statements[head + 1 : end]


def _value(text: str, start: int, stops: set[str]) -> tuple[int, int]:
    """Where a value ends, and where the first of `stops` outside of it stands."""
    depth, end = 0, start
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if depth == 0 and token in stops:
            return end, match.start()
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if token.strip() and not token.startswith("#"):
            end = match.start() + len(token.rstrip())
    return end, len(text)


def _parts(dotted: str) -> Path:
    table: Any = tomllib.loads(f"{dotted} = 0")
    parts: list[str] = []
    while isinstance(table, dict):
        ((part, table),) = table.items()
        parts.append(part)
    return tuple(parts)


def _spelled_key(path: Path) -> str:
    return ".".join(part if _BARE.fullmatch(part) else spelled(part) for part in path)


def _line_ending(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


# -- what the text means ------------------------------------------------------------------------------

_ABSENT = object()


def _parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def _holds(text: str, wanted: dict[str, Any], *, pruned: Path = ()) -> bool:
    try:
        found = _parsed(text)
    except ValueError:
        return False
    return _same(_prune(found, pruned), wanted)


def _lookup(data: Any, path: Path) -> Any:
    for part in path:
        if not isinstance(data, dict) or part not in data:
            return _ABSENT
        data = data[part]
    return data


def _with(data: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    table = data
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise Uneditable(f"{part} is no table, so {'.'.join(path)} cannot be set")
    table[path[-1]] = value
    return data


def _without(data: dict[str, Any], path: Path) -> dict[str, Any]:
    data = deepcopy(data)
    del _lookup(data, path[:-1])[path[-1]]
    return _prune(data, path)


def _prune(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """Without the empty tables on the way to that key."""
    for length in range(len(path) - 1, 0, -1):
        if _lookup(data, path[:length]) == {}:
            del _lookup(data, path[: length - 1])[path[length - 1]]
    return data


def _same(one: Any, other: Any) -> bool:
    """Equal in types too: TOML tells 1, 1.0 and true apart."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(item, other[key]) for key, item in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (isinstance(one, float) and math.isnan(one) and math.isnan(other))
