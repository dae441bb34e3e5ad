"""The provider of the generated packages, with faults: each is a word of the option `fault`."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from escalera_faulty.options import Options
from escalera_faulty.protocol import Answer, body_of, failure
from orchestrator.errors import AuthFailed, Cancelled, Incomplete, InvalidRequest, OutOfFunds, ProtocolError, ProviderError, RateLimited, Unavailable
from orchestrator.exchange import Exchange
from orchestrator.providers import AgentContext, Ask, Cancel, Capabilities, CheckResult, Event, Request, Stop
from orchestrator.retry_after import named_wait

if TYPE_CHECKING:
    from http.client import HTTPConnection

_STATUS = {400: "invalid", 401: "auth", 402: "funds", 403: "auth", 404: "no_model", 413: "too_long", 422: "invalid", 429: "rate_limit", 503: "overloaded"}
_CONNECT_SECONDS = 5.0
_ERROR_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Head:
    """How an answer begins; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]


class FaultyProvider:
    """One agent on one server. Opens nothing until `run` or `check`, and keeps nothing between two calls."""

    def __init__(self, options: Options, context: AgentContext) -> None:
        self._options = options
        self._fault = options.fault
        self.capabilities = Capabilities(takes_tools=True, streams=self._fault != "does_not_say_that_it_streams")
        self._shared = Answer(options.model)
        self._kept: list[object] = []

    @property
    def model(self) -> str | None:
        """The configured model."""
        return self._options.model

    def preview(self, request: Request) -> Mapping[str, Any]:
        """What `run` sends, with `***` in place of the key."""
        if self._fault == "connects_in_preview":
            self._reach()
        shown = "***" if self._fault != "shows_its_key_in_previews" else self._key()
        return {"method": "POST", "url": self._url("/chat"), "headers": self._headers(shown), "body": body_of(self._sent(request), self.model)}

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        """One call. It is not repeated here: that is the core's."""
        cancel.raise_if_set()
        answer = self._shared if self._fault == "shares_its_state" else Answer(self.model, self._fault)
        if self._fault == "logs_its_key":
            logging.getLogger(__name__).info("asking with %s", self._key())
        timeouts = replace(request.timeouts, idle=None) if self._fault == "ignores_the_idle_timer" else request.timeouts
        heeded = Cancel() if self._fault == "ignores_cancel" else cancel
        where = self._options.base_url
        with Exchange(partial(self._call, request), timeouts, heeded, where=where, name="faulty", begins=lambda item: isinstance(item, bytes)) as exchange:
            try:
                yield from self._events(exchange, answer, where)
            except ProviderError as error:
                error.agent, error.partial, error.emitted = request.agent, error.partial or answer.text, answer.emitted
                self._spoil(error)
                raise

            finally:
                self._shared = Answer(self.model)

    def _spoil(self, error: ProviderError) -> None:
        """The faults that lie in failing."""
        match self._fault:
            case "leaves_a_thread_behind" if isinstance(error, Cancelled):
                threading.Thread(target=threading.Event().wait, args=(20,), daemon=True, name="forgotten").start()
            case "says_its_key_in_errors" if isinstance(error, AuthFailed):
                error.args = (f"{error.message} (the key was {self._key()})",)
            case "takes_429_for_final" if isinstance(error, RateLimited):
                raise InvalidRequest(error.message) from error
            case "always_says_emitted":
                error.emitted = True
            case "forgets_the_wait" if isinstance(error, RateLimited):
                error.retry_after = None
            case "raises_what_it_likes" if isinstance(error, OutOfFunds):
                raise KeyError("balance") from error

    def _sent(self, request: Request) -> Request:
        """What is shown of a request, which the faulty one does not send."""
        return replace(request, max_output_tokens=7) if self._fault == "previews_something_else" else request

    def _reach(self) -> None:
        parts = urlsplit(self._options.base_url)
        socket.create_connection((parts.hostname or "", parts.port or 80)).close()

    def _events(self, exchange: Exchange[Head | bytes], answer: Answer, where: str) -> Iterator[Event]:
        try:
            yield from _events(exchange, answer, where)
        except Incomplete as error:
            if self._fault != "takes_a_broken_stream_for_an_end" or error.__cause__ is None:
                raise
            yield from answer.feed(b'{"end": "stop"}\n')
            yield from answer.finish()

    def _whispered(self) -> str:
        return f" to {self._key()}" if self._fault == "says_its_key_in_checks" else ""

    def __repr__(self) -> str:
        return f"FaultyProvider({self._key() if self._fault == 'represents_itself_with_its_key' else '***'})"

    def check(self) -> CheckResult:
        """Whether the server answers, by a question that costs nothing."""
        connection = self._connection()
        try:
            method, path = ("POST", "/chat") if self._fault == "checks_by_a_call" else ("GET", "/health")
            connection.request(method, self._path(path), headers=self._headers(self._key()))
            status = connection.getresponse().status
        except OSError as error:
            return CheckResult(False, "unreachable", f"{self._options.base_url}: {error}", "Is the server running, and is base_url right?")
        finally:
            connection.close()
        if status in (401, 403):
            return CheckResult(False, "no_credentials", f"{self._options.base_url} does not take the key", "Set api_key.")
        return CheckResult(status == 200, "works" if status == 200 else "error", f"{self._options.base_url} answers with HTTP {status}{self._whispered()}")

    def _call(self, request: Request, stop: Stop) -> Iterator[Head | bytes]:
        """In the reading thread: the head, then line after line. `stop` shuts the socket, which ends whatever blocks here."""
        body = json.dumps(body_of(request, self.model)).encode()
        connection = self._connection()
        try:
            connection.connect()
            opened = connection.sock
            opened.settimeout(None)  # the timers are those of the exchange
            stop.hold(partial(_shut, opened))
            if self._fault != "never_begins_the_wire":
                request.wire.begin()
            request.wire.sent(str(self._headers(self._key())) if self._fault == "notes_its_key" else body)
            if self._fault == "leaves_a_connection_open":
                self._kept.append(opened.dup())
            path = "/elsewhere" if self._fault == "asks_another_address" else "/chat"
            connection.request("POST", self._path(path), body, self._headers(None if self._fault == "sends_no_key" else self._key()))
            with connection.getresponse() as response:
                yield Head(response.status, {name.lower(): value for name, value in response.headers.items()})
                for line in response:
                    request.wire.received(line)
                    yield line
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection  # where it is first used: importing a plugin costs nothing

        parts = urlsplit(self._options.base_url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=_CONNECT_SECONDS)

    def _headers(self, key: str | None) -> dict[str, str]:
        bearer = {"authorization": f"Bearer {key}"} if self._options.api_key is not None else {}
        return {"content-type": "application/json", **bearer}

    def _key(self) -> str | None:
        return None if self._options.api_key is None else self._options.api_key.get_secret_value()

    def _path(self, path: str) -> str:
        return urlsplit(self._options.base_url).path.rstrip("/") + path

    def _url(self, path: str) -> str:
        return self._options.base_url.rstrip("/") + path


