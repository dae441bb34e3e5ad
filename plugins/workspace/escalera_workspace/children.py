"""A program run within bounds: of time, of output, of what it may leave behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from orchestrator.probes.leftovers import bearers
from orchestrator.providers import Cancel

KEPT = 128 * 1024
"""Bytes of output that are kept of its beginning, and as many of its end."""
FLOOD = 64 * 1024 * 1024
"""Bytes of output with which a program is ended."""
CALL_MARK = "_ESCALERA_TOOL_CALL"
"""In the environment of the program and of all that it starts: what has cut itself off is found by this."""

_POLL = 0.02
_LAST_WORDS = 0.2
"""Seconds for what is still in the pipe when the program has ended."""

Ending = Literal["itself", "time", "flood", "cancel"]


@dataclass(frozen=True, slots=True)
class Run:
    """How a program ended, and what it printed on both of its streams."""

    code: int
    ending: Ending
    output: str
    seconds: float


class _Output:
    """Head and tail of what is printed."""

    def __init__(self) -> None:
        self.size = 0
        self._head, self._tail = bytearray(), bytearray()

    def take(self, piece: bytes) -> None:
        self.size += len(piece)
        room = KEPT - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        del self._tail[:-KEPT]

    def text(self) -> str:
        lost = self.size - len(self._head) - len(self._tail)
        cut = f"\n… {lost:,} bytes left out …\n".encode() if lost else b""
        return bytes(self._head + cut + self._tail).decode("utf-8", "replace")


def run_bounded(argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], seconds: float, cancel: Cancel, hands_on: Sequence[int] = ()) -> Run:
    """Run it to its end, or to the end of its time or of the turn. Raises `OSError` where it cannot be started.

    Nothing of it runs on afterwards that bears its mark or stayed in its process group; what does neither, only a sandbox ends.
    """
    mark, began, output = str(uuid.uuid4()), time.monotonic(), _Output()
    child = subprocess.Popen(
        argv,
        cwd=cwd,
        env={**environ, CALL_MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=hands_on,
        bufsize=0,
    )
    try:
        ending = _followed(child, output, began + seconds, cancel)
    finally:
        _end(child, mark)
    with suppress(OSError):
        _drain(child, output, time.monotonic() + _LAST_WORDS)
    if child.stdout is not None:
        child.stdout.close()
    return Run(child.wait(), ending, output.text(), time.monotonic() - began)


def _followed(child: subprocess.Popen[bytes], output: _Output, until: float, cancel: Cancel) -> Ending:
    """Read what it prints, until it has ended or must."""
    silent = False
    while not _has_ended(child):
        if cancel.is_set():
            return "cancel"
        if time.monotonic() >= until:
            return "time"
        if output.size > FLOOD:
            return "flood"
        if silent:  # it has closed its output, and goes on
            cancel.event.wait(_POLL)
        else:
            silent = not _read(child, output, _POLL)
    return "itself"


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has; without letting go of its number, which would then be anybody's while its group is being ended."""
    if not hasattr(os, "waitid"):  # macOS, with older versions of Python
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read(child: subprocess.Popen[bytes], output: _Output, wait: float) -> bool:
    """Take what is there within a moment; false at the end of the output."""
    descriptor = child.stdout.fileno() if child.stdout is not None else -1
    if not select.select([descriptor], [], [], wait)[0]:
        return True
    piece = os.read(descriptor, 65536)
    output.take(piece)
    return bool(piece)


def _drain(child: subprocess.Popen[bytes], output: _Output, until: float) -> None:
    while time.monotonic() < until and output.size <= FLOOD and _read(child, output, max(0.0, until - time.monotonic())):
        pass


def _end(child: subprocess.Popen[bytes], mark: str) -> None:
    """End its process group and whatever bears its mark; twice, since what is just being started may be missed once."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for _ in range(2):
        for pid in bearers(CALL_MARK, mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
