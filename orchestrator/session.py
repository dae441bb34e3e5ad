"""The shared session: turns, need, states, and the facts that are counted over them (page 1).

Values and pure rules only. Where the turns lie, in memory or in a store, is behind `TurnLog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from orchestrator.lifetimes import outlived
from orchestrator.messages import Part, Text, ToolCall, ToolResult, Usage


class Role(StrEnum):
    """The part an agent plays in a turn."""

    PRIMARY = "primary"
    ESCALATION = "escalation"


class Outcome(StrEnum):
    """How a turn ended; `open` while it runs."""

    OPEN = "open"
    COMPLETED = "completed"
    ESCALATED = "escalated"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class State(StrEnum):
    """Where the conversation stands between and in turns."""

    ROUTING = "routing"
    PRIMARY = "primary"
    ESCALATION = "escalation"
    WAITING = "waiting"


COMPLETED: frozenset[Outcome] = frozenset({Outcome.COMPLETED})
TOLD: frozenset[Outcome] = frozenset({Outcome.COMPLETED, Outcome.ESCALATED})
"""What agents are told of: completed turns, and primary turns that were handed over (page 3)."""

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.ROUTING: frozenset({State.PRIMARY, State.ESCALATION}),
    State.PRIMARY: frozenset({State.ROUTING, State.ESCALATION}),
    State.ESCALATION: frozenset({State.ROUTING, State.WAITING}),
    State.WAITING: frozenset({State.ESCALATION, State.ROUTING}),
}


def transition(old: State, new: State) -> State:
    """The new state, where page 1's table has that step; raises `ValueError` for any other."""
    if new not in TRANSITIONS[old]:
        raise ValueError(f"no transition from {old} to {new}")
    return new


_CLOSING = frozenset("*_)]\"'»”")
"""Marks that may stand behind a question mark, as may blanks of any kind."""


