"""Finding remembered facts by a few words."""

from __future__ import annotations

from orchestrator.memory.recall import relevance, terms
from orchestrator.percepts import Percept


def percepts(*contents: str) -> list[Percept]:
    return [Percept(id=f"p{number}", content=content, producer="user") for number, content in enumerate(contents)]


def test_the_rarer_word_counts_more() -> None:
    found = relevance("the port of the database", percepts("the database listens on port 5432", "the user likes the dark", "the end"))

    assert max(found, key=lambda identity: found[identity]) == "p0"
    assert found["p1"] == found["p2"] < found["p0"]


def test_what_shares_no_word_is_not_found() -> None:
    assert relevance("colour", percepts("likes tabs")) == {}


def test_case_width_and_punctuation_are_set_aside() -> None:
    assert set(relevance("ＰＯＲＴ, please!", percepts("Port: 5432"))) == {"p0"}


def test_scripts_without_spaces_are_compared_by_pairs() -> None:
    assert terms("数据库端口5432") == {"数据", "据库", "库端", "端口", "5432"}
    assert set(relevance("端口", percepts("数据库端口是5432", "用户喜欢深色"))) == {"p0"}
