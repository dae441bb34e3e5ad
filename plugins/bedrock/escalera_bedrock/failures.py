"""What Bedrock said went wrong, as one of the core's errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from escalera_bedrock.retry_after import retry_after
from orchestrator.errors import (
    AuthFailed,
    Blocked,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    OutOfFunds,
    Overloaded,
    ProviderError,
    RateLimited,
    TimedOut,
    Transient,
    Unavailable,
)
from orchestrator.messages import well_formed
from orchestrator.retry_after import wait_in_words

WORDS_MAX = 600
"""Characters of AWS's own words in a message of ours."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as it was told, by an HTTP answer or by a frame of a stream; the latter has no status."""

    name: str
    """The exception's name in lower case, without `exception` or `error` at its end: `throttling`."""
    status: int | None
    words: str
    where: str
    headers: Mapping[str, str] = field(default_factory=dict)
    original_status: int | None = None
    """What the model's own server answered, where Bedrock passes that on."""

    @property
    def text(self) -> str:
        return self.words.lower()


# -- which error it is ----------------------------------------------------------------------------

_LONG = (
    r"(prompt|input|context|conversation|request) is too long|too long for (the )?requested model|exceeds? context limit|(maximum|max) context (length|size)"
    r"|(number of )?input tokens? (count )?exceed|exceeds? (the )?(model'?s? )?(maximum )?(context|input) (window|length|limit)|input tokens exceeded"
    r"|too many (input |total )?tokens|maximum number of tokens|tokens? limit exceeded|expected maxlength|reduce the length"
)
_BUSY = r"overload|capacity|too many connections|too busy|high demand"
_NO_MODEL = r"model identifier is invalid|model .{0,80}(not found|not supported|does not exist|unsupported)|invalid model|end of (its )?life|legacy"
_NO_PROFILE = r"on-demand throughput isn.t supported|inference profile"
_PAYMENT = r"payment instrument|payment method|billing|credit balance|marketplace subscription"
_FILTERED = r"content filter|filtering policy|blocked by|guardrail .{0,40}interven|safety polic"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table: what all must be so, and which error it then is. What is not named may be anything."""

    error: type[ProviderError]
    names: Collection[str] = ()
    status: range | None = None
    text: str = ""

    def fits(self, failure: Failure) -> bool:
        if self.names and failure.name not in self.names:
            return False
        if self.status is not None and failure.status not in self.status:
            return False
        return not self.text or re.search(self.text, failure.text) is not None


_THROTTLED = ("throttling", "throttled", "toomanyrequests", "requestlimitexceeded", "limitexceeded", "slowdown", "servicequotaexceeded", "requestthrottled")
_SIGNATURE = ("unrecognizedclient", "invalidsignature", "incompletesignature", "signaturedoesnotmatch", "missingauthenticationtoken", "invalidclienttokenid")
EXPIRED = ("expiredtoken", "expired", "requestexpired", "tokenrefreshrequired")
_DENIED = ("accessdenied", "notauthorized", "unauthorized", "optinrequired", "forbidden")
_MODEL_FAILED = ("modelerror", "modelstream", "modelstreamerror", "model")
_DOWN = ("internalserver", "internalfailure", "internal", "serviceunavailable", "internalservererror")

TABLE: tuple[Rule, ...] = (
    # The name decides; a text only tells apart what has one name.
    Rule(RateLimited, _THROTTLED),
    Rule(Overloaded, ("modelnotready",)),
    Rule(TimedOut, ("modeltimeout",)),
    Rule(OutOfFunds, _DENIED, text=_PAYMENT),
    Rule(AuthFailed, (*_SIGNATURE, *EXPIRED, *_DENIED)),
    Rule(AuthFailed, ("resourcenotfound",), text=r"use case details"),
    Rule(ModelNotFound, ("resourcenotfound",)),
    Rule(Overloaded, _DOWN, text=_BUSY),
    Rule(Unavailable, (*_DOWN, *_MODEL_FAILED)),
    Rule(ContextOverflow, ("validation",), text=_LONG),
    Rule(ModelNotFound, ("validation",), text=f"{_NO_MODEL}|{_NO_PROFILE}"),
    Rule(Blocked, ("validation",), text=_FILTERED),
    Rule(InvalidRequest, ("validation", "serialization", "unknownoperation", "conflict")),
    # A name that is not known, or none: gateways and proxies answer in Bedrock's place. The status decides.
    Rule(AuthFailed, status=range(401, 402)),
    Rule(OutOfFunds, status=range(402, 403)),
    Rule(OutOfFunds, status=range(403, 404), text=_PAYMENT),
    Rule(AuthFailed, status=range(403, 404)),
    Rule(ModelNotFound, status=range(404, 405), text=r"model"),
    Rule(TimedOut, status=range(408, 409)),
    Rule(ContextOverflow, status=range(413, 414), text=_LONG),
    Rule(Unavailable, status=range(424, 425)),
    Rule(RateLimited, status=range(429, 430)),
    Rule(Overloaded, status=range(529, 530)),
    Rule(Overloaded, status=range(503, 504), text=_BUSY),
    Rule(Unavailable, status=range(500, 600)),
    Rule(ContextOverflow, status=range(400, 401), text=_LONG),
    Rule(ModelNotFound, status=range(400, 401), text=_NO_MODEL),
    Rule(InvalidRequest, status=range(300, 500)),
    # Neither: an unmodelled frame, or a library's own words.
    Rule(ContextOverflow, text=_LONG),
    Rule(Overloaded, text=_BUSY),
    Rule(Unavailable),
)
"""Read from top to bottom, the first line that fits decides (page 7: status and exception name first, text last)."""


def failure_of(error: Any, *, where: str, mask: Callable[[str], str]) -> Failure:
    """The failure in a botocore `ClientError`, of which `EventStreamError` is one. `mask` takes the secrets out of its words."""
    response = error.response if isinstance(error.response, Mapping) else {}
    told, metadata = (_mapping(response.get(key)) for key in ("Error", "ResponseMetadata"))
    status = metadata.get("HTTPStatusCode")
    original = response.get("originalStatusCode")
    headers = {str(name).lower(): str(value) for name, value in _mapping(metadata.get("HTTPHeaders")).items()}
    return Failure(
        name=_plain_name(str(told.get("Code") or "")),
        status=status if isinstance(status, int) else None,
        words=one_line(mask(_said(told.get("Message")))),
        where=where,
        headers=headers,
        original_status=original if isinstance(original, int) else None,
    )


def error_of(failure: Failure, *, now: datetime, profile: str | None) -> ProviderError:
    """The error of the core for a failure."""
    kind = next(rule.error for rule in TABLE if rule.fits(failure))
    if failure.name in _MODEL_FAILED and failure.original_status in _REFUSED_BY_MODEL:
        kind = InvalidRequest
    message, hint = _message(failure), _hint(kind, failure, profile)
    if issubclass(kind, Transient):
        return kind(message, retry_after=_wait(failure, now), hint=hint)
    if kind is ContextOverflow:
        limit, needed = overflow_numbers(failure.text)
        return ContextOverflow(message, limit=limit, needed=needed, hint=hint)
    if kind is TimedOut:
        return TimedOut(message, which="turn", hint=hint)
    return kind(message, hint=hint)


def _wait(failure: Failure, now: datetime) -> float | None:
    told = retry_after(failure.headers, now)
    return wait_in_words(failure.words) if told is None else told


_REFUSED_BY_MODEL = frozenset({400, 403, 404, 413, 422})


def _plain_name(code: str) -> str:
    """`ThrottlingException`, `throttlingException` and `Throttling` are one name; a number or a URI is none."""
    name = code.rpartition("#")[2].partition(":")[0].lower()
    return "" if name.isdigit() else re.sub(r"(exception|error|fault)$", "", name)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _said(message: object) -> str:
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message or "")
    if "<" in text and re.search(r"<(html|head|body|!doctype|h1|title)\b", text, re.IGNORECASE):
        text = re.sub(r"<[^>]*>", " ", re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", " ", text[:20_000]))
    return text


def one_line(text: str) -> str:
    """The readable beginning of somebody else's words."""
    words = " ".join("".join(c if c.isprintable() else " " for c in well_formed(text[:20_000])).split())
    return words if len(words) <= WORDS_MAX else words[:WORDS_MAX] + " …"


