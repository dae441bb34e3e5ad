"""`escalera need`: what the user is trying to do now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.cli.sessions import begun, fresh_session, held_session, stored_session
from orchestrator.clock import format_time
from orchestrator.errors import NotFound, UsageError
from orchestrator.messages import well_formed
from orchestrator.session import Session, TurnLog, set_need
from orchestrator.standing import Standing, cleared_need, restored_need, standing
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
    wanted = well_formed(" ".join(text))
    if not wanted.strip():
        raise UsageError("a need cannot be empty", hint="say what you are trying to do; `escalera need clear` forgets it")
    if len(wanted) > MAX_BODY:
        raise UsageError(f"a need has at most {MAX_BODY:,} characters, this one has {len(wanted):,}", hint="say what you want in a sentence or two")
    store = front.store()
    session = stored_session(front, store, ref=ref, new=False, name=None)
    if session is None:
        new = fresh_session(front)
        session = begun(store, new, first=True, begin=lambda: store.create(new, first=True))
    with held_session(front, store, session.id) as (claim, session):
        log = store.log(session.id)
        stand = _standing(front, session, log)
        need = set_need(stand.session.need, wanted, turn_index=log.next_index, during=False, now=front.clock.now(), source="user")
        session = replace(stand.session, need=need)
        store.save(claim, session)
    _print(front, session, log, as_json)


@command.command("clear")
@session_option
@json_option
@click.pass_obj
def clear(front: Front, ref: str | None, as_json: bool) -> None:
    """Forget it; `need restore` brings it back within seven days."""
    store = front.store()
    with held_session(front, store, ref) as (claim, session):
        log = store.log(session.id)
        session = cleared_need(_standing(front, session, log).session, front.clock.now())
        store.save(claim, session)
    _print(front, session, log, as_json)


@command.command("restore")
@session_option
@json_option
@click.pass_obj
def restore(front: Front, ref: str | None, as_json: bool) -> None:
    """Bring the last need back, with a fresh time and its position now; the one that stood until then becomes the last."""
    store = front.store()
    with held_session(front, store, ref) as (claim, session):
        log = store.log(session.id)
        restored = restored_need(_standing(front, session, log).session, front.clock.now(), turn_index=log.next_index)
        if restored is None:
            raise NotFound("there is no last need to restore", hint="needs are kept for seven days after they were cleared")
        session = restored
        store.save(claim, session)
    _print(front, session, log, as_json)


def _standing(front: Front, session: Session, log: TurnLog) -> Standing:
    expiry = front.at(session.workspace).expiry
    return standing(session, log, now=front.clock.now(), need_expiry_hours=expiry.need_hours, waiting_expiry_hours=expiry.waiting_hours)


def _print(front: Front, session: Session, log: TurnLog, as_json: bool) -> None:
    document = need_document(front, session, log)
    if as_json:
        front.output.print_json(document)
        return
    last = document["last_need"]
    front.output.say("no need is set" if document["text"] is None or document["status"] == "none" else f"{document['text']} [{document['status']}]")
    if last is not None and document["status"] != "set":
        front.output.say(f"the last one, {last['text']!r}, was {last['reason']} at {last['cleared_at']}; `escalera need restore` brings it back")


def need_document(front: Front, session: Session, log: TurnLog) -> NeedDocument:
    """The need with its status, label and lifetime, and the last one."""
    from orchestrator.documents.need import need_fields

    stand, expiry = _standing(front, session, log), front.at(session.workspace).expiry
    last = stand.session.last_need
    return {
        "format": "escalera.need/1",
        "session": session.id,
        **need_fields(stand.shown_need, stand.need_status, pending=log.next_index, expiry_hours=expiry.need_hours, now=front.clock.now()),
        "last_need": None if last is None else {"text": last.need.text, "reason": last.reason, "cleared_at": format_time(last.cleared_at)},
    }
