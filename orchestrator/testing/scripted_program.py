"""A scripted program, for tests of providers that start one: it writes what it is told, byte for byte, and hangs, floods or dies where a step says so.

    program = ScriptedProgram(tmp_path)
    program.add(b'{"text": "hello"}\\n', b'{"end": "stop"}\\n')
    ...                                         # an agent whose command is `program.command`
    assert program.received() == "…"            # what the last start of it was given on its standard input

Each start of the program takes the next script, and counts as a call; without one it ends with exit code 66.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

HANG: Final = "hang"
"""Say nothing more, until it is ended."""
FLOOD: Final = "flood"
"""Write the piece before it, which there has to be, again and again, every 10 ms, until it is ended."""
DIE: Final = "die"
"""Be gone at once, as if killed."""
READ_LINE: Final = "read_line"
"""Read one line of standard input."""
READ: Final = "read"
"""Read the rest of standard input; a script with neither of these two reads all of it before anything else."""

Step = bytes | int | Literal["hang", "flood", "die", "read_line", "read"]
"""Bytes are written and flushed; a number ends it with that exit code, else that is 0. Nothing is written to standard error."""

_PROGRAM = """
import json, os, sys, time
folder = sys.argv[1]
def taken():
    for name in sorted(os.listdir(folder)):
        if name.endswith(".script"):
            try:
                os.rename(os.path.join(folder, name), os.path.join(folder, name[:-6] + "taken"))
            except OSError:
                continue
            return name[:-7]
    sys.exit(66)
def keep(data):
    with open(os.path.join(folder, name + ".received"), "ab") as file:
        file.write(data)
name = taken()
with open(os.path.join(folder, name + ".taken"), encoding="utf-8") as file:
    steps = json.load(file)
if "read_line" not in steps and "read" not in steps:
    keep(sys.stdin.buffer.read())
last = b""
for step in steps:
    if isinstance(step, int):
        sys.exit(step)
    elif step == "read_line":
        keep(sys.stdin.buffer.readline())
    elif step == "read":
        keep(sys.stdin.buffer.read())
    elif step == "hang":
        time.sleep(3600)
    elif step == "flood":
        while True:
            os.write(1, last)
            time.sleep(0.01)
    elif step == "die":
        os.kill(os.getpid(), 9)
    else:
        last = bytes.fromhex(step[1:])
        left = memoryview(last)
        while left:
            left = left[os.write(1, left):]
"""


class ScriptedProgram:
    """The program and its scripts, in files of a folder of its own below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "scripted-program"
        self._folder.mkdir(parents=True)
        self._program = self._folder / "program.py"
        self._program.write_text(_PROGRAM, "utf-8")
        self._numbers = itertools.count(1)

    @property
    def command(self) -> list[str]:
        """The command line that starts it, without what takes Python time to start."""
        return [sys.executable, "-I", "-S", str(self._program), str(self._folder)]

    def add(self, *steps: Step) -> None:
        """What the next start that has no script yet will do."""
        told = [f"x{step.hex()}" if isinstance(step, bytes) else step for step in steps]
        unfinished = self._folder / "unfinished"
        unfinished.write_text(json.dumps(told), "utf-8")
        unfinished.rename(self._folder / f"{next(self._numbers):06}.script")

    @property
    def calls(self) -> int:
        """How often it was started with a script."""
        return len(self._named("taken"))

    def received(self) -> str:
        """What its last start was given on standard input, as far as it read it."""
        return self._named("received")[-1].read_text("utf-8")

    def _named(self, suffix: str) -> Sequence[Path]:
        return sorted(self._folder.glob(f"*.{suffix}"))


__all__ = ["DIE", "FLOOD", "HANG", "READ", "READ_LINE", "ScriptedProgram", "Step"]
