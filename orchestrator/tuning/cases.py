"""The values of a replay: one recorded turn as no variant changes it, and what it would have sent under one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.history.ratio import Ratio
from orchestrator.modes import Decision, Mode
from orchestrator.providers import WireProfile
from orchestrator.receipts import NeedReport, Receipt
from orchestrator.routing import Route
from orchestrator.session import NeedStatus, Role, Turn


@dataclass(frozen=True, slots=True)
class Reader:
    """What has to be known of an agent beside its receipts: the format it is sent, and its model's window."""

    profile: WireProfile = "openai"
    window: int | None = None
    wide_tokens: int = 0
    """By how much the letters of its prompt weigh more than as many ASCII ones: all other static text is ours."""


UNKNOWN_READER = Reader()


class Chosen(NamedTuple):
    """Who would have had a turn, in which mode, and by which rules."""

    role: Role
    agent: str
    mode: Mode | None
    rules: tuple[str, ...]


class Sent(NamedTuple):
    """What one turn would have sent in its first call. Tokens are estimates, corrected by what the provider counted before."""

    chosen: Chosen
    nothing: bool = False
    """A rule handed the turn over before its agent was called."""
    estimate: int = 0
    """All that is sent, as the plan estimates it."""
    static: int = 0
    """Static text and tools that no cache holds."""
    orientation: int = 0
    percepts: int = 0
    prompt: int = 0
    history: int = 0
    cached: int = 0
    """What is read from a cache: static text that is sent again, and what the agent's own conversation holds."""
    output: int = 0
    turns_left_out: int = 0
    results_shortened: int = 0
    rounds_left_out: int = 0
    percepts_left_out: int = 0
    refused: int = 0
    """1 where what is never dropped is larger than the budget."""
    beyond: int = 0
    """1 where the limit would have let through what was not recorded."""
    key: tuple[object, ...] = ()
    """What is sent: alike where the same is."""


@dataclass(frozen=True, eq=False, slots=True)
class Conversation:
    """What an agent keeps on its own side, as it would stand under one variant."""

    role: Role
    began: int
    last: int
    system_chars: int
    system_tokens: int
    activity: str
    prior: str
    told: tuple[str, ...]
    held: int = 0
    """Tokens of its messages and answers until now."""

    def is_like(self, other: Conversation) -> bool:
        """Whether it holds what the other one does, so that they go on alike."""
        if (self.began, self.last, self.system_chars, self.system_tokens, self.held) != (
            other.began,
            other.last,
            other.system_chars,
            other.system_tokens,
            other.held,
        ):
            return False
        return (self.role, self.told, self.activity, self.prior) == (other.role, other.told, other.activity, other.prior)


class ToldNeed(NamedTuple):
    """The need as a turn is told of it."""

    status: NeedStatus
    text: str = ""
    label: str | None = None
    turn_index: int | None = None


@dataclass(slots=True)
class Case:
    """One turn, with what no variant changes."""

    turn: Turn
    receipt: Receipt
    way: Route
    reader: Reader
    keeps: bool
    """Whether the agent has a conversation of its own."""
    need: ToldNeed
    last_need: NeedReport | None
    """The need that stood last, before this turn."""
    prompt: str
    prompt_tokens: int
    output: int
    """Tokens of what the agent said."""
    ratio: Ratio
    boundary: int
    brief: str | None
    brief_given: bool
    asking: Turn | None
    repeats_static: bool
    chosen: tuple[str, ...]
    """The facts that were chosen for it, by the beginnings of their ids, best first."""
    static_chars: int
    """Static text of the agent's own conversation."""
    steps_tokens: int = 0
    """What its own conversation holds of the turn beside the prompt: what was said, called and given."""
    static_tokens: int | None = None
    """Of static text and tools, for an agent without a conversation of its own; made where it is first asked for."""
    memo: dict[tuple[object, ...], tuple[Sent, Conversation | None]] = field(default_factory=dict)
    whole: dict[tuple[object, ...], tuple[tuple[int, int], tuple[Sent, Conversation | None]]] = field(default_factory=dict)
    """What is sent where nothing is cut short, with the least budget and the least limit of digests under which nothing is."""
    decisions: dict[tuple[object, ...], Decision | None] = field(default_factory=dict)
    texts: dict[tuple[object, ...], str] = field(default_factory=dict)
    """Orientations."""
