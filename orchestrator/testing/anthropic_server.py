"""A loopback stand-in for the Messages API, for tests of programs that speak to it (`claude` does).

    with AnthropicServer([Say("Hello."), CallTool("Bash", {"command": "ls"}), Say("Done."), Fail(529, "overloaded_error")]) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url

Each request for a message takes the next step; when none is left, `Say("ok")` answers. Every request is kept in `requests`.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True, slots=True)
class Say:
    """An answer of one text, streamed in pieces of `piece` characters where streaming is asked for."""

    text: str
    stop_reason: str = "end_turn"
    piece: int = 8


@dataclass(frozen=True, slots=True)
class CallTool:
    """An answer that calls one tool, after a text if there is one."""

    name: str
    arguments: Mapping[str, Any]
    text: str = ""
    id: str = "toolu_01"


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error in the form of the API, such as `Fail(529, "overloaded_error", "Overloaded")`."""

    status: int
    kind: str
    message: str = "scripted failure"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hang:
    """An answer, streamed or not, that says `text` and then nothing more, until the server is closed or the client goes.

    Without text not even headers come.
    """

    text: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """An answer, streamed or not, that says `text` and then loses its connection; before that it says all of `whole`, in a block of its own."""

    text: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Foreign:
    """An answer with status 200 that is none of the API's, such as a login page."""

    content: str
    content_type: str = "text/html"


Step = Say | CallTool | Fail | Hang | Break | Foreign

Event = tuple[str, dict[str, Any]]
"""The name and the data of a server-sent event."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in; `body` is its JSON object."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def is_message(self) -> bool:
        """Whether it asks for an answer, and so takes a step."""
        return self.method == "POST" and self.path.partition("?")[0] == "/v1/messages"


class AnthropicServer:
    """Answers on 127.0.0.1 from `start` (or `with`) to `close`, each request in a thread of its own."""

    def __init__(self, steps: Sequence[Step] = (), *, model: str = "scripted-model") -> None:
        self.requests: list[Received] = []
        """Everything that came in, in order."""
        self.model = model
        """The model that answers claim when a request names none."""
        self._steps = list(steps)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closed = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """What to set as `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def messages(self) -> list[Received]:
        """The requests for a message, without the rest."""
        with self._lock:
            return [request for request in self.requests if request.is_message]

    def add(self, *steps: Step) -> None:
        """Lengthen the script."""
        with self._lock:
            self._steps.extend(steps)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and let go of every stream that hangs."""
        self._closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for_messages(self, count: int, timeout: float) -> bool:
        """Wait until so many requests for a message came; whether they did."""
        with self._changed:
            return self._changed.wait_for(lambda: sum(request.is_message for request in self.requests) >= count, timeout)

    def __enter__(self) -> AnthropicServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def take(self, request: Received) -> tuple[Step, int]:
        """Keep a request and give the step that answers it, with its number."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            step = self._steps.pop(0) if request.is_message and self._steps else Say("ok")
            return step, len(self.requests)

    def hang(self, connection: socket.socket) -> None:
        """Block until the server is closed or the client has gone."""
        while not self._closed.wait(0.02) and not _is_gone(connection):
            pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, script: AnthropicServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is part of what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self._send_json(200, {})

    def do_GET(self) -> None:
        self.server.script.take(Received("GET", self.path, dict(self.headers), {}))
        self._send_json(404, _error("not_found_error", "nothing is here"))

    def do_POST(self) -> None:
        body = _object(self.rfile.read(int(self.headers.get("content-length") or 0)))
        request = Received("POST", self.path, dict(self.headers), body)
        step, number = self.server.script.take(request)
        if not request.is_message:
            return self._send_json(200, {"input_tokens": 10})
        return self._answer(step, number, request)

    def log_message(self, *args: object) -> None:
        """Nothing: tests read what they are given."""

    def _answer(self, step: Step, number: int, request: Received) -> None:
        if isinstance(step, Fail):
            return self._send_json(step.status, _error(step.kind, step.message), step.headers)
        if isinstance(step, Foreign):
            return self._send(200, step.content.encode(), {"content-type": step.content_type})
        if isinstance(step, Hang) and not step.text:
            return self.server.script.hang(self.connection)
        message = _message(step, number, str(request.body.get("model") or self.server.script.model))
        if request.body.get("stream"):
            return self._stream(step, message)
        return self._send_json(200, message) if isinstance(step, Say | CallTool) else self._send_part(step, message)

    def _send_part(self, step: Step, message: Mapping[str, Any]) -> None:
        """The document up to its end of the content, and nothing of what its length promises behind that."""
        data = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.close_connection = True
        self.wfile.write(data[: data.rindex(b'"stop_reason"')])
        self.wfile.flush()
        if isinstance(step, Hang):
            self.server.script.hang(self.connection)

    def _stream(self, step: Step, message: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        piece = step.piece if isinstance(step, Say) else 8
        last = None if isinstance(step, Say | CallTool) else len(message["content"]) - 1
        for name, data in _events(message, piece=piece):
            if name == "content_block_stop" and data["index"] == last:
                break
            self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()
        if isinstance(step, Hang):
            self.server.script.hang(self.connection)

    def _send_json(self, status: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"content-type": "application/json", **(headers or {})})

    def _send(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, text in {"content-length": str(len(data)), "request-id": "req_scripted", **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _message(step: Step, number: int, model: str) -> dict[str, Any]:
    """A whole message, as it is answered without streaming."""
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _content(step),
        "stop_reason": "tool_use" if isinstance(step, CallTool) else getattr(step, "stop_reason", "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 20, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }


def _content(step: Step) -> list[dict[str, Any]]:
    texts = (getattr(step, "whole", ""), getattr(step, "text", ""))
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts if text]
    if isinstance(step, CallTool):
        blocks.append({"type": "tool_use", "id": step.id, "name": step.name, "input": dict(step.arguments)})
    return blocks


def _events(message: Mapping[str, Any], *, piece: int) -> Iterator[Event]:
    """The same message as the events of a stream."""
    yield "message_start", {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        empty = {"type": "text", "text": ""} if block["type"] == "text" else {**block, "input": {}}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in _deltas(block, piece):
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": ending, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield "message_stop", {"type": "message_stop"}


def _deltas(block: Mapping[str, Any], piece: int) -> Iterator[dict[str, str]]:
    kind, key, text = ("text_delta", "text", block["text"]) if block["type"] == "text" else ("input_json_delta", "partial_json", json.dumps(block["input"]))
    for start in range(0, len(text), piece):
        yield {"type": kind, key: text[start : start + piece]}


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has closed: readable, and nothing to read."""
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
