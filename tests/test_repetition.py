"""When a prompt asks the same thing again."""

from __future__ import annotations

import pytest

from orchestrator.repetition import asked_before
from orchestrator.session import Outcome, Role, Turn, TurnList

ASKED = "Why does the build of parser.py fail?"


def again(prompt: str, *turns: Turn | str, among: int = 3) -> int | None:
    log = [Turn(index, Role.PRIMARY, "local", turn) if isinstance(turn, str) else turn for index, turn in enumerate(turns)]
    found = asked_before(prompt, TurnList(log), among)
    return None if found is None else found.index


@pytest.mark.parametrize(
    "prompt",
    [
        ASKED,
        "why  does the BUILD of `parser.py` fail?!",
        "Why does the build of parser.py still fail?",
        "please: why does the build of parser.py fail",
        "ビルドはなぜ失敗するのですか、教えてください",
    ],
)
def test_the_same_words_in_their_order_are_the_same_question(prompt: str) -> None:
    assert again(prompt, ASKED if prompt.isascii() else "ビルドはなぜ失敗するのですか。教えてください") == 0


@pytest.mark.parametrize(
    ("before", "prompt"),
    [
        (ASKED, "Why does the build of lexer.py fail?"),
        (ASKED, "Why does the test of parser.py fail?"),
        (ASKED, "Why does the build of parser.py fail, and what shall I do about the other one?"),
        ("explain the first 3 lines of it", "explain the first 4 lines of it"),
        ("explain it to me once more", "explain it to me once more 2"),
        ("go on", "go on"),
        ("run the tests", "run the tests"),
        ("a b c d", "a b c d"),
        ("", ASKED),
    ],
)
def test_another_word_another_number_and_what_is_too_short_are_not(before: str, prompt: str) -> None:
    assert again(prompt, before) is None


def test_only_the_last_prompts_count_and_only_those_that_came_to_something() -> None:
    others = ["thank you very much for it", "and what is that thing there"]

    assert again(ASKED, ASKED, *others) == 0
    assert again(ASKED, ASKED, *others, among=2) is None
    assert again(ASKED, ASKED, among=0) is None
    assert again(ASKED, Turn(0, Role.PRIMARY, "local", ASKED, outcome=Outcome.FAILED)) is None
    handed = Turn(0, Role.PRIMARY, "local", ASKED, outcome=Outcome.ESCALATED), Turn(1, Role.ESCALATION, "strong", None, continues=0)
    assert again(ASKED, *handed) == 0
    assert again(ASKED, *handed, among=1) == 0


def test_what_nobody_types_again_is_not_compared() -> None:
    assert again("word " * 10_000, "word " * 10_000) is None
