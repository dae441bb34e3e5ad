"""A stand-in for `claude`: a real program, started for real, that says what a test wants."""

from __future__ import annotations

import os
import random
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.provider import ClaudeProvider
from escalera_claude_cli.timing import Timing

from orchestrator.clock import SystemClock
from orchestrator.dispatch.desk import Answered, Desk
from orchestrator.dispatch.heard import Heard
from orchestrator.dispatch.turn import run_turn
from orchestrator.errors import EscaleraError, ProviderError
from orchestrator.messages import Message, Text, Usage
from orchestrator.providers import (
    AgentContext,
    Answer,
    Ask,
    Cancel,
    Conversation,
    Event,
    ExternalSessionStarted,
    Finished,
    MessageDone,
    Notice,
    Request,
    Timeouts,
    UsageReport,
)
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.testing.anthropic_server import AnthropicServer

FRAME = """\
#!{python}
import json, os, signal, subprocess, sys, time
def heard():
    return json.loads(sys.stdin.buffer.readline())
def say(*objects):
    for item in objects:
        sys.stdout.buffer.write(item if isinstance(item, bytes) else json.dumps(item).encode() + b"\\n")
        sys.stdout.buffer.flush()
def until_closed():
    return sys.stdin.buffer.read()
def init(session="11111111-2222-4333-8444-555555555555"):
    return {{"type": "system", "subtype": "init", "session_id": session, "model": "m"}}
def assistant(*content, **more):
    return {{"type": "assistant", "message": {{"role": "assistant", "model": "m", "content": list(content), **more}}}}
def text(said):
    return {{"type": "text", "text": said}}
def tool_use(identity, name, **arguments):
    return {{"type": "tool_use", "id": identity, "name": name, "input": arguments}}
def result(said, **more):
    return {{"type": "result", "subtype": "success", "is_error": False, "result": said, "num_turns": 1, **more}}
def asks(identity, tool, **tool_input):
    return {{"type": "control_request", "request_id": identity, "request": {{"subtype": "can_use_tool", "tool_name": tool, "input": tool_input}}}}
"""


ID = str(uuid.uuid4())
"""The conversation of the tests of this run: by it processes are found and ended, and another run's are not ours."""
MARKED = {"_ESCALERA_EXTERNAL_SESSION": ID}

QUICK = Timing(after_interrupt=0.3, after_sigint=0.3, after_term=0.3, after_result=2.0)
"""An end that does not keep a test waiting."""


def nobody(question: object) -> Answer:
    """A broker with nobody to ask."""
    return Answer("cancel", by="nobody")


@dataclass
class Outcome:
    """What a turn came to."""

    events: list[Event] = field(default_factory=list)
    error: EscaleraError | None = None

    @property
    def finished(self) -> Finished | None:
        return next((event for event in self.events if isinstance(event, Finished)), None)

    @property
    def texts(self) -> list[str]:
        done = [event for event in self.events if isinstance(event, MessageDone)]
        return [part.text for event in done for part in event.parts if isinstance(part, Text)]

    @property
    def usage(self) -> Usage | None:
        reports = [event.usage for event in self.events if isinstance(event, UsageReport)]
        return reports[-1] if reports else None

    @property
    def notices(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, Notice))

    @property
    def session(self) -> str | None:
        return self._started.id if self._started else None

    @property
    def model(self) -> str | None:
        """What the conversation runs with."""
        return self._started.model if self._started else None

    @property
    def _started(self) -> ExternalSessionStarted | None:
        return next((event for event in reversed(self.events) if isinstance(event, ExternalSessionStarted)), None)


def collect(events: Iterable[Event]) -> Outcome:
    """All events up to the error, if one ends them."""
    outcome = Outcome()
    try:
        for event in events:
            outcome.events.append(event)
    except EscaleraError as error:
        outcome.error = error
    return outcome


class Hurried(SystemClock):
    """A clock whose sleeps take no time."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Only note it."""
        self.slept.append(seconds)


