"""One HTTP exchange that can be stopped at any point within two seconds."""

from __future__ import annotations

import ipaddress
import queue
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from escalera_openrouter.headers import merged
from escalera_openrouter.http import httpcore, httpx
from orchestrator.errors import Cancelled, ConfigError, EscaleraError, TimedOut
from orchestrator.exchange import Reading, Timers, Watch
from orchestrator.providers import NO_WIRE, Cancel, Stop, Stopped, Timeouts, Wire

MAX_BODY = 256 * 1024 * 1024
"""Bytes of one answer."""

_DIAL_SLICE = 1.5
"""Seconds of one connection attempt, after which it looks whether it shall stop; nothing was sent by then."""

_DIAL_LIMIT = 60.0
_SENT_AT_ONCE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent. `headers` hold secrets, so they are not in the repr."""

    method: Literal["GET", "POST"]
    url: str
    headers: Callable[[Stop, float | None], Mapping[str, str]] = field(repr=False)
    """Called when it is sent, with the seconds that are left: a token may have to be asked for first. Raises `TimeoutError`, `Stopped`."""
    content: bytes | None = field(default=None, repr=False)
    certificates: Certificates = field(default_factory=lambda: Certificates(None))
    wire: Wire = NO_WIRE


class Certificates:
    """Which authorities a server's certificate may come from; reading them takes longer than a short call, so an agent does it once."""

    def __init__(self, tls_ca: Path | None) -> None:
        self._tls_ca = tls_ca
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Raises `ConfigError` for a file without certificates."""
        with self._lock:
            self._context = self._context or self._read()
            return self._context

    def _read(self) -> ssl.SSLContext:
        if self._tls_ca is None:
            return httpx.create_ssl_context()
        try:
            return ssl.create_default_context(cafile=str(self._tls_ca))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"tls_ca: {self._tls_ca} is no file with certificates: {error}") from error


@dataclass(frozen=True, slots=True)
class Head:
    """The answer's status and headers, names in lower case."""

    status: int
    headers: Mapping[str, str]


class HttpExchange:
    """Sends a call and gives its answer, in the thread of whoever asks for it. A context manager: leaving it lets go of the connection.

    `head` and `chunks` raise `TimedOut`, `Cancelled`, and what the client library raises before the answer began. Whatever blocks – a name being
    looked up, dialling, shaking hands, sending, receiving, the program that gives a token – ends with the timer that counts then, and with a cancel.
    """

    def __init__(self, call: Call, timeouts: Timeouts, cancel: Cancel) -> None:
        self._cancel = cancel
        self.timers = Timers(timeouts, call.url.partition("?")[0])
        self._watch = Watch(Stop())
        self._items = _answer(call, self._watch)
        self._reading = Reading(
            self._items, self.timers, self._watch, cancel, begins=lambda item: isinstance(item, bytes), timed_out=(TimeoutError, httpcore.TimeoutException)
        )
        self._forget: Callable[[], None] = lambda: None
        self.broken: Exception | None = None
        """What cut the body short, once `chunks` has ended."""

    def __enter__(self) -> Self:
        self._cancel.raise_if_set()
        self._forget = self._cancel.on_cancel(self._watch.stop.now)
        self.timers.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._forget()
        self._watch.stop.now()
        self._items.close()

    def head(self) -> Head:
        """Wait for status and headers."""
        item = self._reading.next()
        if isinstance(item, Head):
            return item
        raise httpx.RemoteProtocolError("the connection closed before an answer")

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes; ends when it ends or breaks (`broken`), or when the grace is over."""
        while self.broken is None:
            try:
                item = self._reading.next()
            except (Cancelled, TimedOut):
                raise
            except Exception as error:  # the caller explains it
                self.broken = error
                return
            if not isinstance(item, bytes):
                return
            yield item


def _answer(call: Call, watch: Watch) -> Generator[Head | bytes, None, None]:
    """The head, then the body. Without httpx's client, whose redirects, cookies and credentials have no place here."""
    headers = merged({"accept": "*/*", "accept-encoding": "identity", "user-agent": "escalera"}, call.headers(watch.stop, watch.left()))
    watch.stop.raise_if_stopped()
    _tell_request(call, headers)
    request = httpx.Request(call.method, call.url, headers=headers, content=call.content)
    with _Transport(call, watch) as transport, closing(transport.handle_request(request)) as response:
        head = Head(response.status_code, {name.lower(): value for name, value in response.headers.items()})
        call.wire.received(f"HTTP {head.status}\n{_lines(head.headers, hidden=_HIDDEN_BACK)}\n")
        yield head
        received = 0
        for chunk in response.iter_bytes():
            call.wire.received(chunk)
            yield chunk
            received += len(chunk)
            if received > MAX_BODY:
                raise httpx.RemoteProtocolError(f"the answer has more than {MAX_BODY} bytes")


def _tell_request(call: Call, headers: Mapping[str, str]) -> None:
    """What is about to be sent. A header that is not known to be harmless may hold a credential, and so may a URL."""
    parts = urlsplit(call.url)
    hidden = [name for name in headers if name.lower() not in _SHOWN]
    call.wire.begin()
    call.wire.hide(*(headers[name].removeprefix("Bearer ") for name in hidden))
    call.wire.sent(f"{call.method} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{'?***' if parts.query else ''}\n")
    call.wire.sent(f"{_lines(headers, hidden=hidden)}\n")
    call.wire.sent(call.content or b"")


_SHOWN = frozenset({"content-type", "accept", "accept-encoding", "user-agent", "http-referer", "x-title"})
_HIDDEN_BACK = ("set-cookie",)


def _lines(headers: Mapping[str, str], *, hidden: Iterable[str]) -> str:
    return "".join(f"{name}: {'***' if name in hidden else value}\n" for name, value in headers.items())


