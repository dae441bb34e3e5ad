"""How a turn is handed to the escalation agent: one pure decision from facts, limits and flags (page 2)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from orchestrator.session import TOLD, ExternalSession, Need, Reason, Role, Session, State, TurnLog, last_escalation_turn, need_changed_since_escalation
from orchestrator.workspaces import same_workspace


class Mode(StrEnum):
    """What the agent can be taken to know already."""

    FIRST = "first"
    FRESH_START = "fresh_start"
    RETURNING = "returning"
    RESUME = "resume"
    CONTINUATION = "continuation"


@dataclass(frozen=True, slots=True)
class Decision:
    """A mode and the reasons for it, most decisive first."""

    mode: Mode
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the decision looks at: the session as it stands, and the agent that shall have the turn."""

    state: State
    last_escalation: int | None
    """Index of the last completed escalation turn, `None` when there is none."""
    last_escalation_agent: str | None
    primary_turns: int
    """Completed primary turns since then; 0 when never escalated."""
    need_changed: bool
    need_turn: int | None
    agent: str
    keeps_conversation: bool
    external_sessions: tuple[ExternalSession, ...]
    """The agent's own as the escalation agent, from completed turns."""
    workspace: str
    config_dir: str | None
    conversation_lost: bool = False
    """Whether the agent said, when called for this very turn, that its conversation is gone."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What the user asked for, against which no rule stands."""

    fresh: bool = False


class ModeLimits(Protocol):
    """The limits that the decision reads."""

    @property
    def returning_fresh_start_local_turns(self) -> int:
        """From how many primary turns on the agent's memory is stale; 0 = never."""


def decide(facts: Facts, limits: ModeLimits, flags: Flags) -> Decision:
    """The mode of the next escalation turn: page 2's table, first match wins, then what an own conversation needs."""
    stale = _staleness(facts, limits.returning_fresh_start_local_turns)
    if flags.fresh:
        mode = Mode.FIRST if facts.last_escalation is None else Mode.FRESH_START
        return Decision(mode, (Reason("forced", "the user asked for a fresh start"),))
    if facts.state is State.WAITING:
        return _waiting(facts)
    if facts.last_escalation is None:
        return Decision(Mode.FIRST, (Reason("never_escalated", "no escalation turn was completed in this session"),))
    if stale:
        return Decision(Mode.FRESH_START, stale)
    if facts.primary_turns == 0:
        return _resumable(facts, Mode.CONTINUATION, Reason("no_primary_turns", f"no primary turn was completed since turn {facts.last_escalation}"))
    return _resumable(facts, Mode.RETURNING, Reason("primary_worked", f"{_turns(facts.primary_turns)} since turn {facts.last_escalation}"))


def _staleness(facts: Facts, gap: int) -> tuple[Reason, ...]:
    """Rules 4 and 5; both are reported when both hold."""
    reasons = []
    if facts.need_changed:
        reasons.append(Reason("need_changed", f"need set in turn {facts.need_turn}, last escalation turn {facts.last_escalation}"))
    if gap > 0 and facts.last_escalation is not None and facts.primary_turns >= gap:
        reasons.append(Reason("turn_gap", f"{_turns(facts.primary_turns)} since turn {facts.last_escalation}, limit {gap}"))
    return tuple(reasons)


def _waiting(facts: Facts) -> Decision:
    """A reply goes back to the agent that asked and is never stale; another agent cannot resume what it never heard."""
    reason = Reason("waiting", f"turn {facts.last_escalation} by {facts.last_escalation_agent!r} ended with a question")
    if facts.last_escalation_agent is not None and facts.agent != facts.last_escalation_agent:
        return Decision(Mode.FRESH_START, (reason, _other_agent(facts)))
    return _resumable(facts, Mode.RESUME, reason)


