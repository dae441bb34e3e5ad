"""What of the history is sent when not all of it fits the budget (page 3, fit)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from orchestrator.history.budget import measure
from orchestrator.history.normalise import settle
from orchestrator.history.render import Unit, Viewer, count_batches, show_unit, tidy_unit
from orchestrator.history.scope import Scope
from orchestrator.messages import Message, Part, ToolResult
from orchestrator.providers import WireProfile
from orchestrator.session import TOLD, Outcome, Role, Turn, TurnLog

STUB_CHARS = 400
"""The most that is left of a tool result when it is shortened."""
_HEAD, _TAIL = 260, 100

Why = Literal["scope", "budget", "not_completed"]


class LeftOut(NamedTuple):
    """A turn that is not sent, and why."""

    turn: int
    why: Why


@dataclass(frozen=True, slots=True)
class Dropped:
    """The turns that are not sent. It holds no list of them: iterating reads the log, which only a report needs."""

    log: TurnLog
    scope: Scope
    stop: int
    sent: tuple[int, ...]
    any_for_budget: bool

    @property
    def count_not_shown(self) -> int:
        """How many turns of the scope did not fit the budget; counted in the log, not read."""
        if not self.any_for_budget:
            return 0
        return self.log.count(outcomes=TOLD, start=self.scope.start, stop=self.stop) - sum(index >= self.scope.start for index in self.sent)

    def __iter__(self) -> Iterator[LeftOut]:
        """Every turn that is not sent, oldest first. With the scope `none` nothing is left out: nothing was to be sent."""
        if self.scope.name == "none" or len(self.sent) == self.stop:
            return
        sent = set(self.sent)
        for start in range(0, self.stop, _SPAN):
            stop = min(start + _SPAN, self.stop)
            for index, told in _outcomes(self.log, start, stop):
                if index not in sent:
                    yield LeftOut(index, "not_completed" if not told else "scope" if index < self.scope.start else "budget")


_SPAN = 1024


def _outcomes(log: TurnLog, start: int, stop: int) -> Iterable[tuple[int, bool]]:
    """The turns of a span with whether agents are told of them; read only when it holds others, too."""
    if log.count(outcomes=TOLD, start=start, stop=stop) == stop - start:
        return ((index, True) for index in range(start, stop))
    return reversed([(turn.index, turn.outcome in TOLD) for turn in log.newest_first(outcomes=None, start=start, stop=stop)])


@dataclass(frozen=True, slots=True)
class Fitted:
    """The history as it is sent, and what was done to it.

    `messages` are settled: the caller puts the prompt behind them and normalises the whole, which changes no size but
    that of the prompt. `chars` is their size.
    """

    messages: tuple[Message, ...]
    sent: tuple[int, ...]
    dropped: Dropped
    chars: int
    shortened: tuple[int, ...] = ()
    """Turns with tool results that were cut down to a stub."""
    cut: tuple[tuple[int, int], ...] = ()
    """Turns that are sent without their oldest tool batches, each with how many are left out."""

    @property
    def batches_left_out(self) -> int:
        """Tool batches that are not sent of the newest turn, or of the pair that it is the second of."""
        return sum(count for _, count in self.cut)

    @property
    def left_out_for_budget(self) -> bool:
        """Whether anything is missing that the agent has to be told of."""
        return self.dropped.any_for_budget and (self.dropped.count_not_shown > 0 or self.batches_left_out > 0)


def fit(
    log: TurnLog,
    scope: Scope,
    viewer: Viewer,
    *,
    profile: WireProfile,
    available: int | None,
    reserve: int = 80,
    returning_boundary: int | None = None,
    continuing: int | None = None,
    weighed: Weighed | None = None,
) -> Fitted:
    """The history for one agent in at most `available` characters (`None`: no limit), given up in page 3's order.

    What does not fit as it is must leave `reserve` characters, for the line that says so. `returning_boundary` is the
    index after the last escalation turn, in the mode `returning` only. `continuing` is the escalated turn that the turn
    being planned continues: it counts as the newest, and its prompt is left to the caller. Reads no more of the log than
    it keeps, and one unit. `weighed` has what was made of turns before.
    """
    if scope.name == "none":
        return _fitted((), log, scope, profile, budget=False)
    room = None if available is None else available - reserve
    weighed = Weighed() if weighed is None else weighed
    units = (weighed.of(unit, viewer, profile) for unit in keep_order(log, scope, returning_boundary=returning_boundary, continuing=continuing))
    read, complete = _read(units, available, room)
    if available is None or room is None or (complete and sum(item.full for item in read) <= available):
        return _fitted(read, log, scope, profile, budget=False)
    if complete and sum(item.short for item in read) <= room:
        return _fitted(_shorten_oldest(read, room, viewer, profile), log, scope, profile, budget=False)
    kept = [_shorten(item, viewer, profile) for item in _kept(read, room)]
    if read and not kept:
        kept = _without_batches(read[0], room, viewer, profile)
    return _fitted(kept, log, scope, profile, budget=True)


# -- the order in which turns are kept ------------------------------------------------------------


def keep_order(log: TurnLog, scope: Scope, *, returning_boundary: int | None = None, continuing: int | None = None) -> Iterator[Unit]:
    """The units of the scope, the most worth keeping first: page 3's order of giving up, turned round. Lazy."""
    taken: set[int] = set()
    pending = None if continuing is None else log.get(continuing)
    newest = next(log.newest_first(outcomes=TOLD, start=scope.start), None) if pending is None else pending
    if newest is None:
        return
    yield _unit(newest, log, taken, pending=pending is not None)
    for turn in _by_worth(log, scope, returning_boundary):
        if turn.index not in taken:
            yield _unit(turn, log, taken)


