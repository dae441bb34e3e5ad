"""An answer that was cut off is never taken for one."""

from __future__ import annotations

from orchestrator.errors import EmptyAnswer, Incomplete, ProtocolError, Unavailable
from orchestrator.testing.conformance.checks.check import Check
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault

SAID = "A wren, a robin"


def broken(stage: Stage) -> None:
    """A provider that does not stream has shown nothing by then, and may take it for a backend that does not work."""
    stage.harness.breaks(SAID)
    turn = stage.run()
    error = turn.failed_as(*((Incomplete,) if stage.provider.capabilities.streams else (Incomplete, Unavailable, ProtocolError)))
    if turn.has_begun and not error.partial:
        raise Fault("what had come is not kept as the error's partial text")
    if stage.harness.exact and not SAID.startswith(error.partial.strip()):
        raise Fault(f"the backend said {SAID!r}, and the partial text is {error.partial!r}")


def anywhere(stage: Stage) -> None:
    data = stage.harness.wire(ANSWER)
    for place in _places(len(data), stage.harness.samples):
        stage.harness.writes([data[:place]])
        turn = stage.run()
        if turn.error is None:
            turn.succeeded()
            if turn.answer != ANSWER:
                raise Fault(f"cut behind {place} of {len(data)} bytes, it ended as success with {turn.answer!r}")
            continue
        error = turn.failed_as(Incomplete, EmptyAnswer, ProtocolError, Unavailable)
        if turn.has_begun and not isinstance(error, Incomplete):
            raise Fault(f"cut behind {place} of {len(data)} bytes, with a part of the answer shown, it raised {type(error).__name__} instead of Incomplete")


def _places(size: int, samples: int) -> list[int]:
    """Where to cut: everywhere, or at so many places, the last bytes among them, where end marks stand."""
    if samples <= 0 or samples >= size:
        return list(range(size))
    spread = {size * step // samples for step in range(samples)}
    return sorted(spread | {size - back for back in (1, 2, 3, 8) if size > back})


CHECKS = (
    Check("truncation.broken", "an answer that breaks off is `Incomplete`, with what had come", broken),
    Check("truncation.anywhere", "cut at any byte, it is the full answer or an error, never less as success", anywhere, needs=("truncation.broken",)),
)
