"""An OpenAI-compatible server as a provider of the core."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from escalera_openrouter.answer import Answer
from escalera_openrouter.body import chat_body, encode
from escalera_openrouter.failures import excerpt, http_failure
from escalera_openrouter.headers import merged
from escalera_openrouter.json_text import Nesting, clean_object, is_document
from escalera_openrouter.sse import EventParser, EventTooLarge, ServerEvent
from orchestrator.errors import (
    AuthFailed,
    EscaleraError,
    Incomplete,
    InvalidRequest,
    OutOfFunds,
    ProtocolError,
    ProviderError,
    RateLimited,
    TimedOut,
    Unavailable,
)
from orchestrator.exchange import joined_texts
from orchestrator.messages import CostSource, read_json
from orchestrator.providers import Ask, Cancel, Capabilities, CheckResult, Event, Request, Stop, Timeouts

if TYPE_CHECKING:
    from pydantic import SecretStr

    from escalera_openrouter.exchange import Call, Certificates, Head, HttpExchange

_ERROR_BODY_MAX = 64 * 1024
_DOCUMENT_MAX = 32 * 1024 * 1024
"""Bytes of an answer that comes as one document; a stream is read as it comes and may be longer."""
_CHECK_BODY_MAX = 8 * 1024 * 1024
_CHECK_TIMEOUTS = Timeouts(first_byte=8.0, idle=4.0, turn=10.0)
_TELLING = 8
"""Bytes of a body that tell what it is."""
_MASK = "***"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how an agent's calls go; all that differs between the kinds."""

    agent: str
    chat_url: str
    models_url: str
    model: str | None = None
    api_key: SecretStr | None = None
    token_cmd: tuple[str, ...] = ()
    token_folder: str | None = None
    """Where the command runs; `None` for the working directory."""
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    open_headers: Mapping[str, str] = field(default_factory=dict)
    """Headers without secrets, shown in previews."""
    tls_ca: Path | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Laid over every body."""
    strict_roles: bool = False
    replay_reasoning: bool = False
    key_url: str | None = None
    """Where a key can be asked about itself, for servers whose model list is open to everyone."""
    any_model: bool = False
    """Whether the server may take models that it does not list."""
    cost_source: CostSource = "reported"
    """What a cost in this server's usage is: the bill itself, or some reckoning of the server's."""
    whole_at_limit: bool = False
    """Whether an answer that ends at the output limit is whole: where the limit is meant to end it."""
    key_hint: str | None = None
    """What to do without a key, where there has to be one."""

    @property
    def where(self) -> str:
        """The server, for messages."""
        parts = urlsplit(self.chat_url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    @property
    def has_credentials(self) -> bool:
        return self.api_key is not None or bool(self.token_cmd or self.headers)


class OpenAIProvider:
    """One agent on one server. Opens nothing until `run` or `check`; keeps nothing between calls."""

    def __init__(self, endpoint: Endpoint, capabilities: Capabilities) -> None:
        self._endpoint = endpoint
        self._capabilities = capabilities

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def model(self) -> str | None:
        return self._endpoint.model

    def preview(self, request: Request) -> Mapping[str, Any]:
        """Method, URL, headers with every secret as `***`, and exactly the body that `run` sends."""
        endpoint = self._endpoint
        headers = self._merged(_MASK if endpoint.api_key is not None or endpoint.token_cmd else None, dict.fromkeys(endpoint.headers, _MASK))
        return {"method": "POST", "url": endpoint.chat_url, "headers": headers, "body": clean_object(self._body(request))}

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        """Send one call. No retries and no redirects; both are decisions of others."""
        if self._endpoint.key_hint and not self._endpoint.has_credentials:
            raise AuthFailed("There is no API key for this agent.", hint=self._endpoint.key_hint, agent=request.agent)

        from escalera_openrouter.exchange import Call

        mask = _Mask(self._endpoint)
        call = Call("POST", self._endpoint.chat_url, self._headers(mask), encode(self._body(request)), self._certificates, request.wire)
        answer = Answer(
            where=self._endpoint.where,
            model=self.model,
            new_id=_new_call_id,
            now=_now,
            cost_source=self._endpoint.cost_source,
            whole_at_limit=self._endpoint.whole_at_limit,
        )
        try:
            yield from self._events(call, request.timeouts, cancel, answer)
        except ProviderError as error:
            yield from answer.report()
            error.agent = request.agent
            error.partial = error.partial or answer.text
            error.emitted = answer.emitted
            mask.apply(error)
            raise

    def check(self) -> CheckResult:
        """Ask for the list of models, which costs nothing."""
        endpoint = self._endpoint
        if endpoint.key_hint and not endpoint.has_credentials:
            return CheckResult(False, "no_credentials", "no API key is configured", endpoint.key_hint)
        try:
            if endpoint.key_url is not None:
                self._ask_about_key(endpoint.key_url)
            status, content = self._get(endpoint.models_url)
            if status in (404, 405, 501):
                return self._chat_result(status)
            if status != 200:
                raise http_failure(status, {}, content, where=endpoint.where, now=_now())
            return _models_result(endpoint, content)
        except EscaleraError as error:
            return _check_failed(endpoint, error)

    # -- sending

    @cached_property
    def _certificates(self) -> Certificates:
        from escalera_openrouter.exchange import Certificates

        return Certificates(self._endpoint.tls_ca)

    def _body(self, request: Request) -> dict[str, Any]:
        endpoint = self._endpoint
        return chat_body(
            request if self._capabilities.takes_tools else replace(request, tools=()),
            model=endpoint.model,
            fields=endpoint.fields,
            strict_roles=endpoint.strict_roles,
            replay_reasoning=endpoint.replay_reasoning,
        )

    def _headers(self, mask: _Mask) -> Any:  # Callable[[Stop, float | None], Mapping[str, str]]; the type is behind the lazy import
        endpoint = self._endpoint

        def headers(stop: Stop, seconds: float | None) -> Mapping[str, str]:
            given = {name: secret.get_secret_value() for name, secret in endpoint.headers.items()}
            token = endpoint.api_key.get_secret_value() if endpoint.api_key is not None else None
            if endpoint.token_cmd:
                from escalera_openrouter.token import token_from

                token = token_from(endpoint.token_cmd, stop, folder=endpoint.token_folder, seconds=seconds)
                mask.add(token)
            return self._merged(token, given)

        return headers

    def _merged(self, token: str | None, given: Mapping[str, str]) -> dict[str, str]:
        """The user's headers before ours, but for a key or token of its own: that is what signs in."""
        bearer = {"authorization": f"Bearer {token}"} if token else {}
        return merged({"content-type": "application/json"}, self._endpoint.open_headers, given, bearer)

    def _events(self, call: Call, timeouts: Timeouts, cancel: Cancel, answer: Answer) -> Iterator[Event]:
        from escalera_openrouter.exchange import HttpExchange

        with HttpExchange(call, timeouts, cancel) as exchange:
            head = self._head(exchange)
            self._raise_unless_ok(head, exchange)
            begin = _beginning(exchange)
            match _form(_content_type(head), begin):
                case "document":
                    content = _document(exchange, _DOCUMENT_MAX, self._endpoint.where, begin)
                    yield from answer.whole(content.decode("utf-8-sig", "replace"), cut=exchange.broken)
                case "stream":
                    yield from _stream(exchange, answer, begin, self._endpoint.where)
                case None:
                    exchange.timers.complete()
                    raise _no_answer(begin + _collect(exchange, _ERROR_BODY_MAX), _content_type(head), self._endpoint.where)
            yield from answer.end(cut=exchange.broken)

    def _head(self, exchange: HttpExchange) -> Head:
        from escalera_openrouter.exchange import is_connection_error, why

        try:
            return exchange.head()
        except Exception as error:
            if not is_connection_error(error):
                raise
            reason, hint = why(error)
            raise Unavailable(f"{self._endpoint.where} cannot be reached: {reason}.", hint=hint) from error

    def _raise_unless_ok(self, head: Head, exchange: HttpExchange) -> None:
        if 300 <= head.status < 400:
            raise _redirected(head, self._endpoint.where)
        if not 200 <= head.status < 300:
            exchange.timers.complete()  # a server that holds an error's socket open shall not hold us
            raise http_failure(head.status, head.headers, _collect(exchange, _ERROR_BODY_MAX), where=self._endpoint.where, now=_now())

    def _chat_result(self, models_status: int) -> CheckResult:
        """Where there is no list of models: whether chat completions are there, by a request without messages, which costs nothing."""
        status, content = self._get(self._endpoint.chat_url, content=b"{}")
        if status in (404, 405, 501) or status < 300 or not is_document(content.decode("utf-8-sig", "replace")):
            told = f"{self._endpoint.where} answers, but as no OpenAI-compatible server does (HTTP {models_status}, {status})"
            return CheckResult(False, "error", told, "Check base_url and chat_path.")
        if status in (401, 402, 403, 429):
            raise http_failure(status, {}, content, where=self._endpoint.where, now=_now())
        return CheckResult(True, "works", f"{self._endpoint.where} answers, but has no list of models (HTTP {models_status})")

    def _get(self, url: str, *, content: bytes | None = None) -> tuple[int, bytes]:
        """One GET, or a POST of that content; raises from the error tree when there is no answer or one that points elsewhere."""
        from escalera_openrouter.exchange import Call, HttpExchange

        mask = _Mask(self._endpoint)
        try:
            with HttpExchange(Call("POST" if content else "GET", url, self._headers(mask), content, self._certificates), _CHECK_TIMEOUTS, Cancel()) as exchange:
                head = self._head(exchange)
                if 300 <= head.status < 400:
                    raise _redirected(head, self._endpoint.where)
                content = _document(exchange, _CHECK_BODY_MAX, self._endpoint.where)
                if exchange.broken is not None:
                    raise Unavailable(f"{self._endpoint.where} broke its answer off after {len(content)} bytes.")
                return head.status, mask.bytes(content)
        except ProviderError as error:
            mask.apply(error)
            if isinstance(error, TimedOut):  # a check has its own times, which no setting changes
                own = error.message.startswith("token_cmd")
                error.hint = "Run the agent's token_cmd by hand." if own else "Check base_url, and that the server there is well."
            raise

    def _ask_about_key(self, url: str) -> None:
        status, content = self._get(url)
        if status in (401, 402, 403):
            raise http_failure(status, {}, content, where=self._endpoint.where, now=_now())
        if (left := _left_of_key(content)) is not None and left <= 0:
            raise OutOfFunds("This key has nothing left of its limit.", hint="Raise the limit of the key at https://openrouter.ai/keys, or use another one.")


