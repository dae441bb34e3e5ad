"""Questions asked at once."""

from __future__ import annotations

import threading

from orchestrator.probes.side_by_side import Answered, side_by_side


def test_what_hangs_holds_up_nobody() -> None:
    never = threading.Event()
    answers = side_by_side({"hangs": never.wait, "quick": lambda: True}, seconds=0.2)
    never.set()
    assert answers == {"hangs": Answered(late=True), "quick": Answered(value=True)}


def test_an_error_is_an_answer() -> None:
    def leave() -> None:
        raise SystemExit(3)

    (answer,) = side_by_side({"leaves": leave}, seconds=5).values()
    assert isinstance(answer.error, SystemExit)


def test_questions_are_asked_at_once() -> None:
    barrier = threading.Barrier(5)
    answers = side_by_side({str(number): barrier.wait for number in range(5)}, seconds=5)
    assert sorted(answer.value for answer in answers.values() if answer.value is not None) == [0, 1, 2, 3, 4]
