"""The main path: one turn of the shared session, from what the user asked to the report of what became of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.clock import Clock
from orchestrator.crew import Crew
from orchestrator.dispatch.heard import Heard
from orchestrator.dispatch.room import Room
from orchestrator.dispatch.turn import Answered, Desk, Shown, Watch, run_turn
from orchestrator.errors import EscaleraError, SessionLost, StoreError
from orchestrator.lease import held
from orchestrator.memory.upkeep import USUAL, Upkeep, keep_up
from orchestrator.model_names import is_same_model
from orchestrator.planning.case import Additions, Expiry, Wish
from orchestrator.planning.plan import NO_ADDITIONS, Plan, plan_turn, started
from orchestrator.providers import Ask, Cancel
from orchestrator.recording import Ended, Recorder, Report, record
from orchestrator.routing import Choice, Route
from orchestrator.session import EarlierTurns, Outcome, Role, Session, Turn, TurnList, TurnLog
from orchestrator.settings.limits import Limits
from orchestrator.store import Claim, Store
from orchestrator.templates import Templates


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
    additions: Additions = NO_ADDITIONS
    upkeep: Upkeep = USUAL


def take_turn(place: Workplace, session: str, wish: Wish, *, cancel: Cancel, ask: Ask, watch: Watch, loaded: bool = True) -> Report:
    """One turn, and the escalation turn that follows at once where the primary hands over.

    `loaded` is false from the second turn on that this process takes in the session (page 1).

    A turn that failed is reported, not raised, and so is one that cannot be stored any more once it was sent: the report then
    has the answer and the store's error. What keeps a turn from coming to be is raised (`BudgetExceeded`, `SessionInUse`,
    `ConfigError`, `StoreFull`, …) and then nothing was sent or stored. Where that befalls the escalation turn alone, the report
    is the primary turn's, with the error.
    """
    with held(place.store, session, place.owner, clock=place.clock, wait=place.session_wait, cancel=cancel) as claim:
        report = _carry_out(place, claim, planned(place, session, wish, loaded=loaded), cancel=cancel, ask=ask, watch=watch)
        if report.handed_over is None or report.error is not None:
            return report
        try:
            plan = planned(place, session, _handed_on(wish, report), loaded=False)
            watch(Shown("notice", f"{report.turn.agent!r} hands over: {report.handed_over}"))
            escalated = _carry_out(place, claim, plan, cancel=cancel, ask=ask, watch=watch)
        except EscaleraError as error:
            why = "it cannot be gone on with, since the store failed" if isinstance(error, StoreError) else "nobody can take it"
            return replace(report, error=error, notices=(*report.notices, f"{report.turn.agent!r} handed this turn over, and {why}"))
        return replace(escalated, escalated_from=report.turn.index, notices=tuple(dict.fromkeys((*report.notices, *escalated.notices))))


def _handed_on(wish: Wish, report: Report) -> Wish:
    turn, brief = report.turn, report.session.brief
    choice = Choice(handed_over=f"{turn.agent!r} handed over in turn {turn.index}")
    return replace(wish, choice=choice, reason=report.handed_over if brief is None else brief.text, reason_by="primary", continues=turn.index)


def begin_session(place: Workplace, session: Session, wish: Wish, *, first: bool) -> None:
    """Store a new session, the `first` of its workspace or one more.

    Refused, with nothing stored, where its first turn could not be sent (raises what `take_turn` would).
    """
    _planned_from(place, session, TurnList(()), wish)
    place.store.create(session, first=first)


def planned(place: Workplace, session: str, wish: Wish, *, again: Plan | None = None, loaded: bool = True) -> Plan:
    """Everything up to the point where something is done; `escalera plan` ends here.

    `again` is the plan of a turn that is open and starts afresh, since its agent has lost its own conversation.
    """
    with place.store.snapshot():
        header = place.store.find(session, place.workspace)
        log = place.store.log(header.id)
        if again is None:
            return _planned_from(place, header, log, wish, loaded=loaded)
        return _planned_from(place, header, EarlierTurns(log, again.index), wish, loaded=loaded, again=again.route)


def _planned_from(place: Workplace, header: Session, log: TurnLog, wish: Wish, *, loaded: bool = True, again: Route | None = None) -> Plan:
    return plan_turn(
        header,
        log,
        wish,
        crew=place.crew,
        expiry=place.expiry,
        templates=place.templates,
        memory=place.store.recall,
        workspace=place.workspace,
        now=place.clock.now(),
        additions=place.additions,
        loaded=loaded,
        again=again,
    )


def _carry_out(place: Workplace, claim: Claim, plan: Plan, *, cancel: Cancel, ask: Ask, watch: Watch) -> Report:
    """Open the turn, run the provider, record the end."""
    plan = started(plan, place.new_id())
    turn = _opened(plan, place.clock.now())
    place.store.open_turn(claim, turn, plan.standing.session)
    watch(Shown("turn_started", data={"turn": turn.index, "role": turn.role.value, "agent": turn.agent, "mode": turn.mode}))
    recorder = Recorder(place.store, claim, turn.index, cancel)
    desk = Desk(clock=place.clock, jitter=place.jitter, cancel=cancel, ask=ask, watch=watch, record=recorder.keep, new_id=place.new_id)
    heard, answered = Heard(), Answered()
    for problem in place.additions.hooks.turn_started(turn, plan.standing.session):
        watch(Shown("notice", problem))
        answered.notice(problem)
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
    if error is None and (other := _other_model(place, plan, answered)) is not None:
        answered.notice(other)
    report = record(recorder, plan, Ended(turn, heard, answered, error, place.clock.now()), new_id=place.new_id)
    problems = (*place.additions.hooks.turn_ended(report.turn, report.session), *_kept_up(place, plan))
    for problem in problems:
        watch(Shown("notice", problem))
    return replace(report, notices=(*report.notices, *problems))


def _kept_up(place: Workplace, plan: Plan) -> tuple[str, ...]:
    """Consolidation follows every turn that the primary handled (page 4)."""
    return keep_up(place.store, place.upkeep) if plan.route.role is Role.PRIMARY else ()


def _run(plan: Plan, limits: Limits, heard: Heard, answered: Answered, desk: Desk) -> EscaleraError | None:
    """What ended the turn early, if anything did."""
    nonce, room = plan.standing.session.nonce, Room(plan.budget.limit_chars, plan.refit)
    try:
        run_turn(
            plan.agent.provider,
            plan.request,
            limits=limits,
            role=plan.route.role,
            nonce=nonce,
            heard=heard,
            answered=answered,
            desk=desk,
            room=room,
            tools=plan.tools,
        )
    except EscaleraError as error:
        return error
    return None


def _other_model(place: Workplace, plan: Plan, answered: Answered) -> str | None:
    """Says that another model answered than was asked for; not again in every turn (page 7)."""
    asked, served = plan.agent.provider.model, answered.model_served
    if asked is None or served is None or is_same_model(asked, served):
        return None
    before = next(place.store.log(plan.standing.session.id).newest_first(role=plan.route.role), None)
    if before is not None and (before.agent, before.model_requested, before.model_served) == (plan.agent.name, asked, served):
        return None
    return f"{plan.agent.name!r} was asked for the model {asked}, and {served} answered"


def _limits_afresh(plan: Plan, answered: Answered, lost: SessionLost, spent: float) -> Limits | None:
    """The limits with the retries and the time that a lost conversation leaves to a fresh start; `None` where it must not run again (pages 2 and 7)."""
    resumed = plan.request.conversation is not None and plan.request.conversation.action == "resume"
    limits = plan.agent.limits
    left = limits.retry_attempts - answered.sends + (0 if lost.sent else 1)
    if not resumed or answered.steps or lost.emitted or left < 0:
        return None
    return replace(limits, retry_attempts=left, turn_timeout=None if limits.turn_timeout is None else limits.turn_timeout - spent)


def _planned_afresh(place: Workplace, plan: Plan) -> Plan:
    afresh = planned(place, plan.standing.session.id, plan.wish, again=plan, loaded=False)
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
        routing=plan.route.reasons,
    )
