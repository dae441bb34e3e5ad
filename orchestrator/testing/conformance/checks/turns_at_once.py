"""Two turns at once know nothing of each other."""

from __future__ import annotations

from orchestrator.testing.conformance.checks.check import Check
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault

FIRST, SECOND = "The first one said this", "A robin."


def apart(stage: Stage) -> None:
    if not stage.harness.exact:
        raise CannotPlay("the backend may take one turn after the other, and its words are its own")
    first = stage.in_the_middle(FIRST)
    stage.harness.answers(SECOND)
    second = stage.run()
    second.succeeded()
    if second.answer != SECOND:
        raise Fault(f"beside another turn, {SECOND!r} came as {second.answer!r}")
    if first.ended(0):
        raise Fault(f"a second turn ended the first: {first.error!r}")
    if not FIRST.startswith(first.shown):
        raise Fault(f"beside another turn, {FIRST!r} came as {first.shown!r}")


def cancelled_apart(stage: Stage) -> None:
    if not stage.harness.exact:
        raise CannotPlay("the backend may take one turn after the other")
    first, second = stage.in_the_middle(FIRST), stage.in_the_middle(SECOND)
    first.stop(stage.harness.release_limit)
    if second.ended(stage.harness.pace):
        raise Fault(f"cancelling one turn ended another one: {second.error!r}")


CHECKS = (
    Check("at_once.apart", "two turns at once do not mix", apart, needs=("streaming.early",)),
    Check("at_once.cancel", "cancelling one leaves the other alone", cancelled_apart, needs=("at_once.apart", "cancel.silence")),
)
