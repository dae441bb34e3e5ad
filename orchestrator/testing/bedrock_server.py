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
import select
import socket
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from zlib import crc32

EVENT_STREAM = "application/vnd.amazon.eventstream"

_HOLD_LIMIT = 60.0
"""Seconds after which a held connection is let go, so that a broken test ends."""
_STRING = 7
"""The type of a header whose value is a text, the only one that Bedrock sends."""

Event = Mapping[str, Any]
"""One event as the client shows it: a mapping of its one name to its content, such as `{"messageStop": {"stopReason": "end_turn"}}`.

Names that end in `Exception` travel as exceptions.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived. `headers` have lower-case names; `body` is the parsed JSON, `None` where there is none."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any = None

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
class Reply:
    """One answer. `writes` are sent one by one; an event among them is waited for before the next."""

    writes: Sequence[bytes | threading.Event] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": EVENT_STREAM})
    events: Sequence[Event] | None = None
    """What it was made from, for a request that does not stream."""
    before_head: threading.Event | None = None
    """Waited for before anything is answered."""
    hold_open: bool = False
    """Keep the connection after the last write, until the client goes."""
    reset: bool = False
    """End with a TCP reset instead of a proper close."""
    refuse: bool = False
    """Answer nothing at all: close at once."""
    chunked: bool = True
    """Send in chunks, as Bedrock does; otherwise the end of the connection is the end of the body."""
    broken: bool = False
    """Close before the chunk that ends the body."""

    @property
    def content(self) -> bytes:
        """All bytes that are written."""
        return b"".join(write for write in self.writes if isinstance(write, bytes))


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


class BedrockServer:
    """The server; a context manager. `url` is what to set as the endpoint. With `tls` it speaks HTTPS."""

    def __init__(self, *script: Reply, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        """Every request so far, in order."""
        self.client_gone = threading.Event()
        """Set when a client left a reply that was being held, paused or written."""
        self.receiving = threading.Event()
        """Set as soon as a POST has arrived."""
        self._script = list(script)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._scheme = "http" if tls is None else "https"
        self._server = _Server(self, tls)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, *script: Reply) -> None:
        """Lengthen the script."""
        with self._lock:
            self._script.extend(script)

    # -- for the handler

    def received(self, request: Request) -> Reply:
        """Record a request and give its reply."""
        with self._lock:
            self.requests.append(request)
            if request.method != "POST":
                return fail(404, "UnknownOperationException", "nothing is here")
            self.receiving.set()
            return self._script.pop(0) if self._script else fail(418, "ScriptIsOver", "the script is over")

    def waits(self, event: threading.Event, connection: socket.socket) -> bool:
        """Wait for an event; false when the client or the server ends first."""
        left = _HOLD_LIMIT
        while left > 0 and not event.wait(0.02):
            left -= 0.02
            if self._closing.is_set():
                return False
            if _is_gone(connection):
                self.client_gone.set()
                return False
        return event.is_set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True

    def __init__(self, owner: BedrockServer, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner
        self._tls = tls

    def finish_request(self, request: Any, client_address: Any) -> None:  # the base class leaves both open
        """In the connection's own thread; a handshake that fails is the client's affair."""
        with suppress(ssl.SSLError):
            super().finish_request(request if self._tls is None else self._tls.wrap_socket(request, server_side=True), client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("content-length", 0))))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def _answer(self, raw: bytes) -> None:
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, raw, _parsed(raw))
        answer = owner.received(request)
        if answer.events is not None and not request.streams:
            answer = replace(answer, writes=[json.dumps(_document(answer.events), default=_blob).encode()], headers={"content-type": "application/json"})
        self.close_connection = True
        try:
            self._write(answer)
        except OSError:
            owner.client_gone.set()

    def _write(self, answer: Reply) -> None:
        owner = self.server.owner
        if answer.refuse or (answer.before_head is not None and not owner.waits(answer.before_head, self.connection)):
            return
        self.send_response(answer.status)
        framing = {"transfer-encoding": "chunked"} if answer.chunked else {}
        for name, value in {**answer.headers, **framing, "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        for write in answer.writes:
            if isinstance(write, bytes):
                self._write_piece(write, answer)
            elif not owner.waits(write, self.connection):
                return
        if answer.hold_open:
            owner.waits(threading.Event(), self.connection)
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif answer.chunked and not answer.broken:
            self.wfile.write(b"0\r\n\r\n")

    def _write_piece(self, piece: bytes, answer: Reply) -> None:
        if piece and answer.chunked:
            piece = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        self.wfile.write(piece)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has closed: readable, and nothing to read."""
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        if isinstance(connection, ssl.SSLSocket):
            return bool(readable) and connection.recv(1) == b""  # TLS cannot be peeked into; no client of ours sends twice
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
