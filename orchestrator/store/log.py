"""The turns of one session, read newest first in pages that grow: a decision reads what it needs and no more."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from orchestrator.messages import Part
from orchestrator.session import COMPLETED, Outcome, Role, Turn
from orchestrator.store import rows
from orchestrator.store.artifacts import made_whole
from orchestrator.store.database import Database
from orchestrator.store.turns import next_index

_FIRST_PAGE, _SECOND_PAGE, _LARGEST_PAGE = 16, 32, 128
_REMEMBERED = 16 * 1024 * 1024
"""Characters of settled turns that are kept."""
_OVERHEAD = 1000
"""What a turn takes beside its texts."""
_NO_END = 2**62

IsHeld = Callable[[sqlite3.Connection, str], bool]
"""Whether somebody living holds the session."""


class Settled:
    """Turns that have ended, by their rows' ids: deciding, telling and fitting read the same newest ones, and so does the next turn.

    None of them changes any more, and in one database no id is given twice. Used under the database's lock.
    """

    def __init__(self) -> None:
        self._turns: dict[int, Turn] = {}
        self._size = 0
        self._connection: sqlite3.Connection | None = None

    def among(self, connection: sqlite3.Connection, identities: Sequence[int]) -> dict[int, Turn | None]:
        """Those of them that are known, in their order; another connection may be to another file, which a rescue made."""
        if connection is not self._connection:
            self._forget()
            self._connection = connection
        return {identity: self._turns.get(identity) for identity in identities}

    def keep(self, identity: int, turn: Turn, size: int) -> None:
        """`size` in characters; where they become too many, all the others go."""
        if self._size + size > _REMEMBERED:
            self._forget()
        self._turns[identity] = turn
        self._size += size + _OVERHEAD

    def _forget(self) -> None:
        self._turns.clear()
        self._size = 0


class SqliteTurnLog:
    """A `TurnLog` over the database. What an owner left open reads as `interrupted`."""

    def __init__(self, database: Database, session: str, is_held: IsHeld, settled: Settled) -> None:
        self._database = database
        self._session = session
        self._is_held = is_held
        self._settled = settled
        self._newest: _Newest | None = None

    @property
    def next_index(self) -> int:
        newest = self._in_snapshot()
        return self._database.read(lambda connection: next_index(connection, self._session)) if newest is None else newest.next_index

    def get(self, index: int) -> Turn | None:
        return next(self.newest_first(outcomes=None, start=index, stop=index + 1), None)

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        end, size = _NO_END if stop is None else stop, _FIRST_PAGE
        for newest in self._in_snapshot_at_length():
            yield from newest.fitting(role, outcomes, start, end)
            if newest.lowest <= start:
                return
            end, size = min(end, newest.lowest), 2 * size
        while True:
            lowest, turns = self._database.read(partial(self._page, role=role, outcomes=outcomes, bounds=(start, end), size=size))
            yield from turns
            if lowest is None:
                return
            end, size = lowest, min(2 * size, _LARGEST_PAGE)

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        bounds = (start, _NO_END if stop is None else stop)
        newest = self._in_snapshot()
        if newest is not None and newest.lowest <= start:
            return sum(1 for _ in newest.fitting(role, outcomes, *bounds))

        def counted(connection: sqlite3.Connection) -> int:
            query, bound = self._count_query(self._stored(connection, outcomes), role, bounds)
            return int(connection.execute(query, bound).fetchone()[0])

        return self._database.read(counted)

    def _in_snapshot(self) -> _Newest | None:
        """The newest turns, read once for all that is asked of one state of the file; `None` where none is held still."""
        state = self._database.state
        if state is None:
            return None
        if self._newest is None or self._newest.state is not state:
            self._newest = self._database.read(partial(self._read_newest, state))
        return self._newest

    def _in_snapshot_at_length(self) -> Iterator[_Newest]:
        """Also a second page, for who goes on to older ones: mostly all others do so, too."""
        newest = self._in_snapshot()
        if newest is None:
            return
        yield newest
        if newest.state is self._database.state and newest is self._newest and len(newest.turns) < _FIRST_PAGE + _SECOND_PAGE:
            self._newest = self._database.read(partial(self._read_further, newest))
            yield self._newest

    def _read_further(self, newest: _Newest, connection: sqlite3.Connection) -> _Newest:
        lowest, turns = self._page(connection, role=None, outcomes=None, bounds=(0, newest.lowest), size=_SECOND_PAGE)
        return replace(newest, turns=(*newest.turns, *turns), lowest=0 if lowest is None else lowest)

    def _read_newest(self, state: object, connection: sqlite3.Connection) -> _Newest:
        lowest, turns = self._page(connection, role=None, outcomes=None, bounds=(0, _NO_END), size=_FIRST_PAGE)
        return _Newest(state, turns, 0 if lowest is None else lowest, next_index(connection, self._session))

    def _count_query(self, outcomes: Sequence[Outcome], role: Role | None, bounds: tuple[int, int]) -> tuple[str, Sequence[object]]:
        roles = [role] if role else list(Role)
        query = f"SELECT count(*) FROM turns WHERE session = ? AND role IN ({_marks(roles)}) AND outcome IN ({_marks(outcomes)}) AND idx >= ? AND idx < ?"
        return query, (self._session, *roles, *outcomes, *bounds)

    def _stored(self, connection: sqlite3.Connection, outcomes: frozenset[Outcome] | None) -> Sequence[Outcome]:
        """The outcomes as they stand in the rows: `open` ones read as `interrupted` when nobody works on them."""
        wanted = set(Outcome if outcomes is None else outcomes)
        if outcomes is not None and (wanted & {Outcome.OPEN, Outcome.INTERRUPTED}) and not self._is_held(connection, self._session):
            wanted.discard(Outcome.OPEN)
            if Outcome.INTERRUPTED in wanted:
                wanted.add(Outcome.OPEN)
        return sorted(wanted)

    def _page(
        self, connection: sqlite3.Connection, *, role: Role | None, outcomes: frozenset[Outcome] | None, bounds: tuple[int, int], size: int
    ) -> tuple[int | None, Sequence[Turn]]:
        """The newest turns within the bounds, and the index below which the next page begins, if there can be one."""
        if role is None and outcomes is None:
            query, bound = "SELECT id, idx FROM turns WHERE session = ? AND idx >= ? AND idx < ? ORDER BY idx DESC LIMIT ?", [self._session, *bounds, size]
        else:
            query, bound = self._filtered(product([role] if role else Role, self._stored(connection, outcomes)), bounds, size)
        found = connection.execute(query, bound).fetchall() if query else []
        turns = self._loaded(connection, [identity for identity, _ in found])
        return (int(found[-1][1]) if len(found) == size else None), turns

    def _filtered(self, kinds: Iterable[tuple[Role, Outcome]], bounds: tuple[int, int], size: int) -> tuple[str, list[object]]:
        """One index range for each kind of turn, merged: flat in the length of the history, whatever lies between."""
        ranges, bound = [], list[object]()
        for role, outcome in kinds:
            ranges.append(
                "SELECT * FROM (SELECT id, idx FROM turns WHERE session = ? AND role = ? AND outcome = ? AND idx >= ? AND idx < ? ORDER BY idx DESC LIMIT ?)"
            )
            bound += [self._session, role, outcome, *bounds, size]
        return (f"{' UNION ALL '.join(ranges)} ORDER BY idx DESC LIMIT ?", [*bound, size]) if ranges else ("", [])

    def _loaded(self, connection: sqlite3.Connection, identities: Sequence[int]) -> Sequence[Turn]:
        known = self._settled.among(connection, identities)
        missing = [identity for identity, turn in known.items() if turn is None]
        if missing:
            known |= self._read(connection, missing)
        turns = list(known.values())
        if any(turn is not None and turn.outcome is Outcome.OPEN for turn in turns) and not self._is_held(connection, self._session):
            turns = [_interrupted(turn) for turn in turns]
        return [turn for turn in turns if turn is not None]

    def _read(self, connection: sqlite3.Connection, identities: Sequence[int]) -> dict[int, Turn]:
        steps = self._steps(connection, identities)
        found = connection.execute(f"SELECT id, {rows.TURN_COLUMNS} FROM turns WHERE id IN ({_marks(identities)})", identities)
        turns: dict[int, Turn] = {}
        for identity, *row in found.fetchall():
            said, size = steps.get(identity, ([], 0))
            turn = self._turn(tuple(row), said)
            if turn is None:
                continue
            turns[identity] = turn
            if turn.outcome is not Outcome.OPEN:
                self._settled.keep(identity, turn, size + len(turn.prompt or ""))
        return turns

    @staticmethod
    def _steps(connection: sqlite3.Connection, identities: Sequence[int]) -> dict[int, tuple[list[rows.Row], int]]:
        """By turn: place and decoded payload of each step, and the size of all of them."""
        query = f"SELECT turn, seq, payload FROM steps WHERE turn IN ({_marks(identities)}) ORDER BY turn, seq"
        stored = connection.execute(query, identities).fetchall()
        found: dict[int, tuple[list[rows.Row], int]] = {}
        decoded = made_whole(connection, rows.decoded([payload for _, _, payload in stored]))
        for (turn, seq, payload), fields in zip(stored, decoded, strict=True):
            said, size = found.get(turn, ([], 0))
            said.append((seq, fields))
            found[turn] = said, size + _size(payload, fields)
        return found

    def _turn(self, row: rows.Row, steps: Sequence[rows.Row]) -> Turn | None:
        def complain(problem: str) -> None:
            self._database.notice(f"session {self._session}, turn {row[0]}: {problem}")

        return rows.turn_value(row, _parts(steps, complain), complain)


@dataclass(frozen=True, slots=True)
class _Newest:
    """A session's newest turns of every kind in one state of the file."""

    state: object
    turns: Sequence[Turn]
    lowest: int
    """The index from which on all turns there are stand in `turns`."""
    next_index: int

    def fitting(self, role: Role | None, outcomes: frozenset[Outcome] | None, start: int, stop: int) -> Iterator[Turn]:
        for turn in self.turns:
            if turn.index < start:
                return
            if turn.index < stop and (role is None or turn.role is role) and (outcomes is None or turn.outcome in outcomes):
                yield turn


def _parts(steps: Sequence[rows.Row], complain: rows.Complain) -> tuple[Part, ...]:
    parts = []
    for seq, fields in steps:
        try:
            parts.append(rows.part_value(fields))
        except rows.BAD as problem:
            complain(f"step {seq} skipped: {problem}")
    return tuple(parts)


def _interrupted(turn: Turn | None) -> Turn | None:
    if turn is None or turn.outcome is not Outcome.OPEN:
        return turn
    return replace(turn, outcome=Outcome.INTERRUPTED)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _size(payload: Any, fields: Any) -> int:
    """Characters of one step, also where its text lies elsewhere."""
    text = fields.get("text", fields.get("content")) if isinstance(fields, dict) else None
    return max(len(part) for part in (payload, text, "") if isinstance(part, str | bytes))
