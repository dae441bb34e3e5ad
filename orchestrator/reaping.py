"""Ending what a killed run of ours has left behind (page 7)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.probes.leftovers import Marked, bearers, is_there, left_behind, marked_processes
from orchestrator.store import Store

_GRACE = 1.0
"""Seconds between asking and ending; most go at once."""
_POLL = 0.02


def reap(store: Store, data: Path) -> list[Marked]:
    """End the processes of this home's sessions whose turn nobody takes any more, and give them back.

    Only those that say they are of this home: one with a session's mark alone may be anybody's.
    """
    marked = [process for process in marked_processes() or () if process.store is not None]
    if not marked:
        return []
    # Looked at in this order: what is started after the first look belongs to somebody who lives.
    left = left_behind(marked, data, {summary.id for summary in store.list(None) if not summary.in_use})
    _end(left)
    return left


def end_bearers(name: str, value: str) -> None:
    """End at once whatever has this variable in its environment, as what a child of ours has started."""
    for pid in bearers(name, value):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _end(processes: list[Marked]) -> None:
    deadline = time.monotonic() + _GRACE
    for process in processes:
        _signal(process, signal.SIGTERM)
    while any(map(is_there, processes)) and time.monotonic() < deadline:
        time.sleep(_POLL)
    for process in processes:
        _signal(process, signal.SIGKILL)


def _signal(process: Marked, number: signal.Signals) -> None:
    if is_there(process):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
