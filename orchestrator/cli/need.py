"""`escalera need`: what the user is trying to do now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.needs import change_need, cleared, need_document, restored, stated, usable_need
from orchestrator.session import Session, TurnLog
from orchestrator.sessions import begun, fresh_session, stored_session

if TYPE_CHECKING:
    from orchestrator.documents.kinds.sessions import NeedDocument

session_option = click.option("--session", "ref", metavar="REF", help="An id, the beginning of one, or a name; else the newest.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")


@click.group("need")
def command() -> None:
    """What the user is trying to do: told to the agents, and what makes their memory stale when it changes."""


@command.command("show")
@session_option
@json_option
@click.pass_obj
def show(front: Front, ref: str | None, as_json: bool) -> None:
    """The need as it stands, or the last one with the reason why it was cleared."""
    store = front.store(read_only=True)
    with store.snapshot():
        session = store.find(ref, front.workspace)
        _print(front, session, store.log(session.id), as_json)


@command.command("set")
@click.argument("text", nargs=-1, required=True)
@session_option
@json_option
@click.pass_obj
def set_(front: Front, text: tuple[str, ...], ref: str | None, as_json: bool) -> None:
    """State it; the same text again only renews it. Begins a session where there is none."""
    wanted = usable_need(" ".join(text))
    store = front.store()
    session = stored_session(front, store, ref=ref, new=False, name=None)
    if session is None:
        new = fresh_session(front)
        session = begun(store, new, first=True, begin=lambda: store.create(new, first=True))
    session = change_need(front, store, session.id, stated(wanted))
    _print(front, session, store.log(session.id), as_json)


@command.command("clear")
@session_option
@json_option
@click.pass_obj
def clear(front: Front, ref: str | None, as_json: bool) -> None:
    """Forget it; `need restore` brings it back within seven days."""
    store = front.store()
    session = change_need(front, store, ref, cleared)
    _print(front, session, store.log(session.id), as_json)


@command.command("restore")
@session_option
@json_option
@click.pass_obj
def restore(front: Front, ref: str | None, as_json: bool) -> None:
    """Bring the last need back, with a fresh time and its position now; the one that stood until then becomes the last."""
    store = front.store()
    session = change_need(front, store, ref, restored)
    _print(front, session, store.log(session.id), as_json)


def _print(front: Front, session: Session, log: TurnLog, as_json: bool) -> None:
    document = need_document(front, session, log)
    if as_json:
        front.output.print_json(document)
    else:
        say_need(front, document)


def say_need(front: Front, document: NeedDocument) -> None:
    """For people."""
    last = document["last_need"]
    front.output.say("no need is set" if document["text"] is None or document["status"] == "none" else f"{document['text']} [{document['status']}]")
    if last is not None and document["status"] != "set":
        front.output.say(f"the last one, {last['text']!r}, was {last['reason']} at {last['cleared_at']}; `need restore` brings it back")
