"""Events, reasoning and tool calls out of bytes: the pure parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from escalera_openrouter.answer import Answer, read_usage
from escalera_openrouter.retry_after import retry_after
from escalera_openrouter.sse import MAX_EVENT, EventParser, EventTooLarge
from escalera_openrouter.thinking import ThinkFilter, UnopenedThinking, split_unopened
from escalera_openrouter.tool_fragments import ToolFragments
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import Blocked, Incomplete, ProtocolError, ProviderError, Unavailable
from orchestrator.messages import Reasoning, Text, ToolCall
from orchestrator.providers import Event, Finished, MessageDone, Notice, TextDelta, UsageReport
from orchestrator.testing.openai_server import chunk

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cut(data: bytes, points: list[int]) -> list[bytes]:
    edges = [0, *sorted({point % (len(data) + 1) for point in points}), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def parsed(pieces: list[bytes]) -> list[tuple[str, str]]:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return [(event.name, event.data) for event in (*events, *parser.close())]


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        ('data: {"a":1}\ndata: [DONE]\n', ['{"a":1}', "[DONE]"]),
        ('data: {"a":\ndata: 1}\ndata: [DONE]\n', ['{"a":\n1}', "[DONE]"]),
        ('data: {"a":1}\ndata: {"b":"}"}\ndata: {"c":\ndata: 2}\n', ['{"a":1}', '{"b":"}"}', '{"c":\n2}']),
        ('data: [\ndata: {"a":1},\ndata: {"b":2}]\n', ['[\n{"a":1},\n{"b":2}]']),
        ("data: one\ndata: {two}\n", ["one\n{two}"]),
    ],
)
def test_an_event_whose_blank_line_is_missing_ends_where_another_begins(lines: str, events: list[str]) -> None:
    for size in (1, 5, len(lines)):
        assert parsed([lines.encode()[start : start + size] for start in range(0, len(lines), size)]) == [("", event) for event in events]


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1).filter(str.strip), max_size=5),
    st.lists(st.integers(0, 10**6), max_size=20),
    st.sampled_from(["\n", "\r", "\r\n"]),
    st.booleans(),
)
def test_events_are_the_same_wherever_the_bytes_are_cut(texts: list[str], points: list[int], end: str, bom: bool) -> None:
    stream = ("\ufeff" if bom else "") + "".join(f": life{end}data: {text}{end}{end}" for text in texts)
    assert parsed(cut(stream.encode(), points)) == [("", text) for text in texts]


def test_a_mark_of_the_byte_order_before_any_line_hides_nothing() -> None:
    assert parsed([b"\xef\xbb", b"\xbf\xef\xbb\xbfdata: one\n\n\xef\xbb\xbfdata: two\n\n\xef\xbb\xbf"]) == [("", "one"), ("", "two")]


def test_a_line_separator_inside_json_ends_no_line() -> None:
    assert parsed([b'data: {"a":"x\xe2\x80\xa8y\xc2\x85z"}\n\n']) == [("", '{"a":"x\u2028y\x85z"}')]


def test_the_last_event_counts_without_its_blank_line() -> None:
    assert parsed([b"data: one\n\ndata: two"]) == [("", "one"), ("", "two")]


def test_a_bare_json_line_is_an_event_and_the_name_of_one_is_kept() -> None:
    assert parsed([b'{"error":1}\nevent: error\ndata: x\n\n']) == [("", '{"error":1}'), ("error", "x")]


BARE = '{\n  "error": {\n\n    "message": "a } \\" {",\n  "code": 1}\n}'


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_bare_json_over_several_lines_is_one_event_wherever_it_is_cut(points: list[int]) -> None:
    stream = f"event: x\ndata: one\n\n{BARE}\n[{BARE}]\ndata: {BARE.replace(chr(10) * 2, chr(10))}\n\ndata: two\n  no\n\n"
    listed = BARE.replace("{", "[{", 1) + "]"
    assert parsed(cut(stream.encode(), points)) == [("x", "one"), ("", BARE), ("", listed), ("", BARE.replace("\n\n", "\n")), ("", "two")]


def test_bare_json_that_broke_off_swallows_no_event_behind_it() -> None:
    assert parsed([b'{"error": {\n  "message"\ndata: one\n\n{"a"\n: life\n\ndata: two\n']) == [
        ("", '{"error": {\n  "message"'),
        ("", "one"),
        ("", '{"a"'),
        ("", "two"),
    ]


def test_lines_that_are_nothing_of_a_stream_are_kept_as_noise() -> None:
    parser = EventParser()
    assert list(parser.feed(b"id: 1\nretry: 5\n: life\nInternal Server Error\nsorry: later\n\nda")) == []
    assert list(parser.close()) == []
    assert parser.noise == "Internal Server Error\nsorry: later\n"


def test_a_bare_cr_ends_an_event_at_once_and_an_lf_behind_it_is_no_line() -> None:
    parser = EventParser()
    assert [event.data for event in parser.feed(b"data: one\r\r")] == ["one"]
    assert [event.data for event in parser.feed(b"\ndata: two\r")] == []
    assert [event.data for event in parser.feed(b"\ndata: three\n\r")] == ["two\nthree"]


def test_an_event_in_pieces_or_lines_without_end_is_refused() -> None:
    for piece in (b"x" * 2**10, b"data: " + b"x" * 2**20 + b"\n"):
        with pytest.raises(EventTooLarge):
            parsed([piece] * (MAX_EVENT // len(piece) + 2))
    assert len(parsed([b"data: " + b"x" * 2**20 + b"\n\n"] * 20)) == 20


def test_an_event_that_never_ends_is_refused() -> None:
    with pytest.raises(EventTooLarge):
        parsed([b"x" * 2**20] * (MAX_EVENT // 2**20 + 2))


SAID = st.sampled_from(["word ", "<think>", "a\n", "</think>\n", "\ud83d", "\ude00", "", "<"])
DELTAS = st.fixed_dictionaries({"content": SAID}, optional={"role": st.just("assistant"), "refusal": st.sampled_from([None, "no"]), "reasoning": st.just("hm")})
CHUNKS = st.builds(
    lambda delta, model, reason, usage: chunk(delta, model=model, finish_reason=reason) | usage,
    DELTAS,
    st.sampled_from(["m1", "m2", ""]),
    st.sampled_from([None, None, None, "stop", "odd"]),
    st.sampled_from([{}, {"usage": None}, {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}]),
)


@given(st.lists(CHUNKS, max_size=12))
def test_a_chunk_that_is_text_alone_is_taken_as_it_is_among_other_things(chunks: list[dict[str, Any]]) -> None:
    def told(more: dict[str, Any]) -> tuple[list[Event], str | None]:
        answer = Answer(where="http://here", model="m", new_id=lambda: "id", now=lambda: NOW)
        events: list[Event] = []
        try:
            for one in chunks:
                events += answer.data(json.dumps(one | more))
            events += answer.end()
        except ProviderError as error:
            return events, f"{error.type}: {error.message} {error.partial!r}"
        return events, None

    assert told({}) == told({"what_no_server_sends": True})


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_thinking_is_told_apart_wherever_the_text_is_cut(points: list[int]) -> None:
    text = " \n<think>a < b</thin </think>\n\n<think>more</think> The tag <think> is text here</think>."
    edges = [0, *sorted(point % (len(text) + 1) for point in points), len(text)]
    filtered = ThinkFilter()
    pieces = [piece for a, b in pairwise(edges) for piece in filtered.feed(text[a:b])] + filtered.close()
    assert "".join(text for kind, text in pieces if kind == "reasoning") == "a < b</thin more"
    assert "".join(text for kind, text in pieces if kind == "text") == "The tag <think> is text here</think>."


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_an_end_of_thinking_that_nothing_opened_is_found_wherever_the_text_is_cut(points: list[int]) -> None:
    text = "Let me see: a </think> b.\n</think> \n\nHello!"
    edges = [0, *sorted(point % (len(text) + 1) for point in points), len(text)]
    search = UnopenedThinking()

    found = [b for a, b in pairwise(edges) if search.is_closed_by(text[a:b])]

    assert len(found) == 1
    assert split_unopened(text[: found[0]])[0] == "Let me see: a </think> b."
    assert split_unopened(text) == ("Let me see: a </think> b.", "Hello!")


@pytest.mark.parametrize("text", ["Close it with </think>.", "`</think>` ends it\n", "<think> opens\n</think>\nit", "a\n</think> b", "\n</thinking>\n"])
def test_what_only_names_an_end_of_thinking_is_none(text: str) -> None:
    search = UnopenedThinking()
    assert not search.is_closed_by(text)
    assert not search.is_closed_by("", last=True)


@pytest.mark.parametrize("text", ["<thin", " <", "<b>bold</b>", "  indented"])
def test_what_only_began_like_thinking_stays_text(text: str) -> None:
    filtered = ThinkFilter()
    assert "".join(piece for _, piece in (*filtered.feed(text), *filtered.close())) == text


def assembled(*fragments: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    ids = iter(f"new_{n}" for n in range(9))
    tools = ToolFragments(lambda: next(ids))
    for fragment in fragments:
        tools.add(fragment)
    return [(call.id, call.name, dict(call.arguments)) for call in tools.finished()]


def part(arguments: Any = None, *, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {**({} if name is None else {"name": name}), "arguments": arguments}}


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        ([part("{}", name="a", index=1, id="x"), part('{"k":', name="b", index=2, id="y"), part("1}", index=2)], [("x", "a", {}), ("y", "b", {"k": 1})]),
        ([part("{}", name="a", index=0), part("{}", name="a", index=0)], [("new_0", "a", {}), ("new_1", "a", {})]),
        ([part('{"k":', name="a", id="x"), part("1}", name="a", id="x")], [("x", "a", {"k": 1})]),
        ([part("", name="a", index=0), part("{}", index=0, id="late")], [("late", "a", {})]),
        ([part("{}", name="a", index=0, id="x"), part("{}", name="b", index=1, id="x")], [("x", "a", {}), ("new_0", "b", {})]),
        ([part("{}", name="a", id=""), part("{}", name="b", id="")], [("new_0", "a", {}), ("new_1", "b", {})]),
        ([part('{"k":1}', name="a", index=0, id="x"), part('{"k":1}', index=0)], [("x", "a", {"k": 1})]),
        ([part("null", name="a", id="x")], [("x", "a", {})]),
        ([part(name="get_", index=0, id="x"), part(name="ti", index=0), part("{}", name="me", index=0)], [("x", "get_time", {})]),
        ([part("", name="get_", id="x"), part("", name="time", id="x"), part("{}", id="x")], [("x", "get_time", {})]),
        ([part("", name="get_", index=0, id="x"), part("{}", name="get_time", index=0)], [("x", "get_time", {})]),
        ([part("", name="a", index=0, id="x"), part("", name="b", index=1, id="y"), part('{"k":1}', index=0)], [("x", "a", {"k": 1}), ("y", "b", {})]),
        ([part("", name="a", index=0), part("", name="b", index=0)], [("new_0", "a", {}), ("new_1", "b", {})]),
        (
            [part('{"k"', name="a", index="0", id="x"), part('{"n"', name="b", index="1", id="y"), part(":1}", index="0"), part(":2}", index="1")],
            [("x", "a", {"k": 1}), ("y", "b", {"n": 2})],
        ),
        ([part({"k": "\ud800"}, name="a", id="x")], [("x", "a", {"k": "\ufffd"})]),
    ],
    ids=[
        "indices from 1",
        "no ids, one index",
        "id in every fragment",
        "late id",
        "one id twice",
        "empty ids",
        "whole sent again",
        "null",
        "name in pieces",
        "name in pieces, id in each",
        "name so far",
        "two begun",
        "no ids, no arguments",
        "index as text",
        "surrogate",
    ],
)
def test_fragments_become_calls(fragments: list[dict[str, Any]], calls: list[tuple[str, str, dict[str, Any]]]) -> None:
    assert assembled(*fragments) == calls


DEEP = '{"k":' * 200 + "1" + "}" * 200


@pytest.mark.parametrize("arguments", ['{"k":', '{"k":1}}', "{'k':1}", '{"k":NaN}', '{"k":1e999}', DEEP, {"k": float("nan")}, {"k": [float("inf")]}])
def test_arguments_that_are_no_whole_json_make_no_call(arguments: object) -> None:
    with pytest.raises(Incomplete):
        assembled(part(arguments, name="a", id="x"))


def test_fields_of_a_call_that_no_json_can_hold_do_not_travel_back() -> None:
    fragments = ToolFragments(lambda: "new")
    fragments.add({**part("{}", name="a", id="x"), "kept": 1, "lost": [float("nan")]})
    assert [call.extra for call in fragments.finished()] == [{"kept": 1}]


@pytest.mark.parametrize("told", [5, True, "text", {"text": "x"}, [7.5], [{"type": "x", "n": float("nan")}]])
def test_reasoning_details_of_an_odd_shape_are_left_out(told: object) -> None:
    answer = Answer(where="here", model="m", new_id=str, now=lambda: NOW)
    list(answer.data(json.dumps(chunk({"content": "hi", "reasoning_details": told}))))
    list(answer.data(json.dumps(chunk({}, finish_reason="stop"))))
    assert MessageDone((Text("hi"),)) in answer.end()


def test_arguments_that_are_no_object_make_no_call() -> None:
    with pytest.raises(ProtocolError):
        assembled(part("[1]", name="a", id="x"))


def test_a_call_without_a_name_is_incomplete() -> None:
    with pytest.raises(Incomplete):
        assembled(part("{}", id="x"))


def answered(*chunks: Mapping[str, Any]) -> list[Event]:
    answer = Answer(where="http://server", model="asked", new_id=lambda: "new", now=lambda: NOW)
    return [event for given in chunks for event in answer.data(json.dumps(given))] + list(answer.end())


def test_an_answer_ends_with_its_message_and_the_model_that_served_it() -> None:
    events = answered(chunk({"content": "hi"}, model="served"), chunk({}, finish_reason="stop", model="served"))
    assert events == [TextDelta("hi"), MessageDone((Text("hi"),)), Finished("stop", "served")]


def test_calls_count_though_the_reason_says_stop() -> None:
    events = answered(chunk({"tool_calls": [part("{}", name="a", id="x")]}, finish_reason="stop"))
    assert events == [MessageDone((ToolCall("x", "a", {}),)), Finished("tool_calls", "fake")]


def test_a_half_of_a_surrogate_pair_waits_for_the_other() -> None:
    events = answered(chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk({"content": "\ud83d"}, finish_reason="stop"))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a", "😀b", "\ufffd"]


@pytest.mark.parametrize(
    ("finish", "native", "reason"),
    [("end_turn", None, "stop"), ("strange", None, "other")],
)
def test_reasons_to_end_have_one_word(finish: str, native: str | None, reason: str) -> None:
    end = chunk({"content": "x"}, finish_reason=finish)
    end["choices"][0]["native_finish_reason"] = native
    assert answered(end)[-1] == Finished(reason, "fake")  # type: ignore[arg-type]


@pytest.mark.parametrize("said", ["null", "NONE", ""])
def test_a_reason_that_says_none_ends_nothing(said: str) -> None:
    with pytest.raises(Incomplete):
        answered(chunk({"content": "x"}, finish_reason=said), chunk({}, finish_reason=said))


@pytest.mark.parametrize("early", ["stop", "normal"])
def test_what_comes_after_a_reason_to_end_shows_that_it_was_none(early: str) -> None:
    with pytest.raises(Incomplete) as raised:
        answered(chunk({"content": "one "}, finish_reason=early), chunk({"content": "two"}))
    assert raised.value.partial == "one two"


@pytest.mark.parametrize(
    ("finish", "native", "error"),
    [
        ("content_filter", None, Blocked),
        ("stop", "SAFETY", Blocked),
        ("error", None, Unavailable),
        ("abort", None, Incomplete),
        ("", None, Incomplete),
        ("tool_calls", None, Incomplete),
    ],
)
def test_endings_that_are_failures_keep_the_partial_text(finish: str, native: str | None, error: type[Incomplete]) -> None:
    end = chunk({"content": "half"}, finish_reason=finish)
    end["choices"][0]["native_finish_reason"] = native
    with pytest.raises(error) as raised:
        answered(end)
    assert raised.value.partial == "half"


@pytest.mark.parametrize(("finish", "native"), [("length", None), ("stop", "MAX_TOKENS")])
def test_an_answer_that_the_output_limit_cut_is_incomplete(finish: str, native: str | None) -> None:
    end = chunk({"content": "half"}, finish_reason=finish)
    end["choices"][0]["native_finish_reason"] = native
    with pytest.raises(Incomplete, match="output limit") as raised:
        answered(end)
    assert raised.value.partial == "half"


def test_a_limit_that_is_meant_to_end_answers_ends_them() -> None:
    answer = Answer(where="http://server", model="asked", new_id=lambda: "new", now=lambda: NOW, whole_at_limit=True)
    events = [*answer.data(json.dumps(chunk({"content": "half"}, finish_reason="length"))), *answer.end()]
    assert events[-3:] == [MessageDone((Text("half"),)), Notice("the answer was cut at the output limit"), Finished("stop", "fake")]


def test_an_output_limit_inside_a_call_makes_no_call() -> None:
    with pytest.raises(Incomplete):
        answered(chunk({"tool_calls": [part("", name="a", id="x")]}, finish_reason="length"))


def test_a_refusal_is_blocked_in_the_models_words() -> None:
    with pytest.raises(Blocked, match="I will not"):
        answered(chunk({"refusal": "I will not"}, finish_reason="stop"))


def test_a_refusal_behind_some_text_is_one() -> None:
    with pytest.raises(Blocked, match="I will not") as raised:
        answered(chunk({"content": "Well, "}), chunk({"refusal": "I will "}), chunk({"refusal": "not"}), chunk({}, finish_reason="stop"))
    assert raised.value.partial == "Well, "


@pytest.mark.parametrize(
    "content",
    [
        {"type": "text", "text": "hi"},
        {"type": "text", "text": {"value": "hi"}},
        [{"type": "text", "text": {"value": "hi"}}],
        ["h", {"text": "i"}],
    ],
)
def test_content_in_blocks_of_any_shape_is_text(content: object) -> None:
    assert "".join(event.text for event in answered(chunk({"content": content}, finish_reason="stop")) if isinstance(event, TextDelta)) == "hi"


def test_an_event_of_another_name_that_is_no_json_is_a_sign_of_life() -> None:
    answer = Answer(where="http://server", model="asked", new_id=lambda: "new", now=lambda: NOW)
    assert list(answer.data("ping", "ping")) == []
    assert not answer.begun
    for data, name in (("ping", ""), ("{", "ping")):
        with pytest.raises(ProtocolError):
            list(answer.data(data, name))


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"message": "boom"}},
        {"error": "boom"},
        {"object": "error", "message": "boom"},
        {"detail": "boom"},
        {"choices": [{"error": {"message": "boom", "code": 500}}]},
    ],
)
def test_a_failure_is_found_in_any_place(said: Mapping[str, Any]) -> None:
    with pytest.raises(Unavailable, match="boom"):
        answered(chunk({"content": "x"}), said, chunk({}, finish_reason="stop"))


def test_reasoning_under_two_names_counts_once_and_details_are_joined() -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": "a", "format": "f"}], [{"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"}]
    events = answered(
        chunk({"reasoning": "a", "reasoning_content": "a", "reasoning_details": details[0]}),
        chunk({"reasoning": "b", "reasoning_details": details[1]}),
        chunk({"content": "x"}, finish_reason="stop"),
    )
    message = next(event for event in events if isinstance(event, MessageDone))
    joined = {"type": "reasoning.text", "index": 0, "text": "ab", "format": "f", "signature": "s"}
    assert message.parts == (Reasoning("ab", model="fake", extra={"reasoning_details": [joined]}), Text("x"))


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": "many", "completion_tokens": True}, "many"]
)
def test_usage_that_says_nothing_stays_unknown(usage: object) -> None:
    assert read_usage(usage) is None


@pytest.mark.parametrize(
    ("reports", "counted"),
    [
        ([{"prompt_tokens": 5}], (5, None, None)),
        ([{"prompt_tokens": None, "completion_tokens": 3}], (None, 3, None)),
        ([{"prompt_tokens": "12", "completion_tokens": "2", "cost": "0.5"}], (12, 2, 0.5)),
        ([{"prompt_tokens": 5}, {"completion_tokens": 3}], (5, 3, None)),
        (
            [{"prompt_tokens": 5, "completion_tokens": 1}, {"completion_tokens": 3}, {"prompt_tokens": 0, "completion_tokens": 0}],
            (5, 3, None),
        ),
    ],
    ids=["prompt", "completion", "as text", "one by one", "running, then zero"],
)
def test_what_is_known_of_usage_is_told(reports: list[dict[str, Any]], counted: tuple[int | None, int | None, float | None]) -> None:
    events = answered(chunk({"content": "x"}), *({"choices": [], "usage": report} for report in reports), chunk({}, finish_reason="stop"))
    (usage,) = [event.usage for event in events if isinstance(event, UsageReport)]
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == counted


def test_usage_has_its_details() -> None:
    usage = read_usage(
        {
            "prompt_tokens": 10,
            "completion_tokens": 4,
            "cost": 0.5,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
    )
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens, usage.cost_usd) == (
        10,
        4,
        8,
        None,
        2,
        0.5,
    )


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-ratelimit-reset": "1767225630"}, 30),
        ({"x-ratelimit-reset": "1767225630000"}, 30),
        (
            {
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "9h",
                "x-ratelimit-remaining-tokens": "7",
            },
            360,
        ),
        ({"x-ratelimit-reset-tokens": "20ms", "x-ratelimit-remaining-tokens": "0"}, 0.02),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"retry-after": "Thu, 99 Jan 2026"}, None),
        ({}, None),
    ],
)
def test_waits_are_read_from_what_there_is(headers: Mapping[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == pytest.approx(seconds)
