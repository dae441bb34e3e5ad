"""Failures around Bedrock that were seen in public, against the real boto3 client on real sockets."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from escalera_bedrock.body import Shape, converse_body
from escalera_bedrock.retry_after import retry_after

from orchestrator.errors import ProtocolError, RateLimited, TimedOut
from orchestrator.history.normalise import normalise
from orchestrator.messages import Message, Reasoning, Text, ToolCall, ToolResult
from orchestrator.providers import Timeouts
from orchestrator.testing.bedrock_server import BedrockServer, Reply, cut_at, fail, frame_of, say, split, stream

from .conftest import MODEL, REQUEST, TOOL, bedrock, history, play, run, run_with_retries, trial, violations, warmed


def sent(name: str, *, tools: bool = True, messages: tuple[Message, ...] | None = None, **options: Any) -> dict[str, Any]:
    """The body that reaches the server for a trial's history, normalised as every request is."""
    messages = history(trial(name)["history"]) if messages is None else messages
    request = replace(REQUEST, messages=normalise(messages, "bedrock"), tools=(TOOL,) if tools else ())
    with BedrockServer(say("ok")) as server:
        assert run(bedrock(server.url, **options), request).outcome == "ok"
    return dict(server.requests[0].body)


def texts(body: dict[str, Any]) -> list[str]:
    return [block["text"] for message in body["messages"] for block in message["content"] if "text" in block]


@pytest.mark.trial("T13")
def test_t13_characters_cut_at_chunk_borders_arrive_whole() -> None:
    turn = play(split(say("北京 ✓ 😀"), 1))
    assert turn.text == "北京 ✓ 😀"


@pytest.mark.trial("T22")
def test_t22_error_bodies_of_any_shape_give_a_short_message_and_a_class() -> None:
    for response in trial("T22.json")["responses"]:
        content = response["body"] if isinstance(response["body"], str) else json.dumps(response["body"])
        turn = play(Reply([content.encode()], response["status"], {"content-type": "application/json"}))
        assert turn.outcome == "error"
        assert len(turn.error.message) < 800
        assert "<html" not in turn.error.message


@pytest.mark.trial("T23")
def test_t23_odd_retry_after_values_never_raise() -> None:
    now = datetime.fromisoformat(trial("T23.json")["now"])
    for value, expected in trial("T23.json")["cases"]:
        wait = retry_after({"retry-after": value}, now)
        assert wait == (float(value) if expected == "cap or give up at once" else None if expected == "fallback" else expected), value
        assert retry_after({"x-amz-retry-after": value}, now) in (None, float(value) / 1000 if value.replace(".", "").isdigit() else None)


@pytest.mark.trial("T24")
def test_t24_a_page_instead_of_a_stream_is_said_to_be_one() -> None:
    for content in (b"<html><body>Please sign in</body></html>", b"{}", b""):
        turn = play(Reply([content], headers={"content-type": "text/html"}))
        assert isinstance(turn.error, ProtocolError)
        assert "text/html" in turn.error.message


@pytest.mark.trial("T25")
def test_t25_a_stall_in_the_middle_ends_by_the_idle_limit() -> None:
    begun = say("Half an answer").writes[:3]
    started = time.monotonic()
    turn = play(Reply(begun, hold_open=True), request=replace(REQUEST, timeouts=Timeouts(5, 0.3, 20)))
    assert (turn.outcome, turn.error.partial) == ("incomplete", "Half an ")
    assert isinstance(turn.error, TimedOut)
    assert time.monotonic() - started < 4


@pytest.mark.trial("T27")
def test_t27_neighbours_of_one_role_are_merged() -> None:
    body = sent("T27.json", tools=False)
    assert violations(body) == []
    assert texts(body) == ["part one", "part two", "ok", "and more", "go"]
    assert body["system"] == [{"text": "You are here."}, {"text": "be short"}]


@pytest.mark.trial("T29")
def test_t29_blank_blocks_are_not_sent() -> None:
    body = sent("T29.json")
    assert violations(body) == []
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "(no output)"}]
    assert body["system"] == [{"text": "You are here."}]


@pytest.mark.trial("T30")
def test_t30_parallel_results_sit_in_one_message() -> None:
    body = sent("T30.json")
    assert violations(body) == []
    assert sum("toolResult" in block for block in body["messages"][2]["content"]) == 3


@pytest.mark.trial("T31")
def test_t31_orphaned_and_repeated_results_become_text() -> None:
    body = sent("T31.json")
    assert violations(body) == []
    assert any("left over" in text for text in texts(body))


