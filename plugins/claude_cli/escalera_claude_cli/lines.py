"""Bytes of the CLI's standard output in, JSON objects out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orchestrator.messages import is_too_deep

MAX_LINE = 64 * 1024 * 1024
"""Bytes. A picture that is read comes twice in base64 on one line, so megabytes are ordinary; a longer line is skipped."""

ESCAPES = re.compile(r"(?:\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\^_]|[\s\ufeff])+")
"""Terminal sequences (window titles, colours), a byte order mark and blanks: what may stand around an object."""

Line = dict[str, Any]
"""One JSON object of the CLI; its fields are checked where they are used."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Something on standard output that is no JSON object."""

    text: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that was longer than the cap."""

    size: int


class LineReader:
    """Cuts at `\\n` and nowhere else, holding back an unfinished line; what is left at the end was cut off and counts for nothing."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._pending: list[bytes] = []
        self._size = 0
        self._too_long = False

    def feed(self, data: bytes) -> Iterator[Line | Noise | Skipped]:
        """Take the next bytes, wherever they were cut, and give what became whole with them."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._hold(end)
            yield from self._complete()
        self._hold(rest)

    def rest(self) -> Iterator[Line | Noise | Skipped]:
        """What stood on the last line, without its end."""
        yield from self._complete()

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_line:
            self._too_long = True
            self._pending.clear()
        elif piece:
            self._pending.append(piece)

    def _complete(self) -> Iterator[Line | Noise | Skipped]:
        line, size, too_long = b"".join(self._pending), self._size, self._too_long
        self._pending, self._size, self._too_long = [], 0, False
        if too_long:
            yield Skipped(size)
        else:
            yield from parse_line(line.decode("utf-8", "replace"))


def parse_line(line: str) -> Iterator[Line | Noise]:
    """The objects on one line, several in a row if they stand so (seen in public), and the first thing that is none."""
    decoder = json.JSONDecoder()
    position = _after_escapes(line, 0)
    while position < len(line):
        try:
            value, position = decoder.raw_decode(line, position)
        except (ValueError, RecursionError):
            yield Noise(line[position:])
            return
        if is_too_deep(value, line):
            yield Noise(line)
            return
        yield value if isinstance(value, dict) else Noise(str(value))
        position = _after_escapes(line, position)


def _after_escapes(line: str, position: int) -> int:
    found = ESCAPES.match(line, position)
    return found.end() if found else position
