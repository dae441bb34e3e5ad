"""Digests: what others did in the session, told briefly, verified work apart from claims (page 1)."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from orchestrator.attachments import referenced
from orchestrator.messages import Part, ToolCall, ToolResult
from orchestrator.quoting import clipped, plain
from orchestrator.session import Outcome, Role, Turn, TurnLog, used_tools
from orchestrator.tags import neutralise, strip_tags
from orchestrator.tools import LOOKS_AT_NOTHING

MAX_TOOL_RESULT = 500
MAX_SENT_LINE = 200
"""Characters of the line for a turn that the agent gets as messages, too (page 2)."""

_MAX_ARGUMENTS = 160
_MAX_NAME = 40
_SUBSTANCE = 200
"""Characters of answer from which a run of escalation turns stands for itself (page 1)."""
_EARLIER_RUNS = 50
"""How many thin runs are looked through for one with substance, so that a long session costs no more than a short one."""
_TOO_LITTLE = 80
"""With less room than this, no further turn is begun."""

Sent = Callable[[int], bool]
"""Whether the turn with that index is sent as messages."""


def digest_limits(context_budget_chars: int | None, message_budget: int | None) -> int | None:
    """The size of each of the two digests: within `context_budget_chars`, together at most a quarter of the message budget.

    `None` is unlimited, for the message budget 0 as well (page 3).
    """
    share = message_budget // 8 if message_budget else None
    limits = [limit for limit in (context_budget_chars, share) if limit is not None]
    return min(limits, default=None)


def primary_activity(log: TurnLog, *, boundary: int, nonce: str, limit: int | None, sent: Sent) -> str:
    """What happened at or after the boundary, while the escalation agent was away: primary turns, and attempts of any agent that failed."""
    return digest(activity_turns(log, boundary), Teller(log, nonce, sent).entry, limit)


def prior_escalation(log: TurnLog, *, nonce: str, limit: int | None, sent: Sent) -> str:
    """The newest run of consecutive escalation turns, and an earlier one with more in it where that one is thin."""
    return digest(prior_turns(log), Teller(log, nonce, sent).entry, limit)


def escalation_since(log: TurnLog, *, start: int, nonce: str, limit: int | None, sent: Sent) -> str:
    """Every completed escalation turn from `start` on: what a primary that remembers its own turns has missed (page 2)."""
    return digest(log.newest_first(role=Role.ESCALATION, start=start), Teller(log, nonce, sent).entry, limit)


def activity_turns(log: TurnLog, boundary: int) -> Iterator[Turn]:
    """What `primary_activity` tells of, newest first."""
    return (turn for turn in log.newest_first(outcomes=None, start=boundary) if turn.outcome is not Outcome.OPEN and not _is_escalation(turn))


def digest(turns: Iterable[Turn], entry: Callable[[Turn, int], str], limit: int | None) -> str:
    """Newest first until the room is used up, then in order. Reads no turn that will not be told."""
    room = sys.maxsize if limit is None else limit
    told: list[str] = []
    if room <= 0:
        return ""
    for turn in turns:
        text = clipped(entry(turn, room), room)
        told.append(text)
        room -= len(text) + 1
        if room < _TOO_LITTLE:
            break
    return "\n".join(reversed(told))


def _is_escalation(turn: Turn) -> bool:
    return turn.role is Role.ESCALATION and turn.outcome is Outcome.COMPLETED


# -- which escalation turns ----------------------------------------------------------------------


def prior_turns(log: TurnLog) -> Iterator[Turn]:
    """What `prior_escalation` tells of, newest first."""
    oldest, substance = None, 0
    for turn in _run(log, None):
        yield turn
        oldest = turn.index
        substance += _substance(turn)
    if oldest is not None and substance < _SUBSTANCE:
        yield from _earlier_run(log, oldest)


def _earlier_run(log: TurnLog, stop: int) -> Iterator[Turn]:
    for _ in range(_EARLIER_RUNS):
        passed, substance = [], 0
        run = _run(log, stop)
        for turn in run:
            passed.append(turn)
            substance += _substance(turn)
            if substance >= _SUBSTANCE:
                yield from passed
                yield from run
                return
        if not passed:
            return
        stop = passed[-1].index


def _run(log: TurnLog, stop: int | None) -> Iterator[Turn]:
    """The newest run of escalation turns before `stop`, newest first; a completed primary turn ends it."""
    newest = next(iter(log.newest_first(role=Role.ESCALATION, stop=stop)), None)
    if newest is None:
        return
    for turn in log.newest_first(stop=newest.index + 1):
        if turn.role is not Role.ESCALATION:
            return
        yield turn


def _substance(turn: Turn) -> int:
    return _SUBSTANCE if used_tools(turn) else len(turn.answer.strip())


# -- how one turn is told ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Teller:
    """Turns into text. Every line of foreign text is indented, so that none can pose as the heading of a turn."""

    log: TurnLog
    nonce: str
    sent: Sent

    def entry(self, turn: Turn, room: int) -> str:
        """The turn with what it continues; one that is larger than `room` is shortened towards it, the closing text least."""
        before = None if turn.continues is None else self.log.get(turn.continues)
        prompt = referenced((turn if before is None else before).prompt or "")
        if turn.outcome not in (Outcome.COMPLETED, Outcome.ESCALATED):
            return self._attempt(turn, prompt)
        if self.sent(turn.index):
            return self._sent_line(turn, prompt)
        whole = self._whole(turn, before, prompt, room, room)
        return whole if len(whole) <= room else self.shortened(turn, room)

    def shortened(self, turn: Turn, room: int) -> str:
        """A completed turn that is larger than `room`, shortened towards it."""
        before = None if turn.continues is None else self.log.get(turn.continues)
        prompt = referenced((turn if before is None else before).prompt or "")
        return self._whole(turn, before, prompt, max(room // 4, MAX_SENT_LINE), room)

    def _whole(self, turn: Turn, before: Turn | None, prompt: str, opening: int, room: int) -> str:
        """`opening` is the most that the prompt may take, and what was done before the turn was handed over."""
        lines = [_heading(turn), *self._text("Asked", prompt, opening, "  ")]
        if before is not None:
            work = self._work(before, opening, "    ")
            lines += [f"  Before it, {_who(before)} had this turn and handed it over{':' if work else '.'}", *work]
        lines += self._work(turn, _rest(room, lines), "  ")
        return "\n".join(lines)

    def _work(self, turn: Turn, room: int, indent: str) -> list[str]:
        lines = self._tools(turn, indent) if used_tools(turn) else []
        label = "Claimed, not verified" if turn.role is Role.PRIMARY else "Answered"
        return lines + self._text(label, turn.answer, _rest(room, lines), indent)

    def _tools(self, turn: Turn, indent: str) -> list[str]:
        """Calls with their results, runs of the same tool collapsed; what gave something apart from what failed or gave nothing.

        The session's own tools look at nothing: their output repeats what the agent said, and verifies none of it.
        """
        calls = [(call, result) for call, result in _answered(turn.steps) if call.name not in LOOKS_AT_NOTHING]
        verified: list[str] = []
        failed: list[str] = []
        for (name, bad), group in groupby(calls, lambda pair: (pair[0].name, pair[1] is None or pair[1].is_error)):
            (call, result), *more = group
            lines = failed if bad else verified
            lines.append(f"{indent}  " + self._call(call, result).replace("\n", f"\n{indent}    "))
            if more:
                lines.append(f"{indent}  … {len(more)} more {self._short(name, _MAX_NAME)} call{'s' if len(more) > 1 else ''}")
        heads = (f"{indent}Verified (tool output seen):", f"{indent}Tried and failed:")
        return [line for head, lines in zip(heads, (verified, failed), strict=True) if lines for line in (head, *lines)]

    def _call(self, call: ToolCall, result: ToolResult | None) -> str:
        outcome = "no result" if result is None else self._clean(result.content, MAX_TOOL_RESULT) or "nothing"
        return f"{self._short(call.name, _MAX_NAME)}({self._short(_arguments(call.arguments), _MAX_ARGUMENTS)}) -> {outcome}"

    def _text(self, label: str, text: str, room: int, indent: str) -> list[str]:
        cleaned = self._clean(text, room)
        return [f"{indent}{label}: " + cleaned.replace("\n", f"\n{indent}  ")] if cleaned else []

    def _attempt(self, turn: Turn, prompt: str) -> str:
        error = "" if turn.error is None else f": {turn.error.type}: {turn.error.message}"
        return f'{_heading(turn)} attempted "{self._short(prompt, 120)}", {turn.outcome.value}{self._short(error, MAX_SENT_LINE)}'

    def _sent_line(self, turn: Turn, prompt: str) -> str:
        heading = _heading(turn)
        room = MAX_SENT_LINE - len(f'{heading} asked "", said ""')
        asked = self._short(prompt, room // 2)
        said = self._short(turn.answer, room - len(asked))
        return f'{heading} asked "{asked}", said "{said}"'

    def _short(self, text: str, limit: int) -> str:
        """The head of a text, on one line."""
        line = " ".join(self._clean(text[: 4 * limit], 4 * limit).split())
        return line if len(line) <= limit else line[: limit - 1] + "…"

    def _clean(self, text: str, limit: int) -> str:
        """Without terminal escapes and tags, at most `limit` characters; a huge text is cut before it is looked at."""
        if len(text) <= limit and text.isprintable() and neutralise(text) is text:  # the common case, quickly: nothing to take out
            return text.strip()
        return clipped(neutralise(strip_tags(plain(clipped(text, 4 * limit)), self.nonce)).strip(), limit)


def _answered(steps: Sequence[Part]) -> list[tuple[ToolCall, ToolResult | None]]:
    """Each call with its result, paired as the messages are (page 3): where an id repeats, a result goes to the latest
    run of calls that waits for one, there in the order of the calls.
    """
    pairs: list[tuple[ToolCall, ToolResult | None]] = []
    waiting: dict[str, list[deque[int]]] = {}
    run: dict[str, deque[int]] = {}
    for step in steps:
        if isinstance(step, ToolCall):
            if step.id not in run:
                waiting.setdefault(step.id, []).append(run.setdefault(step.id, deque()))
            run[step.id].append(len(pairs))
            pairs.append((step, None))
        elif isinstance(step, ToolResult):
            run = {}
            if queues := waiting.get(step.id):
                place = queues[-1].popleft()
                pairs[place] = (pairs[place][0], step)
                if not queues[-1]:
                    queues.pop()
    return pairs


def _rest(room: int, lines: Sequence[str]) -> int:
    """What the lines leave of the room, at least half of it: what comes after them shall not vanish."""
    return max(room - sum(map(len, lines)), room // 2)


def _heading(turn: Turn) -> str:
    return f"Turn {turn.index}, {_who(turn)}" + (", handed over:" if turn.outcome is Outcome.ESCALATED else ":")


def _who(turn: Turn) -> str:
    name = turn.agent if turn.agent.isprintable() else " ".join(plain(turn.agent).split())
    return f"{neutralise(name[:_MAX_NAME])} ({turn.role.value})"


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_argument(value)}" for name, value in arguments.items())


def _argument(value: object) -> str:
    if isinstance(value, str):
        value = value[:_MAX_ARGUMENTS]
    return json.dumps(value, ensure_ascii=False, default=str)
