"""What turns are decided by is kept with them, and decides them again."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from orchestrator.errors import SessionLost, Unavailable
from orchestrator.hooks import Hooks
from orchestrator.hookspecs import Signal
from orchestrator.messages import Usage
from orchestrator.planning.case import Additions
from orchestrator.plugins import Implementation, PluginReport
from orchestrator.receipts import Decided, Receipt, as_json, from_json, redecide
from orchestrator.routing import Choice, Pin, Rules
from orchestrator.session import Outcome, Turn, set_need
from orchestrator.settings.limits import Limits
from orchestrator.templates import Templates
from orchestrator.testing.fake_provider import FakeProvider, says

from ..conftest import NONCE, OWN, TOOLS, Scene, rules, tag

pytestmark = pytest.mark.xdist_group("receipts")  # what they share is made once

TURNS = 200


def decided(turn: Turn) -> Decided:
    return Decided(turn.role, turn.agent, turn.mode, turn.reasons, turn.routing)  # type: ignore[arg-type]  # a mode is its own text


def receipts(scene: Scene) -> dict[int, Receipt]:
    return {index: from_json(data) for index, data in scene.store.receipts("s1").items()}


def _exclaims(prompt: str) -> list[Signal] | None:
    return [Signal("exclaims", prompt.count("!") / 4, "it exclaims")] if "!" in prompt else None


SENSOR = Implementation(PluginReport("acme", "acme", "1.0", loaded=True), _exclaims, ("prompt",))


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, templates: Templates) -> Iterator[Scene]:
    """Some two hundred turns of every sort: of three agents, with and without conversations of their own, some of them at fault."""
    scene = Scene(tmp_path_factory.mktemp("lived"), templates)
    dice = random.Random(6)
    hooks = Hooks(lambda hook: [SENSOR] if hook == "escalera_routing_signals" else [])
    scene.additions = Additions(hooks, Rules(1, {"exclaims": 2}, 3, classifier=True))
    scene.config = "[limits]\nreturning_fresh_start_local_turns = 4\n"
    primary, strong, other = FakeProvider(capabilities=TOOLS), FakeProvider(capabilities=OWN, config_dir="/c"), FakeProvider()
    scene.cast(local=primary, strong=strong, other=other)
    while scene.store.log("s1").next_index < TURNS:
        primary.will(*[_by_primary(dice), _by_primary(dice)][: 2 - primary.left])
        strong.will(*[_by_strong(dice), says("Again.")][: 2 - strong.left])
        other.will(*[_by_strong(dice)][: 1 - other.left])
        _live(scene, dice, scene.store.log("s1").next_index)
    yield scene
    scene.close()


def _by_primary(dice: random.Random) -> object:
    say = dice.choice(["KEEP", "ESCALATE: hard", "hm", "Fine.", "Fine.", tag("escalate", "too hard"), tag("need", f"goal {dice.randrange(5)}") + "ok"])
    return [Unavailable("down")] if dice.random() < 0.05 else says(say, usage=Usage(10, 1))


def _by_strong(dice: random.Random) -> object:
    failing = dice.random()
    if failing < 0.06:
        return [SessionLost("gone")]
    return [Unavailable("down")] if failing < 0.1 else says(dice.choice(["Done.", "Done.", "Which one?", tag("need", "its own goal") + "Done."]))


def _live(scene: Scene, dice: random.Random, number: int) -> None:
    event = dice.random()
    if event < 0.06:
        scene.roles = {"primary": "local", "escalation": dice.choice(["strong", "other"])}
        scene.restart()
    elif event < 0.12:
        need = set_need(scene.session.need, f"need {number}", turn_index=scene.store.log("s1").next_index, during=False, now=scene.clock.now(), source="user")
        scene.save(need=need)
    elif event < 0.15:
        scene.save(external_sessions=())
    elif event < 0.19:
        scene.clock.advance(hours=30)
    prompt = dice.choice([f"question {number}", f"look {number}!!", "why is the number of it still wrong", f"do {number}!"])
    chosen = dice.random()
    wish: dict[str, object] = {}
    if chosen < 0.2:
        wish = {"escalate": True, "fresh": dice.random() < 0.2}
    elif chosen < 0.5:
        wish = {"primary": True}
    elif chosen < 0.6:
        wish = {"agent": dice.choice(["local", "strong", "other"])}
    elif chosen < 0.65:
        wish = {"escalate": True, "reason": "a second look"}
    if wish.get("agent") == "local" or chosen >= 0.65:
        wish.pop("fresh", None)
    scene.ask(prompt, **wish)  # type: ignore[arg-type]  # as `ask` takes them
    scene.clock.advance(minutes=5)


def test_two_hundred_turns_are_decided_again_as_they_were(lived: Scene) -> None:
    turns, kept = lived.turns, receipts(lived)

    assert len(turns) >= TURNS
    assert set(kept) == {turn.index for turn in turns}
    assert [redecide(kept[turn.index]) for turn in turns] == [decided(turn) for turn in turns]
    seen = Counter(reason.rule for turn in turns for reason in (*turn.reasons, *turn.routing))
    assert set(seen) >= {
        *("flag", "waiting", "rules", "repeated_prompt", "classifier", "default", "self_escalation"),
        *("never_escalated", "need_changed", "turn_gap", "no_primary_turns", "primary_worked", "forced"),
        *("other_agent", "external_session_missing", "external_session_lost"),
    }
    assert {turn.mode for turn in turns} == {None, "first", "fresh_start", "returning", "resume", "continuation"}
    assert {turn.outcome for turn in turns} >= {Outcome.COMPLETED, Outcome.ESCALATED, Outcome.FAILED}


def test_under_other_limits_they_differ_where_they_must_and_nowhere_else(lived: Scene) -> None:
    kept = receipts(lived)
    changed = {index for index, receipt in kept.items() if redecide(receipt, Limits(returning_fresh_start_local_turns=0)) != redecide(receipt)}
    never = {turn.index for turn in lived.turns if "turn_gap" in rules(turn.reasons)}

    assert changed == never
    assert never
    for index, receipt in kept.items():
        sooner = redecide(receipt, Limits(returning_fresh_start_local_turns=1))
        if lived.turns[index].mode == "returning":
            assert (sooner.mode, rules(sooner.reasons)) == ("fresh_start", ["turn_gap"])


def test_under_other_rules_another_agent_may_have_the_turn(lived: Scene) -> None:
    kept = receipts(lived)
    for turn in lived.turns:
        never = redecide(kept[turn.index], rules=Rules(0))
        eager = redecide(kept[turn.index], rules=Rules(0.25, {"exclaims": 1}, 3, classifier=True))
        if rules(turn.routing) == ["rules"]:
            assert (never.role, never.agent, never.mode, rules(never.routing)) == ("primary", "local", None, ["default"])
        if rules(turn.routing)[0] in ("classifier", "default") and turn.role == "primary" and "!" in str(turn.prompt):
            assert (eager.role, eager.mode, rules(eager.routing)) == ("escalation", None, ["rules"])


def test_a_receipt_is_small_and_repeats_no_text(lived: Scene) -> None:
    texts = [json.dumps(data, separators=(",", ":")) for data in lived.store.receipts("s1").values()]

    assert max(map(len, texts)) < 3000
    assert sum(map(len, texts)) / len(texts) < 2000
    for text in texts:
        assert not [said for said in ("question ", "still wrong", "second look", "Which one?", "goal ", NONCE) if said in text]


def test_what_stands_in_the_store_is_what_was_decided(lived: Scene) -> None:
    for data in lived.store.receipts("s1").values():
        assert as_json(from_json(data)) == data


def test_a_turn_that_broke_off_has_its_receipt(scene: Scene) -> None:
    def kill() -> None:
        raise KeyboardInterrupt

    scene.cast(local=FakeProvider(), strong=FakeProvider([kill]))
    with pytest.raises(KeyboardInterrupt):
        scene.ask(escalate=True)
    scene.agents["strong"].running = 0
    scene.restart()

    (turn,) = scene.turns
    assert turn.outcome is Outcome.INTERRUPTED
    assert redecide(receipts(scene)[0]) == decided(turn)


def test_a_pin_and_the_time_that_a_turn_was_given_are_kept(scene: Scene) -> None:
    from orchestrator.escalation import take_turn
    from orchestrator.planning.case import Wish
    from orchestrator.providers import Answer, Cancel
    from orchestrator.session import Role

    scene.config = "[agents.strong.limits]\nturn_timeout = '7m'\nmessage_budget_chars = 0\n"
    scene.cast(local=FakeProvider(), strong=FakeProvider(says("Done.")))
    wish = Wish("x", Choice(pinned=Pin(Role.ESCALATION)))
    take_turn(scene.place, "s1", wish, cancel=Cancel(), ask=lambda _: Answer("cancel"), watch=lambda _: None)

    receipt = receipts(scene)[0]
    assert redecide(receipt) == decided(scene.turns[0])
    assert (receipt.routing.choice.pinned, receipt.limits.turn_timeout, receipt.report.budget.limit_chars) == (Pin(Role.ESCALATION), 420.0, None)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: {},
        lambda data: {**data, "version": 2},
        lambda data: {**data, "version": "1"},
        lambda data: {**data, "limits": 7},
        lambda data: {**data, "facts": {**data["facts"], "state": "dreaming"}},
        lambda data: {**data, "facts": {**data["facts"], "primary_turns": "3"}},
        lambda data: {**data, "routing": {**data["routing"], "escalation": None}},
        lambda data: {**data, "report": {"budget": None}},
        lambda data: {key: value for key, value in data.items() if key != "rules"},
    ],
)
def test_what_is_no_receipt_says_so_and_breaks_nothing(scene: Scene, spoil) -> None:
    scene.cast(local=FakeProvider(), strong=FakeProvider(says("Done.")))
    scene.ask(escalate=True)
    (data,) = scene.store.receipts("s1").values()

    with pytest.raises(ValueError, match=r"version|limits|facts|routing|report|rules|decides nothing"):
        from_json(spoil(dict(data)))


def test_of_an_agents_own_conversations_only_what_decides_is_kept(scene: Scene) -> None:
    scene.cast(local=FakeProvider(says("ok")), strong=FakeProvider(says("Done."), says("Done."), capabilities=OWN))
    scene.ask(escalate=True)
    (mine,) = scene.session.external_sessions
    others = tuple(replace(mine, workspace=f"/work/{number}", id=f"e{number}") for number in range(40))
    scene.save(external_sessions=(*others, mine))
    scene.ask(escalate=True)

    receipt = receipts(scene)[1]
    assert redecide(receipt) == decided(scene.turns[1])
    assert receipt.facts is not None
    assert [known.workspace for known in receipt.facts.external_sessions] == ["/work/0", "/work/a"]
    assert {known.system_text for known in receipt.facts.external_sessions} == {""}
