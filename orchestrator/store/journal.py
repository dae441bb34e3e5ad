"""The journal mode: WAL, or what works where WAL cannot (page 1: network shares)."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

_SHARES = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "fuse.sshfs", "fuse.glusterfs", "fuse.rclone", "davfs"})
_MOUNTS = Path("/proc/self/mountinfo")
_NO_SHARED_MEMORY = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_CANTOPEN})


def choose_journal(connection: sqlite3.Connection, *, on_share: bool) -> str:
    """Set the best mode that works there, with the syncing that goes with it, and name it.

    With WAL and `synchronous=NORMAL` a commit is in the system's hands when it returns: it survives the death of the
    process at any line, without a sync for each step of a turn. A power cut may take the last seconds, never the file.
    Without WAL only `FULL` promises that.
    """
    mode = "delete" if on_share else _try_wal(connection)
    if mode != "wal":
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
    return str(mode)


def on_network_share(folder: Path) -> bool:
    """Whether the folder lies on a file system that several machines may write; `False` where that cannot be told."""
    try:
        mounts = _MOUNTS.read_text(errors="replace")
    except OSError:
        return False
    return file_system(os.path.realpath(folder), mounts) in _SHARES


def file_system(path: str, mounts: str) -> str:
    """The type of file system that holds the path, from Linux's `mountinfo`; empty when none fits."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields, _, after = line.partition(" - ")
        point = fields.split(" ")[4].replace("\\040", " ") if fields.count(" ") >= 4 else ""
        if point and len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, after.split(" ")[0]
    return kind


def _try_wal(connection: sqlite3.Connection) -> str:
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _NO_SHARED_MEMORY:
            raise
        return "none"
    return str(mode)
