"""What the tests of this plugin share: an AWS environment of their own, agents on loopback servers, turns told as one value."""

from __future__ import annotations

import json
import os
import random
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import botocore.loaders
import pytest
from escalera_bedrock.options import BedrockOptions
from escalera_bedrock.provider import BedrockProvider, bedrock_provider

from orchestrator.dispatch.retry import with_retries
from orchestrator.errors import ProviderError
from orchestrator.messages import Message, Part, Text, ToolCall, ToolResult, Usage
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
    ToolSchema,
    UsageReport,
)
from orchestrator.testing.bedrock_server import BedrockServer, Reply

TRIALS = Path(__file__).parents[3] / "tests" / "trials"
MODEL = "us.anthropic.claude-test-v1:0"
TOOL = ToolSchema("search", "Search the web.", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
REQUEST = Request("strong", (SystemBlock("static", "You are here."),), (Message("user", (Text("hello"),)),), timeouts=Timeouts(60, 60, 120))


CERTIFICATE = Path(__file__).parent / "data" / "loopback.pem"


def tls() -> ssl.SSLContext:
    """A server's side of TLS, with a certificate for loopback that is trusted by nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


@pytest.fixture(scope="session", autouse=True)
def _service_models_are_read_once() -> Iterator[None]:
    """botocore reads its descriptions of the services for every client; here there are hundreds."""
    loader = botocore.loaders.create_loader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.loaders, "create_loader", lambda search_path_string=None: loader)
        yield


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dummy credentials, a home of its own (returned), and nothing of the AWS or proxy settings around."""
    for name in list(os.environ):
        if name.upper().startswith("AWS_") or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDDUMMY0000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "dummy-secret-access-key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


@dataclass(frozen=True)
class Turn:
    """A call that was run to its end, whatever that was."""

    events: tuple[Event, ...]
    error: ProviderError | None = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def parts(self) -> tuple[Part, ...]:
        return next((event.parts for event in self.events if isinstance(event, MessageDone)), ())

    @property
    def calls(self) -> list[ToolCall]:
        return [part for part in self.parts if isinstance(part, ToolCall)]

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
        partial_wait = self.error.type == "TimedOut" and self.error.which == "idle" and self.error.partial
        return {"Incomplete": "incomplete", "EmptyAnswer": "empty", "Blocked": "blocked"}.get(self.error.type, "incomplete" if partial_wait else "error")


def nobody(question: Question) -> Answer:
    raise AssertionError("Bedrock asks nobody")


def bedrock(url: str | None, **options: Any) -> BedrockProvider:
    checked = BedrockOptions(**{"model": MODEL, "region": "us-east-1", "endpoint_url": url, **options})
    return bedrock_provider(checked, AgentContext("strong", "/workspace", {}))


def run(provider: BedrockProvider, request: Request = REQUEST, cancel: Cancel | None = None) -> Turn:
    """One call, run to its end."""
    events: list[Event] = []
    try:
        events.extend(provider.run(request, cancel=cancel or Cancel(), ask=nobody))
    except ProviderError as error:
        return Turn(tuple(events), error)
    return Turn(tuple(events))


def warmed(server: BedrockServer, **options: Any) -> BedrockProvider:
    """A provider that has its client already, so that short limits measure the call alone; takes the first reply of the script."""
    provider = bedrock(server.url, **options)
    assert run(provider).outcome == "ok"
    server.receiving.clear()
    return provider


def play(*script: Reply, request: Request = REQUEST, **options: Any) -> Turn:
    """One call against a server with this script."""
    with BedrockServer(*script) as server:
        return run(bedrock(server.url, **options), request)


@dataclass
class Waiting:
    """A clock whose sleeps take no time and are remembered."""

    waits: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.waits)

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        self.waits.append(seconds)


