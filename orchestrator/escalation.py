"""The main path: one turn of the shared session, from what the user asked to the report of what became of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial

from orchestrator.artifacts import USUAL as USUAL_ARTIFACTS
from orchestrator.artifacts import ArtifactTerms
from orchestrator.classifier import classify
from orchestrator.clock import Clock
from orchestrator.crew import Crew
from orchestrator.dispatch.desk import Answered, Desk, Shown, Watch
from orchestrator.dispatch.heard import Heard
from orchestrator.dispatch.own_tools import own_tools
from orchestrator.dispatch.room import Room
from orchestrator.dispatch.session_context import SessionContext
from orchestrator.dispatch.turn import run_turn
from orchestrator.errors import Cancelled, EscaleraError, SessionLost, StoreError
from orchestrator.keeping import Keeper
from orchestrator.lease import Renewals, held
from orchestrator.logbook import Log, no_log
from orchestrator.memory.upkeep import USUAL, Upkeep, keep_up
from orchestrator.memory.view import MemoryView
from orchestrator.messages import Usage
from orchestrator.model_names import is_same_model
from orchestrator.planning.case import Additions, Expiry, Wish
from orchestrator.planning.plan import NO_ADDITIONS, Plan, handed_on, plan_turn, revised, started
from orchestrator.planning.receipt import receipt_of
from orchestrator.providers import Ask, Cancel
from orchestrator.receipts import as_json
from orchestrator.recording import Ended, Recorder, Report, record
from orchestrator.routing import RouteFacts, route
from orchestrator.session import EarlierTurns, Outcome, Role, Session, Turn, TurnList, TurnLog
from orchestrator.settings.limits import Limits
from orchestrator.store import Claim, Store
from orchestrator.templates import Templates
from orchestrator.tools import Bench, Tool
from orchestrator.wires import Recording, Wires


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
    log: Log = no_log
    wires: Wires | None = None
    """Where what goes over the wire is kept; `None` for nowhere."""
    upkeep: Upkeep = USUAL
    renewals: Renewals = field(default_factory=Renewals)
    bench: Callable[[str, str, Callable[[str], None]], Bench] = lambda *_: Bench()
    """What tools work with, for an agent in a session, and what gives the user a notice."""
    artifacts: ArtifactTerms = USUAL_ARTIFACTS


Revise = Callable[[Plan], str]
"""Lets the user change the brief of a planned escalation turn: the brief to send. Raises `Cancelled`."""


def take_turn(
    place: Workplace, session: str, wish: Wish, *, cancel: Cancel, ask: Ask, watch: Watch, loaded: bool = True, revise: Revise | None = None
) -> Report:
    """One turn, and the escalation turn that follows at once where the primary hands over; its brief can be revised before it is sent.

    `loaded` is false from the second turn on that this process takes in the session (page 1).

    A turn that failed is reported, not raised, and so is one that cannot be stored any more once it was sent: the report then
    has the answer and the store's error. What keeps a turn from coming to be is raised (`BudgetExceeded`, `SessionInUse`,
    `ConfigError`, `StoreFull`, …) and then nothing was sent or stored. Where that befalls the escalation turn alone, the report
    is the primary turn's, with the error. For a session that another turn holds it is waited only where the chosen agent is there.
    """
    if wish.choice.agent is not None:
        place.crew.agent(wish.choice.agent)
    with held(place.store, session, place.owner, clock=place.clock, wait=place.session_wait, cancel=cancel, renewals=place.renewals) as claim:
        report = _carry_out(place, claim, _planned_with_tools(place, session, wish, cancel, watch, loaded=loaded), cancel=cancel, ask=ask, watch=watch)
        if report.handed_over is None or report.error is not None:
            return report
        try:
            watch(Shown("notice", f"{report.turn.agent!r} hands over: {report.handed_over}"))
            brief = report.session.brief
            wish = handed_on(wish, report.plan, report.handed_over if brief is None else brief.text)
            plan = _planned_with_tools(place, session, wish, cancel, watch, loaded=False)
            if revise is not None:
                plan = planned(place, session, revised(wish, revise(plan)), loaded=False)
                cancel.raise_if_set()
            escalated = _carry_out(place, claim, plan, cancel=cancel, ask=ask, watch=watch)
        except EscaleraError as error:
            return replace(report, error=error, notices=(*report.notices, f"{report.turn.agent!r} handed this turn over, and {_why_not(error)}"))
        notices = tuple(dict.fromkeys((*report.notices, *escalated.notices)))
        return replace(escalated, escalated_from=report.turn.index, notices=notices, artifacts=(*report.artifacts, *escalated.artifacts))


def _why_not(error: EscaleraError) -> str:
    if isinstance(error, Cancelled):
        return "nothing was sent: the next escalation turn goes on with its reason"
    return "it cannot be gone on with, since the store failed" if isinstance(error, StoreError) else "nobody can take it"


def begin_session(place: Workplace, session: Session, wish: Wish, *, first: bool) -> None:
    """Store a new session, the `first` of its workspace or one more.

    Refused, with nothing stored, where its first turn could not be sent (raises what `take_turn` would).
    """
    foreseen(place, session, wish)
    place.store.create(session, first=first)


def _planned_with_tools(place: Workplace, session: str, wish: Wish, cancel: Cancel, watch: Watch, *, loaded: bool) -> Plan:
    """The plan, made once more where the agent's tool servers had to be started and asked first what they have."""
    plan = planned(place, session, wish, loaded=loaded)
    servers, agent = place.crew.tool_servers, plan.agent
    if not agent.takes_tools:
        return plan
    told = servers.prepare(agent.name, plan.standing.session.id, cancel=cancel, tell=lambda text: watch(Shown("notice", text)))
    return planned(place, session, wish, loaded=loaded) if told else plan


