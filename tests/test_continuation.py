"""Continuation tokens: signed, bound, minted anew and never lengthened (H8 to H10)."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.continuation import Tokens
from orchestrator.errors import TokenRefused

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TTL = timedelta(minutes=30)
THIS = ["session", "request"]
MINUTE = timedelta(minutes=1)


def test_h8_a_token_counts_until_its_expiry_and_use_does_not_move_it() -> None:
    tokens = Tokens()
    token = tokens.mint(THIS, now=START, ttl=TTL)

    used = [tokens.read(token.text, THIS, now=START + minutes * MINUTE) for minutes in (1, 15, 29)]

    assert {one.expires_at for one in used} == {START + TTL}
    for late in (30, 31):
        with pytest.raises(TokenRefused, match="expired"):
            tokens.read(token.text, THIS, now=START + late * MINUTE)


def test_h8_only_a_new_mint_expires_later() -> None:
    tokens = Tokens()
    token = tokens.mint(THIS, now=START, ttl=TTL)

    again = tokens.mint(THIS, now=START + 29 * MINUTE, ttl=TTL, after=tokens.read(token.text, THIS, now=START + 29 * MINUTE))

    assert again.expires_at == START + 59 * MINUTE
    with pytest.raises(TokenRefused):
        tokens.read(token.text, THIS, now=START + 31 * MINUTE)


@given(st.data())
def test_h9_a_token_that_was_changed_anywhere_is_refused(data: st.DataObject) -> None:
    tokens = Tokens(b"k" * 32)
    text = tokens.mint(THIS, now=START, ttl=TTL).text
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("abcXYZ019-_=+/ é\ud800").filter(lambda letter: letter != text[place]))

    for changed in (text[:place] + other + text[place + 1 :], text[:place], text + other, text[:place] + other + text[place:]):
        with pytest.raises(TokenRefused):
            tokens.read(changed, THIS, now=START)


@pytest.mark.parametrize("binding", [["session", "other"], ["request", "session"], ["session"], ["session", "request", "more"], ["session request"], []])
def test_h9_a_token_for_something_else_is_refused(binding: list[str]) -> None:
    tokens = Tokens()
    text = tokens.mint(THIS, now=START, ttl=TTL).text

    with pytest.raises(TokenRefused, match="something else"):
        tokens.read(text, binding, now=START)


def test_h9_a_token_of_another_process_is_refused() -> None:
    with pytest.raises(TokenRefused):
        Tokens().read(Tokens().mint(THIS, now=START, ttl=TTL).text, THIS, now=START)


@pytest.mark.parametrize("binding", [[], [""], ["session", ""]])
def test_h9_nothing_is_minted_for_an_empty_binding(binding: list[str]) -> None:
    with pytest.raises(ValueError, match="bound to nothing"):
        Tokens().mint(binding, now=START, ttl=TTL)


def test_h10_two_tokens_of_one_moment_differ_and_the_rounds_are_ours() -> None:
    tokens = Tokens()
    first, second = (tokens.mint(THIS, now=START, ttl=TTL) for _ in range(2))
    assert first.text != second.text

    third = tokens.mint(THIS, now=START, ttl=TTL, after=tokens.read(first.text, THIS, now=START))
    assert [first.rounds, third.rounds, tokens.read(third.text, THIS, now=START).rounds] == [1, 2, 2]

    content = base64.urlsafe_b64decode(third.text + "==")
    body = json.loads(content[:-32])
    body[2] = 1
    forged = base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode() + content[-32:]).rstrip(b"=").decode()
    with pytest.raises(TokenRefused):
        tokens.read(forged, THIS, now=START)
