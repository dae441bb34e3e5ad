"""Server-sent events out of bytes, cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from escalera_openrouter.json_text import Nesting

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event. No honest answer comes near; beyond it a broken server would fill the memory."""


_NOISE_MAX = 2000
_FIELD = re.compile(r"(data|event|id|retry|error)?:")
_BARE = re.compile(r"\s*(\{|\[\s*(\{|$))")
"""How a line begins that begins a bare document."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its data lines joined by a newline, and its name where it had one."""

    data: str
    name: str = ""


class EventTooLarge(ValueError):
    """An event above `MAX_EVENT`."""


class EventParser:
    """Bytes in, whole events out, by the rules of the HTML standard's event streams.

    Some things go beyond it, since servers need them: the last event counts without its blank line, and so does one behind which another
    document or `[DONE]` begins, a bare JSON object or
    list of them is an event of its own, be it on one line or indented (some gateways write their errors like that), the lines
    of indented JSON behind a `data:` belong to it, and a field `error:` is an event of that name (older llama.cpp).
    """

    def __init__(self) -> None:
        self._after_cr = False
        """Whether the last byte ended a line as CR: an LF right behind it belongs to it."""
        self._pending: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._bare: list[str] = []
        """Of a bare document that is not whole yet."""
        self._loose: list[str] = []
        """Lines behind a `data:` that may belong to it."""
        self._nesting = Nesting()
        self.noise = ""
        """The beginning of what is nothing of an event stream."""
        self._size = 0
        """Of what is kept of an event that is not whole."""

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that this chunk completes."""
        lines = self._whole_lines(chunk)
        at, end = 0, len(lines)
        while at < end:
            line, at = lines[at], at + 1
            if at < end and not lines[at] and line.startswith("data: ") and self._is_between:  # a whole event, as nearly all come: the shortest way
                at += 1
                if not (data := line[6:]).isspace() and data:
                    yield ServerEvent(data)
            else:
                yield from self._line(line)
        if self._size > MAX_EVENT:
            raise EventTooLarge(f"one event has more than {MAX_EVENT} bytes")

    def close(self) -> Iterator[ServerEvent]:
        """What is left when the stream ends, its last line and blank line missing or not."""
        rest, self._pending = b"".join(self._pending), []
        if rest:
            yield from self._line(rest.decode("utf-8", "replace"))
        yield from self._end_bare()
        yield from self._dispatch()

    @property
    def _is_between(self) -> bool:
        """Whether nothing is kept of an event or a bare document that has begun."""
        return not (self._data or self._name or self._loose or self._bare)

    def _whole_lines(self, chunk: bytes) -> list[str]:
        """The lines that this chunk ends, without their ends; what it begins is kept. Decoded together, since one by one takes twice the time."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        whole, ended, rest = chunk.rpartition(b"\n")
        self._size += len(rest)
        if not ended:
            self._pending.append(rest)
            return []
        text = b"".join((*self._pending, whole)).decode("utf-8", "replace")
        self._size -= sum(map(len, self._pending))
        self._pending = [rest]
        return text.split("\n")

    def _line(self, line: str) -> Iterator[ServerEvent]:
        line = line.lstrip("\ufeff")  # also in the middle: gateways put bodies one after the other
        if self._bare and not _FIELD.match(line):
            yield from self._bare_line(line)
            return
        yield from self._end_bare()
        if not line:
            yield from self._dispatch()
        elif _BARE.match(line) and not (self._data and line[0].isspace()):
            yield from self._dispatch()
            yield from self._bare_line(line)
        else:
            yield from self._field(line)

    def _bare_line(self, line: str) -> Iterator[ServerEvent]:
        if not self._bare:
            self._nesting = Nesting()
        self._bare.append(line)
        self._size += len(line)
        self._nesting.feed(line)
        if self._nesting.whole:
            yield from self._end_bare()

    def _end_bare(self) -> Iterator[ServerEvent]:
        """Give the bare document, be it whole or broken off by a field of the stream."""
        lines, self._bare = self._bare, []
        self._size -= sum(map(len, lines))
        if lines:
            yield ServerEvent("\n".join(lines))

    def _field(self, line: str) -> Iterator[ServerEvent]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            if self._data and self._begins_anew(value):
                yield from self._dispatch()
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._name = value
        elif field == "error":
            yield from self._dispatch()
            yield ServerEvent(value, "error")
        elif any(known.startswith(field) for known in ("data", "event", "id", "retry")):
            pass  # of no use to us, a comment, or cut off
        elif self._data:
            self._loose.append(line)
            self._size += len(line)
        else:
            self.noise = (self.noise + line + "\n")[:_NOISE_MAX]

    def _begins_anew(self, value: str) -> bool:
        """Whether a further data line belongs to no document that was begun: some servers leave the blank line out."""
        if value.strip() == "[DONE]":
            return True
        if len(self._data) > 1 or not value.startswith(("{", "[")) or not self._data[0].startswith(("{", "[")):
            return False
        nesting = Nesting()
        nesting.feed(self._data[0])
        return nesting.whole

    def _dispatch(self) -> Iterator[ServerEvent]:
        data, name, loose = "\n".join(self._data), self._name, self._loose
        self._size -= sum(map(len, (*self._data, *loose)))
        self._data, self._name, self._loose = [], "", []
        if not data or data.isspace():
            return
        if loose and data.startswith(("{", "[")):
            nesting = Nesting()
            nesting.feed(data)
            data = data if nesting.whole else "\n".join((data, *loose))
        yield ServerEvent(data, name)
