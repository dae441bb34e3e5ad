"""Sees what code opens: connections, programs, files that are written."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_OPENINGS = {
    "socket.connect": "connects to {1}",
    "socket.getaddrinfo": "looks up {0}",
    "socket.sendto": "sends to {1}",
    "subprocess.Popen": "starts {0}",
    "os.posix_spawn": "starts {0}",
    "os.exec": "starts {0}",
    "os.system": "runs {0}",
    "os.fork": "forks",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@functools.cache
def the_watch() -> Watch:
    """The one of this process: Python never takes an audit hook away again, and each one costs every event something."""
    return Watch()


class Watch:
    """An audit hook, deaf but while it watches."""

    def __init__(self) -> None:
        self._seen: list[str] | None = None
        sys.addaudithook(self._told)

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        """What is opened in the meantime, in words."""
        seen: list[str] = []
        self._seen = seen
        try:
            yield seen
        finally:
            self._seen = None

    def _told(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._seen is None:
            return
        if event in _OPENINGS:
            self._seen.append(_OPENINGS[event].format(*arguments))
        elif event == "open" and _writes(arguments[0], arguments[2]):
            self._seen.append(f"writes {arguments[0]}")


def _writes(path: object, flags: object) -> bool:
    """Compiled modules are Python's own affair."""
    return isinstance(path, str) and isinstance(flags, int) and bool(flags & _WRITING) and "__pycache__" not in path and path != os.devnull
