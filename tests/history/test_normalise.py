from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.history.budget import measure
from orchestrator.history.normalise import INTERRUPTED, NO_ANSWER, NO_OUTPUT, NO_TEXT, normalise, paired, settle
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from orchestrator.providers import WireProfile

Violations = Callable[[Sequence[Message], WireProfile], list[str]]
PROFILES: tuple[WireProfile, ...] = get_args(WireProfile)

IDS = st.sampled_from(["c1", "c1", "c2", "c3", "", " ", "a b", "a_b", "x" * 80, "t\n", "functions.save:0", "\ud800", "ключ", "c1_2"])
TEXTS = st.sampled_from(["", " ", "\n\t", "hello", "trailing  \n", "\ud99c text \ud83d", "\ud83d\ude00", "nul\x00", "語", "[end of x's answer]"])
VALUES = st.dictionaries(st.sampled_from(["q", "\udfff", "n"]), st.one_of(TEXTS, st.integers(), st.lists(TEXTS, max_size=2)), max_size=2)
EXTRA = st.sampled_from([None, None, None, {"sig": "abc"}, {"sig": "\ud800"}])
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, TEXTS, EXTRA),
    st.builds(Reasoning, TEXTS, st.just("m"), st.sampled_from([None, "sig"]), EXTRA),
    st.builds(ToolCall, IDS, st.sampled_from(["grep", "", "a.b", "\ud800", "n" * 90]), VALUES, EXTRA),
    st.builds(ToolResult, IDS, TEXTS, st.booleans(), EXTRA),
)
MESSAGES = st.builds(Message, st.sampled_from(["user", "assistant", "user", "assistant", "system"]), st.lists(PARTS, max_size=4).map(tuple))
HISTORIES = st.lists(MESSAGES, max_size=8).map(tuple)


def user(*parts: Part | str) -> Message:
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: Part | str) -> Message:
    return Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def system(text: str) -> Message:
    return Message("system", (Text(text),))


# -- what holds for every history -----------------------------------------------------------------


@given(HISTORIES, st.sampled_from(PROFILES))
@settings(max_examples=200, deadline=None)
def test_whatever_was_stored_a_valid_list_is_sent(violations: Violations, messages: tuple[Message, ...], profile: WireProfile) -> None:
    before = deepcopy(messages)

    once = normalise(messages, profile)

    assert violations(once, profile) == []
    assert normalise(once, profile) is once
    assert messages == before
    assert bool(once) == bool(messages)


@given(HISTORIES, HISTORIES, st.sampled_from(PROFILES))
@settings(max_examples=120, deadline=None)
def test_joining_settled_stretches_changes_no_size(
    violations: Violations, first: tuple[Message, ...], second: tuple[Message, ...], profile: WireProfile
) -> None:
    one, two = (settle(tuple(m for m in part if m.role != "system"), profile) for part in (first, second))

    joined = settle(one + two, profile)

    assert measure(joined) == measure(one) + measure(two)
    assert settle(joined, profile) is joined
    request = normalise((*joined, user("go")), profile)
    assert violations(request, profile) == []
    assert measure(request) == measure(joined) + measure([user("go")])


@given(HISTORIES, HISTORIES, st.sampled_from(PROFILES))
@settings(max_examples=120, deadline=None)
def test_a_whole_history_is_never_larger_than_its_stretches(first: tuple[Message, ...], second: tuple[Message, ...], profile: WireProfile) -> None:
    one, two = (tuple(m for m in part if m.role != "system") for part in (first, second))
    apart = measure(settle(one, profile)) + measure(settle(two, profile))

    assert measure(settle(one + two, profile)) <= apart


@given(HISTORIES, st.sampled_from(PROFILES))
def test_no_text_is_lost(messages: tuple[Message, ...], profile: WireProfile) -> None:
    def count(history: Sequence[Message]) -> int:
        return sum(
            part.text.count("hello") if isinstance(part, Text) else part.content.count("hello")
            for m in history
            for part in m.parts
            if isinstance(part, Text | ToolResult)
        )

    assert count(normalise(messages, profile)) == count(messages)


# -- identity -------------------------------------------------------------------------------------