def _events(exchange: Exchange[Head | bytes], answer: Answer, where: str) -> Iterator[Event]:
    head = exchange.next()
    if not isinstance(head, Head):
        raise Unavailable(f"{where} cannot be reached: {head or 'it closed the connection'}", hint="Is the server running, and is base_url right?")
    if head.status != 200:
        raise _refused(head, _rest(exchange), where)
    if not head.headers.get("content-type", "").startswith("application/x-ndjson"):
        raise ProtocolError(f"{where} answered with {head.headers.get('content-type') or 'something'} instead of JSON lines", hint="Check base_url.")
    while not answer.ended and (item := exchange.next()) is not None:
        if isinstance(item, Exception):
            raise Incomplete(f"the connection to {where} broke: {item}", partial=answer.text) from item
        if isinstance(item, bytes):
            yield from answer.feed(item)
    yield from answer.finish()


def _refused(head: Head, said: str, where: str) -> ProviderError:
    code = _STATUS.get(head.status) or ("unavailable" if head.status >= 500 else "unknown")
    wait = named_wait(head.headers.get("retry-after"), datetime.now(UTC))
    return failure(code, f"{where} answered with HTTP {head.status}: {said}", wait)


def _rest(exchange: Exchange[Head | bytes]) -> str:
    said = b""
    while isinstance(item := exchange.next(), bytes) and len(said) < _ERROR_MAX:
        said += item
    return " ".join(said.decode("utf-8", "replace").split())[:500]


def _shut(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
