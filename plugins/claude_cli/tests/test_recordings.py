"""Every recording of the real program, said again by a stand-in, comes to the right end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import errors
from orchestrator.messages import Reasoning, ToolCall
from orchestrator.providers import Answer, MessageDone, TextDelta, ToolResultSeen, Withdrawn

RECORDINGS = Path(__file__).parent / "recordings"
EXITS: dict[str, dict[str, Any]] = json.loads((RECORDINGS / "exits.json").read_text())

ANSWERED = {
    "01-first-turn": (["Hello, I am here."], (10, 20)),
    "02-resume": (["The door is still open."], (10, 20)),
    "03-tool-use": (["Let me look at the notes.", "The notes say: milk, eggs."], (20, 40)),
    "04-permission-allowed": (["All done."], (20, 40)),
    "05-permission-denied": (["Understood, I will not."], (20, 40)),
    "07-permission-unanswered-eof": (["Understood, I will not."], (20, 40)),
    "08-permission-stream-closed": (["Understood, I will not."], (20, 40)),
    "09-permission-none": (["I was not allowed."], (20, 40)),
    "13-api-429-then-ok": (["Recovered."], (10, 20)),
    "23-resume-after-kill": (["Where were we?"], (10, 20)),
    "25-partial-split-tags": (["I am thirsty. <milk:need:abc123>a glass of water</milk:need:abc123> and <milk:percept:p7/> seen."], (10, 20)),
    "26-partial-broken-stream-restart": (["Second try: <milk:need:def456>tea</milk:need:def456>"], (10, 20)),
    "27-partial-tool-and-thinking": (["One moment.", "Said hi."], (20, 40)),
    "28-answer-200kb": (None, (10, 20)),
    "29-unicode": (None, (10, 20)),
    "30-multi-turn-interrupt": (["First answer."], (10, 20)),
    "31-rate-limit-warning": (["Careful now."], (10, 20)),
    "33-slash-prompt": (["Unknown command: /foo. Did you mean /loop?"], None),
}

FAILED = {
    "06-permission-denied-interrupt": (errors.PermissionDenied, ""),
    "10-resume-unknown": (errors.SessionLost, ""),
    "11-api-529": (errors.Overloaded, ""),
    "12-api-529-max-retries-1": (errors.Overloaded, ""),
    "14-api-401": (errors.AuthFailed, ""),
    "15-api-500": (errors.Unavailable, ""),
    "16-api-credit": (errors.OutOfFunds, ""),
    "17-api-prompt-too-long": (errors.ContextOverflow, ""),
    "18-api-429": (errors.RateLimited, ""),
    "19-killed-sigterm": (errors.Incomplete, "Once upon a time "),
    "20-killed-sigint": (errors.Incomplete, "Once upon a time "),
    "21-killed-sigkill": (errors.Incomplete, "Once upon a time "),
    "22-sigint-before-first-byte": (errors.Incomplete, ""),
    "24-max-turns": (errors.Incomplete, ""),
    "32-rate-limit-rejected": (errors.RateLimited, ""),
}


SPENT = {"06-permission-denied-interrupt": (10, 20, 0.00055), "24-max-turns": (10, 20, 0.00055)}
"""What the failed ones have cost; the others name no tokens."""


def replay(stage, name, **more):
    path = RECORDINGS / f"{name}.ndjson"
    if not path.exists():
        path = stage.folder / path.name
        path.write_bytes(gzip.decompress((RECORDINGS / f"{name}.ndjson.gz").read_bytes()))
    return stage.replay(path, exit_code=EXITS[name]["exit"], stderr=EXITS[name]["stderr"], **more)


def test_every_recording_has_an_expectation():
    assert set(EXITS) == {*ANSWERED, *FAILED}


@pytest.mark.parametrize("name", ANSWERED)
def test_answered_recording_is_a_finished_turn(stage, name):
    outcome = replay(stage, name)

    texts, usage = ANSWERED[name]
    assert outcome.error is None
    assert outcome.finished is not None
    assert texts is None or outcome.texts == texts
    assert (usage is None) == (outcome.usage is None)
    assert usage is None or (outcome.usage.input_tokens, outcome.usage.output_tokens) == usage
    assert usage is None or outcome.usage.cost_usd > 0


@pytest.mark.parametrize("name", FAILED)
def test_failed_recording_is_its_error_and_no_answer(stage, name):
    outcome = replay(stage, name)

    kind, partial = FAILED[name]
    assert type(outcome.error) is kind
    assert outcome.error.partial == partial
    assert outcome.finished is None
    assert not outcome.texts
    spent = outcome.usage and (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.usage.cost_usd)
    assert spent == SPENT.get(name)


def test_overflow_carries_both_numbers(stage):
    error = replay(stage, "17-api-prompt-too-long").error

    assert (error.limit, error.needed) == (200_000, 210_000)


def test_overflow_of_a_resumed_conversation_is_a_lost_one(stage):
    outcome = replay(stage, "17-api-prompt-too-long", request=stage.request(action="resume"))

    assert type(outcome.error) is errors.SessionLost


def test_lack_of_credit_stays_itself_on_resume(stage):
    outcome = replay(stage, "16-api-credit", request=stage.request(action="resume"))

    assert type(outcome.error) is errors.OutOfFunds


def test_rejection_says_when_the_limit_ends(stage):
    error = replay(stage, "32-rate-limit-rejected").error

    assert error.retry_after is not None
    assert "resets 3:00am (UTC)" in error.message


def test_allowed_warning_is_a_heartbeat(stage):
    assert replay(stage, "31-rate-limit-warning").notices == ""


def test_blocks_of_one_message_become_one_message(stage):
    outcome = replay(stage, "27-partial-tool-and-thinking")

    first, second = (event.parts for event in outcome.events if isinstance(event, MessageDone))
    assert isinstance(first[1], ToolCall)
    assert first[1].arguments == {"command": "echo hi", "description": "Greet"}
    assert isinstance(second[0], Reasoning)
    assert (second[0].model, second[0].signature) == ("claude-opus-4-8", "sig")
    assert ToolResultSeen("toolu_01", "hi") in outcome.events


def test_deltas_of_an_answer_asked_again_are_withdrawn(stage):
    events = replay(stage, "26-partial-broken-stream-restart").events

    withdrawn = events.index(Withdrawn())
    assert any(isinstance(event, TextDelta) for event in events[:withdrawn])
    assert not any(isinstance(event, TextDelta) for event in events[withdrawn:])


def test_deltas_add_up_to_the_text(stage):
    outcome = replay(stage, "29-unicode")

    assert "".join(event.text for event in outcome.events if isinstance(event, TextDelta)) == outcome.texts[0]
    assert "\u2028 PS:\u2029 NEL:\x85" in outcome.texts[0]


def test_wait_of_the_cli_is_shown(stage):
    assert "1.0 s (429 rate_limit" in replay(stage, "13-api-429-then-ok").notices


def test_closed_permission_stream_is_told_as_a_fault_of_ours(stage):
    assert "did not reach Escalera" in replay(stage, "08-permission-stream-closed").notices


@pytest.mark.parametrize(("name", "answer"), [("04-permission-allowed", "accept"), ("05-permission-denied", "decline")])
def test_reply_to_a_permission_request_is_what_the_cli_took(stage, name, answer):
    replay(stage, name, ask=lambda question: Answer(answer))

    ours = json.loads((stage.workspace / "replies").read_text())
    taken = json.loads((RECORDINGS / f"{name}.stdin.ndjson").read_text().splitlines()[1])
    taken["response"]["response"].pop("message", None)
    if answer == "decline":
        assert ours["response"]["response"].pop("message")
    assert ours == taken


@pytest.mark.parametrize(("by", "told"), [("human", "permission denied: Bash (decline by human)"), ("nobody", "")])
def test_a_denial_is_told_once(stage, by, told):
    assert replay(stage, "05-permission-denied", ask=lambda question: Answer("decline", by=by)).notices == told


def test_long_answer_in_one_line_arrives_whole(stage):
    assert [len(text) for text in replay(stage, "28-answer-200kb").texts] == [204_800]
