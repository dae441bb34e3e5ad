"""The mode decision: every row of page 2's table, and what an own conversation needs to be resumed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.modes import Decision, Facts, Flags, Mode, decide, resumable_session
from orchestrator.session import ExternalSession, State

OWN = ExternalSession(agent="strong", id="e1", workspace="/w", turn_index=1)
BASE = Facts(
    state=State.ROUTING,
    last_escalation=1,
    last_escalation_agent="strong",
    primary_turns=0,
    need_changed=False,
    need_turn=None,
    agent="strong",
    keeps_conversation=False,
    external_sessions=(),
    workspace="/w",
    config_dir=None,
)


@dataclass(frozen=True)
class Gap:
    returning_fresh_start_local_turns: int = 8


def rules(decision: Decision) -> list[str]:
    return [reason.rule for reason in decision.reasons]


@pytest.mark.parametrize(
    ("facts", "flags", "mode", "expected"),
    [
        (replace(BASE, last_escalation=None, last_escalation_agent=None), Flags(fresh=True), "first", ["forced"]),
        (BASE, Flags(fresh=True), "fresh_start", ["forced"]),
        (replace(BASE, state=State.WAITING), Flags(fresh=True), "fresh_start", ["forced"]),
        (replace(BASE, state=State.WAITING), Flags(), "resume", ["waiting"]),
        (replace(BASE, state=State.WAITING, need_changed=True, need_turn=2, primary_turns=99), Flags(), "resume", ["waiting"]),
        (replace(BASE, last_escalation=None, last_escalation_agent=None), Flags(), "first", ["never_escalated"]),
        (replace(BASE, need_changed=True, need_turn=2), Flags(), "fresh_start", ["need_changed"]),
        (replace(BASE, primary_turns=8), Flags(), "fresh_start", ["turn_gap"]),
        (replace(BASE, need_changed=True, need_turn=2, primary_turns=9), Flags(), "fresh_start", ["need_changed", "turn_gap"]),
        (BASE, Flags(), "continuation", ["no_primary_turns"]),
        (replace(BASE, primary_turns=7), Flags(), "returning", ["primary_worked"]),
    ],
)
def test_first_matching_rule_decides(facts: Facts, flags: Flags, mode: str, expected: list[str]) -> None:
    decision = decide(facts, Gap(), flags)

    assert (decision.mode, rules(decision)) == (mode, expected)


def test_gap_of_zero_never_makes_stale_by_count() -> None:
    assert decide(replace(BASE, primary_turns=10_000), Gap(0), Flags()).mode is Mode.RETURNING


def test_need_change_counts_with_the_gap_switched_off() -> None:
    assert rules(decide(replace(BASE, need_changed=True, need_turn=5, primary_turns=99), Gap(0), Flags())) == ["need_changed"]


OLDER = replace(OWN, turn_index=(OWN.turn_index or 0) - 1)
"""From before the same agent worked on another backend."""
CLI = replace(BASE, keeps_conversation=True, external_sessions=(OWN,))


@pytest.mark.parametrize(
    ("facts", "mode", "expected"),
    [
        (CLI, "continuation", ["no_primary_turns"]),
        (replace(CLI, primary_turns=3), "returning", ["primary_worked"]),
        (replace(CLI, state=State.WAITING), "resume", ["waiting"]),
        (replace(CLI, external_sessions=()), "fresh_start", ["no_primary_turns", "external_session_missing"]),
        (replace(CLI, state=State.WAITING, external_sessions=()), "fresh_start", ["waiting", "external_session_missing"]),
        (replace(CLI, external_sessions=(OLDER,)), "fresh_start", ["no_primary_turns", "external_session_missing"]),
        (replace(CLI, primary_turns=1, external_sessions=(OLDER,)), "fresh_start", ["primary_worked", "external_session_missing"]),
        (replace(CLI, state=State.WAITING, external_sessions=(OLDER,)), "fresh_start", ["waiting", "external_session_missing"]),
        (replace(CLI, workspace="/other"), "fresh_start", ["no_primary_turns", "other_workspace"]),
        (replace(CLI, config_dir="/c2", external_sessions=(replace(OWN, config_dir="/c1"),)), "fresh_start", ["no_primary_turns", "other_workspace"]),
        (replace(CLI, config_dir="/c2"), "continuation", ["no_primary_turns"]),
        (replace(CLI, last_escalation_agent="sonnet"), "fresh_start", ["no_primary_turns", "other_agent"]),
        (replace(CLI, last_escalation_agent="sonnet", external_sessions=()), "fresh_start", ["no_primary_turns", "other_agent"]),
        (replace(CLI, need_changed=True, need_turn=2, external_sessions=()), "fresh_start", ["need_changed"]),
    ],
)
def test_own_conversation_is_resumed_only_where_it_can_be(facts: Facts, mode: str, expected: list[str]) -> None:
    decision = decide(facts, Gap(), Flags())

    assert (decision.mode, rules(decision)) == (mode, expected)


@pytest.mark.parametrize("keeps_conversation", [True, False])
def test_another_agent_cannot_resume_a_question_it_never_asked(keeps_conversation: bool) -> None:
    facts = replace(CLI, state=State.WAITING, last_escalation_agent="sonnet", keeps_conversation=keeps_conversation)

    decision = decide(facts, Gap(), Flags())

    assert (decision.mode, rules(decision)) == (Mode.FRESH_START, ["waiting", "other_agent"])


def test_agents_without_a_conversation_take_over_from_another_agent() -> None:
    assert decide(replace(BASE, last_escalation_agent="sonnet"), Gap(), Flags()).mode is Mode.CONTINUATION


@pytest.mark.parametrize(
    ("state", "primary_turns", "first"), [(State.WAITING, 0, "waiting"), (State.ROUTING, 0, "no_primary_turns"), (State.ROUTING, 3, "primary_worked")]
)
def test_conversation_that_the_agent_says_is_gone_starts_afresh(state: State, primary_turns: int, first: str) -> None:
    facts = replace(BASE, keeps_conversation=True, external_sessions=(OWN,), state=state, primary_turns=primary_turns, conversation_lost=True)

    decision = decide(facts, Gap(), Flags())

    assert (decision.mode, rules(decision)) == ("fresh_start", [first, "external_session_lost"])


def test_missing_configuration_folder_matches_any() -> None:
    assert resumable_session([replace(OWN, config_dir="/c")], "/w", None) is not None
    assert resumable_session([OWN], "/w", "/c") is not None
    assert resumable_session([replace(OWN, config_dir="/c")], "/w", "/d") is None
    assert resumable_session([replace(OWN, config_dir="/c")], "/w", "/c/") is not None


@given(
    state=st.sampled_from(list(State)),
    last=st.none() | st.integers(0, 50),
    primary=st.integers(0, 30),
    changed=st.booleans(),
    keeps=st.booleans(),
    fresh=st.booleans(),
    gap=st.integers(0, 10),
)
def test_every_combination_has_one_mode_with_reasons(state: State, last: int | None, primary: int, changed: bool, keeps: bool, fresh: bool, gap: int) -> None:
    agent = None if last is None else "strong"
    facts = replace(BASE, state=state, last_escalation=last, last_escalation_agent=agent, primary_turns=primary, need_changed=changed, keeps_conversation=keeps)

    decision = decide(facts, Gap(gap), Flags(fresh=fresh))

    assert decision.reasons
    if last is None and state is not State.WAITING:
        assert decision.mode is Mode.FIRST
    if gap and primary >= gap and last is not None and state is not State.WAITING:
        assert decision.mode is Mode.FRESH_START


@pytest.mark.trial("T76")
@pytest.mark.parametrize(("platform", "found"), [("win32", True), ("linux", False)])
def test_t76_letter_case_of_a_directory_counts_as_the_platform_has_it(platform: str, found: bool) -> None:
    known = ExternalSession("strong", "id", "C:\\Proj")

    assert (resumable_session([known], "c:/proj", None, platform) is known) is found
