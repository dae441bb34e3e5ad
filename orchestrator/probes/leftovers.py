"""Processes that turns of ours have started, found by the mark in their environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_MOST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Marked:
    """A running process and the session whose turn it belongs to."""

    pid: int
    session: str
    name: str


def marked_processes(variable: str) -> list[Marked] | None:
    """Every other process with that variable in its environment; `None` where no environment can be read, as on macOS."""
    if not (_PROC / "self" / "environ").exists():
        return None
    pids = sorted(int(name) for name in os.listdir(_PROC) if name.isdigit())
    found = (_marked(pid, f"{variable}=".encode()) for pid in pids if pid != os.getpid())
    return [process for process in found if process is not None]


def _marked(pid: int, mark: bytes) -> Marked | None:
    try:
        with open(_PROC / str(pid) / "environ", "rb") as file:
            variables = file.read(_MOST_BYTES).split(b"\0")
        name = (_PROC / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:  # it has ended meanwhile, or belongs to somebody else
        return None
    session = next((variable[len(mark) :] for variable in variables if variable.startswith(mark)), None)
    return None if session is None else Marked(pid, session.decode("utf-8", "replace"), name)
