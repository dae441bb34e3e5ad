"""One turn against one provider: calls, tools and tags until the agent has answered or handed over."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import fields, replace
from typing import get_args

from orchestrator.deadline import Deadline
from orchestrator.dispatch.desk import Answered, Desk, Shown
from orchestrator.dispatch.events import is_event
from orchestrator.dispatch.heard import Heard, session_tools
from orchestrator.dispatch.requests import Requests
from orchestrator.dispatch.retry import with_retries
from orchestrator.dispatch.room import Room
from orchestrator.dispatch.toolbox import ToolBox
from orchestrator.errors import Blocked, Cancelled, EmptyAnswer, EscaleraError, Incomplete, ProtocolError, ProviderError, TimedOut, foreign
from orchestrator.history.budget import estimate_request_tokens, measure_request
from orchestrator.messages import CostSource, Message, Part, Text, ToolCall, ToolResult, Usage, well_formed, well_formed_values
from orchestrator.providers import (
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
    Withdrawn,
)
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.tags import TagFilter, strip_tags
from orchestrator.tools import Tool

CANCEL_GRACE = 6.0
"""Seconds that a provider has to end after a cancel (page 7); one that then still gives events is left."""


def run_turn(
    provider: Provider,
    request: Request,
    *,
    limits: Limits,
    role: Role,
    nonce: str,
    heard: Heard,
    answered: Answered,
    desk: Desk,
    room: Room | None = None,
    tools: Sequence[Tool] = (),
) -> None:
    """Call the provider, run the tools it asks for, call again, within `room`; fills `answered` and `heard` as it goes.

    `tools` are those that the request offers beside the session's own.
    Raises from the error tree when the turn fails; `answered` then holds what was done until there.
    """
    takes_tools = provider.capabilities.takes_tools and limits.max_tool_iterations != 0
    deadline = Deadline(desk.clock, limits.turn_timeout)
    desk = replace(desk, ask=deadline.asking(desk.ask))
    box = ToolBox((*session_tools(heard, hands_over=True), *tools) if takes_tools else (), request, limits, answered, desk, deadline)
    calls = Requests(request, limits, room, provider.capabilities)
    while True:
        attempts = _attempts(request, limits)
        call = _Call(role, nonce, heard, desk, answered, deadline)
        sending = _Sending(call, provider, request, calls, desk.new_id, limits)
        with_retries(
            sending.send,
            may_retry=call.nothing_emitted,
            attempts=attempts,
            max_wait=limits.retry_max_wait,
            until=deadline.at,
            clock=desk.clock,
            cancel=desk.cancel,
            jitter=desk.jitter,
            announce=lambda error, wait, attempt: _announce(desk, error, wait, attempt),
        )
        requests = [part for part in call.parts if isinstance(part, ToolCall)]
        if not requests or provider.capabilities.keeps_conversation:
            break
        results = box.run(requests)
        calls.batches.append((Message("assistant", tuple(call.parts)), Message("user", results)))
        if heard.handed_over is not None:
            return
        if limits.max_tool_iterations is not None and len(calls.batches) >= limits.max_tool_iterations:
            answered.notice(f"stopped after {len(calls.batches)} rounds of tool calls (max_tool_iterations)")
            return
        if box.circles is not None:
            desk.notice(answered, box.circles)
            return
        request = calls.next()
    if not heard.anything and not any(_says_something(step) for step in answered.steps):
        raise EmptyAnswer("the agent ended its turn without a word", agent=request.agent, hint="try again, or ask another agent")


class _Sending:
    """One call, sent again with another request where the refused one can be mended, and in another conversation where it began one."""

    def __init__(self, call: _Call, provider: Provider, request: Request, requests: Requests, new_id: Callable[[], str], limits: Limits) -> None:
        self._call, self._provider, self._request, self._requests, self._new_id = call, provider, request, requests, new_id
        self._left, self._longest_wait = limits.retry_attempts, limits.retry_max_wait
        self._mending: str | None = None
        self._sent = False

    def send(self) -> None:
        if self._mending is not None:
            self._call.notice(self._mending)
            self._mending = None
        self._begin_conversation()
        try:
            self._call.consume(self._provider, self._request)
        except ProviderError as error:
            self._left -= 1 + error.own_retries
            untouched = self._call.nothing_emitted() and not error.emitted
            mended = self._requests.mended(error, self._request) if untouched else None
            if mended is not None:
                (self._request, self._mending), error.repaired = mended, True
            raise

    def _begin_conversation(self) -> None:
        """An id that a failed attempt began with is taken: the agent refuses to begin with it once more (page 7)."""
        conversation = self._request.conversation
        if conversation is None:
            return
        if conversation.action == "start":
            if self._sent:
                conversation = replace(conversation, id=self._new_id())
            self._call.conversation_begins(conversation.id)
        self._request = replace(self._request, conversation=conversation, retries_left=max(0, self._left), longest_wait=self._longest_wait)
        self._sent = True


def _attempts(request: Request, limits: Limits) -> int:
    """How often a call may be repeated: in a conversation that an agent keeps, a failed attempt may have left its mark, so once at most (page 7)."""
    resumed = request.conversation is not None and request.conversation.action == "resume"
    return min(1, limits.retry_attempts) if resumed else limits.retry_attempts


class _Call:
    """One call of the provider: its events become steps, tags, and what is shown."""

    def __init__(self, role: Role, nonce: str, heard: Heard, desk: Desk, answered: Answered, deadline: Deadline) -> None:
        self._role, self._nonce, self._heard, self._desk, self._answered = role, nonce, heard, desk, answered
        self._deadline = deadline
        self._leave_at: float | None = None
        self.parts: list[Part] = []
        self._emitted = False
        self._display = TagFilter(nonce)
        self._shown: list[str] = []
        self._usage: Usage | None = None

    def nothing_emitted(self) -> bool:
        return not self._emitted

    def notice(self, text: str) -> None:
        self._desk.notice(self._answered, text)

    def conversation_begins(self, identity: str) -> None:
        """Under this id, unless the agent tells another."""
        self._answered.external_session = identity

    def consume(self, provider: Provider, request: Request) -> None:
        self._desk.cancel.raise_if_set()
        request = self._with_time_left(request)
        self._answered.sends += 1
        finished: Finished | None = None
        events = _events(provider, request, self._desk)
        try:
            for event in events:
                finished = event if isinstance(event, Finished) else finished
                self._take(event)
                self._leave_if_cancelled(finished)
        except EscaleraError as error:
            if isinstance(error, ProviderError):
                error.agent = error.agent or request.agent
                self._answered.sends += error.own_retries
            self._end(request, error)
            raise
        finally:
            events.close()
        self._end(request, None)
        self._conclude(finished, request.agent)

    def _with_time_left(self, request: Request) -> Request:
        """The first call has all the time of the turn, each later one what the earlier ones left."""
        left = self._deadline.left()
        if left is None or not self._answered.sends:
            return request
        if left <= 0:
            raise TimedOut("the time of the whole turn is used up (turn_timeout)", which="turn", agent=request.agent, hint="allow more with --timeout")
        return replace(request, timeouts=replace(request.timeouts, turn=left))

    def _leave_if_cancelled(self, finished: Finished | None) -> None:
        cancel, clock = self._desk.cancel, self._desk.clock
        if finished is not None or not cancel.is_set():
            return
        if self._leave_at is None:
            self._leave_at = clock.monotonic() + CANCEL_GRACE
        if clock.monotonic() >= self._leave_at:
            raise Cancelled(cancel.reason)

    def _conclude(self, finished: Finished | None, agent: str) -> None:
        if finished is None:
            self._desk.cancel.raise_if_set()
            raise Incomplete("the answer broke off before its end", agent=agent, partial=self._answered.unfinished, hint="try again")
        self._answered.model_served = finished.model_served or self._answered.model_served
        if finished.reason == "blocked":
            raise Blocked("a filter of the provider stopped the answer", agent=agent, hint="put it in other words, or ask another agent")
        if finished.reason == "length":
            hint = "raise the agent's limit of output tokens, or ask for less at once"
            raise Incomplete("the output limit cut the answer", agent=agent, partial=self._answered.unfinished, hint=hint)
        if finished.reason == "other":
            self._answered.notice("the provider ended the answer for a reason of its own, which is none of the known ones")

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
                self._emitted = True
                self._keep(ToolResult(call, well_formed(content), is_error))
            case UsageReport(usage):
                self._usage = usage
            case ExternalSessionStarted(session, model):
                answered.external_session, answered.external_model = session, model
            case Notice(text):
                self.notice(text)
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
        if isinstance(step, ToolCall):
            step = replace(step, arguments=well_formed_values(step.arguments))
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

    def _end(self, request: Request, error: EscaleraError | None) -> None:
        """Whatever ended the call: usage counts once a call, and text that never became final is kept apart."""
        self._show_text(self._display.finish()[0])
        self._answered.unfinished, self._shown = "".join(self._shown) or self._unseen(error), []
        self._tell_if_incomplete(failed=error is not None)
        if self._usage is not None:
            self._answered.usage = _added(self._answered.usage or Usage(), _weighed(self._usage, request))
            self._usage = None

    def _tell_if_incomplete(self, *, failed: bool) -> None:
        """A sum over the calls of a turn says less than it seems to where one of them did not report what another did."""
        if failed and not self._emitted and self._usage is None:
            return  # refused: there was nothing to count
        answered = self._answered
        answered.counted.append(_reported(self._usage))
        if any(counted != answered.counted[0] for counted in answered.counted):
            self.notice("the usage that is shown is not all of this turn's: not every call reported its tokens and cost")

    def _unseen(self, error: EscaleraError | None) -> str:
        """What the provider says was there of an answer that it did not stream."""
        if not isinstance(error, ProviderError) or any(isinstance(part, Text) for part in self.parts):
            return ""
        return strip_tags(well_formed(error.partial), self._nonce)


def _events(provider: Provider, request: Request, desk: Desk) -> Generator[Event, None, None]:
    """What the provider gives. It is code of strangers, which may raise or give anything: what is no error of ours becomes one.

    Closing this lets the provider go of its socket or child. What a foreign error says is not repeated: it may hold a secret.
    """
    handed_over = finished = False
    try:
        events = provider.run(replace(request, wire=desk.wire), cancel=desk.cancel, ask=desk.ask)
        try:
            for event in events:
                if not is_event(event):
                    what = "an event with a wrong field" if isinstance(event, Event) else "something that is no event"
                    raise ProtocolError(f"the provider gave {what}: {type(event).__name__}", hint=_BROKEN)
                handed_over = True
                yield event
                handed_over, finished = False, finished or isinstance(event, Finished)
        finally:
            _close(events)
    except (EscaleraError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if handed_over and isinstance(error, GeneratorExit):  # whoever takes the events wants no more; a provider may raise this too
            raise
        if not finished:
            raise ProtocolError(f"the provider broke: {foreign(error)}", hint=_BROKEN) from error
        yield Notice(f"the provider broke after the end of its answer: {foreign(error)}")  # page 7: what is finished stands


_BROKEN = "this is a fault of its plugin: tell whoever made it, `escalera plugins list` names it"


def _close(events: Iterator[Event]) -> None:
    close = getattr(events, "close", None)
    if close is not None:
        close()


def _says_something(step: Part) -> bool:
    return isinstance(step, ToolCall | ToolResult) or (isinstance(step, Text) and bool(step.text.strip()))


def _announce(desk: Desk, error: ProviderError, wait: float, attempt: int) -> None:
    text = f"{error.message}; trying again in {wait:.1f} s (attempt {attempt})"
    desk.watch(Shown("retry", text, {"error": error.type, "wait": round(wait, 3), "attempt": attempt}))


def _weighed(usage: Usage, request: Request) -> Usage:
    """With the size of what these tokens were reported for; an agent's own conversation has more in it than was sent."""
    counted = usage.input_tokens is not None and request.conversation is None
    return replace(usage, sent_chars=measure_request(request) if counted else None, sent_tokens_estimate=estimate_request_tokens(request) if counted else None)


def _reported(usage: Usage | None) -> frozenset[str]:
    """Which of the figures that every call has were reported."""
    return frozenset(name for name in ("input_tokens", "output_tokens", "cost_usd") if getattr(usage, name, None) is not None)


def _added(before: Usage, now: Usage) -> Usage:
    """Usage over the calls of one turn; a figure that no call reported stays unknown."""
    sums = {}
    for name in (figure.name for figure in fields(Usage) if figure.name not in ("cost_source", "cache_in_input")):
        known = [value for value in (getattr(before, name), getattr(now, name)) if value is not None]
        sums[name] = sum(known) if known else None
    sources = [usage.cost_source or "reported" for usage in (before, now) if usage.cost_usd is not None]
    weakest = max(sources, key=get_args(CostSource).index, default=None)
    return Usage(**sums, cost_source=weakest, cache_in_input=now.cache_in_input)
