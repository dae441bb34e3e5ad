"""What a provider said went wrong, as one of the core's errors."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any

from escalera_openrouter.retry_after import duration_seconds, retry_after
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
from orchestrator.messages import read_json, well_formed
from orchestrator.retry_after import wait_in_words

WORDS_MAX = 600
"""Characters of a provider's own words in a message of ours."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as it was told: the status, the codes beside it, the words, the numbers."""

    status: int | None
    codes: frozenset[str]
    words: str
    where: str
    """The server, for the message."""
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.words.lower()


def http_failure(status: int, headers: Mapping[str, str], content: bytes, *, where: str, now: datetime) -> ProviderError:
    """The error for an HTTP answer that is none; `headers` have lower-case names, `content` is its body of any shape."""
    body = _decoded(content)
    return _error(_failure(body, status, where, headers), now)


def told_failure(body: object, *, where: str, now: datetime) -> ProviderError:
    """The error for one that was told inside a 200: an event, a field, a line."""
    return _error(_failure(body, None, where, {}), now)


def excerpt(content: bytes) -> str:
    """The readable beginning of a body."""
    return _words(_decoded(content))


# -- what was said --------------------------------------------------------------------------------


def _decoded(content: bytes) -> object:
    text = content.decode("utf-8-sig", "replace")
    try:
        return read_json(text)
    except ValueError:
        return text


def _failure(body: object, status: int | None, where: str, headers: Mapping[str, str]) -> Failure:
    told = _error_object(body)
    metadata = _mapping(told.get("metadata"))
    codes = {str(value).lower() for value in (told.get("code"), told.get("type"), told.get("status"), metadata.get("error_type")) if value not in (None, "")}
    numbers = {int(code) for code in codes if code.isascii() and code.isdigit() and 300 <= int(code) <= 599}
    if status is None and numbers:
        status = min(numbers)
    if metadata.get("reasons") or "flagged_input" in metadata:
        codes.add("moderation")
    within = {str(name).lower(): str(value) for name, value in _mapping(metadata.get("headers")).items()}
    return Failure(status, frozenset(codes - {str(number) for number in numbers}), _words(body), where, told, {**within, **headers})


def _error_object(body: object) -> Mapping[str, Any]:
    """The mapping that holds code and message, wherever it is wrapped (Gemini sends a list)."""
    if isinstance(body, Sequence) and not isinstance(body, str) and body:
        return _error_object(body[0])
    outer = _mapping(body)
    return _mapping(outer.get("error")) or outer


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(body: object) -> str:
    """The provider's own words out of any shape, on one line."""
    told = _find_words(body, 0)
    metadata = _mapping(_error_object(body).get("metadata"))
    raw = metadata.get("raw")  # OpenRouter: what the upstream provider said
    if raw:
        upstream = _find_words(_decoded(raw.encode("utf-8", "replace")) if isinstance(raw, str) else raw, 0)
        source = metadata.get("provider_name")
        told = f"{told} ({source}: {upstream})" if source else f"{told} ({upstream})"
    return _one_line(told)


def _find_words(body: object, depth: int) -> str:
    if isinstance(body, str):
        return _without_markup(body) if "<" in body and re.search(r"<(html|head|body|!doctype|h1|title|p)\b", body, re.IGNORECASE) else body
    if depth > 5:
        return ""
    if isinstance(body, Sequence):
        return "; ".join(filter(None, (_find_words(item, depth + 1) for item in body[:3])))
    for key in ("error", "message", "msg", "detail", "details", "errors", "error_description", "title", "reason"):
        if found := _find_words(_mapping(body).get(key) or "", depth + 1):
            return found
    return json.dumps(body) if body else ""


def _without_markup(page: str) -> str:
    page = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", " ", page[:20_000])
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def _one_line(text: str) -> str:
    words = " ".join("".join(c if c.isprintable() else " " for c in well_formed(text)).split())
    return words if len(words) <= WORDS_MAX else words[:WORDS_MAX] + " …"