def ends_with_question(answer: str) -> bool:
    """Whether the last non-blank line ends in a question mark, closing marks set aside (page 1)."""
    lines = [line for line in answer.splitlines() if line.strip()]
    last = next((mark for mark in reversed(lines[-1]) if not mark.isspace() and mark not in _CLOSING), "") if lines else ""
    return last in ("?", "\uff1f")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a mode or an agent was chosen: a rule's name, and what it saw."""

    rule: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TurnError:
    """Class and text of what ended a turn early."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message and all that one agent did about it. `index` is its place, never reused."""

    index: int
    role: Role
    agent: str
    prompt: str | None
    """`None` where the turn continues another one (`continues`), whose prompt it answers."""
    steps: tuple[Part, ...] = ()
    outcome: Outcome = Outcome.COMPLETED
    mode: str | None = None
    reasons: tuple[Reason, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    usage: Usage | None = None
    error: TurnError | None = None
    continues: int | None = None
    model_requested: str | None = None
    model_served: str | None = None
    routing: tuple[Reason, ...] = ()
    """Why this agent got the turn; for a primary turn the same as `reasons`."""
    copied_from: str | None = None
    """The session in which the turn was taken, where this is the copy in a fork: what it used was used there."""

    @property
    def answer(self) -> str:
        """The text of the answer: what was said after the last tool call, or all text if nothing was."""
        return answer_of(self.steps)


def answer_of(steps: Sequence[Part]) -> str:
    """The text after the last tool step; all text of the turn where nothing follows it."""
    closing: list[str] = []
    for step in reversed(steps):
        if isinstance(step, Text):
            closing.append(step.text)
        elif isinstance(step, (ToolCall, ToolResult)):
            break
    answer = closing[0] if len(closing) == 1 else "".join(reversed(closing))
    if answer.strip():
        return answer
    return "\n\n".join(step.text for step in steps if isinstance(step, Text) and step.text.strip())


NeedSource = Literal["tag", "tool", "user", "self-escalation"]


@dataclass(frozen=True, slots=True)
class Need:
    """What the user is trying to do now."""

    text: str
    turn_index: int
    """The turn it was set in or, set between turns, the next turn."""
    during: bool
    """Whether a turn set it itself."""
    updated_at: datetime | None
    """`None` is unknown, and never expires."""
    source: NeedSource


@dataclass(frozen=True, slots=True)
class LastNeed:
    """A need that was cleared, kept for seven days so that it can be restored."""

    need: Need
    reason: Literal["fulfilled", "expired", "cleared"]
    cleared_at: datetime


@dataclass(frozen=True, slots=True)
class Brief:
    """Why the turn was handed over. It stays until an escalation turn that carried it ends without a question."""

    text: str
    source: Literal["user", "primary", "prompt"]
    carried: bool = False
    """Whether an escalation turn that was completed has told it; one that ended without a question cleared it."""


@dataclass(frozen=True, slots=True)
class ExternalSession:
    """The conversation that an agent keeps on its own side; at most one per agent and workspace."""

    agent: str
    id: str
    workspace: str
    config_dir: str | None = None
    turn_index: int | None = None
    """The last completed turn that ran in it."""
    model: str | None = None
    system_text: str = ""
    """The bytes of its system prompt file, the same for its whole life (page 2)."""
    delivered: Mapping[str, Any] = field(default_factory=dict)
    """What it has been told: digests by name, percept ids."""


@dataclass(frozen=True, slots=True)
class Session:
    """Everything about a session but its turns."""

    id: str
    workspace: str
    """The directory it belongs to, as the user spelt it."""
    nonce: str
    """Marks this session's tags (page 2)."""
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    state: State = State.ROUTING
    need: Need | None = None
    last_need: LastNeed | None = None
    brief: Brief | None = None
    external_sessions: tuple[ExternalSession, ...] = ()


class TurnLog(Protocol):
    """The turns of one session, read without loading them all."""

    @property
    def next_index(self) -> int:
        """The index that the next turn will have."""

    def get(self, index: int) -> Turn | None:
        """The turn at that index, or `None`."""

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        """Turns with `start <= index < stop`, newest first, read as they are asked for; `None` means any."""

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        """How many turns `newest_first` would give."""


class TurnList:
    """A turn log over turns in memory (an imported document, a test). Indexes ascend and may have gaps."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = tuple(turns)
        self._by_index = {turn.index: turn for turn in self._turns}

    @property
    def next_index(self) -> int:
        return self._turns[-1].index + 1 if self._turns else 0

    def get(self, index: int) -> Turn | None:
        return self._by_index.get(index)

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        for turn in reversed(self._turns):
            if turn.index < start:
                return
            if (stop is None or turn.index < stop) and (role is None or turn.role is role) and (outcomes is None or turn.outcome in outcomes):
                yield turn

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        return sum(1 for _ in self.newest_first(role=role, outcomes=outcomes, start=start, stop=stop))


class EarlierTurns:
    """A log as it stood before the turn with that index was opened: what a turn that runs again is planned from."""

    def __init__(self, log: TurnLog, index: int) -> None:
        self._log, self.next_index = log, index

    def get(self, index: int) -> Turn | None:
        return self._log.get(index) if index < self.next_index else None

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        return self._log.newest_first(role=role, outcomes=outcomes, start=start, stop=self._stop(stop))

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        return self._log.count(role=role, outcomes=outcomes, start=start, stop=self._stop(stop))

    def _stop(self, stop: int | None) -> int:
        return self.next_index if stop is None else min(stop, self.next_index)


class OneMore:
    """A log with one more turn at its end: what is planned from a turn that is not taken."""

    def __init__(self, log: TurnLog, turn: Turn) -> None:
        self._log, self._turn, self.next_index = log, TurnList([turn]), turn.index + 1

    def get(self, index: int) -> Turn | None:
        return self._turn.get(index) or self._log.get(index)

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        yield from self._turn.newest_first(role=role, outcomes=outcomes, start=start, stop=stop)
        yield from self._log.newest_first(role=role, outcomes=outcomes, start=start, stop=stop)

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        more = self._turn.count(role=role, outcomes=outcomes, start=start, stop=stop)
        return more + self._log.count(role=role, outcomes=outcomes, start=start, stop=stop)


# -- the facts of page 1: pure, and public for plugins -------------------------------------------


def last_escalation_turn(log: TurnLog) -> Turn | None:
    """The newest completed escalation turn."""
    return next(log.newest_first(role=Role.ESCALATION), None)


def escalation_ever_active(log: TurnLog) -> bool:
    """Whether any escalation turn was completed, whatever ids a provider keeps."""
    return last_escalation_turn(log) is not None


def last_escalation_boundary(log: TurnLog) -> int:
    """The index after the last completed escalation turn; 0 when there is none."""
    last = last_escalation_turn(log)
    return 0 if last is None else last.index + 1


def primary_turns_since_escalation(log: TurnLog) -> int:
    """Completed primary turns at or after the boundary; 0 when never escalated."""
    last = last_escalation_turn(log)
    return 0 if last is None else log.count(role=Role.PRIMARY, start=last.index + 1)


def need_changed_since_escalation(need: Need | None, log: TurnLog) -> bool:
    """Whether the need was set after the last completed escalation turn."""
    last = last_escalation_turn(log)
    return need is not None and last is not None and need.turn_index > last.index


def escalation_most_recent(log: TurnLog) -> bool:
    """Whether the last completed turn is an escalation turn."""
    newest = next(log.newest_first(), None)
    return newest is not None and newest.role is Role.ESCALATION


# -- the need's life (page 1) --------------------------------------------------------------------

NeedStatus = Literal["none", "set", "fulfilled", "expired"]


def need_status(need: Need | None, log: TurnLog, now: datetime, expiry_hours: float, *, waiting: bool = False) -> NeedStatus:
    """Whether the need still stands, in page 1's order: fulfilled, expired, kept.

    `expiry_hours` 0 is never. While `waiting`, nothing is fulfilled. A clock that stepped back expires nothing.
    """
    if need is None:
        return "none"
    last = last_escalation_turn(log)
    if last is not None and not waiting and (last.index > need.turn_index if need.during else last.index >= need.turn_index):
        return "fulfilled"
    if outlived(need.updated_at, expiry_hours, now):
        return "expired"
    return "set"


def need_label(need: Need, pending: int) -> Literal["current", "verify"]:
    """How the need is told to the turn with index `pending`: two turns later it wants verifying."""
    return "verify" if pending - need.turn_index >= 2 else "current"


def set_need(old: Need | None, text: str, *, turn_index: int, during: bool, now: datetime, source: NeedSource) -> Need:
    """The need after it was stated; the same text again only refreshes its time. Raises `ValueError` when empty."""
    text = text.strip()
    if not text:
        raise ValueError("a need cannot be empty")
    if old is not None and old.text.strip().casefold() == text.casefold():
        return Need(old.text, old.turn_index, old.during, now, old.source)
    return Need(text, turn_index, during, now, source)


# -- waiting (page 1) ----------------------------------------------------------------------------


def asking_turn(session: Session, log: TurnLog) -> Turn | None:
    """The turn whose question is open, where the session waits for a reply."""
    return last_escalation_turn(log) if session.state is State.WAITING else None


def waiting_lapsed(session: Session, log: TurnLog, now: datetime, expiry_hours: float) -> bool:
    """Whether nobody replied within the limit, counted from the end of the asking turn; an unknown time never lapses."""
    asked = asking_turn(session, log)
    return asked is not None and outlived(asked.ended_at, expiry_hours, now)


def used_tools(turn: Turn) -> bool:
    """Whether the turn called any tool."""
    return any(isinstance(step, ToolCall) for step in turn.steps)
