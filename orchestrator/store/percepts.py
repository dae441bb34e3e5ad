"""Percepts in the store: learned once, reinforced when heard again, archived before they go (page 4)."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from orchestrator.errors import NotFound, StoreError, UsageError
from orchestrator.messages import well_formed
from orchestrator.percepts import (
    HEAVIEST,
    MAX_CONTENT,
    REINFORCED_BY,
    RESTORED_WEIGHT,
    Archived,
    Edge,
    Engram,
    Percept,
    index_text,
    statement_key,
)
from orchestrator.store import archive, edges, rows
from orchestrator.store.refs import just_one, one_of, wanted_id
from orchestrator.store.running import IDLE_SECONDS, KEEP_PART_OF_HOUR, SET_IDLE_FROM_NOW, WEIGHT, count_use
from orchestrator.workspaces import workspace_key

Notice = Callable[[str], None]

NOW = rows.PERCEPT_COLUMNS.replace("weight", WEIGHT).replace("idle_seconds", IDLE_SECONDS)
"""The columns of a percept, with its weight and idle time as they are now."""

_SHOWN = 40
"""Characters of a percept that an error shows."""
_TEXTS = uuid.UUID("6f1a2c1e-7f5b-4c86-9d0e-3b8f1c5a2e47")
"""Of ids that are made of a text."""


def learn(
    connection: sqlite3.Connection, percept: Percept, *, aged: int, now: datetime, platform: str, notice: Notice, links: Sequence[Edge] = ()
) -> tuple[Percept, bool]:
    """Store it, or reinforce the one that says the same to whoever it is meant for.

    Its weight decays from where the counter of running time will stand at `aged` (`running.aged_by_now`). `links` are edges from
    or to it, which stand for its id whatever stands in the end. Raises `UsageError` for an empty or too long content.
    """
    percept = replace(percept, content=_usable(percept.content))
    place = _place(percept.workspace, platform)
    known = _equivalent(connection, percept, place, notice)
    count_use(connection)
    standing = _stored(connection, percept, platform, notice, aged=aged, now=now) if known is None else _reinforced(connection, known, percept, now, notice)
    if known is not None and percept.producer == "user":
        edges.say_again(connection, standing.id, now)
    for link in links:
        ends = [standing.id if end == percept.id else _found(connection, end, notice).id for end in (link.source, link.target)]
        if ends[0] != ends[1]:
            edges.link(connection, Edge(ends[0], ends[1], link.kind), now)
    edges.relate(connection, standing, _place(standing.workspace, platform), said_by=percept, new=known is None, now=now)
    return standing, known is None


def standing(connection: sqlite3.Connection, session: str | None, notice: Notice) -> Sequence[Percept]:
    """Global ones and those of the session, heaviest first, ties by id."""
    found = read(connection, "WHERE scope = 'global' OR (scope = 'session' AND session = ?)", (rows.clean_text(session),), notice)
    return sorted(found, key=lambda percept: (-percept.weight, percept.id))


def everything(connection: sqlite3.Connection, notice: Notice) -> Sequence[Percept]:
    """Those of all sessions, too, in the order in which they came."""
    return read(connection, "ORDER BY seq", (), notice)


def engrams(connection: sqlite3.Connection, session: str | None) -> Sequence[Engram]:
    """The subjects of those that stand, with the mean of their weights; heaviest first."""
    members: dict[str, list[tuple[int, str, str]]] = {}
    query = f"SELECT subject_key, {WEIGHT}, id, subject FROM percepts WHERE subject_key IS NOT NULL AND (scope = 'global' OR session = ?)"
    for key, weight, identity, subject in connection.execute(query, (rows.clean_text(session),)):
        members.setdefault(key, []).append((-weight, identity, subject))
    found = [_engram(sorted(those)) for those in members.values()]
    return sorted(found, key=lambda engram: (-engram.weight, engram.subject))


def find(connection: sqlite3.Connection, ref: str, notice: Notice) -> Percept:
    """By id or unique prefix. Raises `NotFound`, `Ambiguous`, `UsageError`."""
    return _found(connection, ref, notice)


def forget(connection: sqlite3.Connection, ref: str, kept_in: Path, *, purge: bool, now: datetime, notice: Notice) -> Percept:
    """Archive it, then remove it. A crash in between leaves both, never neither. With `purge`, no record of it stays, also of one that is archived."""
    try:
        percept = _found(connection, ref, notice)
    except NotFound:
        if not purge:
            raise
        percept = archived_one(connection, ref, kept_in, notice).percept
    if purge:
        merged = archive.purge(connection, kept_in, percept.id)
        remove(connection, [percept.id])
        if merged:
            notice(f"with it went from the archive what had been merged into it: {', '.join(identity[:8] for identity in sorted(merged))}")
        _tell_who_recorded(connection, percept, notice)
    else:
        leave(connection, [percept], kept_in, reason="forgotten", now=now)
    return percept


def _tell_who_recorded(connection: sqlite3.Connection, percept: Percept, notice: Notice) -> None:
    """A session is never rewritten: the turn in which it was said has it still."""
    session, turn = (percept.source or {}).get("session"), (percept.source or {}).get("turn")
    if isinstance(session, str) and connection.execute("SELECT 1 FROM sessions WHERE id = ?", (well_formed(session),)).fetchone():
        where = f"session {session[:8]}, turn {turn}" if isinstance(turn, int) else f"session {session[:8]}"
        notice(f"the conversation in which it was recorded ({where}) has its text still; `escalera session drop {session[:8]} --purge` removes all of that")


def drop_session(connection: sqlite3.Connection, session: str, kept_in: Path, *, now: datetime, notice: Notice) -> None:
    """Archive and remove what only that session knew."""
    leave(connection, read(connection, "WHERE scope = 'session' AND session = ?", (session,), notice), kept_in, reason="session dropped", now=now)


def leave(connection: sqlite3.Connection, leaving: Sequence[Percept], kept_in: Path, *, reason: str, now: datetime) -> None:
    """Append them to the archive with the edges that touch them, and only then remove them. Raises `OSError` with all of them in place."""
    if leaving:
        archive.keep(connection, kept_in, [_archived(connection, percept, reason, now) for percept in leaving])
        remove(connection, [percept.id for percept in leaving])


def remove(connection: sqlite3.Connection, identities: Collection[str]) -> None:
    """From the store, the index and the edges."""
    bound = [(identity,) for identity in identities]
    connection.executemany("DELETE FROM percept_words WHERE rowid = (SELECT seq FROM percepts WHERE id = ?)", bound)
    connection.executemany("DELETE FROM percepts WHERE id = ?", bound)
    edges.remove(connection, identities)


def mark_used(connection: sqlite3.Connection, ids: Sequence[str], at: datetime) -> None:
    """An id that is no longer there is no error: it was forgotten meanwhile."""
    if ids:
        count_use(connection)
        bound = [(rows.time_text(at), well_formed(identity)) for identity in ids]
        connection.executemany(f"UPDATE percepts SET last_used_at = ?, {SET_IDLE_FROM_NOW} WHERE id = ?", bound)


def widen(connection: sqlite3.Connection, ref: str, *, aged: int, now: datetime, notice: Notice) -> Percept:
    """From now on it is told in every workspace, and in every session."""
    percept = _found(connection, ref, notice)
    count_use(connection)
    connection.execute(
        f"UPDATE percepts SET workspace = NULL, workspace_key = NULL, scope = 'global', session = NULL, weight_mark = ?, {SET_IDLE_FROM_NOW},"
        " updated_at = ? WHERE id = ?",
        (aged, rows.time_text(now), percept.id),
    )
    return _one(connection, percept.id, notice)


# -- out of the archive --------------------------------------------------------------------------


def archived(connection: sqlite3.Connection, kept_in: Path, notice: Notice) -> Sequence[Archived]:
    """What the archive holds that does not stand in the store, in the order in which it left."""
    there = archive.archived(kept_in, notice)
    return [one for one in there.values() if not _stands(connection, one.percept.id)]


def archived_one(connection: sqlite3.Connection, ref: str, kept_in: Path, notice: Notice) -> Archived:
    """By id or unique prefix. Raises `NotFound`, `Ambiguous`, `UsageError`."""
    kind = "archived percept"
    wanted = wanted_id(ref, kind)
    there = {one.percept.id: one for one in archived(connection, kept_in, notice)}
    found = [there[wanted].percept] if wanted in there else [one.percept for identity, one in sorted(there.items()) if identity.startswith(wanted)]
    return there[just_one(ref, kind, found, hint="`escalera memory archive` shows what there is", told=_told).id]


def restore(connection: sqlite3.Connection, ref: str, kept_in: Path, *, aged: int, now: datetime, platform: str, notice: Notice) -> Percept:
    """Bring one back from the archive, its idle time 0, with those of its edges that have both ends.

    One whose session is gone becomes global. Raises `UsageError` when the same has been learned since, besides what `archived_one` raises.
    """
    percept = _of_a_session(connection, archived_one(connection, ref, kept_in, notice).percept)
    known = _told_beside(connection, percept, _place(percept.workspace, platform), notice)
    if known is not None:
        hint = "nothing needs to be restored; `escalera memory learn` with the same words keeps it for everywhere"
        raise UsageError(f"{percept.content[:_SHOWN]!r} has been learned again meanwhile: {known.id}", hint=hint)
    weight = percept.weight if percept.core else max(percept.weight, RESTORED_WEIGHT)
    count_use(connection)
    back = _stored(connection, replace(percept, weight=weight, idle_seconds=0.0, updated_at=now), platform, notice, aged=aged, now=now)
    _tie(connection, back.id, _telling_of(back.id, kept_in, notice), now)
    archive.note_restored(connection, kept_in, back.id, now)
    return back


def take_in(connection: sqlite3.Connection, given: Sequence[Percept], *, aged: int, now: datetime, platform: str, notice: Notice) -> Sequence[bool]:
    """Store what was exported, as it is; of each whether it is new. One that stands, or that another one stands for, stays as it is.

    Those of sessions that are not here become global, since nobody would ever be told them.
    """
    homes = [_of_a_session(connection, percept) for percept in given]
    new = [_taken_in(connection, percept, aged=aged, now=now, platform=platform, notice=notice) for percept in homes]
    moved = sum(is_new and home.scope != percept.scope for percept, home, is_new in zip(given, homes, new, strict=True))
    if moved:
        notice(f"{moved:,} {'facts are of sessions' if moved > 1 else 'fact is of a session'} not in this store, and told in all from now on")
    return new


def _taken_in(connection: sqlite3.Connection, percept: Percept, *, aged: int, now: datetime, platform: str, notice: Notice) -> bool:
    percept = replace(percept, content=_usable(percept.content))
    if _equivalent(connection, percept, _place(percept.workspace, platform), notice) is not None:
        return False
    percept = _under_its_own_id(percept, _statement_of(connection, well_formed(percept.id)), notice)
    if _stands(connection, well_formed(percept.id)):
        return False
    count_use(connection)
    _stored(connection, percept, platform, notice, aged=aged, now=now)
    return True


def relate_all(connection: sqlite3.Connection, new: Sequence[Percept], *, now: datetime, platform: str) -> None:
    """Link percepts that came in like any that is heard, in their order."""
    for percept in (_of_a_session(connection, percept) for percept in new):
        edges.relate(connection, percept, _place(percept.workspace, platform), said_by=percept, new=True, now=now)


def take_in_edges(connection: sqlite3.Connection, given: Sequence[Edge], now: datetime) -> None:
    """Those that have both ends; they have counted where they come from."""
    for edge in given:
        if edge.source != edge.target and all(_stands(connection, end) for end in (edge.source, edge.target)):
            edges.add(connection, edge, now, applied=True)


def take_in_archived(connection: sqlite3.Connection, given: Sequence[Archived], kept_in: Path, notice: Notice) -> None:
    """Those that neither stand nor are archived here. Raises `OSError`."""
    if not given:
        return
    there = {identity: statement_key(one.percept.content) for identity, one in archive.archived(kept_in, notice).items()}
    new: dict[str, Archived] = {}
    for one in given:
        percept = one.percept
        percept = _under_its_own_id(percept, _statement_of(connection, percept.id) or there.get(percept.id), notice)
        if percept.id not in there and not _stands(connection, percept.id):
            there[percept.id] = statement_key(percept.content)
            new[percept.id] = replace(one, percept=percept)
    archive.keep(connection, kept_in, [*new.values()])


# -- within --------------------------------------------------------------------------------------


def read(connection: sqlite3.Connection, where: str, bound: Sequence[object], notice: Notice) -> Sequence[Percept]:
    """The percepts that fit the condition, as they are now. Rows that cannot be read are reported and left out."""
    found = connection.execute(f"SELECT {NOW} FROM percepts {where}", bound).fetchall()
    return [value for row in found if (value := value_of(row, notice)) is not None]


def value_of(row: rows.Row, notice: Notice) -> Percept | None:
    """The percept of a row of `NOW`."""
    return rows.percept_value(row, lambda problem: notice(f"percept {row[0]}: {problem}"))


def find_equivalent(connection: sqlite3.Connection, percept: Percept, platform: str, notice: Notice) -> Percept | None:
    """The one that says the same to whoever it is meant for."""
    return _equivalent(connection, percept, _place(percept.workspace, platform), notice)


def _usable(content: str) -> str:
    content = well_formed(content).strip()
    if not content:
        raise UsageError("a fact cannot be empty", hint="say it in one sentence")
    if len(content) > MAX_CONTENT:
        raise UsageError(f"a fact has at most {MAX_CONTENT} characters, this one has {len(content):,}", hint="say it shorter, or as several")
    return content


def _place(workspace: str | None, platform: str) -> str | None:
    return None if workspace is None else workspace_key(well_formed(workspace), platform)


def _equivalent(connection: sqlite3.Connection, percept: Percept, place: str | None, notice: Notice) -> Percept | None:
    """One that says the same and is told to all whom this one is for; best the one that is told to nobody else.

    What the user asked to keep everywhere also takes the place of what was learned in one workspace, or is known in one session.
    """
    bound = {
        "statement": statement_key(percept.content),
        "consumer": well_formed(percept.consumer),
        "place": place,
        "scope": percept.scope,
        "session": rows.clean_text(percept.session),
        "core": percept.core,
    }
    where = (
        "WHERE statement = :statement AND consumer IN ('all', :consumer)"
        " AND (scope = 'global' OR (:scope = 'session' AND session IS :session) OR (:core AND consumer = :consumer))"
        " AND (workspace_key IS NULL OR workspace_key IS :place OR (:core AND consumer = :consumer))"
        " ORDER BY scope <> :scope, consumer <> :consumer, workspace_key IS NOT :place, seq LIMIT 1"
    )
    return next(iter(read(connection, where, bound, notice)), None)  # type: ignore[arg-type]  # bound by name


def _told_beside(connection: sqlite3.Connection, percept: Percept, place: str | None, notice: Notice) -> Percept | None:
    """One that says the same and that somebody would be told together with this one, be it of a session."""
    bound = {
        "statement": statement_key(percept.content),
        "consumer": well_formed(percept.consumer),
        "place": place,
        "scope": percept.scope,
        "session": rows.clean_text(percept.session),
    }
    where = (
        "WHERE statement = :statement AND (consumer IN ('all', :consumer) OR :consumer = 'all')"
        " AND (scope = 'global' OR :scope = 'global' OR session IS :session) AND (workspace_key IS NULL OR :place IS NULL OR workspace_key = :place)"
        " ORDER BY scope <> :scope, seq LIMIT 1"
    )
    return next(iter(read(connection, where, bound, notice)), None)  # type: ignore[arg-type]  # bound by name


def _of_a_session(connection: sqlite3.Connection, percept: Percept) -> Percept:
    """The percept itself, or as a global one where its session is not there."""
    if percept.scope == "global" or connection.execute("SELECT 1 FROM sessions WHERE id = ?", (rows.clean_text(percept.session),)).fetchone() is not None:
        return percept
    return replace(percept, scope="global", session=None)


def _reinforced(connection: sqlite3.Connection, known: Percept, heard: Percept, now: datetime, notice: Notice) -> Percept:
    """Heard again; what the user wants to be kept, or vouches for, is so from now on."""
    weight = min(HEAVIEST, known.weight + REINFORCED_BY)
    source = None
    if heard.core:  # it is the user's from now on, whatever becomes of where it was said first
        weight, source = max(weight, heard.weight), None if heard.source is None else rows.encode(heard.source)
        kept = "core = 1, scope = 'global', session = NULL, workspace = NULL, workspace_key = NULL, producer = 'user', "
    else:
        kept = ""
    trust = "user" if heard.producer == "user" else known.trust
    connection.execute(
        f"UPDATE percepts SET {KEEP_PART_OF_HOUR}, weight = ?, {kept}trust = ?, source = coalesce(?, source), updated_at = ?, last_used_at = ?,"
        f" {SET_IDLE_FROM_NOW}, subject = coalesce(subject, ?), subject_key = coalesce(subject_key, ?) WHERE id = ?",
        (weight, trust, source, rows.time_text(now), rows.time_text(now), rows.clean_text(heard.subject), rows.percept_row(heard, "")[-1], known.id),
    )
    return _one(connection, known.id, notice)


def _stored(connection: sqlite3.Connection, percept: Percept, platform: str, notice: Notice, *, aged: int, now: datetime) -> Percept:
    if _stands(connection, well_formed(percept.id)):
        raise StoreError(f"another percept has the id {percept.id}")
    columns = f"{rows.PERCEPT_COLUMNS}, {rows.DERIVED_COLUMNS}, aged_on"
    row = (*rows.percept_row(percept, platform), (rows.time_text(now) or "")[:10])
    cursor = connection.execute(f"INSERT INTO percepts ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    connection.execute(
        f"UPDATE percepts SET {SET_IDLE_FROM_NOW}, idle_seconds = ?, weight_mark = ? WHERE seq = ?", (percept.idle_seconds, aged, cursor.lastrowid)
    )
    connection.execute("INSERT INTO percept_words (rowid, words) VALUES (?, ?)", (cursor.lastrowid, index_text(percept.content)))
    return _one(connection, row[0], notice)


def _under_its_own_id(percept: Percept, statement: str | None, notice: Notice) -> Percept:
    """One that comes from elsewhere, under an id made of its text where its own stands for another `statement` here: no text is lost for that."""
    if statement is None or statement == statement_key(percept.content):
        return percept
    own = str(uuid.uuid5(_TEXTS, f"{percept.id} {percept.content}"))
    notice(f"{percept.id[:8]} is the id of another fact: {percept.content[:60]!r} is taken in as {own[:8]}")
    return replace(percept, id=own)


def _statement_of(connection: sqlite3.Connection, identity: str) -> str | None:
    row = connection.execute("SELECT statement FROM percepts WHERE id = ?", (identity,)).fetchone()
    return None if row is None else row[0]


def _stands(connection: sqlite3.Connection, identity: str) -> bool:
    return connection.execute("SELECT 1 FROM percepts WHERE id = ?", (identity,)).fetchone() is not None


def _one(connection: sqlite3.Connection, identity: str, notice: Notice) -> Percept:
    return read(connection, "WHERE id = ?", (identity,), notice)[0]


def _archived(connection: sqlite3.Connection, percept: Percept, reason: str, now: datetime) -> Archived:
    return Archived(percept, now, reason, percept.idle_seconds / 86_400, tuple(edges.touching(connection, percept.id)))


def _telling_of(identity: str, kept_in: Path, notice: Notice) -> Sequence[Archived]:
    """The records that know how the percept was linked last: its own, and those of others that were away when it left."""
    there, back = archive.archived(kept_in, notice), archive.restored_since(kept_in, identity)
    return [one for one in there.values() if one.percept.id == identity or one.percept.id in back]


def _tie(connection: sqlite3.Connection, identity: str, records: Collection[Archived], now: datetime) -> None:
    """The edges that the percept had when it or the other end left, where the other end stands. They have counted already."""
    for one in records:
        for edge in one.edges:
            if identity in (edge.source, edge.target) and all(_stands(connection, end) for end in (edge.source, edge.target)):
                edges.add(connection, edge, now, applied=True)


def _engram(members: Sequence[tuple[int, str, str]]) -> Engram:
    weight = round(sum(-weight for weight, _, _ in members) / len(members))
    return Engram(members[0][2], weight, tuple(identity for _, identity, _ in members))


def _told(percept: Percept) -> str:
    return f"{percept.id} {percept.content[:_SHOWN]!r}"


def _found(connection: sqlite3.Connection, ref: str, notice: Notice) -> Percept:
    hint = "`escalera memory list` shows what there is"
    return one_of(ref, "percept", lambda where, bound: read(connection, where, bound, notice), hint=hint, told=_told)
