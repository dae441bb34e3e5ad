"""Streams of every shape: blocks, figures, cuts at every byte, and the same answer without a stream."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace

import pytest
from escalera_bedrock.answer import Answer, events_of
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import Incomplete, ProtocolError, ProviderError, RateLimited, TimedOut, Unavailable
from orchestrator.history.render import Unit, Viewer, render_unit
from orchestrator.messages import Message, Reasoning, Text, ToolCall, ToolResult, Usage
from orchestrator.providers import Event, Finished, MessageDone, TextDelta
from orchestrator.session import Outcome, Role
from orchestrator.session import Turn as StoredTurn
from orchestrator.testing.bedrock_server import BedrockServer, Reply, call, cut_at, error_frame, fail, frame, metadata, say, split, stream

from .conftest import MODEL, REQUEST, TOOL, bedrock, play, run, run_with_retries

STOP = {"messageStop": {"stopReason": "end_turn"}}
SMALL = say("ab c", reasoning=("hm", "c2ln"), calls=[("t1", "look", {"at": "ü"})])
FULL = (Reasoning("hm", MODEL, "c2ln"), Text("ab c"), ToolCall("t1", "look", {"at": "ü"}))


def delta(index: int, **told: object) -> dict[str, object]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": told}}


def test_an_answer_with_reasoning_text_calls_and_usage() -> None:
    usage = {"inputTokens": 12, "outputTokens": 7, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 0}
    turn = play(say("two words", reasoning=("hm", "c2ln"), calls=[("t1", "look", {"at": 1})], usage=usage))

    assert (turn.reasoning, turn.text) == ("hm", "two words")
    assert turn.parts == (Reasoning("hm", MODEL, "c2ln"), Text("two words"), ToolCall("t1", "look", {"at": 1}))
    assert turn.usage == Usage(input_tokens=12, output_tokens=7, cache_read_tokens=100, cache_write_tokens=0)
    assert (turn.finished.reason, turn.finished.model_served) == ("tool_calls", None)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
def test_the_answer_does_not_depend_on_where_bytes_are_split(size: int) -> None:
    assert play(split(SMALL, size)).parts == FULL


def test_the_end_of_the_connection_may_be_the_end_of_the_body() -> None:
    assert play(replace(SMALL, chunked=False)).parts == FULL


@pytest.mark.parametrize(
    ("whole", "step"), [(stream(delta(0, text="ü"), STOP, metadata()), 1), (SMALL, int(os.environ.get("ESCALERA_PROOF_CUT_STEP", "23")))], ids=["every", "some"]
)
def test_a_stream_that_is_cut_at_any_byte_is_incomplete_or_whole(whole: Reply, step: int) -> None:
    size = len(whole.content)
    end_of_message = size - len(whole.writes[-1])
    positions = [*range(0, size, step), size]
    with BedrockServer(*(cut_at(whole, position, broken=bool(position % 2)) for position in positions)) as server:
        provider = bedrock(server.url)
        for position in positions:
            turn = run(provider)
            if position < end_of_message:
                assert isinstance(turn.error, Incomplete), position
                assert (turn.parts, turn.error.partial) == ((), turn.text)
            else:
                assert (turn.outcome, turn.usage is not None) == ("ok", position == size), position


def test_a_changed_byte_is_noticed() -> None:
    content = bytearray(SMALL.content)
    content[len(content) // 2] ^= 1
    turn = play(Reply([bytes(content)]))
    assert isinstance(turn.error, ProtocolError | Incomplete)
    assert turn.parts == ()


@pytest.mark.parametrize("payload", [b'{"contentBlockIndex": 0, "del', b"[]", b"no JSON", b'{"delta": "\xff"}', b"7"])
@pytest.mark.parametrize("name", ["contentBlockDelta", "messageStop"])
def test_an_event_that_is_no_json_object_is_an_error_and_never_left_out(name: str, payload: bytes) -> None:
    broken = frame({":event-type": name, ":message-type": "event", ":content-type": "application/json"}, payload)
    turn = play(Reply([*stream(delta(0, text="half ")).writes, broken, *stream(STOP, metadata()).writes]))
    assert (type(turn.error), turn.error.partial) == (ProtocolError, "half ")
    assert turn.parts == ()


def test_events_without_content_are_no_error() -> None:
    empty = [frame({":event-type": "contentBlockDelta", ":message-type": "event"}, payload) for payload in (b"", b"{}")]
    assert play(Reply([*stream(delta(0, text="all")).writes, *empty, *stream(STOP).writes])).parts == (Text("all"),)


def test_blocks_are_kept_apart_by_their_index_however_they_are_mixed() -> None:
    start = [{"contentBlockStart": {"contentBlockIndex": n, "start": {"toolUse": {"toolUseId": f"t{n}", "name": "look"}}}} for n in (1, 2)]
    pieces = [delta(2, toolUse={"input": '{"n":'}), delta(1, toolUse={"input": '{"n"'}), delta(2, toolUse={"input": "2}"}), delta(1, toolUse={"input": ":1}"})]
    turn = play(stream(*start, delta(0, text="see"), *pieces, {"messageStop": {"stopReason": "tool_use"}}))
    assert turn.parts == (Text("see"), ToolCall("t1", "look", {"n": 1}), ToolCall("t2", "look", {"n": 2}))


@pytest.mark.parametrize("told", ["[1]", '"x"', "1"])
def test_arguments_that_are_no_object_are_refused(told: str) -> None:
    start = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "look"}}}}
    turn = play(stream(start, delta(0, toolUse={"input": told}), {"messageStop": {"stopReason": "tool_use"}}))
    assert isinstance(turn.error, ProtocolError)


def test_repeated_and_missing_call_ids_are_replaced() -> None:
    starts = [
        {"contentBlockStart": {"contentBlockIndex": n, "start": {"toolUse": {"toolUseId": told, "name": "look"}}}} for n, told in enumerate(["t", "t", ""])
    ]
    calls = play(stream(*starts, {"messageStop": {"stopReason": "tool_use"}})).calls
    assert calls[0].id == "t"
    assert len({made.id for made in calls}) == 3
    assert all(made.id for made in calls)


def test_calls_are_announced_without_one_being_sent() -> None:
    assert isinstance(play(say("hm", stop_reason="tool_use")).error, Incomplete)


def test_calls_count_whatever_the_stop_reason_says() -> None:
    turn = play(say("", calls=[("t1", "look", {})], stop_reason="stop_sequence"))
    assert (turn.finished.reason, turn.calls) == ("tool_calls", [ToolCall("t1", "look", {})])


def test_unknown_blocks_and_events_are_skipped() -> None:
    foreign = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "s", "name": "web", "type": "server_tool_use"}}}}
    turn = play(
        stream(
            {"somethingNew": {"a": 1}},
            foreign,
            delta(0, toolUse={"input": '{"q"'}),
            {"contentBlockStart": {"contentBlockIndex": 1, "start": {"hologram": {}}}},
            delta(1, hologram={"x": 1}),
            delta(2, citation={"title": "t"}),
            delta(3, text="yes"),
            STOP,
        )
    )
    assert turn.parts == (Text("yes"),)


@pytest.mark.parametrize("usage", [None, {}, {"inputTokens": 0, "outputTokens": 0}, {"inputTokens": "many"}, {"inputTokens": -1}])
def test_figures_that_are_not_there_stay_unknown(usage: object) -> None:
    assert list(events_of({"usage": usage, "stopReason": "end_turn"}))
    answer = Answer(where="here", model=MODEL, new_id=lambda: "x")
    for event in ({"metadata": {"usage": usage}}, STOP):
        list(answer.event(event))
    assert not any(type(event).__name__ == "UsageReport" for event in answer.end())


def test_part_of_the_figures_is_no_zero_for_the_rest() -> None:
    assert play(stream(delta(0, text="x"), STOP, metadata({"inputTokens": 5, "outputTokens": 1}))).usage == Usage(input_tokens=5, output_tokens=1)


def test_usage_counts_when_the_answer_was_blocked() -> None:
    turn = play(say("no", stop_reason="guardrail_intervened", usage={"inputTokens": 5, "outputTokens": 1}))
    assert (turn.outcome, turn.usage.input_tokens) == ("blocked", 5)


def test_the_model_that_a_router_chose_is_told() -> None:
    turn = play(stream(delta(0, text="x"), STOP, metadata(trace={"promptRouter": {"invokedModelId": "arn:aws:bedrock:m"}})))
    assert turn.finished.model_served == "arn:aws:bedrock:m"


def test_an_answer_without_anything_in_it_has_no_message() -> None:
    turn = play(stream({"messageStart": {"role": "assistant"}}, STOP))
    assert (turn.outcome, turn.finished.reason) == ("empty", "stop")


def test_the_first_frame_may_be_an_exception() -> None:
    turn = play(stream({"serviceUnavailableException": {"message": "later"}}))
    assert isinstance(turn.error, Unavailable)
    assert "later" in turn.error.message


SLOW = {"throttlingException": {"message": "slow down"}}
STARTED = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "look"}}}}


@pytest.mark.parametrize(
    "told",
    [
        STARTED,
        delta(0, toolUse={"input": "{"}),
        delta(0, reasoningContent={"signature": "c2ln"}),
        delta(0, reasoningContent={"redactedContent": b"x"}),
        delta(0, text="\ud83d"),
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"hologram": {"x": 1}}}},
    ],
    ids=["tool call", "part of one", "signature", "hidden reasoning", "half a character", "unknown block"],
)
@pytest.mark.parametrize("last", [SLOW, {"messageStop": {"stopReason": "malformed_tool_use"}}], ids=["error", "stop reason"])
def test_nothing_is_sent_again_once_something_of_the_answer_came_though_nothing_was_shown(told: dict[str, object], last: dict[str, object]) -> None:
    with BedrockServer(*[stream({"messageStart": {"role": "assistant"}}, told, last)] * 6) as server:
        run_with_retries(bedrock(server.url))
        assert len(server.requests) == 1


def test_a_message_that_only_began_is_no_answer_yet() -> None:
    with BedrockServer(*[stream({"messageStart": {"role": "assistant"}}, delta(0, text=""), SLOW)] * 6) as server:
        run_with_retries(bedrock(server.url))
        assert len(server.requests) == 4


def test_a_failure_that_is_not_modelled_is_read_from_the_headers() -> None:
    turn = play(Reply([error_frame("InternalServerException", "sorry")]))
    assert isinstance(turn.error, Unavailable)
    assert "sorry" in turn.error.message


@pytest.mark.parametrize(
    ("name", "payload", "kind", "says"),
    [
        ("modelTimeoutException", b'{"message":"too slow"}', TimedOut, "too slow [modeltimeout]"),
        ("serviceQuotaExceededException", b'{"Message":"no more"}', RateLimited, "no more [servicequotaexceeded]"),
        ("brandNewException", b'{"message":["x"]}', Unavailable, "[brandnew]"),
        ("brandNewException", b"no json", Unavailable, "without a word [brandnew]"),
    ],
)
def test_an_exception_that_boto3_does_not_know_keeps_its_name_and_words(name: str, payload: bytes, kind: type[ProviderError], says: str) -> None:
    unknown = frame({":message-type": "exception", ":exception-type": name, ":content-type": "application/json"}, payload)
    turn = play(Reply([*stream(delta(0, text="half")).writes, unknown]))
    assert type(turn.error) is kind
    assert says in turn.error.message
    assert turn.error.partial == "half"


def test_usage_before_a_failure_is_told() -> None:
    turn = play(stream(metadata({"inputTokens": 5, "outputTokens": 1}), {"throttlingException": {"message": "slow down"}}))
    assert isinstance(turn.error, RateLimited)
    assert turn.usage == Usage(input_tokens=5, output_tokens=1)


def test_a_later_report_that_says_nothing_takes_no_figures_away() -> None:
    counted, nothing = metadata({"inputTokens": 5, "outputTokens": 1}), metadata({"inputTokens": 0, "outputTokens": 0})
    assert play(stream(delta(0, text="x"), STOP, counted, nothing)).usage == Usage(input_tokens=5, output_tokens=1)


def test_an_exception_after_the_end_of_the_message_takes_nothing_back() -> None:
    turn = play(stream(delta(0, text="done"), STOP, {"internalServerException": {"message": "late"}}))
    assert (turn.outcome, turn.parts) == ("ok", (Text("done"),))


def test_payload_that_is_no_json_is_a_fault_of_the_protocol() -> None:
    turn = play(Reply([frame({":message-type": "event", ":event-type": "messageStop", ":content-type": "application/json"}, b"{nonsense")]))
    assert turn.outcome in ("error", "incomplete")
    assert turn.parts == ()


# -- redacted reasoning ---------------------------------------------------------------------------


def test_redacted_reasoning_is_kept_json_safe_and_goes_back_byte_by_byte_to_its_model_only() -> None:
    secret = bytes(range(256))
    first = stream(delta(0, reasoningContent={"redactedContent": secret[:100]}), delta(0, reasoningContent={"redactedContent": secret[100:]}), *_call_events(1))
    with BedrockServer(first, say("ok")) as server:
        provider = bedrock(server.url)
        parts = run(provider, replace(REQUEST, tools=(TOOL,))).parts
        json.dumps(parts[0].extra)
        stored = StoredTurn(index=0, role=Role.ESCALATION, agent="strong", prompt="hello", outcome=Outcome.COMPLETED, model_requested=MODEL)
        stored = replace(stored, steps=(*parts, ToolResult("t1", "found")))
        messages = (*render_unit(Unit((stored,)), Viewer("strong", MODEL)), Message("user", (Text("on"),)))
        run(provider, replace(REQUEST, messages=messages, tools=(TOOL,)))

    assert server.requests[1].body["messages"][1]["content"][0] == {"reasoningContent": {"redactedContent": base64.b64encode(secret).decode()}}
    others = render_unit(Unit((stored,)), Viewer("strong", "another-model"))
    assert not any(isinstance(part, Reasoning) for message in others for part in message.parts)


def _call_events(index: int) -> list[dict[str, object]]:
    start = {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": "t1", "name": "search"}}}}
    return [start, delta(index, toolUse={"input": '{"q":"x"}'}), {"messageStop": {"stopReason": "tool_use"}}]


# -- without a stream -----------------------------------------------------------------------------


def test_a_model_that_cannot_stream_is_asked_for_the_answer_in_one_piece() -> None:
    refusal = fail(400, "ValidationException", "This model doesn't support tool use in streaming mode.")
    with BedrockServer(refusal, SMALL, call("look", {})) as server:
        provider = bedrock(server.url)
        refused, answered, again = (run(provider) for _ in range(3))
        assert provider.capabilities.streams is False
        assert provider.preview(REQUEST)["operation"] == "Converse"

    assert refused.error.repaired
    assert answered.parts == FULL
    assert answered.usage == Usage(input_tokens=10, output_tokens=5)
    assert again.calls == [ToolCall("tooluse_1", "look", {})]
    assert [request.streams for request in server.requests] == [True, False, False]


blocks = st.one_of(
    st.builds(lambda text: [{"text": text}], st.text(max_size=5)),
    st.builds(lambda text: [{"reasoningContent": {"text": text}}], st.text(max_size=5)),
    st.builds(lambda text: [{"toolUse": {"input": text}}], st.text(max_size=5)),
    st.just([{"unknown": {}}, {}]),
)
events = st.one_of(
    st.builds(lambda index, deltas: [delta(index, **told) for told in deltas], st.integers(-1, 3), blocks),
    st.builds(lambda reason: [{"messageStop": {"stopReason": reason}}], st.sampled_from(["end_turn", "tool_use", "max_tokens", "", "new"])),
    st.just([{"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "n"}}}}, {"contentBlockStart": {}}]),
    st.just([{"metadata": {}}, {"messageStart": {}}, {}]),
)


def told_by(answer: Answer, script: list[list[dict[str, object]]]) -> tuple[list[Event], ProviderError | None]:
    seen = [made for one in script for event in one for made in answer.event(event)]
    try:
        for event in answer.end():
            seen.append(event)
    except ProviderError as error:
        return seen, error
    return seen, None


@given(st.lists(events, max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_order_of_events_gives_an_answer_or_an_error_of_the_tree(script: list[list[dict[str, object]]]) -> None:
    answer = Answer(where="here", model=MODEL, new_id=lambda: "new")
    seen, error = told_by(answer, script)

    assert sorted("".join(event.text for event in seen if isinstance(event, TextDelta))) == sorted(answer.text)
    if error is not None:
        assert error.partial == answer.text
        assert not any(isinstance(event, MessageDone | Finished) for event in seen)
    else:
        assert isinstance(seen[-1], Finished)
        assert sum(isinstance(event, MessageDone) for event in seen) == bool(answer.text or any(getattr(event, "parts", ()) for event in seen))