# -- the connection -------------------------------------------------------------------------------


class _Transport(httpx.BaseTransport):
    """httpx over a connection that is watched, whatever it is doing: dialling, shaking hands, sending, receiving."""

    def __init__(self, call: Call, watch: Watch) -> None:
        tls = call.certificates.context() if call.url.startswith("https:") else None
        self._pool = httpcore.ConnectionPool(ssl_context=tls, proxy=_proxy(call.url), max_connections=1, retries=0, network_backend=_Dialler(watch))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path)
        response = self._pool.handle_request(httpcore.Request(request.method, url, headers=request.headers.raw, content=request.stream))
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Dialler(httpcore.NetworkBackend):
    """Dials in short slices, one address after the other, and hands the socket to `Stop`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _resolved(host, port, self._watch)
        until = time.monotonic() + _DIAL_LIMIT
        while True:
            for address in tuple(addresses):
                left = self._watch.left()
                try:
                    slice_ = _DIAL_SLICE if left is None else min(left, _DIAL_SLICE)
                    stream = self._plain.connect_tcp(address, port, slice_, local_address, [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)])
                except httpcore.ConnectTimeout:
                    if time.monotonic() > until:
                        raise
                except httpcore.ConnectError:
                    addresses.remove(address)
                    if not addresses:
                        raise
                else:
                    self._watch.stop.hold(_shutter(stream.get_extra_info("socket")))
                    return _Watched(stream, self._watch)


class _Watched(httpcore.NetworkStream):
    """A connection that waits no longer than the call does: the client library's own time-outs have no place here."""

    def __init__(self, stream: httpcore.NetworkStream, watch: Watch) -> None:
        self._stream, self._watch = stream, watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._watch.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _SENT_AT_ONCE):
            self._stream.write(buffer[start : start + _SENT_AT_ONCE], self._watch.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None) -> httpcore.NetworkStream:
        return _Watched(self._stream.start_tls(ssl_context, server_hostname, self._watch.left()), self._watch)

    def get_extra_info(self, info: str) -> Any:  # any: as the library has it
        return self._stream.get_extra_info(info)


def _resolved(host: str, port: int, watch: Watch) -> list[str]:
    """The addresses of a host. Looking up a name cannot be interrupted, so a thread of its own does it, and is left where it takes too long."""
    with suppress(ValueError):
        return [str(ipaddress.ip_address(host))]
    found: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(_resolve(host, port))
        except Exception as error:  # carried over to who waits
            found.put(error)

    watch.stop.hold(lambda: found.put(Stopped()))
    threading.Thread(target=look_up, name="escalera-http", daemon=True).start()
    try:
        addresses = found.get(timeout=watch.left())
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(addresses, Exception):
        raise addresses
    return addresses


def _resolve(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"the name {host!r} is not known: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _shutter(connected: socket.socket) -> Callable[[], None]:
    """What ends every blocked call on the connection. A duplicate, since TLS takes the original's descriptor away."""
    duplicate = connected.dup()

    def shut() -> None:
        with suppress(OSError):
            duplicate.shutdown(socket.SHUT_RDWR)
        duplicate.close()

    return shut


def _proxy(url: str) -> httpcore.Proxy | None:
    """The proxy that the environment names for this URL; loopback never goes through one."""
    target = httpx.URL(url)
    if is_loopback(target.host) or urllib.request.proxy_bypass(target.host):
        return None
    proxies = urllib.request.getproxies()
    named = proxies.get(target.scheme) or proxies.get("all")
    if not named:
        return None
    try:
        proxy = httpx.URL(named if "://" in named else f"http://{named}")
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigError("The proxy that the environment names is no URL.", hint=_PROXY_HINT) from error
    if not proxy.host:
        raise ConfigError("The proxy that the environment names has no host.", hint=_PROXY_HINT)
    if proxy.scheme not in _PROXY_SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in _PROXY_SCHEMES)
        raise ConfigError(f"The environment names a proxy of a kind that cannot be used, {proxy.scheme}:// (only {known}).", hint=_PROXY_HINT)
    if proxy.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ConfigError("The environment names a SOCKS proxy, for which httpx lacks a package.", hint='Run `pip install "httpx[socks]"`, or unset ALL_PROXY.')
    auth = (proxy.username.encode(), proxy.password.encode()) if proxy.username or proxy.password else None
    return httpcore.Proxy(str(proxy.copy_with(username=None, password=None)), auth=auth)


_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_PROXY_HINT = "Look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY."


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


# -- explaining -----------------------------------------------------------------------------------


def why(error: Exception) -> tuple[str, str]:
    """What broke a connection, and what the user can look at."""
    text = " ".join(str(error).split()) or type(error).__name__
    causes = tuple(_causes(error))
    if isinstance(error, httpcore.ProxyError):
        return f"the proxy refused: {text}", "Look at HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY."
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return f"TLS failed: {text}", "Check base_url (https or http?); a private authority's certificate goes into tls_ca."
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "connection refused", "Is the server running, and is base_url right?"
    if any(isinstance(cause, socket.gaierror | UnicodeError) for cause in causes):
        return text, "Check the host in base_url, and the network."
    if isinstance(error, httpcore.ConnectTimeout):
        return "no connection within the time limit", "Is the server running, and is base_url right?"
    return text, "Is the server running, and is base_url right?"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def is_connection_error(error: Exception) -> bool:
    """Whether the client library or the socket failed, rather than a program of ours."""
    return isinstance(error, _CONNECTION_ERRORS) and not isinstance(error, EscaleraError)


_CONNECTION_ERRORS: tuple[type[Exception], ...] = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    httpx.HTTPError,
    OSError,
)
