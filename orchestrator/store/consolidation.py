"""Consolidation: what becomes of percepts after a turn and when the program exits, in seven steps and one transaction (page 4)."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from orchestrator.percepts import HEAVIEST, PROMOTED_FROM, PRUNE_THRESHOLD, Consolidated, Edge, Percept, Stale
from orchestrator.store import edges, percepts, running
from orchestrator.store.archive import said_by
from orchestrator.store.running import HOUR, IDLE_SECONDS, KEEP_PART_OF_HOUR, SET_IDLE_FROM_NOW, WEIGHT

Notice = Callable[[str], None]

DAILY_DECAY = 10
"""What a percept of a session loses for each later day on which the session is used."""
_EDGE_GAIN, _EDGE_LOSS = 5, 10
_AT_THRESHOLD = f"core = 0 AND scope = 'global' AND {WEIGHT} <= {PRUNE_THRESHOLD}"


@dataclass(frozen=True, slots=True)
class _Pass:
    """What the steps share."""

    connection: sqlite3.Connection
    archive: Path
    now: datetime
    platform: str
    notice: Notice
    aged: int

    def read(self, where: str, bound: Sequence[object] = ()) -> Sequence[Percept]:
        return percepts.read(self.connection, where, bound, self.notice)


def consolidate(
    connection: sqlite3.Connection,
    reading: running.Reading,
    own: int,
    *,
    archive: Path,
    archive_after: float | None,
    most: int | None,
    now: datetime,
    platform: str,
    notice: Notice,
) -> tuple[Consolidated, running.Reading]:
    """One pass of a process that has run for `own` milliseconds; what it did, and how far its running time is counted now.

    `archive_after` are seconds of running time, `None` for never; `most` is how many percepts the store may hold. Where the
    archive cannot be written, what was to go there stays, and the rest of the pass is done.
    """
    after = running.accrue(connection, reading, own)
    work = _Pass(connection, archive, now, platform, notice, after.aged)
    _age_sessions(connection)
    _apply_edges(connection)
    leaving = _Leaving(work)
    pruned = leaving.take("pruned", work.read(f"WHERE scope = 'session' AND core = 0 AND weight <= {PRUNE_THRESHOLD} ORDER BY seq"))
    promoted, merged = _promote(work, leaving)
    stale = work.read(f"WHERE {_AT_THRESHOLD} AND {IDLE_SECONDS} >= ? ORDER BY seq", (archive_after,)) if archive_after is not None else ()
    archived = leaving.take("stale", stale)
    capped = leaving.take("more than the store may hold", _over(work, most))
    done = Consolidated(max(0, own - reading.own) / 1000, pruned, promoted, merged, archived, capped, leaving.problem)
    return done, after


def stale(connection: sqlite3.Connection, archive_after: float, notice: Notice) -> Sequence[Stale]:
    """Global percepts that are not core, with the running time that is left to each; the next to go first."""
    hours_to_threshold = f"max(0, ({WEIGHT} - {PRUNE_THRESHOLD}) * {HOUR} - ((SELECT value FROM meta WHERE key = 'aged') - weight_mark) % {HOUR}) / 1000.0"
    left = f"max(0, ? - {IDLE_SECONDS}, CASE WHEN {WEIGHT} > {PRUNE_THRESHOLD} THEN {hours_to_threshold} ELSE 0 END)"
    found = connection.execute(f"SELECT {percepts.NOW}, {left} AS remaining FROM percepts WHERE core = 0 AND scope = 'global'", (archive_after,)).fetchall()
    values = [Stale(percept, float(row[-1])) for row in found if (percept := percepts.value_of(row[:-1], notice)) is not None]
    return sorted(values, key=lambda one: (one.seconds_left, one.percept.id))


class _Leaving:
    """Takes percepts to the archive; after a first failure of the file, no more."""

    def __init__(self, work: _Pass) -> None:
        self._work = work
        self.problem: str | None = None

    def take(self, reason: str, leaving: Sequence[Percept]) -> tuple[str, ...]:
        """Archive and remove them; the ids of those that went, which are all or none."""
        if not leaving or self.problem is not None:
            return ()
        try:
            percepts.leave(self._work.connection, leaving, self._work.archive, reason=reason, now=self._work.now)
        except OSError as error:
            self.problem = f"{self._work.archive} cannot be written, and what was to go there stays: {error.strerror or error}"
            return ()
        return tuple(percept.id for percept in leaving)


def _age_sessions(connection: sqlite3.Connection) -> None:
    """For each later day on which a turn was taken in the session, once."""
    groups = connection.execute(
        "SELECT DISTINCT percepts.session, aged_on FROM percepts JOIN sessions ON sessions.id = percepts.session"
        " WHERE scope = 'session' AND core = 0 AND substr(sessions.updated_at, 1, 10) > aged_on"
    ).fetchall()
    for session, aged_on in groups:
        days, last = connection.execute(
            "SELECT count(DISTINCT substr(started_at, 1, 10)), max(substr(started_at, 1, 10)) FROM turns WHERE session = ? AND substr(started_at, 1, 10) > ?",
            (session, aged_on),
        ).fetchone()
        if days:
            connection.execute(
                "UPDATE percepts SET weight = max(0, weight - ?), aged_on = ? WHERE scope = 'session' AND core = 0 AND session = ? AND aged_on = ?",
                (DAILY_DECAY * days, last, session, aged_on),
            )


def _apply_edges(connection: sqlite3.Connection) -> None:
    """Each edge once: what is built upon gains, what contradicts each other loses."""
    fresh = connection.execute("SELECT seq, source, target, kind FROM edges WHERE applied = 0 ORDER BY seq").fetchall()
    changes = [
        change
        for _, source, target, kind in fresh
        for change in ([(-_EDGE_LOSS, source), (-_EDGE_LOSS, target)] if kind == "contradicts" else [(_EDGE_GAIN, target)])
    ]
    connection.executemany(f"UPDATE percepts SET weight = max(0, min({HEAVIEST}, {WEIGHT} + ?)), {KEEP_PART_OF_HOUR} WHERE id = ?", changes)
    connection.executemany("UPDATE edges SET applied = 1 WHERE seq = ?", [(seq,) for seq, *_ in fresh])


def _promote(work: _Pass, leaving: _Leaving) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that became global, and those that one of the global ones says already: that one takes over their weight and edges."""
    promoted: list[str] = []
    merged: list[str] = []
    for percept in work.read(f"WHERE scope = 'session' AND core = 0 AND weight >= {PROMOTED_FROM} ORDER BY seq"):
        known = percepts.find_equivalent(work.connection, replace(percept, scope="global", session=None), work.platform, work.notice)
        if known is None:
            work.connection.execute(
                f"UPDATE percepts SET scope = 'global', session = NULL, weight_mark = ?, {SET_IDLE_FROM_NOW} WHERE id = ?", (work.aged, percept.id)
            )
            promoted.append(percept.id)
        else:
            merged += _merged(work, leaving, percept, known)
    return tuple(promoted), tuple(merged)


def _merged(work: _Pass, leaving: _Leaving, percept: Percept, known: Percept) -> tuple[str, ...]:
    links = edges.touching(work.connection, percept.id)
    gone = leaving.take(said_by(known.id), [percept])
    if gone:
        work.connection.execute(
            f"UPDATE percepts SET weight = max({WEIGHT}, ?), {KEEP_PART_OF_HOUR}, {SET_IDLE_FROM_NOW} WHERE id = ?", (percept.weight, known.id)
        )
        for edge in links:
            source, target = (known.id if end == percept.id else end for end in (edge.source, edge.target))
            if source != target:
                edges.add(work.connection, Edge(source, target, edge.kind), work.now, applied=True)
    return gone


def _over(work: _Pass, most: int | None) -> Sequence[Percept]:
    """The lightest of those that are not core, as many as are too many; of equal ones those that were used longest ago."""
    if most is None:
        return ()
    (count,) = work.connection.execute("SELECT count(*) FROM percepts").fetchone()
    if count <= most:
        return ()
    return work.read(f"WHERE core = 0 ORDER BY {WEIGHT}, {IDLE_SECONDS} DESC, coalesce(last_used_at, updated_at, created_at), id LIMIT ?", (count - most,))
