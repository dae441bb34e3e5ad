"""The answer: whole, in order, in pieces that add up, as they come; and what was withdrawn stays so."""

from __future__ import annotations

from orchestrator.messages import Reasoning
from orchestrator.providers import Finished, MessageDone, ReasoningDelta, TextDelta, Withdrawn
from orchestrator.testing.conformance.checks.check import Check, streams
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault, Turn

ANSWER = "Three birds: a wren, a robin and a jay."
HARD = 'naïve 日本語 🜂 e\u0301, a line\u2028and\nanother, "quoted" \\ back, \x1b[31mred\x1b[0m, <b>&amp;</b> data: {"a": 1}'
SPACED = "  A wren,\t\n\n    a robin \n"
THOUGHT = "Small, brown, and loud. "
VOID, COUNTS = "Let me see. No, not so.", "It is a wren."


def answer(stage: Stage) -> None:
    stage.harness.answers(ANSWER)
    turn = stage.run().succeeded()
    _says(stage, turn, ANSWER)
    if not isinstance(turn.events[-1], Finished):
        raise Fault(f"`Finished` is not the last event: {type(turn.events[-1]).__name__} comes after it")
    ends = sum(isinstance(event, Finished) for event in turn.events)
    if ends != 1:
        raise Fault(f"`Finished` came {ends} times")
    if turn.finished is not None and turn.finished.reason not in ("stop", "length" if not stage.harness.exact else "stop"):
        raise Fault(f"a plain answer finished with {turn.finished.reason!r} instead of 'stop'")


def pieces(stage: Stage) -> None:
    stage.harness.answers(ANSWER)
    turn = stage.run().succeeded()
    if turn.shown != turn.answer:
        raise Fault(f"the pieces that were shown add up to {turn.shown!r}, and the message is {turn.answer!r}")
    if len(turn.deltas) < 1:
        raise Fault("it claims to stream, and no piece of the text was shown")
    done = next(index for index, event in enumerate(turn.events) if isinstance(event, MessageDone))
    if any(isinstance(event, TextDelta) for event in turn.events[done:]):
        raise Fault("a piece of the text came behind its message")


def early(stage: Stage) -> None:
    stage.harness.hangs("A wren")
    turn = stage.begun(stage.begin())
    if not stage.harness.exact:
        return
    if not turn.until(lambda one: one.shown.startswith("A wren"[:1]), 1.0):
        raise Fault(f"of 'A wren' {turn.shown!r} was shown")


def unharmed(stage: Stage) -> None:
    if not stage.harness.exact:
        raise CannotPlay("the backend's words are its own")
    text = carried(stage, HARD)
    stage.harness.answers(text)
    _says(stage, stage.run().succeeded(), text)


def whitespace(stage: Stage) -> None:
    """Pieces of a text begin and end with it, and so may the text."""
    if not stage.harness.exact:
        raise CannotPlay("the backend's words are its own")
    text = carried(stage, SPACED)
    stage.harness.answers(text)
    _says(stage, stage.run().succeeded(), text)


def split(stage: Stage) -> None:
    text = carried(stage, HARD)
    data = stage.harness.wire(text)
    stage.harness.writes([data[place : place + 1] for place in range(len(data))])
    _says(stage, stage.run().succeeded(), text)


def withdrawn(stage: Stage) -> None:
    stage.harness.withdraws(VOID, COUNTS)
    turn = stage.run().succeeded()
    if VOID in turn.answer:
        raise Fault(f"what was withdrawn is in the message: {turn.answer!r}")
    if stage.provider.capabilities.streams and VOID[:8] in turn.shown:
        raise Fault(f"what was withdrawn was shown and never taken back, or shown again: {turn.shown!r}")
    if stage.harness.exact and (turn.answer != COUNTS or turn.shown not in ("", COUNTS)):
        raise Fault(f"what counts is {COUNTS!r}; the message is {turn.answer!r}, shown was {turn.shown!r}")
    if any(isinstance(event, Withdrawn) for event in turn.events) and not any(isinstance(event, TextDelta) for event in turn.events):
        raise Fault("it withdrew what it had never shown")


def unclaimed(stage: Stage) -> None:
    """A provider that shows pieces and does not say so is held to none of what streaming asks for."""
    stage.harness.answers(ANSWER)
    turn = stage.run().succeeded()
    if turn.has_begun:
        raise Fault("it shows pieces of its answer, and its capabilities say `streams=False`: what it does is not even looked at")


def carried(stage: Stage, text: str) -> str:
    """What of a text the backend's protocol can carry."""
    return "".join(character for character in text if character not in stage.harness.loses)


def reasoning_shown(stage: Stage) -> None:
    stage.harness.reasons(THOUGHT, COUNTS)
    turn = stage.run().succeeded()
    _says(stage, turn, COUNTS)
    thought = "".join(event.text for event in turn.events if isinstance(event, ReasoningDelta))
    if not thought:
        raise Fault("the backend thought aloud, and no `ReasoningDelta` shows it")
    if stage.harness.exact and thought != THOUGHT:
        raise Fault(f"the backend thought {THOUGHT!r}, and {thought!r} was shown")


def reasoning_kept(stage: Stage) -> None:
    """Apart from the answer, and before it, where it stood."""
    stage.harness.reasons(THOUGHT, COUNTS)
    turn = stage.run().succeeded()
    _says(stage, turn, COUNTS)
    kept = [part.text for part in turn.parts if isinstance(part, Reasoning)]
    if not kept:
        raise Fault("the backend thought aloud, and its `MessageDone` has no `Reasoning`")
    if stage.harness.exact and "".join(kept) != THOUGHT:
        raise Fault(f"the backend thought {THOUGHT!r}, and {''.join(kept)!r} is kept")
    if not isinstance(turn.parts[0], Reasoning):
        raise Fault("the reasoning came first, and in `MessageDone` the answer stands before it")


def _says(stage: Stage, turn: Turn, text: str) -> None:
    if not any(isinstance(event, MessageDone) for event in turn.events):
        raise Fault("there was no `MessageDone`: nothing of the answer is kept")
    if stage.harness.exact and turn.answer != text:
        raise Fault(f"the backend said {text!r}, and the message is {turn.answer!r}")
    if not turn.answer.strip():
        raise Fault("the message holds no text")


CHECKS = (
    Check("streaming.answer", "a plain answer is one message, then exactly one `Finished`, last", answer, needs=()),
    Check("streaming.pieces", "the pieces add up to the message and come before it", pieces, streams),
    Check("streaming.early", "a piece is shown while the backend still speaks", early, streams, ("streaming.pieces",)),
    Check("streaming.text", "every character arrives as it was sent", unharmed),
    Check("streaming.space", "white space at its beginning, within it and at its end is kept", whitespace, needs=("streaming.text",)),
    Check("streaming.split", "it does not matter where the bytes are cut into pieces", split, needs=("streaming.text",)),
    Check("streaming.claimed", "a provider that streams says so", unclaimed, lambda capabilities: not streams(capabilities)),
    Check("reasoning.shown", "what the backend thinks aloud is shown as reasoning", reasoning_shown, streams),
    Check("reasoning.kept", "it is kept apart from the answer, in its place", reasoning_kept),
    Check("withdrawn.text", "what the backend takes back is neither kept nor shown again", withdrawn, needs=("streaming.answer", "streaming.early")),
)
