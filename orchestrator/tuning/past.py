"""A recorded session as it is replayed: its turns, and what each was decided by."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.receipts import Receipt, from_stored
from orchestrator.session import COMPLETED, Outcome, Role, Session, Turn


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn, and its receipt or why there is none that can be replayed."""

    turn: Turn
    receipt: Receipt | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """A session with its turns, oldest first."""

    session: Session
    turns: tuple[PastTurn, ...]


def past_of(session: Session, turns: Sequence[Turn], receipts: Mapping[int, Mapping[str, Any] | Receipt]) -> Past:
    """The session with its receipts read, where they are not yet; one that cannot be is named, not dropped."""
    return Past(session, tuple([_past_turn(turn, receipts.get(turn.index)) for turn in turns]))


def _past_turn(turn: Turn, data: Mapping[str, Any] | Receipt | None) -> PastTurn:
    if data is None:
        return PastTurn(turn, None, "it has no receipt")
    if isinstance(data, Receipt):
        return PastTurn(turn, data)
    try:
        return PastTurn(turn, from_stored(data))
    except ValueError as problem:
        return PastTurn(turn, None, f"its receipt cannot be read: {problem}")


class PastLog:
    """The turns as they stood at any one of them: a `TurnLog` that is moved on, oldest first."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns
        self._indexes = [turn.index for turn in turns]
        self._by_index = {turn.index: turn for turn in turns}
        self.next_index = 0

    def at(self, index: int) -> PastLog:
        """As it stood before the turn with that index."""
        self.next_index = index
        return self

    def get(self, index: int) -> Turn | None:
        return self._by_index.get(index) if index < self.next_index else None

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        end = self.next_index if stop is None else min(stop, self.next_index)
        turns, first = self._turns, bisect_left(self._indexes, start)
        for place in range(bisect_left(self._indexes, end) - 1, first - 1, -1):
            turn = turns[place]
            if (role is None or turn.role is role) and (outcomes is None or turn.outcome in outcomes):
                yield turn

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        return sum(1 for _ in self.newest_first(role=role, outcomes=outcomes, start=start, stop=stop))
