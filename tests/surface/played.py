"""The program on a terminal that is looked at: what is typed, and the screen as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

from .conftest import PROGRAM, Shell

_OWN_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Lets Ctrl-C and a change of the terminal's size reach the program."""
SCREENS = Path(__file__).parent / "screens"
_SPINNER = re.compile(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] (.*) \d+:\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_LEFT = re.compile(r"\(\d+:\d\d left")
PATIENCE = 30.0
"""Seconds until something that should be on the screen counts as missing."""


class Played:
    """One run of the program on a terminal of its own; a context manager."""

    def __init__(
        self, shell: Shell, *arguments: str, columns: int = 80, rows: int = 24, environ: Mapping[str, str] | None = None, program: str = PROGRAM
    ) -> None:
        self.got = b""
        """Everything that the terminal got, as it came."""
        self._screen = pyte.HistoryScreen(columns, rows, history=20_000)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        self._set_size(columns, rows)
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", _OWN_TERMINAL, program, *arguments],
            cwd=shell.cwd,
            env=shell.environ | {"TERM": "xterm-256color"} | dict(environ or {}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    def type(self, text: str) -> None:
        data = text.encode()
        while data:
            self._take(0.0)
            data = data[os.write(self._ours, data[:4096]) :]

    def say(self, line: str) -> None:
        self.type(f"{line}\r")

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self._set_size(columns, rows)
        self._screen.resize(rows, columns)

    def hang_up(self) -> None:
        """Close the terminal."""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    @property
    def screen(self) -> str:
        """What is seen now, without blanks at the ends."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def scrolled(self) -> str:
        """What has scrolled away, and below it what is seen."""
        above = ["".join(line[column].data for column in range(self._screen.columns)).rstrip() for line in self._screen.history.top]
        return "\n".join([*above, self.screen])

    def looks_like(self, name: str) -> None:
        """Compare the screen with the one that is kept under that name; with ESCALERA_WRITE_SCREENS set it is kept from now on."""
        path = SCREENS / f"{name}.txt"
        if os.environ.get("ESCALERA_WRITE_SCREENS"):
            while select.select([self._ours], [], [], 0.5)[0] and self._take(0.0):
                pass
            path.parent.mkdir(exist_ok=True)
            path.write_text(self._steady(), "utf-8")
        kept, deadline = path.read_text("utf-8"), time.monotonic() + 5
        while self._steady() != kept and time.monotonic() < deadline:
            self._take(0.1)  # the last of it may be on its way
        assert self._steady() == kept

    def _steady(self) -> str:
        """The screen without what is another time each time."""
        return _LEFT.sub("(0:00 left", _TIME.sub("TIME", _SPINNER.sub(r"* \1 0:00", self.screen))) + "\n"

    def until(self, seen: str | Callable[[str], bool], *, times: int = 1) -> str:
        """Wait until that stands on the screen or above it: all of it."""
        found = seen if callable(seen) else lambda text: text.count(seen) >= times
        deadline = time.monotonic() + PATIENCE
        while not found(self.scrolled):
            if time.monotonic() > deadline or not self._take(0.1):
                raise AssertionError(f"{seen!r} did not come; on the screen:\n{self.scrolled}")
        return self.scrolled

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        deadline = time.monotonic() + PATIENCE
        while self._take(0.1) and time.monotonic() < deadline:
            pass
        return self.process.wait(timeout=10)

    def _take(self, seconds: float) -> bool:
        """What has come by now; false when the program has gone."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return self.process.poll() is None or seconds == 0.0
        try:
            block = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side has gone
            return False
        self.got += block
        self._stream.feed(block)
        return bool(block)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
