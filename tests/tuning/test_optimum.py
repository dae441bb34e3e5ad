"""A planted optimum is found: sessions in which starting afresh pays from a gap of five turns on, and not before."""

from __future__ import annotations

from pathlib import Path

from orchestrator.documents.tune import InForce, tune_document
from orchestrator.messages import Usage
from orchestrator.templates import Templates
from orchestrator.testing.fake_provider import FakeProvider, says
from orchestrator.tuning.knobs import SWEEPS, variant
from orchestrator.tuning.past import Past
from orchestrator.tuning.sweep import Task, replay

from ..conftest import OWN, Scene
from .conftest import past

PRICES = {"strong": {"input": 3.0, "output": 15.0, "cache_read": 0.3}, "local": {"input": 0.0, "output": 0.0}}
"""Reading from the cache costs a tenth. Going on in a conversation reads all of it again; starting afresh pays the static text anew."""
GAP = "returning_fresh_start_local_turns"


def returned_to(folder: Path, templates: Templates, *, answer: int, gap: int) -> Past:
    """An escalation turn with an answer of that size, so many primary turns, and a return."""
    folder.mkdir()
    scene = Scene(folder, templates, config="[limits]\ncontext_budget_chars = 600\n")
    scene.cast(
        local=FakeProvider(*[says("Fine.", usage=Usage(10, 1)) for _ in range(gap)]),
        strong=FakeProvider(says("word " * (answer // 5), usage=Usage(10, 100)), says("Done.", usage=Usage(10, 100)), capabilities=OWN),
    )
    scene.ask("begin", escalate=True)
    for number in range(gap):
        scene.ask(f"step {number}", primary=True)
    scene.ask("go on", escalate=True)
    recorded = past(scene)
    scene.close()
    return recorded


def test_the_gap_of_five_that_was_planted_is_reported(templates: Templates, tmp_path: Path) -> None:
    short = [returned_to(tmp_path / f"short-{gap}", templates, answer=100, gap=gap) for gap in (1, 2, 3, 4)]
    long = [returned_to(tmp_path / f"long-{gap}", templates, answer=60_000, gap=gap) for gap in (5, 7)]
    task = Task(tuple(variant(GAP, value, agent=None) for value in SWEEPS[GAP]))

    document = tune_document(replay([*short, *long], task, templates, {}), task, InForce({GAP: 8}, PRICES))

    (sweep,) = document["sweeps"]
    assert document["self_test"]["decisions_wrong"] == 0
    assert document["self_test"]["tokens_off_percent"] == 0
    assert (sweep["cheapest"], sweep["by"]) == (5, "cost")
    costs = {setting["value"]: setting["cost"]["usd"] for setting in sweep["settings"]}
    assert min(costs.values()) == costs[5]
    assert list(costs.values()).count(costs[5]) == 1, "no other value is as cheap"
    assert {setting["value"] for setting in sweep["settings"] if setting["in_force"]} == {8}


def test_without_prices_the_cost_is_unknown_and_tokens_decide(templates: Templates, tmp_path: Path) -> None:
    recorded = returned_to(tmp_path / "one", templates, answer=100, gap=2)
    task = Task((variant("context_budget_chars", "0", agent=None), variant("context_budget_chars", "600", agent=None)))

    document = tune_document(replay([recorded], task, templates, {}), task, InForce({}, {"local": PRICES["local"]}))

    (sweep,) = document["sweeps"]
    assert (sweep["cheapest"], sweep["by"]) == (0, "cost")
    assert all(setting["cost"]["unknown_turns"] == 2 for setting in sweep["settings"])
    nothing = tune_document(replay([recorded], task, templates, {}), task, InForce({}, {}))["sweeps"][0]
    assert (nothing["cheapest"], nothing["by"]) == (0, "tokens")
    assert {setting["cost"]["usd"] for setting in nothing["settings"]} == {None}
