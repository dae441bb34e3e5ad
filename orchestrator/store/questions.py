"""Questions in the store: every race between reading, answering, withdrawing and expiring is settled by one conditional update (page 5)."""

# ruff: noqa: S608 - names of columns are constants of ours, and every value is bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast, get_args

from orchestrator.errors import StoreError
from orchestrator.lifetimes import Lifespan, whole_ms
from orchestrator.messages import well_formed
from orchestrator.providers import Answer, Question
from orchestrator.questions import Given, QuestionState, StoredQuestion
from orchestrator.store import rows
from orchestrator.store.refs import one_of


@dataclass(frozen=True, slots=True)
class Look:
    """What questions are looked at with."""

    now: datetime
    is_dead: Callable[[str | None], bool]
    """Whether the owner with that lock surely lives no more."""
    notice: Callable[[str], None]


_COLUMNS = (
    "id, session, turn, agent, mode, message, requested_schema, url, durable, lock,"
    " created, last_touched, expires_at, ttl_ms, max_age_ms, explicit, keep_ms, state, answer, late, told"
)
_MOST_LATE = 20

_BY_EXPIRY = Answer("cancel", by="expiry")
_BY_ASKER = Answer("cancel", by="asker")


def add(connection: sqlite3.Connection, stored: StoredQuestion, *, lock: str | None) -> None:
    """Keep a new question; `lock` is its asker's, where it dies with that. Raises `StoreError` for an id that is taken."""
    if connection.execute("SELECT 1 FROM questions WHERE id = ?", (stored.id,)).fetchone() is not None:
        raise StoreError(f"another question has the id {stored.id}")
    row = _row(stored, lock)
    connection.execute(f"INSERT INTO questions ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)


def peek(connection: sqlite3.Connection, ref: str, look: Look) -> StoredQuestion:
    """The question as it stands now, whatever the row says of one that is overdue or whose asker is gone. Raises `NotFound`, `Ambiguous`."""
    return _found(connection, ref, look)


def read(connection: sqlite3.Connection, ref: str, look: Look) -> StoredQuestion:
    """An item read: what is pending lives on by it, and what has ended is written down."""
    found = _found(connection, ref, look)
    if not found.settled:
        settle(connection, look, identity=found.id)
        return _found(connection, found.id, look)
    life = found.life.touched(look.now)
    if not found.is_pending or life == found.life:
        return found
    touched = connection.execute(
        "UPDATE questions SET last_touched = ?, expires_at = ? WHERE id = ? AND state = 'pending' AND expires_at > ?",
        (rows.time_text(life.last_touched), rows.time_text(life.expires_at), found.id, _now(look.now)),
    )
    return replace(found, life=life) if touched.rowcount else found


def listed(connection: sqlite3.Connection, look: Look, *, session: str | None, pending: bool, untold: bool) -> Sequence[StoredQuestion]:
    """Oldest first; of one session or of all; the pending ones, those whose asker does not know their end, or all. No item is read by that."""
    where = [
        *(["session = ?"] if session is not None else []),
        *(["state = 'pending' AND expires_at > ?"] if pending else []),
        *(["told = 0"] if untold else []),
    ]
    bound = [*([well_formed(session)] if session is not None else []), *([_now(look.now)] if pending else [])]
    found = _read(connection, f"WHERE {' AND '.join(where) or '1'} ORDER BY seq", bound, look)
    return [stored for stored in found if stored.is_pending or not pending]


def answer(connection: sqlite3.Connection, identity: str, given: Answer, look: Look) -> tuple[StoredQuestion, bool]:
    """Answer it, if it is still open: as it stands now, and whether by this answer. What a human accepts too late is kept."""
    settle(connection, look, identity=identity)
    won = _end(connection, "id = ? AND state = 'pending' AND expires_at > ?", (identity, _now(look.now)), QuestionState.ANSWERED, given, look.now)
    stored = _found(connection, identity, look)
    if not won and given.action == "accept" and stored.given is not None and stored.given.answer.by in ("expiry", "asker"):
        stored = replace(stored, late=(*stored.late, Given(given, whole_ms(look.now)))[-_MOST_LATE:], told=False)
        connection.execute("UPDATE questions SET late = ?, told = 0 WHERE id = ?", (_late_text(stored.late), stored.id))
    return stored, won


def expire(connection: sqlite3.Connection, identity: str, expires_at: datetime, *, now: datetime) -> None:
    """Expire it where that is still its deadline: for a waiter whose own, monotonic clock has reached it when the wall clock stepped back."""
    bound = (identity, rows.time_text(expires_at))
    _end(connection, "id = ? AND state = 'pending' AND expires_at = ?", bound, QuestionState.EXPIRED, _BY_EXPIRY, min(now, expires_at))


def settle(connection: sqlite3.Connection, look: Look, *, identity: str | None = None) -> None:
    """Write down what is so already: of one question or all, the overdue as expired, those of askers that are gone as withdrawn."""
    one, bound = ("", ()) if identity is None else (" AND id = ?", (identity,))
    connection.execute(
        "UPDATE questions SET state = 'expired', answer = json_set(?, '$.at', expires_at), ended_at = expires_at"
        f" WHERE state = 'pending' AND expires_at <= ?{one}",
        (rows.encode(_answer_object(_BY_EXPIRY)), _now(look.now), *bound),
    )
    for found, lock in connection.execute(f"SELECT id, lock FROM questions WHERE state = 'pending' AND lock IS NOT NULL{one}", bound).fetchall():
        if look.is_dead(lock):
            _end(connection, "id = ? AND state = 'pending'", (found,), QuestionState.ANSWERED, _BY_ASKER, look.now)


def remove_old(connection: sqlite3.Connection, *, now: datetime) -> None:
    """Remove those that were kept as long as was said when they were asked."""
    connection.execute(
        "DELETE FROM questions WHERE state <> 'pending' AND julianday(coalesce(ended_at, expires_at)) + keep_ms / 86400000.0 <= julianday(?)", (_now(now),)
    )


def mark_told(connection: sqlite3.Connection, identities: Sequence[str]) -> None:
    """Their askers know how they ended."""
    connection.executemany("UPDATE questions SET told = 1 WHERE id = ?", [(identity,) for identity in identities])


def _end(connection: sqlite3.Connection, where: str, bound: Sequence[object], state: QuestionState, given: Answer, at: datetime) -> bool:
    """End what is there of it: whether anything was, which decides every race."""
    ended = connection.execute(
        f"UPDATE questions SET state = ?, answer = ?, ended_at = ? WHERE {where}",
        (state.value, _given_text(Given(given, whole_ms(at))), rows.time_text(whole_ms(at)), *bound),
    )
    return ended.rowcount > 0


def _found(connection: sqlite3.Connection, ref: str, look: Look) -> StoredQuestion:
    hint = "it may have been removed since; `escalera questions list` has those that wait"
    return one_of(ref, "question", lambda where, bound: _read(connection, where, bound, look), hint=hint)


def _read(connection: sqlite3.Connection, where: str, bound: Sequence[object], look: Look) -> Sequence[StoredQuestion]:
    found = connection.execute(f"SELECT {_COLUMNS} FROM questions {where}", bound).fetchall()
    values = (_value(row, look.notice) for row in found)
    return [_as_it_stands(stored, lock, look) for stored, lock in filter(None, values)]


def _as_it_stands(stored: StoredQuestion, lock: str | None, look: Look) -> StoredQuestion:
    if not stored.is_pending:
        return stored
    if not stored.life.is_alive(look.now):
        return replace(stored, state=QuestionState.EXPIRED, given=Given(_BY_EXPIRY, stored.life.expires_at), settled=False)
    if look.is_dead(lock):
        return replace(stored, state=QuestionState.ANSWERED, given=Given(_BY_ASKER, whole_ms(look.now)), settled=False)
    return stored


# -- rows ----------------------------------------------------------------------------------------


def _now(now: datetime) -> str | None:
    return rows.time_text(whole_ms(now))


def _row(stored: StoredQuestion, lock: str | None) -> rows.Row:
    """The columns of `_COLUMNS`."""
    question, life = stored.question, stored.life
    return (
        well_formed(stored.id),
        rows.clean_text(question.session),
        question.turn,
        well_formed(question.agent),
        question.mode,
        well_formed(question.message),
        rows.encode(dict(question.schema)),
        rows.clean_text(question.url),
        int(question.durable),
        lock,
        rows.time_text(life.created),
        rows.time_text(life.last_touched),
        rows.time_text(life.expires_at),
        life.ttl // _MS,
        life.max_age // _MS,
        int(life.explicit),
        stored.keep // _MS,
        stored.state.value,
        None if stored.given is None else _given_text(stored.given),
        _late_text(stored.late) if stored.late else None,
        int(stored.told),
    )


_MS = timedelta(milliseconds=1)
_MODES = ("form", "url", "confirm")


def _value(row: rows.Row, notice: Callable[[str], None]) -> tuple[StoredQuestion, str | None] | None:
    """The question of a row and its asker's lock; `None` for one that cannot be read."""
    identity, session, turn, agent, mode, message, schema, url, durable, lock, *more = row
    created, touched, expires, ttl, max_age, explicit, keep, state, given, late, told = more
    try:
        question = Question(
            message=_text(message),
            mode=cast('Literal["form", "url", "confirm"]', _one_of(mode, _MODES)),
            schema=_object(schema),
            url=None if url is None else _text(url),
            durable=bool(durable),
            session=None if session is None else _text(session),
            turn=None if turn is None else int(turn),
            agent=_text(agent),
        )
        life = Lifespan(_time(created), _time(touched), _time(expires), int(ttl) * _MS, int(max_age) * _MS, explicit=bool(explicit))
        answered = None if given is None else _given(json.loads(given))
        lates = () if late is None else tuple(_given(one) for one in json.loads(late))
        return StoredQuestion(_text(identity), question, life, int(keep) * _MS, QuestionState(state), answered, lates, told=bool(told)), lock
    except (*rows.BAD, OverflowError) as problem:
        notice(f"question {identity}: skipped: {problem}")
        return None


def _answer_object(answer: Answer) -> dict[str, Any]:
    return {"action": answer.action, "content": dict(answer.content), "by": answer.by}


def _given_object(given: Given) -> dict[str, Any]:
    return {**_answer_object(given.answer), "at": rows.time_text(given.at)}


def _given_text(given: Given) -> str:
    return rows.encode(_given_object(given))


def _late_text(late: Sequence[Given]) -> str:
    return rows.encode([_given_object(given) for given in late])


def _given(fields: Any) -> Given:
    action = cast('Literal["accept", "decline", "cancel"]', _one_of(fields["action"], get_args(Literal["accept", "decline", "cancel"])))
    content = fields["content"]
    if not isinstance(content, dict):
        raise TypeError("an answer's content is no object")
    return Given(Answer(action, content, _text(fields["by"])), _time(fields["at"]))


def _object(text: Any) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("a schema is no object")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _one_of(value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{value!r:.40} is none of {', '.join(choices)}")
    return _text(value)


def _time(value: Any) -> datetime:
    moment = rows.time_value(value)
    if moment is None:
        raise ValueError("a time is missing")
    return moment
