"""A scripted OpenAI-compatible server on loopback, for tests that want real sockets and no network.

    with OpenAIServer(reply("hello", usage=(12, 2))) as server:
        ...                                         # point an agent's base_url at server.url
        assert server.requests[0].body["messages"]

Every POST is answered by the next reply of the script, byte for byte; the connection is closed after it unless the
reply holds it open. `GET …/models` lists `models` and takes nothing from the script. Pauses are events that the test
sets, so no test has to sleep.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

_HOLD_LIMIT = 60.0
"""Seconds after which a held connection is let go, so that a broken test ends."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived. `headers` have lower-case names; `body` is the parsed JSON, `None` where there is none."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `writes` are sent one by one; an event among them is waited for before the next, a number is a pause in seconds."""

    writes: Sequence[bytes | float | threading.Event] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    before_head: threading.Event | None = None
    """Waited for before anything is answered."""
    hold_open: bool = False
    """Keep the connection after the last write, until the client goes."""
    reset: bool = False
    """End with a TCP reset instead of a proper close."""
    refuse: bool = False
    """Answer nothing at all: close at once."""


def reply(text: str, *, usage: tuple[int, int] | None = None, model: str = "fake", finish_reason: str = "stop") -> Reply:
    """A streamed answer, a word an event; `usage` is (prompt tokens, completion tokens)."""
    words = [word + " " for word in text.split(" ")]
    words[-1] = words[-1][:-1]
    chunks: list[Mapping[str, Any]] = [chunk({"content": word}, model=model) for word in words]
    chunks.append(chunk({}, finish_reason=finish_reason, model=model))
    if usage is not None:
        sent, received = usage
        chunks.append({"model": model, "choices": [], "usage": {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}})
    return sse(*chunks)


def chunk(delta: Mapping[str, Any] | None, *, finish_reason: str | None = None, model: str = "fake", **fields: Any) -> dict[str, Any]:
    """One chunk of an answer; `fields` stand beside `choices`."""
    return {"id": "c1", "object": "chat.completion.chunk", "model": model, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **fields}


def sse(*events: Mapping[str, Any], done: bool = True) -> Reply:
    """A stream of these events, with `[DONE]` at its end unless told otherwise."""
    frames = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return Reply([*frames, b"data: [DONE]\n\n"] if done else frames)


def json_reply(document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A JSON document: an answer that is not streamed, or an error."""
    return Reply([json.dumps(document).encode()], status, {"content-type": "application/json", **(headers or {})})


class OpenAIServer:
    """The server; a context manager. `url` is its base URL, with `/v1`."""

    def __init__(self, *script: Reply, models: Sequence[str] = ("fake",)) -> None:
        self.models = tuple(models)
        self.requests: list[Request] = []
        """Every request so far, in order."""
        self.client_gone = threading.Event()
        """Set when a client left a reply that was being held, paused or written."""
        self.receiving = threading.Event()
        """Set as soon as a POST has arrived."""
        self._script = list(script)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

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

    def replace(self, *script: Reply) -> None:
        """Go on with another script; what was left of the one before is dropped."""
        with self._lock:
            self._script = list(script)

    # -- for the handler

    def received(self, request: Request) -> Reply:
        """Record a request and give its reply."""
        with self._lock:
            self.requests.append(request)
            if request.method == "GET":
                return self._get(request)
            self.receiving.set()
            return self._script.pop(0) if self._script else json_reply({"error": {"message": "the script is over"}}, status=418)

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

    def _get(self, request: Request) -> Reply:
        if request.path.endswith("/models"):
            return json_reply({"object": "list", "data": [{"id": model, "object": "model"} for model in self.models]})
        return json_reply({"error": {"message": "not found"}}, status=404)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True

    def __init__(self, owner: OpenAIServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner


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
        answer = owner.received(Request(self.command, self.path, headers, raw, _parsed(raw)))
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
        for name, value in {**answer.headers, "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        for write in answer.writes:
            if isinstance(write, bytes):
                self.wfile.write(write)
            elif isinstance(write, float | int):
                time.sleep(write)
            elif not owner.waits(write, self.connection):
                return
        if answer.hold_open:
            owner.waits(threading.Event(), self.connection)
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has closed: readable, and nothing to read."""
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
