"""What this process has open: threads, child processes, sockets and pipes; and what of it a turn has left."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.probes.leftovers import bearers
from orchestrator.providers import SESSION_MARK

_FIRST_LOOK, _LATER_LOOKS = 0.02, 0.2
"""Seconds between two looks, which cost something."""


@dataclass(frozen=True, slots=True)
class Open:
    """What was open at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    channels: Mapping[tuple[int, int], str]
    """Sockets and pipes, by device and inode."""


def what_is_open() -> Open:
    """All of this process at this moment."""
    return Open(frozenset(threading.enumerate()), frozenset(descendants(os.getpid())), dict(_channels()))


def left_since(before: Open, session: str, limit: float) -> list[str]:
    """What has come since and does not go within `limit` seconds, in words; programs with the session's mark count wherever they stand."""
    wait, pause, until = threading.Event(), _FIRST_LOOK, time.monotonic() + limit
    while found := _new_since(before, session):
        if time.monotonic() >= until:
            break
        wait.wait(pause)
        pause = min(pause * 2, _LATER_LOOKS)
    return found


def _new_since(before: Open, session: str) -> list[str]:
    now = what_is_open()
    threads = [f"the thread {thread.name}" for thread in now.threads - before.threads if thread.is_alive()]
    programs = (now.children | set(bearers(SESSION_MARK, session))) - before.children
    channels = [kind for key, kind in now.channels.items() if key not in before.channels]
    return [*sorted(threads), *(f"the process {pid}" for pid in sorted(programs)), *channels]


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, theirs included; those that ended and were not waited for as well."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    open_ones = list(children.get(pid, ()))
    while open_ones:
        child = open_ones.pop()
        yield child
        open_ones += children.get(child, ())


def _parents() -> Iterator[tuple[int, int]]:
    """Each process with its parent."""
    if not Path("/proc/self/stat").exists():
        yield from _listed_parents()
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                told = Path(f"/proc/{name}/stat").read_text("utf-8", "replace")
                yield int(name), int(told.rpartition(")")[2].split()[1])  # the name before it may hold anything


def _listed_parents() -> Iterator[tuple[int, int]]:
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True) as listing:
        lines = listing.communicate()[0].splitlines()
    for line in lines:
        pid, parent = map(int, line.split())
        if pid != listing.pid:
            yield pid, parent


def _channels() -> Iterator[tuple[tuple[int, int], str]]:
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(folder):
        with suppress(OSError, ValueError):
            found = os.fstat(int(name))
            if stat.S_ISSOCK(found.st_mode) or stat.S_ISFIFO(found.st_mode):
                yield (found.st_dev, found.st_ino), "a socket" if stat.S_ISSOCK(found.st_mode) else "a pipe"
