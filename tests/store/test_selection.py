"""The choice for a turn is that among all there is, however little of the memory is looked at for it."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from orchestrator.memory.inject import select
from orchestrator.percepts import Edge, Inquiry, Memory, Percept, Recalled, statement_key
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.store import Store


def sent(memory: Memory, prompt: str, limits: Limits = Limits(), *, stated: Collection[str] = (), explain: bool = False) -> list[str]:  # noqa: B008 - frozen
    chosen = select(
        memory,
        agent="local",
        role=Role.PRIMARY,
        workspace="/w",
        session="s1",
        limits=limits,
        prompt=prompt,
        need=None,
        stated=stated,
        explain=explain,
    )
    return [percept.id for percept in chosen.sent]


def test_small_facts_are_tried_behind_however_many_that_do_not_fit(store: Store) -> None:
    words = random.Random(3)
    large = [Percept(f"large-{number:03}", "deploy " + " ".join("".join(words.choices("abcdefgh", k=4)) for _ in range(34)), "user") for number in range(300)]
    small = [Percept(f"small-{number}", f"deploy w{number}XX", "user", weight=1) for number in range(5)]
    store.take_in([*large, *small])

    told = sent(store.recall, "deploy")

    assert told == sent(store.recall, "deploy", explain=True)
    assert [identity[:5] for identity in told] == ["large"] * 11 + ["small"] * 5


def test_what_is_left_out_takes_nobodys_place(store: Store) -> None:
    own = [Percept(f"own-{number:03}", f"deploy number {number}", "primary", weight=90) for number in range(120)]
    twice = [Percept(f"twice-{number:03}", "deploy twice", "primary", weight=80, consumer=("all", "primary", "local")[number % 3]) for number in range(3)]
    rest = [Percept(f"rest-{number}", f"deploy rest {number}{number}", "primary", weight=30) for number in range(5)]
    store.take_in([*own, *twice, *rest])
    stated = {statement_key(percept.content) for percept in own}

    told = sent(store.recall, "deploy", stated=stated)

    assert told == sent(store.recall, "deploy", stated=stated, explain=True)
    assert sorted(told)[:5] == [f"rest-{number}" for number in range(5)]
    assert len(told) == 6


def test_one_that_extends_another_is_told_in_its_place_from_however_far_behind(store: Store) -> None:
    short = Percept("short", "deploy tabs", "primary", weight=90)
    others = [Percept(f"other-{number:03}", f"deploy number {number}", "primary", weight=80) for number in range(200)]
    store.take_in([short, *others, Percept("long", "deploy tabs " + " ".join(f"word{number}" for number in range(60)), "primary", weight=1)])
    store.link(Edge("long", "short", "extends"))

    limits = Limits(percept_inject_max=3)

    assert sent(store.recall, "deploy tabs", limits)[0] == "long"
    assert sent(store.recall, "deploy tabs", limits) == sent(store.recall, "deploy tabs", limits, explain=True)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_turn_is_told_what_a_plan_shows(store: Store, seed: int, *, gate: bool) -> None:
    chance = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(12)]
    percepts = [
        Percept(
            f"p{number:03}",
            " ".join(chance.choices(vocabulary, k=chance.randint(1, 12))),
            "primary",
            weight=chance.randint(0, 100),
            core=chance.random() < 0.1,
            consumer=chance.choice(["all", "primary", "local", "strong"]),
            workspace=chance.choice([None, "/w", "/other"]),
        )
        for number in range(150)
    ]
    store.take_in(percepts)
    there = [percept.id for percept in store.percepts()]
    for kind in ("extends", "extends", "extends", "updates"):
        for _ in range(15):
            source, target = chance.sample(there, 2)
            store.link(Edge(source, target, kind))  # type: ignore[arg-type]  # a kind of edge
    marks = {statement_key(percept.content) for percept in chance.sample(percepts, 20)}

    for _ in range(12):
        limits = Limits(
            percept_inject_max=chance.choice([0, 1, 2, 5, 25, None]),
            percept_inject_max_bytes=chance.choice([0, 30, 120, 700, None]),
            percept_relevance_gate=gate,
        )
        prompt = " ".join(chance.sample(vocabulary, chance.randint(1, 3)))
        assert sent(store.recall, prompt, limits, stated=marks) == sent(store.recall, prompt, limits, stated=marks, explain=True)


def test_the_memory_is_asked_once_where_that_fills_the_limits() -> None:
    asked: list[Inquiry] = []

    def memory(inquiry: Inquiry) -> Recalled:
        asked.append(inquiry)
        return Recalled(tuple((Percept(f"p{number}", f"fact {number}", "user"), 1.0) for number in range(inquiry.most or 0)), more=True)

    assert len(sent(memory, "fact", Limits(percept_inject_max=3))) == 3
    assert len(asked) == 1
