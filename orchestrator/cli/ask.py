"""`escalera ask`: one turn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.asking import AtTerminal, Nobody
from orchestrator.cli.front import Front
from orchestrator.cli.interrupts import cancelled_by_signals
from orchestrator.cli.notify import Speaker
from orchestrator.cli.output import ReaderGone
from orchestrator.cli.prompt import choice_of, choice_options, prompt_text
from orchestrator.cli.sessions import begun, fresh_session, stored_session
from orchestrator.cli.watch import watcher_for
from orchestrator.dispatch.desk import Shown
from orchestrator.errors import OutputFailed, UsageError
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.session import Role, Session
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
    **choice: Any,
) -> int:
    """One turn of the session, by the agent that fits; PROMPT may also be piped in."""
    from orchestrator.cli.briefing import edited_brief, editor_of
    from orchestrator.documents.turn import turn_document
    from orchestrator.escalation import foreseen, planned, take_turn
    from orchestrator.planning.case import Wish
    from orchestrator.planning.plan import Plan, revised

    if edit_brief and not front.output.interactive:
        raise UsageError("--edit-brief needs a terminal for the editor", hint="give the brief with --reason TEXT instead")
    text = prompt_text(front, prompt, choice["files"])
    wish = Wish(text, choice_of(choice), reason=choice["reason"], fresh=choice["fresh"])
    front.greet()
    store = front.store()
    stored = stored_session(front, store, ref=session, new=new, name=name)
    chosen = stored or fresh_session(front, name)
    front = front.at(chosen.workspace)
    place = front.workplace(store, chosen.workspace, turn_timeout=None if timeout is None else front.duration(timeout, "--timeout"))
    edit = editor_of(front.environ, front.cwd)
    if edit_brief:
        plan = foreseen(place, chosen, wish) if stored is None else planned(place, chosen.id, wish)
        wish = revised(wish, edited_brief(plan, edit)) if plan.route.role is Role.ESCALATION else wish
    if stored is None:
        chosen = _begun(store, place, chosen, wish, new=new)
    watcher = watcher_for(front.output, as_json=as_json, stream_json=stream_json)
    cancel = Cancel()
    unread: list[Exception] = []

    def show(shown: Shown) -> None:
        try:
            watcher.show(shown)
        except (ReaderGone, OutputFailed) as problem:
            unread.append(problem)
            cancel.set("the output has nowhere to go")

    asker = AtTerminal(cancel, watcher.quiet) if front.output.asks else Nobody(lambda text: show(Shown("notice", text)))

    speaker = Speaker(show)

    def asked(question: Question) -> Answer:
        show(Shown("question", question.message, {"mode": question.mode, "requested_schema": dict(question.schema)}))
        if front.output.asks:
            front.notifier("question", session=chosen.id, agent=speaker.agent, text=question.message)
        return asker(question)

    def revise(plan: Plan) -> str:
        with watcher.quiet():
            return edited_brief(plan, edit)

    with cancelled_by_signals(cancel, front.clock.monotonic), watcher:
        report = take_turn(place, chosen.id, wish, cancel=cancel, ask=asked, watch=speaker, revise=revise if edit_brief else None)
    if unread:  # the turn was ended and kept like any cancelled one
        raise unread[0]
    report = replace(report, notices=(*report.notices, *asker.denied))
    document = turn_document(report)
    watcher.finish(report, document)
    if report.error is not None:
        front.output.notice(f"escalera: {report.error.message}" + (f" ({report.error.hint})" if report.error.hint else ""))
        return report.error.exit_code
    return 5 if asker.denied else 0


def _begun(store: Store, place: Workplace, session: Session, wish: Wish, *, new: bool) -> Session:
    """The session, begun unless another process was quicker with one that does as well."""
    from orchestrator.escalation import begin_session

    first = not new and session.name is None
    begin = partial(begin_session, place, session, wish, first=first)
    if new:
        begin()
        return session
    return begun(store, session, first=first, begin=begin)
