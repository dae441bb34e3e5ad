"""Which error a status, a code and a text are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from escalera_openrouter.failures import WORDS_MAX, http_failure, told_failure

from orchestrator.errors import ContextOverflow, ProviderError, Transient

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failed(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return http_failure(status, headers or {}, content, where="https://server", now=NOW)


def told(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, told("no"), "AuthFailed"),
        (403, told("no"), "AuthFailed"),
        (403, told("flagged", metadata={"reasons": ["violence"]}), "Blocked"),
        (400, told("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"), "AuthFailed"),
        (402, told("pay"), "OutOfFunds"),
        (429, told("You exceeded your current quota", code="insufficient_quota"), "OutOfFunds"),
        (429, told("You exceeded your monthly QUOTA"), "OutOfFunds"),
        (429, told("quota of this minute", status="RESOURCE_EXHAUSTED"), "RateLimited"),
        (429, told("slow"), "RateLimited"),
        (400, told("Too many tokens, please wait", type="ThrottlingException"), "RateLimited"),
        (400, told("Your credit balance is too low"), "OutOfFunds"),
        (404, told("The model `x` does not exist", code="model_not_found"), "ModelNotFound"),
        (404, told("No endpoints found for x"), "ModelNotFound"),
        (400, told("x is not a valid model ID", code=400), "ModelNotFound"),
        (404, "<html><title>404 Not Found</title></html>", "InvalidRequest"),
        (408, "", "TimedOut"),
        (504, told("upstream", code="timeout"), "Unavailable"),
        (500, told("boom"), "Unavailable"),
        (502, "<html><body>Bad Gateway</body></html>", "Unavailable"),
        (524, "", "Unavailable"),
        (503, told("Loading model", type="unavailable_error"), "Unavailable"),
        (503, told("The model is OVERLOADED"), "Overloaded"),
        (529, "", "Overloaded"),
        (500, told("Jinja Exception: Conversation roles must alternate", type="server_error"), "InvalidRequest"),
        (413, "<h1>413 Request Entity Too Large</h1>", "InvalidRequest"),
        (413, told("Request too large for model x"), "ContextOverflow"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "InvalidRequest"),
        (400, told("filtered", code="content_filter"), "Blocked"),
    ],
)
def test_status_and_code_decide_before_the_text(status: int, body: Any, kind: str) -> None:
    assert failed(status, body).type == kind


@pytest.mark.parametrize(
    ("message", "limit", "needed"),
    [
        ("This model's maximum context length is 8,192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).", 8192, 9000),
        ("This model's maximum context length is 4097 tokens. However, your messages resulted in 5009 tokens.", 4097, 5009),
        ("maximum context length is 4096 tokens and your request has 5000 input tokens", 4096, 5000),
        ("request (15031 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096, 15031),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200000, 210000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease", 200000, 210000),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1000000).", 1000000, 1200000),
        ("context length exceeded", None, None),
    ],
)
def test_an_overflow_names_both_numbers_where_they_were_said(message: str, limit: int | None, needed: int | None) -> None:
    error = failed(400, told(message))
    assert isinstance(error, ContextOverflow)
    assert (error.limit, error.needed) == (limit, needed)


@pytest.mark.parametrize(
    ("status", "message", "kind", "tokens"),
    [
        (402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 2,034.", "OutOfFunds", 2034),
        (402, "Insufficient credits.", "OutOfFunds", None),
        (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you gave 100000.", "InvalidRequest", 16384),
        (400, "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens for claude-x", "InvalidRequest", 8192),
        (400, "`max_tokens` must be less than or equal to `32768`, the maximum value for this model", "InvalidRequest", 32768),
        (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "InvalidRequest", 8192),
        (
            400,
            "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 10 input tokens (5000 > 4096 - 10).",
            "ContextOverflow",
            4086,
        ),
        (400, "max_tokens is not a number", "InvalidRequest", None),
        (429, "You may send 10 requests a minute", "RateLimited", None),
    ],
)
def test_a_complaint_of_too_much_output_names_how_much_would_be_given(status: int, message: str, kind: str, tokens: int | None) -> None:
    error = failed(status, told(message))
    assert (error.type, error.affordable_tokens) == (kind, tokens)


def test_the_output_that_a_window_leaves_beside_the_messages_is_named() -> None:
    error = failed(400, told("maximum context length is 4096 tokens. However, you requested 4500 tokens (596 in the messages, 3904 in the completion)."))
    assert (error.type, error.affordable_tokens) == ("ContextOverflow", 3500)
    full = failed(400, told("maximum context length is 4096 tokens. However, you requested 9000 tokens (5096 in the messages, 3904 in the completion)."))
    assert (full.type, full.affordable_tokens) == ("ContextOverflow", None)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (told("You exceeded your current quota, please check your plan and billing details"), "OutOfFunds"),
        ({"error": "Rate limit exceeded"}, "RateLimited"),
        (told("slow down", code="rate_limit"), "RateLimited"),
        (told("Rate limit reached, retry in 3s"), "RateLimited"),
        (told("the model took too long", code="timeout"), "TimedOut"),
        (told("Request timed out", code=408), "TimedOut"),
    ],
)
def test_a_failure_inside_a_success_is_told_by_its_words(body: Any, kind: str) -> None:
    assert told_failure(body, where="http://h", now=NOW).type == kind


@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"retry-after": "7"}, told("slow"), 7),
        ({"retry-after": "5, 30"}, told("slow"), 30),
        ({"retry-after": "soon,7"}, told("slow"), 7),
        ({"retry-after-ms": "500, 2500"}, told("slow"), 2.5),
        ({}, told("Please try again in 7.5s."), 7.5),
        ({}, told("Requests have exceeded the rate limit. Please retry after 20 seconds."), 20),
        ({}, told("slow", metadata={"headers": {"X-RateLimit-Reset": "1767225610000"}}), 10),
        ({}, [{"error": {"message": "slow", "details": [{"@type": "RetryInfo", "retryDelay": "20s"}]}}], 20),
        ({"retry-after": "-5"}, told("slow"), None),
    ],
)
def test_a_wait_is_found_in_headers_body_and_words(headers: Mapping[str, str], body: Any, wait: float | None) -> None:
    error = failed(429, body, headers)
    assert isinstance(error, Transient)
    assert error.retry_after == wait


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([told("in a list")], "in a list"),
        ({"errors": ["one", {"message": "two"}]}, "one; two"),
        ("plain words", "plain words"),
        ("<html><style>x{}</style><body><h1>Down</h1> for a while</body></html>", "Down for a while"),
        (told("Provider returned error", metadata={"provider_name": "Up", "raw": '{"error":{"message":"the real one"}}'}), "Up: the real one"),
        ({}, "Bad Request"),
        ("", "Bad Request"),
        ({"weird": 1}, '{"weird": 1}'),
        ("\x1b[31mred\x00", "[31mred"),
    ],
)
def test_a_message_holds_the_providers_own_words(body: Any, words: str) -> None:
    message = failed(400, body).message
    assert words in message
    assert message.isprintable()


def test_long_words_are_cut() -> None:
    assert len(failed(400, "x" * 10**6).message) < WORDS_MAX + 10


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "models.example/library/gemma3:4b does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (500, "tools param requires --jinja flag"),
        (404, "No endpoints found that support tool use. Try disabling one of them"),
    ],
)
def test_a_server_that_takes_no_tools_is_told_from_others(status: int, words: str) -> None:
    error = failed(status, told(words))

    assert error.tools_refused
    assert status == 404 or "tools = false" in str(error.hint)
    assert not failed(400, told("the tools you sent are wrong")).tools_refused
