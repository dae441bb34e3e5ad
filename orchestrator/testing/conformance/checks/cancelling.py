"""Cancelling: in time, whatever the backend does, and with nothing left open."""

from __future__ import annotations

from orchestrator.errors import Cancelled
from orchestrator.providers import Cancel, Request, TextDelta
from orchestrator.testing.conformance.checks.check import Check, streams
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault, Turn


def before(stage: Stage) -> None:
    stage.harness.answers(ANSWER)
    calls = stage.harness.calls()
    cancel = Cancel()
    cancel.set()
    stage.over(stage.begin(cancel=cancel), stage.harness.release_limit + 1).failed_as(Cancelled)
    if stage.harness.calls() != calls:
        raise Fault("it was cancelled before it began, and sent its call all the same")


def in_silence(stage: Stage) -> None:
    _in_silence(stage).stop(stage.harness.release_limit)


def in_the_stream(stage: Stage) -> None:
    stage.harness.hangs("A wren")
    stage.begun(stage.begin()).stop(stage.harness.release_limit)


def in_a_flood(stage: Stage) -> None:
    stage.harness.talks_on()
    stage.begun(stage.begin()).stop(stage.harness.release_limit)


def nothing_left(stage: Stage) -> None:
    request = stage.request()
    _warm(stage)
    with stage.leaves_nothing(request):
        _in_silence(stage, request).stop(stage.harness.release_limit)


def closed(stage: Stage) -> None:
    _warm(stage)
    stage.harness.hangs("A wren")
    request = stage.request()
    with stage.leaves_nothing(request):
        turn = stage.begin(request, leave=lambda event: isinstance(event, TextDelta))
        if not turn.ended(stage.harness.limit):
            raise Fault("its iterator was closed behind the first piece, and did not return")
        if turn.error is not None:
            raise Fault(f"its iterator was closed behind the first piece, and raised {turn.error!r}")


def after_an_answer(stage: Stage) -> None:
    _warm(stage)
    stage.harness.answers(ANSWER)
    request = stage.request()
    with stage.leaves_nothing(request):
        stage.run(request).succeeded()


def after_a_failure(stage: Stage) -> None:
    _warm(stage)
    stage.harness.breaks("A wren")
    request = stage.request()
    with stage.leaves_nothing(request):
        stage.run(request)


def _in_silence(stage: Stage, request: Request | None = None) -> Turn:
    """A turn whose backend has been asked and says nothing."""
    return stage.in_the_middle("", request)


def _warm(stage: Stage) -> None:
    """A first turn opens what a process opens once and keeps."""
    stage.harness.answers(ANSWER)
    stage.run().succeeded()


CHECKS = (
    Check("cancel.before", "a turn that was cancelled before it began sends nothing", before),
    Check("cancel.stream", "it ends in time in the middle of an answer", in_the_stream, streams, ("streaming.early",)),
    Check("cancel.silence", "it ends in time while the backend says nothing", in_silence, needs=("streaming.answer", "cancel.stream")),
    Check("cancel.flood", "it ends in time while the backend never pauses", in_a_flood, streams, ("streaming.early", "cancel.stream")),
    Check("cancel.nothing_left", "a cancelled turn leaves no thread, program, socket or pipe", nothing_left, needs=("leftovers.answer", "cancel.silence")),
    Check("cancel.closed", "an iterator that is closed lets go of everything", closed, streams, ("streaming.early", "leftovers.answer")),
    Check("leftovers.answer", "a turn that succeeded leaves nothing open", after_an_answer),
    Check("leftovers.failure", "a turn whose connection broke leaves nothing open", after_a_failure, needs=("leftovers.answer", "truncation.broken")),
)
