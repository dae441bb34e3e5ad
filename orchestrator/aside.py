"""What code of strangers prints: it goes to stderr, since what stands on stdout is the answer and nothing else (page 6)."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any, TextIO, cast


class Aside:
    """A context in which what this thread prints goes to stderr. Contexts of several threads may end in any order."""

    def __enter__(self) -> None:
        self._divided = _Divided(sys.stdout, threading.get_ident())
        sys.stdout = cast("TextIO", self._divided)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._divided.over = True
        while isinstance(sys.stdout, _Divided) and sys.stdout.over:
            sys.stdout = sys.stdout.stdout


class _Divided:
    """Standard output for all threads but one, whose words go to stderr."""

    def __init__(self, stdout: TextIO, thread: int) -> None:
        self.stdout, self._thread = stdout, thread
        self.over = False

    def __getattr__(self, name: str) -> Any:  # whatever a stream has
        aside = not self.over and threading.get_ident() == self._thread
        return getattr(sys.stderr if aside else self.stdout, name)
