"""Artifacts in the store, and the contents that they share with the steps of turns: each text is stored once, by its hash (page 5).

An artifact is handed out until it expires. A turn keeps what was said in it for as long as the session stands: its step holds the same
content, which goes when neither an artifact nor a step has it any more.
"""

# ruff: noqa: S608 - names of columns are constants of ours, and every value is bound

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from orchestrator.artifacts import Artifact, ArtifactKind
from orchestrator.lifetimes import Lifespan, whole_ms
from orchestrator.messages import Part, Text, ToolResult, well_formed
from orchestrator.store import rows
from orchestrator.store.faults import Damaged
from orchestrator.store.questions import Look
from orchestrator.store.refs import one_of

_COLUMNS = "id, kind, sha256, size, session, turn, name, created, last_touched, expires_at, ttl_ms, max_age_ms, explicit"
_MS = timedelta(milliseconds=1)
_HINT = "it may have expired: an artifact is kept for artifacts.ttl"
_SHORTEST = 1024
"""Characters from which on it is looked whether a step's text is there as a content."""
_AT_ONCE = 500
"""Hashes that one query asks for."""


def add(connection: sqlite3.Connection, artifact: Artifact, body: bytes, quota: int | None, look: Look) -> bool:
    """Keep a new one; whether there is room for it beside those that live. The same once more is no other."""
    if connection.execute("SELECT 1 FROM artifacts WHERE id = ?", (artifact.id,)).fetchone() is not None:
        return True
    collect(connection, look.now)
    if quota is not None and _held(connection, but=artifact.sha256) + len(body) > quota:
        return False
    connection.execute("INSERT OR IGNORE INTO contents (sha256, body) VALUES (?, ?)", (artifact.sha256, body))
    row = _row(artifact)
    connection.execute(f"INSERT INTO artifacts ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
    return True


def peek(connection: sqlite3.Connection, ref: str, look: Look) -> Artifact:
    """The artifact as it stands now. Raises `NotFound` also for one that has expired, `Ambiguous`."""
    return _found(connection, ref, look)


def read(connection: sqlite3.Connection, ref: str, look: Look) -> Artifact:
    """An item read, by which one that may be renewed lives on."""
    found = _found(connection, ref, look)
    life = found.life.touched(look.now) if found.renewed else found.life
    if life == found.life:
        return found
    touched = connection.execute(
        "UPDATE artifacts SET last_touched = ?, expires_at = ? WHERE id = ? AND expires_at > ?",
        (rows.time_text(life.last_touched), rows.time_text(life.expires_at), found.id, _text_of(look.now)),
    )
    return replace(found, life=life) if touched.rowcount else found


def body(connection: sqlite3.Connection, identity: str, look: Look) -> bytes:
    """What one that lives holds. Raises `Damaged` when that is gone."""
    found = _found(connection, identity, look)
    row = connection.execute("SELECT CAST(body AS BLOB) FROM contents WHERE sha256 = ?", (found.sha256,)).fetchone()
    if row is None or row[0] is None:
        raise Damaged(f"the content of artifact {found.id} is gone")
    return bytes(row[0])


def listed(connection: sqlite3.Connection, look: Look, *, session: str | None) -> Sequence[Artifact]:
    """Those that live, oldest first; no read of any."""
    where, bound = ("", ()) if session is None else ("WHERE session = ?", (well_formed(session),))
    return _read(connection, f"{where} ORDER BY seq", bound, look)


def collect(connection: sqlite3.Connection, now: datetime) -> None:
    """Remove what has expired, and contents that nothing holds any more."""
    connection.execute("DELETE FROM artifacts WHERE expires_at <= ?", (_text_of(now),))
    connection.execute(
        "DELETE FROM contents WHERE NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.sha256 = contents.sha256)"
        " AND NOT EXISTS (SELECT 1 FROM step_contents WHERE step_contents.sha256 = contents.sha256)"
    )


def _held(connection: sqlite3.Connection, *, but: str) -> int:
    """Bytes that the artifacts hold together, a content that several have counted once."""
    (size,) = connection.execute("SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT sha256, size FROM artifacts WHERE sha256 <> ?)", (but,)).fetchone()
    return int(size)


# -- the steps of turns --------------------------------------------------------------------------


def step_payload(connection: sqlite3.Connection, step: Part) -> tuple[str, str | None]:
    """A step as its row holds it, and the hash of the content that its text is, where that is there already."""
    name = "text" if isinstance(step, Text) else "content"
    text = step.text if isinstance(step, Text) else step.content if isinstance(step, ToolResult) else ""
    if len(text) < _SHORTEST:
        return rows.part_text(step), None
    sha256 = hash_of(well_formed(text).encode())
    if connection.execute("SELECT 1 FROM contents WHERE sha256 = ?", (sha256,)).fetchone() is None:
        return rows.part_text(step), None
    return rows.part_text(step, {name: {"sha256": sha256}}), sha256


def put_step(connection: sqlite3.Connection, turn: int, seq: int, step: Part) -> None:
    """Store a step, unless it is there."""
    payload, sha256 = step_payload(connection, step)
    connection.execute("INSERT OR IGNORE INTO steps (turn, seq, payload) VALUES (?, ?, ?)", (turn, seq, payload))
    if sha256 is not None:
        connection.execute("INSERT OR IGNORE INTO step_contents (turn, seq, sha256) VALUES (?, ?, ?)", (turn, seq, sha256))


def count_holders(connection: sqlite3.Connection) -> None:
    """Note anew which steps hold a content, by what they say themselves: whatever a damaged table lacked, their texts do not go."""
    said = "CASE WHEN json_valid(payload) THEN coalesce(payload ->> '$.text.sha256', payload ->> '$.content.sha256') END"
    connection.execute("DELETE FROM step_contents")
    connection.execute(
        f"INSERT INTO step_contents (turn, seq, sha256) SELECT turn, seq, {said} FROM steps"
        f" WHERE payload LIKE '%\"sha256\"%' AND {said} IN (SELECT sha256 FROM contents)"
    )


def made_whole(connection: sqlite3.Connection, steps: Sequence[Any]) -> Sequence[Any]:
    """Decoded steps with their texts, where these are contents of their own; one whose content is gone stays as it is, which is no step."""
    wanted = {sha256 for fields in steps if (sha256 := _content_of(fields)) is not None}
    if not wanted:
        return steps
    texts = _texts(connection, sorted(wanted))
    return [fields if (text := texts.get(_content_of(fields) or "")) is None else _with_text(fields, text) for fields in steps]


def hash_of(content: bytes) -> str:
    """What a content goes by."""
    return hashlib.sha256(content).hexdigest()


def _content_of(fields: Any) -> str | None:
    held = fields.get("text", fields.get("content")) if isinstance(fields, dict) else None
    sha256 = held.get("sha256") if isinstance(held, dict) else None
    return sha256 if isinstance(sha256, str) else None


def _with_text(fields: dict[str, Any], text: str) -> dict[str, Any]:
    return {**fields, "text" if "text" in fields else "content": text}


def _texts(connection: sqlite3.Connection, wanted: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        query = f"SELECT sha256, CAST(body AS BLOB) FROM contents WHERE sha256 IN ({', '.join('?' * len(some))})"
        found |= {sha256: bytes(held).decode("utf-8", "replace") for sha256, held in connection.execute(query, some) if held is not None}
    return found


# -- rows ----------------------------------------------------------------------------------------


def _found(connection: sqlite3.Connection, ref: str, look: Look) -> Artifact:
    return one_of(ref, "artifact", lambda where, bound: _read(connection, where, bound, look), hint=_HINT)


def _read(connection: sqlite3.Connection, where: str, bound: Sequence[object], look: Look) -> Sequence[Artifact]:
    values = (_value(row, look) for row in connection.execute(f"SELECT {_COLUMNS} FROM artifacts {where}", bound).fetchall())
    return [artifact for artifact in values if artifact is not None and artifact.life.is_alive(look.now)]


def _row(artifact: Artifact) -> rows.Row:
    """The columns of `_COLUMNS`."""
    life = artifact.life
    return (
        well_formed(artifact.id),
        artifact.kind,
        artifact.sha256,
        artifact.size,
        well_formed(artifact.session),
        artifact.turn,
        rows.clean_text(artifact.name),
        rows.time_text(life.created),
        rows.time_text(life.last_touched),
        rows.time_text(life.expires_at),
        life.ttl // _MS,
        life.max_age // _MS,
        int(life.explicit),
    )


def _value(row: rows.Row, look: Look) -> Artifact | None:
    """The artifact of a row; `None` for one that cannot be read."""
    identity, kind, sha256, size, session, turn, name, created, touched, expires, ttl, max_age, explicit = row
    try:
        if kind not in get_args(ArtifactKind):
            raise ValueError(f"{kind!r:.40} is no kind of artifact")
        life = Lifespan(_time(created), _time(touched), _time(expires), int(ttl) * _MS, int(max_age) * _MS, explicit=bool(explicit))
        place = None if turn is None else int(turn)
        return Artifact(
            str(identity), cast("ArtifactKind", kind), str(sha256), int(size), str(session), place, None if name is None else str(name), life, not explicit
        )
    except (*rows.BAD, OverflowError) as problem:
        look.notice(f"artifact {identity}: skipped: {problem}")
        return None


def _text_of(now: datetime) -> str | None:
    return rows.time_text(whole_ms(now))


def _time(value: Any) -> datetime:
    moment = rows.time_value(value)
    if moment is None:
        raise ValueError("a time is missing")
    return moment
