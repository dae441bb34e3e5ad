"""What the built-in sensors see in a prompt, and that each may have no opinion."""

from __future__ import annotations

import time

import pytest

from orchestrator.hookspecs import Sensing
from orchestrator.sensors import SENSORS, escalera_routing_signals
from orchestrator.settings.declarations import BY_PATH, QUESTION_WORDS, VERBS

ALL = Sensing(100, ("data loss", "GDPR", "C++"), VERBS, QUESTION_WORDS, dict.fromkeys(SENSORS, 0.5))


def seen(prompt: str, sensing: Sensing = ALL) -> dict[str, str]:
    return {signal.name: signal.detail for signal in escalera_routing_signals(prompt, sensing)}


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("hello", {}),
        ("x" * 100, {"long_prompt": "100 characters"}),
        ("we fear Data\n  Loss, by the gdpr", {"keywords": "data loss, GDPR"}),
        ("in c++, please", {"keywords": "C++"}),
        ("Refactor and debug it, then refactor again", {"verbs": "refactor, debug"}),
        ("the refactoring was debugged; a reviewer designs", {}),
        ("what does `x = 1` do", {"code": "code between backticks or in a fence"}),
        ("~~~\ncode\n~~~", {"code": "code between backticks or in a fence"}),
        ("a lone ` is none, nor are `` two", {}),
        ("see src/parser.py, (/etc/hosts) and `./run`.", {"paths": "3 paths", "code": "code between backticks or in a fence"}),
        (r"open C:\notes.txt", {"paths": "a path"}),
        ("and/or, 1/2, https://example.com/a/b.html, 24/7", {}),
        ("Why does it fail?", {"open_questions": "why"}),
        ("Why it fails is clear. Does it work?", {}),
        ("What   if it rains？", {"open_questions": "what if"}),
        ("show me how", {}),
        ('He asks: "how?!" Yes.', {"open_questions": "how"}),
        ("why? is it so", {"open_questions": "why"}),
        ("is it a.b?why", {}),
    ],
)
def test_each_sensor_sees_its_own_and_nothing_else(prompt: str, expected: dict[str, str]) -> None:
    assert seen(prompt) == expected


def test_a_sensor_without_a_weight_or_without_words_has_no_opinion() -> None:
    prompt = "Why refactor src/a.py, GDPR? " + "`x` " * 100

    assert set(seen(prompt)) == set(SENSORS)
    for name in SENSORS:
        assert name not in seen(prompt, Sensing(100, ALL.keywords, VERBS, QUESTION_WORDS, {**ALL.weights, name: 0}))
    assert set(seen(prompt, Sensing(weights=ALL.weights))) == {"code", "paths"}
    assert seen(prompt, Sensing(0, ("", " "), (), (), {"keywords": 1})) == {}


def test_what_is_seen_is_told_in_words_of_the_settings_alone() -> None:
    seen_nowhere = "sk-live-0123456789abcdef"
    prompt = f"Why refactor /srv/{seen_nowhere}/x.py with `{seen_nowhere}` and {seen_nowhere} for GDPR?" + " " * 100

    assert seen_nowhere not in repr(seen(prompt))


def test_no_weight_that_a_user_has_not_set_counts_but_that_of_what_he_lists() -> None:
    weights = {name: BY_PATH[f"routing.{name}_weight"].default for name in SENSORS}

    assert {name for name, weight in weights.items() if weight} == {"long_prompt", "keywords"}
    assert (BY_PATH["routing.long_prompt_chars"].default, BY_PATH["routing.keywords"].default) == (0, ())


@pytest.mark.parametrize("piece", ["a/", "`", "? why", "/", "refactor ", "data loss", "~", "x" * 50, "?", "?x", "\n"])
def test_a_huge_prompt_is_looked_at_in_a_time_that_grows_with_its_length(piece: str) -> None:
    def took(length: int) -> float:
        prompt = piece * (length // len(piece))
        began = time.thread_time()
        seen(prompt)
        return time.thread_time() - began

    took(1000)
    small, large = min(took(50_000) for _ in range(3)), min(took(800_000) for _ in range(2))
    assert large < 16 * 6 * max(small, 0.001)
