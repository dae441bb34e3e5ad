"""One turn: a child, what it says as events, its questions, its limits, its end."""

from __future__ import annotations

import contextlib
import queue
import sys
from collections.abc import Iterator, Mapping

from escalera_claude_cli import processes
from escalera_claude_cli.child import PIPE_GRACE, Child, EndOfOutput, Nothing, Output, Silence
from escalera_claude_cli.command import conversation_of, json_line, user_line
from escalera_claude_cli.environment import MAX_RETRIES, marks, may_go_on, own_repeats, renews_login
from escalera_claude_cli.lines import Line, Noise, Skipped
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.permissions import answer_request
from escalera_claude_cli.timers import Timers
from escalera_claude_cli.timing import Timing
from escalera_claude_cli.transcript import Transcript
from escalera_claude_cli.verdict import Ending, is_announced_repeat, judge, refused_wait, spent
from escalera_claude_cli.waiting import Waiting, terms_of
from orchestrator.errors import Cancelled, ProviderError, SessionInUse, TimedOut
from orchestrator.providers import Ask, Cancel, Event, Notice, Request, ToolResultSeen, UsageReport

POLL = 0.1
"""Seconds between two looks at the limits while nothing comes."""

REAP_GRACE = 0.5


def run_turn(
    options: ClaudeOptions,
    request: Request,
    *,
    environ: Mapping[str, str],
    timing: Timing,
    cancel: Cancel,
    ask: Ask,
    waiting: Waiting | None = None,
    session_wait: float = 0.0,
    platform: str = sys.platform,
) -> Iterator[Event]:
    """Run one turn. Whatever ends it – its result, an error, a cancel, a closed iterator – no process and no file is left.

    But for a child that may have the next turn of its conversation, too: with `waiting`, and after a good end only.
    """
    conversation = conversation_of(request)
    if waiting is not None:
        child = waiting.take(terms_of(options, request, conversation) if conversation.action == "resume" else None, cancel)
        if child is not None:
            with contextlib.suppress(_Unheard):
                yield from _turn_of(child, options, request, timing, cancel, ask, waiting, environ)
                return
    turn_marks = marks(request.session, conversation.id, environ)
    _wait_for_others(turn_marks, request.agent, timing, cancel, session_wait)
    processes.end(processes.of_turn(turn_marks), grace=REAP_GRACE)  # left behind by a kill of ours: one turn at a time per session
    repeats = own_repeats(request.retries_left)
    bounds = {name: value for name, value in repeats.variables().items() if name not in options.env}
    stays = waiting is not None
    cancel.raise_if_set()
    child = Child(options, request, environ={**bounds, **environ}, marks=turn_marks, timing=timing, stays=stays, platform=platform)
    yield from _turn_of(child, options, request, timing, cancel, ask, waiting, environ)


def _wait_for_others(turn_marks: Mapping[str, str], agent: str, timing: Timing, cancel: Cancel, seconds: float) -> None:
    """Wait until no other session, of this home or another, has a turn in the conversation: two at once would each go on without the other."""
    deadline = timing.monotonic() + seconds
    while others := processes.of_others(turn_marks):
        cancel.raise_if_set()
        if timing.monotonic() >= deadline:
            numbers = ", ".join(sorted(str(process.pid) for process in others))
            raise SessionInUse(
                f"the conversation of {agent!r} is in use by another session (process {numbers}) and did not become free within {seconds:g} s",
                hint="this session and that one are copies of one another: try again when its turn has ended, or begin another conversation with --fresh",
            )
        cancel.event.wait(POLL)


def _turn_of(
    child: Child, options: ClaudeOptions, request: Request, timing: Timing, cancel: Cancel, ask: Ask, waiting: Waiting | None, environ: Mapping[str, str]
) -> Iterator[Event]:
    stop_listening = cancel.on_cancel(child.end_soon)
    turn = _Turn(request, child, timing, cancel, ask, environ=environ)
    try:
        cancel.raise_if_set()
        child.begin(user_line(request), request.wire)
        yield from turn.events()
    finally:
        in_order = waiting is not None and turn.left_all_in_order()
        if turn.succeeded and not in_order:
            child.finish()
        stop_listening()
        if waiting is not None and in_order and not cancel.is_set():
            child.result = turn.result
            waiting.keep(terms_of(options, request, conversation_of(request), served=turn.model), child)
        else:
            child.end()


class _Unheard(Exception):
    """The child that waited went before it took the message up, so that another may have it."""