# -- what to say ----------------------------------------------------------------------------------


def _message(failure: Failure) -> str:
    number = "" if failure.status is None else f" {failure.status}"
    name = f" [{failure.name}]" if failure.name and failure.name not in failure.text else ""
    return f"{failure.where} answered with an error{number}: {failure.words or 'without a word'}{name}"


_HINTS: Mapping[type[ProviderError], str] = {
    OutOfFunds: "Look at the payment method and the Marketplace subscriptions of this AWS account.",
    RateLimited: "Wait, or use another agent; quotas are listed in the Service Quotas console.",
    Overloaded: "Wait, or use another agent in the meantime.",
    ContextOverflow: "Set the agent's context_window_tokens to what the model really takes; where it is that already, ask again.",
    ModelNotFound: "Check the agent's model and region: `aws bedrock list-foundation-models` and `aws bedrock list-inference-profiles` list what there is.",
    TimedOut: "Ask for less at once, or use another agent.",
    Blocked: "Rephrase, or use another agent.",
}

_HINTS_BY_TEXT: tuple[tuple[str, str], ...] = (
    (_NO_PROFILE, "Use the id of an inference profile as the agent's model: the model id with `us.`, `eu.`, `apac.` or `global.` in front of it."),
    (r"use case details", "Fill in the vendor's use case form in the Bedrock console, under model access."),
    (r"access to the model|model access|don.t have access", "Ask for access to the model in the Bedrock console of this region, under model access."),
    (r"signature.{0,40}(expired|not yet)|not yet current", "This machine's clock is wrong."),
    (r"not authorized to perform", "Let the role or user do bedrock:InvokeModelWithResponseStream and bedrock:InvokeModel."),
    (r"support tool|tool use", "Set tools = false for this agent."),
    (r"system (message|prompt)", "This model takes no system messages; use another one."),
)


