"""Failures of OpenAI-compatible streams that were seen in public, against the real client on real sockets."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from escalera_openrouter.retry_after import retry_after

from orchestrator.errors import ContextOverflow, InvalidRequest, ProtocolError, RateLimited, TimedOut, Unavailable
from orchestrator.messages import Message, Text, ToolResult
from orchestrator.providers import Timeouts
from orchestrator.testing.openai_server import OpenAIServer, Reply, json_reply, reply

from .conftest import REQUEST, openai, play, run, trial, trial_bytes


def served(name: str) -> Reply:
    return Reply([trial_bytes(name)])


def counts(turn: Any) -> tuple[int | None, int | None]:
    return turn.usage.input_tokens, turn.usage.output_tokens


@pytest.mark.trial("T01")
def test_t01_chunks_without_choices_or_delta_are_skipped() -> None:
    turn = play(served("T01.sse"))
    assert (turn.outcome, turn.text, turn.calls) == ("ok", "Hi", [])


@pytest.mark.trial("T02")
def test_t02_usage_after_the_finish_reason_is_read() -> None:
    turn = play(served("T02.sse"))
    assert (turn.outcome, turn.text, counts(turn)) == ("ok", "Hello", (12, 2))


@pytest.mark.trial("T03")
def test_t03_the_last_complete_usage_counts_and_ends_nothing() -> None:
    turn = play(served("T03.sse"))
    assert (turn.outcome, turn.text, counts(turn)) == ("ok", "abc", (20, 3))


@pytest.mark.trial("T04")
def test_t04_tool_fragments_without_index_follow_their_id_or_the_newest_call() -> None:
    turn = play(served("T04.sse"))
    assert turn.calls == [{"id": "call_a", "name": "get_time", "arguments": {"tz": "UTC"}}, {"id": "call_b", "name": "get_day", "arguments": {"d": 1}}]


@pytest.mark.trial("T05")
def test_t05_another_id_at_the_same_index_is_another_call() -> None:
    turn = play(served("T05.sse"))
    assert [(call["id"], call["name"], call["arguments"]) for call in turn.calls] == [
        ("c_1", "write_file", {"p": "a"}),
        ("c_2", "write_file", {"p": "b"}),
        ("c_3", "write_file", {"p": "c"}),
    ]


@pytest.mark.trial("T06")
def test_t06_a_finish_reason_ends_the_turn_though_the_socket_stays_open() -> None:
    script = Reply([write["utf8"].encode() for write in trial("T06.json")["http"]["writes"]], hold_open=True)
    started = time.monotonic()
    with OpenAIServer(script) as server:
        turn = run(openai(server.url))
        took = time.monotonic() - started
        assert server.client_gone.wait(2)
    assert (turn.outcome, turn.text) == ("ok", "1 2 3")
    assert took < 4


@pytest.mark.trial("T08")
def test_t08_an_error_inside_the_stream_fails_the_turn_with_its_code() -> None:
    turn = play(served("T08.sse"))
    assert isinstance(turn.error, Unavailable)
    assert turn.error.retryable
    assert turn.error.partial == "Part"
    assert "502" in turn.error.message
    assert "Upstream provider disconnected" in turn.error.message


@pytest.mark.trial("T08")
def test_t08_the_same_with_no_choices_and_a_400_is_not_retryable() -> None:
    turn = play(Reply([b'data: {"choices":[],"error":{"code":400,"message":"prompt too long"}}\n\n']))
    assert isinstance(turn.error, InvalidRequest | ContextOverflow)
    assert not turn.error.retryable


@pytest.mark.trial("T10")
def test_t10_comments_are_no_content() -> None:
    turn = play(served("T10.sse"))
    assert (turn.outcome, turn.text) == ("ok", "go on")


@pytest.mark.trial("T11")
@pytest.mark.parametrize("cut", [None, b"\r"], ids=["whole", "between CR and LF"])
def test_t11_crlf_no_blank_and_an_empty_event(cut: bytes | None) -> None:
    body = trial_bytes("T11.sse")
    at = len(body) if cut is None else body.index(cut) + 1
    turn = play(Reply([body[:at], body[at:]]))
    assert (turn.outcome, turn.text) == ("ok", "xy")


@pytest.mark.trial("T12")
def test_t12_an_event_over_several_data_lines_is_parsed_once() -> None:
    turn = play(served("T12.sse"))
    assert (turn.outcome, turn.text) == ("ok", "OK")


@pytest.mark.trial("T13")
def test_t13_characters_cut_between_writes_arrive_whole() -> None:
    turn = play(Reply([bytes.fromhex(write["hex"]) for write in trial("T13.json")["http"]["writes"]]))
    assert (turn.outcome, turn.text) == ("ok", "北京 ✓ 😀")


@pytest.mark.trial("T15")
def test_t15_typed_blocks_and_strings_mix() -> None:
    turn = play(served("T15.sse"))
    assert (turn.outcome, turn.text, turn.reasoning) == ("ok", "42", "because")


def tool_loop(turn1: bytes, result: dict[str, str], **options: Any) -> tuple[Any, Any]:
    """Turn 1, then its message and the tool's result sent back: the turn, and the second body."""
    with OpenAIServer(Reply([turn1]), reply("done")) as server:
        agent = openai(server.url, **options)
        turn = run(agent)
        answered = Message("user", (ToolResult(result["tool_call_id"], result["content"]),))
        run(agent, replace(REQUEST, messages=(*REQUEST.messages, Message("assistant", turn.parts), answered)))
        return turn, server.requests[1].body