@pytest.mark.trial("T32")
def test_t32_tool_blocks_are_text_where_no_tools_are_offered() -> None:
    body = sent("T32.json", tools=False)
    assert violations(body) == []
    assert "toolConfig" not in body
    assert any("search" in text and '"q": "x"' in text for text in texts(body))


@pytest.mark.trial("T33")
def test_t33_exceptions_inside_the_stream_keep_their_class() -> None:
    for case in trial("T33.json")["cases"]:
        turn, expected = play(stream(*case["events"])), case["expect"]
        assert turn.outcome == expected["outcome"], case
        assert turn.error.retryable == expected.get("retryable", False)
        assert turn.error.partial == expected.get("partial_text", "Cut" if expected["outcome"] == "incomplete" else "")


@pytest.mark.trial("T34")
def test_t34_a_read_time_out_is_sent_once_and_throttling_again_by_the_core_alone() -> None:
    silent = Reply(hold_open=True)
    limits = replace(REQUEST, timeouts=Timeouts(0.3, 0.3, 20))
    with BedrockServer(say("before"), silent, fail(429, "ThrottlingException", "slow down"), say("late")) as server:
        provider = warmed(server)
        waited, waits = run_with_retries(provider, limits)
        assert (waited.error.type, waits, len(server.requests)) == ("TimedOut", [], 2)
        answered, waits = run_with_retries(provider)
        assert (answered.text, len(waits), len(server.requests)) == ("late", 1, 4)
    client = provider._connection.client
    assert client.meta.config.retries["total_max_attempts"] == 1
    assert (client.meta.config.connect_timeout, client.meta.config.read_timeout) == (5, REQUEST.timeouts.first_byte)


@pytest.mark.trial("T35")
def test_t35_cache_points_are_moved_and_never_stand_behind_reasoning() -> None:
    story = trial("T35.json")
    thought = Reasoning(story["assistant_reasoning"]["text"], MODEL, story["assistant_reasoning"]["signature"])
    for reasons in (False, True):
        messages = history(story["history"][:1])
        for step in range(story["steps"]):
            call = ToolCall(f"t{step}", "search", {"q": str(step)})
            messages += (Message("assistant", (thought, call) if reasons else (call,)), Message("user", (ToolResult(call.id, "r"),)))
            body = sent("T35.json", messages=messages, prompt_caching=True)
            assert violations(body) == []
            marked = [place for place, message in enumerate(body["messages"]) if {"cachePoint": {"type": "default"}} in message["content"]]
            assert marked == [0 if reasons else len(messages) - 1]
            assert body["system"][1] == {"cachePoint": {"type": "default"}}


@pytest.mark.trial("T36")
def test_t36_signed_reasoning_goes_back_as_it_came_before_the_call() -> None:
    story = trial("T36.json")
    with BedrockServer(stream(*story["turn1_events"]), say("ok")) as server:
        provider = bedrock(server.url)
        first = run(provider, replace(REQUEST, tools=(TOOL,)))
        result = Message("user", (ToolResult(story["tool_result"]["toolUseId"], story["tool_result"]["text"]),))
        messages = normalise((*REQUEST.messages, Message("assistant", first.parts), result), "bedrock")
        run(provider, replace(REQUEST, messages=messages, tools=(TOOL,)))
    content = server.requests[1].body["messages"][1]["content"]
    assert content[0] == {"reasoningContent": {"reasoningText": {"text": "look it up", "signature": "U0lHLURFTU8="}}}
    assert content[1] == {"toolUse": {"toolUseId": "t1", "name": "search", "input": {"q": "x"}}}


@pytest.mark.trial("T38")
def test_t38_only_known_good_stop_reasons_are_good() -> None:
    outcomes = {reason: play(say("word", stop_reason=reason)) for reason, _ in trial("T38.json")["cases"]}
    assert {reason: turn.outcome for reason, turn in outcomes.items()} == {
        "end_turn": "ok",
        "max_tokens": "incomplete",
        "model_context_window_exceeded": "incomplete",
        "malformed_tool_use": "error",
        "malformed_model_output": "error",
        "guardrail_intervened": "blocked",
        "content_filtered": "blocked",
        "brand_new_reason": "error",
    }
    assert all(turn.error.partial == "word" for reason, turn in outcomes.items() if reason != "end_turn")
    assert "brand_new_reason" in outcomes["brand_new_reason"].error.message


