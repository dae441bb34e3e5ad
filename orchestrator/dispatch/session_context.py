"""What an agent can look up about the session in the middle of its turn: how it stands, and single earlier turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from orchestrator.errors import NotFound
from orchestrator.messages import Part, Text, ToolCall, ToolResult, compact_json
from orchestrator.quoting import clipped, fenced, one_line
from orchestrator.session import Need, Reason, Role, Session, Turn, TurnLog, last_escalation_turn, primary_turns_since_escalation

_LINES = 20
"""How many turns have a line in the overview."""
_HEAD = 120
_MAX_STEP = 2000


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The session as it stood when the turn began."""

    session: Session
    index: int
    """This turn's."""
    turns: Callable[[], TurnLog]
    """Those before it, read when they are asked for."""
    workspace: str
    agent: str
    role: Role
    mode: str | None
    reasons: Sequence[Reason]
    need: Need | None
    counterpart: str | None
    """The agent in the other role."""

    def overview(self) -> str:
        """Facts, one a line, then a line for each recent turn, the newest first."""
        log = self.turns()
        return "\n".join([*self._facts(log), *self._quoted(), *_lines(log)])

    def turn(self, index: int) -> str:
        """All that was said and done in one earlier turn. Raises `NotFound`."""
        turn = self.turns().get(index)
        if turn is None:
            raise NotFound(f"there is no turn {index} before this one, which is turn {self.index}")
        prompt = f"The user said:\n{fenced(turn.prompt)}" if turn.prompt is not None else f"It went on with turn {turn.continues}."
        error = [] if turn.error is None else [f"It ended with: {one_line(turn.error.message, _MAX_STEP)}"]
        return "\n\n".join([f"Turn {index}: {turn.role.value} agent {turn.agent}, {turn.outcome.value}.", prompt, *_steps(turn.steps), *error])

    def _facts(self, log: TurnLog) -> Iterator[str]:
        name = f", named {one_line(self.session.name, _HEAD)!r}" if self.session.name else ""
        yield f"Session {self.session.id}{name}, in {one_line(self.workspace, 500)}."
        why = ", ".join(reason.rule for reason in self.reasons) or "no reason"
        mode = f", mode {self.mode}" if self.mode else ""
        yield f"This is turn {self.index}: {self.role.value} agent {self.agent}{mode} ({why})."
        other = "escalation" if self.role is Role.PRIMARY else "primary"
        yield f"The {other} agent is {self.counterpart}." if self.counterpart else f"There is no {other} agent."
        last = last_escalation_turn(log)
        yield (
            "Nothing was escalated yet."
            if last is None
            else f"Last escalated in turn {last.index} to {last.agent}; primary turns since then: {primary_turns_since_escalation(log)}."
        )

    def _quoted(self) -> Iterator[str]:
        need, brief = self.need, self.session.brief
        yield "No need is recorded." if need is None else f"The user's need, recorded in turn {need.turn_index}:\n{fenced(need.text)}"
        if brief is not None and brief.source != "prompt":
            yield f"Why it was handed over, by the {brief.source}:\n{fenced(brief.text)}"


def _lines(log: TurnLog) -> Iterator[str]:
    turns = list(islice(log.newest_first(outcomes=None), _LINES))
    if turns:
        yield f"Earlier turns, the newest {len(turns)} first:" if log.next_index > len(turns) else "Earlier turns, the newest first:"
        yield fenced("\n".join(map(_line, turns)))


def _line(turn: Turn) -> str:
    prompt = one_line(turn.prompt, _HEAD) if turn.prompt is not None else f"(goes on with turn {turn.continues})"
    answer = f" -> {one_line(turn.answer, _HEAD)}" if turn.answer.strip() else ""
    return f"{turn.index} {turn.role.value} {turn.agent}, {turn.outcome.value}: {prompt}{answer}"


def _steps(steps: Sequence[Part]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Text) and step.text.strip():
            yield f"It said:\n{fenced(step.text)}"
        elif isinstance(step, ToolCall):
            yield f"It called {one_line(step.name, _HEAD)}({one_line(compact_json(step.arguments), 4 * _HEAD)})"
        elif isinstance(step, ToolResult):
            yield f"{'The error' if step.is_error else 'The result'} was:\n{fenced(clipped(step.content, _MAX_STEP)) or '(nothing)'}"
