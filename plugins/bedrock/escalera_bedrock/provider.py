"""A model on Amazon Bedrock as a provider of the core."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from escalera_bedrock.answer import Answer, events_of
from escalera_bedrock.body import Shape, as_json, converse_body
from escalera_bedrock.failures import (
    Failure,
    affordable_tokens,
    error_of,
    failure_of,
    has_expired,
    refuses_caching,
    refuses_results_beside_text,
    refuses_streaming,
)
from escalera_bedrock.options import BedrockOptions
from orchestrator.errors import AuthFailed, InvalidRequest, ModelNotFound, OutOfFunds, ProtocolError, ProviderError, RateLimited, Unavailable
from orchestrator.providers import NO_WIRE, AgentContext, Ask, Cancel, Capabilities, CheckResult, Event, Request, Timeouts, Wire

if TYPE_CHECKING:
    from contextlib import ExitStack

    from escalera_bedrock.client import Connection, Programs
    from escalera_bedrock.exchange import ConverseExchange, StreamEvent
    from orchestrator.exchange import Watch

_CHECK_TIMEOUTS = Timeouts(first_byte=8.0, idle=4.0, turn=10.0)
_MASK = "***"
_SESSION_TOKEN = re.compile(r"(x-amz-security-token:)\S+", re.IGNORECASE)
_EVENT_STREAM = "application/vnd.amazon.eventstream"


def bedrock_provider(options: BedrockOptions, _context: AgentContext) -> BedrockProvider:
    """An agent on Bedrock. The environment is not taken from the context: boto3 reads the process's own, in many places."""
    return BedrockProvider(options)