@pytest.mark.trial("T16")
@pytest.mark.parametrize("wanted", [True, False])
def test_t16_reasoning_is_no_answer_and_goes_back_where_the_agent_says_so(wanted: bool) -> None:
    data = trial("T16.json")
    turn, second = tool_loop(data["turn1_sse"].encode(), data["tool_result"], replay_reasoning=wanted)
    assert (turn.outcome, turn.reasoning, turn.text) == ("ok", "need the clock", "")
    assistant = next(message for message in second["messages"] if message["role"] == "assistant")
    assert assistant.get("reasoning_content") == ("need the clock" if wanted else None)


@pytest.mark.trial("T17")
def test_t17_an_empty_finish_reason_is_none() -> None:
    assert play(served("T17.sse")).calls == [{"id": "call_1", "name": "run", "arguments": {"cmd": "ls"}}]


@pytest.mark.trial("T18")
def test_t18_a_call_that_was_cut_off_is_never_made() -> None:
    with OpenAIServer(served("T18.sse"), reply("fine")) as server:
        agent = openai(server.url)
        turn, after = run(agent), run(agent)
    assert (turn.outcome, turn.calls, turn.finished) == ("incomplete", [], None)
    assert after.text == "fine"


@pytest.mark.trial("T19")
def test_t19_arguments_in_every_form_and_back_as_text() -> None:
    turn, second = tool_loop(trial_bytes("T19.sse"), {"tool_call_id": "a", "content": "pong"})
    assert turn.calls == [
        {"id": "a", "name": "ping", "arguments": {}},
        {"id": "b", "name": "read", "arguments": {"path": "a.txt"}},
        {"id": "d", "name": "list", "arguments": {}},
    ]
    sent = [call["function"]["arguments"] for message in second["messages"] for call in message.get("tool_calls", ())]
    assert sent == ["{}", '{"path": "a.txt"}', "{}"]


@pytest.mark.trial("T21")
def test_t21_unknown_fields_of_a_call_travel_back() -> None:
    data = trial("T21.json")
    _, second = tool_loop(data["turn1_sse"].encode(), data["tool_result"])
    call = next(message for message in second["messages"] if message["role"] == "assistant")["tool_calls"][0]
    assert call["extra_content"]["google"]["thought_signature"] == "c2lnLWRlbW8="


