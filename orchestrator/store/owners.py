"""Who is alive: each store object that may write holds the lock of a file of its own, which the system lets go when it dies."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.store.files import PRIVATE_FILE, make_folder

if TYPE_CHECKING:
    from filelock import BaseFileLock

_ENDING = ".lock"


class Presence:
    """The lock that says this store object is alive. `name` is what a lease carries."""

    def __init__(self, path: Path, lock: BaseFileLock) -> None:
        self._path = path
        self._lock = lock

    @property
    def name(self) -> str:
        return self._path.name

    def end(self) -> None:
        """Remove the file while it is still locked, so that nobody else's is removed."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        self._lock.release()


def appear(folder: Path) -> Presence:
    """Say that a new owner lives, under a name that nobody had. Raises `OSError`."""
    make_folder(folder)
    while True:
        descriptor, name = tempfile.mkstemp(suffix=_ENDING, dir=folder)
        os.close(descriptor)
        lock = _locked(Path(name))
        if lock is not None and Path(name).exists():
            return Presence(Path(name), lock)
        if lock is not None:
            lock.release()  # somebody took the new file for a dead owner's


def is_dead(folder: Path, name: str) -> bool:
    """Whether that owner surely lives no more. Creates nothing and writes nothing."""
    path = folder / name
    if not path.exists():
        return True
    lock = _locked_if_possible(path)
    if lock is None:
        return False
    lock.release()
    return True


def tidy(folder: Path) -> None:
    """Remove what dead owners left, each file while it is locked."""
    for path in folder.glob(f"*{_ENDING}"):
        lock = _locked_if_possible(path)
        if lock is not None:
            path.unlink(missing_ok=True)
            lock.release()


def others(folder: Path, own: str) -> bool:
    """Whether another store object is alive."""
    return any(path.name != own and not is_dead(folder, path.name) for path in folder.glob(f"*{_ENDING}"))


@contextlib.contextmanager
def held(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of that file. Raises `TimeoutError` when another process has it for longer."""
    lock = _locked(path, seconds)
    if lock is None:
        raise TimeoutError(f"{path} is held by another process")
    try:
        yield
    finally:
        lock.release()


def _locked_if_possible(path: Path) -> BaseFileLock | None:
    """As `_locked`; a file that cannot be locked at all (on a read-only disk) counts as held."""
    try:
        return _locked(path)
    except (OSError, NotImplementedError):
        return None


def _locked(path: Path, seconds: float = 0) -> BaseFileLock | None:
    """The file's lock, usable from any thread; `None` when somebody else has it for that long.

    A lock of the system or none at all: a marker file would outlive its owner.
    """
    from filelock import FileLock, Timeout  # where it is first used: most readings need no lock

    lock = FileLock(path, timeout=seconds, thread_local=False, mode=PRIVATE_FILE, fallback_to_soft=False, poll_interval=0.01)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock
