"""What the tests of this plugin share: agents on loopback servers, and turns told as one value."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from escalera_openrouter.kinds import openai_provider, openrouter_provider
from escalera_openrouter.options import OpenAIOptions, OpenRouterOptions
from escalera_openrouter.provider import OpenAIProvider

from orchestrator.clock import SystemClock
from orchestrator.dispatch.desk import Answered, Desk
from orchestrator.dispatch.heard import Heard
from orchestrator.dispatch.turn import run_turn
from orchestrator.errors import ProviderError
from orchestrator.messages import Message, Text, Usage
from orchestrator.providers import (
    AgentContext,
    Answer,
    Cancel,
    Event,
    Finished,
    MessageDone,
    Question,
    ReasoningDelta,
    Request,
    SystemBlock,
    TextDelta,
    Timeouts,
    UsageReport,
)
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.testing.openai_server import OpenAIServer, Reply

TRIALS = Path(__file__).parents[3] / "tests" / "trials"
CONTEXT = AgentContext("local", "/workspace", {})
REQUEST = Request("local", (SystemBlock("identity", "You are here."),), (Message("user", (Text("hello"),)),), timeouts=Timeouts(60, 60, 120))


@dataclass(frozen=True)
class Turn:
    """A turn that was run to its end, whatever that was."""

    events: tuple[Event, ...]
    error: ProviderError | None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def parts(self) -> tuple[Any, ...]:
        return next((event.parts for event in self.events if isinstance(event, MessageDone)), ())

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [{"id": part.id, "name": part.name, "arguments": dict(part.arguments)} for part in self.parts if hasattr(part, "arguments")]

    @property
    def usage(self) -> Usage | None:
        return next((event.usage for event in reversed(self.events) if isinstance(event, UsageReport)), None)

    @property
    def finished(self) -> Finished | None:
        return next((event for event in self.events if isinstance(event, Finished)), None)

    @property
    def outcome(self) -> str:
        """In the words of the trials."""
        if self.error is None:
            return "ok" if self.parts else "empty"
        partial_wait = self.error.type == "TimedOut" and self.error.which == "idle"
        return {"Incomplete": "incomplete", "EmptyAnswer": "empty", "Blocked": "blocked"}.get(self.error.type, "incomplete" if partial_wait else "error")


def nobody(question: Question) -> Answer:
    raise AssertionError("HTTP agents ask nobody")


def run(provider: OpenAIProvider, request: Request = REQUEST, cancel: Cancel | None = None) -> Turn:
    """Run a turn to its end."""
    events: list[Event] = []
    try:
        for event in provider.run(request, cancel=cancel or Cancel(), ask=nobody):
            events.append(event)
    except ProviderError as error:
        return Turn(tuple(events), error)
    return Turn(tuple(events), None)


class Hurried(SystemClock):
    """A clock whose sleeps take no time."""

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Do not."""


def dispatched(provider: OpenAIProvider, request: Request = REQUEST) -> Answered:
    """What the core makes of a turn that fails, with all its retries."""
    answered = Answered()
    desk = Desk(
        clock=Hurried(),
        jitter=random.Random(1),
        cancel=Cancel(),
        ask=nobody,
        watch=lambda shown: None,
        record=lambda step: None,
        new_id=lambda: str(uuid.uuid4()),
    )
    with pytest.raises(ProviderError):
        run_turn(provider, request, limits=Limits(), role=Role.ESCALATION, nonce="n", heard=Heard(), answered=answered, desk=desk)
    return answered


def openai(url: str, **options: Any) -> OpenAIProvider:
    return openai_provider(OpenAIOptions(base_url=url, **{"model": "m", **options}), CONTEXT)


def openrouter(url: str, **options: Any) -> OpenAIProvider:
    return openrouter_provider(OpenRouterOptions(base_url=url, **{"model": "m", "api_key": "sk-or-demo", **options}), CONTEXT)


def play(*script: Reply, request: Request = REQUEST, **options: Any) -> Turn:
    """One turn against a server with this script."""
    with OpenAIServer(*script) as server:
        return run(openai(server.url, **options), request)


def trial(name: str) -> Any:
    return json.loads((TRIALS / name).read_text(encoding="utf-8"))


def trial_bytes(name: str) -> bytes:
    return (TRIALS / name).read_bytes()


@pytest.fixture
def scripted() -> Iterator[Callable[..., OpenAIServer]]:
    """Servers that are closed at the end of the test."""
    servers: list[OpenAIServer] = []

    def start(*script: Reply, **options: Any) -> OpenAIServer:
        server = OpenAIServer(*script, **options)
        servers.append(server.__enter__())
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)
