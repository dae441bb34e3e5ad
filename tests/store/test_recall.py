"""What an agent may be told: found by full text, meant for it, and not superseded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.percepts import Edge, Inquiry, Percept, Recalled
from orchestrator.session import Session
from orchestrator.store import Store
from orchestrator.store.recall import query_of

ASKED = Inquiry(frozenset({"all", "primary", "local"}), "/work/a", "s1")


def learn(store: Store, content: str, identity: str | None = None, **fields: object) -> Percept:
    return store.learn(Percept(identity or content.replace(" ", "-"), content, **{"producer": "primary", "weight": 70, **fields}))[0]  # type: ignore[arg-type]  # fields of a percept


def found(recalled: Recalled) -> list[str]:
    return [percept.id for percept, _ in recalled.found]


def test_what_has_to_do_with_the_text_is_found_and_ranked_by_fit_and_weight(store: Store) -> None:
    learn(store, "deploys happen on tuesdays", "both", weight=50)
    learn(store, "deploys need a review", "heavy", weight=90)
    learn(store, "deploys take an hour", "light", weight=40)
    learn(store, "the cat likes milk", "cat", weight=100)

    recalled = store.recall(replace(ASKED, text="when do deploys happen on tuesdays?"))

    assert found(recalled) == ["both", "heavy", "light"]
    assert [score > 0 for _, score in recalled.found] == [True] * 3


def test_ties_go_by_id(store: Store) -> None:
    for identity in "cab":
        learn(store, f"tabs number {identity}{identity}", identity)

    assert found(store.recall(replace(ASKED, text="tabs"))) == ["a", "b", "c"]
    assert found(store.recall(replace(ASKED, text="tabs", most=2))) == ["a", "b"]
    assert found(store.recall(replace(ASKED, most=2))) == ["a", "b"]
    assert found(store.recall(replace(ASKED, text="tabs", most=0))) == []


def test_core_percepts_always_pass(store: Store) -> None:
    learn(store, "be brief", "core", core=True, weight=100)
    learn(store, "use tabs", "tabs")

    assert store.recall(replace(ASKED, text="tabs or not")).found[1][1] == 0.0
    assert found(store.recall(replace(ASKED, text="tabs or not"))) == ["tabs", "core"]
    assert found(store.recall(replace(ASKED, text="something else"))) == ["core"]


def test_without_a_text_or_any_word_in_it_everything_passes(store: Store) -> None:
    learn(store, "be brief", "light", weight=30)
    learn(store, "use tabs", "heavy", weight=90)

    for text in (None, "", " … "):
        assert store.recall(replace(ASKED, text=text)).found == tuple((store.percept(identity), 1.0) for identity in ("heavy", "light"))


def test_what_is_meant_for_others_is_not_found_and_said_to_be_left_out(store: Store) -> None:
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    learn(store, "tabs for local", "mine", consumer="local")
    learn(store, "tabs for strong", "strong", consumer="strong")
    learn(store, "tabs there", "elsewhere", workspace="/work/b")
    learn(store, "tabs here", "here", workspace="/work/a/")
    learn(store, "tabs in this session", "this", scope="session", session="s1")
    learn(store, "tabs in that session", "that", scope="session", session="s2")
    learn(store, "spaces", "spaces")

    recalled = store.recall(replace(ASKED, text="tabs", explain=True))

    assert sorted(found(recalled)) == ["here", "mine", "this"]
    assert dict(recalled.withheld) == {"strong": "meant for strong", "elsewhere": "other workspace", "spaces": "not relevant"}


def test_an_update_hides_the_old_statement_from_whoever_is_told_the_new_one(store: Store) -> None:
    learn(store, "the port is 5432", "old")
    learn(store, "the gate is 5433", "new", consumer="local")
    store.link(Edge("new", "old", "updates"))

    assert found(store.recall(replace(ASKED, text="port or gate"))) == ["new"]
    assert found(store.recall(replace(ASKED, text="port or gate", consumers=frozenset({"all", "strong"})))) == ["old"]
    assert store.recall(replace(ASKED, explain=True)).withheld == (("old", "superseded"),)

    store.forget("new")
    assert found(store.recall(replace(ASKED, text="port"))) == ["old"]


def test_what_extends_another_is_told_of_those_found(store: Store) -> None:
    learn(store, "the user wants terse output", "short")
    learn(store, "the user wants really terse output", "long")

    assert store.recall(replace(ASKED, text="terse")).extends == {("long", "short")}


def test_the_best_for_get_memory_weigh_enough(store: Store) -> None:
    for number in range(8):
        learn(store, f"tabs of kind {number}{number}", f"p{number}", weight=38 + number)

    assert [percept.id for percept in store.best_percepts(replace(ASKED, text="tabs"), 5)] == ["p7", "p6", "p5", "p4", "p3"]
    assert [percept.id for percept in store.best_percepts(replace(ASKED, text=""), 2)] == ["p7", "p6"]
    assert len(store.best_percepts(replace(ASKED, text="tabs"), 10)) == 6


@pytest.mark.parametrize(
    "prompt",
    [
        'tabs"',
        '" OR "',
        "tabs AND",
        "NEAR(tabs spaces)",
        "words:tabs",
        "tabs*",
        "^tabs",
        "-tabs +spaces",
        "{tabs}",
        "(tabs",
        "tabs\x00null",
        "\ud800 tabs",
        "it's",
    ],
)
def test_no_prompt_is_query_syntax(store: Store, prompt: str) -> None:
    learn(store, "use tabs", "tabs")
    learn(store, "it's here", "its")

    recalled = store.recall(replace(ASKED, text=prompt))

    assert set(found(recalled)) <= {"tabs", "its"}
    assert ("tabs" in found(recalled)) == ("tabs" in prompt)


@given(text=st.text(max_size=300))
def test_any_text_makes_a_query_of_quoted_words_or_none(text: str) -> None:
    query = query_of(text)

    assert query is None or all(word[0] == word[-1] == '"' for word in query.split(" OR "))


def test_a_long_prompt_is_searched_for_by_its_head_and_tail(store: Store) -> None:
    learn(store, "alpha fact", "head")
    learn(store, "omega fact", "tail")
    prompt = "alpha " + " ".join(f"filler{number}" for number in range(20_000)) + " omega"

    assert sorted(found(store.recall(replace(ASKED, text=prompt)))) == ["head", "tail"]
    assert query_of(prompt, 10).count(" OR ") == 511  # type: ignore[union-attr]
    assert query_of(prompt, 100_000).count(" OR ") == 23  # type: ignore[union-attr]


def test_no_weight_overtakes_what_was_not_looked_at(store: Store) -> None:
    """The matches are read in pages, best fit first, until no weight can make up for the fit."""
    percepts = [Percept(f"p{number:04}", f"tabs {'x ' * (number % 40)}{number}", "primary", weight=20 + number * 7 % 81) for number in range(1200)]
    store.take_in(percepts)
    every = store.recall(replace(ASKED, text="tabs")).found

    first = store.recall(replace(ASKED, text="tabs", most=10)).found

    assert len(every) == 1200
    assert first == every[:10]
    assert [score * percept.weight for percept, score in every] == sorted((score * percept.weight for percept, score in every), reverse=True)


def test_other_scripts_are_found(store: Store) -> None:
    learn(store, "用户喜欢喝茶", "zh")
    learn(store, "ผู้ใช้ชอบชา", "th")
    learn(store, "the café is closed", "fr")
    learn(store, "loves 🍕", "pizza")

    for prompt, identity in (("想喝茶", "zh"), ("茶", "zh"), ("ชอบชา", "th"), ("cafe", "fr"), ("🍕!", "pizza")):
        assert found(store.recall(replace(ASKED, text=prompt))) == [identity]
