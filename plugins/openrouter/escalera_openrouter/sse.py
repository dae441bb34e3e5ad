"""Server-sent events out of bytes, cut anywhere."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event. No honest answer comes near; beyond it a broken server would fill the memory."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its data lines joined by a newline, and its name where it had one."""

    data: str
    name: str = ""


class EventTooLarge(ValueError):
    """An event above `MAX_EVENT`."""


class EventParser:
    """Bytes in, whole events out, by the rules of the HTML standard's event streams.

    Two things go beyond it, since servers need them: the last event counts without its blank line, and a line
    that is a bare JSON object is an event of its own (some gateways write their errors like that).
    """

    def __init__(self) -> None:
        self._begin: bytes | None = b""
        """The first bytes, until they show whether they are a mark of the byte order."""
        self._after_cr = False
        """Whether the last byte ended a line as CR: an LF right behind it belongs to it."""
        self._pending: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._size = 0
        """Of what is kept of an event that is not whole."""

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that this chunk completes."""
        for line in self._whole_lines(self._without_mark(chunk)):
            yield from self._line(line)
        if self._size > MAX_EVENT:
            raise EventTooLarge(f"one event has more than {MAX_EVENT} bytes")

    def close(self) -> Iterator[ServerEvent]:
        """What is left when the stream ends, its last line and blank line missing or not."""
        rest, self._pending = b"".join(self._pending), []
        yield from self._line(rest.decode("utf-8", "replace"))
        yield from self._line("")

    def _without_mark(self, chunk: bytes) -> bytes:
        if self._begin is None:
            return chunk
        self._begin += chunk
        if len(self._begin) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(self._begin):
            return b""
        begin, self._begin = self._begin, None
        return begin.removeprefix(codecs.BOM_UTF8)

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
        if not line:
            yield from self._dispatch()
            return
        if line.startswith("{"):
            yield from self._dispatch()
            yield ServerEvent(line)
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._name = value

    def _dispatch(self) -> Iterator[ServerEvent]:
        data, name = "\n".join(self._data), self._name
        self._size -= sum(map(len, self._data))
        self._data, self._name = [], ""
        if data and not data.isspace():
            yield ServerEvent(data, name)
