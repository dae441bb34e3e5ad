"""Server-sent events out of bytes, cut anywhere."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event. No honest answer comes near; beyond it a broken server would fill the memory."""

_LINE_END = re.compile(rb"\r\n|\n|\r")


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
        self._pending = bytearray()
        self._searched = 0
        self._started = False
        self._data: list[str] = []
        self._size = 0
        self._name = ""

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that this chunk completes."""
        self._pending += chunk
        if not self._started:
            if len(self._pending) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(self._pending):
                return
            self._started = True
            if self._pending.startswith(codecs.BOM_UTF8):
                del self._pending[: len(codecs.BOM_UTF8)]
        for line in self._lines():
            yield from self._line(line.decode("utf-8", "replace"))
        if len(self._pending) + self._size > MAX_EVENT:
            raise EventTooLarge(f"one event has more than {MAX_EVENT} bytes")

    def close(self) -> Iterator[ServerEvent]:
        """What is left when the stream ends, its last line and blank line missing or not."""
        rest, self._pending, self._searched = bytes(self._pending), bytearray(), 0
        for line in rest.splitlines() if rest.strip() else ():
            yield from self._line(line.decode("utf-8", "replace"))
        yield from self._dispatch()

    def _lines(self) -> Iterator[bytes]:
        start = 0
        while found := _LINE_END.search(self._pending, max(start, self._searched)):
            if found.group() == b"\r" and found.end() == len(self._pending):
                break  # the LF that belongs to this CR may be in the next chunk
            yield bytes(self._pending[start : found.start()])
            start = found.end()
        del self._pending[:start]
        self._searched = max(0, len(self._pending) - 1)

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
        self._data, self._size, self._name = [], 0, ""
        if data.strip():
            yield ServerEvent(data, name)