def run_with_retries(provider: BedrockProvider, request: Request = REQUEST, *, attempts: int = 3) -> tuple[Turn, list[float]]:
    """The call under the core's retry policy, and the waits between its attempts."""
    clock, emitted = Waiting(), list[Event]()

    def send() -> Turn:
        emitted.clear()
        emitted.extend(provider.run(request, cancel=Cancel(), ask=nobody))
        return Turn(tuple(emitted))

    try:
        turn = with_retries(
            send,
            may_retry=lambda: not emitted,
            attempts=attempts,
            max_wait=60,
            clock=clock,
            cancel=Cancel(),
            jitter=random.Random(1),
            announce=lambda error, wait, attempt: None,
        )
    except ProviderError as error:
        turn = Turn(tuple(emitted), error)
    return turn, clock.waits


def trial(name: str) -> Any:
    return json.loads((TRIALS / name).read_text(encoding="utf-8"))


def history(chat: list[dict[str, Any]]) -> tuple[Message, ...]:
    """A history in chat form as messages, with all its damage."""
    return tuple(_message(entry) for entry in chat)


def _message(entry: dict[str, Any]) -> Message:
    content = entry.get("content") or ""
    texts = [content] if isinstance(content, str) else [block["text"] for block in content]
    if entry["role"] == "tool":
        return Message("user", (ToolResult(entry["tool_call_id"], texts[0]),))
    calls = [ToolCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in entry.get("tool_calls", ())]
    return Message(entry["role"], (*(Text(text) for text in texts), *calls))


def violations(body: dict[str, Any]) -> list[str]:
    """Which of the invariants B1 to B11 a body breaks; written apart from what builds it."""
    messages = body["messages"]
    kinds = [[next(iter(block)) for block in message["content"]] for message in messages]
    found = [] if messages and messages[0]["role"] == "user" else ["B1 the first message is not the user's"]
    found += ["B2 neighbours share a role" for one, two in pairwise(messages) if one["role"] == two["role"]]
    texts = [block["text"] for blocks in (body.get("system", ()), *(message["content"] for message in messages)) for block in blocks if "text" in block]
    inner = [piece.get("text", "") for message in messages for block in message["content"] for piece in block.get("toolResult", {}).get("content", ())]
    found += ["B3 blank text" for text in (*texts, *inner) if not text.strip()] + ["B3 empty message" for blocks in kinds if not blocks]
    for message, following in zip(messages, [*messages[1:], {"content": ()}], strict=True):
        asked = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
        given = [block["toolResult"]["toolUseId"] for block in following["content"] if "toolResult" in block]
        found += ["B4 calls are not answered next, all together"] if set(asked) - set(given) else []
        found += ["B5 result without its call"] if set(given) - set(asked) or len(given) != len(set(given)) else []
    for message, names in zip(messages, kinds, strict=True):
        results = [place for place, name in enumerate(names) if name == "toolResult"]
        found += ["B4 results do not come first"] if results != list(range(len(results))) else []
        order = [("reasoningContent", "text", "toolUse").index(name) for name in names if name not in ("toolResult", "cachePoint")]
        found += ["reasoning, text, calls are out of order"] if message["role"] == "assistant" and order != sorted(order) else []
    used = {name for names in kinds for name in names}
    found += ["B6 tool blocks without configuration"] if used & {"toolUse", "toolResult"} and not body.get("toolConfig", {}).get("tools") else []
    flat = [name for names in kinds for name in names]
    points = flat.count("cachePoint") + sum("cachePoint" in block for block in (*body.get("system", ()), *body.get("toolConfig", {}).get("tools", ())))
    found += ["B7 more than four cache points"] if points > 4 else []
    found += ["B8 cache point after reasoning"] if "reasoningContent" in flat and "cachePoint" in flat[flat.index("reasoningContent") :] else []
    found += [] if messages and messages[-1]["role"] == "user" else ["B9 the last message is not the user's"]
    found += ["B10 system message among the others" for message in messages if message["role"] not in ("user", "assistant")]
    ids = [block["toolUse"]["toolUseId"] for message in messages for block in message["content"] if "toolUse" in block]
    return found + (["B11 ids repeat or are empty"] if len(set(ids)) != len(ids) or not all(ids) else [])


@pytest.fixture
def scripted() -> Iterator[Callable[..., BedrockServer]]:
    """Servers that are closed at the end of the test."""
    servers: list[BedrockServer] = []

    def start(*script: Reply) -> BedrockServer:
        server = BedrockServer(*script)
        servers.append(server.__enter__())
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)