def _hint(kind: type[ProviderError], failure: Failure, profile: str | None) -> str | None:
    for pattern, hint in _HINTS_BY_TEXT:
        if kind in (AuthFailed, InvalidRequest, ModelNotFound) and re.search(pattern, failure.text):
            return hint
    if kind is AuthFailed:
        from escalera_bedrock.client import credentials_hint

        return credentials_hint(profile)
    return _HINTS.get(kind)


# -- numbers --------------------------------------------------------------------------------------

_SUM = re.compile(r"(\d+) *\+ *(\d+) *> *(\d+)")
_NEEDED_AND_LIMIT = re.compile(r"(\d+) *(?:tokens?)? *> *(\d+)")
_LIMIT = (
    re.compile(r"(?:maximum|max) context (?:length|size)(?: is| of|:)? *(\d+)"),
    re.compile(r"(?:limit|maximum|window|at most|up to)(?: of| is|:)? *(?:allowed )?\(?(\d+)"),
)
_NEEDED = (
    re.compile(r"(?:requested|resulted in|contains|has|got|length of|count of|count is|tokens:) *(?:about )?\(?(\d+)"),
    re.compile(r"(\d+) (?:input )?tokens? (?:exceed|in the)"),
)
_MAX_TOKENS = re.compile(r"max(?:imum)? tokens you requested exceeds the model limit of (\d+)")


def overflow_numbers(text: str) -> tuple[int | None, int | None]:
    """Limit and need in tokens out of a lower-case sentence, each `None` where it is not said."""
    text = re.sub(r"(?<=\d)[,_](?=\d{3})", "", text)
    if summed := _SUM.search(text):
        prompt, output, limit = (int(number[:15]) for number in summed.groups())
        return limit, prompt + output
    if compared := _NEEDED_AND_LIMIT.search(text):
        return int(compared.group(2)[:15]), int(compared.group(1)[:15])
    return _first_number(_LIMIT, text), _first_number(_NEEDED, text)


def affordable_tokens(failure: Failure) -> int | None:
    """The most output tokens the model gives, where that is what it complains of."""
    found = _MAX_TOKENS.search(re.sub(r"(?<=\d),(?=\d{3})", "", failure.text))
    return int(found.group(1)[:9]) or None if found else None


def _first_number(patterns: Collection[re.Pattern[str]], text: str) -> int | None:
    return next((int(found.group(1)[:15]) for pattern in patterns if (found := pattern.search(text))), None)


# -- what can be repaired -------------------------------------------------------------------------


def refuses_caching(failure: Failure) -> bool:
    """Whether the cache points are what is wrong."""
    return failure.status in (400, 403) and re.search(r"prompt caching|cache ?points?\b", failure.text) is not None


def refuses_streaming(failure: Failure) -> bool:
    """Whether the model answers, but not in a stream, or not with tools in one."""
    return failure.name == "validation" and re.search(r"(doesn.t|does not|not) support.{0,60}stream|streaming.{0,40}not supported", failure.text) is not None


def refuses_results_beside_text(failure: Failure) -> bool:
    """Whether tool results and text stand in one message, which models of some families do not take."""
    return failure.name == "validation" and re.search(r"conversation blocks and tool result blocks cannot be provided in the same", failure.text) is not None


def has_expired(failure: Failure) -> bool:
    """Whether the credentials were good once."""
    return failure.name in EXPIRED or (failure.status == 403 and "security token" in failure.text and "expired" in failure.text)