VALID = (
    user("go"),
    assistant("looking", ToolCall("c1", "grep", {"q": "x"}), ToolCall("c2", "grep", {"q": "y"})),
    user(ToolResult("c1", "one"), ToolResult("c2", "two")),
    assistant("found"),
    user("thanks"),
)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("messages", [(), VALID, VALID[:1], (user("a", "b"), assistant("c"))])
def test_a_valid_list_comes_back_as_the_same_object(messages: tuple[Message, ...], profile: WireProfile) -> None:
    assert normalise(messages, profile) is messages
    assert settle(messages, profile) is messages


# -- calls and results ----------------------------------------------------------------------------


def test_a_missing_result_is_an_error_that_says_interrupted() -> None:
    messages = (user("go"), assistant(ToolCall("c1", "t", {}), ToolCall("c2", "t", {})), user(ToolResult("c1", "one")), user("hello?"))

    sent = normalise(messages, "bedrock")

    assert sent[2] == user(ToolResult("c1", "one"), ToolResult("c2", INTERRUPTED, is_error=True), "hello?")


def test_an_orphan_result_becomes_text() -> None:
    sent = normalise((user("go"), assistant("text only"), user(ToolResult("ghost", "leftover")), user("and now")), "bedrock")

    assert sent[2] == user("[result of a tool call that is not shown]\nleftover", "and now")


def test_a_second_result_of_one_call_becomes_text() -> None:
    messages = (user("go"), assistant(ToolCall("c", "t", {})), user(ToolResult("c", "one"), ToolResult("c", "again", is_error=True)))

    assert normalise(messages, "anthropic")[2] == user(ToolResult("c", "one"), "[error of a tool call that is not shown]\nagain")


def test_a_late_result_is_brought_to_its_call() -> None:
    messages = (user("go"), assistant(ToolCall("c", "t", {})), user("meanwhile"), assistant("hm"), user(ToolResult("c", "late")))

    assert normalise(messages, "bedrock") == (user("go"), assistant(ToolCall("c", "t", {})), user(ToolResult("c", "late"), "meanwhile"), assistant("hm"))


def test_a_result_belongs_to_the_latest_call_that_waits_under_its_id() -> None:
    messages = (user("a"), assistant(ToolCall("c", "t", {"n": 1})), user("b"), assistant(ToolCall("c", "t", {"n": 2})), user(ToolResult("c", "two")))

    sent = normalise(messages, "openai")

    assert [part for message in sent for part in message.parts if isinstance(part, ToolResult)] == [
        ToolResult("c", INTERRUPTED, is_error=True),
        ToolResult("c_2", "two"),
    ]


def test_a_result_without_output_gets_a_note() -> None:
    messages = (user("go"), assistant(ToolCall("c", "t", {})), user(ToolResult("c", " \n")))

    assert normalise(messages, "openai")[2] == user(ToolResult("c", NO_OUTPUT))


@pytest.mark.parametrize(
    ("profile", "old", "new"),
    [
        ("bedrock", "functions.save:0", "functions.save:0"),
        ("anthropic", "functions.save:0", "functions_save_0"),
        ("openai", "functions.save:0", "functions.save:0"),
        ("bedrock", "x" * 65, "x" * 48),
        ("anthropic", "x" * 65, "x" * 65),
        ("bedrock", "ключ\n", "____"),
        ("bedrock", "c1\n", "c1"),
        ("openai", " ", "call"),
    ],
)
def test_ids_are_renamed_on_both_sides_when_the_format_refuses_them(profile: WireProfile, old: str, new: str) -> None:
    sent = normalise((user("go"), assistant(ToolCall(old, "t", {})), user(ToolResult(old, "r"))), profile)

    assert sent[1:] == (assistant(ToolCall(new, "t", {})), user(ToolResult(new, "r")))


def test_a_made_up_id_takes_none_that_is_there() -> None:
    messages = (user("go"), assistant(ToolCall("c", "t", {}), ToolCall("c", "t", {}), ToolCall("c_2", "t", {})))

    assert [part.id for part in normalise(messages, "openai")[1].parts if isinstance(part, ToolCall)] == ["c", "c_3", "c_2"]


def test_thousands_of_calls_under_one_id_take_linear_time() -> None:
    messages = tuple(message for n in range(5000) for message in (user("q"), assistant(ToolCall("c", "t", {"n": n})), user(ToolResult("c", str(n)))))

    sent = normalise(messages, "bedrock")

    assert len({part.id for message in sent for part in message.parts if isinstance(part, ToolCall)}) == 5000