def _beginning(exchange: HttpExchange) -> bytes:
    """So much of the body as tells what it is."""
    begin = b""
    for chunk in exchange.chunks():
        begin += chunk
        if len(_unmarked(begin)) >= _TELLING or len(begin) > _ERROR_BODY_MAX:
            break
    return begin


def _form(named: str, begin: bytes) -> Literal["document", "stream"] | None:
    """What a body is: by how it begins, since servers and those between name it wrongly, then by its content type."""
    start = _unmarked(begin)
    if start.startswith((b"data:", b"event:", b"id:", b"retry:", b"error:", b":")):
        return "stream"
    if named == "application/json" or named.endswith("+json"):
        return "document"
    is_stream = named == "text/event-stream" and not start.startswith(b"<")
    return "stream" if is_stream or start.startswith((b"{", b"[")) else None


def _unmarked(begin: bytes) -> bytes:
    return begin.removeprefix(b"\xef\xbb\xbf").lstrip()


def _no_answer(content: bytes, named: str, where: str) -> ProtocolError:
    kind = "something else" if named == "text/event-stream" else named or "something without a content type"
    return ProtocolError(
        f"{where} answered with {kind} instead of a stream: {excerpt(content)}", hint="Check base_url: a login page or another service may answer there."
    )


def _stream(exchange: HttpExchange, answer: Answer, begin: bytes, where: str) -> Iterator[Event]:
    parser = EventParser()
    yield from _parsed(parser, exchange, answer, begin, where)
    if parser.noise and not answer.begun:
        raise _no_answer(parser.noise.encode(), "text/event-stream", where)


