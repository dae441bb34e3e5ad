"""Where one check takes place: a backend and a provider made for it alone."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from orchestrator.messages import Message, Text
from orchestrator.providers import AgentContext, Cancel, Conversation, Event, Provider, ProviderKind, Request, SystemBlock, Timeouts, ToolSchema, Wire
from orchestrator.testing.conformance.harness import CannotPlay, Harness
from orchestrator.testing.conformance.leftovers import Open, left_since, what_is_open
from orchestrator.testing.conformance.turns import Fault, Turn
from orchestrator.testing.conformance.watch import Watch

AGENT = "under-test"
OTHERS_NAME, OTHERS_SECRET = "KIT_OTHER_AGENTS_KEY", "kit-secret-of-another-agent"
"""A credential of another agent, which is in the environment and must not reach a program."""
LOOKUP = ToolSchema("lookup", "Look a word up.", {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]})
_SETTLING = 2.0


class Noted(Wire):
    """Keeps all that a provider tells it."""

    def __init__(self) -> None:
        self.notes: dict[str, list[bytes]] = {"sent": [], "received": []}
        self.hidden: list[str] = []
        self.begun_first = False
        """Whether a call was begun before anything was told of it."""

    def begin(self) -> None:
        self.begun_first = self.begun_first or not any(self.notes.values())

    def hide(self, *secrets: str) -> None:
        self.hidden += secrets

    def sent(self, data: str | bytes) -> None:
        self.notes["sent"].append(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))

    def received(self, data: str | bytes) -> None:
        self.notes["received"].append(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))


@dataclass
class Stage:
    """What a check works with. Turns that it began are cancelled at its end."""

    harness: Harness
    kind: ProviderKind
    watch: Watch
    module: str
    """The module of the plugin."""
    turns: list[Turn] = field(default_factory=list)

    # -- the provider

    @cached_property
    def provider(self) -> Provider:
        return self.made()

    def made(self, options: Mapping[str, object] | None = None, folders: Mapping[str, str] | None = None) -> Provider:
        """A provider as the core makes it, of the harness's options or of others."""
        checked = self.checked_options(self.harness.options() if options is None else options)
        return self.kind.factory(checked, replace(self.context, folders=folders or {}))

    def checked_options(self, options: Mapping[str, object]) -> Any:  # an instance of the kind's own model
        return self.kind.options.model_validate(dict(options))

    @property
    def context(self) -> AgentContext:
        environ = {**self.harness.environ(), OTHERS_NAME: OTHERS_SECRET}
        return AgentContext(AGENT, str(self.harness.folder), environ, (OTHERS_SECRET,), secret_names=(OTHERS_NAME,))

    def request(
        self,
        prompt: str = "Name three birds.",
        *,
        timeouts: Timeouts | None = None,
        tools: tuple[ToolSchema, ...] = (),
        messages: tuple[Message, ...] = (),
        action: Literal["start", "resume"] = "start",
        conversation: str | None = None,
        wire: Wire | None = None,
    ) -> Request:
        """A call with a little of everything; an agent that keeps its own conversation gets that instead of a history."""
        own = self.provider.capabilities.keeps_conversation
        request = Request(
            agent=AGENT,
            system=() if own else (SystemBlock("identity", "You are being tested."),),
            messages=(*(() if own else messages), Message("user", (Text(prompt),))),
            tools=tools,
            conversation=Conversation(action, conversation or str(uuid.uuid4()), "You are being tested.", "[a context]") if own else None,
            workspace=str(self.harness.folder),
            session=f"kit-{uuid.uuid4()}",
            timeouts=timeouts or Timeouts(self.harness.limit, self.harness.limit, self.harness.limit * 2),
            retries_left=0,
            longest_wait=0.0,
        )
        return request if wire is None else replace(request, wire=wire)

    # -- turns

    def begin(self, request: Request | None = None, *, leave: Callable[[Event], bool] | None = None, cancel: Cancel | None = None) -> Turn:
        """A turn that runs while the check goes on."""
        turn = Turn(self.provider, request or self.request(), leave=leave, cancel=cancel)
        self.turns.append(turn)
        return turn

    def run(self, request: Request | None = None, *, limit: float | None = None) -> Turn:
        """A turn to its end. Raises `Fault` where it has none."""
        turn = self.begin(request)
        return self.over(turn, self.harness.limit if limit is None else limit)

    def over(self, turn: Turn, limit: float) -> Turn:
        if not turn.ended(limit):
            raise Fault(f"had not ended after {limit:g} s")
        return turn

    def begun(self, turn: Turn) -> Turn:
        """Wait until the first of its answer is shown."""
        if not turn.until(lambda one: one.has_begun, self.harness.limit):
            raise Fault("showed nothing of what the backend had said" if turn.error is None else f"failed: {turn.error!r}")
        return turn

    def in_the_middle(self, text: str, request: Request | None = None) -> Turn:
        """A turn whose backend says `text` and then hangs: some of it is shown, or, where nothing is shown before the end, the call has arrived."""
        self.harness.hangs(text)
        return self.begun(self.begin(request)) if text and self.provider.capabilities.streams else self.arrived(request)

    def arrived(self, request: Request | None = None) -> Turn:
        """A turn whose call has reached the backend; where the harness does not count calls, one that had time for it."""
        try:
            before = self.harness.calls()
        except CannotPlay:
            turn = self.begin(request)
            turn.ended(self.harness.pace)
            return turn
        turn = self.begin(request)
        if not self._eventually(lambda: self.harness.calls() > before):
            raise Fault("no call reached the backend")
        return turn

    def _eventually(self, holds: Callable[[], bool]) -> bool:
        wait = threading.Event()
        for _ in range(int(self.harness.limit / 0.02)):
            if holds():
                return True
            wait.wait(0.02)
        return False

    # -- what is left

    @contextmanager
    def leaves_nothing(self, request: Request) -> Iterator[None]:
        """Raises `Fault` where what happens inside leaves threads, programs, sockets or pipes behind."""
        before: Open = what_is_open()
        yield
        left = left_since(before, request.session, self.harness.release_limit + 1)
        if left:
            raise Fault(f"left open: {', '.join(dict.fromkeys(left))}")

    def close(self) -> None:
        """Let go of whatever a check has left running."""
        for turn in self.turns:
            turn.cancel.set()
        for turn in self.turns:
            turn.ended(_SETTLING)


@contextmanager
def stage(harness_class: type[Harness], folder: Path, kind: ProviderKind, module: str, watch: Watch) -> Iterator[Stage]:
    """A stage whose backend is up."""
    harness = harness_class(folder)
    with ExitStack() as end:
        end.callback(harness.stop)
        harness.start()
        made = Stage(harness, kind, watch, module)
        end.callback(made.close)
        yield made
