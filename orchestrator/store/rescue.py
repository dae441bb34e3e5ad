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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeGuard

from orchestrator.store import artifacts, backup, running, schema
from orchestrator.store.connection import connect
from orchestrator.store.counters import SOUND
from orchestrator.store.files import PRIVATE_FILE, SIDES, Files, make_private, present

_READY = "escalera.db.rescued"
_PAGE = 4096
_HEADER = 100
_VERSION = slice(60, 64)
"""Where the header has it."""
_MAGIC = b"SQLite format 3\x00"
_TABLE_PAGES = (b"\x05", b"\x0d")
"""How the pages of a table's tree begin; those of an index begin otherwise."""


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


# -- building the new file -----------------------------------------------------------------------


def _rebuild(damaged: Path, new: Path, files: Files, now: datetime) -> str:
    make_private(new)
    with closing(connect(new)) as target:
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
    """Copy every row that can be read; the names of the tables that could not be read to their end.

    Each table is read by a first page of ours that tells of no more than its columns and the page where it begins: whatever became of
    the file's own header and schema, the rows lie where they lay.
    """
    with damaged.open("rb") as file:
        version = int.from_bytes(file.read(_HEADER)[_VERSION], "big")
    _lend_header(damaged)
    roots = _roots(damaged, target, version)
    expected = [table for table in schema.TABLES if table in roots or table not in schema.ADDED]
    return tuple(table for table in expected if not _salvage_table(damaged, target, table, roots.get(table, 0)))


def _lend_header(damaged: Path) -> None:
    _write_start(damaged, lambda connection: connection.execute("PRAGMA user_version = 1"), _HEADER)


def _lend_page(damaged: Path, target: sqlite3.Connection, table: str, root: int) -> None:
    """The first page of a file that has this table, without keys and indexes."""

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute(f"CREATE TABLE {table} ({', '.join(_plain_columns(target, table))})")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET rootpage = ?", (root,))

    _write_start(damaged, fill, _page_size(damaged))


def _write_start(damaged: Path, fill: Callable[[sqlite3.Connection], object], length: int) -> None:
    """Write the first bytes of a new file over those of a copy."""
    page, new = _page_size(damaged), damaged.with_name("start.db")
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {page}")
        connection.execute("PRAGMA synchronous = OFF")
        fill(connection)
    start = bytearray(new.read_bytes()[:length])
    new.unlink()
    start[28:32] = max(1, damaged.stat().st_size // page).to_bytes(4, "big")
    with damaged.open("r+b") as file:
        file.write(start)


def _page_size(damaged: Path) -> int:
    """As the file says, where that can be: a user may have changed it. The second page of every store begins a table."""
    with damaged.open("rb") as file:
        start = file.read(_HEADER)
        said = int.from_bytes(start[16:18], "big")
        file.seek(said)
        believed = start.startswith(_MAGIC) and said >= 512 and said.bit_count() == 1 and file.read(1) in _TABLE_PAGES
    return said if believed else _PAGE


def _plain_columns(target: sqlite3.Connection, table: str) -> Iterator[str]:
    """Only the column that stands for a row's id is more than its name."""
    columns = target.execute(f"PRAGMA main.table_info({table})").fetchall()
    keys = [(name, kind) for (_, name, kind, _, _, key) in columns if key]
    for _, name, kind, *_ in columns:
        yield f"{name} INTEGER PRIMARY KEY" if [(name, kind)] == keys and kind == "INTEGER" else name


def _roots(damaged: Path, target: sqlite3.Connection, version: int) -> Mapping[str, int]:
    """The page where each table begins, as the file's schema says. The file has taken in its log afterwards.

    What is lost of the schema is taken to lie where it lies in a new file, unless other tables lie elsewhere; of an older version that
    shows all that it had, nothing is lost.
    """
    new = {name: root for name, root in target.execute("SELECT name, rootpage FROM sqlite_master") if name in schema.TABLES}
    missed: list[int] = []
    with closing(connect(damaged)) as source:
        source.execute("PRAGMA writable_schema = ON")
        with suppress(sqlite3.Error):
            source.execute("SELECT 1 FROM sqlite_master")  # with that setting, only the first statement fails for a schema that is no SQL
        rows = list(_readable(source, "SELECT rowid, name, rootpage FROM sqlite_master", missed.append))
    found = {name: root for _, name, root in rows if name in new and _begins_table(root, damaged)}
    lossy = missed or version == schema.VERSION or not found.keys() >= set(schema.TABLES) - schema.ADDED
    return new if lossy and found.items() <= new.items() else found


def _salvage_table(damaged: Path, target: sqlite3.Connection, table: str, root: object) -> bool:
    if not _begins_table(root, damaged):
        return False
    _lend_page(damaged, target, table, root)
    columns = [name for (_, name, *_) in target.execute(f"PRAGMA main.table_info({table})")]
    insert = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    missed: list[int] = []
    with closing(connect(damaged)) as source:
        for row in _readable(source, f"SELECT rowid, {', '.join(columns)} FROM {table}", missed.append):
            try:
                target.execute(insert, row[1:])
            except sqlite3.Error:
                missed.append(row[0])  # a row that is no longer one of ours, such as one without an id
    return not missed


def _begins_table(root: object, damaged: Path) -> TypeGuard[int]:
    """Whether that page is there and says that it is a table's: SQLite reads no other, and would be asked for every row in vain."""
    page = _page_size(damaged)
    if not isinstance(root, int) or not 1 < root <= damaged.stat().st_size // page:
        return False
    with damaged.open("rb") as file:
        file.seek((root - 1) * page)
        return file.read(1) in _TABLE_PAGES


def _shared_columns(target: sqlite3.Connection, table: str, theirs: Iterable[tuple[Any, ...]]) -> list[str]:
    """Columns that another file has, too: one of an older version has fewer."""
    there = {name for (_, name, *_) in theirs}
    return [name for (_, name, *_) in target.execute(f"PRAGMA main.table_info({table})") if name in there]


_PROBES = 20_000
"""Failed reads before a table is given up: some thousand damaged pages."""


def _readable(source: sqlite3.Connection, select: str, missed: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
    """Every row between the damaged places: read stretches, each twice as long, from both ends, then the halves of what lies between."""
    stretches = deque([(2**power, 2 ** (power + 1) - 1) for power in range(63)])
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
    target.execute("DELETE FROM artifacts WHERE sha256 NOT IN (SELECT sha256 FROM contents)")
    artifacts.count_holders(target)
    target.execute("DELETE FROM questions WHERE session IS NOT NULL AND session NOT IN (SELECT id FROM sessions)")
    target.execute(
        "INSERT OR REPLACE INTO meta SELECT 'fence', max(?, (SELECT coalesce(max(fence), 0) FROM leases WHERE typeof(fence) = 'integer'),"
        f" (SELECT coalesce(max(value), 0) FROM meta WHERE key = 'fence' AND {SOUND}))",
        (int(now.timestamp()),),
    )
    target.execute("INSERT OR REPLACE INTO meta VALUES ('indexed', 0)")
    running.mend(target)
    schema.derive(target)