def _parsed(parser: EventParser, exchange: HttpExchange, answer: Answer, begin: bytes, where: str) -> Iterator[Event]:
    try:
        for chunk in chain((begin,), exchange.chunks()):
            yield from joined_texts(_told(parser.feed(chunk), answer))
            if answer.closed:
                return
            if answer.ended:
                exchange.timers.complete()
            else:
                exchange.timers.go_on()
    except EventTooLarge as error:
        raise ProtocolError(f"{where}: {error}.") from error
    yield from _last(parser.close(), answer, cut=exchange.broken is not None)


def _told(events: Iterator[ServerEvent], answer: Answer) -> Iterator[Event]:
    """What the events of one chunk tell, up to the server's own end mark."""
    for event in events:
        if event.data.strip() == "[DONE]":
            answer.close()
            return
        yield from answer.data(event.data, event.name)


def _last(events: Iterator[ServerEvent], answer: Answer, *, cut: bool) -> Iterator[Event]:
    """The event that was not terminated; where the connection broke, half of one says nothing."""
    for event in events:
        if event.data.strip() == "[DONE]":
            answer.close()
            return
        if is_document(event.data) or not (cut or answer.begun or event.data.lstrip().startswith(("{", "["))):
            yield from answer.data(event.data, event.name)
        elif not answer.begun:
            raise Incomplete("The answer broke off in its first event.")


