"""`escalera plan`: what the next turn would be and would send. Calls nobody, writes nothing."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.cli.prompt import choice_of, choice_options, prompt_text
from orchestrator.clock import parse_time
from orchestrator.errors import NotFound, UsageError
from orchestrator.memory.inject import recalled_from
from orchestrator.percepts import Memory
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import Plan, counted, plan_turn, through_rules
from orchestrator.planning.texts import NEW
from orchestrator.session import Session, TurnList, TurnLog
from orchestrator.sessions import fresh_session, read_session

EXAMPLE = "…"
"""Stands for the prompt where none is given."""


@click.command("plan")
@click.argument("prompt", nargs=-1)
@choice_options
@click.option("--session", "session", metavar="REF", help="An id, the beginning of one, or a name; else the newest.")
@click.option("--session-file", type=click.Path(path_type=Path), metavar="FILE", help="An exported session instead of the store.")
@click.option("--now", metavar="TIME", help="Another time than the clock's, in ISO 8601.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan document.")
@click.pass_obj
def command(front: Front, /, prompt: tuple[str, ...], session: str | None, session_file: Path | None, now: str | None, as_json: bool, **choice: Any) -> None:
    """What the next turn would be and would send, with the reasons and the budget."""
    from orchestrator.documents.plan import plan_document

    if session is not None and session_file is not None:
        raise UsageError("--session and --session-file contradict each other", hint="give one of them")
    moment = front.clock.now() if now is None else _time(now)
    text, _ = prompt_text(front, prompt, choice["files"], default=EXAMPLE)
    wish = Wish(text, choice_of(choice), reason=choice["reason"], fresh=choice["fresh"])
    with ExitStack() as reading:
        header, log, memory = _from_file(front, session_file) if session_file is not None else _from_store(front, session, reading)
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
    plan = counted(plan, front.hooks)
    if as_json:
        front.output.print_json(plan_document(plan, expiry=front.expiry, now=moment))
    else:
        show_plan(front.output, plan)


def _time(text: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(f"--now: {text!r} is no time", hint="as in 2026-03-01T12:00:00Z") from error


def _from_file(front: Front, path: Path) -> tuple[Session, TurnLog, Memory]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--session-file: cannot read {path}: {error.strerror}") from error
    session, turns, _ = read_session(front, data, str(path), new_id=lambda: NEW, new_nonce=lambda: NEW)
    return session, TurnList(turns), recalled_from(())


def _from_store(front: Front, ref: str | None, reading: ExitStack) -> tuple[Session, TurnLog, Memory]:
    """All of it from one state of the store, for as long as `reading` lasts."""
    store = front.store(read_only=True)
    reading.enter_context(store.snapshot())
    try:
        session = store.find(ref, front.workspace)
    except NotFound:
        if ref is not None:
            raise
        return unborn(fresh_session(front)), TurnList(()), store.recall
    return session, store.log(session.id), store.recall


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


def spans(indexes: tuple[int, ...] | list[int]) -> str:
    """Indexes as ranges: `0–4, 7`."""
    found: list[list[int]] = []
    for index in sorted(indexes):
        if found and index == found[-1][-1] + 1:
            found[-1][-1] = index
        else:
            found.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in found)
