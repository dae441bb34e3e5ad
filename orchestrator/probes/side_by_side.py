"""Several questions at once, none of which can hold up the others or the program."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """What came of one: a value, an error, or neither within the time."""

    value: T | None = None
    error: BaseException | None = None
    late: bool = False


def side_by_side(questions: Mapping[str, Callable[[], T]], *, seconds: float) -> dict[str, Answered[T]]:
    """The answers by name, after so many seconds at most. What has not answered by then goes on unheard until the program ends."""
    answers: dict[str, Answered[T]] = {}
    threads = [threading.Thread(target=_ask, args=(name, question, answers), daemon=True) for name, question in questions.items()]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name, Answered(late=True)) for name in questions}


def _ask(name: str, question: Callable[[], T], answers: dict[str, Answered[T]]) -> None:
    try:
        answers[name] = Answered(value=question())
    except BaseException as error:  # nobody else would ever hear of it: the one who asked reports it
        answers[name] = Answered(error=error)
