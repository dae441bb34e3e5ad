"""Backups: made by SQLite's own call, at most daily, checked before they count, the three newest kept (page 1)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.store import owners
from orchestrator.store.connection import connect
from orchestrator.store.faults import Damaged
from orchestrator.store.files import Files, make_folder, make_private

KEPT = 3
EVERY = timedelta(days=1)

PATTERN = "escalera-*.db"
"""What their names look like."""

_FORMAT = "escalera-%Y%m%dT%H%M%SZ.db"


def back_up(connection: sqlite3.Connection, files: Files, now: datetime) -> None:
    """Make one when the last is older than a day. Raises `OSError`, `sqlite3.Error`; damage when the database has any."""
    if not _due(files, now) or _is_empty(connection):
        return
    make_folder(files.backups)
    try:
        with owners.held(files.backups / "backups.lock", 0):
            if _due(files, now):
                _make(connection, files, now)
                _thin(files, now)
    except TimeoutError:
        return  # another process is at it


def newest_first(files: Files, now: datetime) -> Iterator[tuple[Path, datetime]]:
    """The backups that are there; one from the future (a clock was wrong) comes last."""
    found = [(path, made) for path in files.backups.glob(PATTERN) if (made := _made_at(path)) is not None]
    yield from sorted(found, key=lambda entry: (entry[1] <= now, entry[1]), reverse=True)


def _due(files: Files, now: datetime) -> bool:
    return not any(timedelta() <= now - made < EVERY for _, made in newest_first(files, now))


def _is_empty(connection: sqlite3.Connection) -> bool:
    (something,) = connection.execute("SELECT EXISTS (SELECT 1 FROM sessions) OR EXISTS (SELECT 1 FROM percepts)").fetchone()
    return not something


def _make(connection: sqlite3.Connection, files: Files, now: datetime) -> None:
    draft = files.backups / "unfinished.db"
    for leftover in files.backups.glob("unfinished.db*"):
        leftover.unlink()
    make_private(draft)
    target = connect(draft)
    try:
        connection.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        (verdict,) = target.execute("PRAGMA quick_check(1)").fetchone()
    finally:
        target.close()
    if verdict != "ok":
        draft.unlink()
        raise Damaged(verdict)
    os.replace(draft, files.backups / now.astimezone(UTC).strftime(_FORMAT))


def _thin(files: Files, now: datetime) -> None:
    for path, _ in list(newest_first(files, now))[KEPT:]:
        path.unlink(missing_ok=True)


def _made_at(path: Path) -> datetime | None:
    try:
        return datetime.strptime(path.name, _FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
