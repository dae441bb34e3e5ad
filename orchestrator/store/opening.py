"""Opening the database: for writing, made and repaired where needed; for reading, without a trace."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orchestrator.errors import StoreError
from orchestrator.store import backup, owners, rescue, schema
from orchestrator.store.connection import connect
from orchestrator.store.faults import Damaged, is_damage
from orchestrator.store.files import SIDES, Files, make_folder, make_private, present, refuse_folder, size
from orchestrator.store.journal import choose_journal, on_network_share

OPENING_SECONDS = 60.0
"""How long it waits while another makes or repairs the store."""

Notice = Callable[[str], None]

Stamp = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Writing:
    """An open database that can be written."""

    connection: sqlite3.Connection
    presence: owners.Presence
    journal: str
    identity: int
    """The file's inode: another one at the same path is another file."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An open database that is only read. `stamp` is set where the file must not change meanwhile."""

    connection: sqlite3.Connection
    stamp: Stamp | None = None
    copy: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()


def open_writing(files: Files, now: datetime, notice: Notice) -> Writing:
    """Open it, making what is missing and rescuing what is damaged; one process at a time.

    Raises `OSError`, `sqlite3.Error`, `StoreError`.
    """
    make_folder(files.folder)
    refuse_folder(files.database)
    with owners.held(files.lock, OPENING_SECONDS):
        presence = owners.appear(files.owners)
        try:
            return _open_alone(files, now, notice, presence)
        except BaseException:
            presence.end()
            raise


def repair(broken: Writing, files: Files, now: datetime, notice: Notice) -> Writing:
    """Open anew what was found damaged while open, rescued unless another process has done so; the presence goes on.

    Raises as `open_writing`; then the connection is closed.
    """
    with owners.held(files.lock, OPENING_SECONDS):
        try:
            if broken.identity == files.database.stat().st_ino:
                _rescue(files, now, notice, broken.connection, broken.presence)
        finally:
            broken.connection.close()
        return _open_alone(files, now, notice, broken.presence)


def _open_alone(files: Files, now: datetime, notice: Notice, presence: owners.Presence) -> Writing:
    rescue.finish(files)
    emptied = _is_emptied(files)
    make_private(files.database)
    connection = connect(files.database)
    try:
        if emptied:
            raise Damaged(_EMPTIED)
        journal = _prepare(connection, files, notice)
    except sqlite3.Error as error:
        if not is_damage(error):
            connection.close()
            raise
        _rescue(files, now, notice, connection, presence)
        connection = connect(files.database)
        journal = _prepare(connection, files, notice)
    except BaseException:
        connection.close()
        raise
    owners.tidy(files.owners)
    rescue.tidy(files)
    return Writing(connection, presence, journal, files.database.stat().st_ino)


_EMPTIED = "the file was emptied"


def _is_emptied(files: Files) -> bool:
    """Whether the file lost all it had: SQLite would take it for a new one, and throw its log away. One that is just being made has neither log nor backup."""
    if size(files.database) > 1:  # of a single byte SQLite thinks as of none
        return False
    return size(files.beside("-wal")) > 0 or (present(files.database) and any(files.backups.glob(backup.PATTERN)))


def _rescue(files: Files, now: datetime, notice: Notice, connection: sqlite3.Connection, presence: owners.Presence) -> None:
    """Set aside what the connection met, close it and put something sound in its place. Raises `StoreError` while others have it open."""
    try:
        if owners.others(files.owners, presence.name):
            raise StoreError(
                f"the store in {files.folder} is damaged, and another process still has it open",
                hint="end the other escalera processes; the next one repairs the store",
            )
        aside = rescue.set_aside(files, now)
    finally:
        connection.close()
    notice(rescue.rescue(files, aside, now))


def _prepare(connection: sqlite3.Connection, files: Files, notice: Notice) -> str:
    version = schema.version_of(connection)
    journal = choose_journal(connection, on_share=on_network_share(files.folder))
    if journal != "wal":
        notice(
            f"the store in {files.folder} cannot use a write-ahead log there; it uses journal mode {journal},"
            " and an owner that died is noticed only when its lease lapses"
        )
    connection.execute("PRAGMA foreign_keys = ON")
    if journal == "wal":
        _refuse_overhang(connection, files)
    if version < schema.VERSION:
        schema.migrate(connection)
    return journal


def _refuse_overhang(connection: sqlite3.Connection, files: Files) -> None:
    """Raises `Damaged` for a header that says fewer pages than the file has: SQLite would believe it, and write over the rest.

    The file is looked at first: others may let it grow meanwhile. It never shrinks.
    """
    there = size(files.database)
    (pages,), (page,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    if there > pages * page:
        raise Damaged(f"the file has {there} bytes, its header says {pages} pages of {page}")


def stamp_of(files: Files) -> Stamp:
    """What changes whenever somebody writes."""
    if not present(files.database):
        return ()
    state = files.database.stat()
    return (state.st_ino, state.st_mtime_ns, state.st_size, size(files.beside("-wal")), present(files.beside("-journal")))


def open_reading(files: Files) -> Reading:
    """Open it so that no byte is written and no file made. Raises `OSError`, `sqlite3.Error`, `StoreTooNew`.

    - no file, or an empty one: an empty store in memory;
    - somebody's log beside it: read with it, its shared memory untouched;
    - nothing beside it: as a file that does not change, which the stamp watches over;
    - a log without its shared memory, or an unfinished change: only a copy can be read.
    """
    refuse_folder(files.database)
    reading = _open_as_it_lies(files)
    try:
        if schema.version_of(reading.connection) < schema.VERSION:
            reading.close()
            reading = _open_copy(files)
            schema.migrate(reading.connection)
    except BaseException:
        reading.close()
        raise
    return reading


def _open_as_it_lies(files: Files) -> Reading:
    if _is_emptied(files):
        raise Damaged(_EMPTIED)
    stamp = stamp_of(files)
    if size(files.database) + size(files.beside("-wal")) == 0:
        return Reading(_empty(), stamp)
    log, memory = size(files.beside("-wal")), present(files.beside("-shm"))
    if present(files.beside("-journal")) or (log and not memory):
        return _open_copy(files)
    if memory:
        return Reading(connect(files.database, "mode=ro&readonly_shm=1"))
    return Reading(connect(files.database, "mode=ro&immutable=1"), stamp)


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    schema.migrate(connection)
    return connection


def _open_copy(files: Files) -> Reading:
    folder = tempfile.TemporaryDirectory(prefix="escalera-")
    copy = Files(Path(folder.name))
    try:
        shutil.copyfile(files.database, copy.database)
        for ending in SIDES:
            if ending != "-shm" and present(files.beside(ending)):
                shutil.copyfile(files.beside(ending), copy.beside(ending))
        return Reading(connect(copy.database), stamp_of(files), folder)
    except BaseException:
        folder.cleanup()
        raise
