"""Finding, making and waiting for the session that a command is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from orchestrator.cli.front import Front
from orchestrator.errors import NotFound, StoreError, UsageError
from orchestrator.lease import held
from orchestrator.providers import Cancel
from orchestrator.session import Role, Session, Turn
from orchestrator.store import Claim, Receipt, Store


def stored_session(front: Front, store: Store, *, ref: str | None, new: bool, name: str | None) -> Session | None:
    """The session that `ask` goes on with: by reference, by name, or the newest (page 6); `None` where one is to be begun.

    Raises `NotFound` and `Ambiguous` for a reference, `UsageError` where the flags contradict each other.
    """
    if ref is not None and (new or name is not None):
        raise UsageError("--session names an existing session; it does not go with --new or --name")
    if ref is not None:
        return store.find(ref, front.workspace)
    named = None if name is None else named_session(store, front.workspace, name)
    if new and named is not None:
        raise UsageError(
            f"{name!r} is the name of session {named.id[:8]}, so --new cannot begin one of that name", hint="leave out --new, or choose another name"
        )
    if new or name is not None:
        return named
    try:
        return store.find(None, front.workspace)
    except NotFound:
        return None


def named_session(store: Store, workspace: str, name: str) -> Session | None:
    """The session with exactly that name in the workspace."""
    named = next((summary for summary in store.list(workspace) if summary.name == name), None)
    return None if named is None else store.find(named.id, workspace)


def fresh_session(front: Front, name: str | None = None) -> Session:
    """A session without turns, as it would be created now."""
    now = front.clock.now()
    return Session(id=front.new_id(), workspace=front.workspace, nonce=front.new_nonce(), name=name, created_at=now, updated_at=now)


def begun(store: Store, session: Session, *, first: bool, begin: Callable[[], None]) -> Session:
    """The new session, once `begin` has stored it; or the `first` one of the workspace, or that of its name, where another process was quicker."""
    try:
        begin()
    except StoreError:
        others = store.list(session.workspace)
        other = next((summary for summary in others if first or (session.name is not None and summary.name == session.name)), None)
        if other is None:
            raise
        return store.find(other.id, session.workspace)
    return session


def read_session(
    front: Front, data: bytes, name: str, *, new_id: Callable[[], str], new_nonce: Callable[[], str]
) -> tuple[Session, tuple[Turn, ...], Mapping[int, Receipt]]:
    """The session of a document, its turns and their receipts; a receipt that cannot be read is left out with a notice.

    Raises `DocumentError` with the place and the path of what is wrong.
    """
    from orchestrator.documents.json_text import read_json
    from orchestrator.documents.session import parse_session_document
    from orchestrator.receipts import receipts_in

    roles = {Role(role): front.settings.explain(role).value for role in ("primary", "escalation")}
    named = {role: agent for role, agent in roles.items() if agent is not None}
    document = read_json(data, name)
    session, turns = parse_session_document(document, new_id=new_id, new_nonce=new_nonce, workspace=front.workspace, agents=named)
    receipts, notices = receipts_in(document)
    for notice in notices:
        front.output.notice(notice)
    return session, turns, receipts


@contextmanager
def held_session(front: Front, store: Store, ref: str | None, cancel: Cancel | None = None) -> Iterator[tuple[Claim, Session]]:
    """An existing session under our lease, read after it was claimed; `cancel` ends the wait for another process."""
    session = store.find(ref, front.workspace)
    with held(store, session.id, front.new_id(), clock=front.clock, wait=front.settings.value("session_wait"), cancel=cancel or Cancel()) as claim:
        yield claim, store.find(session.id, front.workspace)
