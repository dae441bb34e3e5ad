"""What is made of what a provider's `check` answers."""

from __future__ import annotations

from orchestrator.cli.checks import result_of
from orchestrator.probes.side_by_side import Answered


def test_no_answer_in_time_and_an_answer_that_is_none_are_two_things() -> None:
    assert result_of(Answered(late=True), 20).detail == "no answer within 20 s"
    assert result_of(Answered(value=None), 20).detail == "its plugin answers with NoneType instead of a CheckResult"
