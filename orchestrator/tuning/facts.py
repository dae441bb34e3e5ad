"""The remembered facts of a recorded turn under other limits: those that were chosen then, as far as they are known still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.history.budget import PART_OVERHEAD, estimate_tokens, measure_text
from orchestrator.history.ratio import CHARS_PER_TOKEN
from orchestrator.memory.inject import within
from orchestrator.percepts import Percept
from orchestrator.settings.limits import Limits
from orchestrator.tuning.cases import Case, Conversation
from orchestrator.tuning.telling import Script


class Told(NamedTuple):
    """The facts that are told: who, and how much."""

    ids: tuple[str, ...] = ()
    block: int = 0
    """Characters of the block in the system text."""
    tool: int = 0
    """Characters of the block in front of the prompt."""
    chars: int = 0
    """What an agent without a conversation of its own is sent of them, as the budget counts it."""
    tokens: int = 0
    left_out: int = 0
    beyond: bool = False
    """The limit would have let through more, and which is not known."""


NONE = Told()


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts by the beginnings of their ids, and the texts around them."""

    known: Mapping[str, Percept]
    script: Script

    def choose(self, case: Case, limits: Limits, remembers: Conversation | None) -> Told:
        """What is told within the limits; to an agent that remembers, only what it was not told before."""
        report, then = case.receipt.report.percepts, case.receipt.limits
        if not case.chosen and not report.over:
            return NONE
        ids, left_out, beyond = case.chosen, report.over, False
        if (limits.percept_inject_max, limits.percept_inject_max_bytes) != (then.percept_inject_max, then.percept_inject_max_bytes):
            beyond = report.over > 0 and (
                _is_more(limits.percept_inject_max, then.percept_inject_max) or _is_more(limits.percept_inject_max_bytes, then.percept_inject_max_bytes)
            )
            ids = self._within(case, limits)
            left_out += len(case.chosen) - len(ids)
        if remembers is not None:
            ids = tuple(one for one in ids if one not in remembers.told)
        return self._sized(case, ids)._replace(left_out=left_out, beyond=beyond)

    def _within(self, case: Case, limits: Limits) -> tuple[str, ...]:
        if all(one in self.known for one in case.chosen):
            kept = within([self.known[one] for one in case.chosen], limits, []).sent
            return tuple(percept.id[:8] for percept in kept)
        most, room = limits.percept_inject_max, limits.percept_inject_max_bytes
        by_size = None if room is None else room // max(1, _share(case))
        return case.chosen[: min(len(case.chosen) if cap is None else cap for cap in (most, by_size))]

    def _sized(self, case: Case, ids: tuple[str, ...]) -> Told:
        if not ids:
            return Told()
        if all(one in self.known for one in ids) and case.receipt.report.percepts.count <= len(case.receipt.report.percepts.sent):
            block, tool = self.script.percepts([self.known[one] for one in ids])
            padded = block + " " * PART_OVERHEAD if block and not case.keeps else block
            return Told(ids, len(block), len(tool), measure_text(block) + len(tool), estimate_tokens(padded) + estimate_tokens(tool))
        size = _share(case) * len(ids)
        return Told(ids, size, 0, size, int(size / CHARS_PER_TOKEN))


def _share(case: Case) -> int:
    """Characters of each fact of the turn, on average."""
    report = case.receipt.report
    return report.budget.parts["percepts"] // max(1, report.percepts.count)


def _is_more(one: int | None, other: int | None) -> bool:
    return other is not None and (one is None or one > other)
