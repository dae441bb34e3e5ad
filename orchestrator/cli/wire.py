"""Showing what went over the wire in a turn (`session show --turn N --wire`)."""

from __future__ import annotations

from orchestrator.cli.front import Front
from orchestrator.cli.runs import spans
from orchestrator.errors import EscaleraError, NotFound
from orchestrator.session import Turn
from orchestrator.wires import CUT, KEPT


def show_wire(front: Front, session: str, turn: Turn, *, as_json: bool) -> None:
    """The last request of the turn and its answer. Raises `NotFound` where nothing is kept of it, saying of which turns something is."""
    kept = front.wires.read(session, turn.index)
    if kept is None:
        turns = front.wires.turns(session)
        hint = f"it is kept of the turns {spans(turns)}" if turns else f"only that of the last {KEPT} turns is kept, of all sessions together"
        raise NotFound(f"what went over the wire in turn {turn.index} is not kept", hint=hint)
    _learn(front)
    sent, received = (front.masked(side.decode("utf-8", "replace")) for side in (kept.sent, kept.received))
    if as_json:
        front.output.print_json(
            {
                "format": "escalera.wire/1",
                "session": session,
                "turn": turn.index,
                "agent": turn.agent,
                "sent": sent,
                "received": received,
                "cut": CUT in kept.sent or CUT in kept.received,
            }
        )
        return
    for title, text in ((f"sent to {turn.agent}", sent), ("received", received)):
        front.output.heading(f"--- {title}")
        front.output.say(text.rstrip("\n"))


def _learn(front: Front) -> None:
    """The configured secrets; where the configuration cannot be read, those that have a shape are masked all the same."""
    try:
        front.learn_secrets(front.settings)
    except EscaleraError:
        return
