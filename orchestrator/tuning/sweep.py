"""Sums over replayed sessions: the self-test, what was sent with the limits of then, and what each variant makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, sub
from typing import NamedTuple, cast

from orchestrator.percepts import Percept
from orchestrator.session import Turn
from orchestrator.spending import Prices
from orchestrator.templates import Templates
from orchestrator.tuning.cases import Reader, Sent
from orchestrator.tuning.knobs import Variant
from orchestrator.tuning.past import Past
from orchestrator.tuning.replay import Replay, Replayed
from orchestrator.tuning.telling import Script

CLASSES = ("static", "orientation", "percepts", "prompt", "history", "cached")
"""The classes of what a model reads; each token is in one of them."""
_FIGURES = (*CLASSES, "output", "turns_left_out", "results_shortened", "rounds_left_out", "percepts_left_out", "refused", "beyond")
FIGURES = ("turns", *_FIGURES, "mode_changed", "content_changed")
_PLACES = {name: place for place, name in enumerate(FIGURES)}
_FIRST, _LAST = 1, 1 + len(_FIGURES)
_FROM, _TO = Sent._fields.index(_FIGURES[0]), Sent._fields.index(_FIGURES[-1]) + 1
"""The same figures in `Sent`, in the same order."""
_MOST_NAMED = 1_000


class Mistake(NamedTuple):
    """A turn that was decided otherwise than it was recorded."""

    session: str
    turn: int
    recorded: str
    replayed: str


class Missing(NamedTuple):
    """A turn that cannot be replayed, and why."""

    session: str
    turn: int
    why: str


@dataclass(slots=True)
class Sums:
    """Figures by agent."""

    by_agent: dict[str, list[int]] = field(default_factory=dict)

    def of(self, name: str) -> int:
        """One figure, over all agents."""
        return sum(figures[_PLACES[name]] for figures in self.by_agent.values())

    def add(self, agent: str, sent: Sent) -> None:
        row = self.row(agent)
        row[0] += 1
        row[_FIRST:_LAST] = map(add, row[_FIRST:_LAST], _counted(sent))

    def change(self, agent: str, difference: Sequence[int]) -> None:
        """One turn that is another than it was, by what all its figures differ by."""
        row = self.row(agent)
        row[:] = map(add, row, difference)

    def row(self, agent: str) -> list[int]:
        return self.by_agent.setdefault(agent, [0] * len(FIGURES))

    def merge(self, other: Sums) -> None:
        for agent, figures in other.by_agent.items():
            row = self.row(agent)
            for place, figure in enumerate(figures):
                row[place] += figure

    def cost(self, prices: Mapping[str, Prices]) -> tuple[float | None, int]:
        """Dollars by the agents' prices, and of how many turns nobody can say: those of agents without prices."""
        known, unknown = [], 0
        for agent, figures in self.by_agent.items():
            price = prices.get(agent, {})
            if "input" in price and "output" in price:
                known.append(_dollars(dict(zip(FIGURES, figures, strict=True)), price))
            else:
                unknown += figures[0]
        return (sum(known) if known else None), unknown


def _difference(base: Sent, other: Sent) -> Sequence[int]:
    """Of one turn, in the order of `FIGURES`."""
    return 0, *map(sub, _counted(other), _counted(base)), other.chosen.mode is not base.chosen.mode, other.key != base.key


def _counted(sent: Sent) -> tuple[int, ...]:
    return cast("tuple[int, ...]", sent[_FROM:_TO])


def _dollars(figures: Mapping[str, int], price: Prices) -> float:
    """Cached tokens without a price of their own cost what others do."""
    new = sum(figures[name] for name in CLASSES if name != "cached")
    return (new * price["input"] + figures["cached"] * price.get("cache_read", price["input"]) + figures["output"] * price["output"]) / 1_000_000


