"""Continuation tokens, as the cases of the lifetime convention have them (page 5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.continuation import Tokens
from orchestrator.errors import TokenRefused

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TTL = timedelta(minutes=30)
BINDING = ("session", "task", "request")
MINE = Tokens(b"k" * 32)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def test_h8_a_token_counts_to_its_end_whatever_uses_it() -> None:
    token = MINE.mint(BINDING, now=START, ttl=TTL)

    for _ in range(3):
        assert MINE.read(token.text, BINDING, now=at(29)).expires_at == at(30)
    with pytest.raises(TokenRefused, match="expired"):
        MINE.read(token.text, BINDING, now=at(31))
    assert MINE.mint(BINDING, now=at(29), ttl=TTL, after=token).expires_at == at(59)


def test_h8_it_ends_at_the_millisecond() -> None:
    token = MINE.mint(BINDING, now=START, ttl=TTL)

    assert MINE.read(token.text, BINDING, now=at(30) - timedelta(milliseconds=1))
    with pytest.raises(TokenRefused):
        MINE.read(token.text, BINDING, now=at(30))


@given(st.integers(0, 200), st.sampled_from(["flip", "cut", "add"]))
def test_h9_one_that_was_changed_anywhere_is_refused(place: int, how: str) -> None:
    token = MINE.mint(BINDING, now=START, ttl=TTL).text
    place %= len(token)
    other = "A" if token[place] != "A" else "B"
    changed = {"flip": token[:place] + other + token[place + 1 :], "cut": token[:place], "add": token[:place] + "A" + token[place:]}[how]

    with pytest.raises(TokenRefused):
        MINE.read(changed, BINDING, now=START)


@pytest.mark.parametrize("garbage", ["", "x", "é", "a.b.c", "A" * 5000, "\x00", "====", "💥"])
def test_h9_what_is_no_token_is_refused(garbage: str) -> None:
    with pytest.raises(TokenRefused):
        MINE.read(garbage, BINDING, now=START)


@pytest.mark.parametrize("binding", [("other", "task", "request"), ("session", "task", "other"), ("session", "taskrequest"), ("session", "task"), ()])
def test_h9_one_for_another_session_or_request_is_refused(binding: tuple[str, ...]) -> None:
    token = MINE.mint(BINDING, now=START, ttl=TTL)

    with pytest.raises(TokenRefused, match="something else"):
        MINE.read(token.text, binding, now=START)


def test_h9_one_of_another_process_is_refused() -> None:
    with pytest.raises(TokenRefused, match="none of ours"):
        Tokens().read(Tokens().mint(BINDING, now=START, ttl=TTL).text, BINDING, now=START)


@pytest.mark.parametrize("binding", [(), ("",), ("session", "")])
def test_h9_none_is_minted_for_nothing(binding: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="bound to nothing"):
        MINE.mint(binding, now=START, ttl=TTL)


def test_h10_two_of_one_moment_differ_and_the_rounds_go_on_inside() -> None:
    first, second = (MINE.mint(BINDING, now=START, ttl=TTL) for _ in range(2))
    assert first.text != second.text

    read = MINE.read(first.text, BINDING, now=at(1))
    third = MINE.mint(BINDING, now=at(1), ttl=TTL, after=read)

    assert (first.rounds, third.rounds, MINE.read(third.text, BINDING, now=at(1)).rounds) == (1, 2, 2)