def _by_worth(log: TurnLog, scope: Scope, boundary: int | None) -> Iterator[Turn]:
    """Newest first; when returning, the gap's primary turns last of all and the escalation turns first."""
    if boundary is None:
        yield from log.newest_first(outcomes=TOLD, start=scope.start)
        return
    yield from log.newest_first(role=Role.ESCALATION, outcomes=TOLD, start=scope.start)
    yield from log.newest_first(role=Role.PRIMARY, outcomes=TOLD, start=scope.start, stop=boundary)
    yield from log.newest_first(role=Role.PRIMARY, outcomes=TOLD, start=max(scope.start, boundary))


def _unit(turn: Turn, log: TurnLog, taken: set[int], *, pending: bool = False) -> Unit:
    """The turn, with the escalated one that it continues; both are taken from now on."""
    taken.add(turn.index)
    first = None if pending or turn.continues is None or turn.continues in taken else log.get(turn.continues)
    if first is None or not _continues(turn, first):
        return Unit((turn,), pending)
    taken.add(first.index)
    return Unit((first, turn))


def _continues(turn: Turn, first: Turn) -> bool:
    """Whether the two are one exchange; a damaged history may say so of others, or give the second a prompt of its own."""
    return first.index < turn.index and first.outcome is Outcome.ESCALATED and turn.prompt in (None, first.prompt)


# -- sizes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """A unit with its messages and two sizes from one rendering: as it is, and with every tool result shortened."""

    unit: Unit
    messages: tuple[Message, ...]
    full: int
    savings: tuple[int, ...] = ()
    """What shortening saves, for each of its tool results in order."""
    shortened: tuple[int, ...] = ()
    cut: tuple[tuple[int, int], ...] = ()

    @property
    def short(self) -> int:
        """With every tool result shortened."""
        return self.full - sum(self.savings)


class Weighed:
    """Units as they were weighed, for the next time: what a turn came to never changes, and a log gives the same turn as the same object."""

    def __init__(self) -> None:
        self._items: dict[tuple[object, ...], tuple[Unit, Item]] = {}
        self._size = 0

    def of(self, unit: Unit, viewer: Viewer, profile: WireProfile) -> Item:
        """Weighed now, or before. Where what is kept becomes too much, all of it goes."""
        key = (viewer, profile, unit.pending, *map(id, unit.turns))  # ids that nothing else gets while the unit is kept
        known = self._items.get(key)
        if known is not None:
            return known[1]
        item = weigh(unit, viewer, profile)
        if self._size > _REMEMBERED:
            self._items, self._size = {}, 0
        self._items[key] = unit, item
        self._size += item.full + _OVERHEAD
        return item


_REMEMBERED = 16 * 1024 * 1024
"""Characters."""
_OVERHEAD = 1000
"""What a unit takes beside its texts."""


def weigh(unit: Unit, viewer: Viewer, profile: WireProfile) -> Item:
    """The unit as that agent sees it."""
    unit = tidy_unit(unit, viewer)
    messages = settle(show_unit(unit, viewer), profile)
    savings = tuple([_saving(part) for turn in unit.turns for part in turn.steps if isinstance(part, ToolResult)])
    return Item(unit, messages, measure(messages), savings)


