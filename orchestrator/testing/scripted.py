"""An HTTP server on loopback that answers as a script says, byte for byte: what the fakes of HTTP providers have in common.

Every POST takes the next reply of the script; the connection is closed after it unless the reply holds it open. Pauses are
events that the test sets, so no test has to sleep.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

_HOLD_LIMIT = 60.0
"""Seconds after which a held connection is let go, so that a broken test ends."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived. `body` is the parsed JSON, `None` where there is none.

    `headers` have lower-case names; what came twice stands there with a comma between.
    """

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
    headers: Mapping[str, str] = field(default_factory=dict)
    before_head: threading.Event | None = None
    """Waited for before anything is answered."""
    hold_open: bool = False
    """Keep the connection after the last write, until the client goes."""
    reset: bool = False
    """End with a TCP reset instead of a proper close."""
    refuse: bool = False
    """Answer nothing at all: close at once."""
    chunked: bool = False
    """Send a chunk of the transfer encoding for each write; otherwise the end of the connection is the end of the body."""
    broken: bool = False
    """Close before the chunk that ends the body."""

    @property
    def content(self) -> bytes:
        """All bytes that are written."""
        return b"".join(write for write in self.writes if isinstance(write, bytes))


AnyRequest = TypeVar("AnyRequest", bound=Request)
AnyReply = TypeVar("AnyReply", bound=Reply)


class ScriptedServer(ABC, Generic[AnyRequest, AnyReply]):
    """The server; a context manager. With `tls` it speaks HTTPS."""

    def __init__(self, *script: AnyReply, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[AnyRequest] = []
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
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What to point a client at."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, *script: AnyReply) -> None:
        """Lengthen the script."""
        with self._lock:
            self._script.extend(script)

    def replace(self, *script: AnyReply) -> None:
        """Go on with another script; what was left of the one before is dropped."""
        with self._lock:
            self._script = list(script)

    # -- what one kind of server adds

    @abstractmethod
    def _request(self, arrived: Request) -> AnyRequest:
        """The request as this kind of server keeps it."""

    @abstractmethod
    def _unscripted(self, request: AnyRequest) -> AnyReply:
        """The answer to what takes nothing from the script, or finds it empty."""

    def _as_asked(self, answer: AnyReply, _request: AnyRequest) -> Reply:
        """The scripted answer in the form that the request wants."""
        return answer

    # -- for the handler

    def received(self, arrived: Request) -> Reply:
        """Record a request and give its reply."""
        request = self._request(arrived)
        with self._lock:
            self.requests.append(request)
            if request.method == "POST":
                self.receiving.set()
            scripted = self._script.pop(0) if request.method == "POST" and self._script else None
        return self._as_asked(scripted if scripted is not None else self._unscripted(request), request)

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
    request_queue_size = 128

    def __init__(self, owner: ScriptedServer[Any, Any], tls: ssl.SSLContext | None) -> None:
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
        headers = {name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers}
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
        self._write_head(answer)
        for write in answer.writes:
            if isinstance(write, bytes):
                self._write_piece(write, answer)
            elif isinstance(write, float | int):
                time.sleep(write)
            elif not owner.waits(write, self.connection):
                return
        if answer.hold_open:
            owner.waits(threading.Event(), self.connection)
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif answer.chunked and not answer.broken:
            self.wfile.write(b"0\r\n\r\n")

    def _write_head(self, answer: Reply) -> None:
        self.send_response(answer.status)
        framing = {"transfer-encoding": "chunked"} if answer.chunked else {}
        for name, value in {**answer.headers, **framing, "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

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


class LoopbackServer(ScriptedServer[Request, Reply]):
    """A server of no particular kind: POSTs are answered by the script, and what else is asked for by `pages`, by its path."""

    def __init__(self, *script: Reply, pages: Mapping[str, Reply] | None = None) -> None:
        super().__init__(*script)
        self.pages = dict(pages or {})

    def _request(self, arrived: Request) -> Request:
        return arrived

    def _unscripted(self, request: Request) -> Reply:
        if request.method == "POST":
            return Reply([b"the script is over"], 418)
        return self.pages.get(request.path, Reply([b"not found"], 404))
