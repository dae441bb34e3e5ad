"""The history of one reader by sizes alone: what page 3's fitting would send of it, without rendering it again for each limit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from orchestrator.history.budget import PART_OVERHEAD, estimate_message_tokens, estimate_tokens
from orchestrator.history.fit import fit, keep_order, stub, weigh
from orchestrator.history.render import Unit, Viewer
from orchestrator.history.scope import Scope
from orchestrator.messages import Text, ToolResult
from orchestrator.providers import WireProfile
from orchestrator.session import TOLD, Outcome, Role, Turn
from orchestrator.tuning.past import PastLog


class Fit(NamedTuple):
    """What of the history is sent, in characters and estimated tokens, and what is not."""

    chars: int = 0
    tokens: int = 0
    sent: int = 0
    """Turns."""
    dropped: int = 0
    """Turns that were left out for the budget."""
    shortened: int = 0
    """Tool results cut down to a stub."""
    rounds: int = 0
    """Rounds of tool calls left out of the newest turn."""
    key: tuple[int, ...] = ()
    """Which turns: alike where the same is sent."""


class _Unit(NamedTuple):
    """The sizes of one unit, as it is and with all its tool results shortened; for each result what shortening saves."""

    place: int
    turns: int
    full: int
    short: int
    full_tokens: int
    short_tokens: int
    savings: tuple[tuple[int, int], ...] = ()


class _Stretch(NamedTuple):
    """All units from a place on, with the pending one."""

    asked: tuple[int, int | None]
    """From where on, and which turn goes on."""
    first: int
    end: int
    pending: _Unit | None
    sizes: tuple[int, int, int, int]
    """Full, short, full tokens, turns."""
    newest: _Unit | None
    """The one that is kept before all others."""
    others: int
    """Where those end that are older."""


@dataclass(slots=True)
class _Row:
    """Units in order with running sums, so that the sizes of any stretch are two look-ups."""

    units: list[_Unit] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    sums: list[tuple[int, int, int, int, int, int]] = field(default_factory=lambda: [(0, 0, 0, 0, 0, 0)])
    """Full, short, full tokens, short tokens, turns, results that can be shortened."""
    shorts: list[int] = field(default_factory=lambda: [0])
    """The second of the sums alone, to search in."""

    def add(self, unit: _Unit) -> None:
        full, short, full_tokens, short_tokens, turns, results = self.sums[-1]
        self.shorts.append(short + unit.short)
        self.units.append(unit)
        self.places.append(unit.place)
        self.sums.append(
            (full + unit.full, short + unit.short, full_tokens + unit.full_tokens, short_tokens + unit.short_tokens, turns + unit.turns, results + _cut(unit))
        )

    def drop_last(self, place: int) -> None:
        if self.places and self.places[-1] == place:
            self.units.pop()
            self.places.pop()
            self.sums.pop()
            self.shorts.pop()

    def at(self, place: int) -> int:
        return bisect_left(self.places, place)

    def newest_within(self, first: int, end: int, room: int) -> int:
        """Where the newest units begin that fit the room, all shortened."""
        return bisect_left(self.shorts, self.shorts[end] - room, first, end)


class Ledger:
    """All turns as one agent would see them, up to the one that is asked for; the turns are asked for oldest first."""

    def __init__(self, log: PastLog, turns: Sequence[Turn], viewer: Viewer, profile: WireProfile) -> None:
        self._log, self._turns, self._viewer, self._profile = log, turns, viewer, profile
        self._known, self._reached = 0, -1
        self._stretch: _Stretch | None = None
        """What was measured last: it is asked for again with another room."""
        self._all, self._escalation, self._primary = _Row(), _Row(), _Row()
        self._pending: dict[int, _Unit] = {}
        self._frames: dict[tuple[str, Role, Outcome], int] = {}

    def fit(self, index: int, scope: Scope, *, available: int | None, reserve: int, returning: int | None, continuing: int | None) -> Fit:
        """As `history.fit.fit` for the turn with that index. `returning` is the boundary, in that mode."""
        if index != self._reached:
            self._catch_up(index)
        stretch = self._stretch
        if stretch is None or stretch.asked != (scope.start, continuing):
            stretch = self._stretch = self._measured(scope.start, continuing)
        full, short, tokens, turns = stretch.sizes
        if available is None or full <= available:
            return Fit(full, tokens, turns, key=(scope.start, index))
        room = available - reserve
        if short <= room:
            return self._shortened(full, tokens, turns, full - room, self._units(stretch), (scope.start, index))
        newest = stretch.newest
        if newest is None:
            return Fit()
        if newest.short > room:
            return self._without_rounds(index, scope, available, reserve, returning, continuing, turns)
        if returning is None:
            return self._newest_kept(stretch, newest, room)
        return self._kept(newest, returning, room - newest.short, turns)

    def _newest_kept(self, stretch: _Stretch, newest: _Unit, room: int) -> Fit:
        """The oldest go first."""
        row, end = self._all, stretch.others
        begin = row.newest_within(stretch.first, end, room - newest.short)
        before, after = row.sums[begin], row.sums[end]
        sent = newest.turns + after[4] - before[4]
        return Fit(
            newest.short + after[1] - before[1],
            newest.short_tokens + after[3] - before[3],
            sent,
            stretch.sizes[3] - sent,
            _cut(newest) + after[5] - before[5],
            0,
            (newest.place, begin),
        )

    def _measured(self, start: int, continuing: int | None) -> _Stretch:
        pending = None if continuing is None else self._pending_unit(continuing)
        row = self._all
        first, end = row.at(start), len(row.units)
        if pending is not None and row.places and row.places[-1] == continuing:
            end -= 1
        full, short, tokens, turns = _between(row.sums[first], row.sums[end])
        if pending is not None:
            full, short, tokens, turns = full + pending.full, short + pending.short, tokens + pending.full_tokens, turns + 1
        newest, others = pending, end
        if newest is None and end and row.units[end - 1].place >= start:
            newest, others = row.units[end - 1], end - 1
        return _Stretch((start, continuing), first, end, pending, (full, short, tokens, turns), newest, others)

    def _units(self, stretch: _Stretch) -> Sequence[_Unit]:
        units = self._all.units[stretch.first : stretch.end]
        return units if stretch.pending is None else [*units, stretch.pending]

    def _shortened(self, full: int, tokens: int, turns: int, excess: int, units: Sequence[_Unit], key: tuple[int, ...]) -> Fit:
        count = 0
        for unit in units:
            for chars, saved in unit.savings:
                if excess <= 0:
                    break
                if chars:
                    excess, full, tokens, count = excess - chars, full - chars, tokens - saved, count + 1
        return Fit(full, tokens, turns, shortened=count, key=(*key, count))

    def _kept(self, newest: _Unit, returning: int, room: int, turns: int) -> Fit:
        """Stretches in their order, each given up from its oldest on, the last stretch first."""
        chars, tokens, sent, cut, key = newest.short, newest.short_tokens, newest.turns, _cut(newest), [newest.place]
        for row, first, end in self._order(newest.place, returning):
            begin = row.newest_within(first, end, room)
            before, after = row.sums[begin], row.sums[end]
            short = after[1] - before[1]
            chars, tokens, sent, cut, room = chars + short, tokens + after[3] - before[3], sent + after[4] - before[4], cut + after[5] - before[5], room - short
            key.append(begin)
            if begin > first:
                break
        return Fit(chars, tokens, sent, dropped=turns - sent, shortened=cut, key=tuple(key))

    def _order(self, newest: int, returning: int) -> Sequence[tuple[_Row, int, int]]:
        """In `returning`: what escalation agents did, then the turns before the boundary, then those after it."""
        escalation, primary = self._escalation, self._primary
        middle, end = primary.at(returning), primary.at(newest)
        return [(escalation, 0, escalation.at(newest)), (primary, 0, min(middle, end)), (primary, middle, max(middle, end))]

    def _without_rounds(self, index: int, scope: Scope, available: int, reserve: int, returning: int | None, continuing: int | None, turns: int) -> Fit:
        """The newest turn alone is too large: as it is fitted in earnest."""
        fitted = fit(
            self._log.at(index),
            scope,
            self._viewer,
            profile=self._profile,
            available=available,
            reserve=reserve,
            returning_boundary=returning,
            continuing=continuing,
        )
        rounds = fitted.batches_left_out
        left = turns - len(fitted.sent) - (continuing is not None and continuing not in fitted.sent)
        return Fit(fitted.chars, estimate_message_tokens(fitted.messages), len(fitted.sent), left, len(fitted.shortened), rounds, (*fitted.sent, -rounds))

    # -- weighing --------------------------------------------------------------------------------

    def _catch_up(self, index: int) -> None:
        while self._known < len(self._turns) and self._turns[self._known].index < index:
            turn = self._turns[self._known]
            self._known += 1
            if turn.outcome in TOLD:
                self._add(turn)
        self._log.at(index)
        self._reached, self._stretch = index, None

    def _add(self, turn: Turn) -> None:
        unit = Unit((turn,)) if turn.continues is None else next(keep_order(self._log.at(turn.index + 1), Scope("all", turn.index)))
        if len(unit.turns) == 2:
            for row in (self._all, self._primary):
                row.drop_last(unit.turns[0].index)
        weighed = self._weighed(unit)
        self._all.add(weighed)
        (self._escalation if turn.role is Role.ESCALATION else self._primary).add(weighed)

    def _pending_unit(self, index: int) -> _Unit | None:
        turn = self._log.get(index)
        if turn is None or turn.outcome is not Outcome.ESCALATED:
            return None
        if index not in self._pending:
            self._pending[index] = self._weighed(Unit((turn,), pending=True))
        return self._pending[index]

    def _plain(self, unit: Unit) -> _Unit | None:
        """A prompt and one text of plain letters, as most turns are: weighed without making messages of it."""
        turn = unit.turns[0]
        if len(turn.steps) != 1 or unit.pending or len(unit.turns) > 1 or turn.prompt is None:
            return None
        step = turn.steps[0]
        if not isinstance(step, Text) or step.extra is not None or not (_is_plain(turn.prompt) and _is_plain(step.text)):
            return None
        frame = 0 if turn.agent == self._viewer.agent else self._frame(turn)
        prompt, answer = len(turn.prompt), len(step.text) + frame
        tokens = _plain_tokens(prompt) + _plain_tokens(answer)
        return _Unit(turn.index, 1, prompt + answer + 2 * PART_OVERHEAD, prompt + answer + 2 * PART_OVERHEAD, tokens, tokens)

    def _frame(self, turn: Turn) -> int:
        """Characters around another agent's answer."""
        key = (turn.agent, turn.role, turn.outcome)
        if key not in self._frames:
            shown = weigh(Unit((replace(turn, prompt=None, steps=(Text("x"),), continues=None),)), self._viewer, self._profile)
            self._frames[key] = shown.full - 1 - PART_OVERHEAD
        return self._frames[key]

    def _weighed(self, unit: Unit) -> _Unit:
        if (plain := self._plain(unit)) is not None:
            return plain
        weighed = weigh(unit, self._viewer, self._profile)
        tokens = estimate_message_tokens(weighed.messages)
        if not weighed.savings:
            return _Unit(unit.place, len(unit.turns), weighed.full, weighed.full, tokens, tokens)
        saved = [_saved_tokens(part) for turn in weighed.unit.turns for part in turn.steps if isinstance(part, ToolResult)]
        return _Unit(unit.place, len(unit.turns), weighed.full, weighed.short, tokens, tokens - sum(saved), tuple(zip(weighed.savings, saved, strict=True)))


def _between(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Of a stretch: full and short size, full tokens, turns."""
    return after[0] - before[0], after[1] - before[1], after[2] - before[2], after[4] - before[4]


def _plain_tokens(chars: int) -> int:
    return -(-(chars + PART_OVERHEAD) // 3)


def _saved_tokens(result: ToolResult) -> int:
    short = stub(result)
    return 0 if short is result or not isinstance(short, ToolResult) else estimate_tokens(result.content) - estimate_tokens(short.content)


def _is_plain(text: str) -> bool:
    """Whether nothing is done to it on its way into a message: no mark, no tag, no file, nothing blank."""
    return text.isascii() and "[" not in text and "<" not in text and "\x00" not in text and not text.isspace() and text != "" and "File " not in text


def _cut(unit: _Unit) -> int:
    return sum(1 for chars, _ in unit.savings if chars) if unit.savings else 0


__all__ = ["Fit", "Ledger"]
