"""Recorded turns replayed: with the limits of then as they were, with others as a second life under those has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.templates import Templates
from orchestrator.tuning.cases import Reader
from orchestrator.tuning.knobs import Variant, variant
from orchestrator.tuning.past import Past, PastTurn
from orchestrator.tuning.replay import Replay, Replayed
from orchestrator.tuning.sweep import Task, replay
from orchestrator.tuning.telling import Script
from orchestrator.tuning.work import known_percepts

from ..conftest import Scene
from .conftest import lived, past, receipts

pytestmark = pytest.mark.xdist_group("replay")  # what they share is made once

TURNS = 90


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, templates: Templates) -> Iterator[Scene]:
    scene = lived(tmp_path_factory.mktemp("life"), templates, "returning_fresh_start_local_turns = 3", turns=TURNS, facts=4)
    yield scene
    scene.close()


def replayed(scene: Scene, *variants: Variant, recorded: Past | None = None) -> list[Replayed]:
    return list(Replay(recorded or past(scene), variants, {}, Script(scene.templates), known_percepts(scene.store)).turns())


def test_tokens_that_were_counted_correct_the_estimate_as_they_did(templates: Templates, tmp_path: Path) -> None:
    scene = lived(tmp_path, templates, "", turns=40, counts=True)

    outcome = replay([past(scene)], Task(()), templates, {})

    scene.close()
    assert (outcome.mistakes_count, outcome.tokens_off) == (0, 0)


def test_the_limits_of_then_decide_and_weigh_every_turn_as_it_was(life: Scene) -> None:
    outcome = replay([past(life)], Task(()), life.templates, known_percepts(life.store))

    assert outcome.replayed == outcome.turns >= TURNS
    assert outcome.mistakes == []
    assert outcome.tokens_recorded > 50_000
    assert outcome.tokens_off == 0
    assert {turn.mode for turn in life.turns} == {None, "first", "fresh_start", "returning", "resume", "continuation"}


@pytest.mark.parametrize(
    ("limit", "value", "least"),
    [
        ("returning_fresh_start_local_turns", "1", 3),
        ("returning_fresh_start_local_turns", "0", 3),
        ("message_budget_chars", "7000", 20),
        ("context_budget_chars", "400", 10),
        ("percept_inject_max_bytes", "100", 20),
    ],
)
def test_other_limits_give_what_a_second_life_under_them_has(life: Scene, templates: Templates, tmp_path: Path, limit: str, value: str, least: int) -> None:
    config = f"{limit} = {value}" + ("" if limit.startswith("returning") else "\nreturning_fresh_start_local_turns = 3")
    second = lived(tmp_path, templates, config, turns=TURNS, facts=4)
    turns, kept = {turn.index: turn for turn in second.turns}, receipts(second)
    second.close()

    done = replayed(life, variant(limit, value, agent=None))

    differing = 0
    for one in done:
        turn = turns[one.past.turn.index]
        assert one.base is not None
        assert (turn.prompt, turn.steps) == (one.past.turn.prompt, one.past.turn.steps), "the lives said different things"
        sent = one.others.get(0, one.base)
        differing += 0 in one.others
        assert (sent.chosen.mode, sent.chosen.rules) == (turn.mode, tuple(reason.rule for reason in turn.reasons))
        if not sent.nothing:
            assert sent.estimate == kept[turn.index].report.budget.tokens_estimate, turn.index
    assert differing >= least


def test_a_need_lives_longer_or_shorter(life: Scene) -> None:
    done = replayed(life, variant("need_expiry_hours", "0", agent=None), variant("need_expiry_hours", "0.01", agent=None))

    longer = [one for one in done if 0 in one.others]
    shorter = [one for one in done if 1 in one.others]
    assert all(one.past.receipt.report.need.status == "expired" for one in longer if one.others[0].chosen.mode is None)  # type: ignore[union-attr]
    assert shorter
    assert any(one.others[1].chosen.mode is not one.base.chosen.mode for one in shorter)  # type: ignore[union-attr]


def test_a_turn_without_a_receipt_is_named_and_nothing_after_it_is_guessed(life: Scene) -> None:
    whole = past(life)
    begins = next(item.turn.index for item in whole.turns if item.turn.agent == "strong" and item.turn.mode == "first")
    goes_on = next(item.turn.index for item in whole.turns if item.turn.index > begins and item.turn.mode in ("resume", "continuation", "returning"))
    cut = [PastTurn(item.turn, None, "it has no receipt") if begins <= item.turn.index < goes_on else item for item in whole.turns]

    done = {one.past.turn.index: one for one in replayed(life, recorded=Past(whole.session, tuple(cut)))}

    assert done[begins].problem == "it has no receipt"
    if done[goes_on].past.turn.agent == "strong":
        assert "began before what was recorded" in done[goes_on].problem
    assert any(one.base is not None for index, one in done.items() if index > goes_on)


def test_a_sweep_counts_what_would_be_another(life: Scene) -> None:
    then = variant("returning_fresh_start_local_turns", "3", agent=None)
    task = Task((variant("message_budget_chars", "100000", agent=None), variant("message_budget_chars", "6000", agent=None), then))

    outcome = replay([past(life)], task, life.templates, {})

    same, less = outcome.under(0), outcome.under(1)
    assert same.by_agent == outcome.base.by_agent
    assert outcome.under(2).by_agent == outcome.base.by_agent, "the value of then changes nothing"
    assert less.of("turns_left_out") > same.of("turns_left_out") == 0
    assert less.of("history") < same.of("history")
    assert (less.of("mode_changed"), less.of("turns")) == (0, same.of("turns"))
    assert less.cost({}) == (None, less.of("turns"))


def test_only_the_turns_of_one_agent_are_counted_and_only_its_limits_changed(life: Scene) -> None:
    task = Task((variant("returning_fresh_start_local_turns", "0", agent="strong"),), agent="strong")

    outcome = replay([past(life)], task, life.templates, {})

    assert outcome.turns == sum(turn.agent == "strong" for turn in life.turns)
    assert set(outcome.under(0).by_agent) == {"strong"}
    assert outcome.under(0).of("mode_changed") > 0


def test_a_prompt_in_another_script_weighs_more(life: Scene) -> None:
    plain, wide = (replay([past(life)], Task((), {"other": Reader(wide_tokens=tokens)}), life.templates, {}).base for tokens in (0, 7))

    assert wide.of("cached") + wide.of("static") - plain.of("cached") - plain.of("static") == 7 * sum(turn.agent == "other" for turn in life.turns)
