"""The HTTP of one call, over a connection that can be shut down from outside whatever it is doing."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import urllib3.connection
from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool, AWSHTTPSConnection, AWSHTTPSConnectionPool
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError, SSLError

from escalera_bedrock.client import CONNECT_TIMEOUT, Connection
from orchestrator.exchange import Watch
from orchestrator.providers import NO_WIRE, Stop, Wire

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_DIAL_SLICE = 1.5
"""Seconds of one attempt to connect, after which it looks whether it shall stop; nothing was sent by then."""
_SOCKET_OPTIONS = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]


@contextmanager
def wired(connection: Connection, watch: Watch, read_timeout: float | None, wire: Wire = NO_WIRE) -> Iterator[None]:
    """Send what this thread's calls of the client send over a connection of their own, which closes with its answer; `wire` is told of it.

    None is ever used twice: with retries off, one that the server has dropped in the meantime would fail a turn.
    """
    events = connection.client.meta.events
    thread = threading.get_ident()
    http = _Session(connection, watch, read_timeout)

    def send(request: Any, **_: Any) -> Any:  # botocore's AWSPreparedRequest and AWSResponse
        if threading.get_ident() != thread:
            return None
        watch.stop.raise_if_stopped()
        wire.hide(*connection.secrets, _text(request.headers.get("X-Amz-Security-Token", "")))
        _tell_request(wire, request)
        response = http.send(request)
        wire.received(f"HTTP {response.status_code}\n")
        if response.status_code >= 300 or not request.stream_output:
            wire.received(response.content)
        return response

    events.register("before-send.bedrock-runtime", send)
    try:
        yield
    finally:
        events.unregister("before-send.bedrock-runtime", send)
        http.close()


def _tell_request(wire: Wire, request: Any) -> None:
    wire.begin()
    wire.sent(f"{request.method} {request.url}\n")
    for name, value in request.headers.items():
        wire.sent(f"{name}: {_text(value) if name.lower() in _SHOWN else '***'}\n")
    wire.sent(b"\n")
    wire.sent(request.body if isinstance(request.body, str | bytes) else b"")


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


_SHOWN = frozenset({"content-type", "content-length", "user-agent", "x-amz-date"})


class _Session(URLLib3Session):  # type: ignore[misc]  # botocore has no types
    """botocore's HTTP for one call, over connections that its watch knows of. An agent's calls share the certificates, whose reading takes longer."""

    def __init__(self, connection: Connection, watch: Watch, read_timeout: float | None) -> None:
        self._tls = connection.tls
        config = connection.client.meta.config
        super().__init__(
            verify=connection.verify,
            proxies=config.proxies or get_environ_proxies(connection.where),
            timeout=(CONNECT_TIMEOUT, read_timeout),
            socket_options=_SOCKET_OPTIONS,
            client_cert=config.client_cert,
        )
        pools = {"http": partial(_PlainPool, watch), "https": partial(_SecurePool, watch)}
        self._pool_classes_by_scheme = pools
        self._manager.pool_classes_by_scheme = pools

    def _get_ssl_context(self) -> ssl.SSLContext:
        return self._tls

    def _setup_ssl_cert(self, conn: Any, url: str, verify: str | bool) -> None:  # Any: one of the pools
        super()._setup_ssl_cert(conn, url, verify)
        if conn.ca_certs and not self._tls.cert_store_stats()["x509"]:
            try:
                self._tls.load_verify_locations(conn.ca_certs)
            except OSError as error:
                raise SSLError(error) from error
        conn.ca_certs = None  # else each connection reads them


class _Watching:
    """A connection that hands its socket to the `Stop` of a call, and waits no longer than that does."""

    def __init__(self, watch: Watch, *given: Any, **named: Any) -> None:  # Any: as urllib3 has it
        self._watch = watch
        super().__init__(*given, **named)

    def _new_conn(self) -> socket.socket:
        return dialled(self, self._watch.stop)  # type: ignore[arg-type]  # one of the two below

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.sock: Any = _Watched(self.sock, self._watch)  # Any: as good as a socket


class _Plain(_Watching, AWSHTTPConnection):  # type: ignore[misc]
    """HTTP."""


class _Secure(_Watching, AWSHTTPSConnection):  # type: ignore[misc]
    """HTTPS."""


class _PlainPool(AWSHTTPConnectionPool):  # type: ignore[misc]
    def __init__(self, watch: Watch, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ConnectionCls = partial(_Plain, watch)


class _SecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    def __init__(self, watch: Watch, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ConnectionCls = partial(_Secure, watch)


class _Watched:
    """A connected socket whose answer is read for no longer than the call may wait."""

    def __init__(self, connected: socket.socket, watch: Watch) -> None:
        self._connected, self._watch = connected, watch

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:  # as `http.client` calls it, to read from
        return io.BufferedReader(_Incoming(self._connected, self._watch))

    def __getattr__(self, name: str) -> Any:  # Any: as the socket has it
        return getattr(self._connected, name)


class _Incoming(io.RawIOBase):
    """What comes over a socket."""

    def __init__(self, connected: socket.socket, watch: Watch) -> None:
        self._connected, self._watch = connected, watch
        self._file = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        left = self._watch.left()
        if left is not None:
            self._connected.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def dialled(connection: urllib3.connection.HTTPConnection, stop: Stop) -> socket.socket:
    """A socket to the connection's host, dialled in short slices, one address after the other, and handed to `Stop`.

    Raises what urllib3 raises, so that everything above knows it.
    """
    host, port = connection._dns_host, connection.port
    addresses = _resolved(connection, host, port)
    until = time.monotonic() + CONNECT_TIMEOUT
    while True:
        for address in tuple(addresses):
            stop.raise_if_stopped()
            try:
                dialled = socket.create_connection(address[:2], min(_DIAL_SLICE, max(0.1, until - time.monotonic())), connection.source_address)
            except TimeoutError as error:
                if time.monotonic() >= until:
                    raise ConnectTimeoutError(connection, f"no connection to {host} within {CONNECT_TIMEOUT:g} seconds") from error
            except OSError as error:
                addresses.remove(address)
                if not addresses:
                    raise NewConnectionError(connection, f"{error}") from error
            else:
                return _ready(dialled, connection, stop)


def _resolved(connection: urllib3.connection.HTTPConnection, host: str, port: int) -> list[Any]:
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise NameResolutionError(host, connection, error) from error
    return list(dict.fromkeys(address for *_, address in found))


def _ready(dialled: socket.socket, connection: urllib3.connection.HTTPConnection, stop: Stop) -> socket.socket:
    for option in connection.socket_options or ():
        dialled.setsockopt(*option)
    dialled.settimeout(CONNECT_TIMEOUT)  # for the TLS handshake; urllib3 sets the read timeout after it
    stop.hold(_shutter(dialled))
    return dialled


def _shutter(connected: socket.socket) -> Callable[[], None]:
    """What ends every blocked call on the connection. A duplicate, since TLS takes the original's descriptor away."""
    duplicate = connected.dup()

    def shut() -> None:
        with suppress(OSError):
            duplicate.shutdown(socket.SHUT_RDWR)
        duplicate.close()

    return shut