class BedrockProvider:
    """One agent on one model. Loads boto3 and looks for credentials in `run` and `check`, then keeps the client.

    It learns what the model refuses, and what it learns holds until the end of the process.
    """

    def __init__(self, options: BedrockOptions) -> None:
        self._options = options
        self._shape = Shape(_inference(options), options.additional_fields, caching=options.prompt_caching, tools=options.tools)
        self._streams = True
        self._refreshed = False
        self._connection: Connection | None = None
        self._programs: Programs | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(takes_tools=self._options.tools, streams=self._streams, profile="bedrock")

    @property
    def model(self) -> str | None:
        return self._options.model

    def preview(self, request: Request) -> Mapping[str, Any]:
        """The operation, where it goes as far as that is configured, and exactly the body that `run` sends."""
        options = self._options
        place = {
            "operation": self._operation,
            "model": options.model,
            "region": options.region,
            "profile": options.profile,
            "endpoint_url": options.endpoint_url,
        }
        known = {name: value for name, value in place.items() if value is not None}
        return {**known, "headers": {"authorization": _MASK}, "body": as_json(converse_body(request, self._shape))}

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        """Send one call. No retries here; what can be repaired is, and the error says so (`repaired`)."""
        from escalera_bedrock.exchange import ConverseExchange

        body = converse_body(request, self._shape)
        answer = Answer(where=self._where, model=self._options.model, new_id=_new_call_id)
        try:
            send = partial(self._send, body, request.timeouts, request.wire)
            with ConverseExchange(send, request.timeouts, cancel, where=self._where) as exchange:
                for event in exchange.events():
                    yield from answer.event(event)
                    if answer.ended:
                        exchange.timers.complete()
                if exchange.failed is not None and not answer.ended:
                    raise self._explained(exchange.failed, exchange)
                self._refreshed = False
                yield from answer.end()
        except ProviderError as error:
            yield from answer.report()
            error.agent = request.agent
            error.partial = error.partial or answer.text
            error.emitted = answer.emitted
            raise

    def check(self) -> CheckResult:
        """Send a conversation without a message, which is refused once credentials, permission and model were looked at: no token is spent."""
        from escalera_bedrock.exchange import ConverseExchange

        try:
            send = partial(self._send, {"messages": []}, _CHECK_TIMEOUTS, NO_WIRE)
            with ConverseExchange(send, _CHECK_TIMEOUTS, Cancel(), where=self._where) as exchange:
                for _ in exchange.events():
                    break
                if exchange.failed is None:
                    return CheckResult(True, "works", f"{self._where} answers")
                return self._verdict(exchange.failed, exchange)
        except ProviderError as error:
            return CheckResult(False, "error", error.message, error.hint)

    # -- sending

    @property
    def _operation(self) -> str:
        return "ConverseStream" if self._streams else "Converse"

    @property
    def _where(self) -> str:
        """What is spoken to, for messages; the endpoint itself once it is known."""
        if self._connection is not None:
            return self._connection.where
        return self._options.endpoint_url or "Bedrock"

    def _send(self, body: Mapping[str, Any], timeouts: Timeouts, wire: Wire, watch: Watch, opened: ExitStack) -> Iterator[StreamEvent]:
        """The call; runs in the exchange's thread. Its events are read in the turn's."""
        from escalera_bedrock.client import Programs, connect
        from escalera_bedrock.library import events_in
        from escalera_bedrock.wire import wired

        options, limit = self._options, _read_limit(timeouts)
        self._programs = self._programs or Programs()
        self._programs.belong_to(watch.stop)
        connection = self._connection or connect(
            region=options.region, profile=options.profile, endpoint_url=options.endpoint_url, read_timeout=limit, programs=self._programs
        )
        self._connection = connection
        with wired(connection, watch, limit, wire):
            if not self._streams:
                return events_of(connection.client.converse(modelId=options.model, **body))
            response = connection.client.converse_stream(modelId=options.model, **body)
        _require_stream(response, connection.where)
        opened.callback(response["stream"].close)
        return events_in(response["stream"], wire.received)

    # -- failing

    def _explained(self, error: Exception, exchange: ConverseExchange) -> ProviderError:
        from escalera_bedrock.library import explained, is_time_out

        if isinstance(error, ProviderError):
            return error
        if is_time_out(error):
            return exchange.timers.error()
        failure = self._failure(error)
        if failure is None:
            told = explained(error, where=self._where, opened=exchange.opened, profile=self._options.profile)
            told.__cause__ = error
            return told
        told = error_of(failure, now=_now(), profile=self._options.profile)
        if (affordable := affordable_tokens(failure)) is not None:
            told.affordable_tokens, told.hint = affordable, f"Set max_tokens in the agent's inference to {affordable} or less."
        self._repair(failure, told)
        return told

    def _failure(self, error: Exception) -> Failure | None:
        """What Bedrock itself said, where it said something."""
        from botocore.exceptions import ClientError

        from escalera_bedrock.library import CALLS

        if not isinstance(error, ClientError) or error.operation_name not in CALLS:
            return None
        return failure_of(error, where=self._where, mask=self._mask)

    def _repair(self, failure: Failure, told: ProviderError) -> None:
        """Mend what can be mended, each thing once, and say so in the error: the core sends again within its limit (page 7)."""
        if refuses_caching(failure) and self._shape.caching:
            self._shape = replace(self._shape, caching=False)
            told.repaired, told.hint = True, "Set prompt_caching = false for this agent; this model has no prompt cache."
        elif refuses_streaming(failure) and self._streams:
            self._streams = False
            told.repaired = True
        elif refuses_results_beside_text(failure) and not self._shape.separate_results:
            self._shape = replace(self._shape, separate_results=True)
            told.repaired = True
        elif has_expired(failure):
            self._connection = None  # the next one looks for credentials anew
            told.repaired = self._refreshed = not self._refreshed

    def _mask(self, text: str) -> str:
        """The text without the secrets: AWS quotes what was signed when a signature is wrong."""
        for secret in sorted(self._connection.secrets if self._connection else (), key=len, reverse=True):
            text = text.replace(secret, _MASK)
        return _SESSION_TOKEN.sub(rf"\1{_MASK}", text)  # credentials are renewed, and the new token is none of those above

    def _verdict(self, error: Exception, exchange: ConverseExchange) -> CheckResult:
        """What a failed check says: a refusal of the empty conversation itself means that everything else is right."""
        from escalera_bedrock.client import Missing

        told = self._explained(error, exchange)
        failure = self._failure(error)
        if isinstance(error, Missing):
            return CheckResult(False, "no_region" if error.what == "region" else "no_credentials", told.message, told.hint)
        if failure is not None and failure.name == "validation" and isinstance(told, InvalidRequest):
            return CheckResult(True, "works", f"{self._where} takes these credentials for {self._options.model}")
        if isinstance(told, AuthFailed):
            return CheckResult(False, "no_credentials" if failure is None else "refused", told.message, told.hint)
        if isinstance(told, ModelNotFound):
            return CheckResult(False, "unknown_model", told.message, told.hint)
        if isinstance(told, Unavailable) and failure is None:  # nobody answered: what Bedrock says of itself is a failure of it
            return CheckResult(False, "unreachable", told.message, told.hint)
        return CheckResult(False, "quota" if isinstance(told, RateLimited | OutOfFunds) else "error", told.message, told.hint)


def _inference(options: BedrockOptions) -> dict[str, Any]:
    """The configured parameters under Converse's names."""
    told = options.inference
    named = {"maxTokens": told.max_tokens, "temperature": told.temperature, "topP": told.top_p, "stopSequences": told.stop_sequences or None}
    return {name: value for name, value in named.items() if value is not None}


def _read_limit(timeouts: Timeouts) -> float | None:
    """The idle limit as the socket's, or the one for the first byte where that is longer: neither shall come before ours."""
    if timeouts.idle is None or timeouts.first_byte is None:
        return None
    return max(timeouts.idle, timeouts.first_byte)


def _require_stream(response: Mapping[str, Any], where: str) -> None:
    kind = str(response["ResponseMetadata"]["HTTPHeaders"].get("content-type", ""))
    if kind and kind.partition(";")[0].strip().lower() != _EVENT_STREAM:
        raise ProtocolError(
            f"{where} answered with {kind[:80]} instead of a stream.", hint="Check endpoint_url: a login page or another service may answer there."
        )


def _new_call_id() -> str:
    return f"tooluse_{uuid.uuid4().hex[:22]}"


def _now() -> datetime:
    return datetime.now(UTC)
