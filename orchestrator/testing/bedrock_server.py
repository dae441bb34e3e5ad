"""A scripted Bedrock runtime on loopback, for tests that want the real AWS client and no AWS.

    with BedrockServer(say("hello"), fail(429, "ThrottlingException", "Too many requests")) as server:
        environ["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"] = server.url        # any credentials will do: signatures are not checked
        ...
        assert server.requests[0].body["messages"]

Every POST takes the next reply of the script. A stream is `application/vnd.amazon.eventstream`, written byte for byte
as it is scripted: one chunk of the transfer encoding for each write, so that a test decides where bytes are cut
(`split`), where the stream ends (`cut_at`) and what is waited for. A reply that was made from events answers
`Converse` as well, in one JSON document. Pauses are events that the test sets, so no test has to sleep.
"""

from __future__ import annotations

import base64
import json
import struct
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from orchestrator.testing import scripted
from orchestrator.testing.scripted import ScriptedServer

EVENT_STREAM = "application/vnd.amazon.eventstream"

_STRING = 7
"""The type of a header whose value is a text, the only one that Bedrock sends."""

Event = Mapping[str, Any]
"""One event as the client shows it: a mapping of its one name to its content, such as `{"messageStop": {"stopReason": "end_turn"}}`.

Names that end in `Exception` travel as exceptions.
"""


@dataclass(frozen=True, slots=True)
class Request(scripted.Request):
    """One request as it arrived."""

    @property
    def model(self) -> str:
        """The model that is asked for; empty for a path without one."""
        parts = self.path.split("/")
        return urllib.parse.unquote(parts[2]) if len(parts) > 3 and parts[1] == "model" else ""

    @property
    def streams(self) -> bool:
        """Whether it asks for a stream."""
        return self.path.endswith("-stream")


@dataclass(frozen=True, slots=True)
class Reply(scripted.Reply):
    """One answer, an event stream in chunks unless it says otherwise."""

    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": EVENT_STREAM})
    chunked: bool = True
    events: Sequence[Event] | None = None
    """What it was made from, for a request that does not stream."""


# -- the script -----------------------------------------------------------------------------------


def say(
    text: str,
    *,
    stop_reason: str = "end_turn",
    usage: Mapping[str, int] | None = None,
    reasoning: tuple[str, str] | None = None,
    calls: Sequence[tuple[str, str, Mapping[str, Any]]] = (),
) -> Reply:
    """An answer, a word an event; before it a signed reasoning (text, signature), after it tool calls (id, name, input).

    `usage` as in the metadata: `{"inputTokens": 12, "outputTokens": 2}`.
    """
    blocks: list[Iterable[Event]] = []
    if reasoning is not None:
        thought, signature = reasoning
        blocks.append(_deltas(len(blocks), [{"reasoningContent": {"text": thought}}, {"reasoningContent": {"signature": signature}}]))
    if text:
        blocks.append(_deltas(len(blocks), [{"text": piece} for piece in _words(text)]))
    for call_id, name, arguments in calls:
        blocks.append(_call(len(blocks), call_id, name, json.dumps(arguments)))
    stop: Event = {"messageStop": {"stopReason": "tool_use" if calls and stop_reason == "end_turn" else stop_reason}}
    return stream({"messageStart": {"role": "assistant"}}, *(event for block in blocks for event in block), stop, metadata(usage))


def call(name: str, arguments: Mapping[str, Any], *, id: str = "tooluse_1", text: str = "") -> Reply:  # noqa: A002 - the field's own word
    """An answer that calls one tool, after a text if there is one."""
    return say(text, calls=[(id, name, arguments)])


def metadata(usage: Mapping[str, int] | None = None, **more: Any) -> Event:
    """The event after the end of a message; its `totalTokens` are added up."""
    counted = dict(usage or {"inputTokens": 10, "outputTokens": 5})
    counted.setdefault("totalTokens", sum(counted.values()))
    return {"metadata": {"usage": counted, "metrics": {"latencyMs": 1}, **more}}


def stream(*events: Event) -> Reply:
    """A stream of these events, a frame each."""
    return Reply([frame_of(event) for event in events], events=events)


