"""The command that answers a question, as it is told."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.asking import how_to_answer
from orchestrator.cli.asking import AtTerminal
from orchestrator.lifetimes import Lifespan, begun
from orchestrator.providers import Answer, Question
from orchestrator.questions import Given, StoredQuestion


def told(*names: str) -> str:
    question = Question("Say", mode="form", schema={"properties": {name: {"type": "string"} for name in names}})
    return how_to_answer(StoredQuestion("0123456789", question, _life(), timedelta(days=1)))


def _life() -> Lifespan:
    return begun(datetime(2026, 1, 1, tzinfo=UTC), ttl=timedelta(seconds=1), max_age=timedelta(seconds=1))


class Keyboard(io.StringIO):
    """Stands for stderr: at each prompt the next line is typed."""

    def __init__(self) -> None:
        super().__init__()
        self.stdin, self._typing = os.pipe()
        self.lines: list[str] = []

    def write(self, text: str) -> int:
        if text.endswith(": "):
            os.write(self._typing, f"{self.lines.pop(0)}\n".encode())
        return super().write(text)


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    board = Keyboard()
    yield board
    os.close(board._typing)


class Waiting:
    """A question that stands until it is answered."""

    left = 60.0

    def __init__(self, stored: StoredQuestion) -> None:
        self.stored = stored

    def ended(self) -> None:
        return None

    def read(self) -> None:
        return None

    def answer(self, answer: Answer) -> StoredQuestion:
        return replace(self.stored, given=Given(answer, datetime(2026, 1, 1, tzinfo=UTC)))


def test_it_names_the_fields() -> None:
    assert told("colour", "size") == "escalera questions answer 01234567 --accept colour=… size=…, --decline or --cancel"


def test_a_field_that_a_shell_would_take_for_a_command_is_quoted() -> None:
    assert shlex.split(told("a; rm -rf ~", "$(reboot)", "`id`"))[4:8] == ["--accept", "a; rm -rf ~=…", "$(reboot)=…", "`id`=…,"]


def test_many_fields_are_not_named() -> None:
    assert "--accept '{…}'," in told(*"abcdefgh")


@pytest.mark.parametrize(
    ("typed", "content"),
    [
        (["1"], {"decision": "once"}),
        (["always", ""], {"decision": "always", "pattern": "make *"}),
        (["2", "make test *"], {"decision": "always", "pattern": "make test *"}),
        (["no", ""], {"decision": "no"}),
        (["3", "not now"], {"decision": "no", "because": "not now"}),
    ],
)
def test_a_field_is_asked_for_only_where_it_means_something(
    monkeypatch: pytest.MonkeyPatch, keyboard: Keyboard, typed: list[str], content: dict[str, str]
) -> None:
    schema = {
        "properties": {
            "decision": {"type": "string", "enum": ["once", "always", "no"]},
            "pattern": {"type": "string", "default": "make *", "x-when": {"decision": ["always"]}},
            "because": {"type": "string", "x-when": {"decision": ["no"]}},
        },
        "required": ["decision"],
    }
    stored = StoredQuestion("q1", Question("May it?", mode="form", schema=schema), _life(), timedelta(days=1))
    with os.fdopen(keyboard.stdin) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stderr", keyboard)
        keyboard.lines = typed

        ended = AtTerminal(nullcontext, moves=False)(Waiting(stored))

    assert ended.given is not None
    assert ended.given.answer == Answer("accept", content)
    assert keyboard.lines == []
