"""Facts that only repeat what a tool gave (a web page, a file): nobody vouches for those (page 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from orchestrator.messages import Part, ToolResult
from orchestrator.session import TurnLog
from orchestrator.words import contains

_TURNS, _CHARACTERS = 1000, 2_000_000
"""How many turns are looked through, the newest first, and how much of what tools gave and users said in them: no history that is sent has more."""


@dataclass(slots=True)
class Spoken:
    """What tools gave, and what the user said, in a turn and in those before it."""

    by_tools: list[str] = field(default_factory=list)
    by_user: list[str] = field(default_factory=list)

    def is_only_from_a_tool(self, content: str) -> bool:
        """Whether the fact's words stand in what a tool gave, and in no prompt of the user's."""
        return any(contains(given, content) for given in self.by_tools) and not any(contains(said, content) for said in self.by_user)


def spoken_until(prompt: str, steps: Sequence[Part], log: TurnLog) -> Spoken:
    """Of the turn itself (`prompt`, `steps`) and of those before it in `log`.

    Its agent may have been sent any of those: the one that was handed over, the history, and what its own conversation has.
    """
    spoken = Spoken(by_user=[prompt])
    left = _taken(spoken, steps, _CHARACTERS)
    for turn in islice(log.newest_first(outcomes=None), _TURNS):
        if left <= 0:
            break
        if turn.prompt is not None:
            spoken.by_user.append(turn.prompt)
            left -= len(turn.prompt)
        left = _taken(spoken, turn.steps, left)
    return spoken


def _taken(spoken: Spoken, steps: Sequence[Part], left: int) -> int:
    """The room that is left once the results of these steps are taken, the newest first."""
    for step in reversed(steps):
        if isinstance(step, ToolResult) and left > 0:
            spoken.by_tools.append(step.content[:left])
            left -= len(step.content)
    return left