def fail(status: int, name: str, message: str, *, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
    """A refusal before any stream: `fail(429, "ThrottlingException", "Too many tokens, please wait")`."""
    body = json.dumps({"message": message, **fields}).encode()
    return Reply([body], status, {"content-type": "application/json", "x-amzn-errortype": name, "x-amzn-requestid": "scripted", **(headers or {})})


def split(reply: Reply, size: int) -> Reply:
    """The same bytes in writes of `size`."""
    content = reply.content
    return replace(reply, writes=[content[start : start + size] for start in range(0, len(content), size)])


def cut_at(reply: Reply, position: int, *, broken: bool = False) -> Reply:
    """Only the first `position` bytes; `broken`: and the connection is lost there, rather than the body ended."""
    return replace(reply, writes=[reply.content[:position]], broken=broken)


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _deltas(index: int, deltas: Iterable[Mapping[str, Any]]) -> list[Event]:
    return [*({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}} for delta in deltas), {"contentBlockStop": {"contentBlockIndex": index}}]


def _call(index: int, call_id: str, name: str, arguments: str) -> list[Event]:
    start: Event = {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": call_id, "name": name}}}}
    half = len(arguments) // 2
    return [start, *_deltas(index, [{"toolUse": {"input": piece}} for piece in (arguments[:half], arguments[half:])])]


def _document(events: Iterable[Event]) -> dict[str, Any]:
    """The same answer as `Converse` gives it."""
    blocks: dict[int, dict[str, Any]] = {}
    document: dict[str, Any] = {}
    for event in events:
        for name, content in event.items():
            if name == "contentBlockStart":
                blocks[content["contentBlockIndex"]] = {key: {**value, "input": ""} for key, value in content["start"].items()}
            elif name == "contentBlockDelta":
                _grow(blocks.setdefault(content["contentBlockIndex"], {}), content["delta"])
            elif name in ("messageStop", "metadata"):
                document |= content
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return {"output": {"message": {"role": "assistant", "content": list(blocks.values())}}, **document}


def _grow(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    if "text" in delta:
        block["text"] = block.get("text", "") + delta["text"]
    elif "toolUse" in delta:
        block["toolUse"]["input"] += delta["toolUse"]["input"]
    elif "redactedContent" in delta.get("reasoningContent", {}):
        block["reasoningContent"] = {"redactedContent": delta["reasoningContent"]["redactedContent"]}
    elif "reasoningContent" in delta:
        told = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {})
        for key, value in delta["reasoningContent"].items():
            told[key] = told.get(key, "") + value


# -- the wire format ------------------------------------------------------------------------------


def frame_of(event: Event) -> bytes:
    """One event as a frame: an exception where its name says so."""
    ((name, content),) = event.items()
    kind = {":exception-type": name, ":message-type": "exception"} if name.endswith("Exception") else {":event-type": name, ":message-type": "event"}
    return frame({**kind, ":content-type": "application/json"}, json.dumps(content, default=_blob).encode())


def error_frame(code: str, message: str) -> bytes:
    """A failure that the service does not model: code and message in headers, no content."""
    return frame({":message-type": "error", ":error-code": code, ":error-message": message})


def frame(headers: Mapping[str, str], payload: bytes = b"") -> bytes:
    """One message: total length, length of the headers, their checksum; headers; payload; checksum of it all."""
    head = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return message + struct.pack(">I", crc32(message))


def _header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return struct.pack(">B", len(key)) + key + struct.pack(">BH", _STRING, len(text)) + text


def _blob(value: object) -> str:
    """Bytes travel in base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} is nothing that can be sent")


# -- the server -----------------------------------------------------------------------------------


class BedrockServer(ScriptedServer[Request, Reply]):
    """The server; a context manager. `url` is what to set as the endpoint."""

    def _request(self, arrived: scripted.Request) -> Request:
        return Request(arrived.method, arrived.path, arrived.headers, arrived.raw, arrived.body)

    def _unscripted(self, request: Request) -> Reply:
        return fail(418, "ScriptIsOver", "the script is over") if request.method == "POST" else fail(404, "UnknownOperationException", "nothing is here")

    def _as_asked(self, answer: Reply, request: Request) -> Reply:
        if answer.events is None or request.streams:
            return answer
        return replace(answer, writes=[json.dumps(_document(answer.events), default=_blob).encode()], headers={"content-type": "application/json"})
