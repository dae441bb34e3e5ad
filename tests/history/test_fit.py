from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import count
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.history.budget import measure
from orchestrator.history.fit import STUB_CHARS, Fitted, LeftOut, Weighed, fit, keep_order, stub_text
from orchestrator.history.normalise import normalise, settle
from orchestrator.history.render import Unit, Viewer, count_batches, render_unit, show_unit, tidy_unit
from orchestrator.history.scope import Scope
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from orchestrator.providers import WireProfile
from orchestrator.session import TOLD, Outcome, Role, Turn, TurnList

Violations = Callable[[Sequence[Message], WireProfile], list[str]]
EXAMPLES = int(os.environ.get("ESCALERA_TEST_HISTORY_EXAMPLES", "150"))
ALL = Scope("all")
LOCAL, CLAUDE = Viewer("local"), Viewer("claude")
PROMPT = Message("user", (Text("go on"),))


def primary(index: int, *steps: Part, prompt: str | None = None, **fields: Any) -> Turn:
    return Turn(index, Role.PRIMARY, "local", f"q{index}" if prompt is None else prompt, steps or (Text(f"a{index}" * 50),), **fields)


def escalation(index: int, *steps: Part, prompt: str | None = None, **fields: Any) -> Turn:
    own = None if "continues" in fields else f"q{index}"
    return Turn(index, Role.ESCALATION, "claude", own if prompt is None else prompt, steps or (Text(f"a{index}" * 50),), **fields)


def tool_turn(index: int, *sizes: int) -> Turn:
    steps: list[Part] = []
    for n, size in enumerate(sizes):
        steps += [ToolCall(f"c{index}_{n}", "read", {"n": n}), ToolResult(f"c{index}_{n}", str(n) * size)]
    return primary(index, *steps, Text("done"))


def fitted(turns: Sequence[Turn], available: int | None, viewer: Viewer = LOCAL, scope: Scope = ALL, **options: Any) -> Fitted:
    return fit(TurnList(turns), scope, viewer, profile=options.pop("profile", "openai"), available=available, **options)


def size(turn: Turn, viewer: Viewer = LOCAL) -> int:
    return measure(render_unit(Unit((turn,)), viewer))


# -- against a plain rendering of page 3 ----------------------------------------------------------


def reference(
    turns: Sequence[Turn], scope: Scope, viewer: Viewer, profile: WireProfile, available: int, boundary: int | None, continuing: int | None
) -> tuple[tuple[Message, ...], list[int]]:
    """Page 3 step by step, on everything at once, measuring the whole after each step."""
    units = [tidy_unit(unit, viewer) for unit in all_units(turns, scope, continuing)]
    skip = 0

    def shown() -> tuple[Message, ...]:
        parts = (settle(show_unit(unit, viewer, skip=skip if unit is units[-1] else 0), profile) for unit in units)
        return settle(tuple(message for part in parts for message in part), profile)

    def fits(limit: int) -> bool:
        return measure(shown()) <= limit

    if not units:
        return (), []
    if fits(available):
        return shown(), sorted(turn.index for unit in units for turn in unit.turns)
    room = available - 80
    for n, unit in enumerate(units):
        for stubbed in one_by_one(unit):
            if not fits(room):
                units[n] = stubbed
    newest = units[-1]
    for victim in drop_order(units[:-1], boundary):
        if not fits(room):
            units = [unit for unit in units if unit.place != victim.place]
    while not fits(room) and skip < count_batches(newest):
        skip += 1
    if not fits(room):
        return (), []
    return shown(), sorted(turn.index for unit in units for turn in unit.turns)


def all_units(turns: Sequence[Turn], scope: Scope, continuing: int | None) -> list[Unit]:
    told = {turn.index: turn for turn in turns if turn.outcome in TOLD and turn.index >= scope.start}
    units = []
    pending = None if continuing is None else Unit((told.pop(continuing),), pending=True)
    for turn in sorted(told.values(), key=lambda turn: -turn.index):
        if turn.index in told:
            first = told.pop(turn.continues, None) if turn.continues is not None else None
            units.append(Unit((turn,) if first is None else (first, turn)))
    return units[::-1] + ([] if pending is None else [pending])


def one_by_one(unit: Unit) -> Iterator[Unit]:
    turns = list(unit.turns)
    for n, turn in enumerate(turns):
        steps = list(turn.steps)
        for place, step in enumerate(steps):
            if isinstance(step, ToolResult) and len(step.content) > STUB_CHARS and step.content.strip():
                steps[place] = replace(step, content=stub_text(step.content))
                turns[n] = replace(turn, steps=tuple(steps))
                yield replace(unit, turns=tuple(turns))


