"""The log: what the program did, one JSON object a line, for when something is wrong. Prompts and answers are not in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from orchestrator.clock import Clock, format_time
from orchestrator.store.files import PRIVATE_FILE, make_folder

MAX_BYTES = 1_000_000
"""Of one file, give or take the last entry."""
FILES = 3
"""How many are kept, the one that is written counted."""
_MAX_TEXT = 4_000
_MAX_TRACEBACK = 40_000
_MOST_HELD = 100
_WAIT = 0.2
"""Seconds for another process that is just putting the full file aside."""


class Log(Protocol):
    """Takes note of an event and what there is to know about it; never raises."""

    def __call__(self, event: str, /, **facts: object) -> None: ...


def no_log(event: str, /, **facts: object) -> None:
    """Keeps nothing."""


class Logbook:
    """A log file that several processes append to: each entry is one write. What cannot be written is lost, and harms nobody."""

    def __init__(
        self,
        file: Path | None,
        clock: Clock,
        *,
        mask: Callable[[str], str],
        tell: Callable[[str], None] | None = None,
        begins: Callable[[], bool] = lambda: True,
    ) -> None:
        """`file` is `None` where nothing shall be written; `mask` takes secrets out of a text; `tell` is given each entry to be read by people.

        Until `begins` says so, entries are held back: a command that comes to nothing makes no folder.
        """
        self.file = file
        self._clock, self._mask, self._tell, self._begins = clock, mask, tell, begins
        self._held: list[bytes] = []

    def __call__(self, event: str, /, **facts: object) -> None:
        self.keep(event, **facts)

    def keep(self, event: str, /, **facts: object) -> bool:
        """As calling it; whether it stands in the file."""
        known = {name: self._told(value) for name, value in facts.items() if value is not None}
        entry = {"at": format_time(self._clock.now()), "pid": os.getpid(), "event": event, **known}
        if self._tell is not None:
            self._tell(readable(entry))
        if self.file is None:
            return False
        self._held.append((json.dumps(entry, ensure_ascii=True) + "\n").encode())
        if not (self._begins() or event == "crash"):
            del self._held[:-_MOST_HELD]
            return False
        held, self._held = self._held, []
        try:
            self._append(self.file, b"".join(held))
        except OSError:
            return False
        return True

    def _told(self, value: object) -> Any:  # any JSON value
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, str):
            masked = self._mask(value)
            most = _MAX_TRACEBACK if masked.startswith("Traceback") else _MAX_TEXT
            return masked if len(masked) <= most else f"{masked[: most // 2]} […] {masked[-most // 2 :]}"
        if isinstance(value, Mapping):
            return {str(key): self._told(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._told(item) for item in value]
        return self._told(str(value))

    def _append(self, file: Path, line: bytes) -> None:
        try:
            descriptor = _opened(file)
        except FileNotFoundError:
            make_folder(file.parent)
            descriptor = _opened(file)
        try:
            os.write(descriptor, line)  # as one: with O_APPEND no other process's entry comes between
            is_full = os.fstat(descriptor).st_size > MAX_BYTES
        finally:
            os.close(descriptor)
        if is_full:
            _put_aside(file)


def _opened(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)


def _put_aside(file: Path) -> None:
    """Begin a new file: one process at a time, and only if none was quicker; whoever has the old one open still writes to its end."""
    from filelock import FileLock, Timeout

    with suppress(Timeout), FileLock(file.with_name(f"{file.name}.lock"), timeout=_WAIT, mode=PRIVATE_FILE):
        if file.stat().st_size <= MAX_BYTES:
            return
        for number in range(FILES - 1, 0, -1):
            before = older(file, number - 1)
            if before.exists():
                before.replace(older(file, number))


def older(file: Path, number: int) -> Path:
    """The log's file that was put aside so many times ago; 0 is the one that is written."""
    return file if number == 0 else file.with_name(f"{file.name}.{number}")


def tail(file: Path, most: int) -> bytes:
    """Whole lines from the log's end, at most so many bytes; also from the files that were put aside. Raises `OSError`."""
    content = b""
    for number in range(FILES):
        part = older(file, number)
        if len(content) < most and part.exists():
            content = part.read_bytes() + content
    if len(content) <= most:
        return content
    return content[-most:].partition(b"\n")[2]


def readable(entry: Mapping[str, Any]) -> str:
    """An entry for people: the time of day, the event, and what is known of it; a traceback stands on lines of its own."""
    facts = {name: value for name, value in entry.items() if name not in ("at", "pid", "event", "traceback")}
    line = " ".join([f"[{entry['at'][11:23].rstrip('Z')}]", str(entry["event"]), *(f"{name}={_short(value)}" for name, value in facts.items())])
    return f"{line}\n{entry['traceback'].rstrip()}" if "traceback" in entry else line


def _short(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value and "\n" not in value else json.dumps(value, ensure_ascii=False)
