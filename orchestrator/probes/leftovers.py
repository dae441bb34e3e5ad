"""Processes that turns of ours have started, found by the marks in their environment, and which of them are left behind."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.providers import OWNER_MARK, SESSION_MARK, STORE_MARK

_PROC = Path("/proc")
_MOST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Marked:
    """A running process and the session whose turn it belongs to."""

    pid: int
    session: str
    name: str
    started: str
    """Tells it from a later process with the same number."""
    store: str | None = None
    """The data folder of the home that it belongs to; `None` where it does not say."""
    owner: str | None = None
    """The process of ours that works with it, as `owner_marks` writes it."""


def owner_marks(data: Path) -> dict[str, str]:
    """The variables that say whose a process is which this one starts: the home's, and this process's."""
    return {STORE_MARK: os.path.realpath(data), OWNER_MARK: f"{os.getpid()}:{_started(os.getpid())}"}


def marked_processes() -> list[Marked] | None:
    """Every process of this user with a session's mark, but for this one and those it was started by; `None` where no environment can be read, as on macOS."""
    if not (_PROC / "self" / "environ").exists():
        return None
    pids = {int(name) for name in os.listdir(_PROC) if name.isdigit()}
    found = (_marked(pid) for pid in sorted(pids - set(_ancestors())))
    return [process for process in found if process is not None]


def bearers(name: str, value: str) -> Iterator[int]:
    """The numbers of this user's processes that have this variable, but for this one and those it was started by; none where environments cannot be read."""
    wanted = os.fsencode(f"{name}={value}")
    pids = [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()] if (_PROC / "self" / "environ").exists() else []
    for pid in sorted(set(pids) - set(_ancestors())):
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if os.fstat(file.fileno()).st_uid == os.geteuid() and wanted in file.read(_MOST_BYTES).split(b"\0"):
                yield pid


def left_behind(processes: Sequence[Marked], data: Path, at_rest: Collection[str]) -> list[Marked]:
    """Those of this home's sessions in which no turn runs, whose process of ours has gone: nobody waits for them any more."""
    home = os.path.realpath(data)
    return [process for process in processes if process.session in at_rest and process.store == home and not _has_owner(process)]


def is_there(process: Marked) -> bool:
    """Whether it runs still."""
    return _started(process.pid) == process.started


def _has_owner(process: Marked) -> bool:
    pid, _, started = (process.owner or "").partition(":")
    return pid.isdigit() and started != "" and _started(int(pid)) == started


def _marked(pid: int) -> Marked | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read(_MOST_BYTES)
            if SESSION_MARK.encode() not in environ or os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
        name = (_PROC / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:  # it has ended meanwhile, or belongs to somebody else
        return None
    variables, started = _variables(environ), _started(pid)
    session = variables.get(SESSION_MARK)
    if session is None or not started:
        return None
    return Marked(pid, session, name, started, variables.get(STORE_MARK), variables.get(OWNER_MARK))


def _variables(environ: bytes) -> Mapping[str, str]:
    """The marks among them; of a name that stands there twice, the first."""
    marks = {os.fsencode(name): name for name in (SESSION_MARK, STORE_MARK, OWNER_MARK)}
    pairs = [(name, value) for name, _, value in (variable.partition(b"=") for variable in environ.split(b"\0")) if name in marks]
    return {marks[name]: os.fsdecode(value) for name, value in reversed(pairs)}


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 0:
        yield pid
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0


def _started(pid: int) -> str:
    """When it was started, by the system's own count; empty for one that is not there, or only not yet waited for."""
    fields = _stat(pid)
    return fields[19].decode() if fields and fields[0] not in (b"Z", b"X") else ""


def _stat(pid: int) -> list[bytes]:
    """State, parent and so on: what stands behind the name, which may hold anything."""
    with suppress(OSError):
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    return []
