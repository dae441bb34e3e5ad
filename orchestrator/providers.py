"""The provider seam: what the core hands to a plugin, and the events that come back (page 7)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from orchestrator.errors import Cancelled
from orchestrator.messages import Message, Part, ToolCall, Usage, compact_json

if TYPE_CHECKING:
    from pydantic import BaseModel

WireProfile = Literal["openai", "openai-strict", "anthropic", "bedrock", "none"]
"""Which message lists a wire format accepts (page 3); `none` for agents that get no history."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider can do, so that the core knows what to give it."""

    keeps_conversation: bool = False
    """It has external sessions of its own (page 2); it gets no history."""
    takes_tools: bool = False
    """It runs tools of the core; else it is told of the tags, and acts by them."""
    takes_tags: bool = True
    """It can be told about tags; a model that is too small for them is told neither of tags nor of tools."""
    streams: bool = True
    """It shows its answer piece by piece."""
    reports_usage: bool = True
    """It tells the tokens that its backend reports."""
    reports_cost: bool = False
    """It tells what its backend says that a call cost."""
    asks_permissions: bool = False
    """Its agent asks before it acts, and `ask` gets the question."""
    obeys_workspace: bool = False
    """Its program goes by files of the workspace on its own account (hooks, servers, variables); it heeds `Request.unaccepted`."""
    profile: WireProfile = "openai"
    """How the messages of a request are made to fit."""
    context_window_tokens: int | None = None
    """The window, where the provider knows its model's; the setting of the same name goes before it."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as it is told to a model: `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    _text: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def text(self) -> str:
        """All that is sent of it, as one text: made once, since it is weighed for every call."""
        text = self._text
        if text is None:
            text = self.name + self.description + compact_json(self.parameters)
            object.__setattr__(self, "_text", text)
        return text


@dataclass(frozen=True, slots=True)
class SystemBlock:
    """One named system text: `static` parts, `orientation`, `percepts`, in the order they are sent."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """For providers that keep their own: which external session the turn runs in, and how."""

    action: Literal["start", "resume"]
    id: str
    """A fresh uuid for `start`, `<new>` in a plan."""
    system_text: str
    """The bytes of the system prompt file: the same for the life of this external session (page 2)."""
    context_block: str
    """What is new, to stand in front of the prompt in the user message."""
    model: str | None = None
    """What its first turn ran with, for when no model is configured: `ExternalSessionStarted.model`, else the model that was served."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds, each `None` for no limit."""

    first_byte: float | None = 60.0
    idle: float | None = 120.0
    turn: float | None = 600.0


class Wire:
    """Takes note of what a call really sends and receives, for `session show --wire`; this one keeps nothing.

    A provider tells it the bodies, the status line and the headers as they are, but for credentials, in whose place it puts `***`. Each
    HTTP request, or each process that is started, begins anew. May be told from any thread; costs next to nothing.
    """

    def begin(self) -> None:
        """A request begins: what was kept of the one before goes."""

    def hide(self, *secrets: str) -> None:
        """These are secrets, which the core may not know: wherever they come up, they are not kept."""

    def sent(self, data: str | bytes) -> None:
        """Something was sent."""

    def received(self, data: str | bytes) -> None:
        """Something came back."""


NO_WIRE = Wire()


@dataclass(frozen=True, slots=True)
class Request:
    """One call: everything that will be sent, already fitted and normalised."""

    agent: str
    system: tuple[SystemBlock, ...]
    """Empty for providers that keep their own conversation."""
    messages: tuple[Message, ...]
    """The history and, last, the prompt; only the prompt for providers that keep their own conversation."""
    tools: tuple[ToolSchema, ...] = ()
    conversation: Conversation | None = None
    workspace: str = ""
    """The folder in which the turn works."""
    session: str = ""
    """The session's id: what a provider starts has it as `SESSION_MARK`."""
    max_output_tokens: int | None = None
    """At most so many are asked for; `None` where that is left to the backend."""
    timeouts: Timeouts = Timeouts()
    retries_left: int | None = None
    """How often a program that sends again by itself may do so; `ProviderError.own_retries` then says how often it did. `None` where nobody counts."""
    longest_wait: float | None = None
    """Seconds that such a program may wait before it sends again; it ends at once where more are named, with `retry_after` in its error. `None`: any."""
    unaccepted: tuple[str, ...] = ()
    """Files in and above the workspace by which a program that obeys the workspace would go, and which the user has not accepted: it runs without them."""
    wire: Wire = field(default=NO_WIRE, compare=False, repr=False)
    """To be told what goes over the wire."""


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of answer text, for display; it becomes part of the answer with its `MessageDone`."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of reasoning, for display."""

    text: str


@dataclass(frozen=True, slots=True)
class MessageDone:
    """An assistant message is final: its parts in order. Its deltas came before it, or never."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ToolResultSeen:
    """A tool that the agent ran by itself (a CLI agent) gave this back."""

    id: str
    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens so far; the last one of a call counts, they are never added up within a call."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class ExternalSessionStarted:
    """The id under which the agent keeps this conversation, and the model it runs with."""

    id: str
    model: str | None = None
    """As the agent would take it again, which may be another name than that of the model that answers: `Conversation.model` brings it back."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know that is no part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """All deltas since the last `MessageDone` are void: the answer is asked for again."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The call's proper end. Exactly one, last; an iterator that ends without it was cut off."""

    reason: Literal["stop", "tool_calls", "length", "blocked", "other"]
    """`tool_calls` wherever the message calls tools; `length` where it was cut at the limit of its tokens."""
    model_served: str | None = None
    """The model that answered, as the backend names it."""


