"""One turn against one provider: calls, tools and tags until the agent has answered or handed over."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import get_args

from orchestrator.clock import Clock
from orchestrator.dispatch.heard import Heard, session_tools
from orchestrator.dispatch.retry import with_retries
from orchestrator.errors import EmptyAnswer, Incomplete, ProviderError
from orchestrator.history.normalise import normalise
from orchestrator.messages import CostSource, Message, Part, Text, ToolCall, ToolResult, Usage, well_formed
from orchestrator.providers import (
    Ask,
    Cancel,
    Event,
    ExternalSessionStarted,
    Finished,
    MessageDone,
    Notice,
    Provider,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolResultSeen,
    UsageReport,
    WireProfile,
    Withdrawn,
)
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.tags import TagFilter
from orchestrator.tools import Tool, ToolFailed


@dataclass(frozen=True, slots=True)
class Shown:
    """Something for the one who watches the turn (page 6, `--stream-json`)."""

    type: str
    text: str = ""
    data: dict[str, object] = field(default_factory=dict)


Watch = Callable[[Shown], None]
Record = Callable[[Part], None]


@dataclass(slots=True)
class Answered:
    """What a turn came to, as far as it went; kept whatever ends it."""

    steps: list[Part] = field(default_factory=list)
    usage: Usage | None = None
    external_session: str | None = None
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


def run_turn(provider: Provider, request: Request, *, limits: Limits, role: Role, nonce: str, heard: Heard, answered: Answered, desk: Desk) -> None:
    """Call the provider, run the tools it asks for, call again; fills `answered` and `heard` as it goes.

    Raises from the error tree when the turn fails; `answered` then holds what was done until there.
    """
    tools = {tool.schema.name: tool for tool in session_tools(heard, role)} if provider.capabilities.takes_tools else {}
    rounds = 0
    while True:
        call = _Call(role, nonce, heard, desk, answered)
        with_retries(
            lambda call=call, request=request: call.consume(provider, request),  # type: ignore[misc]  # defaults bind this round's values
            may_retry=call.nothing_emitted,
            attempts=limits.retry_attempts,
            max_wait=limits.retry_max_wait,
            clock=desk.clock,
            cancel=desk.cancel,
            jitter=desk.jitter,
            announce=lambda error, wait, attempt: _announce(desk, error, wait, attempt),
        )
        requests = [part for part in call.parts if isinstance(part, ToolCall)]
        if not requests or provider.capabilities.keeps_conversation:
            break
        results = tuple(_run_tool(tools, request_, limits, desk) for request_ in requests)
        for result in results:
            answered.steps.append(result)
            desk.record(result)
        rounds += 1
        if heard.handed_over is not None:
            return
        if limits.max_tool_iterations is not None and rounds >= limits.max_tool_iterations:
            answered.notice(f"stopped after {rounds} rounds of tool calls (max_tool_iterations)")
            return
        request = _continued(request, call.parts, results, provider.capabilities.profile)
    if heard.handed_over is None and not any(_says_something(step) for step in answered.steps):
        raise EmptyAnswer("the agent ended its turn without a word", hint="try again, or ask another agent")


class _Call:
    """One call of the provider: its events become steps, tags, and what is shown."""

    def __init__(self, role: Role, nonce: str, heard: Heard, desk: Desk, answered: Answered) -> None:
        self._role, self._nonce, self._heard, self._desk, self._answered = role, nonce, heard, desk, answered
        self.parts: list[Part] = []
        self._emitted = False
        self._display = TagFilter(nonce)
        self._shown: list[str] = []
        self._usage: Usage | None = None

    def nothing_emitted(self) -> bool:
        return not self._emitted

    def consume(self, provider: Provider, request: Request) -> None:
        self._desk.cancel.raise_if_set()
        self._answered.sends += 1
        finished: Finished | None = None
        events = provider.run(request, cancel=self._desk.cancel, ask=self._desk.ask)
        try:
            for event in events:
                finished = event if isinstance(event, Finished) else finished
                self._take(event)
        except ProviderError as error:
            error.agent = error.agent or request.agent
            self._end()
            raise
        finally:
            _close(events)
        self._end()
        if finished is None:
            self._desk.cancel.raise_if_set()
            raise Incomplete("the answer broke off before its end", agent=request.agent, partial=self._answered.unfinished, hint="try again")
        self._answered.model_served = finished.model_served or self._answered.model_served
        if finished.reason == "length":
            self._answered.notice("the answer was cut at the output limit")

    def _take(self, event: Event) -> None:
        desk, answered = self._desk, self._answered
        match event:
            case TextDelta(text):
                self._emitted = True
                self._show_text(self._display.feed(text)[0])
            case ReasoningDelta(text):
                self._emitted = True
                desk.watch(Shown("reasoning", text))
            case MessageDone(parts):
                self._emitted = True
                self._finish_message(parts)
            case ToolResultSeen(call, content, is_error):
                self._keep(ToolResult(call, well_formed(content), is_error))
            case UsageReport(usage):
                self._usage = usage
            case ExternalSessionStarted(session):
                answered.external_session = session
            case Notice(text):
                answered.notice(text)
                desk.watch(Shown("notice", text))
            case Withdrawn():
                self._display, self._shown = TagFilter(self._nonce), []
                desk.watch(Shown("withdrawn"))
            case Finished():
                pass

    def _finish_message(self, parts: Sequence[Part]) -> None:
        """Tags are acted on now that the message is final; what was not streamed is shown now."""
        self._show_text(self._display.finish()[0])
        streamed = bool(self._shown)
        self._display, self._shown = TagFilter(self._nonce), []
        for part in parts:
            if not isinstance(part, Text):
                self._keep(part)
                continue
            text = self._without_tags(well_formed(part.text))
            if not text.strip():
                continue
            if not streamed:
                self._desk.watch(Shown("text", text))
            self._keep(replace(part, text=text))

    def _without_tags(self, text: str) -> str:
        scan = TagFilter(self._nonce)
        visible, tags = scan.feed(text)
        rest, more = scan.finish()
        self._heard.take_in([*tags, *more], self._role)
        return visible + rest

    def _keep(self, step: Part) -> None:
        self.parts.append(step)
        self._answered.steps.append(step)
        self._desk.record(step)
        if isinstance(step, ToolCall):
            self._desk.watch(Shown("tool_call", data={"id": step.id, "name": step.name, "arguments": dict(step.arguments)}))
        elif isinstance(step, ToolResult):
            self._desk.watch(Shown("tool_result", step.content, {"id": step.id, "is_error": step.is_error}))

    def _show_text(self, text: str) -> None:
        if text:
            self._shown.append(text)
            self._desk.watch(Shown("text", text))

    def _end(self) -> None:
        """Whatever ended the call: usage counts once a call, and text that never became final is kept apart."""
        self._show_text(self._display.finish()[0])
        self._answered.unfinished, self._shown = "".join(self._shown), []
        if self._usage is not None:
            self._answered.usage = _added(self._answered.usage or Usage(), self._usage)
            self._usage = None


def _close(events: Iterator[Event]) -> None:
    """Whatever ends the call, also a store that takes no more steps: the provider lets go of its socket or child now."""
    close = getattr(events, "close", None)
    if close is not None:
        close()


def _run_tool(tools: dict[str, Tool], call: ToolCall, limits: Limits, desk: Desk) -> ToolResult:
    tool = tools.get(call.name)
    if tool is None:
        result = ToolResult(call.id, f"there is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}", is_error=True)
    else:
        try:
            result = ToolResult(call.id, shortened(well_formed(tool.run(call.arguments)), limits.tool_result_max_chars))
        except ToolFailed as error:
            result = ToolResult(call.id, str(error), is_error=True)
    desk.watch(Shown("tool_result", result.content, {"id": result.id, "is_error": result.is_error}))
    return result


def shortened(text: str, limit: int | None) -> str:
    """At most `limit` characters of a tool's result: head and tail, with the cut marked between them."""
    if limit is None or len(text) <= limit:
        return text
    mark = f"\n… {len(text) - limit} characters cut …\n"
    room = max(0, limit - len(mark))
    return text[: room - room // 3] + mark + text[len(text) - room // 3 :] if room else text[:limit]


def _continued(request: Request, parts: Sequence[Part], results: Sequence[ToolResult], profile: WireProfile) -> Request:
    messages = (*request.messages, Message("assistant", tuple(parts)), Message("user", tuple(results)))
    return replace(request, messages=normalise(messages, profile))


def _says_something(step: Part) -> bool:
    return isinstance(step, ToolCall | ToolResult) or (isinstance(step, Text) and bool(step.text.strip()))


def _announce(desk: Desk, error: ProviderError, wait: float, attempt: int) -> None:
    text = f"{error.message}; trying again in {wait:.1f} s (attempt {attempt})"
    desk.watch(Shown("retry", text, {"error": error.type, "wait": round(wait, 3), "attempt": attempt}))


def _added(before: Usage, now: Usage) -> Usage:
    """Usage over the calls of one turn; a figure that no call reported stays unknown."""
    sums = {}
    for name in (figure.name for figure in fields(Usage) if figure.name not in ("cost_source", "cache_in_input")):
        known = [value for value in (getattr(before, name), getattr(now, name)) if value is not None]
        sums[name] = sum(known) if known else None
    sources = [usage.cost_source or "reported" for usage in (before, now) if usage.cost_usd is not None]
    weakest = max(sources, key=get_args(CostSource).index, default=None)
    return Usage(**sums, cost_source=weakest, cache_in_input=now.cache_in_input)
