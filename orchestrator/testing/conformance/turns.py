"""One turn of a provider under test, in a thread of its own, so that one that hangs does not take the suite with it."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from orchestrator.errors import Cancelled, ProviderError, foreign
from orchestrator.messages import Part, Text, ToolCall, Usage
from orchestrator.providers import Answer, Cancel, Event, Finished, MessageDone, Provider, Question, ReasoningDelta, Request, TextDelta, UsageReport, Withdrawn


class Fault(Exception):
    """What a check found wrong, in one line for the author."""


class Turn:
    """A running turn, and when it has ended what came of it.

    With `leave` it is left, and its iterator closed, as soon as that says so of an event.
    """

    def __init__(self, provider: Provider, request: Request, *, leave: Callable[[Event], bool] | None = None, cancel: Cancel | None = None) -> None:
        self.events: list[Event] = []
        self.error: BaseException | None = None
        self.questions: list[Question] = []
        self.cancel = Cancel() if cancel is None else cancel
        self._provider, self._request, self._leave = provider, request, leave
        self._changed = threading.Condition()
        self._over = False
        self._cancelled_at: float | None = None
        self.ended_at: float | None = None
        self.started_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="conformance turn", daemon=True)
        self._thread.start()

    # -- waiting

    def until(self, holds: Callable[[Turn], bool], limit: float) -> bool:
        """Wait until this holds of the turn; false where it ended without, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or holds(self), limit)
            return holds(self)

    def ended(self, limit: float) -> bool:
        """Wait for its end; whether it came."""
        with self._changed:
            over = self._changed.wait_for(lambda: self._over, limit)
        if over:
            self._thread.join()
        return over

    def stop(self, limit: float) -> float:
        """Cancel it: the seconds that its end took. Raises `Fault` where it had no end in time, or another one than `Cancelled`."""
        began = time.monotonic()
        self.cancel.set()
        if not self.ended(limit + 1):
            raise Fault(f"cancelled, it had not ended after {limit + 1:g} s")
        took = (self.ended_at or began) - began
        if took > limit:
            raise Fault(f"cancelled, it ended after {took:.1f} s; {limit:g} s is the limit")
        self.failed_as(Cancelled)
        return took

    # -- what came of it

    def succeeded(self) -> Turn:
        """Raises `Fault` where it failed, or ended without an end."""
        if self.error is not None:
            raise Fault(f"failed: {told(self.error)}")
        if not any(isinstance(event, Finished) for event in self.events):
            raise Fault("ended without an error and without `Finished`")
        return self

    def failed_as(self, *classes: type[ProviderError]) -> ProviderError:
        """The error. Raises `Fault` for another one, for a foreign one, and for success."""
        wanted = " or ".join(one.__name__ for one in classes)
        if self.error is None:
            raise Fault(f"should have raised {wanted}, and ended as success" + (f" with {_short(self.answer)}" if self.answer else " with nothing said"))
        if not isinstance(self.error, ProviderError):
            raise Fault(f"should have raised {wanted}, and raised {foreign(self.error)}, which is no error of a provider")
        if not isinstance(self.error, classes):
            raise Fault(f"should have raised {wanted}, and raised {told(self.error)}")
        return self.error

    @property
    def answer(self) -> str:
        """The texts of its messages, which are what counts."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for event in self.events if isinstance(event, MessageDone) for part in event.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def deltas(self) -> list[str]:
        """The pieces of text that were shown and not withdrawn."""
        kept: list[str] = []
        pending: list[str] = []
        for event in self.events:
            if isinstance(event, TextDelta):
                pending.append(event.text)
            elif isinstance(event, Withdrawn):
                pending = []
            elif isinstance(event, MessageDone):
                kept, pending = kept + pending, []
        return kept + pending

    @property
    def shown(self) -> str:
        return "".join(self.deltas)

    @property
    def usage(self) -> Usage | None:
        return next((event.usage for event in reversed(self.events) if isinstance(event, UsageReport)), None)

    @property
    def finished(self) -> Finished | None:
        return next((event for event in self.events if isinstance(event, Finished)), None)

    @property
    def has_begun(self) -> bool:
        """Whether something of an answer was shown."""
        return any(isinstance(event, TextDelta | ReasoningDelta) for event in self.events)

    # -- its thread

    def _run(self) -> None:
        try:
            self._consume()
        except BaseException as error:  # strangers' code: whatever it raises is what is looked at
            self.error = error
        self.ended_at = time.monotonic()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _consume(self) -> None:
        events = iter(self._provider.run(self._request, cancel=self.cancel, ask=self._ask))
        try:
            for event in events:
                with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
                if self._leave is not None and self._leave(event):
                    return
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()

    def _ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer("decline", by="nobody")


def told(error: BaseException) -> str:
    """An error in one line: its class, and what it says."""
    return f"{type(error).__name__}: {_short(str(error))}"


def in_full(error: BaseException) -> str:
    """All that could be shown of an error: what it says and hints at, its representation, its chain of causes."""
    return "\n".join([str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 160 else line[:160] + " …")