Event = TextDelta | ReasoningDelta | MessageDone | ToolResultSeen | UsageReport | ExternalSessionStarted | Notice | Withdrawn | Finished


# -- cancelling and asking ------------------------------------------------------------------------


class Cancel:
    """Says that a turn shall stop. A provider registers what frees its socket or child; setting it twice is harmless."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason = "cancelled by the user"

    @property
    def event(self) -> threading.Event:
        """Set once the turn is cancelled; for waiting on."""
        return self._event

    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self, reason: str = "cancelled by the user") -> None:
        """Cancel: run every registered callback once, in this thread."""
        with self._lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call it when cancelled, at once if that was before; returns what takes it back."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def raise_if_set(self) -> None:
        """Raise `Cancelled` when the turn was cancelled."""
        if self._event.is_set():
            raise Cancelled(self.reason)

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


class Stopped(Exception):
    """A call was stopped from outside; only the thread that reads its answer sees it."""


class Stop:
    """What has to be let go when a call shall end, at once and from any thread: sockets, children."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._releases: list[Callable[[], None]] = []
        self._stopped = False

    def hold(self, release: Callable[[], None]) -> None:
        """Call it on `now`, or at once if that was before."""
        with self._lock:
            if not self._stopped:
                self._releases.append(release)
                return
        release()

    def now(self) -> None:
        with self._lock:
            self._stopped = True
            releases, self._releases = self._releases, []
        for release in releases:
            release()

    def raise_if_stopped(self) -> None:
        if self._stopped:
            raise Stopped


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent wants from the human before it goes on; `schema` is the flat subset of MCP elicitation (page 5)."""

    message: str
    mode: Literal["form", "url", "confirm"] = "confirm"
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None
    """Where the human does it, in the mode `url`."""
    durable: bool = False
    """An agent's own question, whose answer may also come when the turn has ended; any other dies with its asker."""
    session: str | None = None
    turn: int | None = None
    agent: str = ""
    """Who asks, as the core fills it in: a provider leaves these three as they are."""
    withdrawn: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """Set by the asker when it wants no answer any more; `ask` then returns `cancel` by `asker`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question; `by` tells a human's cancel from `expiry`, from a withdrawal by the `asker`, from `nobody` there
    to ask, and from a `refused` one that may not be put, and from `later`: a durable question that stays open, whose answer comes as a message of another turn.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict)
    by: str = "human"


Ask = Callable[[Question], Answer]
"""The question broker as a provider sees it: blocks until there is an answer."""


# -- the provider ---------------------------------------------------------------------------------


CheckStatus = Literal["works", "not_installed", "not_logged_in", "no_credentials", "no_region", "unknown_model", "refused", "unreachable", "quota", "error"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a backend answers, in one word for programs and one line for people."""

    ok: bool
    status: CheckStatus
    detail: str = ""
    hint: str | None = None


class Provider(Protocol):
    """One configured agent's backend. Made by its kind's factory; opens nothing until `run` or `check`."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do, for its configured model."""

    @property
    def model(self) -> str | None:
        """The model that is asked for, where one is configured."""

    def preview(self, request: Request) -> Mapping[str, Any]:
        """What `run` would send, without sending: `{"body": …}` or `{"argv": …, "system_prompt_file": …, "stdin": …}`; secrets as `***`."""

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        """Send one call and give its events. Raises from the error tree; frees everything when `cancel` is set or the iterator is closed."""

    def check(self) -> CheckResult:
        """Whether the backend answers, spending no tokens where that can be avoided."""


SESSION_MARK = "_ESCALERA_SESSION"
"""A provider that starts processes sets this variable for them, to the session's id: what is left behind is found by it."""

STORE_MARK = "_ESCALERA_STORE"
OWNER_MARK = "_ESCALERA_OWNER"
"""The core's own marks, in the environment it hands out: the data folder, and the process that works with it."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What a factory gets beside its options: who the agent is, and where it works."""

    name: str
    workspace: str
    environ: Mapping[str, str]
    secret_values: Sequence[str] = ()
    """Secrets of other agents, which this agent's children must not see under any name."""
    long_lived: bool = False
    """Whether this process takes many turns: a provider may then keep a child or a connection ready between two of them.

    One that does has a method `close()`, called at the end, which lets go of it; a provider without one is never asked.
    """
    secret_names: Sequence[str] = ()
    """Environment variables that hold secrets of other agents, for the same reason."""
    session_wait: float = 0.0
    """Seconds to wait for a conversation of the agent's own while a turn of another session is in it; then `SessionInUse`."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """By the name of an option, the folder that relative file names in it start from: that of the file that gives it, not the workspace."""


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """A kind of provider as a plugin registers it: its name, the pydantic model of its options, its factory."""

    name: str
    options: type[BaseModel]
    """`extra="forbid"`, so that a misspelt option is an error that names its key. Credentials are `SecretStr`."""
    factory: Callable[[Any, AgentContext], Provider]
    """Called with a validated instance of `options`."""
    summary: str = ""
    environment: tuple[str, ...] = ()
    """Environment variables that its backend reads credentials from by itself: they are its agents' own, and not for the children of others,
    and none of its agents uses an address that only a project's file gives, since its login would go there."""


def tool_calls(parts: Sequence[Part]) -> tuple[ToolCall, ...]:
    """The tool calls among some parts."""
    return tuple(part for part in parts if isinstance(part, ToolCall))
