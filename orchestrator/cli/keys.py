"""A line typed at a terminal, read key by key: what is there of it is known before Enter ends it."""

from __future__ import annotations

import codecs
import os
import re
import select
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orchestrator.cli.output import write
from orchestrator.terminal import clean

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
"""What arrows and the like send."""
_ENTER, _END, _ERASE, _ERASE_ALL, _ERASE_WORD = "\r\n", "\x04", "\x7f\b", "\x15", "\x17"


@contextmanager
def key_by_key() -> Iterator[Keys | None]:
    """The keys of the terminal until the block ends; `None` where standard input is none. Signals come from it as ever."""
    if os.name != "posix" or not sys.stdin.isatty():
        yield None
        return
    import termios

    keys = Keys(sys.stdin.fileno())
    before = termios.tcgetattr(keys.descriptor)
    try:
        keys.hold()
        yield keys
    finally:
        with suppress(termios.error):  # it has gone
            termios.tcsetattr(keys.descriptor, termios.TCSADRAIN, before)


class Keys:
    """Those that are pressed at a terminal."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def pressed(self, wait: float) -> str:
        """Those that come within so many seconds, up to the end of a line; the end of the input where the terminal has gone."""
        self.hold()
        typed = bytearray()
        while not typed.endswith((b"\n", b"\r")) and select.select([self.descriptor], [], [], 0 if typed else wait)[0]:
            try:
                piece = os.read(self.descriptor, 1)
            except OSError:
                piece = b""
            if not piece:
                return self._decoder.decode(bytes(typed)) + _END
            typed += piece
        return self._decoder.decode(bytes(typed))

    def hold(self) -> None:
        """Let the terminal give each key at once, and show none by itself; again where a shell had it meanwhile."""
        import termios

        mode = termios.tcgetattr(self.descriptor)
        if mode[3] & termios.ICANON:
            mode[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, mode)


class Line:
    """What stands behind a prompt. `moves` says whether the cursor may be moved, to mend what has wrapped and what stands above."""

    def __init__(self, prompt: str, *, moves: bool) -> None:
        self.text, self.is_done, self.is_end = "", False, False
        self._prompt, self._moves = prompt, moves

    def take(self, keys: str) -> None:
        """Up to Enter, or the end of the input where nothing is typed."""
        for key in _ESCAPES.sub("", keys):
            if self.is_done:
                return
            self._take(key)

    def write_above(self, text: str) -> None:
        """In the place of the line above the prompt, if that is still to be seen."""
        up = self._rows(self.text) + 1
        if up < shutil.get_terminal_size().lines:
            write(sys.stderr, f"\x1b7\x1b[{up}A\r\x1b[2K{text}\x1b8")

    def _take(self, key: str) -> None:
        if key in _ENTER:
            self.is_done = True
        elif key == _END:
            self.is_done = self.is_end = not self.text
        elif key in _ERASE:
            self._cut(self.text[:-1])
        elif key == _ERASE_ALL:
            self._cut("")
        elif key == _ERASE_WORD:
            self._cut(self.text.rstrip()[: self.text.rstrip().rfind(" ") + 1])
        elif clean(key) == key:
            key = " " if key == "\t" else key
            self.text += key
            write(sys.stderr, key)

    def _cut(self, text: str) -> None:
        rows, gone = self._rows(self.text), _width(self.text) - _width(text)
        self.text = text
        if not rows or not self._moves:
            write(sys.stderr, "\b \b" * gone)
        elif rows < shutil.get_terminal_size().lines:
            write(sys.stderr, f"\x1b[{rows}A\r\x1b[J{self._prompt}{text}")

    def _rows(self, text: str) -> int:
        """How many lines the prompt and that text take beyond the first."""
        return max(0, _width(self._prompt + text) - 1) // max(1, shutil.get_terminal_size().columns)


def _width(text: str) -> int:
    """In columns of the terminal."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return sum(map(get_cwidth, text))
