"""Turns, need and state: the tables and counters of page 1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.session import (
    EarlierTurns,
    Need,
    Outcome,
    Role,
    Session,
    State,
    Turn,
    TurnList,
    answer_of,
    ends_with_question,
    escalation_ever_active,
    escalation_most_recent,
    last_escalation_boundary,
    need_changed_since_escalation,
    need_label,
    need_status,
    primary_turns_since_escalation,
    set_need,
    transition,
    waiting_lapsed,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def log(*kinds: str) -> TurnList:
    """`p`/`e` completed, `x` escalated primary, `f` failed escalation, `c` cancelled primary."""
    made = {
        "p": (Role.PRIMARY, Outcome.COMPLETED),
        "e": (Role.ESCALATION, Outcome.COMPLETED),
        "x": (Role.PRIMARY, Outcome.ESCALATED),
        "f": (Role.ESCALATION, Outcome.FAILED),
        "c": (Role.PRIMARY, Outcome.CANCELLED),
    }
    return TurnList([Turn(i, made[kind][0], "a", "prompt", outcome=made[kind][1], ended_at=NOW) for i, kind in enumerate(kinds)])


@pytest.mark.parametrize(
    ("turns", "ever", "boundary", "since", "recent"),
    [
        ("", False, 0, 0, False),
        ("ppp", False, 0, 0, False),
        ("pe", True, 2, 0, True),
        ("pepp", True, 2, 2, False),
        ("pexe", True, 4, 0, True),
        ("pepx", True, 2, 1, False),
        ("pepf", True, 2, 1, False),
        ("f", False, 0, 0, False),
        ("pef", True, 2, 0, True),
        ("pepcp", True, 2, 2, False),
    ],
)
def test_counters_look_at_completed_turns_only(turns: str, ever: bool, boundary: int, since: int, recent: bool) -> None:
    turn_log = log(*turns)

    assert escalation_ever_active(turn_log) is ever
    assert last_escalation_boundary(turn_log) == boundary
    assert primary_turns_since_escalation(turn_log) == since
    assert escalation_most_recent(turn_log) is recent


def test_earlier_turns_are_those_before_the_open_one() -> None:
    turns = [Turn(index, Role.PRIMARY, "a", "p", outcome=Outcome.OPEN if index == 4 else Outcome.COMPLETED) for index in range(5)]
    earlier = EarlierTurns(TurnList(turns), 4)

    assert earlier.next_index == 4
    assert (earlier.get(3), earlier.get(4)) == (turns[3], None)
    assert [turn.index for turn in earlier.newest_first(outcomes=None)] == [3, 2, 1, 0]
    assert [turn.index for turn in earlier.newest_first(outcomes=None, start=1, stop=3)] == [2, 1]
    assert (earlier.count(outcomes=None), earlier.count(outcomes=None, stop=2)) == (4, 2)


@pytest.mark.parametrize(
    ("old", "new"), [("routing", "primary"), ("primary", "escalation"), ("escalation", "waiting"), ("waiting", "escalation"), ("waiting", "routing")]
)
def test_transitions_of_the_table_pass(old: str, new: str) -> None:
    assert transition(State(old), State(new)) is State(new)


@pytest.mark.parametrize(("old", "new"), [("routing", "waiting"), ("primary", "waiting"), ("waiting", "primary"), ("escalation", "primary")])
def test_transitions_outside_the_table_raise(old: str, new: str) -> None:
    with pytest.raises(ValueError, match="no transition"):
        transition(State(old), State(new))


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("Which one?", True),
        ("**Which one?**", True),
        ("(shall I go on?)", True),
        ("“Ready?” ", True),
        ("どちらですか\uff1f", True),
        ("Which?\n\n  \n", True),
        ("Which?\nTell me.", False),
        ("Done.", False),
        ("", False),
        ("? no", False),
        ("`x?`", False),
    ],
)
def test_question_is_the_last_line_with_closing_marks_set_aside(answer: str, question: bool) -> None:
    assert ends_with_question(answer) is question


def test_looking_for_a_question_takes_no_longer_however_many_marks_there_are() -> None:
    assert not ends_with_question("| cell |" + " _*" * 100_000 + "| b |")


def need(turn_index: int, *, during: bool, age_hours: float | None = 1.0) -> Need:
    return Need("ship", turn_index, during, None if age_hours is None else NOW - timedelta(hours=age_hours), "user")


@pytest.mark.parametrize(
    ("turns", "value", "status"),
    [
        ("pp", need(0, during=True), "set"),
        ("pe", need(0, during=True), "fulfilled"),
        ("pe", need(1, during=False), "fulfilled"),
        ("pe", need(1, during=True), "set"),
        ("pe", need(2, during=False), "set"),
        ("pf", need(0, during=True), "set"),
        ("pp", need(0, during=True, age_hours=24), "set"),
        ("pp", need(0, during=True, age_hours=24.01), "expired"),
        ("pe", need(0, during=True, age_hours=99), "fulfilled"),
        ("pp", need(0, during=True, age_hours=None), "set"),
        ("pp", need(0, during=True, age_hours=-5), "set"),
    ],
)
def test_need_is_fulfilled_then_expired_then_kept(turns: str, value: Need, status: str) -> None:
    assert need_status(value, log(*turns), NOW, 24) == status


def test_need_never_expires_with_a_limit_of_zero() -> None:
    assert need_status(need(0, during=True, age_hours=10_000), log("p"), NOW, 0) == "set"


def test_need_is_not_fulfilled_while_waiting() -> None:
    assert need_status(need(0, during=True), log("p", "e"), NOW, 24, waiting=True) == "set"


@pytest.mark.parametrize(("turns", "index", "changed"), [("pp", 1, False), ("pe", 1, False), ("pe", 2, True), ("pe", 0, False), ("pep", 2, True)])
def test_need_changed_after_the_last_escalation_only(turns: str, index: int, changed: bool) -> None:
    assert need_changed_since_escalation(need(index, during=True), log(*turns)) is changed


@pytest.mark.parametrize(("pending", "label"), [(3, "current"), (4, "current"), (5, "verify"), (50, "verify")])
def test_need_wants_verifying_two_turns_later(pending: int, label: str) -> None:
    assert need_label(need(3, during=True), pending) == label


def test_same_need_again_is_only_renewed() -> None:
    old = need(0, during=True, age_hours=5)

    renewed = set_need(old, "  SHIP ", turn_index=7, during=False, now=NOW, source="tag")

    assert renewed == Need("ship", 0, True, NOW, "user")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_need_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        set_need(None, text, turn_index=0, during=False, now=NOW, source="user")


@pytest.mark.parametrize(("hours_ago", "limit", "lapsed"), [(23, 24, False), (24, 24, False), (25, 24, True), (-3, 24, False), (99, 0, False)])
def test_waiting_lapses_after_its_limit(hours_ago: float, limit: float, lapsed: bool) -> None:
    turns = TurnList([Turn(0, Role.ESCALATION, "strong", "q", ended_at=NOW - timedelta(hours=hours_ago))])
    session = Session(id="s", workspace="/w", nonce="abcdefgh", state=State.WAITING)

    assert waiting_lapsed(session, turns, NOW, limit) is lapsed


def test_waiting_counts_from_the_end_of_a_long_turn() -> None:
    turns = TurnList([Turn(0, Role.ESCALATION, "strong", "q", started_at=NOW - timedelta(hours=30), ended_at=NOW - timedelta(hours=20))])

    assert not waiting_lapsed(Session(id="s", workspace="/w", nonce="abcdefgh", state=State.WAITING), turns, NOW, 24)


def test_waiting_with_an_unknown_time_never_lapses() -> None:
    turns = TurnList([Turn(0, Role.ESCALATION, "strong", "q")])

    assert not waiting_lapsed(Session(id="s", workspace="/w", nonce="abcdefgh", state=State.WAITING), turns, NOW, 24)


def test_answer_is_the_text_after_the_last_tool_step() -> None:
    steps = (Text("I look."), ToolCall("c1", "grep"), ToolResult("c1", "found"), Text("It is there."))

    assert answer_of(steps) == "It is there."
    assert answer_of(steps[:3]) == "I look."
    assert answer_of(()) == ""
