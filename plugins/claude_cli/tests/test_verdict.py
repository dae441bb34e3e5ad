"""Each signal by itself, and which of two goes first."""

from __future__ import annotations

import pytest
from escalera_claude_cli.transcript import Transcript
from escalera_claude_cli.verdict import Ending, judge

from orchestrator import errors

NOW = 1_900_000_000.0


def verdict(text="", *, own=None, before=(), resumed=False, stderr="", repeats=0, **result):
    """The error that a failed turn with these signals is."""
    transcript = Transcript()
    lines = [*before, {"type": "result", "is_error": True, "result": text, "num_turns": 1, **result}]
    if own is not None:
        lines.insert(0, {"type": "assistant", "error": own, "message": {"model": "<synthetic>", "content": []}})
    for line in lines:
        list(transcript.take(line))
    with pytest.raises(errors.ProviderError) as raised:
        judge(transcript, Ending(exit_code=1, stderr=stderr, resumed=resumed, agent="claude", now=NOW, repeats=repeats))
    return raised.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidRequest),
        (401, errors.AuthFailed),
        (402, errors.OutOfFunds),
        (403, errors.AuthFailed),
        (404, errors.ModelNotFound),
        (408, errors.TimedOut),
        (413, errors.ContextOverflow),
        (418, errors.InvalidRequest),
        (422, errors.InvalidRequest),
        (429, errors.RateLimited),
        (500, errors.Unavailable),
        (503, errors.Unavailable),
        (529, errors.Overloaded),
        (599, errors.Unavailable),
    ],
)
def test_status_in_a_field_or_in_the_words_is_its_error(status, kind):
    assert type(verdict("sorry", api_error_status=status)) is kind
    assert type(verdict("sorry", api_error_status=str(status))) is kind
    assert type(verdict(f"API Error: {status} sorry")) is kind
    assert type(verdict(f"API Error (us.anthropic.claude-x-v1:0): {status} sorry")) is kind


def retry(attempt):
    return {"type": "system", "subtype": "api_retry", "attempt": attempt, "max_retries": 2, "retry_delay_ms": 6000, "error_status": 429}


BEGINS = {"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m1"}}}


@pytest.mark.parametrize(
    ("before", "repeats", "status", "final"),
    [
        ([], 1, 429, True),
        ([], 1, 503, True),
        ([retry(1)], 2, 429, True),
        ([retry(1), retry(2)], 2, 429, False),
        ([retry(1), retry(2), BEGINS], 2, 429, True),
        ([], 0, 429, False),
        ([], 1, None, False),
    ],
    ids=["at once", "a server that is down", "at its first repeat", "all used up", "the next request", "no repeat of ours", "no answer of a server"],
)
def test_a_refusal_that_the_program_does_not_repeat_though_it_might_is_final(before, repeats, status, final):
    error = verdict("sorry", before=before, repeats=repeats, api_error_status=status)

    assert error.final is final
    assert ("more than a minute" in (error.hint or "")) is final


def test_a_usage_limit_that_names_its_end_needs_no_guess():
    error = verdict("You've hit your session limit", repeats=1, api_error_status=429)

    assert (error.final, error.retry_after) == (False, 3600.0)


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        ("authentication_failed", errors.AuthFailed),
        ("oauth_org_not_allowed", errors.AuthFailed),
        ("billing_error", errors.OutOfFunds),
        ("rate_limit", errors.RateLimited),
        ("overloaded", errors.Overloaded),
        ("model_not_found", errors.ModelNotFound),
        ("server_error", errors.Unavailable),
        ("max_output_tokens", errors.Incomplete),
        ("unknown", errors.Unavailable),
        ("brand_new", errors.Unavailable),
    ],
)
def test_own_word_of_the_program_is_its_error(own, kind):
    assert type(verdict("sorry", own=own)) is kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("prompt_too_long", errors.ContextOverflow),
        ("blocking_limit", errors.ContextOverflow),
        ("image_error", errors.InvalidRequest),
        ("stop_hook_prevented", errors.PermissionDenied),
        ("hook_stopped", errors.PermissionDenied),
        ("max_turns", errors.Incomplete),
        ("aborted_streaming", errors.Incomplete),
        ("aborted_tools", errors.Incomplete),
        (["odd"], errors.Unavailable),
    ],
)
def test_terminal_reason_is_its_error(reason, kind):
    assert type(verdict("sorry", terminal_reason=reason)) is kind


