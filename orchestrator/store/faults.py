"""What SQLite and the system say when storing fails, in our words: the one place that reads their codes."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from orchestrator.errors import StoreError, StoreFull, StoreReadOnly

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FULL_IO = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE})
"""What a full disk or a size limit comes back as where the system says another code than ENOSPC."""
_READ_ONLY = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_FULL_ERRNO = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_SETTING = "set ESCALERA_HOME to a folder that can be written"


class Damaged(sqlite3.DatabaseError):
    """Damage that we saw ourselves."""


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken, as opposed to busy, full or out of reach."""
    return isinstance(error, Damaged) or _primary(error) in _DAMAGE


def of_sqlite(error: sqlite3.Error, folder: Path) -> StoreError:
    """Our error for SQLite's."""
    if is_damage(error):
        return StoreError(
            f"the store in {folder} is damaged: {error}", hint="run a command that writes, such as `escalera ask`: it sets the file aside and saves what it can"
        )
    if _primary(error) == sqlite3.SQLITE_FULL or _extended(error) in _FULL_IO:
        return StoreFull(
            f"the store in {folder} cannot grow: the disk is full or a size limit is reached ({error})", hint="free some space; nothing that was stored is lost"
        )
    if _primary(error) in _READ_ONLY:
        return StoreReadOnly(f"the store in {folder} cannot be written: {error}", hint=_SETTING)
    if _primary(error) in _BUSY:
        return StoreError(f"the store in {folder} is busy: another process is writing ({error})", hint="try again in a moment")
    hint = "is there space, and may files in that folder grow?" if _primary(error) == sqlite3.SQLITE_IOERR else None
    return StoreError(f"the store in {folder} failed: {error}", hint=hint)


def of_system(error: OSError, folder: Path, *, reading: bool = False) -> StoreError:
    """Our error for the system's."""
    reason = str(error) if error.strerror is None else error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if reading:
        return StoreError(f"the store in {folder} cannot be read: {reason}", hint="set ESCALERA_HOME to a folder that can be read")
    if error.errno in _FULL_ERRNO:
        return StoreFull(f"the store in {folder} cannot grow: {reason}", hint="free some space; nothing that was stored is lost")
    return StoreReadOnly(f"the store in {folder} cannot be written: {reason}", hint=_SETTING)


def _extended(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0)


def _primary(error: sqlite3.Error) -> int:
    return _extended(error) & 0xFF
