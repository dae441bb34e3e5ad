"""Sessions: made, found, listed, saved, imported, dropped."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from orchestrator.errors import Ambiguous, NotFound, StoreError, UsageError
from orchestrator.messages import well_formed
from orchestrator.session import ExternalSession, Session, Turn
from orchestrator.store import Receipt, SessionSummary, rows
from orchestrator.store.turns import insert_turn, put_receipt
from orchestrator.workspaces import workspace_key

Notice = Callable[[str], None]

_LAST = "\U0010ffff"
"""Sorts after every text with the same beginning."""
_SHOWN = 10
"""How many sessions an error lists."""


def create(connection: sqlite3.Connection, session: Session, *, first: bool = False, now: datetime, platform: str) -> None:
    """Raises `UsageError` for an id or name that cannot be used or a name that is taken.

    Raises `StoreError` for an id that is taken or, `first`, for a workspace that has a session.
    """
    _usable(session.id, "session id")
    if session.name is not None:
        _usable(session.name, "session name")
    identity = well_formed(session.id)
    if exists(connection, identity):
        raise StoreError(f"session {session.id} exists already", hint="use another id, or drop that session first")
    workspace = well_formed(session.workspace)
    if first and connection.execute("SELECT 1 FROM sessions WHERE workspace_key = ?", (workspace_key(workspace, platform),)).fetchone() is not None:
        raise StoreError(f"{session.workspace} has got a session meanwhile", hint="try again")
    _refuse_taken_name(connection, session, workspace_key(workspace, platform))
    connection.execute(
        "INSERT INTO sessions (id, workspace, workspace_key, nonce, created_at, name, updated_at, state, need, last_need, brief)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            identity,
            workspace,
            workspace_key(workspace, platform),
            well_formed(session.nonce),
            rows.time_text(session.created_at),
            *_header(session, session.updated_at or now),
        ),
    )
    _save_external(connection, identity, session, platform)


def import_session(
    connection: sqlite3.Connection, session: Session, turns: Sequence[Turn], receipts: Mapping[int, Receipt], *, now: datetime, platform: str
) -> None:
    """The session and all its turns."""
    create(connection, session, now=now, platform=platform)
    identity = well_formed(session.id)
    for turn in turns:
        insert_turn(connection, identity, turn)
        put_receipt(connection, identity, turn.index, receipts.get(turn.index))


def save(connection: sqlite3.Connection, identity: str, session: Session, *, now: datetime, platform: str) -> None:
    """The header of the session with that id; the time of the change is the store's.

    What stands there and could not be read is left as it is where the session has nothing to put in its place.
    """
    name, key, *stored = connection.execute("SELECT name, workspace_key, need, last_need, brief FROM sessions WHERE id = ?", (identity,)).fetchone()
    if session.name is not None and rows.clean_text(session.name) != name:
        _usable(session.name, "session name")
        _refuse_taken_name(connection, session, key)
    *others, need, last_need, brief = _header(session, now)
    told = [_kept(raw, new, read) for raw, new, read in zip(stored, (need, last_need, brief), _READERS, strict=True)]
    connection.execute("UPDATE sessions SET name = ?, updated_at = ?, state = ?, need = ?, last_need = ?, brief = ? WHERE id = ?", (*others, *told, identity))
    _save_external(connection, identity, session, platform)


def find(connection: sqlite3.Connection, ref: str | None, workspace: str, *, platform: str, notice: Notice) -> Session:
    """Page 1's references. A name that also begins an id means the session with the name.

    Raises `NotFound` and `Ambiguous`, which list what there is.
    """
    key = workspace_key(well_formed(workspace), platform)
    if ref is None:
        newest = connection.execute("SELECT id FROM sessions WHERE workspace_key = ? ORDER BY updated_at DESC, seq DESC LIMIT 1", (key,)).fetchone()
        if newest is None:
            raise NotFound(f"there is no session in {workspace} yet", hint="start one with `escalera ask`")
        return load(connection, newest[0], notice)
    _usable(ref, "session reference")
    wanted = well_formed(ref)
    if exists(connection, wanted):
        return load(connection, wanted, notice)
    for query, bound in (
        ("SELECT id, name FROM sessions WHERE workspace_key = ? AND name = ? ORDER BY seq", (key, wanted)),
        ("SELECT id, name FROM sessions WHERE id >= ? AND id < ? ORDER BY id", (wanted, wanted + _LAST)),
    ):
        found = connection.execute(query, bound).fetchall()
        if len(found) > 1:
            raise Ambiguous(f"{ref!r} fits {len(found)} sessions: {_shown(found)}", candidates=[identity for identity, _ in found], hint="give more of the id")
        if found:
            return load(connection, found[0][0], notice)
    raise _not_found(connection, ref, key)


def exists(connection: sqlite3.Connection, identity: str) -> bool:
    return connection.execute("SELECT 1 FROM sessions WHERE id = ?", (identity,)).fetchone() is not None


def require(connection: sqlite3.Connection, identity: str) -> None:
    """Raises `NotFound` for a session that is not there."""
    if not exists(connection, identity):
        raise NotFound(f"there is no session {identity}", hint="`escalera session list` shows what there is")


def load(connection: sqlite3.Connection, identity: str, notice: Notice) -> Session:
    """The session with that id, which is there. Raises `StoreError` when its row cannot be read."""

    def complain(problem: str) -> None:
        notice(f"session {identity}: {problem}")

    row = connection.execute(f"SELECT {rows.SESSION_COLUMNS} FROM sessions WHERE id = ?", (identity,)).fetchone()
    session = rows.session_value(row, _external(connection, identity, complain), complain)
    if session is None:
        raise StoreError(f"session {identity} is damaged and cannot be read")
    return session


def summaries(
    connection: sqlite3.Connection, workspace: str | None, *, platform: str, in_use: Callable[[str], bool], notice: Notice
) -> Sequence[SessionSummary]:
    """Newest first. A row that cannot be read is left out and reported."""
    where, bound = ("", ()) if workspace is None else ("WHERE workspace_key = ?", (workspace_key(well_formed(workspace), platform),))
    found = connection.execute(
        f"SELECT {rows.SESSION_COLUMNS}, (SELECT count(*) FROM turns WHERE session = sessions.id) FROM sessions {where} ORDER BY updated_at DESC, seq DESC",
        bound,
    ).fetchall()
    return [summary for row in found if (summary := _summary(row, in_use, notice)) is not None]


def _summary(row: rows.Row, in_use: Callable[[str], bool], notice: Notice) -> SessionSummary | None:
    session = rows.session_value(row[:-1], (), lambda problem: notice(f"session {row[0]}: {problem}"))
    if session is None:
        return None
    return SessionSummary(
        id=session.id,
        name=session.name,
        workspace=session.workspace,
        created_at=session.created_at,
        updated_at=session.updated_at,
        state=session.state.value,
        turns=row[-1],
        need=None if session.need is None else session.need.text,
        in_use=in_use(session.id),
    )


def _header(session: Session, updated: datetime) -> rows.Row:
    return (
        rows.clean_text(session.name),
        rows.time_text(updated),
        session.state.value,
        rows.need_text(session.need),
        rows.last_need_text(session.last_need),
        rows.brief_text(session.brief),
    )


_READERS = (rows.need_value, rows.last_need_value, rows.brief_value)


def _kept(stored: object, new: object, read: Callable[[object, rows.Complain], object]) -> object:
    return stored if new is None and stored is not None and read(stored, _say_nothing) is None else new


def _say_nothing(_problem: str) -> None:
    """It was reported when it was read."""


def _external(connection: sqlite3.Connection, identity: str, complain: rows.Complain) -> tuple[ExternalSession, ...]:
    found = connection.execute(f"SELECT {rows.EXTERNAL_COLUMNS} FROM external_sessions WHERE session = ? ORDER BY rowid", (identity,)).fetchall()
    return tuple(value for row in found if (value := rows.external_value(row, complain)) is not None)


def _save_external(connection: sqlite3.Connection, identity: str, session: Session, platform: str) -> None:
    """At most one per agent and workspace: of two, the later stands. What did not change is not written again, what could not be read is kept."""
    wanted = list({(row[0], row[-1]): row for row in (rows.external_row(external, platform) for external in session.external_sessions)}.values())
    columns = f"{rows.EXTERNAL_COLUMNS}, workspace_key"
    stored = connection.execute(f"SELECT {columns}, rowid FROM external_sessions WHERE session = ? ORDER BY rowid", (identity,)).fetchall()
    if [row[:-1] for row in stored] == wanted:
        return
    replaced = {(row[0], row[-1]) for row in wanted}
    gone = [row[-1] for row in stored if (row[0], row[-2]) in replaced or rows.external_value(row[:-2], _say_nothing) is not None]
    connection.executemany("DELETE FROM external_sessions WHERE rowid = ?", [(rowid,) for rowid in gone])
    connection.executemany(f"INSERT INTO external_sessions (session, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [(identity, *row) for row in wanted])


def _usable(text: str, what: str) -> None:
    if not text.strip() or "\x00" in text:
        raise UsageError(f"a {what} cannot be {'empty' if not text.strip() else 'a text with a NUL character'}")


def _refuse_taken_name(connection: sqlite3.Connection, session: Session, key: str) -> None:
    """Two sessions with one name could never be told apart again."""
    if session.name is None:
        return
    taken = connection.execute(
        "SELECT id FROM sessions WHERE workspace_key = ? AND name = ? AND id <> ?", (key, well_formed(session.name), well_formed(session.id))
    ).fetchone()
    if taken is not None:
        raise UsageError(f"the name {session.name!r} is taken by session {taken[0]} of this workspace", hint="choose another name")


def _not_found(connection: sqlite3.Connection, ref: str, key: str) -> NotFound:
    found = connection.execute("SELECT id, name FROM sessions WHERE workspace_key = ? ORDER BY updated_at DESC, seq DESC", (key,)).fetchall()
    there = f"this workspace has {_shown(found)}" if found else "this workspace has none yet"
    return NotFound(f"there is no session {ref!r}; {there}", hint="`escalera session list --all-workspaces` shows all")


def _shown(found: Sequence[tuple[str, str | None]]) -> str:
    shown = [identity if name is None else f"{identity} ({' '.join(name.split())})" for identity, name in found[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
