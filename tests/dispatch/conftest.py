"""One turn against a scripted provider, without a store."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from orchestrator.dispatch.desk import Answered, Desk, Shown
from orchestrator.dispatch.heard import Heard, session_tools
from orchestrator.dispatch.turn import run_turn
from orchestrator.errors import EscaleraError
from orchestrator.messages import Message, Part, Text, Usage
from orchestrator.providers import Ask, Cancel, Conversation, Request, Timeouts
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.testing.fake_provider import FakeProvider
from orchestrator.tools import Tool

from ..conftest import NONCE, HandClock, nobody

REQUEST = Request(agent="local", system=(), messages=(Message("user", (Text("do it"),)),), timeouts=Timeouts(turn=600.0))


@dataclass
class Turn:
    """What one turn came to, and the effects it was run with."""

    clock: HandClock = field(default_factory=HandClock)
    cancel: Cancel = field(default_factory=Cancel)
    ask: Ask = nobody
    heard: Heard = field(default_factory=Heard)
    answered: Answered = field(default_factory=Answered)
    shown: list[Shown] = field(default_factory=list)
    recorded: list[Part] = field(default_factory=list)
    on_record: Callable[[Part], object] = lambda step: None
    on_show: Callable[[Shown], object] = lambda shown: None
    error: EscaleraError | None = None

    def run(
        self,
        provider: FakeProvider,
        *,
        role: Role = Role.PRIMARY,
        limits: Limits | None = None,
        conversation: Conversation | None = None,
        tools: Sequence[Tool] = (),
    ) -> Turn:
        ids = itertools.count(1)
        desk = Desk(
            clock=self.clock,
            jitter=random.Random(1),
            cancel=self.cancel,
            ask=self.ask,
            watch=self._watch,
            record=self._record,
            new_id=lambda: f"new-{next(ids)}",
        )
        try:
            offered = tuple(tool.schema for tool in (*session_tools(Heard(), hands_over=role is Role.PRIMARY), *tools))
            request = replace(REQUEST, tools=offered, conversation=conversation)
            run_turn(provider, request, limits=limits or Limits(), role=role, nonce=NONCE, heard=self.heard, answered=self.answered, desk=desk, tools=tools)
        except EscaleraError as error:
            self.error = error
        assert provider.running == 0, "the provider was not let go"
        return self

    def _watch(self, shown: Shown) -> None:
        self.shown.append(shown)
        self.on_show(shown)

    def _record(self, step: Part) -> None:
        self.recorded.append(step)
        self.on_record(step)

    @property
    def reported(self) -> Usage | None:
        """The usage as the provider told it."""
        usage = self.answered.usage
        return None if usage is None else replace(usage, sent_chars=None, sent_tokens_estimate=None)

    def seen(self, kind: str) -> str:
        """Everything of one kind that was shown, joined."""
        return "".join(shown.text for shown in self.shown if shown.type == kind)


@pytest.fixture
def turn() -> Turn:
    return Turn()
