"""What one turn is run with, and what it has come to: effects from outside, and what is kept whatever ends it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.clock import Clock
from orchestrator.messages import Part, ToolCall, Usage
from orchestrator.providers import NO_WIRE, Ask, Cancel, Wire
from orchestrator.tools import Bench


@dataclass(frozen=True, slots=True)
class Shown:
    """Something for the one who watches the turn (page 6, `--stream-json`)."""

    type: str
    text: str = ""
    data: dict[str, object] = field(default_factory=dict)


Watch = Callable[[Shown], None]
Record = Callable[[Part], None]
Whole = Callable[[ToolCall, str], None]


def _nowhere(_call: ToolCall, _text: str) -> None:
    """Nobody keeps it."""


@dataclass(slots=True)
class Answered:
    """What a turn came to, as far as it went; kept whatever ends it."""

    steps: list[Part] = field(default_factory=list)
    usage: Usage | None = None
    counted: list[frozenset[str]] = field(default_factory=list)
    """Which figures each call reported."""
    external_session: str | None = None
    external_model: str | None = None
    """What that runs with, by the agent's own name for it."""
    model_served: str | None = None
    notices: list[str] = field(default_factory=list)
    unfinished: str = ""
    """Text of a message that never became final."""
    sends: int = 0
    """How often the provider was called."""

    def notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)


@dataclass(frozen=True, slots=True)
class Desk:
    """What a turn is run with: the effects, each given from outside."""

    clock: Clock
    jitter: random.Random
    cancel: Cancel
    ask: Ask
    watch: Watch
    record: Record
    """Called with each finished step, in order, before the next one begins."""
    new_id: Callable[[], str]
    wire: Wire = NO_WIRE
    bench: Bench = field(default_factory=Bench)
    """What tools work with."""
    whole: Whole = _nowhere
    """Called with all that a tool gave, before the step that has only head and tail of it."""

    def notice(self, answered: Answered, text: str) -> None:
        """Tell it at once, and keep it for the turn document."""
        answered.notice(text)
        self.watch(Shown("notice", text))
