"""`escalera demo`: a guided tour of the four modes, with real inference in a throw-away store."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from orchestrator.cli.front import Front
from orchestrator.cli.runs import spans
from orchestrator.errors import EmptyAnswer
from orchestrator.escalation import Workplace, take_turn
from orchestrator.lease import held
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import Plan
from orchestrator.providers import Answer, Cancel
from orchestrator.recording import Report
from orchestrator.routing import Choice
from orchestrator.session import Role, State, set_need
from orchestrator.sessions import fresh_session


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the tour: what it shows, what is asked, of whom."""

    title: str
    prompt: str
    role: Role
    reason: str | None = None
    need: str | None = None
    """Stated by the user before the turn."""


TOUR: Sequence[Step] = (
    Step("The primary takes the turn", "Name one thing a bakery should write on its door.", Role.PRIMARY, need="open a small bakery"),
    Step("A first hand-over", "Which day of the week suits the opening best?", Role.ESCALATION, reason="the opening day matters and the primary is unsure"),
    Step("A straight follow-up", "Say it in five words.", Role.ESCALATION),
    Step("The primary works on meanwhile", "Suggest a name for the bakery.", Role.PRIMARY),
    Step("Back to the escalation agent", "Is the name easy to remember?", Role.ESCALATION),
    Step("The need changes: what it remembers is stale", "What should the first newsletter say?", Role.ESCALATION, need="write a newsletter"),
)
ATTEMPTS = 3
"""How often a turn is tried whose model says nothing at all."""


@click.command("demo")
@click.pass_obj
def command(front: Front) -> int:
    """Six turns between the two built-in agents: each with its mode, the reasons, what was sent and what was left out."""
    front.output.say(
        "Both agents of this tour are one very small model that runs in this process. What it says is no judge of anything;\n"
        "watch the modes, the reasons and what is sent. No mode depends on an answer. Nothing here is kept.\n"
    )
    with tempfile.TemporaryDirectory(prefix="escalera-demo-") as folder:
        tour = front.elsewhere(Path(folder))
        try:
            return _tour(tour)
        finally:
            tour.close()


def _tour(front: Front) -> int:
    store = front.store()
    session = fresh_session(front)
    store.create(session)
    place = front.workplace(store, session.workspace)
    for number, step in enumerate(TOUR, 1):
        front.output.heading(f"{number}. {step.title}")
        _between_turns(front, place, session.id, step)
        report = _taken(front, place, session.id, step)
        if report.error is not None:
            raise report.error
        _show(front, report)
    front.output.say('Now with your own session: escalera ask "…", escalera ask --escalate "…", and escalera plan to see a turn before it is taken.')
    return 0


def _between_turns(front: Front, place: Workplace, session: str, step: Step) -> None:
    """What a user does between turns: states the need, and goes on without replying where the model ended with a question."""
    with held(place.store, session, place.owner, clock=place.clock, wait=place.session_wait, cancel=Cancel()) as claim:
        header = place.store.find(session, place.workspace)
        if header.state is State.WAITING:
            front.output.say("   (the answer ended with a question; the tour goes on without a reply)")
            header = replace(header, state=State.ROUTING)
        if step.need is not None:
            index = place.store.log(session).next_index
            need = set_need(header.need, step.need, turn_index=index, during=False, now=place.clock.now(), source="user")
            header = replace(header, need=need)
            front.output.say(f"   need: {step.need}")
        place.store.save(claim, header)


def _taken(front: Front, place: Workplace, session: str, step: Step) -> Report:
    wish = Wish(step.prompt, Choice(role=step.role), reason=step.reason)
    front.output.say(f"   prompt: {step.prompt}")
    for attempt in range(1, ATTEMPTS + 1):
        report = take_turn(place, session, wish, cancel=Cancel(), ask=lambda _question: Answer("decline", by="nobody"), watch=lambda _shown: None)
        if not isinstance(report.error, EmptyAnswer) or attempt == ATTEMPTS:
            break
    return report


def _show(front: Front, report: Report) -> None:
    plan, turn = report.plan, report.turn
    front.output.say(f"   {turn.agent} ({turn.role}), mode: {turn.mode or '– (a primary turn)'}")
    for reason in turn.reasons:
        front.output.say(f"   because {reason.rule}: {reason.detail}")
    front.output.say(f"   sent: {_sent(plan)}")
    left_out = [turn for turn, _ in plan.fitted.dropped]
    front.output.say(f"   left out: {f'turns {spans(left_out)} ({_why(plan)})' if left_out else 'nothing'}")
    front.output.say(f"   answer: {' '.join(turn.answer.split())}\n")


def _sent(plan: Plan) -> str:
    blocks = ", ".join(f"{block.name} {len(block.text)}" for block in plan.texts.blocks)
    total = f"{plan.budget.total_chars:,} of {plan.budget.limit_chars:,} characters in all"
    return f"{blocks} characters; turns {spans(plan.fitted.sent) or 'none'} of the history; {total}"


def _why(plan: Plan) -> str:
    return ", ".join(sorted({why for _, why in plan.fitted.dropped}))
