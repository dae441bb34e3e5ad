"""The three timers of a turn, each of which ends it with its own name."""

from __future__ import annotations

from typing import Literal

from orchestrator.errors import TimedOut
from orchestrator.providers import Timeouts
from orchestrator.testing.conformance.checks.check import Check, streams
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault

_SLACK = 1.0


def first_byte(stage: Stage) -> None:
    stage.harness.hangs()
    _ends(stage, Timeouts(stage.harness.pace, 60, 120), "first_byte", stage.harness.pace)


def idle(stage: Stage) -> None:
    if not stage.harness.exact:
        raise CannotPlay("the backend does not fall silent at will")
    stage.harness.hangs("A wren")
    error = _ends(stage, Timeouts(60, stage.harness.pace, 120), "idle", None)
    if not "A wren".startswith(error.partial.strip()):
        raise Fault(f"what had come is not kept as the error's partial text: {error.partial!r}")


def turn(stage: Stage) -> None:
    try:
        stage.harness.talks_on()
    except CannotPlay:
        stage.harness.hangs("A wren")
    _ends(stage, Timeouts(60, 60, stage.harness.pace * 2), "turn", stage.harness.pace * 2)


def _ends(stage: Stage, timeouts: Timeouts, which: Literal["first_byte", "idle", "turn"], seconds: float | None) -> TimedOut:
    """The turn's end by that timer, neither before its time nor long after it."""
    running = stage.begin(stage.request(timeouts=timeouts))
    if seconds is None:
        stage.begun(running)  # how long the backend takes to begin is its own affair
    limit = (seconds or stage.harness.pace) + stage.harness.release_limit + _SLACK
    if not running.ended(limit):
        raise Fault(f"the timer {which} was {seconds or stage.harness.pace:g} s, and after {limit:g} s the turn had not ended")
    error = running.failed_as(TimedOut)
    if not isinstance(error, TimedOut) or error.which != which:
        raise Fault(f"it was ended by the timer {which}, and says {getattr(error, 'which', None)}")
    if seconds is not None and (running.ended_at or 0.0) - running.started_at < seconds * 0.9:
        raise Fault(f"it ended before the timer {which} of {seconds:g} s was over")
    return error


CHECKS = (
    Check("timers.first_byte", "silence before the answer ends by `first_byte`", first_byte, streams),
    Check("timers.idle", "silence within the answer ends by `idle`", idle, streams, ("streaming.early",)),
    Check("timers.turn", "an answer without end ends by `turn`", turn),
)