# -- which error it is ----------------------------------------------------------------------------

_LONG = re.compile(
    r"context[ _](length|size|window|limit)|maximum context|prompt is too long|input is too long|too many (input )?tokens"
    r"|input token count|maximum number of tokens|reduce the length|request too large|exceeds? the (available )?context",
)
_TEMPLATE = re.compile(
    r"jinja|roles must alternate|chat template|system role not supported|system messages? must be at the beginning|only user and assistant roles"
    r"|unexpected role '?\w+'? after role"
)
_REASONING = re.compile(r"reasoning_content.{0,80}must be passed back")
_NO_TOOLS = re.compile(
    r"does(?: not|n't) support (?:tools|tool|function)|no endpoints found that support tool|tool choice requires|tools param requires"
    r"|tools? (?:use|calls?|calling) (?:is|are) not (?:supported|enabled|available)|unsupported (?:parameter|field|value)s?:? [`'\"]?tools\b"
)
_BUSY = re.compile(r"overload|capacity|too busy|high demand")
_KEY = re.compile(r"(api key|api_key|credential|token).{0,40}(not valid|invalid|incorrect|expired)|(invalid|incorrect) api[ _]key")
_CREDIT = re.compile(r"credit balance|insufficient (credit|fund|balance)|out of credit|billing hard limit")
_QUOTA = re.compile(r"quota|billing")
_SPENT = re.compile(r"exceeded your (?:current )?quota|quota (?:has been )?exceeded|insufficient[ _]quota|billing hard limit")
_RATE = re.compile(r"rate[ _-]?limit|too many requests")
_MODEL = re.compile(r"\bmodels?\b|no endpoints found")
_NO_MODEL = re.compile(r"model.{0,120}(not found|does not exist|not supported|unknown)|not a valid model|unknown model|no such model")

_AUTH_CODES = frozenset({"invalid_api_key", "authentication_error", "unauthenticated", "permission_error", "permission_denied", "invalid_authentication"})
_FUNDS_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits", "payment_required"})
_RATE_CODES = frozenset(
    {
        "rate_limit_exceeded",
        "rate_limit_error",
        "rate_limit",
        "rate_limited",
        "too_many_requests",
        "resource_exhausted",
        "throttling",
        "throttlingexception",
        "tokens",
    }
)
_BUSY_CODES = frozenset({"overloaded", "overloaded_error", "engine_overloaded", "engine_overloaded_error", "provider_overloaded"})
_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large", "context_window_exceeded"})
_MODEL_CODES = frozenset({"model_not_found", "model_not_available", "model_decommissioned", "unknown_model"})
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "moderation", "responsibleaipolicyviolation", "safety"})
_DOWN_CODES = frozenset(
    {"server_error", "internal_server_error", "internal_error", "internal", "api_error", "unavailable", "unavailable_error", "provider_unavailable"}
)
_LATE_CODES = frozenset({"timeout", "request_timeout"})
_WRONG_CODES = frozenset({"invalid_request_error", "invalid_argument", "badrequesterror", "tool_use_failed", "unprocessable_entity"})


def _error(failure: Failure, now: datetime) -> ProviderError:
    error = _classified(failure, now)
    error.affordable_tokens = affordable_tokens(failure)
    error.tools_refused = bool(_NO_TOOLS.search(failure.text))
    return error


def _classified(failure: Failure, now: datetime) -> ProviderError:
    kind = _kind(failure)
    message = _message(failure)
    if issubclass(kind, Transient):
        return kind(message, retry_after=_wait(failure, now), hint=_HINTS.get(kind))
    if kind is ContextOverflow:
        limit, needed = overflow_numbers(failure)
        return ContextOverflow(message, limit=limit, needed=needed, hint=_HINTS[kind])
    if kind is InvalidRequest:
        return InvalidRequest(message, hint=_request_hint(failure))
    if kind is TimedOut:  # the server's own limit: it may have worked on the answer until then (page 7: never sent again)
        return TimedOut(message, which="turn", hint=_HINTS[kind])
    return kind(message, hint=_HINTS.get(kind))


