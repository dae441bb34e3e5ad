"""One open database: each piece of work is one transaction, and every failure leaves as one of our errors."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from orchestrator.clock import Clock
from orchestrator.errors import StoreError, StoreReadOnly
from orchestrator.store import backup, faults, owners
from orchestrator.store.connection import INDEXES
from orchestrator.store.files import Files
from orchestrator.store.opening import Reading, Writing, open_reading, open_writing, repair, stamp_of

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_READS = 5
"""How often a reading is begun anew because somebody wrote meanwhile."""


class Database:
    """The file, opened once. Any thread may use it; they take turns."""

    def __init__(self, folder: Path, clock: Clock, *, read_only: bool) -> None:
        self.files = Files(folder)
        self.read_only = read_only
        self.platform = sys.platform
        self._clock = clock
        self._lock = threading.RLock()
        self._notices: dict[str, None] = {}
        self._writing: Writing | None = None
        self._reading: Reading | None = None
        self._closed = False
        self.state: object | None = None
        """The one state of the file that a snapshot shows, for who keeps what was read in it; `None` outside of one."""
        self._guard(self._open)

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(self._notices)

    def notice(self, text: str) -> None:
        """Tell the user, once."""
        self._notices[text] = None

    def now(self) -> datetime:
        return self._clock.now()

    def read(self, work: Work[T]) -> T:
        """What the work finds in one state of the file."""
        with self._lock:
            return self._guard(lambda: self._read_only(work) if self.read_only else self._transact(work, "BEGIN"))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Readings of this thread inside the block see one state of the file, and take no turns with other threads in between.

        A file that does not change while it is read (`Reading.stamp`) needs none.
        """
        with self._lock:
            connection = self._guard(self._readable)
            if connection is None or connection.in_transaction:
                yield
                return
            self._guard(lambda: connection.execute("BEGIN"))
            self.state = object()
            try:
                yield
            finally:
                self.state = None
                if connection is self._connection and connection.in_transaction:  # a repair meanwhile has closed it
                    connection.execute("ROLLBACK")

    def write(self, work: Work[T]) -> T:
        """What the work gives, after its changes are committed; all of them or none."""
        if self.read_only:
            raise StoreReadOnly(f"the store in {self.files.folder} was opened for reading only")
        with self._lock:
            if self._connection is not None and self._connection.in_transaction:
                raise RuntimeError("nothing is written inside a snapshot")
            return self._guard(lambda: self._transact(work, "BEGIN IMMEDIATE"))

    def scrub(self) -> None:
        """After something was purged: take it out of the full-text indexes and the log, which have it still. Says where else it may be."""
        with self._lock:
            self._guard(lambda: self._scrub(self._connection))

    def _scrub(self, connection: sqlite3.Connection | None) -> None:
        if connection is None:
            return
        for index in INDEXES:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (index,)).fetchone():
                connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")  # noqa: S608  # a name of ours
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            self.notice(f"the log of the store in {self.files.folder} has what was purged until the other processes that read it have ended")
        if any(self.files.backups.glob(backup.PATTERN)):
            self.notice(f"backups in {self.files.backups} may still have what was purged; delete them, or wait until newer ones have taken their place")

    def owner_lock(self) -> str | None:
        """What a lease of ours carries: the lock that shows we live, where all owners surely share this machine.

        A write-ahead log needs shared memory, so whoever works on the file is here. With another journal mode only
        the lease's expiry counts.
        """
        opened = self._writing
        return opened.presence.name if opened is not None and opened.journal == "wal" else None

    @property
    def journal(self) -> str | None:
        """The journal mode of a database that is open for writing."""
        return None if self._writing is None else self._writing.journal

    def is_dead(self, lock: str | None) -> bool:
        """Whether the owner with that lock surely lives no more."""
        return lock is not None and lock != self.owner_lock() and owners.is_dead(self.files.owners, lock)

    def close(self) -> None:
        """Let go of the file, after the day's backup. What fails here has already been stored."""
        with self._lock:
            if self._writing is not None:
                self._back_up(self._writing)
            self._let_go()
            self._closed = True

    # -- opening -----------------------------------------------------------------------------------

    def _open(self) -> None:
        if self.read_only:
            self._reading = open_reading(self.files)
            return
        self._writing = open_writing(self.files, self.now(), self.notice)
        if self._back_up(self._writing):
            self._repair(self._writing)

    def _back_up(self, opened: Writing) -> bool:
        """Make the day's backup; whether the database was found damaged on the way."""
        try:
            backup.back_up(opened.connection, self.files, self.now())
        except sqlite3.Error as error:
            self.notice(f"no backup was made: {error}")
            return faults.is_damage(error)
        except OSError as error:
            self.notice(f"no backup was made: {error.strerror or error}")
        return False

    @property
    def _connection(self) -> sqlite3.Connection | None:
        if self._writing is not None:
            return self._writing.connection
        return self._reading.connection if self._reading is not None else None

    def _readable(self) -> sqlite3.Connection | None:
        """The connection that readings inside a snapshot share."""
        if not self.read_only:
            return self._connection
        reading = self._reading = self._fresh()
        return reading.connection if reading.stamp is None else None

    def _repair(self, opened: Writing) -> Writing:
        """Begin again with what a rescue saves; our presence goes on, and so our leases do."""
        self._writing = None
        try:
            self._writing = repair(opened, self.files, self.now(), self.notice)
        except BaseException:
            opened.presence.end()
            raise
        return self._writing

    def _let_go(self) -> None:
        if self._writing is not None:
            self._writing.connection.close()
            self._writing.presence.end()
        if self._reading is not None:
            self._reading.close()
        self._writing = self._reading = None

    # -- transactions ------------------------------------------------------------------------------

    def _transact(self, work: Work[T], begin: str) -> T:
        opened = self._writing
        if opened is None:  # a rescue could not be finished, for want of space perhaps
            opened = self._writing = open_writing(self.files, self.now(), self.notice)
        try:
            return _in_transaction(opened.connection, work, begin)
        except sqlite3.Error as error:
            if not faults.is_damage(error):
                raise
        return _in_transaction(self._repair(opened).connection, work, begin)

    def _read_only(self, work: Work[T]) -> T:
        for _ in range(_READS):
            reading = self._reading = self._fresh()
            try:
                result = _in_transaction(reading.connection, work, "BEGIN")
            except sqlite3.Error:
                if not self._is_stale(reading):
                    raise
                continue
            if not self._is_stale(reading):
                return result
        raise StoreError(f"the store in {self.files.folder} is busy: it changed at every reading", hint="try again in a moment")

    def _fresh(self) -> Reading:
        if self._reading is not None and not self._is_stale(self._reading):
            return self._reading
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        return open_reading(self.files)

    def _is_stale(self, reading: Reading) -> bool:
        return reading.stamp is not None and reading.stamp != stamp_of(self.files)

    def _guard(self, act: Callable[[], T]) -> T:
        folder = self.files.folder
        if self._closed:
            raise StoreError(f"the store in {folder} was closed")
        try:
            return act()
        except sqlite3.Error as error:
            raise faults.of_sqlite(error, folder) from error
        except TimeoutError as error:
            raise StoreError(f"the store in {folder} is busy: another process is opening or repairing it", hint="try again in a moment") from error
        except OSError as error:
            raise faults.of_system(error, folder, reading=self.read_only) from error
        except NotImplementedError as error:
            raise StoreError(f"the store in {folder} cannot be used: files cannot be locked there", hint="set ESCALERA_HOME to a local folder") from error


def _in_transaction(connection: sqlite3.Connection, work: Work[T], begin: str) -> T:
    if connection.in_transaction:  # of a snapshot, in which nothing is written
        return work(connection)
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
        return result
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
