"""Finding and ending a child's whole family: Claude Code's tools run in process groups of their own and survive it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from escalera_claude_cli.environment import CONVERSATION_MARK
from orchestrator.providers import SESSION_MARK, STORE_MARK

POLL = 0.02
"""Seconds between two looks at processes that are ending: those of others cannot be waited for."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from a later one with the same number by its start."""

    pid: int
    started: str


def family(pid: int) -> set[Process]:
    """The descendants of a process as they are now, without itself."""
    table = _table()
    children: dict[int, list[Process]] = {}
    for process, parent in table.items():
        children.setdefault(parent, []).append(process)
    found: set[Process] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child.pid)
    return found


def marked(marks: Mapping[str, str]) -> set[Process]:
    """Processes of this user with one of these variables in their environment, but for this one and those it was started by.

    Where there is no /proc no environment can be read, and none are found.
    """
    wanted = {os.fsencode(f"{name}={value}") for name, value in marks.items()}
    table = {process: parent for process, parent in _table().items() if wanted & _environment(process.pid)}
    return set(table) - _ancestors_and_self()


def of_turn(marks: Mapping[str, str]) -> set[Process]:
    """What bears a turn's marks: its conversation's, or its session's alone, unless it descends from this process: another agent's child may wait there.

    Never what belongs to another session, or to one of the same id in another store.
    """
    found = marked(_only(marks, CONVERSATION_MARK, SESSION_MARK))
    if not found:
        return found
    return (marked(_only(marks, CONVERSATION_MARK)) | (found - family(os.getpid()))) - _of_others(found, marks)


def of_others(marks: Mapping[str, str]) -> set[Process]:
    """What is in a turn's conversation, but for another session, or for one in another store."""
    return _of_others(marked(_only(marks, CONVERSATION_MARK)), marks)


def _of_others(found: set[Process], marks: Mapping[str, str]) -> set[Process]:
    ours = {name: os.fsencode(f"{name}={marks[name]}") for name in (SESSION_MARK, STORE_MARK) if name in marks}

    def contradicts(process: Process) -> bool:
        told = _environment(process.pid)
        return any(variable.startswith(f"{name}=".encode()) and variable != own for name, own in ours.items() for variable in told)

    return {process for process in found if contradicts(process)}


def _only(marks: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in marks.items() if name in names}


def marks_are_readable() -> bool:
    """Whether processes can be found by their marks here."""
    return Path("/proc/self/environ").exists()


def end(processes: Iterable[Process], *, grace: float) -> None:
    """Ask processes to go, and kill those that are left after `grace` seconds."""
    left = {process for process in processes if _signal(process, signal.SIGTERM)}
    deadline = time.monotonic() + grace
    while left and time.monotonic() < deadline:
        time.sleep(POLL)
        left = {process for process in left if _alive(process)}
    for process in left:
        _signal(process, signal.SIGKILL)


def end_tree(pid: int) -> None:
    """On Windows: end a process and all it started, with the system's own tool."""
    with contextlib.suppress(OSError):
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)


def _signal(process: Process, number: int) -> bool:
    if not _alive(process):
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)
        return True
    return False


def _alive(process: Process) -> bool:
    return any(process == found for found, _ in _look([process.pid]))


def _ancestors_and_self() -> set[Process]:
    table = {process.pid: (process, parent) for process, parent in _table().items()}
    found: set[Process] = set()
    pid = os.getpid()
    while pid in table:
        process, parent = table.pop(pid)
        found.add(process)
        pid = parent
    return found


def _table() -> dict[Process, int]:
    """Every process and the number of its parent; those that ended and were not yet waited for are left out."""
    return dict(_look(None))


def _look(pids: list[int] | None) -> Iterator[tuple[Process, int]]:
    if Path("/proc/self/stat").exists():
        return _look_in_proc(pids)
    return _look_with_ps(pids) if shutil.which("ps") else iter(())


def _look_in_proc(pids: list[int] | None) -> Iterator[tuple[Process, int]]:
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()] if pids is None else pids:
        with contextlib.suppress(OSError):
            # The name stands in brackets and may hold anything; behind it are state, parent and, as 22nd field, the start.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                yield Process(pid, fields[19].decode()), int(fields[1])


def _look_with_ps(pids: list[int] | None) -> Iterator[tuple[Process, int]]:
    which = ["-ax"] if pids is None else ["-p", ",".join(map(str, pids))]
    listing = subprocess.run(["ps", *which, "-o", "pid=,ppid=,state=,lstart="], capture_output=True, text=True, errors="replace", check=False)
    for row in listing.stdout.splitlines():
        pid, parent, state, started = [*row.split(None, 3), "", "", "", ""][:4]
        if pid.isdigit() and parent.isdigit() and not state.startswith("Z"):
            yield Process(int(pid), started), int(parent)


def _environment(pid: int) -> set[bytes]:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return set()
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()