def _kind(failure: Failure) -> type[ProviderError]:
    """The class of a failure, read from top to bottom: the first line that fits decides (page 7: status and code first, text last)."""
    status, codes, text = failure.status, failure.codes, failure.text
    table: tuple[tuple[bool, type[ProviderError]], ...] = (
        (bool(codes & _FILTER_CODES), Blocked),
        (status == 402 or bool(codes & _FUNDS_CODES), OutOfFunds),
        (status in (401, 403) or bool(codes & _AUTH_CODES), AuthFailed),
        (bool(codes & _LONG_CODES), ContextOverflow),
        (status == 413 and bool(_LONG.search(text)), ContextOverflow),
        (status == 429 and not codes & _RATE_CODES and not wait_in_words(text) and bool(_QUOTA.search(text)), OutOfFunds),
        (status == 429 or bool(codes & _RATE_CODES), RateLimited),
        # Told inside a success, or as a wrong request: only the words say what it is.
        (status in (None, 400) and not wait_in_words(text) and bool(_SPENT.search(text)), OutOfFunds),
        (status in (None, 400) and bool(_RATE.search(text)), RateLimited),
        (status == 529 or bool(codes & _BUSY_CODES), Overloaded),
        (bool(codes & _MODEL_CODES), ModelNotFound),
        (status == 404 and bool(_MODEL.search(text)), ModelNotFound),
        (status == 503 and bool(_BUSY.search(text)), Overloaded),
        # Templates raise inside the server: a 500 that can never succeed (llama.cpp), and an overflow in mid-answer.
        (status == 500 and bool(_TEMPLATE.search(text)), InvalidRequest),
        (status in (400, 422, 500, None) and bool(_LONG.search(text)), ContextOverflow),
        (status == 408 or (status is None and bool(codes & _LATE_CODES)), TimedOut),
        (status is not None and status >= 500, Unavailable),
        (status in (400, None) and bool(_KEY.search(text)), AuthFailed),
        (status in (400, None) and bool(_CREDIT.search(text)), OutOfFunds),
        (status in (400, 422, None) and bool(_NO_MODEL.search(text)), ModelNotFound),
        (status is not None or bool(codes & _WRONG_CODES), InvalidRequest),
        (bool(codes & _DOWN_CODES), Unavailable),
        (bool(_BUSY.search(text)), Overloaded),
    )
    return next((kind for fits, kind in table if fits), Unavailable)


_HINTS: Mapping[type[ProviderError], str] = {
    AuthFailed: "Check the agent's api_key (or token_cmd, headers): it is missing, wrong, expired, or not allowed to use this model.",
    OutOfFunds: "Add credit or raise the limit of the account behind this key.",
    RateLimited: "Wait, or use another agent in the meantime.",
    Overloaded: "Wait, or use another agent in the meantime.",
    ContextOverflow: "Set the agent's context_window_tokens to what the server really takes; where it is that already, ask again.",
    ModelNotFound: "Check the agent's model; `escalera agents check` lists what the server offers.",
    TimedOut: "Ask for less at once, or use another agent.",
    Blocked: "Rephrase, or use another agent.",
}


def _request_hint(failure: Failure) -> str | None:
    if _NO_TOOLS.search(failure.text):
        return "This model or server takes no tools: set tools = false for the agent."
    if _REASONING.search(failure.text):
        return "This model wants its reasoning back while tools run: set replay_reasoning = true for the agent."
    if _TEMPLATE.search(failure.text):
        return "This model's chat template insists on alternating roles: set strict_roles = true for the agent."
    if failure.status == 404:
        return "Check the agent's base_url and chat_path."
    if failure.status == 413:
        return "A server or proxy on the way refuses a request of this size."
    return None