@pytest.mark.trial("T22")
@pytest.mark.parametrize("case", trial("T22.json")["responses"], ids=["list", "failed generation", "html", "detail"])
def test_t22_error_bodies_of_any_shape_are_readable(case: dict[str, Any]) -> None:
    body, expect = case["body"], case["expect"]
    content = body if isinstance(body, str) else json.dumps(body)
    with OpenAIServer(Reply([content.encode()], case["status"], {"content-type": "text/html"})) as server:
        turn = run(openai(server.url))
        assert len(server.requests) == 1
    assert turn.outcome == "error"
    assert turn.error is not None
    assert turn.error.retryable == expect.get("retryable", False)
    assert expect.get("message_contains", "") in turn.error.message
    assert expect.get("code", "") in turn.error.message
    assert "<" not in turn.error.message
    assert "function=read" not in turn.error.message


@pytest.mark.trial("T23")
@pytest.mark.parametrize(("value", "expected"), trial("T23.json")["cases"])
def test_t23_retry_after_in_every_odd_form(value: str, expected: float | str) -> None:
    now = datetime.fromisoformat(trial("T23.json")["now"])
    told = retry_after({"retry-after": value}, now)
    assert told == (None if expected == "fallback" else 86400 if isinstance(expected, str) else expected)


@pytest.mark.trial("T23")
def test_t23_the_wait_reaches_the_error() -> None:
    turn = play(json_reply({"error": {"message": "slow down"}}, status=429, headers={"retry-after": "1.5"}))
    assert isinstance(turn.error, RateLimited)
    assert turn.error.retry_after == 1.5


@pytest.mark.trial("T24")
@pytest.mark.parametrize("case", trial("T24.json")["cases"], ids=["login page", "whole JSON", "plain text", "empty stream"])
def test_t24_answers_that_are_no_stream(case: dict[str, Any]) -> None:
    turn = play(Reply([case["body"].encode()], headers={"content-type": case["content_type"]}))
    assert turn.outcome == case["expect"]["outcome"]
    assert turn.text == case["expect"].get("text", "")
    if turn.outcome == "error":
        assert turn.error is not None
        assert ("Login" if "html" in case["content_type"] else "oh no") in turn.error.message


LIMITED = {"error": {"message": "Rate limit reached", "code": 429}}
NO_TYPE: dict[str, str] = {}
AS_STREAM = {"content-type": "text/event-stream"}


@pytest.mark.trial("T22")
@pytest.mark.trial("T24")
@pytest.mark.parametrize("headers", [AS_STREAM, NO_TYPE, {"content-type": "text/plain"}, {"content-type": "application/json"}], ids=str)
@pytest.mark.parametrize(
    "body",
    [
        json.dumps(LIMITED),
        json.dumps(LIMITED, indent=2),
        json.dumps([LIMITED]),
        json.dumps([LIMITED], indent=1).replace("\n", "\r\n"),
        "  " + json.dumps(LIMITED),
        "\n\n" + json.dumps(LIMITED, indent="\t") + "\n\n",
        ": life\n\ndata: " + json.dumps(LIMITED, indent=2) + "\n\n",
        "error: " + json.dumps(LIMITED["error"]) + "\n\n",
        'data: {"choices": []}\n' + json.dumps(LIMITED, indent=2) + "\n",
    ],
    ids=["one line", "indented", "list", "indented list", "blanks first", "blank lines", "indented data", "field", "after an event"],
)
def test_t22_an_error_inside_a_success_is_found_however_it_is_written(body: str, headers: dict[str, str]) -> None:
    turn = play(Reply([body.encode()], headers=headers))
    assert isinstance(turn.error, RateLimited)
    assert turn.error.retryable
    assert "Rate limit reached" in turn.error.message


