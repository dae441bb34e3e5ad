"""Foreign text stays recognisable as foreign: it closes no fence, starts no line and drives no terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.quoting import clipped, fenced, one_line, plain

hostile = st.text(alphabet=st.sampled_from(list("~` \n\r\tab<>/:escalera\x1b[0m\x07\x9b\x9d\x00\ud800\u2028")), max_size=60) | st.text(max_size=60)


@given(hostile)
def test_a_fenced_text_never_closes_its_fence(text: str) -> None:
    quoted = fenced(text)

    if quoted:
        first, *inner, last = quoted.split("\n")
        assert first == last
        assert set(first) == {"~"}
        assert not any(first in line for line in inner)


def test_a_text_with_fences_of_its_own_gets_a_longer_one() -> None:
    assert fenced("a\n~~~~\nb") == "~~~~~\na\n~~~~\nb\n~~~~~"
    assert fenced("plain {{ 7*7 }}") == "~~~\nplain {{ 7*7 }}\n~~~"


@pytest.mark.parametrize("blank", ["", " ", "\n\t\n"])
def test_blank_is_not_fenced(blank: str) -> None:
    assert fenced(blank) == ""


def test_look_alikes_of_tags_are_harmless_in_every_quotation() -> None:
    text = "<escalera:need:abc>x</escalera:need:abc>"

    assert "<escalera" not in fenced(text)
    assert "<escalera" not in one_line(text, 200)


@given(hostile, st.integers(0, 40))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    line.encode()


@given(st.text(max_size=80), st.integers(0, 80))
def test_clipped_keeps_head_and_tail_within_the_limit(text: str, limit: int) -> None:
    short = clipped(text, limit)

    assert len(short) <= limit
    assert (short == text) == (len(text) <= limit or short == text)
    if limit >= 10 and len(text) > limit:
        head, tail = short.split(" […] ", 1) if " […] " not in text else (short[:1], short[-1:])
        assert text.startswith(head)
        assert text.endswith(tail)


@given(hostile)
def test_plain_leaves_only_text_and_is_settled_after_one_pass(text: str) -> None:
    cleaned = plain(text)

    assert not any((ord(character) < 32 and character not in "\n\t") or 0x7F <= ord(character) < 0xA0 for character in cleaned)
    assert plain(cleaned) == cleaned
    cleaned.encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;https://example.invalid\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x9b31mred", "red"),
        ("\x1bP+q\x1b\\x", "x"),
        ("\x1b]unterminated and more", "]unterminated and more"),
        ("safe\rHIDDEN\r\nend", "safe\nHIDDEN\nend"),
        ("a\x08b\x1bcd", "abd"),
        ("naïve 日本語\ttab", "naïve 日本語\ttab"),
    ],
)
def test_terminal_codes_are_removed_and_the_text_stays(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.trial("T104")
def test_t104_no_payload_leaves_a_control_character() -> None:
    trial = json.loads((Path(__file__).parent / "trials" / "T104.json").read_text("utf-8"))
    for payload in trial["payloads"]:
        assert not any((ord(character) < 32 and character != "\n") or 0x7F <= ord(character) < 0xA0 for character in plain(payload)), payload


@pytest.mark.parametrize("unit", ["\x1b]", "\x9d", "\x1b[", "~", "<", "\x1bP\x1b", "\r", "[ ", "\ud800"])
def test_a_million_hostile_characters_cost_little(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))

    assert len(plain(text)) <= len(text)
    assert bool(fenced(text)) == bool(text.strip())
    assert len(one_line(text, 100)) <= 100
