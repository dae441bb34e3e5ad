"""A session document is a whole session, and nothing malformed becomes one."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.documents.json_text import read_json
from orchestrator.documents.session import parse_session_document, session_document
from orchestrator.errors import DocumentError
from orchestrator.messages import Reasoning, Text, ToolCall, ToolResult, Usage
from orchestrator.session import (
    Brief,
    ExternalSession,
    LastNeed,
    Need,
    Outcome,
    Reason,
    Role,
    Session,
    State,
    Turn,
    TurnError,
)

TRIALS = Path(__file__).parent.parent / "trials"
MINIMAL = {"turns": [{"role": "primary", "prompt": "why?", "answer": "because"}]}


def parse(data: object, agents: Mapping[Role, str] | None = None) -> tuple[Session, tuple[Turn, ...]]:
    return parse_session_document(data, new_id=lambda: "new-id", new_nonce=lambda: "newnonce", workspace="/here", agents=agents)


def turn(**fields: object) -> dict[str, object]:
    return {"role": "primary", "agent": "local", "prompt": "p", "answer": "a", **fields}


def refusal(data: object) -> str:
    with pytest.raises(DocumentError) as refused:
        parse(data)
    assert refused.value.exit_code == 2
    return refused.value.message


# -- there and back ------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
stated = words.filter(str.strip)
identities = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=200).filter(str.strip)
times = st.datetimes(min_value=datetime(1980, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants naive bounds
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(words, json_values, max_size=3)
extras = st.none() | objects
steps = (
    st.builds(Text, words, extras)
    | st.builds(Reasoning, words, st.none() | words, st.none() | words, extras)
    | st.builds(ToolCall, words, words, objects, extras)
    | st.builds(ToolResult, words, words, st.booleans(), extras)
)
counts = st.none() | st.integers(0, 2**60)
usages = st.builds(Usage, counts, counts, counts, counts, counts, st.none() | st.floats(0, 1e9))
needs = st.builds(Need, stated, st.integers(0, 50), st.booleans(), st.none() | times, st.sampled_from(["tag", "tool", "user", "self-escalation"]))
externals = st.builds(
    ExternalSession, stated, stated, st.sampled_from(["/a", "/b"]), st.none() | words, st.none() | st.integers(0, 50), st.none() | words, words, objects
)


@st.composite
def turn_lists(draw: st.DrawFn) -> tuple[Turn, ...]:
    indexes = sorted(draw(st.sets(st.integers(0, 30), max_size=5)))
    turns: list[Turn] = []
    for index in indexes:
        handed_over = [old.index for old in turns if old.role is Role.PRIMARY and old.outcome is Outcome.ESCALATED]
        continues = draw(st.sampled_from([None, *handed_over]))
        turns.append(
            Turn(
                index=index,
                role=Role.ESCALATION if continues is not None else draw(st.sampled_from(Role)),
                agent=draw(stated),
                prompt=None if continues is not None else draw(words),
                steps=tuple(draw(st.lists(steps, max_size=3))),
                outcome=draw(st.sampled_from([outcome for outcome in Outcome if outcome is not Outcome.OPEN])),
                mode=draw(st.sampled_from([None, "first", "fresh_start", "returning", "resume", "continuation"])),
                reasons=tuple(draw(st.lists(st.builds(Reason, stated, words), max_size=2))),
                started_at=draw(st.none() | times),
                ended_at=draw(st.none() | times),
                usage=draw(st.none() | usages),
                error=draw(st.none() | st.builds(TurnError, stated, words)),
                continues=continues,
                model_requested=draw(st.none() | words),
                model_served=draw(st.none() | words),
                routing=tuple(draw(st.lists(st.builds(Reason, stated, words), max_size=2))),
                copied_from=draw(st.none() | stated),
            )
        )
    return tuple(turns)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Session, tuple[Turn, ...]]:
    turns = draw(turn_lists())
    can_wait = any(turn.role is Role.ESCALATION and turn.outcome is Outcome.COMPLETED for turn in turns)
    session = Session(
        id=draw(identities),
        workspace=draw(stated),
        nonce=draw(st.from_regex(r"[a-z0-9]{8,16}", fullmatch=True)),
        name=draw(st.none() | stated),
        created_at=draw(st.none() | times),
        updated_at=draw(st.none() | times),
        state=draw(st.sampled_from([State.ROUTING, State.WAITING] if can_wait else [State.ROUTING])),
        need=draw(st.none() | needs),
        last_need=draw(st.none() | st.builds(LastNeed, needs, st.sampled_from(["fulfilled", "expired", "cleared"]), times)),
        brief=draw(st.none() | st.builds(Brief, stated, st.sampled_from(["user", "primary", "prompt"]))),
        external_sessions=tuple(draw(st.lists(externals, max_size=2, unique_by=lambda known: (known.agent, known.workspace)))),
    )
    return session, turns


@settings(max_examples=80, deadline=None)
@given(sessions())
def test_what_was_exported_is_imported_unchanged(case: tuple[Session, tuple[Turn, ...]]) -> None:
    text = json.dumps(session_document(*case), ensure_ascii=False, allow_nan=False)

    assert parse(read_json(text.encode(), "export")) == case


def test_the_document_has_the_keys_of_its_format() -> None:
    document = session_document(*parse(MINIMAL))

    assert list(document) == [
        *("format", "id", "name", "workspace", "created_at", "updated_at", "state", "need", "last_need", "brief", "external_sessions", "nonce", "turns")
    ]
    assert set(document["turns"][0]) == {
        *("index", "role", "agent", "prompt", "outcome", "steps", "started_at", "ended_at", "usage", "mode", "reasons", "continues"),
        *("error", "model_requested", "model_served", "routing", "receipt"),
    }
    assert document["format"] == "escalera.session/1"
    assert document["turns"][0]["steps"] == [{"type": "text", "text": "because"}]


# -- what is absent ------------------------------------------------------------------------------


def test_turns_alone_are_enough() -> None:
    session, turns = parse(MINIMAL)

    assert session == Session(id="new-id", workspace="/here", nonce="newnonce")
    assert turns == (Turn(0, Role.PRIMARY, "primary", "why?", (Text("because"),)),)


def test_a_turn_without_an_agent_is_of_the_one_configured_for_its_role() -> None:
    _, turns = parse({"turns": [*MINIMAL["turns"], {"role": "escalation", "prompt": "x", "answer": "y"}]}, {Role.ESCALATION: "claude"})

    assert [turn.agent for turn in turns] == ["primary", "claude"]


def test_null_is_as_good_as_absent_for_an_export_that_was_cut_down() -> None:
    document: dict[str, Any] = {**session_document(*parse(MINIMAL)), "id": None, "nonce": None, "workspace": None}

    assert parse(document) == parse(MINIMAL)


@pytest.mark.parametrize(("index", "during"), [(0, True), (1, False)])
def test_a_need_was_set_during_a_turn_that_exists(index: int, during: bool) -> None:
    session, _ = parse({**MINIMAL, "need": {"text": "ship", "turn_index": index}})

    assert session.need == Need("ship", index, during, None, "user")


def test_what_is_said_about_a_need_is_kept() -> None:
    session, _ = parse({**MINIMAL, "need": {"text": "ship", "turn_index": 0, "during": False, "source": "tag"}})

    assert session.need == Need("ship", 0, False, None, "tag")


def test_an_external_session_is_taken_as_the_documents_and_up_to_date() -> None:
    turns = [turn(), turn(role="escalation", agent="claude"), turn(role="escalation", agent="claude", outcome="failed")]
    session, _ = parse(
        {"workspace": "/w", "turns": turns, "external_sessions": [{"agent": "claude", "id": "e"}, {"agent": "x", "id": "f", "turn_index": None}]}
    )

    assert session.external_sessions == (ExternalSession("claude", "e", "/w", turn_index=1), ExternalSession("x", "f", "/w"))


def test_a_turn_found_open_was_interrupted_and_nothing_runs_any_more() -> None:
    session, turns = parse({"state": "escalation", "turns": [turn(outcome="open")]})

    assert session.state is State.ROUTING
    assert turns[0].outcome is Outcome.INTERRUPTED


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert parse({"later": 1, "turns": [{**MINIMAL["turns"][0], "later": {}}]}) == parse(MINIMAL)


def test_a_brief_may_be_a_bare_text() -> None:
    assert parse({**MINIMAL, "brief": "stuck"})[0].brief == Brief("stuck", "user")


def test_the_prompt_of_a_continued_turn_stands_once() -> None:
    handed_over = turn(outcome="escalated", prompt="hard")

    for repeated in ({}, {"prompt": None}, {"prompt": "hard"}):
        _, turns = parse({"turns": [handed_over, {"role": "escalation", "agent": "big", "answer": "a", "continues": 0, **repeated}]})
        assert turns[1].prompt is None


def test_a_turn_may_continue_one_that_is_lost() -> None:
    _, turns = parse({"turns": [turn(role="escalation", prompt=None, index=3, continues=2)]})

    assert (turns[0].continues, turns[0].prompt) == (2, None)


def test_indexes_may_have_gaps() -> None:
    assert [turn.index for turn in parse({"turns": [turn(index=2), turn(index=7)]})[1]] == [2, 7]


def test_texts_that_cannot_be_stored_are_repaired() -> None:
    _, turns = parse({"turns": [turn(prompt="a\ud83d\x00", answer="\ud83d\ude00")]})

    assert turns[0].prompt == "a\ufffd\ufffd"
    assert turns[0].answer == "😀"


# -- times ---------------------------------------------------------------------------------------


@pytest.mark.trial("T73")
def test_t73_times_with_and_without_a_zone_are_the_same_moment() -> None:
    given_times = json.loads((TRIALS / "T73.json").read_text("utf-8"))["sessions"]
    updated = {name: {"need": {"text": "n", "turn_index": 0, "updated_at": case.get("last_used")}, "turns": []} for name, case in given_times.items()}

    for name in "abcd":
        need = parse(updated[name])[0].need
        assert need is not None
        assert need.updated_at == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert "need.updated_at: expected a time" in refusal(updated["e"])
    without = parse(updated["f"])[0].need
    assert without is not None
    assert without.updated_at is None


@pytest.mark.parametrize("value", [1e300, -1e300, 10**400, True, [], {}, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", ""])
def test_a_time_that_is_none_is_refused(value: object) -> None:
    assert "created_at: " in refusal({"turns": [], "created_at": value})


@pytest.mark.trial("T79")
def test_t79_unicode_line_separators_stand_in_texts() -> None:
    lines = (TRIALS / "T79.jsonl").read_bytes().split(b"\n")
    user, assistant = (json.loads(line)["content"] for line in lines if line)
    document = session_document(*parse({"turns": [turn(prompt=user, answer=assistant)]}))

    _, turns = parse(read_json(json.dumps(document, ensure_ascii=False).encode(), "export"))

    assert (turns[0].prompt, turns[0].answer) == (user, assistant)
    assert {"\u2028", "\u2029", "\x85"} & {*user, *assistant}


# -- what is refused -----------------------------------------------------------------------------


def step(**fields: object) -> dict[str, object]:
    return {"turns": [turn(), {**turn(), "answer": None, "steps": [{"type": "text", "text": "t"}, fields]}]}


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ([], "the document", "expected an object, not a list"),
        (None, "the document", "expected an object, not None"),
        ({}, "turns", "is missing"),
        ({"turns": {}}, "turns", "list, not an object"),
        ({"turns": [1]}, "turns[0]", "not 1"),
        ({"turns": [turn(role="user")]}, "turns[0].role", "expected 'primary' or 'escalation', not 'user'"),
        ({"turns": [{"prompt": "p"}]}, "turns[0].role", "is missing"),
        ({"turns": [{"role": "primary"}]}, "turns[0].prompt", "is missing"),
        ({"turns": [turn(prompt=3)]}, "turns[0].prompt", "expected a valid string, not 3"),
        ({"turns": [turn(index="0")]}, "turns[0].index", "not '0'"),
        ({"turns": [turn(index=-1)]}, "turns[0].index", "not -1"),
        ({"turns": [turn(index=True)]}, "turns[0].index", "not True"),
        ({"turns": [turn(index=1), turn(index=1)]}, "turns[1].index", "expected more than 1"),
        ({"turns": [turn(index=1), turn(index=0)]}, "turns[1].index", "expected more than 1"),
        ({"turns": [turn(index=1), turn()]}, "turns[1].index", "expected more than 1"),
        ({"turns": [turn(steps=[{"type": "text", "text": "t"}])]}, "turns[0].answer", "either 'steps' or 'answer'"),
        ({"turns": [turn(outcome="done")]}, "turns[0].outcome", "expected 'open'"),
        ({"turns": [turn(mode="second")]}, "turns[0].mode", "expected 'first'"),
        ({"turns": [turn(usage={"input_tokens": -5})]}, "turns[0].usage.input_tokens", "not -5"),
        (step(type="image"), "turns[1].steps[1].type", "expected 'text'"),
        (step(text="no type"), "turns[1].steps[1].type", "not None"),
        (step(type="text"), "turns[1].steps[1].text", "is missing"),
        (step(type="tool_call", id="c", name=None), "turns[1].steps[1].name", "valid string, not None"),
        (step(type="tool_call", id="c", name="grep", arguments="{}"), "turns[1].steps[1].arguments", "not '{}'"),
        (step(type="tool_result", id="c", content=["x"]), "turns[1].steps[1].content", "not a list"),
        ({"turns": [turn(), turn(role="escalation", prompt=None, continues=0)]}, "turns[1].continues", "outcome 'escalated', not 0"),
        ({"turns": [turn(continues=0)]}, "turns[0].continues", "earlier primary turn"),
        ({"turns": [turn(role="escalation", prompt=None, continues=0)]}, "turns[0].continues", "earlier primary turn"),
        ({"turns": [turn(index=1, continues=0)]}, "turns[0].continues", "earlier primary turn"),
        ({"turns": [turn(outcome="escalated"), turn(prompt=None, continues=0)]}, "turns[1].role", "expected 'escalation'"),
        ({"turns": [turn(outcome="escalated"), turn(role="escalation", prompt="other", continues=0)]}, "turns[1].prompt", "expected null"),
        ({**MINIMAL, "need": {"text": " \n", "turn_index": 0}}, "need.text", "not empty"),
        ({**MINIMAL, "need": {"text": "n"}}, "need.turn_index", "is missing"),
        ({**MINIMAL, "need": {"text": "n", "turn_index": 0, "source": "guess"}}, "need.source", "expected 'tag'"),
        ({**MINIMAL, "last_need": {"text": "n", "turn_index": 0, "reason": "cleared"}}, "last_need.cleared_at", "is missing"),
        ({**MINIMAL, "state": "waiting"}, "state", "completed escalation turn"),
        ({"state": "waiting", "turns": [turn(role="escalation", outcome="failed")]}, "state", "completed escalation turn"),
        ({**MINIMAL, "nonce": "a>b"}, "nonce", "pattern"),
        ({**MINIMAL, "nonce": "ab\n"}, "nonce", "pattern"),
        ({**MINIMAL, "workspace": ""}, "workspace", "not empty"),
        ({**MINIMAL, "external_sessions": [{"agent": "a", "id": "1"}, {"agent": "a", "id": "2", "workspace": "/here"}]}, "external_sessions[1]", "at most one"),
        ({**MINIMAL, "external_sessions": [{"agent": "a"}]}, "external_sessions[0].id", "is missing"),
        (step(type="tool_call", id="c", name="n", arguments={"a b": float("nan")}), "turns[1].steps[1].arguments['a b']", "not nan"),
        (step(type="text", text="t", extra={"x": {1, 2}}), "turns[1].steps[1].extra.x", "not set"),
        (step(type="text", text="t", extra={1: 2}), "turns[1].steps[1].extra", "texts as keys, not 1"),
        ({**MINIMAL, "format": "escalera.plan/1"}, "format", "expected 'escalera.session/1', not 'escalera.plan/1'"),
        ({**MINIMAL, "format": None}, "format", "expected 'escalera.session/1', not None"),
    ],
)
def test_a_malformed_document_is_refused_with_the_path_of_the_wrong_value(data: object, path: str, said: str) -> None:
    message = refusal(data)

    assert message.startswith(f"not a session document: {path}: ")
    assert said in message


def test_a_format_of_a_later_version_is_refused_with_both_names() -> None:
    message = refusal({**MINIMAL, "format": "escalera.session/2"})

    assert "escalera.session/2" in message
    assert "escalera.session/1" in message


def test_endless_nesting_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}

    message = refusal({**MINIMAL, "turns": [turn(answer=None, steps=[{"type": "text", "text": "t", "extra": deep}])]})

    assert "levels deep" in message
    assert len(message) < 300


def test_a_wrong_value_is_told_in_a_few_words() -> None:
    assert len(refusal({"turns": [turn(role="x" * 10**6)]})) < 300


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_value_at_all_makes_it_crash(value: object) -> None:
    for data in (value, {"turns": value}, {"turns": [value]}, {**MINIMAL, "need": value}, {"turns": [turn(answer=None, steps=[value])]}):
        with contextlib.suppress(DocumentError):
            session, turns = parse(data)
            assert session.id
            assert all(isinstance(found, Turn) for found in turns)


def test_a_document_of_many_turns_is_read_in_linear_time() -> None:
    many = [turn(index=index) for index in range(5000)]
    ids = itertools.count()

    _, turns = parse_session_document({"turns": many}, new_id=lambda: str(next(ids)), new_nonce=lambda: "n", workspace="/here")

    assert len(turns) == 5000
    assert next(ids) == 1


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"turns": [{"role": "primary", "prompt": "p", "asnwer": "a"}]}, "turns[0]: 'asnwer' is no key here; did you mean 'answer'?"),
        ({"trns": []}, "'trns' is no key here; did you mean 'turns'?"),
        ({"id": "a\nb", "turns": []}, "id: "),
        ({"id": "x" * 201, "turns": []}, "id: "),
        ({"id": " ", "turns": []}, "id: "),
        ({"turns": [{"index": 10**12, "role": "primary", "prompt": "p", "answer": "a"}]}, "turns[0].index: "),
    ],
)
def test_a_document_that_cannot_be_meant_is_refused(document: dict[str, Any], said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(document)

    assert said in caught.value.message


def test_keys_of_a_later_version_are_passed_over() -> None:
    assert parse({"colour": "green", "turns": [{**MINIMAL["turns"][0], "mood": "fine"}]})[1] == parse(MINIMAL)[1]


@pytest.mark.parametrize(("nonce", "used"), [("a", "newnonce"), ("7letter", "newnonce"), ("8letters", "8letters")])
def test_a_nonce_that_can_be_guessed_is_replaced(nonce: str, used: str) -> None:
    assert parse({**MINIMAL, "nonce": nonce})[0].nonce == used
