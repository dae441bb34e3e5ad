"""Sessions that were really lived, the same life under any limits: what is said does not hang on them."""

from __future__ import annotations

import random
from pathlib import Path

from orchestrator.hooks import Hooks
from orchestrator.hookspecs import Signal
from orchestrator.messages import Usage
from orchestrator.planning.case import Additions
from orchestrator.plugins import Implementation, PluginReport
from orchestrator.receipts import Receipt, from_json
from orchestrator.routing import Rules
from orchestrator.session import set_need
from orchestrator.templates import Templates
from orchestrator.testing.fake_provider import FakeProvider, says
from orchestrator.tuning.past import Past, past_of

from ..conftest import OWN, TOOLS, Scene, tag


def _exclaims(prompt: str) -> list[Signal] | None:
    return [Signal("exclaims", prompt.count("!") / 4, "it exclaims")] if "!" in prompt else None


SENSOR = Implementation(PluginReport("acme", "acme", "1.0", loaded=True), _exclaims, ("prompt",))


def lived(folder: Path, templates: Templates, config: str, *, turns: int, facts: int = 0, seed: int = 6, counts: bool = False) -> Scene:
    """A life of some turns: two escalation agents, one with a conversation of its own, needs, hand-overs, questions; a primary that `counts` reports tokens."""
    scene = Scene(folder, templates)
    hooks = Hooks(lambda hook: [SENSOR] if hook == "escalera_routing_signals" else [])
    scene.additions = Additions(hooks, Rules(1, {"exclaims": 2}, 3, classifier=True))
    scene.config = f"[limits]\n{config}\n"
    primary, strong, other = FakeProvider(capabilities=TOOLS), FakeProvider(capabilities=OWN, config_dir="/c"), FakeProvider()
    scene.cast(local=primary, strong=strong, other=other)
    for number in range(facts):
        scene.remember(f"fact {number} " + "word " * 10 * number)
    for number in range(turns):
        dice = random.Random(1000 * seed + number)
        primary.will(*[_by_primary(dice, counts), _by_primary(dice, counts)][: 2 - primary.left])
        strong.will(*[_by_strong(dice), says("Again: " + "text " * 40)][: 2 - strong.left])
        other.will(*[_by_strong(dice)][: 1 - other.left])
        _live(scene, dice, number)
    return scene


def past(scene: Scene) -> Past:
    return past_of(scene.session, scene.turns, scene.store.receipts("s1"))


def receipts(scene: Scene) -> dict[int, Receipt]:
    return {index: from_json(data) for index, data in scene.store.receipts("s1").items()}


def _by_primary(dice: random.Random, counts: bool) -> object:
    said = dice.choice(
        [
            "KEEP",
            "ESCALATE: hard",
            "Fine.",
            "Fine, " + "and more " * 30,
            "Tags: ‹ ü 漢字 […]",
            tag("escalate", "too hard"),
            tag("need", f"goal {dice.randrange(5)}") + "ok",
        ]
    )
    return says(said, usage=Usage(400 + dice.randrange(100), 1) if counts else None)


def _by_strong(dice: random.Random) -> object:
    return says(dice.choice(["Done.", "Done: " + "a long answer " * 30, "Which one?", tag("need", "its own goal") + "Done."]))


def _live(scene: Scene, dice: random.Random, number: int) -> None:
    event = dice.random()
    if event < 0.06:
        scene.roles = {"primary": "local", "escalation": dice.choice(["strong", "other"])}
        scene.restart()
    elif event < 0.12:
        index = scene.store.log("s1").next_index
        scene.save(need=set_need(scene.session.need, f"need {number}", turn_index=index, during=False, now=scene.clock.now(), source="user"))
    elif event < 0.14:
        scene.save(external_sessions=())
    elif event < 0.18:
        scene.clock.advance(hours=30)
    prompt = dice.choice([f"question {number}", f"look {number}!!", "why is the number of it still wrong", f"do {number}!", "<escalera:need:x> [end of it]"])
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
    scene.ask(prompt, **wish)  # type: ignore[arg-type]  # as `ask` takes them
    scene.clock.advance(minutes=5)


__all__ = ["lived", "past", "receipts"]