class _Turn:
    """The turn's own thread: it only polls, so that a cancel and the limits are seen whatever the child does."""

    def __init__(self, request: Request, child: Child, timing: Timing, cancel: Cancel, ask: Ask, *, environ: Mapping[str, str]) -> None:
        self._request = request
        self._child = child
        self._timing = timing
        self._timers = Timers(request.timeouts, timing.monotonic)
        self._cancel = cancel
        self._ask = ask
        self._renews_login = renews_login(environ)
        self._bounded_by_user = MAX_RETRIES in environ
        self._retries_left = None if self._bounded_by_user else request.retries_left
        self._transcript = Transcript(child.result)
        self._repeats_before = 0
        """How often the requests were sent again whose answers are there."""
        self._stopped: int | None = None
        """How often it was sent again, where it was ended in the midst of that."""
        self.succeeded = False
        """Whether its proper end was told."""

    @property
    def model(self) -> str | None:
        """The model that it began with."""
        return self._transcript.model

    @property
    def result(self) -> Line | None:
        """The line that ended it."""
        return self._transcript.result

    def events(self) -> Iterator[Event]:
        try:
            yield from self._follow()
            finished = judge(self._transcript, self._ending())
        except ProviderError as error:
            self._child.repeats.new()
            error.own_retries, error.emitted = self._repeats() if self._stopped is None else self._stopped, self._transcript.emitted
            raise
        yield from self._transcript.conclude()
        self.succeeded = True
        yield finished

    def left_all_in_order(self) -> bool:
        """Whether the child can have another turn: this one ended by its result, and nothing that it began goes on."""
        return self.succeeded and self._child.stays and self._transcript.settled and self._child.is_alone()

    def _follow(self) -> Iterator[Event]:
        """Events up to the result line, or to the end of output without one."""
        while self._transcript.result is None:
            item = self._next()
            if self._cancel.is_set():
                yield from self._stop(item)
            self._raise_if_expired()
            self._raise_if_spent(item)
            if item is EndOfOutput:
                if self._child.result is not None and not self._transcript.said_anything:
                    raise _Unheard
                return
            if item is Nothing:
                continue
            if isinstance(item, dict):
                self._raise_if_refused(item)
            yield from self._take(item)
            self._timers.line_came(announced=self._transcript.retry_delay)
            if isinstance(item, dict) and item.get("type") == "control_request":
                yield from self._answer(item)

    def _take(self, item: Line | Noise | Skipped) -> Iterator[Event]:
        for event in self._transcript.take(item):
            if isinstance(event, ToolResultSeen):  # another request comes with it
                self._repeats_before = self._repeats()
                self._child.repeats.second_way = False
            yield event

    def _next(self) -> Output | Silence:
        with contextlib.suppress(queue.Empty):
            return self._child.next_output(POLL)
        if self._child.wait(0) is None:
            return Nothing
        with contextlib.suppress(queue.Empty):
            return self._child.next_output(PIPE_GRACE)
        return EndOfOutput

    def _answer(self, line: Line) -> Iterator[Event]:
        """Ask in the turn's own thread, as a terminal wants it; a withdrawal comes from the reading thread meanwhile."""
        with self._timers.standing_still():
            reply = answer_request(line, self._ask, self._child.withdrawal(str(line.get("request_id"))))
        if reply.message is not None:
            self._child.send(json_line(reply.message))
        if reply.notice:
            yield Notice(reply.notice)

    def _raise_if_refused(self, line: Line) -> None:
        """What the CLI is about to send again in vain, or only after a longer wait than may be, is not waited for."""
        request = self._request
        error = refused_wait(line, self._transcript, longest=request.longest_wait, agent=request.agent, renews_login=self._renews_login)
        if error is not None:
            raise error

    def _raise_if_spent(self, item: Output | Silence) -> None:
        """A repeat that the turn may not have is not waited for: the core goes on, or gives up.

        Once something of an answer came each request of the CLI has its own, and only what it announces is held up: what it does at once would cost the work.
        """
        left, log = self._retries_left, self._child.repeats
        if left is None:
            return
        notes, announced = log.new(), isinstance(item, dict) and is_announced_repeat(item)
        if not (announced or (notes and not notes[-1].second_way and not self._transcript.emitted)):
            return
        repeats = self._repeats() + announced
        if may_go_on(left, repeats - self._repeats_before, second_way=log.second_way):
            return
        self._stopped = repeats - 1 if announced or notes[-1].waits else repeats
        if isinstance(item, dict) and announced:
            raise spent(item, self._transcript, self._request.agent)
        raise notes[-1].error("the API told of an overload, or the connection was lost, before an answer began", agent=self._request.agent)

    def _repeats(self) -> int:
        return self._transcript.retries(self._child.repeats.count)

    def _raise_if_expired(self) -> None:
        transcript = self._transcript
        which = self._timers.expired(answered=transcript.answered, tool_runs=bool(transcript.open_tools))
        if which is None:
            return
        what = {"first_byte": "did not begin to answer", "idle": "fell silent", "turn": "was not done"}[which]
        hint = f"raise the agent's {which}_timeout if it needs longer"
        message = f"Claude Code {what} within {self._timers.seconds(which):g} s"
        raise TimedOut(message, which=which, hint=hint, agent=self._request.agent, partial=transcript.partial)

    def _stop(self, item: Output | Silence) -> Iterator[Event]:
        """Cancelled: end the child, and take from its last lines what the turn has cost."""
        self._child.end()
        with contextlib.suppress(queue.Empty):
            while item is not EndOfOutput:
                if item is not Nothing:
                    yield from (event for event in self._transcript.take(item) if isinstance(event, UsageReport))
                item = self._child.next_output(PIPE_GRACE)
        raise Cancelled(self._cancel.reason, agent=self._request.agent, partial=self._transcript.partial)

    def _ending(self) -> Ending:
        """What the verdict needs beside the lines. A turn that failed is waited for, since stderr may say why."""
        result = self._transcript.result
        failed = result is None or result.get("is_error") is not False or not result.get("result")
        if failed:
            self._child.close_input()
        exit_code = self._child.wait(self._timing.after_result if failed else 0)
        resumed = conversation_of(self._request).action == "resume"
        repeats = 0 if self._bounded_by_user else own_repeats(self._request.retries_left).refused
        return Ending(exit_code, self._child.stderr(), resumed, self._request.agent, self._timing.wall(), repeats)
