"""Recording a turn: each step as it is finished, and the end with everything that hangs on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.artifacts import Artifact
from orchestrator.context.delivery import with_stated
from orchestrator.dispatch.desk import Answered
from orchestrator.dispatch.heard import Heard
from orchestrator.errors import Cancelled, EscaleraError, LeaseLost, SessionLost, StoreError
from orchestrator.keeping import Keeper
from orchestrator.memory.hearsay import Spoken, spoken_until
from orchestrator.messages import Part, Text, well_formed
from orchestrator.percepts import INITIAL_WEIGHTS, Percept, Producer, statement_key
from orchestrator.planning.case import brief_with
from orchestrator.planning.plan import Plan
from orchestrator.providers import Cancel
from orchestrator.quoting import one_line
from orchestrator.session import (
    TOLD,
    Brief,
    EarlierTurns,
    ExternalSession,
    Need,
    Outcome,
    Role,
    Session,
    State,
    Turn,
    TurnError,
    TurnLog,
    answer_of,
    ends_with_question,
    set_need,
    transition,
)
from orchestrator.store import Claim, Receipt, Store
from orchestrator.workspaces import same_workspace


class Recorder:
    """Stores each finished step; what the store refuses is kept and tried again with the next (page 1).

    A refusal never ends the call, whose answer is paid for; but a lost lease cancels it, since nothing more of it can be stored.
    """

    def __init__(self, store: Store, claim: Claim, index: int, cancel: Cancel, keeper: Keeper) -> None:
        self._store, self._claim, self._index, self._cancel, self._keeper = store, claim, index, cancel, keeper
        self._kept: list[Part] = []
        self._stored = 0

    def keep(self, step: Part) -> None:
        """Store a step, or keep it for later; never raises for the store's sake."""
        self._kept.append(step)
        self._keeper.step(step)
        try:
            self._catch_up()
        except LeaseLost as error:
            self._cancel.set(error.message)
        except StoreError:
            return  # tried again with the next step; what is still refused at the end is reported then

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Those of the turn."""
        return tuple(self._keeper.kept)

    @property
    def problems(self) -> Sequence[str]:
        """What the user should know of what was to be an artifact."""
        return self._keeper.problems

    def close(self, turn: Turn, session: Session, facts: Sequence[Percept], receipt: Receipt | None) -> None:
        """Store the end, and before it what is not stored yet. Raises `StoreError`."""
        self._catch_up()
        self._store.close_turn(self._claim, turn, session, facts, receipt)

    def used(self, percepts: Sequence[Percept], at: datetime) -> None:
        """Facts that were sent count as used (page 4); a store that cannot note it takes nothing from the stored turn."""
        if percepts:
            with suppress(StoreError):
                self._store.mark_used([percept.id for percept in percepts], at)

    def _catch_up(self) -> None:
        while self._stored < len(self._kept):
            self._store.append_step(self._claim, self._index, self._stored, self._kept[self._stored])
            self._stored += 1


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn whose provider is done with it."""

    turn: Turn
    heard: Heard
    answered: Answered
    error: EscaleraError | None
    at: datetime

    @property
    def outcome(self) -> Outcome:
        if isinstance(self.error, Cancelled):
            return Outcome.CANCELLED
        if self.error is not None:
            return Outcome.FAILED
        return Outcome.COMPLETED if self.heard.handed_over is None else Outcome.ESCALATED


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a turn."""

    session: Session
    turn: Turn
    plan: Plan
    notices: tuple[str, ...] = ()
    escalated_from: int | None = None
    error: EscaleraError | None = None
    artifacts: tuple[Artifact, ...] = ()
    """What of the turn, and of the one that it goes on with, is kept as such."""
    handed_over: str | None = None
    """The reason with which the primary gave the turn away."""


def record(recorder: Recorder, plan: Plan, ended: Ended, *, log: Callable[[], TurnLog], new_id: Callable[[], str], receipt: Receipt | None) -> Report:
    """The turn's end, the session's header and what was learned, stored as one; an answer that cannot be stored is still given.

    `log` gives the session's, which is read only where a fact is to be remembered. `receipt` takes the place of the one that the turn was opened with,
    where it was decided anew since. The error is what ended the turn, or else why it is not stored; a lost lease goes before the cancel that it caused.
    """
    if ended.error is not None and ended.answered.unfinished.strip():
        partial = Text(ended.answered.unfinished, extra={"partial": True})
        ended.answered.steps.append(partial)
        recorder.keep(partial)
    turn = _closed(ended)
    session = _session_after(plan, ended)
    notices = [*plan.notices, *ended.answered.notices, *ended.heard.refused, *ended.heard.empty, *recorder.problems]
    if ended.outcome not in TOLD and ended.heard.facts:
        notices.append(f"the turn did not end well, so this is not remembered: {'; '.join(one_line(text, 200) for text, _ in ended.heard.facts)}")
    error: EscaleraError | None = ended.error
    try:
        recorder.close(turn, session, _facts(plan, ended, log, new_id), receipt)
    except StoreError as refusal:
        notices.append(f"this turn could not be saved: {refusal.message}")
        error = refusal if error is None or isinstance(refusal, LeaseLost) else error
        session = plan.standing.session
    else:
        if ended.outcome in TOLD and plan.route.brief is None:
            recorder.used(plan.texts.told, ended.at)
    handed_over = ended.heard.handed_over if ended.outcome is Outcome.ESCALATED else None
    return Report(session, turn, plan, tuple(notices), error=error, artifacts=recorder.artifacts, handed_over=handed_over)


def _closed(ended: Ended) -> Turn:
    error = None if ended.error is None else TurnError(ended.error.type, ended.error.message)
    return replace(
        ended.turn,
        steps=tuple(ended.answered.steps),
        outcome=ended.outcome,
        ended_at=ended.at,
        usage=ended.answered.usage,
        error=error,
        model_served=ended.answered.model_served,
    )


def _session_after(plan: Plan, ended: Ended) -> Session:
    """The header with which the turn ends. A failed turn leaves everything as it was but for a reason that was given."""
    before = plan.standing.session
    if ended.outcome not in TOLD:
        return replace(
            before, brief=plan.brief if (plan.wish.reason or "").strip() else before.brief, external_sessions=_external_still_there(plan, ended.error)
        )
    session = replace(before, need=_need_after(plan, ended), brief=_brief_after(plan, ended))
    if plan.route.role is Role.PRIMARY:
        return replace(session, state=State.ROUTING, external_sessions=_external_after(plan, ended))
    return replace(
        session,
        state=transition(State.ESCALATION, State.WAITING if _asks(ended) else State.ROUTING),
        external_sessions=_external_after(plan, ended),
    )


def _brief_after(plan: Plan, ended: Ended) -> Brief | None:
    """A hand-over leaves its reason, so that it is there whatever becomes of the escalation turn; that one clears it unless it asks.

    A reason given with a primary turn waits for the next escalation (page 2).
    """
    if ended.heard.handed_over is not None:
        return Brief(brief_with(plan.brief, well_formed(ended.heard.handed_over)), "primary")
    if plan.route.role is Role.PRIMARY:
        return plan.brief
    return replace(plan.brief, carried=True) if plan.brief is not None and _asks(ended) else None


def _asks(ended: Ended) -> bool:
    return ends_with_question(answer_of(ended.answered.steps))


def _need_after(plan: Plan, ended: Ended) -> Need | None:
    need = plan.need
    for text, channel in ended.heard.needs:
        need = set_need(need, text, turn_index=ended.turn.index, during=True, now=ended.at, source=channel)
    return need


def _external_still_there(plan: Plan, error: EscaleraError | None) -> tuple[ExternalSession, ...]:
    """A failed turn keeps the last good session ids; one that is known to be lost, where the turn could not run again, would only fail again."""
    before = plan.standing.session.external_sessions
    if not isinstance(error, SessionLost):
        return before
    return _without_conversation(before, plan)


def _external_after(plan: Plan, ended: Ended) -> tuple[ExternalSession, ...]:
    """The session ids after a completed turn: one per agent and workspace, the last good one (page 2)."""
    before = plan.standing.session.external_sessions
    conversation = plan.request.conversation
    if conversation is None or plan.route.brief is not None:  # handed over by a rule: the agent was told nothing
        return before
    now = ExternalSession(
        agent=plan.agent.name,
        id=ended.answered.external_session or conversation.id,
        workspace=plan.workspace,
        config_dir=plan.agent.config_dir,
        turn_index=ended.turn.index,
        model=conversation.model or ended.answered.external_model or ended.answered.model_served,
        system_text=conversation.system_text,
        delivered=with_stated(plan.texts.delivered, [statement_key(addressed(text)[1]) for text, _ in ended.heard.facts]),
    )
    return (*_without_conversation(before, plan), now)


def _without_conversation(known: tuple[ExternalSession, ...], plan: Plan) -> tuple[ExternalSession, ...]:
    """All but the one that the plan's agent has in the plan's workspace, however that is spelt."""
    return tuple(one for one in known if one.agent != plan.agent.name or not same_workspace(one.workspace, plan.workspace))


def _facts(plan: Plan, ended: Ended, log: Callable[[], TurnLog], new_id: Callable[[], str]) -> list[Percept]:
    """What the agent asked to remember, as percepts of this session."""
    if ended.outcome not in TOLD or not ended.heard.facts:
        return []
    try:
        spoken = spoken_until(plan.wish.prompt, ended.answered.steps, EarlierTurns(log(), ended.turn.index))
    except StoreError:
        spoken = None
    return [_fact(plan, ended, spoken, text, channel, new_id()) for text, channel in ended.heard.facts]


def _fact(plan: Plan, ended: Ended, spoken: Spoken | None, text: str, channel: str, identity: str) -> Percept:
    """Nobody vouches for it where it is not known what was `spoken`."""
    consumer, content = addressed(text)
    producer: Producer = "primary" if plan.route.role is Role.PRIMARY else "escalation"
    return Percept(
        id=identity,
        content=content,
        producer=producer,
        consumer=consumer,
        weight=INITIAL_WEIGHTS[producer],
        scope="session",
        workspace=plan.workspace,
        session=plan.standing.session.id,
        subject=ended.heard.subjects.get(text),
        created_at=ended.at,
        updated_at=ended.at,
        source={"session": plan.standing.session.id, "turn": ended.turn.index, "agent": plan.agent.name, "by": channel},
        trust="tool_output" if spoken is None or spoken.is_only_from_a_tool(content) else "agent",
    )


def addressed(text: str) -> tuple[str, str]:
    """A fact that begins with `@agent-name: ` is for that agent only (page 2): (consumer, content)."""
    match = re.match(r"@([A-Za-z0-9_.-]+): (.+)", text, re.DOTALL)
    return (match[1], match[2].strip()) if match else ("all", text.strip())