@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize(
    ("subtype", "kind"),
    [
        ("error_max_turns", errors.Incomplete),
        ("error_max_structured_output_retries", errors.Incomplete),
        ("error_max_budget_usd", errors.OutOfFunds),
        ("error_during_execution", errors.Unavailable),
        ("error_of_tomorrow", errors.Unavailable),
    ],
)
def test_subtype_that_names_an_error_is_one_whatever_the_flag_beside_it(subtype, is_error, kind):
    said = {"type": "assistant", "message": {"id": "m1", "model": "m", "content": [{"type": "text", "text": "I will now fix it."}]}}

    error = verdict(None, before=[said], subtype=subtype, is_error=is_error, errors=["what went wrong"])

    assert (type(error), error.message, error.partial) == (kind, "what went wrong", "I will now fix it.")


def test_tools_that_were_denied_and_aborted_are_a_denial():
    assert type(verdict(terminal_reason="aborted_tools", permission_denials=[{"tool_name": "Bash"}])) is errors.PermissionDenied


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("No conversation found with session ID: x", errors.SessionLost),
        ("Credit balance is too low", errors.OutOfFunds),
        ("You've hit your weekly limit", errors.RateLimited),
        ("You've hit your limit · resets 8:30am (UTC)", errors.RateLimited),
        ("You're out of extra usage · resets 3pm (UTC)", errors.RateLimited),
        ("You're out of extra usage credits", errors.OutOfFunds),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", errors.ContextOverflow),
        ("Prompt is too long", errors.ContextOverflow),
        ("Not logged in · Please run /login", errors.AuthFailed),
        ("There's an issue with the selected model (x)", errors.ModelNotFound),
        ("The API is at capacity", errors.Overloaded),
        ("Too many requests", errors.RateLimited),
        ("This violates our Usage Policy", errors.Blocked),
        ("fetch failed", errors.Unavailable),
        ("Error: Session ID x is already in use.", errors.InvalidRequest),
        ("something nobody has seen", errors.Unavailable),
    ],
)
def test_words_are_their_error_whatever_their_case(text, kind):
    assert type(verdict(text)) is kind
    assert type(verdict(text.upper())) is kind
    assert type(verdict(stderr=text)) is kind


@pytest.mark.parametrize(
    ("signals", "kind"),
    [
        ({"text": "Too many tokens, prompt is too long", "api_error_status": 429}, errors.RateLimited),
        ({"text": "not logged in", "own": "rate_limit"}, errors.RateLimited),
        ({"text": "not logged in", "terminal_reason": "max_turns"}, errors.Incomplete),
        ({"text": "overloaded", "api_error_status": 500}, errors.Overloaded),
        ({"text": "overloaded", "own": "server_error"}, errors.Overloaded),
        ({"text": "sorry", "own": "billing_error", "api_error_status": 400}, errors.OutOfFunds),
        ({"text": "credit balance is too low", "api_error_status": 400}, errors.OutOfFunds),
        ({"text": "API Error (us.anthropic.x): 400 The provided model identifier is invalid."}, errors.ModelNotFound),
    ],
)
def test_status_and_name_go_before_words(signals, kind):
    assert type(verdict(**signals)) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Your credit balance is too low", errors.OutOfFunds),
        ("prompt is too long: 210000 tokens > 200000 maximum", errors.SessionLost),
        ("messages.3: thinking blocks cannot be modified", errors.SessionLost),
    ],
)
def test_a_400_on_resume_gives_the_conversation_up_unless_it_is_the_credit(text, kind):
    error = verdict(text, api_error_status=400, resumed=True)

    assert type(error) is kind
    assert not isinstance(error, errors.SessionLost) or error.sent


@pytest.mark.parametrize(("status", "waits"), [("rejected", 120.0), ("allowed", None), ("allowed_warning", None)])
def test_only_a_rejection_names_the_end_of_a_limit(status, waits):
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": status, "resetsAt": NOW + 120}}

    assert verdict("rate limited", before=[event], api_error_status=429).retry_after == waits
