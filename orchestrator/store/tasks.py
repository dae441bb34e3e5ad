"""Background tasks in the store: who runs one, how it ended, and for how long its result is kept (page 5)."""

# ruff: noqa: S608 - names of columns are constants of ours, and every value is bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from orchestrator.errors import StoreError
from orchestrator.lifetimes import Lifespan, begun, whole_ms
from orchestrator.messages import well_formed
from orchestrator.store import rows
from orchestrator.store.questions import Look
from orchestrator.store.refs import one_of
from orchestrator.tasks import StoredTask, TaskState

_COLUMNS = (
    "id, session, wanted, created, began, last_touched, expires_at, ttl_ms, max_age_ms, explicit,"
    " state, updated, result, exit_code, cancelling, lock, lease_until"
)
_MS = timedelta(milliseconds=1)
_HINT = "it may have expired: a result is kept for tasks.ttl after it was last read"


def add(connection: sqlite3.Connection, task: StoredTask, lease: timedelta) -> None:
    """Keep a new task, which somebody must claim within the time of the lease. Raises `StoreError` for an id that is taken."""
    if connection.execute("SELECT 1 FROM tasks WHERE id = ?", (task.id,)).fetchone() is not None:
        raise StoreError(f"another task has the id {task.id}")
    life = task.life
    row = (
        well_formed(task.id),
        well_formed(task.session),
        rows.encode(dict(task.order)),
        rows.time_text(task.created),
        rows.time_text(life.created),
        rows.time_text(life.last_touched),
        rows.time_text(life.expires_at),
        life.ttl // _MS,
        life.max_age // _MS,
        int(life.explicit),
        task.state.value,
        rows.time_text(task.created),
        None,
        None,
        0,
        None,
        rows.time_text(task.created + lease),
    )
    connection.execute(f"INSERT INTO tasks ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)


def hold(connection: sqlite3.Connection, identity: str, lease: timedelta, look: Look, *, lock: str | None) -> StoredTask | None:
    """Run it, or go on running it: the lease is ours for so long. `None` for one that another runner has, or that is over."""
    settle(connection, look, identity=identity)
    held = connection.execute(
        "UPDATE tasks SET lock = ?, lease_until = ? WHERE id = ? AND state = 'running' AND (lock IS NULL OR lock IS ?)",
        (lock, rows.time_text(whole_ms(look.now) + lease), identity, lock),
    )
    return _found(connection, identity, look) if held.rowcount else None


def end(connection: sqlite3.Connection, identity: str, state: TaskState, result: Mapping[str, Any], exit_code: int, look: Look) -> bool:
    """Its end, and the beginning of its result's life; whether it was still running."""
    found = _found(connection, identity, look)
    life = _of_result(found.life, look.now)
    ended = connection.execute(
        "UPDATE tasks SET state = ?, result = ?, exit_code = ?, updated = ?, began = ?, last_touched = ?, expires_at = ? WHERE id = ? AND state = 'running'",
        (state.value, rows.encode(result), exit_code, _text_of(look.now), *map(rows.time_text, (life.created, life.last_touched, life.expires_at)), found.id),
    )
    return ended.rowcount > 0


def forget(connection: sqlite3.Connection, identity: str, look: Look) -> None:
    """Remove one that came to nothing; any other stays."""
    if any(task.came_to_nothing for task in _read(connection, "WHERE id = ?", (identity,), look)):
        connection.execute("DELETE FROM tasks WHERE id = ?", (identity,))


def ask_to_end(connection: sqlite3.Connection, identity: str, look: Look) -> StoredTask:
    """Ask its runner to end it."""
    settle(connection, look, identity=identity)
    connection.execute("UPDATE tasks SET cancelling = 1 WHERE id = ? AND state = 'running'", (identity,))
    return _found(connection, identity, look)


def peek(connection: sqlite3.Connection, ref: str, look: Look) -> StoredTask:
    """The task as it stands now. Raises `NotFound` also for one whose result has expired, `Ambiguous`."""
    return _found(connection, ref, look)


def read(connection: sqlite3.Connection, ref: str, look: Look) -> StoredTask:
    """An item read: it, or its result, lives on by it."""
    found = _found(connection, ref, look)
    if not found.settled:
        settle(connection, look, identity=found.id)
        found = _found(connection, found.id, look)
    life = found.life.touched(look.now)
    connection.execute(
        "UPDATE tasks SET last_touched = ?, expires_at = ? WHERE id = ? AND expires_at > ?",
        (rows.time_text(life.last_touched), rows.time_text(life.expires_at), found.id, _text_of(look.now)),
    )
    return replace(found, life=life)


def listed(connection: sqlite3.Connection, look: Look) -> Sequence[StoredTask]:
    """Oldest first; no read of any."""
    return _read(connection, "ORDER BY seq", (), look)


def settle(connection: sqlite3.Connection, look: Look, *, identity: str | None = None) -> None:
    """Write down which runners are gone, and remove the results that have expired."""
    one, bound = ("", ()) if identity is None else (" AND id = ?", (identity,))
    for row in connection.execute(f"SELECT {_COLUMNS} FROM tasks WHERE state = 'running'{one}", bound).fetchall():
        found = _value(row, look)
        if found is not None and not found.runs:
            _interrupt(connection, found, look)
    connection.execute(f"DELETE FROM tasks WHERE state <> 'running' AND expires_at <= ?{one}", (_text_of(look.now), *bound))


def _interrupt(connection: sqlite3.Connection, found: StoredTask, look: Look) -> None:
    life = found.life
    connection.execute(
        "UPDATE tasks SET state = 'interrupted', updated = ?, began = ?, last_touched = ?, expires_at = ? WHERE id = ? AND state = 'running'",
        (_text_of(look.now), *map(rows.time_text, (life.created, life.last_touched, life.expires_at)), found.id),
    )


def _of_result(life: Lifespan, now: datetime) -> Lifespan:
    """The life of what a task came to, which begins when it ends; no deadline that was reported before comes nearer by that."""
    new = begun(now, ttl=life.ttl, max_age=life.max_age)
    return replace(new, last_touched=max(new.last_touched, life.last_touched), expires_at=max(new.expires_at, life.expires_at))


def _found(connection: sqlite3.Connection, ref: str, look: Look) -> StoredTask:
    return one_of(ref, "task", lambda where, bound: _read(connection, where, bound, look), hint=_HINT)


def _read(connection: sqlite3.Connection, where: str, bound: Sequence[object], look: Look) -> Sequence[StoredTask]:
    values = (_value(row, look) for row in connection.execute(f"SELECT {_COLUMNS} FROM tasks {where}", bound).fetchall())
    return [task for task in values if task is not None and (task.runs or task.life.is_alive(look.now))]


def _value(row: rows.Row, look: Look) -> StoredTask | None:
    """The task of a row, as it stands now; `None` for one that cannot be read."""
    identity, session, order, created, began, touched, expires, ttl, max_age, explicit, state, updated, result, code, cancelling, lock, lease = row
    try:
        life = Lifespan(_time(began), _time(touched), _time(expires), int(ttl) * _MS, int(max_age) * _MS, explicit=bool(explicit))
        given = None if result is None else _object(result)
        exit_code = None if code is None else int(code)
        task = StoredTask(
            str(identity), str(session), _object(order), _time(created), life, TaskState(state), _time(updated), given, exit_code, cancelling=bool(cancelling)
        )
        lapsed = task.runs and (look.is_dead(lock) or _time(lease) <= whole_ms(look.now))
    except (*rows.BAD, OverflowError) as problem:
        look.notice(f"task {identity}: skipped: {problem}")
        return None
    if not lapsed:
        return task
    return replace(task, state=TaskState.INTERRUPTED, updated=whole_ms(look.now), life=_of_result(life, look.now), settled=False)


def _text_of(now: datetime) -> str | None:
    return rows.time_text(whole_ms(now))


def _object(text: Any) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("an order or a result is no object")
    return value


def _time(value: Any) -> datetime:
    moment = rows.time_value(value)
    if moment is None:
        raise ValueError("a time is missing")
    return moment
