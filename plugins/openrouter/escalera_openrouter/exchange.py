"""One HTTP exchange, read in a thread of its own, that can be stopped at any point within two seconds."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from escalera_openrouter.headers import merged
from escalera_openrouter.http import httpcore, httpx
from orchestrator.errors import ConfigError, EscaleraError
from orchestrator.exchange import Exchange
from orchestrator.providers import NO_WIRE, Cancel, Stop, Timeouts, Wire

MAX_BODY = 256 * 1024 * 1024
"""Bytes of one answer."""

_DIAL_SLICE = 1.5
"""Seconds of one connection attempt, after which it looks whether it shall stop; nothing was sent by then."""

_DIAL_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent. `headers` hold secrets, so they are not in the repr."""

    method: Literal["GET", "POST"]
    url: str
    headers: Callable[[Stop], Mapping[str, str]] = field(repr=False)
    """Called in the reading thread, since a token may have to be asked for first."""
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


class HttpExchange(Exchange[Head | bytes]):
    """Sends a call and gives its answer. `head` and `chunks` raise `TimedOut`, `Cancelled`, and what the client library raises before the answer began."""

    def __init__(self, call: Call, timeouts: Timeouts, cancel: Cancel) -> None:
        where = call.url.partition("?")[0]
        super().__init__(lambda stop: _answer(call, stop), timeouts, cancel, where=where, name="escalera-http", begins=lambda item: isinstance(item, bytes))
        self.broken: Exception | None = None
        """What cut the body short, once `chunks` has ended."""

    def head(self) -> Head:
        """Wait for status and headers."""
        item = self.next()
        if isinstance(item, Head):
            return item
        raise item if isinstance(item, Exception) else httpx.RemoteProtocolError("the connection closed before an answer")

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes; ends when it ends or breaks (`broken`), or when the grace is over."""
        while isinstance(item := self.next(), bytes):
            yield b"".join([item, *(more for more in self.at_hand() if isinstance(more, bytes))])
        self.broken = item if isinstance(item, Exception) else None


def _answer(call: Call, stop: Stop) -> Iterator[Head | bytes]:
    """In the reading thread: the head, then the body. Without httpx's client, whose redirects, cookies and credentials have no place here."""
    headers = merged({"accept": "*/*", "accept-encoding": "identity", "user-agent": "escalera"}, call.headers(stop))
    stop.raise_if_stopped()
    _tell_request(call, headers)
    request = httpx.Request(call.method, call.url, headers=headers, content=call.content)
    with _Transport(call, stop) as transport, closing(transport.handle_request(request)) as response:
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


_SHOWN = frozenset({"content-type", "accept", "accept-encoding", "user-agent", "x-title"})
_HIDDEN_BACK = ("set-cookie",)


def _lines(headers: Mapping[str, str], *, hidden: Iterable[str]) -> str:
    return "".join(f"{name}: {'***' if name in hidden else value}\n" for name, value in headers.items())


# -- the connection -------------------------------------------------------------------------------


class _Transport(httpx.BaseTransport):
    """httpx over a connection that `Stop` can shut down, whatever it is doing: dialling, shaking hands, sending, receiving."""

    def __init__(self, call: Call, stop: Stop) -> None:
        tls = call.certificates.context() if call.url.startswith("https:") else None
        self._pool = httpcore.ConnectionPool(ssl_context=tls, proxy=_proxy(call.url), max_connections=1, retries=0, network_backend=_Dialler(stop))

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

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _resolve(host, port)
        until = time.monotonic() + _DIAL_LIMIT
        while True:
            for address in tuple(addresses):
                self._stop.raise_if_stopped()
                try:
                    stream = self._plain.connect_tcp(address, port, _DIAL_SLICE, local_address, [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)])
                except httpcore.ConnectTimeout:
                    if time.monotonic() > until:
                        raise
                except httpcore.ConnectError:
                    addresses.remove(address)
                    if not addresses:
                        raise
                else:
                    self._stop.hold(_shutter(stream.get_extra_info("socket")))
                    return stream


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