def _resumable(facts: Facts, mode: Mode, reason: Reason) -> Decision:
    """`mode`, or a fresh start with one more reason where the agent's own conversation cannot be resumed."""
    obstacle = _obstacle(facts) if facts.keeps_conversation else None
    return Decision(mode, (reason,)) if obstacle is None else Decision(Mode.FRESH_START, (reason, obstacle))


def _obstacle(facts: Facts) -> Reason | None:
    if facts.last_escalation_agent != facts.agent:
        return _other_agent(facts)
    if not facts.external_sessions:
        return Reason("external_session_missing", f"{facts.agent!r} has no conversation of its own to resume")
    if facts.conversation_lost:
        return lost_reason(facts.agent)
    going_on = resumable_session(facts.external_sessions, facts.workspace, facts.config_dir)
    if going_on is not None and going_on.turn_index is not None and facts.last_escalation is not None and going_on.turn_index < facts.last_escalation:
        # The same agent worked elsewhere since: on another backend, or in another workspace.
        seen = f"ends with turn {going_on.turn_index}, and turn {facts.last_escalation} is not in it"
        return Reason("external_session_missing", f"the conversation that {facts.agent!r} keeps {seen}")
    if going_on is None:
        known = facts.external_sessions[0]
        return Reason("other_workspace", f"its conversation belongs to {known.workspace}" + (f" ({known.config_dir})" if known.config_dir else ""))
    return None


def lost_reason(agent: str) -> Reason:
    """The reason with which a turn is run again afresh."""
    return Reason("external_session_lost", f"{agent!r} said that its own conversation is gone")


def _other_agent(facts: Facts) -> Reason:
    return Reason("other_agent", f"turn {facts.last_escalation} was by {facts.last_escalation_agent!r}, not by {facts.agent!r}")


def resumable_session(sessions: Sequence[ExternalSession], workspace: str, config_dir: str | None, platform: str = sys.platform) -> ExternalSession | None:
    """The one for this workspace and configuration folder; a missing configuration folder matches any (page 2)."""
    for session in sessions:
        if same_workspace(session.workspace, workspace, platform) and _same_folder(session.config_dir, config_dir, platform):
            return session
    return None


def _same_folder(one: str | None, other: str | None, platform: str) -> bool:
    return one is None or other is None or same_workspace(one, other, platform)


def facts_of(
    session: Session,
    log: TurnLog,
    *,
    need: Need | None,
    state: State,
    agent: str,
    keeps_conversation: bool,
    workspace: str,
    config_dir: str | None = None,
    conversation_lost: bool = False,
) -> Facts:
    """Count what the decision looks at. `need` and `state` are as they stand after expiry (page 1)."""
    last = last_escalation_turn(log)
    own = own_sessions(session, log, agent, Role.ESCALATION)
    return Facts(
        state=state,
        last_escalation=None if last is None else last.index,
        last_escalation_agent=None if last is None else last.agent,
        primary_turns=_primary_turns(log, None if last is None else last.index),
        need_changed=need_changed_since_escalation(need, log),
        need_turn=None if need is None else need.turn_index,
        agent=agent,
        keeps_conversation=keeps_conversation,
        external_sessions=own,
        workspace=workspace,
        config_dir=config_dir,
        conversation_lost=conversation_lost,
    )


def own_sessions(session: Session, log: TurnLog, agent: str, role: Role) -> tuple[ExternalSession, ...]:
    """The agent's external sessions from completed turns in that role: in the other one it was told to be somebody else."""
    return tuple(known for known in session.external_sessions if known.agent == agent and _is_of(known, log, role))


def _is_of(known: ExternalSession, log: TurnLog, role: Role) -> bool:
    turn = None if known.turn_index is None else log.get(known.turn_index)
    return known.turn_index is not None and (turn is None or (turn.outcome in TOLD and turn.role is role))


def _primary_turns(log: TurnLog, last_escalation: int | None) -> int:
    return 0 if last_escalation is None else log.count(role=Role.PRIMARY, start=last_escalation + 1)


def _turns(count: int) -> str:
    return "1 primary turn" if count == 1 else f"{count} primary turns"
