"""The main path: one turn of the shared session, from what the user asked to what is recorded."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.clock import Clock
from orchestrator.crew import Crew
from orchestrator.dispatch.heard import Heard
from orchestrator.dispatch.room import Room
from orchestrator.dispatch.turn import Answered, Desk, Shown, Watch, run_turn
from orchestrator.errors import Cancelled, EscaleraError, LeaseLost, SessionLost, StoreError
from orchestrator.lease import held
from orchestrator.messages import Part, Text, well_formed
from orchestrator.percepts import Percept
from orchestrator.planning import Expiry, Plan, Wish, plan_turn, started
from orchestrator.providers import Ask, Cancel
from orchestrator.routing import Choice
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
    TurnList,
    TurnLog,
    answer_of,
    ends_with_question,
    set_need,
    transition,
)
from orchestrator.settings.limits import Limits
from orchestrator.store import Claim, Store
from orchestrator.templates import Templates

HEARD_WEIGHT = 70
"""What a fact weighs that an agent stated (page 4)."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where turns are taken: the store, the agents, the texts, and the effects that are arguments everywhere else."""

    store: Store
    crew: Crew
    templates: Templates
    clock: Clock
    workspace: str
    owner: str
    """This process, as a lease names it."""
    expiry: Expiry
    session_wait: float
    new_id: Callable[[], str]
    jitter: random.Random


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a turn."""

    session: Session
    turn: Turn
    plan: Plan
    notices: tuple[str, ...] = ()
    escalated_from: int | None = None
    error: EscaleraError | None = None
    handed_over: str | None = None
    """The reason with which the primary gave the turn away."""


def take_turn(place: Workplace, session: str, wish: Wish, *, cancel: Cancel, ask: Ask, watch: Watch) -> Report:
    """One turn, and the escalation turn that follows at once where the primary hands over.

    A turn that failed is reported, not raised, and so is one that cannot be stored any more once it was sent: the report then
    has the answer and the store's error. What keeps a turn from coming to be is raised (`BudgetExceeded`, `SessionInUse`,
    `ConfigError`, `StoreFull`, …) and then nothing was sent or stored. Where that befalls the escalation turn alone, the report
    is the primary turn's, with the error.
    """
    with held(place.store, session, place.owner, clock=place.clock, wait=place.session_wait, cancel=cancel) as claim:
        report = _carry_out(place, claim, planned(place, session, wish), cancel=cancel, ask=ask, watch=watch)
        if report.handed_over is None or report.error is not None:
            return report
        try:
            plan = planned(place, session, _handed_on(wish, report.handed_over, report.turn))
            watch(Shown("notice", f"{report.turn.agent!r} hands over: {report.handed_over}"))
            escalated = _carry_out(place, claim, plan, cancel=cancel, ask=ask, watch=watch)
        except EscaleraError as error:
            why = "it cannot be gone on with, since the store failed" if isinstance(error, StoreError) else "nobody can take it"
            return replace(report, error=error, notices=(*report.notices, f"{report.turn.agent!r} handed this turn over, and {why}"))
        return replace(escalated, escalated_from=report.turn.index, notices=(*report.notices, *escalated.notices))


def _handed_on(wish: Wish, reason: str, turn: Turn) -> Wish:
    choice = Choice(handed_over=f"{turn.agent!r} handed over in turn {turn.index}")
    return replace(wish, choice=choice, reason=reason, reason_by="primary", continues=turn.index)


def begin_session(place: Workplace, session: Session, wish: Wish) -> None:
    """Store a new session; refused, with nothing stored, where its first turn could not be sent (raises what `take_turn` would)."""
    _planned_from(place, session, TurnList(()), wish)
    place.store.create(session)


def planned(place: Workplace, session: str, wish: Wish, *, again: int | None = None) -> Plan:
    """Everything up to the point where something is done; `escalera plan` ends here.

    `again` is the index of a turn that is open and starts afresh, since its agent has lost its own conversation.
    """
    with place.store.snapshot():
        header = place.store.find(session, place.workspace)
        log = place.store.log(header.id)
        if again is None:
            return _planned_from(place, header, log, wish)
        return _planned_from(place, header, EarlierTurns(log, again), wish, conversation_lost=True)


def _planned_from(place: Workplace, header: Session, log: TurnLog, wish: Wish, *, conversation_lost: bool = False) -> Plan:
    return plan_turn(
        header,
        log,
        wish,
        crew=place.crew,
        expiry=place.expiry,
        templates=place.templates,
        percepts=place.store.percepts(session=header.id),
        workspace=place.workspace,
        now=place.clock.now(),
        conversation_lost=conversation_lost,
    )


def _carry_out(place: Workplace, claim: Claim, plan: Plan, *, cancel: Cancel, ask: Ask, watch: Watch) -> Report:
    """Open the turn, run the provider, record the end."""
    plan = started(plan, place.new_id())
    turn = _opened(plan, place.clock.now())
    place.store.open_turn(claim, turn, plan.standing.session)
    watch(Shown("turn_started", data={"turn": turn.index, "role": turn.role.value, "agent": turn.agent, "mode": turn.mode}))
    recorder = _Recorder(place.store, claim, turn.index, cancel)
    desk = Desk(clock=place.clock, jitter=place.jitter, cancel=cancel, ask=ask, watch=watch, record=recorder.keep)
    heard, answered = Heard(), Answered()
    began = place.clock.monotonic()
    error = _run(plan, plan.agent.limits, heard, answered, desk)
    if isinstance(error, SessionLost) and (limits := _limits_afresh(plan, answered, error, place.clock.monotonic() - began)) is not None:
        try:
            plan = started(_planned_afresh(place, plan), place.new_id())
        except EscaleraError as refusal:
            error = refusal
        else:
            turn = _opened(plan, turn.started_at)
            watch(Shown("notice", plan.notices[-1]))
            error = _run(plan, limits, heard, answered, desk)
    return _record(place, claim, plan, _Ended(turn, heard, answered, error, place.clock.now()), recorder)


def _run(plan: Plan, limits: Limits, heard: Heard, answered: Answered, desk: Desk) -> EscaleraError | None:
    """What ended the turn early, if anything did."""
    nonce, room = plan.standing.session.nonce, Room(plan.budget.limit_chars, plan.refit)
    try:
        run_turn(plan.agent.provider, plan.request, limits=limits, role=plan.route.role, nonce=nonce, heard=heard, answered=answered, desk=desk, room=room)
    except EscaleraError as error:
        return error
    return None


def _limits_afresh(plan: Plan, answered: Answered, lost: SessionLost, spent: float) -> Limits | None:
    """The limits with the retries and the time that a lost conversation leaves to a fresh start; `None` where it must not run again (pages 2 and 7)."""
    resumed = plan.request.conversation is not None and plan.request.conversation.action == "resume"
    limits = plan.agent.limits
    left = limits.retry_attempts - answered.sends + (0 if lost.sent else 1)
    if not resumed or answered.steps or left < 0:
        return None
    return replace(limits, retry_attempts=left, turn_timeout=None if limits.turn_timeout is None else limits.turn_timeout - spent)


def _planned_afresh(place: Workplace, plan: Plan) -> Plan:
    afresh = planned(place, plan.standing.session.id, plan.wish, again=plan.index)
    return replace(afresh, notices=(*(notice for notice in plan.notices if notice not in afresh.notices), *afresh.notices))


def _opened(plan: Plan, now: datetime | None) -> Turn:
    return Turn(
        index=plan.index,
        role=plan.route.role,
        agent=plan.agent.name,
        prompt=None if plan.wish.continues is not None else plan.wish.prompt,
        outcome=Outcome.OPEN,
        mode=None if plan.decision is None else plan.decision.mode.value,
        reasons=plan.reasons,
        started_at=now,
        continues=plan.wish.continues,
        model_requested=plan.agent.provider.model,
    )


class _Recorder:
    """Stores each finished step; what the store refuses is kept and tried again with the next (page 1).

    A refusal never ends the call, whose answer is paid for; but a lost lease cancels it, since nothing more of it can be stored.
    """

    def __init__(self, store: Store, claim: Claim, index: int, cancel: Cancel) -> None:
        self._store, self._claim, self._index, self._cancel = store, claim, index, cancel
        self._kept: list[Part] = []
        self._stored = 0

    def keep(self, step: Part) -> None:
        self._kept.append(step)
        try:
            self.catch_up()
        except LeaseLost as error:
            self._cancel.set(error.message)
        except StoreError:
            return  # tried again with the next step; what is still refused at the end is reported then

    def catch_up(self) -> None:
        """Store what is not stored yet, in order."""
        while self._stored < len(self._kept):
            self._store.append_step(self._claim, self._index, self._stored, self._kept[self._stored])
            self._stored += 1


@dataclass(frozen=True, slots=True)
class _Ended:
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


def _record(place: Workplace, claim: Claim, plan: Plan, ended: _Ended, recorder: _Recorder) -> Report:
    """The turn's end, the session's header and what was learned, stored as one; an answer that cannot be stored is still given.

    The error is what ended the turn, or else why it is not stored; a lost lease goes before the cancel that it caused.
    """
    if ended.error is not None and ended.answered.unfinished.strip():
        partial = Text(ended.answered.unfinished, extra={"partial": True})
        ended.answered.steps.append(partial)
        recorder.keep(partial)
    turn = _closed(ended)
    session = _session_after(plan, ended)
    notices = [*plan.notices, *ended.answered.notices, *ended.heard.refused]
    error: EscaleraError | None = ended.error
    try:
        recorder.catch_up()
        place.store.close_turn(claim, turn, session, _facts(place, plan, ended))
    except StoreError as refusal:
        notices.append(f"this turn could not be saved: {refusal.message}")
        error = refusal if error is None or isinstance(refusal, LeaseLost) else error
        session = plan.standing.session
    else:
        _mark_told(place, plan, ended)
    return Report(session, turn, plan, tuple(notices), error=error, handed_over=ended.heard.handed_over if ended.outcome is Outcome.ESCALATED else None)


def _mark_told(place: Workplace, plan: Plan, ended: _Ended) -> None:
    """Facts that were really sent count as used (page 4); a store that cannot note it takes nothing from the stored turn."""
    if ended.outcome in TOLD:
        with suppress(StoreError):
            place.store.mark_used([percept.id for percept in plan.chosen.sent], ended.at)


def _closed(ended: _Ended) -> Turn:
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


def _session_after(plan: Plan, ended: _Ended) -> Session:
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


def _brief_after(plan: Plan, ended: _Ended) -> Brief | None:
    """A hand-over leaves its reason, so that it is there whatever becomes of the escalation turn; that one clears it unless it asks.

    A reason given with a primary turn waits for the next escalation (page 2).
    """
    if ended.heard.handed_over is not None:
        return Brief(well_formed(ended.heard.handed_over), "primary")
    if plan.route.role is Role.PRIMARY:
        return plan.brief
    return plan.brief if _asks(ended) else None


def _asks(ended: _Ended) -> bool:
    return ends_with_question(answer_of(ended.answered.steps))


def _need_after(plan: Plan, ended: _Ended) -> Need | None:
    need = plan.need
    for text, channel in ended.heard.needs:
        need = set_need(need, text, turn_index=ended.turn.index, during=True, now=ended.at, source=channel)
    return need


def _external_still_there(plan: Plan, error: EscaleraError | None) -> tuple[ExternalSession, ...]:
    """A failed turn keeps the last good session ids; one that is known to be lost, where the turn could not run again, would only fail again."""
    before = plan.standing.session.external_sessions
    if not isinstance(error, SessionLost):
        return before
    return tuple(known for known in before if (known.agent, known.workspace) != (plan.agent.name, plan.workspace))


def _external_after(plan: Plan, ended: _Ended) -> tuple[ExternalSession, ...]:
    """The session ids after a completed turn: one per agent and workspace, the last good one (page 2)."""
    before = plan.standing.session.external_sessions
    conversation = plan.request.conversation
    if conversation is None:
        return before
    now = ExternalSession(
        agent=plan.agent.name,
        id=ended.answered.external_session or conversation.id,
        workspace=plan.workspace,
        config_dir=plan.agent.config_dir,
        turn_index=ended.turn.index,
        model=conversation.model or ended.answered.model_served,
        system_text=conversation.system_text,
        delivered=plan.texts.delivered,
    )
    return (*(known for known in before if (known.agent, known.workspace) != (now.agent, now.workspace)), now)


def _facts(place: Workplace, plan: Plan, ended: _Ended) -> list[Percept]:
    """What the agent asked to remember, as percepts of this session."""
    if ended.outcome not in TOLD:
        return []
    return [_fact(place, plan, ended, text, channel) for text, channel in ended.heard.facts]


def _fact(place: Workplace, plan: Plan, ended: _Ended, text: str, channel: str) -> Percept:
    consumer, content = addressed(text)
    return Percept(
        id=place.new_id(),
        content=content,
        producer="primary" if plan.route.role is Role.PRIMARY else "escalation",
        consumer=consumer,
        weight=HEARD_WEIGHT,
        scope="session",
        workspace=plan.workspace,
        session=plan.standing.session.id,
        created_at=ended.at,
        updated_at=ended.at,
        source={"session": plan.standing.session.id, "turn": ended.turn.index, "by": channel},
        trust="agent",
    )


def addressed(text: str) -> tuple[str, str]:
    """A fact that begins with `@agent-name: ` is for that agent only (page 2): (consumer, content)."""
    match = re.match(r"@([A-Za-z0-9_.-]+): (.+)", text, re.DOTALL)
    return (match[1], match[2].strip()) if match else ("all", text.strip())