def _content_type(head: Head) -> str:
    return head.headers.get("content-type", "").partition(";")[0].strip().lower()


def _collect(exchange: HttpExchange, limit: int) -> bytes:
    """The body, or so many bytes of it."""
    content = bytearray()
    for chunk in exchange.chunks():
        content += chunk
        if len(content) >= limit:
            break
    return bytes(content[:limit])


def _document(exchange: HttpExchange, limit: int, where: str, begin: bytes = b"") -> bytes:
    """The whole body; behind the end of a JSON document only a short grace is waited for the end of the connection."""
    content, nesting = bytearray(), Nesting()
    for chunk in chain((begin,), exchange.chunks()):
        content += chunk
        if len(content) > limit:
            raise ProtocolError(f"{where} sends more than {limit // 2**20} MB as one answer: that is no answer.", hint="Check base_url.")
        nesting.feed(chunk.decode("latin-1"))
        if nesting.whole:
            exchange.timers.complete()
    return bytes(content)


def _redirected(head: Head, where: str) -> ProviderError:
    """Redirects are not followed: the key would go to whoever is named."""
    target = urlsplit(head.headers.get("location", ""))
    to = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}" if target.netloc else target.path or "nowhere"
    return InvalidRequest(
        f"{where} redirects to {to} (HTTP {head.status}); the key was not sent there.", hint="Set the agent's base_url to the final address, if you trust it."
    )


# -- checking -------------------------------------------------------------------------------------


def _left_of_key(content: bytes) -> float | None:
    """What a key may still spend (OpenRouter); `None` where it has no limit, or nothing is said of it."""
    try:
        told = read_json(content.decode("utf-8-sig", "replace"))
    except ValueError:
        return None
    data = told.get("data") if isinstance(told, dict) else None
    left = data.get("limit_remaining") if isinstance(data, dict) else None
    return float(left) if isinstance(left, int | float) and not isinstance(left, bool) else None


def _models_result(endpoint: Endpoint, content: bytes) -> CheckResult:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return CheckResult(False, "error", f"{endpoint.where} has no list of models but: {excerpt(content)}", "Check base_url.")
    listed = document.get("data") if isinstance(document, dict) else document
    models = [entry for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)] if isinstance(listed, list) else []
    names = [str(entry["id"]) for entry in models]
    lenient = endpoint.any_model or any(entry.get("owned_by") == "llamacpp" for entry in models)
    if endpoint.model and names and not lenient and not _lists(names, endpoint.model, variants=endpoint.key_url is not None):
        some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        return CheckResult(False, "unknown_model", f"{endpoint.where} does not list the model {endpoint.model!r}", f"It offers: {some}")
    return CheckResult(True, "works", f"{endpoint.where} answers" + (f", {len(names)} models" if len(names) > 1 else ""))


def _lists(names: list[str], model: str, *, variants: bool) -> bool:
    """Whether the model is listed: without `:latest`, or without a variant of OpenRouter's (`:free`, `:online`), which it does not list."""
    return model in names or f"{model}:latest" in names or model.removesuffix(":latest") in names or (variants and model.partition(":")[0] in names)


def _check_failed(endpoint: Endpoint, error: EscaleraError) -> CheckResult:
    if isinstance(error, AuthFailed):
        return CheckResult(False, "refused" if endpoint.has_credentials else "no_credentials", error.message, error.hint)
    if isinstance(error, OutOfFunds | RateLimited):
        return CheckResult(False, "quota", error.message, error.hint)
    from escalera_openrouter.exchange import is_connection_error

    nobody = isinstance(error, Unavailable) and isinstance(error.__cause__, Exception) and is_connection_error(error.__cause__)
    return CheckResult(False, "unreachable" if nobody else "error", error.message, error.hint)


# -- secrets --------------------------------------------------------------------------------------


class _Mask:
    """The secrets of one call, and texts without them: servers like to quote the key they refuse."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._secrets = [secret.get_secret_value() for secret in endpoint.headers.values()]
        if endpoint.api_key is not None:
            self._secrets.append(endpoint.api_key.get_secret_value())

    def add(self, secret: str) -> None:
        self._secrets.append(secret)

    def text(self, text: str) -> str:
        for secret in sorted(filter(lambda secret: len(secret) >= 4, self._secrets), key=len, reverse=True):
            text = text.replace(secret, _MASK)
        return text

    def bytes(self, content: bytes) -> bytes:
        return self.text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def apply(self, error: ProviderError) -> None:
        """Take the secrets out of an error's message."""
        error.message = self.text(error.message)
        error.args = (error.message,)


def _new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _now() -> datetime:
    return datetime.now(UTC)
