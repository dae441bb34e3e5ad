"""A connection to a store's file. Damage that SQLite or Python calls by another name is called damage here, and only here."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec

from orchestrator.store import schema
from orchestrator.store.faults import Damaged

BUSY_SECONDS = 10.0
"""How long one process waits while another writes; a transaction takes milliseconds."""

INDEXES = {"percept_words": "words", "search": "text"}
"""The full text indexes, each with its column; the second is made at the first search."""
_UNTOLD = "SQL logic error"
"""What full text search says of data that cannot be; of a statement that cannot be run more is said."""
_NEWEST = 2
"""The highest format that SQLite gives the header's two version bytes."""

P = ParamSpec("P")


def connect(path: Path, mode: str = "mode=rw") -> Connection:
    """A connection without implicit transactions, usable from any thread. Text that is not UTF-8 never stops a row."""
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=Connection)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = ON")  # what is deleted shall not lie on in free pages; not every SQLite is built so
    return connection


class Connection(sqlite3.Connection):
    """Its statements raise `Damaged` for what only a damaged file can bring about."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:  # Any: as the class above has it
        return self._run(super().execute, sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self._run(super().executemany, sql, parameters)

    def _run(self, statement: Callable[P, sqlite3.Cursor], *given: P.args, **named: P.kwargs) -> sqlite3.Cursor:
        try:
            return statement(*given, **named)
        except UnicodeDecodeError as error:  # in place of SQLite's error, whose text quotes the file's bytes
            raise Damaged(error.object.decode(errors="backslashreplace")) from error
        except sqlite3.OperationalError as error:
            if self._is_damage(error):
                raise Damaged(str(error)) from error
            raise

    def _is_damage(self, error: sqlite3.OperationalError) -> bool:
        """A statement of ours that cannot be run has met another schema; a file may refuse to be written because of its header."""
        code = getattr(error, "sqlite_errorcode", 0)
        if code & 0xFF == sqlite3.SQLITE_ERROR:
            return str(error) == _UNTOLD or not self._fits()
        return code == sqlite3.SQLITE_READONLY and self._is_of_the_future()

    def _fits(self) -> bool:
        """Whether all tables and indexes are as this version makes them, and the full text can be searched."""
        try:
            theirs = set(super().execute("SELECT name, sql FROM main.sqlite_master"))
            for index in INDEXES.keys() & {name for name, _ in theirs}:
                super().execute(f"SELECT {INDEXES[index]} FROM main.{index} WHERE {index} MATCH 'a'")  # noqa: S608  # names of ours
        except (sqlite3.Error, UnicodeDecodeError):
            return False
        return theirs >= schema.sound()

    def _is_of_the_future(self) -> bool:
        (_, _, path) = super().execute("PRAGMA database_list").fetchone()
        with open(path, "rb") as file:
            return file.read(20)[18] > _NEWEST
