"""The turns of one session, read newest first in pages that grow: a decision reads what it needs and no more."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from orchestrator.messages import Part
from orchestrator.session import COMPLETED, Outcome, Role, Turn
from orchestrator.store import rows
from orchestrator.store.artifacts import made_whole
from orchestrator.store.database import Database
from orchestrator.store.turns import next_index

_FIRST_PAGE, _LARGEST_PAGE = 16, 128
_REMEMBERED = 1024
"""Settled turns that a log keeps: deciding, telling and fitting read the same newest ones, and none of them changes any more."""
_NO_END = 2**62

IsHeld = Callable[[sqlite3.Connection, str], bool]
"""Whether somebody living holds the session."""


class SqliteTurnLog:
    """A `TurnLog` over the database. What an owner left open reads as `interrupted`."""

    def __init__(self, database: Database, session: str, is_held: IsHeld) -> None:
        self._database = database
        self._session = session
        self._is_held = is_held
        self._settled: dict[int, Turn] = {}

    @property
    def next_index(self) -> int:
        return self._database.read(lambda connection: next_index(connection, self._session))

    def get(self, index: int) -> Turn | None:
        return next(self.newest_first(outcomes=None, start=index, stop=index + 1), None)

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        end, size = _NO_END if stop is None else stop, _FIRST_PAGE
        while True:
            lowest, turns = self._database.read(partial(self._page, role=role, outcomes=outcomes, bounds=(start, end), size=size))
            yield from turns
            if lowest is None:
                return
            end, size = lowest, min(2 * size, _LARGEST_PAGE)

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        bounds = (start, _NO_END if stop is None else stop)

        def counted(connection: sqlite3.Connection) -> int:
            query, bound = self._count_query(self._stored(connection, outcomes), role, bounds)
            return int(connection.execute(query, bound).fetchone()[0])

        return self._database.read(counted)

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
        missing = [identity for identity in identities if identity not in self._settled]
        fresh = self._read(connection, missing) if missing else {}
        if len(self._settled) + len(fresh) > _REMEMBERED:
            self._settled.clear()
        self._settled.update({identity: turn for identity, turn in fresh.items() if turn.outcome is not Outcome.OPEN})
        turns = [fresh.get(identity) or self._settled.get(identity) for identity in identities]
        if any(turn is not None and turn.outcome is Outcome.OPEN for turn in turns) and not self._is_held(connection, self._session):
            turns = [_interrupted(turn) for turn in turns]
        return [turn for turn in turns if turn is not None]

    def _read(self, connection: sqlite3.Connection, identities: Sequence[int]) -> dict[int, Turn]:
        steps = self._steps(connection, identities)
        found = connection.execute(f"SELECT id, {rows.TURN_COLUMNS} FROM turns WHERE id IN ({_marks(identities)})", identities)
        turns = {row[0]: self._turn(row[1:], steps.get(row[0], [])) for row in found.fetchall()}
        return {identity: turn for identity, turn in turns.items() if turn is not None}

    @staticmethod
    def _steps(connection: sqlite3.Connection, identities: Sequence[int]) -> dict[int, list[rows.Row]]:
        """By turn: place and decoded payload of each step."""
        query = f"SELECT turn, seq, payload FROM steps WHERE turn IN ({_marks(identities)}) ORDER BY turn, seq"
        stored = connection.execute(query, identities).fetchall()
        found: dict[int, list[rows.Row]] = {}
        decoded = made_whole(connection, rows.decoded([payload for _, _, payload in stored]))
        for (turn, seq, _), fields in zip(stored, decoded, strict=True):
            found.setdefault(turn, []).append((seq, fields))
        return found

    def _turn(self, row: rows.Row, steps: Sequence[rows.Row]) -> Turn | None:
        def complain(problem: str) -> None:
            self._database.notice(f"session {self._session}, turn {row[0]}: {problem}")

        return rows.turn_value(row, _parts(steps, complain), complain)


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
