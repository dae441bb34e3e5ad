"""A session's need as commands and the server change and show it (page 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.clock import format_time
from orchestrator.errors import NotFound, UsageError
from orchestrator.messages import well_formed
from orchestrator.premises import Premises
from orchestrator.providers import Cancel
from orchestrator.session import Session, TurnLog, set_need
from orchestrator.sessions import held_session
from orchestrator.standing import Standing, cleared_need, restored_need, standing
from orchestrator.store import Store
from orchestrator.tags import MAX_BODY

if TYPE_CHECKING:
    from orchestrator.documents.kinds.sessions import NeedDocument

Change = Callable[[Session, int, datetime], Session]
"""What becomes of a session's need: the session as it stands, the index of its next turn and the time give the session afterwards."""


def change_need(premises: Premises, store: Store, ref: str | None, change: Change, *, loaded: bool = True, cancel: Cancel | None = None) -> Session:
    """Change it under the session's lease; `loaded` is false where this process took turns in the session already (page 1)."""
    with held_session(premises, store, ref, cancel) as (claim, session):
        log = store.log(session.id)
        session = change(stand_of(premises, session, log, loaded=loaded).session, log.next_index, premises.clock.now())
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


def stand_of(premises: Premises, session: Session, log: TurnLog, *, loaded: bool = True) -> Standing:
    """The session after expiry, as it stands now by the rules of its workspace."""
    expiry = premises.at(session.workspace).expiry
    now, hours = premises.clock.now(), (expiry.need_hours, expiry.waiting_hours)
    return standing(session, log, now=now, need_expiry_hours=hours[0], waiting_expiry_hours=hours[1], loaded=loaded)


def need_document(premises: Premises, session: Session, log: TurnLog, *, loaded: bool = True) -> NeedDocument:
    """The need with its status, label and lifetime, and the last one."""
    from orchestrator.documents.need import need_fields

    stand, expiry = stand_of(premises, session, log, loaded=loaded), premises.at(session.workspace).expiry
    last = stand.session.last_need
    return {
        "format": "escalera.need/1",
        "session": session.id,
        **need_fields(stand.shown_need, stand.need_status, pending=log.next_index, expiry_hours=expiry.need_hours, now=premises.clock.now()),
        "last_need": None if last is None else {"text": last.need.text, "reason": last.reason, "cleared_at": format_time(last.cleared_at)},
    }
