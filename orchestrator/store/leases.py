"""Leases: who may write to a session, and the fences that keep an overtaken owner out (page 1)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta

from orchestrator.errors import LeaseLost, SessionInUse
from orchestrator.messages import well_formed
from orchestrator.store import Claim, HeldBy, rows
from orchestrator.store.counters import counter

IsDead = Callable[[str | None], bool]
"""Whether the owner with that lock surely lives no more."""


def claim(connection: sqlite3.Connection, session: str, owner: str, ttl: timedelta, *, now: datetime, lock: str | None, is_dead: IsDead) -> Claim | HeldBy:
    """Take the lease, if nobody living has it, under a fence that no claim had before."""
    holder = held_by(connection, session, now=now, is_dead=is_dead)
    if holder is not None:
        return holder
    fence = counter(connection, "fence") + 1
    connection.execute("UPDATE meta SET value = ? WHERE key = 'fence'", (fence,))
    connection.execute(
        "INSERT OR REPLACE INTO leases (session, owner, fence, expires_at, lock) VALUES (?, ?, ?, ?, ?)",
        (session, well_formed(owner), fence, rows.time_text(now + ttl), lock),
    )
    return Claim(session, owner, fence, now + ttl)


def held_by(connection: sqlite3.Connection, session: str, *, now: datetime, is_dead: IsDead) -> HeldBy | None:
    """The living owner of the session's lease. A lease whose time is unreadable holds nobody up."""
    row = connection.execute("SELECT owner, expires_at, lock FROM leases WHERE session = ?", (session,)).fetchone()
    if row is None:
        return None
    owner, expires, lock = row
    until = _until(expires)
    return None if until is None or until <= now or is_dead(lock) else HeldBy(str(owner), until)


def check(connection: sqlite3.Connection, held: Claim, *, now: datetime) -> None:
    """Raises `LeaseLost` unless the claim still holds the session."""
    row = connection.execute("SELECT owner, fence, expires_at FROM leases WHERE session = ?", (held.session,)).fetchone()
    if row is None or row[:2] != (well_formed(held.owner), held.fence):
        raise LeaseLost(f"session {held.session} was taken over by another process", hint="what was stored until then is kept; ask again")
    if (until := _until(row[2])) is None or until <= now:
        raise LeaseLost(f"the lease of session {held.session} lapsed at {row[2]}", hint="the program was stopped for too long, or the clock was set; ask again")


def renew(connection: sqlite3.Connection, held: Claim, ttl: timedelta, *, now: datetime) -> Claim:
    """Hold it longer; never shorter than it was held already."""
    check(connection, held, now=now)
    until = max(now + ttl, held.expires_at)
    connection.execute("UPDATE leases SET expires_at = ? WHERE session = ?", (rows.time_text(until), held.session))
    return Claim(held.session, held.owner, held.fence, until)


def release(connection: sqlite3.Connection, held: Claim) -> None:
    """Give it back, if it is still ours."""
    connection.execute("DELETE FROM leases WHERE session = ? AND owner = ? AND fence = ?", (held.session, well_formed(held.owner), held.fence))


def refuse_held(connection: sqlite3.Connection, session: str, *, now: datetime, is_dead: IsDead) -> None:
    """Raises `SessionInUse` while somebody living holds the session."""
    holder = held_by(connection, session, now=now, is_dead=is_dead)
    if holder is not None:
        raise SessionInUse(f"session {session} is in use by {holder.owner}", hint="try again when its turn has ended")


def _until(expires: object) -> datetime | None:
    try:
        return rows.time_value(expires)
    except rows.BAD:
        return None
