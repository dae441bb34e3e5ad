"""The tables, and how a file of an older version becomes one of this version."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Set
from contextlib import closing

from orchestrator.errors import StoreError, StoreTooNew
from orchestrator.percepts import index_text, mark_of, statement_key, subject_key
from orchestrator.store.faults import Damaged
from orchestrator.words import statement_of

APPLICATION_ID = 0x45534341
"""Marks the file as ours: `ESCA`."""

_FIRST = (
    """CREATE TABLE sessions (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        name TEXT,
        workspace TEXT NOT NULL,
        workspace_key TEXT NOT NULL,
        nonce TEXT NOT NULL,
        created_at TEXT,
        updated_at TEXT,
        state TEXT NOT NULL,
        need TEXT,
        last_need TEXT,
        brief TEXT)""",
    "CREATE INDEX sessions_by_workspace ON sessions (workspace_key, updated_at, seq)",
    # AUTOINCREMENT: an id is never given twice, since the search index goes by it.
    """CREATE TABLE turns (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        idx INTEGER NOT NULL,
        role TEXT NOT NULL,
        outcome TEXT NOT NULL,
        agent TEXT NOT NULL,
        prompt TEXT,
        mode TEXT,
        reasons TEXT,
        started_at TEXT,
        ended_at TEXT,
        usage TEXT,
        error TEXT,
        continues INTEGER,
        model_requested TEXT,
        model_served TEXT,
        UNIQUE (session, idx))""",
    "CREATE INDEX turns_by_outcome ON turns (session, role, outcome, idx)",
    """CREATE TABLE steps (
        turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        payload TEXT NOT NULL,
        PRIMARY KEY (turn, seq))""",
    """CREATE TABLE external_sessions (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        agent TEXT NOT NULL,
        workspace TEXT NOT NULL,
        workspace_key TEXT NOT NULL,
        id TEXT NOT NULL,
        config_dir TEXT,
        turn_index INTEGER,
        model TEXT,
        system_text TEXT NOT NULL,
        delivered TEXT NOT NULL,
        PRIMARY KEY (session, agent, workspace_key))""",
    """CREATE TABLE leases (
        session TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
        owner TEXT NOT NULL,
        fence INTEGER NOT NULL,
        expires_at TEXT NOT NULL,
        lock TEXT)""",
    """CREATE TABLE percepts (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        statement TEXT NOT NULL,
        content TEXT NOT NULL,
        producer TEXT NOT NULL,
        consumer TEXT NOT NULL,
        weight INTEGER NOT NULL,
        core INTEGER NOT NULL,
        scope TEXT NOT NULL,
        workspace TEXT,
        workspace_key TEXT,
        session TEXT,
        subject TEXT,
        created_at TEXT,
        updated_at TEXT,
        last_used_at TEXT,
        idle_seconds REAL NOT NULL,
        source TEXT,
        trust TEXT NOT NULL)""",
    "CREATE INDEX percepts_by_statement ON percepts (statement)",
    "CREATE INDEX percepts_by_scope ON percepts (scope, session)",
    "CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL)",
    "INSERT INTO meta VALUES ('fence', 0), ('indexed', 0)",
    # Turns that were still open when the search index passed them.
    "CREATE TABLE unindexed (turn INTEGER PRIMARY KEY)",
)

_RECEIPTS = (
    # What each turn was decided by; apart from the turns, since it is read only where a turn is explained.
    """CREATE TABLE receipts (
        turn INTEGER NOT NULL PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
        payload TEXT NOT NULL)""",
)

# As bytes: a function is given no text that is not UTF-8.
_DERIVE = """UPDATE percepts SET
    statement = statement_mark(CAST(content AS BLOB)), stance = stance_mark(CAST(content AS BLOB)), denied = is_denied(CAST(content AS BLOB)),
    subject_key = subject_key(CAST(subject AS BLOB))"""
_INDEX = "INSERT INTO percept_words (rowid, words) SELECT seq, index_text(CAST(content AS BLOB)) FROM percepts"

_MEMORY = (
    # What is derived from the content: `stance` is the same for a statement and its denial.
    "ALTER TABLE percepts ADD COLUMN stance TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE percepts ADD COLUMN denied INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE percepts ADD COLUMN subject_key TEXT",
    # Where the counters of running time stood when idle_seconds and weight were true, in milliseconds.
    "ALTER TABLE percepts ADD COLUMN idle_mark INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE percepts ADD COLUMN weight_mark INTEGER NOT NULL DEFAULT 0",
    # The number of its last use among all uses.
    "ALTER TABLE percepts ADD COLUMN use INTEGER NOT NULL DEFAULT 0",
    # The day for which the weight of one of a session was last reckoned.
    "ALTER TABLE percepts ADD COLUMN aged_on TEXT",
    "UPDATE percepts SET idle_seconds = 0, aged_on = substr(coalesce(created_at, updated_at, '9999'), 1, 10)",
    "CREATE INDEX percepts_by_stance ON percepts (stance)",
    "CREATE INDEX percepts_by_subject ON percepts (subject_key) WHERE subject_key IS NOT NULL",
    "CREATE INDEX percepts_by_use ON percepts (use)",
    "CREATE INDEX percepts_core ON percepts (seq) WHERE core <> 0",
    """CREATE TABLE edges (
        seq INTEGER PRIMARY KEY,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        kind TEXT NOT NULL,
        applied INTEGER NOT NULL DEFAULT 0,
        created_at TEXT,
        UNIQUE (source, target, kind))""",
    "CREATE INDEX edges_by_target ON edges (target)",
    "CREATE INDEX edges_updates ON edges (target, source) WHERE kind = 'updates'",
    "CREATE INDEX edges_unapplied ON edges (seq) WHERE applied = 0",
    # Words come to it as words.index_words gives them, none with a blank in it: everything else belongs to a word.
    r"""CREATE VIRTUAL TABLE percept_words USING fts5 (words, tokenize = "ascii tokenchars '!#$%&''()*+,-./:;<=>?@[\]^_`{|}~'")""",
    "INSERT OR IGNORE INTO meta VALUES ('running', 0), ('aged', 0), ('uses', 0), ('archived', 0)",
    _DERIVE,
    _INDEX,
)

_QUESTIONS = (
    # Times in whole milliseconds, as text that sorts; spans in milliseconds. `lock` is the asker's, where the question dies with it.
    """CREATE TABLE questions (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session TEXT REFERENCES sessions (id) ON DELETE CASCADE,
        turn INTEGER,
        agent TEXT NOT NULL,
        mode TEXT NOT NULL,
        message TEXT NOT NULL,
        requested_schema TEXT NOT NULL,
        url TEXT,
        durable INTEGER NOT NULL,
        lock TEXT,
        created TEXT NOT NULL,
        last_touched TEXT NOT NULL,
        expires_at TEXT NOT NULL,
        ttl_ms INTEGER NOT NULL,
        max_age_ms INTEGER NOT NULL,
        explicit INTEGER NOT NULL,
        keep_ms INTEGER NOT NULL,
        state TEXT NOT NULL,
        answer TEXT,
        late TEXT,
        told INTEGER NOT NULL,
        ended_at TEXT)""",
    "CREATE INDEX questions_by_state ON questions (state, expires_at)",
    "CREATE INDEX questions_by_session ON questions (session, told)",
)

_TASKS = (
    """CREATE TABLE tasks (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        wanted TEXT NOT NULL,
        created TEXT NOT NULL,
        began TEXT NOT NULL,
        last_touched TEXT NOT NULL,
        expires_at TEXT NOT NULL,
        ttl_ms INTEGER NOT NULL,
        max_age_ms INTEGER NOT NULL,
        explicit INTEGER NOT NULL,
        state TEXT NOT NULL,
        updated TEXT NOT NULL,
        result TEXT,
        exit_code INTEGER,
        cancelling INTEGER NOT NULL,
        lock TEXT,
        lease_until TEXT NOT NULL)""",
)

_ARTIFACTS = (
    # Each text once. Steps hold theirs as {"sha256": …} where it is here, and `step_contents` says so.
    "CREATE TABLE contents (sha256 TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL)",
    """CREATE TABLE step_contents (
        turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        sha256 TEXT NOT NULL REFERENCES contents (sha256),
        PRIMARY KEY (turn, seq))""",
    "CREATE INDEX step_contents_by_content ON step_contents (sha256)",
    """CREATE TABLE artifacts (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        sha256 TEXT NOT NULL REFERENCES contents (sha256),
        size INTEGER NOT NULL,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn INTEGER,
        name TEXT,
        created TEXT NOT NULL,
        last_touched TEXT NOT NULL,
        expires_at TEXT NOT NULL,
        ttl_ms INTEGER NOT NULL,
        max_age_ms INTEGER NOT NULL,
        explicit INTEGER NOT NULL)""",
    "CREATE INDEX artifacts_by_content ON artifacts (sha256, size)",
    "CREATE INDEX artifacts_by_session ON artifacts (session)",
)

_COPIES = (
    # The session that a copied turn was taken in: what it used is counted there, and once.
    "ALTER TABLE turns ADD COLUMN copied_from TEXT",
    "CREATE INDEX turns_copied ON turns (copied_from, idx) WHERE copied_from IS NOT NULL",
)

MIGRATIONS = (_FIRST, _RECEIPTS, _MEMORY, _QUESTIONS, _TASKS, _ARTIFACTS, _COPIES)
"""One entry for each version: the statements that lead to it from the one before."""
VERSION = len(MIGRATIONS)

TABLES = (
    *("sessions", "turns", "contents", "steps", "step_contents", "receipts", "external_sessions", "leases"),
    *("percepts", "edges", "meta", "questions", "tasks", "artifacts"),
)
"""What holds the user's data, parents first."""
ADDED = frozenset({"receipts", "edges", "questions", "tasks", "contents", "step_contents", "artifacts"})
"""Tables that files of older versions are whole without."""