@dataclass(slots=True)
class Outcome:
    """What came of some sessions; those of several are merged."""

    variants: int
    sessions: int = 0
    turns: int = 0
    """All that were looked at; `replayed` of them could be replayed."""
    replayed: int = 0
    missing: list[Missing] = field(default_factory=list)
    missing_count: int = 0
    mistakes: list[Mistake] = field(default_factory=list)
    mistakes_count: int = 0
    tokens_recorded: int = 0
    tokens_off: int = 0
    """The sum of what each turn was off by, in either direction."""
    base: Sums = field(default_factory=Sums)
    changes: list[Sums] = field(default_factory=list)
    """By variant, what has to be added to `base`."""

    def __post_init__(self) -> None:
        self.changes = self.changes or [Sums() for _ in range(self.variants)]

    @property
    def tokens_off_percent(self) -> float:
        return 100 * self.tokens_off / self.tokens_recorded if self.tokens_recorded else 0.0

    def under(self, place: int) -> Sums:
        """The figures with that variant."""
        sums = Sums()
        sums.merge(self.base)
        sums.merge(self.changes[place])
        return sums

    def merge(self, other: Outcome) -> None:
        for name in ("sessions", "turns", "replayed", "missing_count", "mistakes_count", "tokens_recorded", "tokens_off"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.missing = [*self.missing, *other.missing][:_MOST_NAMED]
        self.mistakes = [*self.mistakes, *other.mistakes][:_MOST_NAMED]
        self.base.merge(other.base)
        for mine, theirs in zip(self.changes, other.changes, strict=True):
            mine.merge(theirs)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be replayed with, and which turns are meant."""

    variants: tuple[Variant, ...]
    readers: Mapping[str, Reader] = field(default_factory=dict)
    agent: str | None = None
    since: datetime | None = None

    def means(self, turn: Turn) -> bool:
        if self.agent is not None and turn.agent != self.agent:
            return False
        return self.since is None or (turn.started_at is not None and turn.started_at >= self.since)


def replay(pasts: Iterable[Past], task: Task, templates: Templates, percepts: Mapping[str, Percept]) -> Outcome:
    """All of them, in this process."""
    outcome, script = Outcome(len(task.variants)), Script(templates)
    for past in pasts:
        replay_into(outcome, past, task, script, percepts)
    return outcome


def replay_into(outcome: Outcome, past: Past, task: Task, script: Script, percepts: Mapping[str, Percept]) -> None:
    """One more session."""
    outcome.sessions += 1
    for done in Replay(past, task.variants, task.readers, script, percepts).turns():
        if task.means(done.past.turn):
            _count(outcome, past.session.id, done)


def _count(outcome: Outcome, session: str, done: Replayed) -> None:
    turn = done.past.turn
    outcome.turns += 1
    if done.base is None or done.past.receipt is None:
        outcome.missing_count += 1
        if len(outcome.missing) < _MOST_NAMED:
            outcome.missing.append(Missing(session, turn.index, done.problem))
        return
    outcome.replayed += 1
    base = done.base
    _test(outcome, session, turn, base, done.past.receipt.report.budget.tokens_estimate)
    outcome.base.add(turn.agent, base)
    differences: dict[int, Sequence[int]] = {}
    for place, other in done.others.items():
        if (difference := differences.get(id(other))) is None:
            difference = differences[id(other)] = _difference(base, other)
        outcome.changes[place].change(turn.agent, difference)


def _test(outcome: Outcome, session: str, turn: Turn, base: Sent, recorded: int) -> None:
    """Whether the limits of then decide and weigh as they did then."""
    chosen = base.chosen
    then = (turn.role, turn.agent, turn.mode, tuple(reason.rule for reason in turn.reasons))
    if (chosen.role, chosen.agent, chosen.mode, chosen.rules) != then:
        outcome.mistakes_count += 1
        if len(outcome.mistakes) < _MOST_NAMED:
            outcome.mistakes.append(Mistake(session, turn.index, _spelled(*then), _spelled(*chosen)))
    if not base.nothing:
        outcome.tokens_recorded += recorded
        outcome.tokens_off += abs(base.estimate - recorded)


def _spelled(role: str, agent: str, mode: str | None, rules: Sequence[str]) -> str:
    return f"{agent}, {role}{f', {mode}' if mode else ''} ({', '.join(rules)})"