@pytest.mark.trial("T24")
@pytest.mark.parametrize("headers", [AS_STREAM, NO_TYPE, {"content-type": "text/plain"}], ids=str)
def test_t24_an_indented_answer_is_one(headers: dict[str, str]) -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]}
    turn = play(Reply([json.dumps(whole, indent=2).encode()], headers=headers))
    assert (turn.outcome, turn.text) == ("ok", "hello")


@pytest.mark.trial("T24")
@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/json"])
def test_t24_a_stream_of_another_name_is_read_where_it_begins_like_one(kind: str) -> None:
    turn = play(replace(reply("hello there"), headers={"content-type": kind}))
    assert (turn.outcome, turn.text) == ("ok", "hello there")


@pytest.mark.trial("T24")
@pytest.mark.parametrize("headers", [AS_STREAM, NO_TYPE, {"content-type": "text/plain"}], ids=str)
@pytest.mark.parametrize(
    ("body", "shown"),
    [("<html><body><h1>Login</h1></body></html>", "Login"), ("Internal Server Error", "Server Error"), ("Oh no\n\ndata: [DONE]\n\n", "Oh no")],
)
@pytest.mark.parametrize("broken", [False, True])
def test_t24_what_is_no_stream_at_all_is_shown(body: str, shown: str, headers: dict[str, str], broken: bool) -> None:
    turn = play(Reply([body.encode()], headers=headers, chunked=True, broken=broken))
    assert isinstance(turn.error, ProtocolError)
    assert shown in turn.error.message
    assert "<" not in turn.error.message


@pytest.mark.trial("T25")
def test_t25_a_silent_stall_ends_by_the_idle_timer() -> None:
    script = Reply([write["utf8"].encode() for write in trial("T25.json")["http"]["writes"]], hold_open=True)
    started = time.monotonic()
    turn = play(script, request=replace(REQUEST, timeouts=Timeouts(5, 0.3, 60)))
    assert time.monotonic() - started < 5
    assert (turn.outcome, turn.reasoning) == ("incomplete", "thinking")
    assert isinstance(turn.error, TimedOut)
    assert turn.error.which == "idle"


@pytest.mark.trial("T26")
def test_t26_a_byte_order_mark_loses_nothing() -> None:
    turn = play(served("T26.sse"))
    assert (turn.outcome, turn.text) == ("ok", "bom")


@pytest.mark.trial("T68")
def test_t68_a_template_that_raises_is_not_worth_a_retry_and_names_the_setting() -> None:
    rejection = trial("T68.json")["stub_rejects"]
    turn = play(json_reply(rejection["body"], status=rejection["status"]))
    assert isinstance(turn.error, InvalidRequest)
    assert not turn.error.retryable
    assert turn.error.hint is not None
    assert "strict_roles" in turn.error.hint


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        ("System message must be at the beginning.", "strict_roles"),
        ("Unexpected role 'user' after role 'tool'", "strict_roles"),
        ("Only user and assistant roles are supported!", "strict_roles"),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", "replay_reasoning"),
    ],
)
def test_t68_other_servers_words_for_it_name_the_setting_too(words: str, setting: str) -> None:
    turn = play(json_reply({"error": {"message": words, "type": "invalid_request_error"}}, status=400))
    assert isinstance(turn.error, InvalidRequest)
    assert setting in str(turn.error.hint)


@pytest.mark.trial("T69")
def test_t69_half_characters_are_replaced_in_what_is_sent() -> None:
    history = [json.loads(f'"{text}"') for text in ("\\ud99c text \\ud83d", "next \\ud83d\\ude00")]
    with OpenAIServer(reply("ok")) as server:
        run(openai(server.url), replace(REQUEST, messages=(Message("assistant", (Text(history[0]),)), Message("user", (Text(history[1]),)))))
        sent = [message["content"] for message in server.requests[0].body["messages"]]
    assert sent[1:] == ["\ufffd text \ufffd", "next 😀"]