@pytest.mark.trial("T06")
def test_t06_the_end_of_the_message_ends_the_turn_though_the_socket_stays_open() -> None:
    whole = say("1 2 3").writes
    started = time.monotonic()
    with BedrockServer(Reply(whole[:-1], hold_open=True)) as server:
        turn = run(bedrock(server.url))
        assert server.client_gone.wait(2)
    assert (turn.outcome, turn.text, turn.usage) == ("ok", "1 2 3", None)
    assert time.monotonic() - started < 6


@pytest.mark.trial("T18")
def test_t18_half_a_tool_call_is_never_given_out() -> None:
    events = [
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "search"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '{"q":"x'}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
    ]
    turn = play(stream(*events))
    assert (turn.outcome, turn.parts) == ("incomplete", ())


@pytest.mark.trial("T19")
@pytest.mark.parametrize("told", ["", "null", " "])
def test_t19_no_input_means_no_arguments(told: str) -> None:
    events = [
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "ping"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": told}}}},
        {"messageStop": {"stopReason": "tool_use"}},
    ]
    assert play(stream(*events)).calls == [ToolCall("t1", "ping", {})]


@pytest.mark.parametrize("told", ['{"q": NaN}', '{"q": 1e999}', '{"q":' * 200 + "1" + "}" * 200])
def test_input_that_no_json_can_hold_makes_no_call(told: str) -> None:
    events = [
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "ping"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": told}}}},
        {"messageStop": {"stopReason": "tool_use"}},
    ]
    turn = play(stream(*events))
    assert (turn.outcome, turn.parts) == ("incomplete", ())


@pytest.mark.trial("T61")
def test_t61_an_interrupted_call_is_answered_before_it_is_sent() -> None:
    messages = (Message("user", (Text("go"),)), Message("assistant", (ToolCall("t1", "search", {}),)), Message("user", (Text("again"),)))
    body = sent("T61.json", messages=messages)
    assert violations(body) == []
    assert body["messages"][2]["content"][0]["toolResult"]["status"] == "error"


@pytest.mark.trial("T66")
def test_t66_repeated_and_empty_ids_are_told_apart() -> None:
    body = sent("T66.json")
    assert violations(body) == []
    results = [block["toolResult"]["content"][0]["text"] for message in body["messages"] for block in message["content"] if "toolResult" in block]
    assert results == ["one", "two", "three", "four"]


@pytest.mark.trial("T69")
def test_t69_lone_surrogates_can_be_received_and_sent() -> None:
    turn = play(stream({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "cut \ud83d"}}}, {"messageStop": {"stopReason": "end_turn"}}))
    assert turn.text == "cut \ufffd"
    body = sent("T69.json", messages=(Message("user", (Text("cut \ud83d next 😀"),)),))
    assert texts(body) == ["cut \ufffd next 😀"]


@pytest.mark.trial("T69")
def test_t69_a_pair_that_is_cut_between_events_is_one_character() -> None:
    deltas = [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}} for piece in ("a \ud83d", "\ude00 b")]
    turn = play(stream(*deltas, {"messageStop": {"stopReason": "end_turn"}}))
    assert (turn.text, turn.parts) == ("a 😀 b", (Text("a 😀 b"),))


@pytest.mark.trial("T96")
def test_t96_what_was_signed_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "very-secret-session-token")
    tokens = "x-amz-security-token:very-secret-session-token x-amz-security-token:renewed-in-the-meantime"
    words = f"The signature does not match. Canonical string: {tokens} dummy-secret-access-key AKIDDUMMY0000"
    turn = play(fail(403, "InvalidSignatureException", words))
    shown = f"{turn.error.message} {turn.error!r} {turn.error.hint}"
    assert "***" in shown
    assert not any(secret in shown for secret in ("very-secret", "renewed", "dummy-secret", "AKIDDUMMY"))


def test_the_body_of_a_trial_is_the_one_that_is_shown() -> None:
    messages = normalise(history(trial("T30.json")["history"]), "bedrock")
    request = replace(REQUEST, messages=messages, tools=(TOOL,))
    assert sent("T30.json") == converse_body(request, Shape()) == bedrock(None).preview(request)["body"]


def test_a_throttled_stream_that_said_nothing_is_sent_again() -> None:
    throttled = Reply([frame_of({"throttlingException": {"message": "Too many tokens, please wait"}})])
    with BedrockServer(throttled, say("now")) as server:
        turn, waits = run_with_retries(bedrock(server.url))
    assert (turn.text, len(waits)) == ("now", 1)
    assert isinstance(play(throttled).error, RateLimited)


def test_a_stream_cut_by_the_connection_is_incomplete() -> None:
    whole = say("Half an answer")
    turn = play(cut_at(whole, len(whole.content) // 2, broken=True))
    assert turn.outcome == "incomplete"
