"""Which error a failure is: the table, the numbers, the waits; by answers of the server and by what the libraries raise."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import pytest
from escalera_bedrock.failures import TABLE, Failure, error_of, overflow_numbers
from escalera_bedrock.retry_after import retry_after

from orchestrator.errors import ProtocolError, Unavailable
from orchestrator.testing.bedrock_server import Reply, fail, stream

from .conftest import bedrock, play, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANSWERED: list[tuple[int, str, str, str]] = [
    (429, "ThrottlingException", "Too many tokens, please wait before trying again.", "RateLimited"),
    (400, "ThrottlingException", "input is too long, slow down", "RateLimited"),
    (429, "ModelNotReadyException", "Model is not ready for inference.", "Overloaded"),
    (400, "ServiceQuotaExceededException", "Your request exceeds the service quota.", "RateLimited"),
    (408, "ModelTimeoutException", "Model has timed out in processing the request.", "TimedOut"),
    (500, "InternalServerException", "The system encountered an unexpected error.", "Unavailable"),
    (503, "ServiceUnavailableException", "Bedrock is unable to process your request.", "Unavailable"),
    (503, "ServiceUnavailableException", "Too many connections, please wait before trying again.", "Overloaded"),
    (424, "ModelErrorException", "The model failed.", "Unavailable"),
    (403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", "AuthFailed"),
    (403, "AccessDeniedException", "INVALID_PAYMENT_INSTRUMENT: A valid payment instrument must be provided.", "OutOfFunds"),
    (403, "UnrecognizedClientException", "The security token included in the request is invalid.", "AuthFailed"),
    (403, "InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than 20260101T000100Z", "AuthFailed"),
    (404, "ResourceNotFoundException", "This model version has reached the end of its life.", "ModelNotFound"),
    (404, "ResourceNotFoundException", "Model use case details have not been submitted for this account.", "AuthFailed"),
    (400, "ValidationException", "The provided model identifier is invalid.", "ModelNotFound"),
    (400, "ValidationException", "Invocation of model ID x with on-demand throughput isn't supported. Use an inference profile.", "ModelNotFound"),
    (400, "ValidationException", "Input is too long for requested model.", "ContextOverflow"),
    (400, "ValidationException", "The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum", "ContextOverflow"),
    (400, "ValidationException", "Output blocked by content filtering policy", "Blocked"),
    (400, "ValidationException", "A conversation must start with a user message.", "InvalidRequest"),
    (418, "SomethingNewException", "teapot", "InvalidRequest"),
    (401, "", "Missing key", "AuthFailed"),
    (402, "", "Pay first", "OutOfFunds"),
    (413, "", "request too large", "InvalidRequest"),
    (429, "", "slow down", "RateLimited"),
    (502, "", "<html><head><title>502 Bad Gateway</title></head></html>", "Unavailable"),
    (503, "", "over capacity", "Overloaded"),
    (529, "", "overloaded", "Overloaded"),
    (307, "", "go elsewhere", "InvalidRequest"),
]


@pytest.mark.parametrize(
    ("status", "name", "words", "error"), ANSWERED, ids=[f"{case[0]}-{case[1] or 'nameless'}-{case[3]}-{n}" for n, case in enumerate(ANSWERED)]
)
def test_status_and_name_decide_before_the_text(status: int, name: str, words: str, error: str) -> None:
    failure = Failure(name.lower().removesuffix("exception"), status, words, "here")
    assert error_of(failure, now=NOW, profile=None).type == error


def test_the_same_signals_on_the_wire() -> None:
    for status, name, words, error in ANSWERED[:8]:
        told = play(fail(status, name, words)).error
        assert (told.type, words in told.message, told.agent) == (error, True, "strong")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("throttlingException", "RateLimited"),
        ("internalServerException", "Unavailable"),
        ("modelStreamErrorException", "Unavailable"),
        ("serviceUnavailableException", "Unavailable"),
        ("validationException", "InvalidRequest"),
    ],
)
def test_exceptions_in_a_stream_have_no_status_and_a_small_first_letter(name: str, error: str) -> None:
    assert play(stream({name: {"message": "x"}})).error.type == error


def test_what_the_models_own_server_refused_is_not_sent_again() -> None:
    told = play(fail(424, "ModelErrorException", "bad input", originalStatusCode=400)).error
    assert (told.type, told.retryable) == ("InvalidRequest", False)


def test_every_failure_finds_a_line() -> None:
    assert TABLE[-1].fits(Failure("", None, "", "here"))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("prompt is too long: 200049 tokens > 200000 maximum", (200000, 200049)),
        ("input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease", (200000, 206192)),
        ("this model's maximum context length is 8,192 tokens. however, you requested 9,000 tokens", (8192, 9000)),
        ("this model's maximum context length is 4097 tokens. however, your messages resulted in 4294 tokens", (4097, 4294)),
        ("input is too long for requested model.", (None, None)),
        ("malformed input request: expected maxlength: 20000, actual: 26000", (None, None)),
    ],
)
def test_limit_and_need_are_read_from_the_sentence(text: str, numbers: tuple[int | None, int | None]) -> None:
    assert overflow_numbers(text) == numbers


def test_overflow_carries_both_numbers() -> None:
    told = play(fail(400, "ValidationException", "prompt is too long: 200049 tokens > 200000 maximum")).error
    assert (told.limit, told.needed) == (200000, 200049)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-amz-retry-after": "1500"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"x-amz-retry-after": "soon", "retry-after": "2"}, 2.0),
        ({}, None),
    ],
)
def test_waits_are_read_in_every_unit(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_a_wait_that_aws_names_is_in_the_error() -> None:
    assert play(fail(429, "ThrottlingException", "x", headers={"x-amz-retry-after": "1500"})).error.retry_after == 1.5
    assert play(fail(429, "ThrottlingException", "Try again in 20 seconds.")).error.retry_after == 20


def test_hints_say_what_to_do() -> None:
    assert "inference profile" in play(fail(400, "ValidationException", "on-demand throughput isn't supported")).error.hint
    assert "aws sso login --profile work" in error_of(Failure("unrecognizedclient", 403, "invalid", "here"), now=NOW, profile="work").hint
    assert "tools = false" in play(fail(400, "ValidationException", "This model doesn't support tool use.")).error.hint


# -- what the libraries raise ---------------------------------------------------------------------


def test_nobody_listening_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        turn = run(bedrock(f"http://127.0.0.1:{unused.getsockname()[1]}"))
    assert isinstance(turn.error, Unavailable)
    assert "endpoint_url" in turn.error.hint


def test_a_name_that_is_not_known_is_unavailable() -> None:
    turn = run(bedrock("http://nowhere.invalid"))
    assert isinstance(turn.error, Unavailable)


def test_a_server_that_closes_without_an_answer_is_unavailable() -> None:
    assert isinstance(play(Reply(refuse=True)).error, Unavailable)


def test_a_reset_connection_breaks_the_answer_off() -> None:
    turn = play(Reply(stream({"messageStart": {"role": "assistant"}}).writes, reset=True))
    assert turn.outcome == "incomplete"


def test_bytes_that_are_no_frames_are_a_fault_of_the_protocol() -> None:
    assert isinstance(play(Reply([b"data: {}\n\n" * 20])).error, ProtocolError)


def test_tls_with_a_plain_server_is_unavailable() -> None:
    from orchestrator.testing.bedrock_server import BedrockServer

    with BedrockServer() as server:
        turn = run(bedrock(server.url.replace("http:", "https:")))
    assert isinstance(turn.error, Unavailable)


def test_what_boto3_will_not_send_is_an_invalid_request() -> None:
    from dataclasses import replace

    from orchestrator.providers import ToolSchema

    from .conftest import REQUEST

    turn = play(request=replace(REQUEST, tools=(ToolSchema("", "", {}),)))
    assert turn.error.type == "InvalidRequest"
