"""A scripted provider, for tests that want turns without a model, a socket or a child process.

    strong = FakeProvider(says("Which colour?"), says("Blue it is."))
    kinds = {"fake": fake_kind({"strong": strong})}      # an agent with provider = "fake" is answered by its name's script
    ...
    assert strong.requests[1].messages[-1].parts == (Text("blue"),)

Each call is answered by the next script. A script is a sequence of steps, taken one by one as the turn asks for them:
an event is given; an exception is raised; a question is put to the broker, its answer kept in `answers`; a function is
called there and then (to move a clock, to look into a store); `UNTIL_CANCELLED` waits until the turn is cancelled.
Whatever else stands in a script is given as it is: so a test can be a provider that breaks its promises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from orchestrator.messages import Part, Text, ToolCall, Usage
from orchestrator.providers import (
    AgentContext,
    Answer,
    Ask,
    Cancel,
    Capabilities,
    CheckResult,
    Event,
    Finished,
    MessageDone,
    ProviderKind,
    Question,
    Request,
    TextDelta,
    UsageReport,
)


class _UntilCancelled:
    """The type of `UNTIL_CANCELLED`."""


UNTIL_CANCELLED: Final = _UntilCancelled()
"""A step that waits for the turn to be cancelled, and then raises `Cancelled`."""

Step = Event | BaseException | Question | Callable[[], object] | _UntilCancelled
Script = Sequence[Step]
FinishReason = Literal["stop", "tool_calls", "length", "blocked", "other"]
"""Why an answer ended, as `Finished` has it."""

_HOLD_LIMIT = 60.0
"""Seconds after which `UNTIL_CANCELLED` gives up, so that a broken test ends."""


class ScriptEnded(Exception):
    """The provider was called more often than it has scripts."""


class FakeProvider:
    """A provider that follows its scripts and keeps what it was asked.

    `model` and `config_dir` are what a real one takes from its options. Scripts can be added while a test goes on.
    """

    def __init__(self, *scripts: Script, capabilities: Capabilities | None = None, model: str | None = "fake-1", config_dir: str | None = None) -> None:
        self._scripts = list(scripts)
        self.capabilities = Capabilities() if capabilities is None else capabilities
        self.model = model
        self.config_dir = config_dir
        self.requests: list[Request] = []
        """Every call, in order."""
        self.answers: list[Answer] = []
        """What the broker said to each `Question` of the scripts."""
        self.running = 0
        """Calls that have begun and are not released yet; 0 after a turn."""

    def will(self, *scripts: Script) -> None:
        """Add scripts for further calls."""
        self._scripts.extend(scripts)

    @property
    def left(self) -> int:
        """Scripts that no call has used yet."""
        return max(0, len(self._scripts) - len(self.requests))

    def preview(self, request: Request) -> Mapping[str, Any]:
        """The request as a body."""
        return {"body": {"model": self.model, "messages": [{"role": message.role, "parts": len(message.parts)} for message in request.messages]}}

    def check(self) -> CheckResult:
        """It always works."""
        return CheckResult(ok=True, status="works", detail="scripted")

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        """The next script. Raises `ScriptEnded` when there is none."""
        number = len(self.requests)
        self.requests.append(request)
        self.running += 1
        try:
            if number >= len(self._scripts):
                raise ScriptEnded(f"call {number + 1} of {request.agent!r} has no script")
            for step in self._scripts[number]:
                yield from self._taken(step, cancel, ask)
        finally:
            self.running -= 1

    def _taken(self, step: Step, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, Question):
            self.answers.append(ask(step))
        elif isinstance(step, _UntilCancelled):
            _wait(cancel.event)
            cancel.raise_if_set()
        elif callable(step):
            step()
        else:
            yield step


def says(*parts: str | Part, streamed: bool = True, usage: Usage | None = None, reason: FinishReason = "stop", model: str | None = None) -> list[Step]:
    """A whole answer: its text word by word where it is `streamed`, the final message, its usage, its end.

    `model` is the one that is said to have served it.
    """
    whole = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    deltas = [TextDelta(piece) for part in whole if isinstance(part, Text) for piece in _words(part.text)] if streamed else []
    reported = [] if usage is None else [UsageReport(usage)]
    return [*deltas, MessageDone(whole), *reported, Finished(reason, model)]


def calls(*tools: ToolCall, text: str = "") -> list[Step]:
    """An answer that asks for tools, after some text where there is one."""
    return says(*([text] if text else []), *tools, reason="tool_calls")


def fake_kind(providers: Mapping[str, FakeProvider], name: str = "fake") -> ProviderKind:
    """A provider kind that gives each agent the provider under its name; the only option is `model`, which is laid over the provider's own."""

    def made(options: FakeOptions, context: AgentContext) -> FakeProvider:
        provider = providers[context.name]
        provider.model = options.model or provider.model
        return provider

    return ProviderKind(name, FakeOptions, made, "follows a script")


class FakeOptions(BaseModel):
    """The options of an agent with a scripted provider."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None


def _words(text: str) -> list[str]:
    """The text in pieces, each with the blank before it."""
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)]


def _wait(event: threading.Event) -> None:
    if not event.wait(_HOLD_LIMIT):
        raise TimeoutError(f"nobody cancelled the turn within {_HOLD_LIMIT:g} s")


__all__ = ["UNTIL_CANCELLED", "FakeOptions", "FakeProvider", "FinishReason", "Script", "ScriptEnded", "Step", "calls", "fake_kind", "says"]
