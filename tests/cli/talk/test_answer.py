"""An answer cut into blocks while it comes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.talk.answer import Answer

PIECES = ["word ", "\n", "\n\n", "```\n", "````\n", "~~~\n", "  indented", "- item\n", "    code\n", "| a |\n", " ", "\t"]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=40)


def blocks(text: str, cuts: int = 1) -> list[str]:
    answer = Answer(shown=10_000)
    found = [block for start in range(0, len(text), cuts) for block in answer.feed(text[start : start + cuts])]
    return [*found, answer.rest()]


@given(MARKDOWN, st.integers(1, 9))
def test_the_blocks_are_the_text_wherever_it_is_cut(pieces: list[str], cuts: int) -> None:
    text = "".join(pieces)
    assert "".join(blocks(text, cuts)) == text
    assert blocks(text, cuts) == blocks(text, 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("one\ntwo\n\nthree", ["one\ntwo\n\n", "three"]),
        ("one\n\n  still one\n\nthree", ["one\n\n  still one\n\n", "three"]),
        ("```\na\n\nb\n```\n\nthen", ["```\na\n\nb\n```\n\n", "then"]),
        ("````\n```\n\n````\n\nthen", ["````\n```\n\n````\n\n", "then"]),
        ("~~~\n```\n\n~~~\n\nthen", ["~~~\n```\n\n~~~\n\n", "then"]),
        ("```\nnever closed\n\nso it goes on", ["```\nnever closed\n\nso it goes on"]),
        ("", [""]),
    ],
)
def test_blocks_end_at_blank_lines_outside_fences(text: str, found: list[str]) -> None:
    assert blocks(text) == found


def test_the_growing_rest_is_seen_up_to_a_length() -> None:
    answer = Answer(shown=5)
    answer.feed("1234")
    answer.feed("56789")
    assert answer.tail == "56789"


def test_a_block_without_end_takes_time_in_proportion() -> None:
    def taken(pieces: int) -> float:
        answer, began = Answer(shown=100), time.thread_time()
        for _ in range(pieces):
            answer.feed("token ")
        return time.thread_time() - began

    taken(1000)
    assert taken(80_000) < 40 * max(taken(8_000), 0.001)
