"""`escalera need`: what the user is trying to do now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.cli.sessions import begun, fresh_session, held_session, stored_session
from orchestrator.clock import format_time
from orchestrator.errors import NotFound, UsageError
from orchestrator.messages import well_formed
from orchestrator.providers import Cancel
from orchestrator.session import Session, TurnLog, set_need
from orchestrator.standing import Standing, cleared_need, restored_need, standing
from orchestrator.store import Store
from orchestrator.tags import MAX_BODY

if TYPE_CHECKING:
    from orchestrator.documents.kinds import NeedDocument

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


Change = Callable[[Session, int, datetime], Session]
"""What becomes of a session's need: the session as it stands, the index of its next turn and the time give the session afterwards."""


def change_need(front: Front, store: Store, ref: str | None, change: Change, *, loaded: bool = True, cancel: Cancel | None = None) -> Session:
    """Change it under the session's lease; `loaded` is false where this process took turns in the session already (page 1)."""
    with held_session(front, store, ref, cancel) as (claim, session):
        log = store.log(session.id)
        session = change(stand_of(front, session, log, loaded=loaded).session, log.next_index, front.clock.now())
        store.save(claim, session)
    return session


def usable_need(text: str) -> str:
    """The text, if it can be a need. Raises `UsageError`."""
    text = well_formed(text)
    if not text.strip():
        raise UsageError("a need cannot be empty", hint="say what you are trying to do; `need clear` forgets it")
    if len(text) > MAX_BODY:
        raise UsageError(f"a need has at most {MAX_BODY:,} characters, this one has {len(text):,}", hint="say what you want in a sentence or two")
    return text


def stated(text: str) -> Change:
    return lambda session, index, now: replace(session, need=set_need(session.need, text, turn_index=index, during=False, now=now, source="user"))


def cleared(session: Session, _index: int, now: datetime) -> Session:
    return cleared_need(session, now)


def restored(session: Session, index: int, now: datetime) -> Session:
    """Raises `NotFound` where none was cleared lately."""
    found = restored_need(session, now, turn_index=index)
    if found is None:
        raise NotFound("there is no last need to restore", hint="needs are kept for seven days after they were cleared")
    return found


def stand_of(front: Front, session: Session, log: TurnLog, *, loaded: bool = True) -> Standing:
    """The session after expiry, as it stands now by the rules of its workspace."""
    expiry = front.at(session.workspace).expiry
    now, hours = front.clock.now(), (expiry.need_hours, expiry.waiting_hours)
    return standing(session, log, now=now, need_expiry_hours=hours[0], waiting_expiry_hours=hours[1], loaded=loaded)


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


def need_document(front: Front, session: Session, log: TurnLog, *, loaded: bool = True) -> NeedDocument:
    """The need with its status, label and lifetime, and the last one."""
    from orchestrator.documents.need import need_fields

    stand, expiry = stand_of(front, session, log, loaded=loaded), front.at(session.workspace).expiry
    last = stand.session.last_need
    return {
        "format": "escalera.need/1",
        "session": session.id,
        **need_fields(stand.shown_need, stand.need_status, pending=log.next_index, expiry_hours=expiry.need_hours, now=front.clock.now()),
        "last_need": None if last is None else {"text": last.need.text, "reason": last.reason, "cleared_at": format_time(last.cleared_at)},
    }