def drop_order(units: Sequence[Unit], boundary: int | None) -> list[Unit]:
    if boundary is None:
        return list(units)
    primary = [unit for unit in units if unit.turns[-1].role is Role.PRIMARY]
    gap = [unit for unit in primary if unit.place >= boundary]
    return gap + [unit for unit in primary if unit.place < boundary] + [unit for unit in units if unit.turns[-1].role is Role.ESCALATION]


TEXTS = st.sampled_from(["", "yes", "x" * 60, "y" * 300, "\ud800 half", "[end of local's answer]", "ends \n", "語" * 40])
RESULTS = st.sampled_from(["", "ok", "r" * 390, "s" * 900, " " * 700, "\ud83d\ude00" * 450, "[called x: {}]" * 60])
STEPS = st.lists(
    st.one_of(
        st.builds(Text, TEXTS),
        st.builds(Reasoning, TEXTS, st.sampled_from(["m", None]), st.sampled_from(["sig", None])),
        st.builds(ToolCall, st.sampled_from(["a", "a", "b", "", "é" * 70]), st.sampled_from(["grep", "a.b"]), st.dictionaries(st.just("q"), TEXTS, max_size=1)),
        st.builds(ToolResult, st.sampled_from(["a", "a", "b", "", "é" * 70]), RESULTS, st.booleans()),
    ),
    max_size=7,
).map(tuple)
FAILED = st.sampled_from([Outcome.FAILED, Outcome.CANCELLED, Outcome.INTERRUPTED])
AGENTS = st.sampled_from(["local", "claude", "other"])


