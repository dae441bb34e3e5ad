"""Facts that only repeat what a tool gave (a web page, a file): nobody vouches for those (page 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.messages import Part, ToolResult
from orchestrator.session import TurnLog
from orchestrator.words import contains

_REACH = 2_000_000
"""Characters of tool results, and of prompts, that are looked through, the newest first: more than any history that is sent has."""


def only_repeats_a_tool(content: str, prompt: str, steps: Sequence[Part], log: TurnLog) -> bool:
    """Whether the fact's words stand in what a tool gave, and in no prompt of the user's.

    Looked at are the turn itself (`prompt`, `steps`) and those before it in `log`, of which its agent may have been sent any: the one
    that was handed over, the history, and what its own conversation has.
    """
    return any(contains(given, content) for given in _within_reach(_given(steps, log))) and not any(
        contains(said, content) for said in _within_reach(_said(prompt, log))
    )


def _given(steps: Sequence[Part], log: TurnLog) -> Iterator[str]:
    yield from (step.content for step in reversed(steps) if isinstance(step, ToolResult))
    for turn in log.newest_first(outcomes=None):
        yield from (step.content for step in reversed(turn.steps) if isinstance(step, ToolResult))


def _said(prompt: str, log: TurnLog) -> Iterator[str]:
    yield prompt
    yield from (turn.prompt for turn in log.newest_first(outcomes=None) if turn.prompt is not None)


def _within_reach(texts: Iterator[str]) -> Iterator[str]:
    left = _REACH
    for text in texts:
        if left <= 0:
            return
        yield text[:left]
        left -= len(text)