def foreseen(place: Workplace, session: Session, wish: Wish) -> Plan:
    """The first turn of a session that is not stored, as `planned` has those of one that is."""
    return _planned_from(place, session, TurnList(()), wish)


def planned(place: Workplace, session: str, wish: Wish, *, again: Plan | None = None, loaded: bool = True) -> Plan:
    """Everything up to the point where something is done; `escalera plan` ends here.

    `again` is the plan of a turn that is open and starts afresh, since its agent has lost its own conversation.
    """
    with place.store.snapshot():
        header = place.store.find(session, place.workspace)
        log = place.store.log(header.id)
        if again is None:
            return _planned_from(place, header, log, wish, loaded=loaded)
        return _planned_from(place, header, EarlierTurns(log, again.index), wish, loaded=loaded, again=again.route_facts)


def _planned_from(place: Workplace, header: Session, log: TurnLog, wish: Wish, *, loaded: bool = True, again: RouteFacts | None = None) -> Plan:
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
    plan = opened = started(plan, place.new_id())
    watch = _noted(watch, place.log)
    turn = _opened(plan, place.clock.now())
    place.store.open_turn(claim, turn, plan.standing.session, as_json(receipt_of(plan)))
    watch(Shown("turn_started", data=_beginning(turn)))
    _log_start(place, plan, turn)
    keeper = Keeper(place.store, place.artifacts, claim.session, turn.index, place.new_id)
    for name, content in plan.wish.files if plan.wish.continues is None else ():
        keeper.file(name, content)
    recorder = Recorder(place.store, claim, turn.index, cancel, keeper)
    recording = Recording()
    ask = _asking(ask, turn, claim.session)
    heard, answered = Heard(), Answered()
    desk = Desk(
        clock=place.clock,
        jitter=place.jitter,
        cancel=cancel,
        ask=ask,
        watch=watch,
        record=recorder.keep,
        new_id=place.new_id,
        wire=recording,
        whole=keeper.whole,
    )
    desk = replace(desk, bench=place.bench(turn.agent, claim.session, partial(desk.notice, answered)))
    for problem in place.additions.hooks.turn_started(turn, plan.standing.session):
        desk.notice(answered, problem)
    began = place.clock.monotonic()
    plan, error = _classified(place, plan, answered, desk) if plan.route.asks_classifier else (plan, None)
    turn = _opened(plan, turn.started_at)
    if plan.route.brief is not None:
        heard.hand_over(plan.route.brief)
        answered.usage = answered.usage or _NOTHING_SENT
    elif error is None:
        error = _run(place, plan, plan.agent.limits, heard, answered, desk)
    if isinstance(error, SessionLost) and (limits := _limits_afresh(plan, answered, error, place.clock.monotonic() - began)) is not None:
        try:
            plan = started(_planned_afresh(place, plan), place.new_id())
        except EscaleraError as refusal:
            error = refusal
        else:
            turn = _opened(plan, turn.started_at)
            watch(Shown("notice", plan.notices[-1]))
            error = _run(place, plan, limits, heard, answered, desk)
    if error is None and (other := _other_model(place, plan, answered)) is not None:
        answered.notice(other)
    receipt = None if plan is opened else as_json(receipt_of(plan))
    ended = Ended(turn, heard, answered, error, place.clock.now())
    report = record(recorder, plan, ended, log=partial(place.store.log, claim.session), new_id=place.new_id, receipt=receipt)
    problems = (*place.additions.hooks.turn_ended(report.turn, report.session), *_kept_up(place, plan))
    for problem in problems:
        watch(Shown("notice", problem))
    report = replace(report, notices=(*report.notices, *problems))
    if place.wires is not None:
        place.wires.keep(report.session.id, turn.index, recording)
    _log_end(place, report, answered, place.clock.monotonic() - began)
    return report


