"""What Claude Code notes in its log about requests that it sends again: no line of its output tells of these."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.errors import Overloaded, Transient, Unavailable

_STREAM = re.compile(rb"\S+ \[WARN\] (?:(Mid-stream 529)|Stream connection|Stream idle timeout) .*(?:retrying streaming \(\d+/\d+\)|retrying without it)\s*")
_SECOND_WAY = re.compile(rb"\S+ \[(?:WARN|ERROR)\] (?:Error streaming|Streaming endpoint returned 404), falling back to non-streaming mode\b.*", re.DOTALL)
_AT_ONCE = 1024 * 1024
"""Bytes of one reading; what is behind them is read with the next."""


@dataclass(frozen=True, slots=True)
class Note:
    """A request that is about to be sent again."""

    error: type[Transient]
    """What became of the one before."""
    second_way: bool = False
    """Whether it goes without a stream, and at once."""

    @property
    def waits(self) -> bool:
        """Whether there is time to stop it: after an overload it is half a second at least, after a lost connection a tenth."""
        return self.error is Overloaded


class RepeatLog:
    """The log of one child, read as it grows. It is written before what it tells of is done (seen with 2.1.197)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read_to = 0
        self.count = 0
        """How many notes this turn has had."""
        self.second_way = False
        """Whether the second way was taken last; whoever sees the next request begin says that it was not for that one."""

    def begin(self) -> None:
        """A turn begins: what stands there belongs to earlier ones."""
        with suppress(OSError):
            self._read_to = os.stat(self._path).st_size
        self.count, self.second_way = 0, False

    def new(self) -> list[Note]:
        """What came since the last look; nothing where there is no log."""
        notes = [note for line in self._new_lines() if (note := _note(line)) is not None]
        self.count += len(notes)
        self.second_way = notes[-1].second_way if notes else self.second_way
        return notes

    def _new_lines(self) -> list[bytes]:
        try:
            with open(self._path, "rb") as log:
                log.seek(self._read_to)
                data = log.read(_AT_ONCE)
        except OSError:
            return []
        whole = data.rfind(b"\n") + 1 or (len(data) if len(data) == _AT_ONCE else 0)
        self._read_to += whole
        return data[:whole].split(b"\n")


def _note(line: bytes) -> Note | None:
    if stream := _STREAM.fullmatch(line):
        return Note(Overloaded if stream[1] else Unavailable)
    return Note(Unavailable, second_way=True) if _SECOND_WAY.fullmatch(line) else None
