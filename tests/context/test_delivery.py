"""Delivery: stable bytes first, a context block that always begins the same, and nothing told twice."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from orchestrator.context.delivery import context_block, delivered_marks, is_new, mark_of, new_percepts, system_blocks, system_messages, system_text
from orchestrator.percepts import Percept
from orchestrator.providers import SystemBlock
from orchestrator.templates import Templates

TEMPLATES = Templates()
STATIC = (SystemBlock("identity", "You are claude."), SystemBlock("agent_prompt", "Be brief."))
FIRST_LINE, LAST_LINE = "[Escalera context]", "[End of Escalera context: the user's message follows]"


def test_system_messages_are_static_orientation_percepts() -> None:
    assert system_messages(STATIC, orientation="o", percepts="p") == (
        SystemBlock("static", "You are claude.\n\nBe brief."),
        SystemBlock("orientation", "o"),
        SystemBlock("percepts", "p"),
    )


def test_blank_system_messages_are_not_sent() -> None:
    assert [block.name for block in system_messages((), orientation=" \n", percepts="p")] == ["percepts"]
    assert [block.name for block in system_blocks(STATIC, orientation="", percepts="")] == ["identity", "agent_prompt"]
    assert [block.name for block in system_blocks(STATIC, orientation="o", percepts="p")] == ["identity", "agent_prompt", "orientation", "percepts"]


def test_the_system_text_of_a_conversation() -> None:
    assert system_text(TEMPLATES, STATIC, orientation="## Orientation", percepts="## Percepts") == snapshot("""\
You are claude.

Be brief.

# State at the start of this conversation
This was so when the conversation began. Later messages begin with a block "[Escalera context]": where it differs from this, it counts and this does not.

## Orientation

## Percepts\
""")


def test_a_system_text_with_nothing_dynamic_is_the_static_text() -> None:
    assert system_text(TEMPLATES, STATIC, orientation="", percepts="") == "You are claude.\n\nBe brief."


@pytest.mark.parametrize(("orientation", "percepts"), [("o", ""), ("", "p")])
def test_a_system_text_with_one_dynamic_part(orientation: str, percepts: str) -> None:
    text = system_text(TEMPLATES, STATIC, orientation=orientation, percepts=percepts)

    assert "# State at the start of this conversation" in text
    assert text.endswith(f"\n\n{orientation or percepts}")


def test_a_context_block_in_full() -> None:
    assert context_block(TEMPLATES, orientation="## Orientation", percepts="## Percepts", tool_percepts="## Tools") == snapshot("""\
[Escalera context]

## Orientation

## Percepts

## Tools

[End of Escalera context: the user's message follows]\
""")


def test_a_context_block_without_anything_new() -> None:
    assert context_block(TEMPLATES) == snapshot("""\
[Escalera context]
There is nothing new to tell.
[End of Escalera context: the user's message follows]\
""")


@pytest.mark.parametrize("orientation", ["", "o"])
@pytest.mark.parametrize("percepts", ["", "p"])
@pytest.mark.parametrize("tool_percepts", ["", "t"])
def test_a_context_block_has_the_same_first_and_last_line_always(orientation: str, percepts: str, tool_percepts: str) -> None:
    lines = context_block(TEMPLATES, orientation=orientation, percepts=percepts, tool_percepts=tool_percepts).split("\n")

    assert lines[0] == FIRST_LINE
    assert lines[-1] == LAST_LINE
    assert [line for line in lines[1:-1] if len(line) == 1] == [part for part in (orientation, percepts, tool_percepts) if part]


def test_what_was_delivered_is_new_no_more_and_survives_a_document() -> None:
    marks = json.loads(json.dumps(delivered_marks({"percepts": ["a"]}, primary_activity="activity", prior_escalation="", percepts=["b", "a"])))

    assert marks["percepts"] == ["a", "b"]
    assert not is_new("primary_activity", "activity", marks)
    assert is_new("primary_activity", "activity, changed", marks)
    assert not is_new("primary_activity", "", {})
    assert is_new("prior_escalation", "x", marks)


def test_percepts_are_told_once_to_an_external_session() -> None:
    one, two = (Percept(name, name, "user") for name in ("1", "2"))

    assert new_percepts([one, two], {"percepts": ["1"]}) == (two,)
    assert new_percepts([one, two], {}) == (one, two)


@pytest.mark.parametrize("damaged", [5, None, "1", {"1": 2}, [1, None, "2"]])
def test_damaged_marks_count_as_nothing_told(damaged: object) -> None:
    one = Percept("1", "x", "user")

    assert new_percepts([one], {"percepts": damaged}) == (one,)
    assert "1" in delivered_marks({"percepts": damaged}, primary_activity="", prior_escalation="", percepts=["1"])["percepts"]


def test_a_mark_can_be_made_of_any_text() -> None:
    assert mark_of("\ud800") != mark_of("")
    assert len(mark_of("x" * 1_000_000)) == 16
