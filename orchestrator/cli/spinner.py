"""One line on the terminal that tells what is awaited, and since when."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from orchestrator.cli.output import ReaderGone, write
from orchestrator.errors import OutputFailed
from orchestrator.terminal import clean

TICK = 0.1
_CLEARED = "\r\x1b[2K"


def frame(seconds: float, encoding: str | None) -> str:
    """What turns, as far as it has turned by then."""
    frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if (encoding or "").lower().startswith("utf") else "|/-\\"
    return frames[int(seconds / TICK) % len(frames)]


def elapsed(seconds: float) -> str:
    """As `1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Spinner:
    """Drawn on stderr by a thread of its own, from `start` to `stop`, which leaves no trace of it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, text: str) -> None:
        """Draw this; what was drawn until then goes."""
        self.stop()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._draw, args=(text, self._monotonic(), self._stopped), name="spinner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._stopped.set()
            self._thread.join()
            self._thread = None

    def _draw(self, text: str, began: float, stopped: threading.Event) -> None:
        with suppress(ReaderGone, OutputFailed):
            while True:
                seconds = self._monotonic() - began
                line = f"{frame(seconds, sys.stderr.encoding)} {clean(text, keep_newlines=False)} {elapsed(seconds)}"
                write(sys.stderr, _CLEARED + line[: _width() - 1])
                if stopped.wait(TICK):
                    break
            write(sys.stderr, _CLEARED)


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