def _read(units: Iterable[Item], available: int | None, room: int | None) -> tuple[list[Item], bool]:
    """What has to be looked at, and whether that is everything: no more once a turn will have to be dropped."""
    read: list[Item] = []
    full = short = 0
    for item in units:
        read.append(item)
        full += item.full
        short += item.short
        if available is not None and room is not None and full > available and short > room:
            return read, False
    return read, True


def _kept(read: Sequence[Item], room: int) -> Iterator[Item]:
    """The first ones that fit with their tool results shortened."""
    for item in read:
        room -= item.short
        if room < 0:
            return
        yield item


# -- giving up ------------------------------------------------------------------------------------


def _shorten_oldest(read: Sequence[Item], room: int, viewer: Viewer, profile: WireProfile) -> list[Item]:
    """Tool results shortened, oldest first, until everything fits."""
    excess = sum(item.full for item in read) - room
    done: list[Item] = []
    for item in sorted(read, key=_place):
        count = 0
        while excess > 0 and count < len(item.savings):
            excess -= item.savings[count]
            count += 1
        done.append(_shorten(item, viewer, profile, count=count))
    return done


def _shorten(item: Item, viewer: Viewer, profile: WireProfile, *, count: int | None = None) -> Item:
    """With its oldest `count` tool results shortened, or all of them."""
    if not any(item.savings[:count]):
        return item
    left = len(item.savings) if count is None else count
    turns: list[Turn] = []
    for turn in item.unit.turns:
        steps: list[Part] = []
        for step in turn.steps:
            steps.append(stub(step) if left > 0 else step)
            left -= isinstance(step, ToolResult)
        turns.append(turn if all(new is old for new, old in zip(steps, turn.steps, strict=True)) else replace(turn, steps=tuple(steps)))
    touched = tuple(new.index for new, old in zip(turns, item.unit.turns, strict=True) if new is not old)
    unit = replace(item.unit, turns=tuple(turns))
    messages = settle(show_unit(unit, viewer), profile)
    return Item(unit, messages, measure(messages), shortened=touched)


def stub(part: Part) -> Part:
    """A tool result's head and tail, with how much was cut between them; any other part as it is."""
    if not isinstance(part, ToolResult) or not _saving(part):
        return part
    return replace(part, content=stub_text(part.content))


def _saving(result: ToolResult) -> int:
    content = result.content
    return 0 if len(content) <= STUB_CHARS or content.isspace() else len(content) - len(stub_text(content))


def stub_text(content: str) -> str:
    """The head and the tail of a text, with how much was cut between them."""
    return f"{content[:_HEAD]}\n… {len(content) - _HEAD - _TAIL} characters cut …\n{content[-_TAIL:]}"


def _without_batches(item: Item, room: int, viewer: Viewer, profile: WireProfile) -> list[Item]:
    """The newest unit alone, without as many of its oldest tool batches as it takes to fit; nothing if that is not enough."""
    item = _shorten(item, viewer, profile)

    def without(count: int) -> Item:
        messages = settle(show_unit(item.unit, viewer, skip=count), profile)
        return replace(item, messages=messages, full=measure(messages), savings=(), cut=_cut(item.unit, count))

    batches = count_batches(item.unit)
    least = bisect_left(range(batches + 1), -room, key=lambda count: -without(count).full)
    return [without(least)] if least <= batches else []


def _cut(unit: Unit, count: int) -> tuple[tuple[int, int], ...]:
    """Which turns the oldest `count` batches of a unit belong to."""
    found = []
    for turn in unit.turns:
        taken = min(count, count_batches(Unit((turn,))))
        count -= taken
        found += [(turn.index, taken)] if taken else []
    return tuple(found)


def _fitted(kept: Iterable[Item], log: TurnLog, scope: Scope, profile: WireProfile, *, budget: bool) -> Fitted:
    items = sorted(kept, key=_place)
    sent = tuple(sorted(turn.index for item in items for turn in item.unit.turns))
    return Fitted(
        messages=settle(tuple(message for item in items for message in item.messages), profile),
        sent=sent,
        dropped=Dropped(log, scope, log.next_index, sent, budget),
        chars=sum(item.full for item in items),
        shortened=tuple(sorted(index for item in items for index in item.shortened)),
        cut=tuple(cut for item in items for cut in item.cut),
    )


def _place(item: Item) -> tuple[bool, int]:
    return item.unit.pending, item.unit.place


__all__ = ["STUB_CHARS", "Dropped", "Fitted", "Item", "LeftOut", "Weighed", "Why", "fit", "keep_order", "stub", "stub_text", "weigh"]