@st.composite
def histories(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    numbers = count()

    def add(role: Role, prompt: str | None, outcome: Outcome = Outcome.COMPLETED, continues: int | None = None) -> int:
        turns.append(
            Turn(next(numbers), role, draw(AGENTS), prompt, draw(STEPS), outcome, continues=continues, model_served=draw(st.sampled_from(["m", None])))
        )
        return turns[-1].index

    for _ in range(draw(st.integers(0, 7))):
        kind = draw(st.sampled_from(["primary", "primary", "primary", "escalation", "failed", "handed over", "in vain", "second try", "late"]))
        if kind == "primary":
            add(Role.PRIMARY, draw(TEXTS))
        elif kind == "escalation":
            add(Role.ESCALATION, draw(TEXTS))
        elif kind == "failed":
            add(Role.PRIMARY, draw(TEXTS), draw(FAILED))
        else:
            first = add(Role.PRIMARY, draw(TEXTS), Outcome.ESCALATED)
            if kind in ("in vain", "second try"):
                add(Role.ESCALATION, None, draw(FAILED), first)
            if kind == "late":
                add(Role.PRIMARY, draw(TEXTS))
            if kind != "in vain":
                add(Role.ESCALATION, None, continues=first)
    return turns


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    turns = draw(histories())
    escalations = [turn.index for turn in turns if turn.role is Role.ESCALATION and turn.outcome is Outcome.COMPLETED]
    boundary = escalations[-1] + 1 if escalations else 0
    mode = draw(st.sampled_from(["all", "returning", "fresh_start"]))
    scope = Scope("since_boundary", boundary) if mode == "fresh_start" else ALL
    pending = draw(st.booleans()) and bool(turns) and turns[-1].outcome is Outcome.ESCALATED
    return {
        "turns": turns,
        "scope": scope,
        "viewer": Viewer(draw(AGENTS), draw(st.sampled_from(["m", None]))),
        "profile": draw(st.sampled_from(get_args(WireProfile))),
        "available": draw(st.one_of(st.integers(-5, 600), st.integers(0, 8000))),
        "boundary": boundary if mode == "returning" else None,
        "continuing": turns[-1].index if pending else None,
    }


@given(cases())
@settings(max_examples=EXAMPLES * 2, deadline=None)
def test_fit_gives_up_exactly_what_page_3_says(case: dict[str, Any]) -> None:
    expected, sent = reference(**case)
    case = dict(case)
    turns, boundary = case.pop("turns"), case.pop("boundary")

    result = fit(TurnList(turns), returning_boundary=boundary, **case)

    assert list(result.sent) == sent
    assert result.messages == expected


@given(cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_what_is_fitted_is_sound_within_the_budget_and_accounted_for(violations: Violations, case: dict[str, Any]) -> None:
    turns, boundary, available = case["turns"], case.pop("boundary"), case["available"]
    before = deepcopy(turns)

    result = fit(TurnList(case.pop("turns")), returning_boundary=boundary, **case)

    assert turns == before
    assert result.chars == measure(result.messages) <= max(available, 0)
    request = normalise((*result.messages, PROMPT), case["profile"])
    assert violations(request, case["profile"]) == []
    assert request[-1].parts[-1] == PROMPT.parts[-1]
    assert measure(request) == result.chars + measure([PROMPT])
    dropped = list(result.dropped)
    assert sorted([*result.sent, *(turn for turn, _ in dropped)]) == [turn.index for turn in turns]
    assert result.dropped.count_not_shown == sum(why == "budget" for _, why in dropped)
    assert {index for index, why in dropped if why == "not_completed"} == {turn.index for turn in turns if turn.outcome not in TOLD}


@given(cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_without_a_limit_or_with_room_for_all_nothing_changes(case: dict[str, Any]) -> None:
    turns, viewer, profile = case["turns"], case["viewer"], case["profile"]
    units = all_units(turns, case["scope"], case["continuing"])
    stretches = [settle(render_unit(unit, viewer), profile) for unit in units]
    whole = settle(tuple(message for stretch in stretches for message in stretch), profile)

    for available in (None, measure(whole)):
        result = fit(
            TurnList(turns), case["scope"], viewer, profile=profile, available=available, returning_boundary=case["boundary"], continuing=case["continuing"]
        )
        assert result.messages == whole
        assert result.shortened == ()
        assert result.batches_left_out == 0
        assert result.dropped.count_not_shown == 0


@given(cases(), st.integers(0, 8000), st.sampled_from(get_args(WireProfile)), st.sampled_from([LOCAL, CLAUDE, Viewer("claude", "opus", str.upper)]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_what_was_weighed_before_for_whomever_changes_nothing(case: dict[str, Any], room: int, profile: WireProfile, viewer: Viewer) -> None:
    log, weighed, boundary = TurnList(case.pop("turns")), Weighed(), case.pop("boundary")
    fit(log, case["scope"], viewer, profile=profile, available=room, weighed=weighed)

    for _ in range(2):
        assert fit(log, returning_boundary=boundary, weighed=weighed, **case) == fit(log, returning_boundary=boundary, **case)


def test_a_turn_is_weighed_once_and_a_changed_one_again() -> None:
    weighed, turns = Weighed(), [primary(n) for n in range(3)]
    first = fitted(turns, None, weighed=weighed)

    again = fitted(turns, None, weighed=weighed)
    changed = fitted([*turns[:2], primary(2, Text("otherwise"))], None, weighed=weighed)

    assert [one is other for one, other in zip(again.messages, first.messages, strict=True)] == [True] * 6
    assert changed.messages[-1] == Message("assistant", (Text("otherwise"),))


def test_what_is_kept_of_weighed_turns_is_bounded() -> None:
    weighed, text = Weighed(), Text("a" * 2**20)
    turns = [primary(n, text) for n in range(30)]
    first = [fitted([turn], None, weighed=weighed).messages for turn in turns]

    again = [fitted([turns[n]], None, weighed=weighed).messages for n in (-1, 0)]

    assert again[0][0] is first[-1][0]
    assert again[1][0] is not first[0][0]


# -- one rule at a time ---------------------------------------------------------------------------


def test_under_budget_every_completed_turn_is_sent() -> None:
    turns = [primary(0), primary(1, outcome=Outcome.FAILED), primary(2, outcome=Outcome.INTERRUPTED), primary(3, outcome=Outcome.CANCELLED), primary(4)]

    result = fitted(turns, 100_000)

    assert result.sent == (0, 4)
    assert list(result.dropped) == [LeftOut(1, "not_completed"), LeftOut(2, "not_completed"), LeftOut(3, "not_completed")]
    assert result.dropped.count_not_shown == 0


def test_fresh_start_sends_only_turns_since_the_boundary() -> None:
    turns = [primary(0), escalation(1), primary(2), primary(3)]

    result = fitted(turns, None, CLAUDE, Scope("since_boundary", 2))

    assert result.sent == (2, 3)
    assert list(result.dropped) == [LeftOut(0, "scope"), LeftOut(1, "scope")]


def test_an_agent_with_its_own_conversation_is_sent_nothing_and_nothing_is_dropped() -> None:
    result = fitted([primary(0), primary(1)], 100_000, CLAUDE, Scope("none"))

    assert (result.messages, result.sent, list(result.dropped), result.chars) == ((), (), [], 0)


def test_an_empty_log_fits_every_budget() -> None:
    for available in (None, 0, -100, 1000):
        assert fitted([], available).messages == ()


def test_tool_results_are_shortened_before_any_turn_is_dropped() -> None:
    turns = [primary(0), tool_turn(1, 5000), tool_turn(2, 5000, 100)]
    whole = sum(size(turn) for turn in turns)

    once = fitted(turns, whole - 1000)
    twice = fitted(turns, whole - 5000)

    assert (once.sent, once.shortened) == ((0, 1, 2), (1,))
    assert (twice.sent, twice.shortened) == ((0, 1, 2), (1, 2))
    results = [part.content for message in twice.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [len(content) <= STUB_CHARS for content in results] == [True, True, True]
    assert results[2] == "1" * 100


def test_shortening_stops_exactly_where_it_fits() -> None:
    turns = [tool_turn(0, 5000), tool_turn(1, 5000)]
    saved = 5000 - len(stub_text("0" * 5000))
    room = sum(size(turn) for turn in turns) - saved + 80

    assert fitted(turns, room).shortened == (0,)
    assert fitted(turns, room - 1).shortened == (0, 1)


def test_a_folded_result_is_shortened_too() -> None:
    result = fitted([tool_turn(0, 5000)], 2000, CLAUDE)

    assert result.shortened == (0,)
    assert "characters cut" in str(result.messages)


def test_a_stub_keeps_head_and_tail_and_says_how_much_was_cut() -> None:
    stub = stub_text("head" + "x" * 10_000 + "tail")

    assert stub.startswith("head")
    assert stub.endswith("tail")
    assert "… 9648 characters cut …" in stub


@given(st.integers(STUB_CHARS + 1, 10**6))
def test_a_stub_is_never_longer_than_it_may_be(length: int) -> None:
    assert len(stub_text("x" * length)) <= STUB_CHARS < length


def test_oldest_turns_are_dropped_first_and_no_more_than_needed() -> None:
    turns = [primary(n) for n in range(6)]

    result = fitted(turns, sum(size(turn) for turn in turns[3:]) + 80)

    assert result.sent == (3, 4, 5)
    assert result.dropped.count_not_shown == 3
    assert [why for _, why in result.dropped] == ["budget"] * 3


def test_room_is_kept_for_the_line_that_says_what_is_not_shown() -> None:
    turns = [primary(n) for n in range(4)]
    three = sum(size(turn) for turn in turns[1:])

    assert fitted(turns, three + 79).sent == (2, 3)
    assert fitted(turns, three + 80).sent == (1, 2, 3)
    assert fitted(turns, three + 10, reserve=10).sent == (1, 2, 3)


def test_returning_drops_gap_turns_first_then_other_primary_turns_then_escalation_turns() -> None:
    turns = [primary(0), escalation(1), primary(2), escalation(3), primary(4), primary(5), primary(6)]
    order = [4, 5, 0, 2, 1, 3]

    for dropped in range(len(order) + 1):
        kept = sorted({0, 1, 2, 3, 4, 5, 6} - set(order[:dropped]))
        room = sum(size(turns[index], CLAUDE) for index in kept) + (80 if dropped else 0)
        assert list(fitted(turns, room, CLAUDE, returning_boundary=4).sent) == kept


def test_a_handed_over_turn_stays_with_the_turn_that_continues_it() -> None:
    turns = [primary(0), primary(1, outcome=Outcome.ESCALATED), escalation(2, continues=1), primary(3)]
    pair = measure(render_unit(Unit((turns[1], turns[2])), LOCAL))

    assert fitted(turns, size(turns[3]) + pair + 80).sent == (1, 2, 3)
    assert fitted(turns, size(turns[3]) + pair + 79).sent == (3,)


def test_a_pending_handed_over_turn_is_the_newest_and_has_no_prompt() -> None:
    turns = [primary(0), escalation(1), primary(2), primary(3, Text("tried"), prompt="the question", outcome=Outcome.ESCALATED)]

    result = fitted(turns, 400, CLAUDE, returning_boundary=2, continuing=3)

    assert result.sent == (1, 3)
    assert "tried" in str(result.messages[-1])
    assert "the question" not in str(result.messages)


def test_a_turn_whose_continuation_failed_is_sent_alone_with_its_prompt() -> None:
    turns = [primary(0, Text("tried"), prompt="the question", outcome=Outcome.ESCALATED), escalation(1, continues=0, outcome=Outcome.FAILED), primary(2)]

    result = fitted(turns, None)

    assert result.sent == (0, 2)
    assert result.messages[0] == Message("user", (Text("the question"),))


@pytest.mark.parametrize(
    "damaged",
    [
        escalation(1, continues=7),
        escalation(1, continues=1),
        escalation(1, continues=0, prompt="another"),
        primary(1, continues=0, prompt="another"),
    ],
)
def test_a_damaged_link_hides_no_turn(damaged: Turn) -> None:
    result = fitted([primary(0, outcome=Outcome.ESCALATED), damaged], None)

    assert result.sent == (0, 1)
    assert "q0" in str(result.messages)
    assert damaged.prompt is None or damaged.prompt in str(result.messages)


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED])
def test_only_a_turn_that_was_handed_over_is_one_with_the_next(outcome: Outcome) -> None:
    turns = [primary(0, outcome=outcome), escalation(1, continues=0)]

    units = list(keep_order(TurnList(turns), ALL))

    assert all(len(unit.turns) == 1 for unit in units)


def test_batches_left_out_of_a_pair_are_told_turn_by_turn() -> None:
    first = replace(tool_turn(0, 300, 300), outcome=Outcome.ESCALATED)
    second = escalation(1, *tool_turn(1, 300, 300).steps, continues=0)
    whole = measure(render_unit(Unit((first, second)), LOCAL))

    result = fitted([first, second], whole - 900 + 80)

    assert result.cut == ((0, 2), (1, 1))
    assert result.batches_left_out == 3


def test_in_the_newest_turn_whole_batches_go_oldest_first() -> None:
    turn = tool_turn(1, 300, 300, 300)

    result = fitted([primary(0), turn], size(turn) - 300 + 80)

    assert (result.sent, result.batches_left_out) == ((1,), 1)
    assert [part.id for message in result.messages for part in message.parts if isinstance(part, ToolCall | ToolResult)] == ["c1_1", "c1_1", "c1_2", "c1_2"]


def test_a_newest_turn_that_cannot_fit_is_dropped_last() -> None:
    result = fitted([primary(0), primary(1, prompt="q" * 5000)], 1000)

    assert (result.messages, result.sent, result.dropped.count_not_shown) == ((), (), 2)


def test_the_order_of_keeping_is_read_lazily() -> None:
    log = CountingLog([primary(n) for n in range(5000)])

    result = fit(log, ALL, LOCAL, profile="openai", available=3000)

    assert len(result.sent) > 5
    assert log.read <= len(result.sent) + 3


def test_when_returning_no_more_is_read_than_is_kept() -> None:
    turns = [escalation(n) if n % 50 == 0 else primary(n) for n in range(5000)]
    log = CountingLog(turns)

    result = fit(log, ALL, CLAUDE, profile="openai", available=3000, returning_boundary=4951)

    assert len(result.sent) > 5
    assert log.read <= len(result.sent) + 3


def test_keep_order_gives_the_newest_turn_first_when_returning() -> None:
    turns = [primary(0), escalation(1), primary(2), primary(3)]

    assert [unit.place for unit in keep_order(TurnList(turns), ALL, returning_boundary=2)] == [3, 1, 0, 2]


def test_a_report_on_a_long_history_reads_only_where_turns_failed() -> None:
    turns = [primary(n, outcome=Outcome.FAILED if n == 4000 else Outcome.COMPLETED) for n in range(5000)]
    log = CountingLog(turns)
    result = fit(log, ALL, LOCAL, profile="openai", available=3000)
    log.read = 0

    dropped = list(result.dropped)

    assert len(dropped) + len(result.sent) == 5000
    assert [left for left in dropped if left.why == "not_completed"] == [LeftOut(4000, "not_completed")]
    assert log.read <= 1024


def test_gaps_in_the_indexes_are_not_reported() -> None:
    assert list(fitted([primary(2), primary(9, outcome=Outcome.FAILED)], None).dropped) == [LeftOut(9, "not_completed")]


def test_a_huge_newest_turn_is_fitted_in_time_that_grows_with_it_and_not_faster() -> None:
    def seconds(batches: int) -> float:
        turn = tool_turn(0, *([200] * batches))
        gc.collect()
        gc.disable()  # its time grows with all that the other tests have left
        try:
            start = time.process_time()
            result = fitted([turn], 20_000, CLAUDE)
            spent = time.process_time() - start
        finally:
            gc.enable()
        assert 0 < result.chars <= 20_000
        return spent

    assert min(seconds(1600) for _ in range(2)) < 10 * max(seconds(400) for _ in range(2)), "four times as much takes four times as long, not sixteen"


class CountingLog(TurnList):
    """A log that says how many turns were read from it."""

    read = 0

    def newest_first(self, **options: Any) -> Iterator[Turn]:
        for turn in super().newest_first(**options):
            self.read += 1
            yield turn

    def count(self, **options: Any) -> int:
        return sum(1 for _ in super().newest_first(**options))