def _message(failure: Failure) -> str:
    status = failure.status
    number = "" if status is None else f" {status}"
    phrase = next((known.phrase for known in HTTPStatus if known == status), "")
    codes = ", ".join(sorted(code for code in failure.codes if code != "error" and code not in failure.text))
    return _one_line(f"{failure.where} answered with an error{number}: {failure.words or phrase or 'without a word'}" + (f" [{codes}]" if codes else ""))


def _wait(failure: Failure, now: datetime) -> float | None:
    told = retry_after(failure.headers, now)
    if told is not None:
        return told
    for detail in failure.body.get("details") or () if isinstance(failure.body.get("details"), list) else ():
        if delay := _mapping(detail).get("retryDelay"):  # Gemini's RetryInfo
            return duration_seconds(str(delay))
    return wait_in_words(failure.text)


_AFFORDABLE = (
    re.compile(r"can only afford (\d+)"),
    re.compile(r"max_(?:completion_|output_)?tokens.{0,40}?(?:too large|> *\d).*?(?:at most|maximum of) (\d+)"),
    re.compile(r"max_(?:completion_|output_)?tokens: *\d+ *> *(\d+)"),
    re.compile(r"max_(?:completion_|output_)?tokens.{0,20}must be (?:less than or equal to|at most|<=) *[`'\"]?(\d+)"),
    re.compile(r"range of max_(?:completion_|output_)?tokens is \[\d+, *(\d+)\]"),
)
_LEFT_BESIDE = re.compile(r"max_(?:completion_|output_)?tokens.{0,60}too large.*\(\d+ *> *(\d+) *- *(\d+)\)")


_SHARES = re.compile(r"(\d+) (?:tokens )?(?:in|from) the (?:input )?messages(?:,| and) (\d+) (?:tokens )?(?:in|for) the completion")


def affordable_tokens(failure: Failure) -> int | None:
    """The output tokens that would be given, where the complaint is of having been asked for more."""
    text = re.sub(r"(?<=\d)[,_](?=\d{3})", "", failure.text)
    if shares := _SHARES.search(text):
        window, prompt = _first_number(_LIMIT, text), int(shares.group(1)[:15])
        return None if window is None or window <= prompt else window - prompt
    if left := _LEFT_BESIDE.search(text):  # vLLM: window - prompt
        window, prompt = (int(number[:15]) for number in left.groups())
        return max(0, window - prompt) or None
    return _first_number(_AFFORDABLE, text)


_LIMIT = (
    re.compile(r"context (?:length|size|window)(?: limit)?(?: is| of|:)? *\(?(\d+)"),
    re.compile(r"context (?:length|size|window) *\((\d+)"),
    re.compile(r"> *(\d+)"),
    re.compile(r"limit:? (\d+)"),
    re.compile(r"maximum (?:number of )?tokens allowed *\(?(\d+)"),
    re.compile(r"maximum (?:of|is) (\d+) tokens"),
)
_NEEDED = (
    re.compile(r"requested (?:about )?(\d+)"),
    re.compile(r"resulted in (\d+)"),
    re.compile(r"request \((\d+) tokens\)"),
    re.compile(r"(\d+) tokens? *> *\d"),
    re.compile(r"(?:request|prompt|input) (?:has|contains|of|length is) (\d+)"),
    re.compile(r"token count *\(?(?:of )?(\d+)"),
)


def overflow_numbers(failure: Failure) -> tuple[int | None, int | None]:
    """Limit and need in tokens, from fields (llama.cpp) or from the sentence."""
    text = re.sub(r"(?<=\d)[,_](?=\d{3})", "", failure.text)
    limit, needed = (_positive(failure.body.get(name)) for name in ("n_ctx", "n_prompt_tokens"))
    summed = re.search(r"(\d+) *\+ *(\d+) *> *(\d+)", text)
    if summed:
        return int(summed.group(3)), int(summed.group(1)) + int(summed.group(2))
    return limit or _first_number(_LIMIT, text), needed or _first_number(_NEEDED, text)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _first_number(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    return next((int(found.group(1)[:15]) for pattern in patterns if (found := pattern.search(text))), None)
