"""Requests of the CLI become questions, answers become replies."""

from __future__ import annotations

import threading

import pytest
from escalera_claude_cli.permissions import answer_request

from orchestrator.providers import Answer


def request(tool="Bash", **tool_input):
    return {"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": tool, "input": tool_input}}


def reply(line, answer):
    asked = []

    def ask(question):
        asked.append(question)
        return answer if isinstance(answer, Answer) else answer[len(asked) - 1]

    result = answer_request(line, ask, threading.Event())
    return asked, result.message["response"]["response"], result.notice


def test_allowed_input_comes_back_unchanged():
    (question,), response, notice = reply(request(command="rm \x1b[2K x"), Answer("accept"))

    assert response == {"behavior": "allow", "updatedInput": {"command": "rm \x1b[2K x"}}
    assert notice is None
    assert question.mode == "confirm"
    assert "\x1b" not in question.message


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer("decline"), "said no"),
        (Answer("cancel"), "neither allowed nor refused"),
        (Answer("cancel", by="expiry"), "Nobody answered in time"),
        (Answer("cancel", by="nobody"), "nobody who could be asked"),
    ],
)
def test_refusal_expiry_and_nobody_are_told_apart(answer, told):
    _, response, notice = reply(request(command="x"), answer)

    assert response["behavior"] == "deny"
    assert told in response["message"]
    assert (notice is None) == (answer.by == "nobody")
    assert notice is None or "Bash" in notice


ENTRIES = [
    {"question": "Which one?", "header": "Pick", "options": [{"label": "A", "description": "first"}, {"label": "B"}]},
    {"question": "Which ones?", "options": [{"label": "C"}, {"label": "D"}], "multiSelect": True},
]


def test_each_entry_is_a_question_and_its_full_text_the_key():
    answers = [Answer("accept", {"answer": "B"}), Answer("accept", {"answer": ["C", "D"]})]

    asked, response, _ = reply(request("AskUserQuestion", questions=ENTRIES), answers)

    assert [question.message for question in asked] == ["Which one?", "Which ones?"]
    assert asked[0].schema["properties"]["answer"] == {"type": "string", "enum": ["A", "B"], "title": "Pick", "description": "A: first"}
    assert asked[1].schema["properties"]["answer"]["type"] == "array"
    assert response["updatedInput"] == {"questions": ENTRIES, "answers": {"Which one?": "B", "Which ones?": "C, D"}}


def test_one_unanswered_entry_denies_the_whole():
    _, response, notice = reply(request("AskUserQuestion", questions=ENTRIES), [Answer("accept", {"answer": "B"}), Answer("cancel", by="expiry")])

    assert response["behavior"] == "deny"
    assert "in time" in notice


def test_what_is_not_shown_is_said():
    (question,), *_ = reply(request(command="x" * 50_000), Answer("decline"))

    assert len(question.message) < 21_000
    assert "more characters are not shown" in question.message