def _beginning(turn: Turn) -> dict[str, object]:
    why = [{"rule": reason.rule, "detail": reason.detail} for reason in turn.reasons]
    return {"turn": turn.index, "role": turn.role.value, "agent": turn.agent, "mode": turn.mode, "reasons": why}


def _asking(ask: Ask, turn: Turn, session: str) -> Ask:
    """Each question with the name of who asks."""
    return lambda question: ask(replace(question, session=session, turn=turn.index, agent=turn.agent))


def _kept_up(place: Workplace, plan: Plan) -> tuple[str, ...]:
    """Consolidation follows every turn that the primary handled (page 4)."""
    return keep_up(place.store, place.upkeep) if plan.route.role is Role.PRIMARY else ()


def _noted(watch: Watch, log: Log) -> Watch:
    """As `watch`, with what is tried again in the log."""

    def noted(shown: Shown) -> None:
        if shown.type == "retry":
            log("retry", text=shown.text, **shown.data)
        watch(shown)

    return noted


def _log_start(place: Workplace, plan: Plan, turn: Turn) -> None:
    place.log(
        "turn_started",
        session=plan.standing.session.id,
        turn=turn.index,
        agent=turn.agent,
        kind=plan.agent.kind,
        role=turn.role.value,
        mode=turn.mode,
        rules=[reason.rule for reason in turn.reasons],
        routing=[reason.rule for reason in turn.routing],
        model=turn.model_requested,
        chars=plan.budget.total_chars,
    )


def _log_end(place: Workplace, report: Report, answered: Answered, seconds: float) -> None:
    turn, error = report.turn, report.error
    for notice in report.notices:
        place.log("notice", session=report.session.id, turn=turn.index, text=notice)
    place.log(
        "turn_ended",
        session=report.session.id,
        turn=turn.index,
        outcome=turn.outcome.value,
        seconds=round(seconds, 3),
        sends=answered.sends,
        state=report.session.state.value,
        model=turn.model_served,
        usage=None if turn.usage is None else {name: value for name, value in asdict(turn.usage).items() if value is not None},
        error=None if error is None else {"type": error.type, "message": error.message},
    )


_NOTHING_SENT = Usage(input_tokens=0, output_tokens=0, cost_usd=0.0, cost_source="billed")
"""Of a turn that a rule handed over: known, and nothing."""


def _classified(place: Workplace, plan: Plan, answered: Answered, desk: Desk) -> tuple[Plan, EscaleraError | None]:
    """The plan as the primary's model decides it, and what ended the turn meanwhile. Without a verdict it stays as it is."""
    session = plan.standing.session
    try:
        said = classify(
            plan.agent,
            plan.wish.prompt,
            templates=place.templates,
            timeout=plan.rules.classifier_timeout,
            nonce=session.nonce,
            session=session.id,
            workspace=plan.workspace,
            desk=desk,
        )
    except Cancelled as error:
        return plan, error
    answered.usage = said.usage
    if said.notice is not None:
        desk.notice(answered, said.notice)
    facts = replace(plan.route_facts, verdict=said.verdict)
    return replace(plan, route_facts=facts, route=route(facts, plan.rules)), None


def _run(place: Workplace, plan: Plan, limits: Limits, heard: Heard, answered: Answered, desk: Desk) -> EscaleraError | None:
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
            tools=(*_own_tools(place, plan, heard, answered, desk), *plan.tools),
        )
    except EscaleraError as error:
        return error
    return None


def _own_tools(place: Workplace, plan: Plan, heard: Heard, answered: Answered, desk: Desk) -> tuple[Tool, ...]:
    session, role, agent = plan.standing.session, plan.route.role, plan.agent
    memory = MemoryView(place.store, session=session.id, agent=agent.name, role=role, workspace=plan.workspace, limits=agent.limits, now=place.clock.now)
    context = SessionContext(
        session=session,
        index=plan.index,
        turns=lambda: EarlierTurns(place.store.log(session.id), plan.index),
        workspace=plan.workspace,
        agent=agent.name,
        role=role,
        mode=None if plan.mode is None else plan.mode.value,
        reasons=plan.reasons,
        need=plan.need,
        counterpart=place.crew.escalation if role is Role.PRIMARY else place.crew.primary,
    )
    return own_tools(memory, context, heard, tell=lambda text: desk.notice(answered, text))


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
