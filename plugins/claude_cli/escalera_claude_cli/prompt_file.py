"""The file that takes the system text to `claude`, and what became of those whose process was killed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.messages import well_formed

_PREFIX = "escalera-prompt-"
_NAME = "system-prompt.md"
_LOG = "log.txt"
_OLD = 60.0
"""Seconds. A folder is made before its file is, and the file before it is locked: a young one may be in the midst of that."""


class SystemPromptFile:
    """A text in a file only this user can read, in a folder of its own, locked for as long as this process has it."""

    def __init__(self, text: str) -> None:
        sweep(Path(tempfile.gettempdir()), now=time.time())
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
        path = Path(self._folder.name) / _NAME
        path.touch(mode=0o600)
        self._file = open(path, "r+b")  # noqa: SIM115  # open until it is removed: the lock goes with it
        _lock(self._file.fileno())
        self._file.write(well_formed(text).encode())
        self._file.flush()
        self.path = str(path)
        log = path.with_name(_LOG)
        log.touch(mode=0o600)
        self.log = str(log)
        """A file beside it, for what the program notes about itself."""

    def remove(self) -> None:
        self._file.close()
        self._folder.cleanup()


def sweep(folder: Path, *, now: float) -> None:
    """Remove what killed processes of this user have left: folders of the name, old, whose file nobody holds. `now` in seconds since 1970."""
    if sys.platform == "win32":
        return  # nothing tells there whether a process has it
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            if left.is_dir() and not left.is_symlink() and status.st_uid == os.geteuid() and now - status.st_mtime > _OLD and _is_free(left / _NAME):
                shutil.rmtree(left, ignore_errors=True)


def _is_free(path: Path) -> bool:
    """Whether nobody holds the file; one that is not there yet, or not any more, nobody holds."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Hold an open file until it is closed; `False` where another process does, or where that is not to be had."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
