"""One turn against one provider: tools, tags, what is shown and kept, and every way in which a provider can fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orchestrator.dispatch.toolbox import shortened
from orchestrator.errors import Blocked, Cancelled, ConfigError, EmptyAnswer, Incomplete, LeaseLost, Overloaded, ProtocolError, TimedOut
from orchestrator.history.budget import estimate_request_tokens, measure_request
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, Usage
from orchestrator.providers import (
    Capabilities,
    Conversation,
    ExternalSessionStarted,
    Finished,
    MessageDone,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolResultSeen,
    UsageReport,
    Withdrawn,
)
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.tags import TagKind
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, FakeProvider, calls, says

from ..conftest import OWN, TOOLS, tag
from .conftest import Turn

NEED = ToolCall("c1", "current_need", {"text": "ship"})


# -- the answer -----------------------------------------------------------------------------------


def test_what_is_streamed_is_shown_and_what_is_final_is_kept(turn: Turn) -> None:
    turn.run(FakeProvider(says("all is well", usage=Usage(9, 3), model="m-2")))

    assert turn.seen("text") == "all is well"
    assert turn.answered.steps == turn.recorded == [Text("all is well")]
    assert (turn.reported, turn.answered.model_served, turn.answered.unfinished) == (Usage(9, 3), "m-2", "")


def test_an_answer_that_is_not_streamed_is_shown_when_it_is_final(turn: Turn) -> None:
    turn.run(FakeProvider(says("at once", streamed=False)))

    assert turn.seen("text") == "at once"


def test_reasoning_is_shown_apart_and_is_no_answer(turn: Turn) -> None:
    turn.run(FakeProvider([ReasoningDelta("hm"), MessageDone((Reasoning("hm", model="m"),)), Finished("stop")]))

    assert turn.seen("reasoning") == "hm"
    assert isinstance(turn.error, EmptyAnswer)
    assert turn.answered.steps == [Reasoning("hm", model="m")]


@pytest.mark.parametrize("script", [[Finished("stop")], says(" \n"), says("")], ids=["nothing", "blanks", "empty"])
def test_an_answer_with_nothing_in_it_failed(turn: Turn, script: list[object]) -> None:
    turn.run(FakeProvider(script))  # type: ignore[arg-type]  # a script

    assert isinstance(turn.error, EmptyAnswer)


@pytest.mark.parametrize(("kind", "body"), [("need", "ship"), ("percept", "likes tea"), ("percept", "x" * 3000)])
def test_a_tag_that_is_acted_on_is_an_answer(turn: Turn, kind: TagKind, body: str) -> None:
    turn.run(FakeProvider(says(tag(kind, body))))

    assert turn.error is None
    assert turn.answered.steps == []


def test_a_tag_without_a_body_is_no_answer(turn: Turn) -> None:
    turn.run(FakeProvider(says(tag("need", " "))))

    assert isinstance(turn.error, EmptyAnswer)


def test_a_tool_call_without_closing_text_is_an_answer(turn: Turn) -> None:
    turn.run(FakeProvider([MessageDone((ToolCall("c", "Bash", {"command": "ls"}),)), ToolResultSeen("c", "a b"), Finished("stop")], capabilities=OWN))

    assert turn.error is None
    assert turn.answered.steps == [ToolCall("c", "Bash", {"command": "ls"}), ToolResult("c", "a b")]


def test_what_was_sent_is_kept_beside_what_was_counted_of_it(turn: Turn) -> None:
    provider = FakeProvider(calls(NEED), says("done", usage=Usage(20, 5)), capabilities=TOOLS)

    turn.run(provider)

    assert turn.answered.usage is not None
    counted = provider.requests[1]
    assert (turn.answered.usage.sent_chars, turn.answered.usage.sent_tokens_estimate) == (measure_request(counted), estimate_request_tokens(counted))


def test_nothing_is_kept_of_what_was_sent_where_the_agent_has_more_before_it(turn: Turn) -> None:
    turn.run(FakeProvider(says("done", usage=Usage(20, 5)), capabilities=OWN), conversation=Conversation("resume", "e1", "system", "context"))

    assert turn.answered.usage == Usage(20, 5)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (Usage(10, 5), Usage(20, 5), False),
        (Usage(10, 5), None, True),
        (None, Usage(20, 5), True),
        (Usage(10, 5, cost_usd=0.5), Usage(20, 5), True),
        (Usage(10, 5), Usage(20), True),
        (Usage(10, 5, cache_read_tokens=1), Usage(20, 5), False),
        (None, None, False),
    ],
)
def test_a_sum_to_which_a_call_did_not_add_is_told_not_to_be_all(turn: Turn, first: Usage | None, second: Usage | None, told: bool) -> None:
    reports = [[] if usage is None else [UsageReport(usage)] for usage in (first, second)]
    provider = FakeProvider(
        [*reports[0], MessageDone((NEED,)), Finished("tool_calls")], [*says("done")[:-1], *reports[1], Finished("stop")], capabilities=TOOLS
    )

    turn.run(provider)

    assert turn.error is None
    assert any("not all of this turn's" in notice for notice in turn.answered.notices) is told


def test_a_refused_call_has_no_usage_to_report(turn: Turn) -> None:
    turn.run(FakeProvider([Overloaded("full")], says("done", usage=Usage(7, 1))))

    assert (turn.reported, turn.answered.notices) == (Usage(7, 1), [])


def test_the_last_usage_of_a_call_counts_and_calls_are_added_up(turn: Turn) -> None:
    first = [*calls(NEED)[:-1], UsageReport(Usage(1, 1, cost_usd=0.5)), UsageReport(Usage(10, 4, cost_usd=0.5)), Finished("tool_calls")]
    turn.run(FakeProvider(first, says("done", usage=Usage(20, 5, cache_read_tokens=8)), capabilities=TOOLS))

    assert turn.reported == Usage(30, 9, cache_read_tokens=8, cost_usd=0.5, cost_source="reported")


def test_an_answer_cut_at_the_output_limit_is_incomplete_and_kept(turn: Turn) -> None:
    turn.run(FakeProvider(says("half an", reason="length")))

    assert turn.answered.steps == [Text("half an")]
    assert isinstance(turn.error, Incomplete)
    assert "output limit" in turn.error.message


def test_an_unknown_reason_to_end_is_told(turn: Turn) -> None:
    turn.run(FakeProvider(says("whole", reason="other")))

    assert turn.error is None
    assert "none of the known ones" in turn.answered.notices[0]


def test_an_answer_that_ended_as_blocked_is_no_answer(turn: Turn) -> None:
    turn.run(FakeProvider(says("I can", reason="blocked")))

    assert isinstance(turn.error, Blocked)


def test_notices_are_shown_and_kept_once(turn: Turn) -> None:
    turn.run(FakeProvider([Notice("slow today"), Notice("slow today"), ExternalSessionStarted("e-7"), *says("x")]))

    assert turn.answered.notices == ["slow today"]
    assert turn.answered.external_session == "e-7"


def test_lone_surrogates_and_nul_are_kept_out(turn: Turn) -> None:
    turn.run(FakeProvider(says("a\ud800b\x00c")))

    assert turn.answered.steps == [Text("a\ufffdb\ufffdc")]


# -- tags -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_tag_cut_anywhere_is_never_shown(turn: Turn, size: int) -> None:
    answer = f"before <{tag('need', 'ship it')} < after"
    pieces = [TextDelta(answer[start : start + size]) for start in range(0, len(answer), size)]

    turn.run(FakeProvider([*pieces, MessageDone((Text(answer),)), Finished("stop")]))

    assert turn.seen("text") == "before < < after"
    assert turn.answered.steps == [Text("before < < after")]
    assert turn.heard.needs == [("ship it", "tag")]


def test_tags_are_acted_on_when_their_message_is_final(turn: Turn) -> None:
    turn.run(FakeProvider([TextDelta(tag("percept", "early")), TextDelta(tag("need", "early"))]))

    assert isinstance(turn.error, Incomplete)
    assert (turn.heard.facts, turn.heard.needs) == ([], [])


def test_withdrawn_text_is_neither_acted_on_nor_kept(turn: Turn) -> None:
    turn.run(FakeProvider([TextDelta(f"wrong {tag('need', 'wrong')}"), Withdrawn(), *says(f"right {tag('need', 'right')}")]))

    assert turn.answered.steps == [Text("right ")]
    assert turn.heard.needs == [("right", "tag")]
    assert [shown.type for shown in turn.shown].count("withdrawn") == 1


def test_half_a_tag_that_is_withdrawn_does_not_swallow_what_follows(turn: Turn) -> None:
    turn.run(FakeProvider([TextDelta("<escalera:need:nonce234>half"), Withdrawn(), *says("whole")]))

    assert turn.seen("text") == "whole"


def test_withdrawn_text_is_no_partial_answer(turn: Turn) -> None:
    turn.run(FakeProvider([TextDelta("wrong"), Withdrawn(), TextDelta("right so f"), Incomplete("cut")]))

    assert turn.answered.unfinished == "right so f"


def test_tags_in_reasoning_and_tool_output_are_text(turn: Turn) -> None:
    script = [MessageDone((Reasoning(tag("need", "no")), ToolCall("c", "Read"))), ToolResultSeen("c", tag("need", "no")), *says("done")]

    turn.run(FakeProvider(script, capabilities=OWN))  # type: ignore[arg-type]  # a script

    assert turn.heard.needs == []
    assert turn.answered.steps[2] == ToolResult("c", tag("need", "no"))


def test_an_empty_tag_hands_over_or_is_told(turn: Turn) -> None:
    turn.run(FakeProvider(says(f"I cannot. {tag('escalate', '')}{tag('need', ' ')}")))

    assert turn.heard.handed_over == "(no reason given)"
    assert turn.heard.empty == ["an empty need tag said nothing, and nothing was recorded"]


def test_an_answer_of_tags_alone_that_hands_over_is_no_empty_answer(turn: Turn) -> None:
    turn.run(FakeProvider(says(tag("escalate", "too hard"))))

    assert turn.error is None
    assert (turn.heard.handed_over, turn.answered.steps, turn.seen("text")) == ("too hard", [], "")


def test_tags_of_each_part_of_a_message_are_acted_on_in_order(turn: Turn) -> None:
    turn.run(FakeProvider(says(tag("need", "one"), ToolCall("c", "x"), f"and {tag('need', 'two')}"), capabilities=OWN))

    assert turn.heard.needs == [("one", "tag"), ("two", "tag")]
    assert turn.answered.steps == [ToolCall("c", "x"), Text("and ")]


# -- the tool loop --------------------------------------------------------------------------------


def test_results_go_back_with_the_call_they_answer(turn: Turn) -> None:
    provider = FakeProvider(calls(NEED, text="noting"), says("done"), capabilities=TOOLS)

    turn.run(provider)

    assert turn.heard.needs == [("ship", "tool")]
    assert provider.requests[1].messages == (
        Message("user", (Text("do it"),)),
        Message("assistant", (Text("noting"), NEED)),
        Message("user", (ToolResult("c1", "recorded"),)),
    )
    assert turn.answered.steps == turn.recorded == [Text("noting"), NEED, ToolResult("c1", "recorded"), Text("done")]


def test_all_calls_of_a_message_are_run_before_the_next_one(turn: Turn) -> None:
    memory = ToolCall("c2", "record_memory", {"content": "likes tabs"})
    provider = FakeProvider(calls(NEED, memory), says("done"), capabilities=TOOLS)

    turn.run(provider)

    assert (turn.heard.needs, turn.heard.facts) == ([("ship", "tool")], [("likes tabs", "tool")])
    assert [part.id for part in provider.requests[1].messages[-1].parts if isinstance(part, ToolResult)] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (ToolCall("c1", "rm_rf"), "there is no tool 'rm_rf'; there are: current_need, record_memory, escalate"),
        (ToolCall("c1", "current_need", {"text": ""}), "argument 'text' must be a text that is not empty"),
    ],
    ids=["unknown", "failing"],
)
def test_a_tool_that_is_unknown_or_fails_tells_the_model_so(turn: Turn, call: ToolCall, said: str) -> None:
    provider = FakeProvider(calls(call), says("sorry"), capabilities=TOOLS)

    turn.run(provider)

    assert turn.error is None
    assert turn.answered.steps[1] == ToolResult("c1", said, is_error=True)
    assert provider.requests[1].messages[-1].parts == (ToolResult("c1", said, is_error=True),)


def test_an_agent_that_was_given_no_tools_cannot_call_them(turn: Turn) -> None:
    turn.run(FakeProvider(calls(NEED), says("sorry")))

    assert turn.heard.needs == []
    assert turn.answered.steps[1] == ToolResult("c1", "there is no tool 'current_need'; there are: none", is_error=True)


def test_the_tool_loop_ends_after_its_iterations(turn: Turn) -> None:
    provider = FakeProvider(*[calls(ToolCall(f"c{number}", "current_need", {"text": "ship"})) for number in range(9)], capabilities=TOOLS)

    turn.run(provider, limits=Limits(max_tool_iterations=3))

    assert turn.error is None
    assert len(provider.requests) == 3
    assert turn.answered.notices == ["stopped after 3 rounds of tool calls (max_tool_iterations)"]
    assert isinstance(turn.answered.steps[-1], ToolResult)


def test_without_iterations_no_tool_is_run(turn: Turn) -> None:
    provider = FakeProvider(calls(NEED), says("never"), capabilities=TOOLS)

    turn.run(provider, limits=Limits(max_tool_iterations=0))

    assert turn.heard.needs == []
    assert isinstance(turn.answered.steps[-1], ToolResult)
    assert turn.answered.steps[-1].is_error
    assert len(provider.requests) == 1


def test_the_tool_loop_can_be_unlimited(turn: Turn) -> None:
    provider = FakeProvider(
        *[calls(ToolCall(f"c{number}", "current_need", {"text": f"ship {number}"})) for number in range(40)], says("done"), capabilities=TOOLS
    )

    turn.run(provider, limits=Limits(max_tool_iterations=None))

    assert turn.answered.steps[-1] == Text("done")


def test_handing_over_by_tool_ends_the_loop(turn: Turn) -> None:
    provider = FakeProvider(calls(ToolCall("c1", "escalate", {"reason": "too hard"}), NEED), capabilities=TOOLS)

    turn.run(provider)

    assert turn.heard.handed_over == "too hard"
    assert len(provider.requests) == 1
    assert [type(step) for step in turn.answered.steps] == [ToolCall, ToolCall, ToolResult, ToolResult]


def test_an_escalation_agent_cannot_hand_over(turn: Turn) -> None:
    provider = FakeProvider(calls(ToolCall("c1", "escalate", {"reason": "no"})), says("then I do it"), capabilities=TOOLS)

    turn.run(provider, role=Role.ESCALATION)

    assert turn.heard.handed_over is None
    assert turn.answered.steps[-1] == Text("then I do it")


def test_surrogates_in_arguments_do_not_reach_the_next_request(turn: Turn) -> None:
    provider = FakeProvider(calls(ToolCall("c1", "current_need", {"text": "a\ud800b"})), says("done"), capabilities=TOOLS)

    turn.run(provider)

    assert turn.heard.needs == [("a\ufffdb", "tool")]
    assert provider.requests[1].messages[1].parts == (ToolCall("c1", "current_need", {"text": "a\ufffdb"}),)


@pytest.mark.parametrize("limit", [40, 100, 8000])
def test_a_long_result_keeps_head_and_tail(limit: int) -> None:
    text = "".join(f"{number:06}" for number in range(20_000))

    short = shortened(text, limit)

    assert len(short) <= limit
    assert short.startswith("000")
    assert short.endswith("999")
    assert "characters cut" in short


@pytest.mark.parametrize("limit", [None, 5, 6])
def test_a_result_within_the_limit_is_whole(limit: int | None) -> None:
    assert shortened("12345", limit) == "12345"


@pytest.mark.parametrize("limit", [0, 1, 10])
def test_a_limit_too_small_for_a_mark_is_kept_all_the_same(limit: int) -> None:
    assert shortened("x" * 1000, limit) == "x" * limit


# -- failing --------------------------------------------------------------------------------------


def test_an_answer_that_breaks_off_is_kept_apart(turn: Turn) -> None:
    turn.run(FakeProvider([*says("first")[:-1], TextDelta("sec"), TextDelta("ond")]))

    assert isinstance(turn.error, Incomplete)
    assert turn.error.partial == "second"
    assert (turn.answered.steps, turn.answered.unfinished) == ([Text("first")], "second")


@pytest.mark.parametrize("streamed", [True, False])
def test_the_partial_text_of_an_error_is_kept_whether_it_was_streamed_or_not(turn: Turn, streamed: bool) -> None:
    deltas = [TextDelta("half")] if streamed else []

    turn.run(FakeProvider([*deltas, TimedOut("silent", which="idle", partial=f"half{tag('need', 'no')}")]))

    assert turn.answered.unfinished == "half"
    assert turn.heard.needs == []


def test_partial_text_that_is_final_already_is_not_kept_twice(turn: Turn) -> None:
    turn.run(FakeProvider([*says("whole")[:-1], Incomplete("cut", partial="whole")]))

    assert (turn.answered.steps, turn.answered.unfinished) == ([Text("whole")], "")


def test_a_tag_that_the_end_cut_off_is_shown_as_text(turn: Turn) -> None:
    turn.run(FakeProvider([TextDelta("x <escalera:need:nonce234>half"), Incomplete("cut")]))

    assert turn.seen("text") == turn.answered.unfinished == "x <escalera:need:nonce234>half"


@pytest.mark.parametrize(
    "error",
    [
        *(KeyError("choices"), RuntimeError("bug"), OSError(5, "Input/output error"), RecursionError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x")),
        *(GeneratorExit(), SystemExit(0)),
    ],
)
def test_an_error_that_is_none_of_ours_becomes_one(turn: Turn, error: BaseException) -> None:
    turn.run(FakeProvider([TextDelta("half"), error]))

    assert isinstance(turn.error, ProtocolError)
    assert turn.error.agent == "local"
    assert type(error).__name__ in turn.error.message
    assert "fake_provider.py" in turn.error.message
    assert turn.error.hint
    assert turn.error.__cause__ is error
    assert turn.answered.unfinished == "half"


def test_an_answer_that_was_finished_stands_whatever_its_provider_does_then(turn: Turn) -> None:
    turn.run(FakeProvider([*says("whole"), RuntimeError("bug")]))

    assert turn.error is None
    assert turn.answered.steps == [Text("whole")]
    assert "the provider broke after the end of its answer: RuntimeError" in turn.seen("notice")


def test_what_a_foreign_error_says_may_hold_a_secret_and_is_not_told(turn: Turn) -> None:
    turn.run(FakeProvider([ValueError("illegal header b'Bearer sk-DEMO-4242'")]))

    assert turn.error is not None
    assert "sk-DEMO" not in turn.error.message + str(turn.error.hint)


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        "text",
        42,
        {"type": "text"},
        SimpleNamespace(text="x"),
        TextDelta(None),  # type: ignore[arg-type]
        ReasoningDelta(7),  # type: ignore[arg-type]
        MessageDone(None),  # type: ignore[arg-type]
        MessageDone(("text",)),  # type: ignore[arg-type]
        MessageDone((Text(None),)),  # type: ignore[arg-type]
        MessageDone((ToolCall("c", "t", ["x"]),)),  # type: ignore[arg-type]
        MessageDone((ToolCall("c", "t", {"x": {1, 2}}),)),
        MessageDone((Text("t", extra={"x": b"bytes"}),)),
        ToolResultSeen("c", None),  # type: ignore[arg-type]
        UsageReport({"input": 3}),  # type: ignore[arg-type]
        ExternalSessionStarted(None),  # type: ignore[arg-type]
        ExternalSessionStarted("e", 7),  # type: ignore[arg-type]
        Notice(b"x"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_event_fails_the_turn(turn: Turn, garbage: object) -> None:
    turn.run(FakeProvider([garbage, *says("never")]))  # type: ignore[list-item]  # that is the point

    assert isinstance(turn.error, ProtocolError)
    assert turn.error.agent == "local"
    assert turn.answered.steps == []


def test_a_provider_that_gives_no_iterator_fails_the_turn(turn: Turn) -> None:
    class Broken(FakeProvider):
        def run(self, request, *, cancel, ask):  # type: ignore[no-untyped-def]
            return None

    turn.run(Broken())

    assert isinstance(turn.error, ProtocolError)


def test_an_error_of_the_configuration_stays_what_it_is(turn: Turn) -> None:
    turn.run(FakeProvider([ConfigError("tls_ca: no such file")]))

    assert isinstance(turn.error, ConfigError)


def test_an_error_of_the_store_is_not_taken_for_the_providers(turn: Turn) -> None:
    def lost(step: Part) -> None:
        raise LeaseLost("taken over")

    turn.on_record = lost

    turn.run(FakeProvider(says("never stored")))

    assert isinstance(turn.error, LeaseLost)


# -- cancelling -----------------------------------------------------------------------------------


def test_a_cancelled_turn_keeps_what_was_said(turn: Turn) -> None:
    turn.on_show = lambda shown: turn.cancel.set("enough")

    turn.run(FakeProvider([TextDelta("so far"), UNTIL_CANCELLED]))

    assert isinstance(turn.error, Cancelled)
    assert turn.error.message == "enough"
    assert turn.answered.unfinished == "so far"


def test_a_turn_cancelled_before_it_began_sends_nothing(turn: Turn) -> None:
    turn.cancel.set()

    turn.run(FakeProvider(says("never")))

    assert isinstance(turn.error, Cancelled)
    assert turn.answered.sends == 0


def test_a_turn_cancelled_between_two_calls_sends_no_second_one(turn: Turn) -> None:
    turn.on_record = lambda step: turn.cancel.set() if isinstance(step, ToolResult) else None

    turn.run(FakeProvider(calls(NEED), says("never"), capabilities=TOOLS))

    assert isinstance(turn.error, Cancelled)
    assert turn.answered.sends == 1


def test_a_stream_that_ends_without_its_end_after_a_cancel_is_cancelled(turn: Turn) -> None:
    turn.run(FakeProvider([TextDelta("so f"), turn.cancel.set]))

    assert isinstance(turn.error, Cancelled)


def test_an_answer_that_was_complete_when_the_cancel_came_stands(turn: Turn) -> None:
    turn.run(FakeProvider([*says("done")[:-1], turn.cancel.set, Finished("stop")]))

    assert turn.error is None


def test_a_provider_may_report_its_usage_after_a_cancel(turn: Turn) -> None:
    turn.run(FakeProvider([TextDelta("so f"), turn.cancel.set, UsageReport(Usage(5, 2)), Cancelled("stopped")]))

    assert turn.reported == Usage(5, 2)


def test_a_provider_that_goes_on_after_a_cancel_is_left(turn: Turn) -> None:
    script = [TextDelta("a"), turn.cancel.set, TextDelta("b"), lambda: turn.clock.sleep(60), TextDelta("c"), TextDelta("d"), *says("never")]

    turn.run(FakeProvider(script, capabilities=Capabilities()))

    assert isinstance(turn.error, Cancelled)
    assert "never" not in turn.seen("text")
