"""What boto3, botocore and urllib3 raise, as the core's errors; a service's own words are in `failures`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from botocore import exceptions as aws
from botocore.eventstream import ParserError
from botocore.parsers import ResponseParserError
from urllib3 import exceptions as urllib

from escalera_bedrock.client import Missing, credentials_hint, region_hint
from escalera_bedrock.failures import one_line
from orchestrator.errors import AuthFailed, Incomplete, InvalidRequest, ProtocolError, ProviderError, Unavailable
from orchestrator.messages import read_json

CALLS = frozenset({"Converse", "ConverseStream"})
"""Our own operations; a `ClientError` of another one comes from the search for credentials (STS, SSO)."""

_NO_CREDENTIALS = (
    aws.NoCredentialsError,
    aws.PartialCredentialsError,
    aws.CredentialRetrievalError,
    aws.TokenRetrievalError,
    aws.NoAuthTokenError,
    aws.SSOError,
    aws.MetadataRetrievalError,
    aws.RefreshWithMFAUnsupportedError,
    aws.InfiniteLoopConfigError,
    aws.InvalidConfigError,
    aws.ConfigParseError,
    aws.ConfigNotFound,
    aws.ProfileNotFound,
    aws.UnknownCredentialError,
    aws.ClientError,
)
TIMED_OUT = (aws.ReadTimeoutError, urllib.ReadTimeoutError, TimeoutError)
"""What is raised where nothing came for too long."""
_UNREACHABLE = (aws.ConnectionError, aws.HTTPClientError, urllib.HTTPError, OSError)
_UNREADABLE = (ParserError, ResponseParserError, ValueError)


def events_in(stream: Any, note: Callable[[bytes], object]) -> Iterator[Mapping[str, Any]]:  # botocore.eventstream.EventStream
    """The events of a stream, as iterating over it gives them; but an exception that boto3 has no description of keeps its name and words.

    `note` is told what each frame says: the frames themselves are binary.

    Raises `ResponseParserError` for an event that is no JSON object, of which boto3 makes an empty one.
    """
    for frame in stream._event_generator:
        note(_said(frame))
        try:
            event = stream._parse_event(frame)
        except aws.EventStreamError as error:
            _name(error, frame.headers.get(":exception-type"), frame.payload)
            raise
        if event and not all(event.values()):
            _require_object(frame.payload)
        if event:
            yield event


def _said(frame: Any) -> bytes:  # botocore.eventstream.EventStreamMessage
    """A line with the name of an event and what it holds; a failure that the service does not model stands in headers alone."""
    name = next((told for kind in (":event-type", ":exception-type", ":error-code") if (told := frame.headers.get(kind))), "")
    content = frame.payload or json.dumps(str(frame.headers.get(":error-message", ""))).encode()
    return b'{"%s": %s}\n' % (str(name).encode("utf-8", "surrogatepass"), content)


def _require_object(payload: bytes) -> None:
    with suppress(ValueError):
        if not payload or isinstance(read_json(payload.decode("utf-8")), dict):
            return
    raise ResponseParserError(f"an event that is no JSON object: {payload[:200]!r}")


def _name(error: aws.EventStreamError, name: object, payload: bytes) -> None:
    told = error.response.setdefault("Error", {})
    if not name or told.get("Code"):
        return
    told["Code"] = str(name)
    with suppress(ValueError):
        body = read_json(payload.decode("utf-8", "replace"))
        told["Message"] = (body.get("message") or body.get("Message") or "") if isinstance(body, dict) else ""


def is_time_out(error: Exception) -> bool:
    """Whether a read waited too long; not a connection, which had sent nothing."""
    return isinstance(error, TIMED_OUT) and not isinstance(error, aws.ConnectTimeoutError)


def explained(error: Exception, *, where: str, opened: bool, profile: str | None) -> ProviderError:
    """The error of the core for a library's. `opened`: the call had been accepted, so what broke is its answer."""
    words = one_line(str(error)) or type(error).__name__
    if isinstance(error, Missing):
        return _missing(error, profile)
    if isinstance(error, _NO_CREDENTIALS):
        return AuthFailed(f"The AWS credentials of this agent cannot be had: {words}", hint=credentials_hint(profile))
    if isinstance(error, aws.NoRegionError | aws.InvalidRegionError):
        return InvalidRequest(f"The AWS region of this agent cannot be used: {words}", hint=region_hint(profile))
    if isinstance(error, _UNREACHABLE):
        if opened:
            return Incomplete(f"The answer of {where} broke off before its end: {words}", hint="Try again.")
        return Unavailable(f"{where} cannot be reached: {words}", hint=_network_hint(error))
    if isinstance(error, _UNREADABLE) or not isinstance(error, aws.BotoCoreError):
        # Bodies of an odd shape make botocore's parser stumble in any way (T22).
        return ProtocolError(f"{where} sent what is no answer of Bedrock: {words}", hint="Check endpoint_url: another service may answer there.")
    return InvalidRequest(f"boto3 would not send this: {words}")


def _missing(error: Missing, profile: str | None) -> ProviderError:
    if error.what == "region":
        return InvalidRequest("There is no AWS region for this agent.", hint=region_hint(profile))
    return AuthFailed("There are no AWS credentials for this agent.", hint=credentials_hint(profile))


def _network_hint(error: Exception) -> str:
    if isinstance(error, aws.ProxyConnectionError):
        return "Look at HTTPS_PROXY, HTTP_PROXY and NO_PROXY."
    if isinstance(error, aws.SSLError):
        return "A private authority's certificate goes into AWS_CA_BUNDLE."
    return "Check the network, the agent's region, and its endpoint_url."
