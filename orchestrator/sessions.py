"""Sessions as commands and the server find, begin, change and remove them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from orchestrator.errors import NotFound, StoreError, UsageError
from orchestrator.lease import held
from orchestrator.premises import Premises
from orchestrator.providers import Cancel
from orchestrator.session import Outcome, Role, Session, Turn, TurnLog
from orchestrator.store import Claim, Receipt, Store

Style = Literal["markdown", "html", "json"]


def stored_session(premises: Premises, store: Store, *, ref: str | None, new: bool, name: str | None) -> Session | None:
    """The session that `ask` goes on with: by reference, by name, or the newest (page 6); `None` where one is to be begun.

    Raises `NotFound` and `Ambiguous` for a reference, `UsageError` where the flags contradict each other.
    """
    if ref is not None and (new or name is not None):
        raise UsageError("--session names an existing session; it does not go with --new or --name")
    if ref is not None:
        return store.find(ref, premises.workspace)
    named = None if name is None else named_session(store, premises.workspace, name)
    if new and named is not None:
        raise UsageError(
            f"{name!r} is the name of session {named.id[:8]}, so --new cannot begin one of that name", hint="leave out --new, or choose another name"
        )
    if new or name is not None:
        return named
    try:
        return store.find(None, premises.workspace)
    except NotFound:
        return None


def named_session(store: Store, workspace: str, name: str) -> Session | None:
    """The session with exactly that name in the workspace."""
    named = next((summary for summary in store.list(workspace) if summary.name == name), None)
    return None if named is None else store.find(named.id, workspace)


def fresh_session(premises: Premises, name: str | None = None) -> Session:
    """A session without turns, as it would be created now."""
    now = premises.clock.now()
    return Session(id=premises.new_id(), workspace=premises.workspace, nonce=premises.new_nonce(), name=name, created_at=now, updated_at=now)


def begun(store: Store, session: Session, *, first: bool, begin: Callable[[], None]) -> Session:
    """The new session, once `begin` has stored it; or the `first` one of the workspace, or that of its name, where another process was quicker."""
    try:
        begin()
    except (StoreError, UsageError):
        others = store.list(session.workspace)
        other = next((summary for summary in others if first or (session.name is not None and summary.name == session.name)), None)
        if other is None:
            raise
        return store.find(other.id, session.workspace)
    return session


def read_session(
    premises: Premises, data: bytes, name: str, *, new_id: Callable[[], str], new_nonce: Callable[[], str]
) -> tuple[Session, tuple[Turn, ...], Mapping[int, Receipt]]:
    """The session of a document, its turns and their receipts; a receipt that cannot be read is left out with a notice.

    Raises `DocumentError` with the place and the path of what is wrong.
    """
    from orchestrator.documents.json_text import read_json
    from orchestrator.documents.session import parse_session_document
    from orchestrator.receipts import receipts_in

    roles = {Role(role): premises.settings.explain(role).value for role in ("primary", "escalation")}
    named = {role: agent for role, agent in roles.items() if agent is not None}
    document = read_json(data, name)
    session, turns = parse_session_document(document, new_id=new_id, new_nonce=new_nonce, workspace=premises.workspace, agents=named)
    receipts, notices = receipts_in(document)
    for notice in notices:
        premises.tell_once(notice)
    return session, turns, receipts


@contextmanager
def held_session(premises: Premises, store: Store, ref: str | None, cancel: Cancel | None = None) -> Iterator[tuple[Claim, Session]]:
    """An existing session under our lease, read after it was claimed; `cancel` ends the wait for another process."""
    session = store.find(ref, premises.workspace)
    wait = premises.settings.value("session_wait")
    with held(store, session.id, premises.new_id(), clock=premises.clock, wait=wait, cancel=cancel or Cancel(), renewals=premises.renewals) as claim:
        yield claim, store.find(session.id, premises.workspace)


def renamed(premises: Premises, store: Store, ref: str | None, name: str) -> Session:
    """Give a session a name. Raises `UsageError` for one that is taken in its workspace."""
    with held_session(premises, store, ref) as (claim, session):
        taken = next((other for other in store.list(session.workspace) if other.name == name and other.id != session.id), None)
        if taken is not None:
            raise UsageError(f"{name!r} is the name of session {taken.id[:8]}", hint="choose another one")
        session = replace(session, name=name)
        store.save(claim, session)
    return session


def forked(premises: Premises, store: Store, session: Session, turns: Sequence[Turn], receipts: Mapping[int, Receipt], *, name: str | None = None) -> Session:
    """Store a copy of the session with those turns and what they were decided by, but for a turn that still runs. They are marked as copies."""
    now = premises.clock.now()
    copy = replace(session, id=premises.new_id(), nonce=premises.new_nonce(), name=name, external_sessions=(), created_at=now, updated_at=now)
    copies = tuple(replace(turn, copied_from=turn.copied_from or session.id) for turn in turns if turn.outcome is not Outcome.OPEN)
    store.import_session(copy, copies, receipts)
    return copy


def dropped(premises: Premises, store: Store, ref: str | None, *, purge: bool) -> tuple[Session, Path | None]:
    """Remove a session; an export of it is kept in the data folder, unless it is to be purged: the session that is gone, and the file."""
    with store.snapshot():
        session = store.find(ref, premises.workspace)
        log = store.log(session.id)
        end, text = log.next_index, None if purge else exported(session, all_turns(log), store.receipts(session.id), raw=True)
    kept = None if text is None else _keep(premises, session, text)
    store.drop(session.id, end, purge=purge)
    premises.wires.forget(session.id)
    premises.grants.forget_session(session.id)
    return session, kept


def _keep(premises: Premises, session: Session, text: str) -> Path:
    """The export of a session that goes, written whole before anything is removed, and over nothing that is there.

    A session's id may hold anything (trial T78): the file's name is made of what is harmless in it, the time and a part of our own.
    """
    folder = premises.paths.data / "dropped"
    path = folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', session.id)[:40]}-{premises.clock.now():%Y%m%dT%H%M%S}-{premises.new_id()[:8]}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(
            f"the session stays, since its export cannot be written to {path}: {error.strerror}", hint="free some space, or use --purge"
        ) from error
    return path


def exported(session: Session, turns: Sequence[Turn], receipts: Mapping[int, Receipt], style: Style = "json", *, raw: bool) -> str:
    """The session in that style; secrets are masked unless `raw`."""
    from orchestrator.documents.json_text import json_text
    from orchestrator.documents.masking import mask_values
    from orchestrator.documents.readable import html, markdown
    from orchestrator.documents.session import session_document

    if not raw:
        session, turns = mask_values(session), mask_values(tuple(turns))
        receipts = {index: mask_values(receipt) for index, receipt in receipts.items()}
    if style != "json":
        return markdown(session, turns) if style == "markdown" else html(session, turns)
    return json_text(session_document(session, turns, receipts))


def all_turns(log: TurnLog) -> tuple[Turn, ...]:
    """Oldest first, however they ended."""
    return tuple(reversed(list(log.newest_first(outcomes=None))))
