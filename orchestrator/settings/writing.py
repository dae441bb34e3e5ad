"""Files that are replaced as a whole, by one process at a time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.settings.files import shown_path

_LOCK_SECONDS = 20.0
_HINT = "see its permissions and the room on its disk"


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Hold that lock against every other process; `ConfigError` where it cannot be had."""
    from filelock import FileLock, Timeout

    held = FileLock(lock, mode=0o600, timeout=_LOCK_SECONDS)
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held.acquire()
    except Timeout as error:
        raise ConfigError(f"another process holds {shown_path(lock)}", hint="try again when it is done") from error
    except OSError as error:
        raise ConfigError(f"cannot write {shown_path(lock)}: {error.strerror or error}", hint="set ESCALERA_HOME to a folder that can be written") from error
    try:
        yield
    finally:
        held.release()


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Put the content in the file's place: a reader, a full disk or a kill meets the old file or the new one, nothing between.

    A link is followed, and a file that is there keeps its mode and its owner; else it is made with `mode`, less the umask.
    Raises `ConfigError` with the old file as it was.
    """
    real = Path(os.path.realpath(path))
    fresh = real.with_name(f".{real.name[:200]}.{secrets.token_hex(4)}")
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _write(fresh, content, mode=mode, like=real)
            os.replace(fresh, real)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh)
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot write {shown_path(path)}: {reason}; it is as it was", hint=_HINT) from error
    _settle(real.parent)


def _write(path: Path, content: bytes, *, mode: int, like: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        with suppress(FileNotFoundError):
            old = os.stat(like)
            with suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, old.st_mode & 0o7777)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _settle(folder: Path) -> None:
    """Have the new name on the disk too; a file system that cannot do that for a folder has it when it has it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
