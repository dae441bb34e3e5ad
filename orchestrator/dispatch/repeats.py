"""Noticing that an agent goes round in circles: the same call, over and over, with the same result."""

from __future__ import annotations

import json
from dataclasses import dataclass

from orchestrator.messages import ToolCall

TOLD_AT = 3
"""So many times in a row, and the agent is told so with the result."""
ENDED_AT = 5
"""So many times, and the loop ends."""


@dataclass(slots=True)
class _Seen:
    outcome: tuple[str, bool]
    times: int = 1


class Repeats:
    """Counts, over the rounds of one turn, each call that came in the round before as well and gave the same."""

    def __init__(self) -> None:
        self._before: dict[str, _Seen] = {}
        self._now: dict[str, _Seen] = {}

    def remark(self, call: ToolCall, text: str, is_error: bool) -> str:
        """What to tell the agent beside this result; mostly nothing."""
        key = f"{call.name} {json.dumps(call.arguments, sort_keys=True, default=str)}"
        seen, outcome = self._now.get(key) or self._before.get(key), (text, is_error)
        if seen is not None and seen.outcome == outcome:
            seen.times += 1
        else:
            seen = _Seen(outcome)
        self._now[key] = seen
        if seen.times < TOLD_AT:
            return ""
        return f"\n\n[This call was made {seen.times} times in a row and gave the same each time. Do something else, or answer with what you have.]"

    def goes_in_circles(self) -> bool:
        """Whether the round that is over now held nothing but calls that were repeated too often. Begins the next round."""
        stuck = bool(self._now) and all(seen.times >= ENDED_AT for seen in self._now.values())
        self._before, self._now = self._now, {}
        return stuck
