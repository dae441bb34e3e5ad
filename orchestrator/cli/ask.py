"""`escalera ask`: one turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from orchestrator.asking import Asking, left_open
from orchestrator.cli.asking import AtTerminal
from orchestrator.cli.front import Front
from orchestrator.cli.interrupts import cancelled_by_signals
from orchestrator.cli.output import ReaderGone
from orchestrator.cli.prompt import choice_of, choice_options, prompt_text
from orchestrator.cli.watch import Watcher, watcher_for
from orchestrator.continuing import due_questions, offer, with_answers
from orchestrator.dispatch.desk import Shown
from orchestrator.errors import OutputFailed, UsageError
from orchestrator.providers import Cancel
from orchestrator.questions import StoredQuestion
from orchestrator.recording import Report
from orchestrator.session import Role, Session
from orchestrator.sessions import begun, fresh_session, stored_session
from orchestrator.store import Store

if TYPE_CHECKING:
    from orchestrator.escalation import Workplace
    from orchestrator.planning.case import Wish


@click.command("ask")
@click.argument("prompt", nargs=-1)
@choice_options
@click.option("--session", "session", metavar="REF", help="An id, the beginning of one, or a name.")
@click.option("--new", is_flag=True, help="Begin a session.")
@click.option("--name", metavar="NAME", help="The session of that name, begun if there is none.")
@click.option("--timeout", metavar="TIME", help="End the turn after that long, as in 90s or 5m.")
@click.option("--edit-brief", is_flag=True, help="See and change, in your editor, what an escalation agent is told as the reason.")
@click.option("--wait-questions", is_flag=True, help="Where nobody can be asked here, wait for an answer from elsewhere.")
@click.option("--continue", "go_on", is_flag=True, help="Go on after a question: send its answer to the agent that asked.")
@click.option("--background", is_flag=True, help="Print the id of a task, and take the turn in a process of its own; see `escalera tasks`.")
@click.option("--json", "as_json", is_flag=True, help="Print the turn document.")
@click.option("--stream-json", is_flag=True, help="Print one event a line, the turn document last.")
@click.pass_obj
def command(
    front: Front,
    /,
    prompt: tuple[str, ...],
    session: str | None,
    new: bool,
    name: str | None,
    timeout: str | None,
    edit_brief: bool,
    as_json: bool,
    stream_json: bool,
    wait_questions: bool,
    go_on: bool,
    background: bool,
    **choice: Any,
) -> int:
    """One turn of the session, by the agent that fits; PROMPT may also be piped in."""
    from orchestrator.cli.briefing import edited_brief, editor_of
    from orchestrator.escalation import foreseen, planned, take_turn
    from orchestrator.planning.case import Wish
    from orchestrator.planning.plan import Plan, revised

    _refuse_contradictions(front, new=new or name is not None, go_on=go_on, background=background, stream_json=stream_json, edit_brief=edit_brief)
    text, files = prompt_text(front, prompt, choice["files"]) if prompt or choice["files"] or not go_on else ("", ())
    wish = Wish(text, choice_of(choice), reason=choice["reason"], fresh=choice["fresh"], files=files)
    front.greet()
    store = front.store()
    stored = store.find(session, front.workspace) if go_on else stored_session(front, store, ref=session, new=new, name=name)
    chosen = stored or fresh_session(front, name)
    front = front.at(chosen.workspace)
    broker = front.broker(store)
    place = front.workplace(store, chosen.workspace, turn_timeout=None if timeout is None else front.duration(timeout, "--timeout"))
    watcher = watcher_for(front.output, as_json=as_json, stream_json=stream_json)
    cancel = Cancel()
    unread: list[Exception] = []

    def show(shown: Shown) -> None:
        try:
            watcher.show(shown)
        except (ReaderGone, OutputFailed) as problem:
            unread.append(problem)
            cancel.set("the output has nowhere to go")

    human = AtTerminal(watcher.quiet, moves=not front.output.plain) if front.output.asks else None
    notify = front.notifier if human is not None or wait_questions else None
    asking = Asking(broker, cancel, human=human, waits=wait_questions, watch=show, notify=notify)
    edit = editor_of(front.environ, front.cwd, front.output.stdout)

    def revise(plan: Plan) -> str:
        with watcher.quiet():
            return edited_brief(plan, edit)

    due: Sequence[StoredQuestion] = ()
    broker.tidy()
    if go_on:
        with cancelled_by_signals(cancel, front.clock.monotonic), watcher:
            due = due_questions(broker, chosen.id, asking)
        wish = with_answers(wish, due, place.templates)
    elif (waits := offer(broker, chosen.id)) is not None:
        watcher.notice(waits)
    if edit_brief:
        plan = foreseen(place, chosen, wish) if stored is None else planned(place, chosen.id, wish)
        wish = revised(wish, edited_brief(plan, edit)) if plan.route.role is Role.ESCALATION else wish
    if stored is None:
        chosen = _begun(store, place, chosen, wish, new=new)
    if background:
        return _left(front, store, chosen, wish, timeout, wait_questions=wait_questions, due=due, as_json=as_json)
    with cancelled_by_signals(cancel, front.clock.monotonic):  # until the turn is told: an interrupt that comes twice must not cost its document
        with watcher:
            report = take_turn(place, chosen.id, wish, cancel=cancel, ask=asking, watch=show, revise=revise if edit_brief else None)
        if due and report.error is None:
            broker.told(*due)
        return _concluded(front, watcher, report, asking, unread)


def _concluded(front: Front, watcher: Watcher, report: Report, asking: Asking, unread: Sequence[Exception]) -> int:
    """Show how the turn ended: the exit code. Where the output had nowhere to go, the turn was ended and kept like any cancelled one."""
    from orchestrator.documents.turn import turn_document

    if unread:
        raise unread[0]
    report = replace(report, notices=(*report.notices, *asking.denied, *map(left_open, asking.left)))
    watcher.finish(report, turn_document(report, open_questions=[question.id for question in asking.left]))
    if report.error is not None:
        front.output.notice(f"escalera: {report.error.message}" + (f" ({report.error.hint})" if report.error.hint else ""))
        return report.error.exit_code
    return asking.exit_code


def _refuse_contradictions(front: Front, *, new: bool, go_on: bool, background: bool, stream_json: bool, edit_brief: bool) -> None:
    if background and stream_json:
        raise UsageError("--background has nothing to stream", hint="`escalera tasks result ID --wait` waits for the turn document")
    if go_on and new:
        raise UsageError("--continue goes on with a session; it does not go with --new or --name")
    if edit_brief and not front.output.interactive:
        raise UsageError("--edit-brief needs a terminal for the editor", hint="give the brief with --reason TEXT instead")


def _left(
    front: Front, store: Store, session: Session, wish: Wish, timeout: str | None, *, wait_questions: bool, due: Sequence[StoredQuestion], as_json: bool
) -> int:
    """The turn, left to a process of its own: the task's id."""
    from orchestrator.background import start_task
    from orchestrator.documents.task import task_document

    seconds = None if timeout is None else front.duration(timeout, "--timeout")
    task = start_task(front, store, session, wish, timeout=seconds, wait_questions=wait_questions, due=[question.id for question in due])
    if as_json:
        front.output.print_json(task_document(task, store.now()))
    else:
        front.output.say(task.id)
    return 0


def _begun(store: Store, place: Workplace, session: Session, wish: Wish, *, new: bool) -> Session:
    """The session, begun unless another process was quicker with one that does as well."""
    from orchestrator.escalation import begin_session

    first = not new and session.name is None
    begin = partial(begin_session, place, session, wish, first=first)
    if new:
        begin()
        return session
    return begun(store, session, first=first, begin=begin)
