"""Percepts in the store: learned once, reinforced when heard again, archived before they go (page 4)."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from orchestrator.errors import Ambiguous, NotFound, StoreError, UsageError
from orchestrator.messages import well_formed
from orchestrator.percepts import Percept, statement_key
from orchestrator.store import archive, rows
from orchestrator.workspaces import workspace_key

REINFORCED_BY = 10
HEAVIEST = 100

Notice = Callable[[str], None]

_LAST = "\U0010ffff"
_SHOWN = 40
"""Characters of a percept that an error shows."""


def learn(connection: sqlite3.Connection, percept: Percept, *, now: datetime, platform: str, notice: Notice) -> tuple[Percept, bool]:
    """Store it, or reinforce the one that says the same to the same consumer in the same place."""
    known = _equivalent(connection, percept, platform, notice)
    if known is None:
        return _stored(connection, percept, platform, notice), True
    heard = replace(known, weight=min(HEAVIEST, known.weight + REINFORCED_BY), updated_at=now, last_used_at=now, idle_seconds=0.0)
    connection.execute(
        "UPDATE percepts SET weight = ?, updated_at = ?, last_used_at = ?, idle_seconds = 0 WHERE id = ?",
        (heard.weight, rows.time_text(now), rows.time_text(now), heard.id),
    )
    return heard, False


def standing(connection: sqlite3.Connection, session: str | None, notice: Notice) -> Sequence[Percept]:
    """Global ones and those of the session, heaviest first, ties by id."""
    return _read(connection, "WHERE scope = 'global' OR (scope = 'session' AND session = ?) ORDER BY weight DESC, id", (rows.clean_text(session),), notice)


def forget(connection: sqlite3.Connection, ref: str, kept_in: Path, *, now: datetime, notice: Notice) -> Percept:
    """Archive it, then remove it. A crash in between leaves both, never neither."""
    percept = _found(connection, ref, notice)
    archive.keep(kept_in, percept, reason="forgotten", now=now)
    connection.execute("DELETE FROM percepts WHERE id = ?", (percept.id,))
    return percept


def drop_session(connection: sqlite3.Connection, session: str, kept_in: Path, *, now: datetime, notice: Notice) -> None:
    """Archive and remove what only that session knew."""
    for percept in _read(connection, "WHERE scope = 'session' AND session = ?", (session,), notice):
        archive.keep(kept_in, percept, reason="session dropped", now=now)
        connection.execute("DELETE FROM percepts WHERE id = ?", (percept.id,))


def mark_used(connection: sqlite3.Connection, ids: Sequence[str], at: datetime) -> None:
    """An id that is no longer there is no error: it was forgotten meanwhile."""
    connection.executemany(
        "UPDATE percepts SET last_used_at = ?, idle_seconds = 0 WHERE id = ?", [(rows.time_text(at), well_formed(identity)) for identity in ids]
    )


def _equivalent(connection: sqlite3.Connection, percept: Percept, platform: str, notice: Notice) -> Percept | None:
    workspace = rows.clean_text(percept.workspace)
    bound = (
        statement_key(well_formed(percept.content)),
        percept.scope,
        well_formed(percept.consumer),
        None if workspace is None else workspace_key(workspace, platform),
        rows.clean_text(percept.session) if percept.scope == "session" else None,
    )
    where = "WHERE statement = ? AND scope = ? AND consumer = ? AND workspace_key IS ? AND (scope = 'global' OR session IS ?) ORDER BY seq"
    return next(iter(_read(connection, where, bound, notice)), None)


def _stored(connection: sqlite3.Connection, percept: Percept, platform: str, notice: Notice) -> Percept:
    if connection.execute("SELECT 1 FROM percepts WHERE id = ?", (well_formed(percept.id),)).fetchone() is not None:
        raise StoreError(f"another percept has the id {percept.id}")
    columns = f"{rows.PERCEPT_COLUMNS}, statement, workspace_key"
    row = rows.percept_row(percept, platform)
    connection.execute(f"INSERT INTO percepts ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    return _read(connection, "WHERE id = ?", (row[0],), notice)[0]


def _found(connection: sqlite3.Connection, ref: str, notice: Notice) -> Percept:
    if not ref or "\x00" in ref:
        raise UsageError("a percept reference cannot be empty or hold a NUL character")
    wanted = well_formed(ref)
    exact = _read(connection, "WHERE id = ?", (wanted,), notice)
    found = exact or _read(connection, "WHERE id >= ? AND id < ? ORDER BY id", (wanted, wanted + _LAST), notice)
    if len(found) > 1:
        shown = "; ".join(f"{percept.id} {percept.content[:_SHOWN]!r}" for percept in found[:10])
        raise Ambiguous(f"{ref!r} fits {len(found)} percepts: {shown}", candidates=[percept.id for percept in found], hint="give more of the id")
    if not found:
        raise NotFound(f"there is no percept {ref!r}", hint="`escalera memory list` shows what there is")
    return found[0]


def _read(connection: sqlite3.Connection, where: str, bound: Sequence[object], notice: Notice) -> Sequence[Percept]:
    found = connection.execute(f"SELECT {rows.PERCEPT_COLUMNS} FROM percepts {where}", bound).fetchall()
    values = (rows.percept_value(row, lambda problem, row=row: notice(f"percept {row[0]}: {problem}")) for row in found)  # type: ignore[misc]  # a default binds the row
    return [value for value in values if value is not None]