def test_tool_names_are_spelt_as_the_format_wants() -> None:
    messages = (user("go"), assistant(ToolCall("a", "fs.read", {}), ToolCall("b", "", {})))

    assert [part.name for part in normalise(messages, "bedrock")[1].parts if isinstance(part, ToolCall)] == ["fs_read", "unknown"]
    assert [part.name for part in normalise(messages, "openai")[1].parts if isinstance(part, ToolCall)] == ["fs.read", "unknown"]


# -- roles, blanks, reasoning ---------------------------------------------------------------------


def test_neighbours_of_one_role_merge_where_roles_alternate() -> None:
    messages = (user("part one"), user("part two"), assistant("ok"), assistant("and more"), user("go"))

    assert normalise(messages, "bedrock") == (user("part one", "part two"), assistant("ok", "and more"), user("go"))
    assert normalise(messages, "openai") is messages


def test_a_list_that_begins_with_an_answer_gets_a_user_message() -> None:
    assert normalise((assistant("hi"),), "openai") == (user(NO_TEXT), assistant("hi"))
    assert normalise((system("s"), assistant("hi")), "openai") == (system("s"), user(NO_TEXT), assistant("hi"))


def test_a_blank_message_disappears_with_its_need_for_alternation() -> None:
    messages = (user("run"), assistant(" "), user("", "next"))

    assert normalise(messages, "bedrock") == (user("run", "next"),)


@pytest.mark.parametrize("messages", [(user(" "),), (system("s"),), (assistant(""),)])
def test_a_list_is_never_left_without_a_message(messages: tuple[Message, ...]) -> None:
    assert normalise(messages, "bedrock")[-1] == user(NO_TEXT)


def test_only_the_last_answer_loses_its_trailing_blanks() -> None:
    messages = (user("a "), assistant("b \n"), user("c "), assistant("d \n"))

    assert normalise(messages, "anthropic") == (*messages[:3], assistant("d"))
    assert settle(messages, "anthropic") is messages


def test_system_messages_stand_where_the_format_has_them() -> None:
    messages = (system("one"), user("a"), system("two"), assistant("b"))

    assert normalise(messages, "openai") is messages
    assert normalise(messages, "bedrock") == (system("one"), system("two"), user("a"), assistant("b"))
    assert normalise(messages, "openai-strict") == (Message("system", (Text("one"), Text("two"))), user("a"), assistant("b"))


def test_strict_templates_never_see_user_text_right_after_results() -> None:
    messages = (user("go"), assistant(ToolCall("c", "t", {})), user(ToolResult("c", "r")), user("next"))

    assert normalise(messages, "openai-strict") == (*messages[:3], assistant(NO_ANSWER), user("next"))
    assert normalise(messages[:3], "openai-strict") is not None
    assert normalise(messages[:3], "openai-strict") == messages[:3]


def test_reasoning_text_and_calls_stand_in_bedrocks_order() -> None:
    thought = Reasoning("hm", "m", "sig")
    messages = (user("go"), assistant(ToolCall("c", "t", {}), "after", thought), user(ToolResult("c", "r")))

    assert normalise(messages, "bedrock")[1] == assistant(thought, "after", ToolCall("c", "t", {}))


def test_reasoning_that_nobody_signed_is_left_out_where_signatures_are_wanted() -> None:
    messages = (user("go"), assistant(Reasoning("hm", "m"), "yes"))

    assert normalise(messages, "bedrock") == (user("go"), assistant("yes"))
    assert normalise(messages, "openai") == messages


def test_an_answer_of_nothing_but_reasoning_is_left_out() -> None:
    assert normalise((user("go"), assistant(Reasoning("hm", "m", "s")), user("so?")), "bedrock") == (user("go", "so?"),)


def test_surrogates_and_nul_are_replaced_wherever_they_stand() -> None:
    messages = (user("\ud99c a"), assistant(ToolCall("c", "t", {"\ud800": ["\x00"]})), user(ToolResult("c", "\ud83d\ude00")))

    assert normalise(messages, "openai") == (user("� a"), assistant(ToolCall("c", "t", {"�": ["�"]})), user(ToolResult("c", "😀")))


def test_pairing_alone_answers_every_call_and_leaves_roles_be() -> None:
    messages = (assistant(ToolCall("c", "t", {})), assistant("x"), user(ToolResult("c", "r"), "y"))

    assert paired(messages) == (assistant(ToolCall("c", "t", {})), user(ToolResult("c", "r")), assistant("x"), user("y"))
