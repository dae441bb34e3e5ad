"""A damaged database: set aside untouched, what can be read saved into a new one, the rest from the newest backup (page 1).

The new file is finished under a name of its own before anything moves, so that a rescue cut off anywhere is
either begun anew or finished by the next process.
"""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.store import backup, running, schema
from orchestrator.store.files import PRIVATE_FILE, SIDES, Files, make_private, present

_READY = "escalera.db.rescued"
_PAGE = 4096
_HEADER = 100
_MAGIC = b"SQLite format 3\x00"


def set_aside(files: Files, now: datetime) -> str:
    """Copy the damaged file, byte for byte, and name the copy. Raises `OSError` and leaves none behind.

    To be called before the connection that met the damage is closed: closing moves its log into the file.
    """
    name = _free_name(files, now)
    endings = [ending for ending in ("", *SIDES) if present(files.beside(ending))]
    try:
        for ending in endings:
            _copy(files.beside(ending), files.folder / f"{name}{ending}")
    except BaseException:
        for ending in endings:
            (files.folder / f"{name}{ending}").unlink(missing_ok=True)
        raise
    return name


def rescue(files: Files, aside: str, now: datetime) -> str:
    """Put what can be saved from the file set aside in the database's place, and say what was done.

    The caller is the only one who has the store, and has closed it: SQLite, closing a file that was replaced, would
    remove the new one's log by its name.
    """
    with tempfile.TemporaryDirectory(prefix=".rescue-", dir=files.folder) as name:
        work = Files(Path(name))
        for ending in ("", "-wal", "-journal"):
            if present(files.folder / f"{aside}{ending}"):
                _copy(files.folder / f"{aside}{ending}", work.beside(ending))
        _mend_start(work.database)
        new = work.folder / "new.db"
        made_of = _rebuild(work.database, new, files, now)
        os.replace(new, files.folder / _READY)
    finish(files)
    return f"the store in {files.folder} was damaged; the damaged file is kept as {aside}. {made_of}"


def finish(files: Files) -> None:
    """Put a rescued database in place; also one whose rescue was cut off by then."""
    if not present(files.folder / _READY):
        return
    for ending in SIDES:
        files.beside(ending).unlink(missing_ok=True)
    os.replace(files.folder / _READY, files.database)