_NO_VERSION = 100_000
"""No version will ever be as high: a file that says so has a damaged header."""


def version_of(connection: sqlite3.Connection) -> int:
    """The file's version; 0 for an empty one. Raises `StoreTooNew`, `StoreError` for a file that is not ours, `Damaged`."""
    version, application, tables = _header(connection)
    if application != APPLICATION_ID and tables.issuperset(set(TABLES) - ADDED):
        raise Damaged("its header names another program")
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreError("escalera.db is a database of another program", hint="move it away, or set ESCALERA_HOME to another folder")
    if not 0 <= version < _NO_VERSION:
        raise Damaged(f"its header says format {version}")
    if version > VERSION:
        raise StoreTooNew(
            f"the store was written by a newer version: its format is {version}, this program reads up to {VERSION}",
            hint="update escalera, or set ESCALERA_HOME to another folder",
        )
    if version == VERSION and not tables.issuperset(TABLES):
        raise Damaged(f"tables are missing: {', '.join(sorted(set(TABLES) - tables))}")
    return version


def _header(connection: sqlite3.Connection) -> tuple[int, int, set[str]]:
    """Version, program and tables, all in one state of the file: another process may just be making it."""
    begins = not connection.in_transaction
    if begins:
        connection.execute("BEGIN")
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return _pragma(connection, "user_version"), _pragma(connection, "application_id"), tables
    finally:
        if begins and connection.in_transaction:
            connection.execute("ROLLBACK")


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to this version, in one transaction. Raises `Damaged` for tables that are not those of the version that the file says."""
    _add_functions(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[version_of(connection) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            raise Damaged(str(error)) from error
        raise
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def sound() -> Set[tuple[str, str | None]]:
    """Name and SQL of all that a store of this version is made of; it may have more."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        return set(connection.execute("SELECT name, sql FROM sqlite_master"))


def derive(connection: sqlite3.Connection) -> None:
    """Reckon anew what is derived from the percepts' content, and their index: after rows came in from elsewhere."""
    _add_functions(connection)
    connection.execute("DELETE FROM percept_words")
    connection.execute(_DERIVE)
    connection.execute(_INDEX)


def _add_functions(connection: sqlite3.Connection) -> None:
    for name, work in _FUNCTIONS.items():
        connection.create_function(name, 1, work, deterministic=True)


def _text(value: object) -> str:
    """What a damaged row may hold in place of a text is none."""
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


_FUNCTIONS: dict[str, Callable[[object], str | int | None]] = {
    "statement_mark": lambda content: statement_key(_text(content)),
    "stance_mark": lambda content: mark_of(statement_of(_text(content)).stance),
    "is_denied": lambda content: int(statement_of(_text(content)).denied),
    "subject_key": lambda subject: subject_key(_text(subject)),
    "index_text": lambda content: index_text(_text(content)),
}


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
