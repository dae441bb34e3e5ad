"""The full check of the database (page 1): every page and every row read, nothing mended."""

from __future__ import annotations

import sqlite3
import time

from orchestrator.store import Health
from orchestrator.store.files import Files

_MOST_FAULTS = 20
_STEPS = 10_000
"""Steps of SQLite's machine between two looks at the clock."""


def check(connection: sqlite3.Connection, files: Files, seconds: float, *, journal: str | None) -> Health:
    """Counts, journal mode (`None`: look for it) and faults. Damage that stops the check is a fault like the others; other errors are raised."""
    sessions, turns = (connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("sessions", "turns"))  # noqa: S608  # constants
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)
    try:
        faults: tuple[str, ...] | None = _faults(connection)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        faults = None
    finally:
        connection.set_progress_handler(None, 0)
    return Health(sessions, turns, _journal(connection, files) if journal is None else journal, faults or (), complete=faults is not None)


def _journal(connection: sqlite3.Connection, files: Files) -> str:
    """Of a file that is only read. SQLite knows of no log where it reads the file as one that does not change; the file's header does.

    Only then is the file opened here: a connection that locks it would lose its locks by that.
    """
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "delete":
        return "" if mode == "memory" else str(mode)
    with open(files.database, "rb") as file:
        return "wal" if file.read(20)[18:] == b"\x02\x02" else "delete"


def _faults(connection: sqlite3.Connection) -> tuple[str, ...]:
    try:
        found = [str(text) for (text,) in connection.execute(f"PRAGMA integrity_check({_MOST_FAULTS})")]
        orphans = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST_FAULTS)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        return (str(error),)
    return (*(text for text in found if text != "ok"), *(f"row {row} of {table} belongs to no row of {parent}" for table, row, parent, _ in orphans))