def dispatched(provider: ClaudeProvider, request: Request, limits: Limits | None = None, clock: Hurried | None = None) -> Answered:
    """What the core makes of a turn that fails, with all its retries."""
    answered = Answered()
    desk = Desk(
        clock=clock or Hurried(),
        jitter=random.Random(1),
        cancel=Cancel(),
        ask=nobody,
        watch=lambda shown: None,
        record=lambda step: None,
        new_id=lambda: str(uuid.uuid4()),
    )
    with pytest.raises(ProviderError):
        run_turn(provider, request, limits=limits or Limits(), role=Role.ESCALATION, nonce="n", heard=Heard(), answered=answered, desk=desk)
    return answered


def conversation(action: str = "start", **more: Any) -> Conversation:
    values = {"id": ID, "system_text": "You are in a session.", "context_block": "[context]", **more}
    return Conversation(action=action, **values)


class Stage:
    """Makes stand-ins and runs turns with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir()

    def program(self, body: str) -> str:
        """A stand-in with this Python body; `heard`, `say`, `init`, `assistant`, `result` and so on are there to use."""
        path = self.folder / "claude"
        path.write_text(FRAME.format(python=sys.executable) + textwrap.dedent(body))
        path.chmod(0o700)
        return str(path)

    def provider(
        self,
        program: str,
        *,
        environ: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
        timing: Timing = QUICK,
        long_lived: bool = False,
        **options: Any,
    ) -> ClaudeProvider:
        context = AgentContext("claude", str(self.workspace), {**os.environ, **(environ or {})}, secrets, long_lived)
        return ClaudeProvider(ClaudeOptions(bin=program, **options), context, timing)

    def request(self, prompt: str = "hi", *, session: str = "", timeouts: Timeouts | None = None, **conversation_values: Any) -> Request:
        return Request(
            agent="claude",
            system=(),
            messages=(Message("user", (Text(prompt),)),),
            conversation=conversation(**conversation_values),
            workspace=str(self.workspace),
            session=session,
            timeouts=timeouts or Timeouts(first_byte=20, idle=20, turn=20),
        )

    def turn(self, body: str, request: Request | None = None, *, ask: Ask = nobody, cancel: Cancel | None = None, **provider: Any) -> Outcome:
        """One turn of a stand-in with this body."""
        return self.run(self.program(body), request, ask=ask, cancel=cancel, **provider)

    def run(self, program: str, request: Request | None = None, *, ask: Ask = nobody, cancel: Cancel | None = None, **provider: Any) -> Outcome:
        """One turn of a program."""
        return collect(self.provider(program, **provider).run(request or self.request(), cancel=cancel or Cancel(), ask=ask))

    def replay(self, path: Path, *, exit_code: int = 0, stderr: str = "", request: Request | None = None, ask: Ask = nobody) -> Outcome:
        """A turn that says what a file holds, waits where it asked for a permission, and goes when its input is closed after the result."""
        return self.turn(
            f"""
            heard()
            for line in open({str(path)!r}, "rb").read().split(b"\\n")[:-1]:
                say(line + b"\\n")
                if b'"control_request"' in line:
                    open("replies", "ab").write(sys.stdin.buffer.readline())
                if b'"type":"result"' in line:
                    until_closed()
            sys.stderr.write({stderr!r})
            sys.stderr.flush()
            os.kill(os.getpid(), {-exit_code}) if {exit_code} < 0 else sys.exit({exit_code})
            """,
            request,
            ask=ask,
        )


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def serve() -> Iterator[Callable[..., AnthropicServer]]:
    """Starts stand-ins for the API, with the steps they shall take."""
    with ExitStack() as servers:
        yield lambda *steps: servers.enter_context(AnthropicServer(steps))


@pytest.fixture
def data() -> Callable[[str], Path]:
    return lambda name: Path(__file__).parent / "data" / name
