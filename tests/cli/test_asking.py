"""The command that answers a question, as it is told."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta

from orchestrator.asking import how_to_answer
from orchestrator.lifetimes import begun
from orchestrator.providers import Question
from orchestrator.questions import StoredQuestion


def told(*names: str) -> str:
    question = Question("Say", mode="form", schema={"properties": {name: {"type": "string"} for name in names}})
    life = begun(datetime(2026, 1, 1, tzinfo=UTC), ttl=timedelta(seconds=1), max_age=timedelta(seconds=1))
    return how_to_answer(StoredQuestion("0123456789", question, life, timedelta(days=1)))


def test_it_names_the_fields() -> None:
    assert told("colour", "size") == "escalera questions answer 01234567 --accept colour=… size=…, --decline or --cancel"


def test_a_field_that_a_shell_would_take_for_a_command_is_quoted() -> None:
    assert shlex.split(told("a; rm -rf ~", "$(reboot)", "`id`"))[4:8] == ["--accept", "a; rm -rf ~=…", "$(reboot)=…", "`id`=…,"]


def test_many_fields_are_not_named() -> None:
    assert "--accept '{…}'," in told(*"abcdefgh")
