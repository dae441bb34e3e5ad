"""Needs, facts and hand-overs, by tag and by tool."""

from __future__ import annotations

import pytest

from orchestrator.dispatch.heard import Heard, session_tools
from orchestrator.dispatch.own_tools import OWN_SCHEMAS
from orchestrator.providers import Cancel
from orchestrator.session import Role
from orchestrator.tags import Tag
from orchestrator.tools import SESSION_TOOLS, ToolContext, ToolFailed

from ..conftest import nobody

CONTEXT = ToolContext("/work/a", "s1", "local", nobody, Cancel())


def tools(heard: Heard, role: Role = Role.PRIMARY):
    return {tool.schema.name: tool for tool in session_tools(heard, hands_over=role is Role.PRIMARY)}


def test_tags_are_taken_in_order() -> None:
    heard = Heard()

    heard.take_in([Tag("need", "one"), Tag("percept", "a fact"), Tag("need", "two")], Role.ESCALATION)

    assert heard.needs == [("one", "tag"), ("two", "tag")]
    assert heard.facts == [("a fact", "tag")]


def test_tools_say_the_same_as_tags() -> None:
    heard = Heard()
    given = tools(heard)

    assert given["current_need"].run({"text": "  ship it "}, CONTEXT) == "recorded"
    assert given["record_memory"].run({"content": "likes tabs"}, CONTEXT) == "recorded"
    given["escalate"].run({"reason": "too hard"}, CONTEXT)

    assert (heard.needs, heard.facts, heard.handed_over) == ([("ship it", "tool")], [("likes tabs", "tool")], "too hard")


def test_the_first_reason_for_handing_over_counts() -> None:
    heard = Heard()

    heard.take_in([Tag("escalate", "first"), Tag("escalate", "second")], Role.PRIMARY)

    assert heard.handed_over == "first"


def test_only_the_primary_can_hand_over() -> None:
    heard = Heard()

    heard.take_in([Tag("escalate", "please")], Role.ESCALATION)

    assert heard.handed_over is None
    assert sorted(tools(heard, Role.ESCALATION)) == ["current_need", "record_memory"]


def test_a_tag_without_a_body_says_nothing() -> None:
    heard = Heard()

    heard.take_in([Tag("need", ""), Tag("percept", "")], Role.PRIMARY)

    assert not heard.anything
    assert heard.empty == [f"an empty {kind} tag said nothing, and nothing was recorded" for kind in ("need", "percept")]


def test_an_empty_hand_over_is_one_without_a_reason() -> None:
    heard = Heard()

    heard.take_in([Tag("escalate", "")], Role.PRIMARY)

    assert heard.handed_over == "(no reason given)"


@pytest.mark.parametrize("arguments", [{}, {"text": ""}, {"text": " \n"}, {"text": 7}, {"text": None}, {"need": "x"}])
def test_a_tool_wants_a_text(arguments: dict[str, object]) -> None:
    heard = Heard()

    with pytest.raises(ToolFailed, match="'text'"):
        tools(heard)["current_need"].run(arguments, CONTEXT)

    assert heard.needs == []


@pytest.mark.parametrize(("tool", "argument", "most"), [("current_need", "text", 4000), ("record_memory", "content", 2000), ("escalate", "reason", 4000)])
def test_a_text_by_tool_is_held_to_what_a_tag_may_hold(tool: str, argument: str, most: int) -> None:
    """A need stands in every later orientation, which is never cut: a huge one would stop the session."""
    heard = Heard()

    tools(heard)[tool].run({argument: "x" * most}, CONTEXT)
    with pytest.raises(ToolFailed, match=str(most)):
        tools(heard)[tool].run({argument: "x" * (most + 1)}, CONTEXT)

    assert len(heard.needs) + len(heard.facts) + (heard.handed_over is not None) == 1


def test_the_session_tools_are_known_by_name() -> None:
    said = {tool.schema.name for tool in session_tools(Heard(), hands_over=True)}

    assert said | {schema.name for schema in OWN_SCHEMAS} == SESSION_TOOLS


def test_a_fact_by_tag_is_never_cut_and_its_refusal_is_told() -> None:
    heard = Heard()

    heard.take_in([Tag("percept", "x" * 2000), Tag("percept", "y" * 2001)], Role.PRIMARY)

    assert heard.facts == [("x" * 2000, "tag")]
    assert heard.refused == ["a fact of 2001 characters was not remembered: it may have at most 2000"]
