"""Storing turns: opened, grown step by step, closed. The same call twice stores once (page 1)."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from orchestrator.errors import StoreError
from orchestrator.messages import Part
from orchestrator.session import Outcome, Turn
from orchestrator.store import Receipt, rows
from orchestrator.store.artifacts import put_step

T = TypeVar("T")

_INDEX = "next index of "
"""Begins the key under which a session whose last turns were removed has the index that comes next."""


def open_turn(connection: sqlite3.Connection, session: str, turn: Turn) -> None:
    """Store a new turn as open. Raises `StoreError` for an index that another turn has, or that lies before one."""
    row = connection.execute("SELECT id, outcome, role, agent, prompt, continues FROM turns WHERE session = ? AND idx = ?", (session, turn.index)).fetchone()
    if row is not None:
        _, role, _, agent, prompt, *_ = rows.turn_row(turn)
        if row[1:] != (Outcome.OPEN, role, agent, prompt, turn.continues):
            raise StoreError(f"session {session} already has a turn {turn.index}")
        return
    following = next_index(connection, session)
    if turn.index < following:
        raise StoreError(f"session {session} is past turn {turn.index}: its last is {following - 1}")
    insert_turn(connection, session, replace(turn, outcome=Outcome.OPEN))


def append_step(connection: sqlite3.Connection, session: str, index: int, seq: int, step: Part) -> None:
    """Store one step. Raises `StoreError` when the turn is not open, unless the step is there already."""
    turn, outcome = _turn(connection, session, index)
    if outcome == Outcome.OPEN:
        put_step(connection, turn, seq, step)
    elif connection.execute("SELECT 1 FROM steps WHERE turn = ? AND seq = ?", (turn, seq)).fetchone() is None:
        raise StoreError(f"turn {index} of session {session} has ended ({outcome}): it takes no more steps")


def close_turn(connection: sqlite3.Connection, session: str, turn: Turn) -> bool:
    """Store the turn's end, but for its steps; whether it was open until now."""
    identity, outcome = _turn(connection, session, turn.index)
    if outcome != Outcome.OPEN:
        return False
    columns = [name for name in rows.TURN_COLUMNS.split(", ") if name != "idx"]
    connection.execute(f"UPDATE turns SET {', '.join(f'{name} = ?' for name in columns)} WHERE id = ?", (*rows.turn_row(turn)[1:], identity))
    return True


def put_receipt(connection: sqlite3.Connection, session: str, index: int, receipt: Receipt | None) -> None:
    """Store what the turn was decided by, in the place of what was stored before; nothing leaves that as it is."""
    if receipt is not None:
        connection.execute(
            "INSERT OR REPLACE INTO receipts (turn, payload) SELECT id, ? FROM turns WHERE session = ? AND idx = ?", (rows.encode(receipt), session, index)
        )


def receipts(connection: sqlite3.Connection, session: str, notice: Callable[[str], None], quickly: Callable[[str], T | None]) -> Mapping[int, T | Receipt]:
    """By the index of the turn, what `quickly` makes of it or else its JSON; one that cannot be read is left out and reported."""
    found = connection.execute("SELECT idx, payload FROM turns JOIN receipts ON receipts.turn = turns.id WHERE session = ? ORDER BY idx", (session,))
    read: dict[int, T | Receipt] = {}
    for index, payload in found.fetchall():
        try:
            made = quickly(payload) if isinstance(payload, str) else None
            read[index] = rows.object_value(payload) if made is None else made
        except rows.BAD as problem:
            notice(f"session {session}, turn {index}: its receipt is unreadable: {problem}")
    return read


def next_index(connection: sqlite3.Connection, session: str) -> int:
    """The index after the last turn that the session has or had: an index is never given twice (page 1)."""
    query = "SELECT max(coalesce((SELECT max(idx) FROM turns WHERE session = ?), -1) + 1, coalesce((SELECT value FROM meta WHERE key = ?), 0))"
    (following,) = connection.execute(query, (session, _INDEX + session)).fetchone()
    return int(following)


def from_index(connection: sqlite3.Connection, session: str, index: int) -> Sequence[int]:
    """The rows' ids of the turns from that index on."""
    return [identity for (identity,) in connection.execute("SELECT id FROM turns WHERE session = ? AND idx >= ?", (session, index))]


def remove(connection: sqlite3.Connection, session: str, gone: Sequence[int]) -> None:
    """Remove turns by their rows' ids; the session remembers how far it had come."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_INDEX + session, next_index(connection, session)))
    connection.executemany("DELETE FROM unindexed WHERE turn = ?", [(identity,) for identity in gone])
    connection.executemany("DELETE FROM turns WHERE id = ?", [(identity,) for identity in gone])


def forget_indexes(connection: sqlite3.Connection, session: str) -> None:
    """Of a session that goes itself."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_INDEX + session,))


def refuse_longer(connection: sqlite3.Connection, session: str, next_index: int) -> None:
    """Raises `StoreError` when the session has turns at or after that index: whoever says so has not seen them."""
    if connection.execute("SELECT 1 FROM turns WHERE session = ? AND idx >= ? LIMIT 1", (session, next_index)).fetchone() is not None:
        raise StoreError(f"session {session} has got turns since it was looked at", hint="look at it again")


def interrupt(connection: sqlite3.Connection, session: str) -> None:
    """Mark what is found open: nobody works on it any more. When it ended is not known."""
    connection.execute(
        "UPDATE turns SET outcome = 'interrupted' WHERE session = ? AND role IN ('primary', 'escalation') AND outcome = 'open'",
        (session,),
    )


def insert_turn(connection: sqlite3.Connection, session: str, turn: Turn) -> None:
    """The turn with its steps."""
    row = (session, *rows.turn_row(turn))
    cursor = connection.execute(f"INSERT INTO turns (session, {rows.TURN_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
    for seq, step in enumerate(turn.steps):
        put_step(connection, cast("int", cursor.lastrowid), seq, step)


def _turn(connection: sqlite3.Connection, session: str, index: int) -> tuple[int, str]:
    row = connection.execute("SELECT id, outcome FROM turns WHERE session = ? AND idx = ?", (session, index)).fetchone()
    if row is None:
        raise StoreError(f"session {session} has no turn {index}")
    identity, outcome = row
    return identity, outcome
