"""`escalera plan`: what the next turn would be and would send. Calls nobody, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.comparing import others_of, show_diff
from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.cli.prompt import choice_of, choice_options, prompt_text
from orchestrator.cli.runs import spans
from orchestrator.clock import parse_time
from orchestrator.documents.plan_diff import plan_diff_document, side_of, side_of_turn
from orchestrator.errors import BudgetExceeded, NotFound, UsageError
from orchestrator.memory.inject import recalled_from
from orchestrator.percepts import Memory
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import Plan, Planner, counted, plan_turn, through_rules
from orchestrator.planning.texts import NEW
from orchestrator.receipts import Receipt, from_json
from orchestrator.routing import Choice
from orchestrator.session import EarlierTurns, Session, State, Turn, TurnList, TurnLog
from orchestrator.sessions import fresh_session, read_session

if TYPE_CHECKING:
    from orchestrator.documents.kinds.plans import PlanDiffDocument

EXAMPLE = "…"
"""Stands for the prompt where none is given."""


@click.command("plan")
@click.argument("prompt", nargs=-1)
@choice_options
@click.option("--session", "session", metavar="REF", help="An id, the beginning of one, or a name; else the newest.")
@click.option("--session-file", type=click.Path(path_type=Path), metavar="FILE", help="An exported session instead of the store.")
@click.option("--now", metavar="TIME", help="Another time than the clock's, in ISO 8601.")
@click.option("--compare", "others", multiple=True, metavar="LIMIT=VALUE", help="What would be another under other limits, as a diff.")
@click.option("--diff", "past", type=click.IntRange(min=0), metavar="TURN", help="What is another than in that turn, as a diff.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan document, or that of the diff.")
@click.pass_obj
def command(
    front: Front,
    /,
    prompt: tuple[str, ...],
    session: str | None,
    session_file: Path | None,
    now: str | None,
    others: tuple[str, ...],
    past: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """What the next turn would be and would send, with the reasons and the budget."""
    from orchestrator.documents.plan import plan_document

    if session is not None and session_file is not None:
        raise UsageError("--session and --session-file contradict each other", hint="give one of them")
    if others and past is not None:
        raise UsageError("--compare and --diff are two different comparisons", hint="give one of them")
    compared = others_of(others) if others else None
    moment = front.clock.now() if now is None else _time(now)
    text, _ = prompt_text(front, prompt, choice["files"], default=EXAMPLE)
    wish = Wish(text, choice_of(choice), reason=choice["reason"], fresh=choice["fresh"])
    with ExitStack() as reading:
        header, log, memory, receipts = _from_file(front, session_file) if session_file is not None else _from_store(front, session, reading)
        front = front.at(header.workspace)
        project = front.project(header.workspace)
        planner = partial(
            plan_turn,
            crew=front.crew(header.workspace, with_secrets=False),
            expiry=front.expiry,
            templates=front.templates(project),
            memory=memory,
            explain=True,
            workspace=header.workspace,
            now=moment,
            additions=front.additions(project),
        )
        plan = through_rules(planner(header, log, wish), log, planner)
        diff = None
        if compared is not None:
            crew = front.crew(header.workspace, with_secrets=False, revise=compared.applied)
            revised = partial(planner, crew=crew, expiry=compared.expiry(front.expiry))
            diff = _compared(plan, lambda: through_rules(revised(header, log, wish), log, revised), f"with {', '.join(others)}", front)
        elif past is not None:
            diff = _since(header, log, receipts, past, plan, planner, front)
    if diff is not None:
        if as_json:
            front.output.print_json(diff)
        else:
            show_diff(front.output, diff)
        return
    plan = counted(plan, front.hooks)
    if as_json:
        front.output.print_json(plan_document(plan, expiry=front.expiry, now=moment))
    else:
        show_plan(front.output, plan)


def _compared(plan: Plan, again: Callable[[], Plan], what: str, front: Front) -> PlanDiffDocument:
    """The next turn as it is, and as it would be; under these limits it might not be sent at all."""
    plan = counted(plan, front.hooks)
    try:
        other = counted(again(), front.hooks)
    except BudgetExceeded as error:
        return plan_diff_document(plan.standing.session.id, side_of(plan, "now"), None, texts=(plan, None), error=error)
    return plan_diff_document(plan.standing.session.id, side_of(plan, "now"), side_of(other, what), texts=(plan, other))


def _since(
    header: Session, log: TurnLog, receipts: Mapping[int, Mapping[str, Any]], index: int, plan: Plan, planner: Planner, front: Front
) -> PlanDiffDocument:
    """A turn that was taken, by its receipt or as it would be planned now, and the next one. The texts of the first are written again."""
    turn = log.get(index)
    if turn is None:
        raise NotFound(f"the session has no turn {index}", hint=f"it has the turns 0 to {log.next_index - 1}" if log.next_index else "it has none")
    plan, now = counted(plan, front.hooks), f"turn {plan.index}"
    notices = []
    receipt = _receipt(receipts.get(index))
    then = _planned_again(header, log, turn, receipt, planner)
    if receipt is None:
        notices.append(f"what turn {index} was decided by was not kept: it is decided again, as the session stands now")
        before = side_of(then, f"turn {index}, decided again")
    else:
        before = side_of_turn(turn, receipt)
    notices.append(f"the texts of turn {index} are written again from the turns before it, with the need, the facts and the settings of now")
    return plan_diff_document(header.id, before, side_of(plan, now), texts=(then, plan), notices=notices)


def _receipt(data: Mapping[str, Any] | None) -> Receipt | None:
    try:
        return None if data is None else from_json(data)
    except ValueError:
        return None


def _planned_again(header: Session, log: TurnLog, turn: Turn, receipt: Receipt | None, planner: Planner) -> Plan:
    """The turn as its log stood then: with the state and the conversations of then, as far as they are known."""
    known = tuple(one for one in header.external_sessions if one.turn_index is not None and one.turn_index < turn.index)
    state = State.ROUTING if receipt is None or receipt.facts is None else receipt.facts.state
    need = header.need if header.need is not None and header.need.turn_index <= turn.index else None
    before = None if turn.continues is None else log.get(turn.continues)
    prompt = turn.prompt or (None if before is None else before.prompt) or EXAMPLE
    fresh = receipt is not None and receipt.flags.fresh
    wish = Wish(prompt, Choice(turn.role, turn.agent), fresh=fresh, continues=turn.continues)
    return planner(replace(header, external_sessions=known, state=state, need=need), EarlierTurns(log, turn.index), wish)


def _time(text: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(f"--now: {text!r} is no time", hint="as in 2026-03-01T12:00:00Z") from error


Given = tuple[Session, TurnLog, Memory, Mapping[int, Mapping[str, Any]]]
"""The session, its turns, what is remembered, and what its turns were decided by."""


def _from_file(front: Front, path: Path) -> Given:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--session-file: cannot read {path}: {error.strerror}") from error
    session, turns, receipts = read_session(front, data, str(path), new_id=lambda: NEW, new_nonce=lambda: NEW)
    return session, TurnList(turns), recalled_from(()), receipts


def _from_store(front: Front, ref: str | None, reading: ExitStack) -> Given:
    """All of it from one state of the store, for as long as `reading` lasts."""
    store = front.store(read_only=True)
    reading.enter_context(store.snapshot())
    try:
        session = store.find(ref, front.workspace)
    except NotFound:
        if ref is not None:
            raise
        return unborn(fresh_session(front)), TurnList(()), store.recall, {}
    return session, store.log(session.id), store.recall, store.receipts(session.id)


def unborn(session: Session) -> Session:
    """A session that is not stored, as a plan shows it."""
    return replace(session, id=NEW, nonce=NEW)


def show_plan(output: Output, plan: Plan, *, texts: bool = True) -> None:
    """The plan for people: who, which mode and why, what is sent and what is left out; with the `texts` themselves or without."""
    mode = f", mode {plan.mode}" if plan.mode else ""
    output.heading(f"turn {plan.index}: {plan.agent.name} ({plan.agent.kind}), {plan.route.role.value}{mode}")
    for reason in plan.reasons:
        output.say(f"  because {reason.rule}: {reason.detail}")
    need = plan.need or plan.standing.shown_need
    if need is not None:
        status = "" if plan.need is not None else f" ({plan.standing.need_status})"
        output.say(f"  need{status}: {need.text}")
    sizes = ", ".join(f"{name} {size:,}" for name, size in plan.budget.parts.items())
    limit = "no limit" if plan.budget.limit_chars is None else f"of {plan.budget.limit_chars:,}"
    output.say(f"  budget: {plan.budget.total_chars:,} characters ({limit}), about {plan.budget.tokens_estimate:,} tokens{_measured(plan)}: {sizes}")
    output.say(f"  history: {plan.scope.name}, turns sent: {spans(plan.fitted.sent) or 'none'}")
    for why, turns in _left_out(plan).items():
        output.say(f"  left out ({why}): turns {spans(turns)}")
    for turn, count in plan.fitted.cut:
        output.say(f"  left out (budget): the oldest {count} rounds of tool calls in turn {turn}")
    if plan.fitted.shortened:
        output.say(f"  tool results shortened in turns {spans(plan.fitted.shortened)}")
    withheld = f", {len(plan.chosen.withheld)} withheld" if plan.chosen.withheld else ""
    output.say(f"  remembered facts told: {len(plan.chosen.sent)}{withheld}")
    if plan.request.tools:
        output.say(f"  tools offered: {', '.join(tool.name for tool in plan.request.tools)}")
    for notice in plan.notices:
        output.say(f"  note: {notice}")
    for block in plan.texts.blocks if texts else ():
        output.say(f"\n--- {block.name} ({len(block.text):,} characters)")
        output.say(block.text)


def _measured(plan: Plan) -> str:
    if plan.budget.counted_by is not None:
        return f" (counted by {plan.budget.counted_by})"
    ratio = plan.budget.ratio
    return f" (measured: {ratio.chars_per_token:.1f} characters each)" if ratio.measured else ""


def _left_out(plan: Plan) -> dict[str, list[int]]:
    by_reason: dict[str, list[int]] = {}
    for turn, why in plan.fitted.dropped:
        by_reason.setdefault(why, []).append(turn)
    return by_reason