def tidy(files: Files) -> None:
    """Remove what a rescue that was cut off had begun to build."""
    for leftover in files.folder.glob(".rescue-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _free_name(files: Files, now: datetime) -> str:
    name = f"{files.database.name}.damaged-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(free for free in names if not present(files.folder / free))


def _copy(source: Path, target: Path) -> None:
    make_private(target)
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _mend_start(path: Path) -> None:
    """Give a copy whose beginning was overwritten the one that our files have; the rest of it may well be whole.

    Its first bytes are taken from a new file, and the whole first page, which leads to the tables, where they do not show. A file
    that came to be in another way has its tables elsewhere: SQLite then finds no schema there, and nothing is lost by the attempt.
    """
    pages = path.stat().st_size // _PAGE
    if pages == 0:
        return
    with path.open("rb") as file:
        whole = file.read(16) == _MAGIC
    if whole and _shows_tables(path):
        return
    with tempfile.TemporaryDirectory() as folder:
        start = bytearray(_sound_start(Path(folder) / "sound.db"))
    start[28:32] = pages.to_bytes(4, "big")
    for size in (_HEADER, _PAGE):
        with path.open("r+b") as file:
            file.write(start[:size])
        if _shows_tables(path):
            return


def _shows_tables(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} >= set(schema.TABLES) - schema.ADDED
    except sqlite3.Error:
        return False


def _sound_start(path: Path) -> bytes:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema.migrate(connection)
        connection.execute("PRAGMA journal_mode = WAL")
    return path.read_bytes()[:_PAGE]


# -- building the new file -----------------------------------------------------------------------


def _rebuild(damaged: Path, new: Path, files: Files, now: datetime) -> str:
    make_private(new)
    with closing(sqlite3.connect(new, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = FULL")
        schema.migrate(target)
        target.execute("BEGIN")
        incomplete = _salvage(damaged, target)
        target.execute("COMMIT")
        saved = _counts(target)
        source = _fill(target, incomplete, files, now) if incomplete else None
        target.execute("BEGIN")
        _tie(target, now)
        target.execute("COMMIT")
        total = _counts(target)
    new.chmod(PRIVATE_FILE)
    return _told(saved, total, source, bool(incomplete))


def _told(saved: tuple[int, int, int], total: tuple[int, int, int], source: datetime | None, lossy: bool) -> str:
    text = f"Saved: {saved[0]} sessions, {saved[1]} turns, {saved[2]} percepts."
    if source is not None:
        text += f" With the backup of {source:%Y-%m-%d %H:%M} UTC: {total[0]} sessions, {total[1]} turns, {total[2]} percepts."
    elif lossy:
        text += " There was no backup to fill the gaps from."
    return text


def _counts(connection: sqlite3.Connection) -> tuple[int, int, int]:
    return connection.execute("SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM turns), (SELECT count(*) FROM percepts)").fetchone()  # type: ignore[no-any-return]  # three counts


def _salvage(damaged: Path, target: sqlite3.Connection) -> tuple[str, ...]:
    """Copy every row that can be read; the names of the tables that could not be read to their end."""
    try:
        with closing(sqlite3.connect(damaged, isolation_level=None)) as source:
            source.text_factory = lambda raw: raw.decode("utf-8", "replace")
            # Without this, SQLite refuses a file that is shorter than its header says.
            source.execute("PRAGMA writable_schema = ON")
            there = {name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            expected = [table for table in schema.TABLES if table in there or table not in schema.ADDED]
            return tuple(table for table in expected if table not in there or not _salvage_table(source, target, table))
    except sqlite3.Error:
        return schema.TABLES


def _salvage_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> bool:
    columns = _shared_columns(target, table, source.execute(f"PRAGMA table_info({table})"))
    insert = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    select = f"SELECT rowid, {', '.join(columns)} FROM {table} NOT INDEXED"
    missed: list[int] = []
    for row in _readable(source, select, missed.append):
        try:
            target.execute(insert, row[1:])
        except sqlite3.Error:
            missed.append(row[0])  # a row that is no longer one of ours, such as one without an id
    return not missed


def _shared_columns(target: sqlite3.Connection, table: str, theirs: Iterable[tuple[Any, ...]]) -> list[str]:
    """Columns that another file has, too: one of an older version has fewer."""
    there = {name for (_, name, *_) in theirs}
    return [name for (_, name, *_) in target.execute(f"PRAGMA main.table_info({table})") if name in there]


_HIGHEST = 2**63 - 1
_PROBES = 20_000
"""Failed reads before a table is given up: some thousand damaged pages."""


def _readable(source: sqlite3.Connection, select: str, missed: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
    """Every row between the damaged places: read a stretch from both ends, then the halves of what lies between."""
    stretches = deque([(1, _HIGHEST)])
    for _ in range(_PROBES):
        if not stretches:
            return
        low, high = stretches.popleft()
        upward = yield from _until_damage(source, f"{select} WHERE rowid BETWEEN ? AND ? ORDER BY rowid", low, high)
        if upward == _WHOLE:
            continue
        missed(low)
        low = low if upward is None else upward + 1
        downward = yield from _until_damage(source, f"{select} WHERE rowid BETWEEN ? AND ? ORDER BY rowid DESC", low, high)
        high = high if downward is None else downward - 1
        if downward != _WHOLE and low < high:
            middle = (low + high) // 2
            stretches.extend([(low, middle), (middle + 1, high)])


_WHOLE = -1


def _until_damage(source: sqlite3.Connection, select: str, low: int, high: int) -> Generator[tuple[Any, ...], None, int | None]:
    """The rows up to the first that cannot be read; returns the last row's id, `None` without one, `_WHOLE` when all could."""
    last: int | None = None
    try:
        for row in source.execute(select, (low, high)):
            last = row[0]
            yield row
    except sqlite3.Error:
        return last
    return _WHOLE


# -- filling the gaps ----------------------------------------------------------------------------

_OF_TURNS = frozenset({"steps", "step_contents", "receipts"})
_FILL_OF_TURNS = """
    INSERT OR IGNORE INTO {table} SELECT old.* FROM backup.{table} old
    JOIN backup.turns before ON before.id = old.turn
    JOIN main.turns now ON now.id = before.id AND now.session = before.session AND now.idx = before.idx"""


def _fill(target: sqlite3.Connection, tables: Sequence[str], files: Files, now: datetime) -> datetime | None:
    """Add what the newest readable backup has of the tables that lost rows, and say when it was made.

    A table that was read whole is left alone: what is missing there was removed on purpose.
    """
    for path, made in backup.newest_first(files, now):
        try:
            target.execute("ATTACH ? AS backup", (str(path),))
        except sqlite3.Error:
            continue
        try:
            target.execute("BEGIN")
            for table in tables:
                if table not in {"leases", "meta"}:
                    _fill_table(target, table)
            target.execute("COMMIT")
        except sqlite3.Error:
            if target.in_transaction:
                target.execute("ROLLBACK")
            continue
        finally:
            target.execute("DETACH backup")
        return made
    return None


def _fill_table(target: sqlite3.Connection, table: str) -> None:
    """What the backup has of a table, in the columns that both have; nothing of one that its version had not."""
    columns = ", ".join(_shared_columns(target, table, target.execute(f"PRAGMA backup.table_info({table})")))
    if columns and table in _OF_TURNS:
        target.execute(_FILL_OF_TURNS.format(table=table))
    elif columns:
        target.execute(f"INSERT OR IGNORE INTO main.{table} ({columns}) SELECT {columns} FROM backup.{table}")


def _tie(target: sqlite3.Connection, now: datetime) -> None:
    """Give turns without their session a new header, drop what belongs to nothing, and number claims above every old one."""
    target.execute(
        "INSERT INTO sessions (id, workspace, workspace_key, nonce, state) SELECT session, '', '', lower(hex(randomblob(8))), 'routing'"
        " FROM turns WHERE session NOT IN (SELECT id FROM sessions) GROUP BY session"
    )
    for table in _OF_TURNS:
        target.execute(f"DELETE FROM {table} WHERE turn NOT IN (SELECT id FROM turns)")
    for table in ("external_sessions", "leases", "tasks", "artifacts"):
        target.execute(f"DELETE FROM {table} WHERE session NOT IN (SELECT id FROM sessions)")
    for table in ("step_contents", "artifacts"):
        target.execute(f"DELETE FROM {table} WHERE sha256 NOT IN (SELECT sha256 FROM contents)")
    target.execute("DELETE FROM questions WHERE session IS NOT NULL AND session NOT IN (SELECT id FROM sessions)")
    target.execute(
        "INSERT OR REPLACE INTO meta SELECT 'fence', max(?, (SELECT coalesce(max(fence), 0) FROM leases),"
        " (SELECT coalesce(max(value), 0) FROM meta WHERE key = 'fence'))",
        (int(now.timestamp()),),
    )
    target.execute("INSERT OR REPLACE INTO meta VALUES ('indexed', 0)")
    running.mend(target)
    schema.derive(target)
