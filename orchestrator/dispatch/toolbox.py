"""Running the tools that an agent calls: one after the other or side by side, until they are done or the turn is over."""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from orchestrator.deadline import Deadline
from orchestrator.dispatch.desk import Answered, Desk, Shown
from orchestrator.dispatch.repeats import ENDED_AT, Repeats
from orchestrator.errors import TimedOut, foreign
from orchestrator.messages import ToolCall, ToolResult, well_formed
from orchestrator.providers import Cancel, Request
from orchestrator.settings.limits import Limits
from orchestrator.tags import neutralise
from orchestrator.tools import Tool, ToolContext, ToolFailed

SIDE_BY_SIDE = 8
"""How many calls run at once at most."""
LEAVE_AFTER = 2.0
"""Seconds that a tool has to end once the turn is over; one that then still runs is left to itself."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a call gave back."""

    text: str
    is_error: bool = False
    notice: str | None = None
    """What the user should know of it."""


class ToolBox:
    """The tools that a turn's request offers, and what they are run with."""

    def __init__(self, tools: Iterable[Tool], request: Request, limits: Limits, answered: Answered, desk: Desk, deadline: Deadline) -> None:
        offered = {schema.name for schema in request.tools}
        self._tools = {tool.schema.name: tool for tool in tools if tool.schema.name in offered}
        self._request, self._most, self._answered, self._desk, self._deadline = request, limits.tool_result_max_chars, answered, desk, deadline
        self._repeats = Repeats()
        self.circles: str | None = None
        """A notice, once the agent goes round in circles."""

    def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Run the calls of one answer, and keep their results as they are, in the order of the calls; what comes back is made harmless, to be sent.

        Raises `Cancelled`, and `TimedOut` when the time of the turn is up; what had ended by then is kept.
        """
        results = tuple(result for group in self._groups(calls) for result in self._run(group))
        if self._repeats.goes_in_circles():
            names = ", ".join(dict.fromkeys(call.name for call in calls))
            self.circles = f"stopped: {names} was called {ENDED_AT} times in a row with the same arguments and gave the same result each time"
        return results

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[Sequence[ToolCall]]:
        """Neighbours that may run side by side together, every other call by itself."""
        for parallel, group in groupby(calls, self._is_parallel):
            together = list(group)
            size = SIDE_BY_SIDE if parallel else 1
            yield from (together[start : start + size] for start in range(0, len(together), size))

    def _is_parallel(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.parallel

    def _run(self, calls: Sequence[ToolCall]) -> Iterator[ToolResult]:
        self._desk.cancel.raise_if_set()
        stop = Cancel()
        forget = self._desk.cancel.on_cancel(lambda: stop.set(self._desk.cancel.reason))
        try:
            outcomes = self._outcomes(calls, stop)
        finally:
            forget()
        yield from [self._kept(call, outcome) for position, call in enumerate(calls) if (outcome := outcomes.get(position)) is not None]
        self._desk.cancel.raise_if_set()
        if stop.is_set() and self._is_late():
            raise TimedOut(stop.reason, which="turn", agent=self._request.agent, hint="allow more with --timeout, or raise turn_timeout")
        stop.raise_if_set()

    def _is_late(self) -> bool:
        left = self._deadline.left()
        return left is not None and left <= 0

    def _outcomes(self, calls: Sequence[ToolCall], stop: Cancel) -> dict[int, _Outcome | None]:
        """What came of each call, by its place, as far as they ended in time; `None` for one that the end of the turn cut short.

        Each has a thread: one that hangs cannot hold up the turn.
        """
        ended: queue.SimpleQueue[tuple[int, _Outcome | None] | None] = queue.SimpleQueue()
        request, bench, ask = self._request, self._desk.bench, self._desk.ask
        context = ToolContext(
            request.workspace,
            request.session,
            request.agent,
            ask,
            stop,
            permit=bench.permit(ask),
            environ=bench.environ,
            off_limits=bench.off_limits,
            result_chars=self._most,
        )

        def work(position: int, call: ToolCall) -> None:
            ended.put((position, self._outcome(call, context)))

        for position, call in enumerate(calls):
            threading.Thread(target=work, args=(position, call), name=f"tool {call.name}", daemon=True).start()
        stop.on_cancel(lambda: ended.put(None))
        outcomes: dict[int, _Outcome | None] = {}
        leave_at: float | None = None
        while len(outcomes) < len(calls):
            left = self._deadline.left() if leave_at is None else leave_at - self._desk.clock.monotonic()
            try:
                item = ended.get(timeout=None if left is None else max(left, 0.01))
            except queue.Empty:
                if leave_at is not None:
                    break
                if self._is_late():
                    stop.set("the time of the whole turn is used up (turn_timeout)")
                continue
            if item is not None:
                outcomes[item[0]] = item[1]
            if stop.is_set() and leave_at is None:
                leave_at = self._desk.clock.monotonic() + LEAVE_AFTER
        return outcomes

    def _outcome(self, call: ToolCall, context: ToolContext) -> _Outcome | None:
        """In the call's own thread. `None` where it failed since the turn is over."""
        tool = self._tools.get(call.name)
        if tool is None:
            return _Outcome(f"there is no tool {call.name!r}; there are: {', '.join(self._tools) or 'none'}", is_error=True)
        try:
            text = tool.run(copy.deepcopy(call.arguments), replace(context, call=call.id))
        except ToolFailed as error:
            return None if context.cancel.is_set() else _Outcome(str(error), is_error=True)
        except BaseException as error:  # a tool may be code of strangers, which may raise anything; what the user presses reaches no thread but the first
            return None if context.cancel.is_set() else _broken(call.name, f"broke: {foreign(error)}")
        return _Outcome(text) if isinstance(text, str) else _broken(call.name, f"gave {type(text).__name__} instead of a text")

    def _kept(self, call: ToolCall, outcome: _Outcome) -> ToolResult:
        if outcome.notice is not None:
            self._desk.notice(self._answered, outcome.notice)
        text = well_formed(outcome.text)
        remark = self._repeats.remark(call, text, outcome.is_error)
        room = None if self._most is None else max(1, self._most - len(remark))
        if room is not None and len(text) > room:
            self._desk.whole(call, text)
        result = ToolResult(call.id, shortened(text, room) + remark, is_error=outcome.is_error)
        self._answered.steps.append(result)
        self._desk.record(result)
        self._desk.watch(Shown("tool_result", result.content, {"id": result.id, "is_error": result.is_error}))
        return replace(result, content=neutralise(result.content))


def _broken(name: str, how: str) -> _Outcome:
    notice = f"the tool {name} {how}"
    return _Outcome(f"{notice}; calling it again will hardly help", is_error=True, notice=notice)


def shortened(text: str, limit: int | None) -> str:
    """At most `limit` characters of a tool's result: head and tail, with the cut marked between them."""
    if limit is None or len(text) <= limit:
        return text
    mark = f"\n… {len(text) - limit} characters cut …\n"
    room = max(0, limit - len(mark))
    return text[: room - room // 3] + mark + text[len(text) - room // 3 :] if room else text[:limit]
