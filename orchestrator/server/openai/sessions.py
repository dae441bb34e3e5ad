"""Which session a client means that knows nothing of sessions: the one it names, or the one in which what it repeats was said."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

from orchestrator.errors import Ambiguous, NotFound
from orchestrator.server.openai.talk import Exchange, Talk, digest_of
from orchestrator.server.problems import Refused, encoded
from orchestrator.server.runs import Run
from orchestrator.server.service import Order, Service
from orchestrator.session import Session
from orchestrator.sessions import all_turns, forked, fresh_session, named_session, read_session
from orchestrator.undo import session_before

MOST_KNOWN = 4096
"""Conversations of clients that are known by what was said in them."""
RESPONSE = "resp_"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a client stands in a session."""

    session: str
    end: int
    """The index of the turn that is the next one there."""


class Sessions:
    """Finds them, and begins those that are not there."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: OrderedDict[str, _Place] = OrderedDict()
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()

    def taken(self, talk: Talk, order: Order, *, ref: str | None, user: str | None, previous: str | None = None) -> Run:
        """The turn, begun in the session that is meant. A named one is what its store says, whatever the client repeats.

        Any other holds just what the client has seen of it: no turn that another client, or another branch, has taken since.
        """
        store, premises = self._service.store, self._service.premises
        if ref is not None:
            return self._service.take(store.find(ref, premises.workspace), order)
        if previous is not None:
            return self._after(previous, order)
        if user is not None and user.strip():
            return self._service.take(self._of_user(user.strip()), order)
        if not talk.before:
            return self._service.take(fresh_session(premises), replace(order, begins=True))
        with self._lock:
            known = self._known.get(talk.digest)
        run = None if known is None else self._from(known, order)
        return run or self._service.take(self._taken_in(talk), order)

    def remember(self, run: Run, before: tuple[Exchange, ...], prompt: str, answer: str) -> None:
        """What the client will repeat when it goes on, of one that is known by nothing else."""
        digest = digest_of((*before, Exchange(prompt, answer)))
        with self._lock:
            self._known[digest] = _Place(run.session, run.turns[-1] + 1)
            self._known.move_to_end(digest)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def _of_user(self, user: str) -> Session:
        store, premises = self._service.store, self._service.premises
        known = self._names.get(user)
        if known is not None:
            try:
                session = store.find(known, premises.workspace)
                if session.id == known and session.name == user:
                    return session
            except NotFound:
                pass
        with self._lock:  # two requests of a new user begin one session
            named = named_session(store, premises.workspace, user)
            session = named or fresh_session(premises, user)
            if named is None:
                store.create(session)
            if len(self._names) >= MOST_KNOWN:
                self._names.clear()
            self._names[user] = session.id
        return session

    def _after(self, previous: str, order: Order) -> Run:
        """In the session of an earlier response; in a copy that ends with it, where the session has gone on since."""
        identity, _, index = previous.removeprefix(RESPONSE).rpartition("_")
        known = previous.startswith(RESPONSE) and identity and index.isascii() and index.isdigit() and len(index) < 10
        run = self._from(self._place(identity, int(index)), order) if known else None
        if run is None:
            raise Refused(404, "previous_response_id: there is no such response")
        return run

    def _place(self, session: str, index: int) -> _Place:
        """Behind that turn, and behind the one that it was handed over to."""
        log = self._service.store.log(session)
        after = log.get(index + 1) if index + 1 < log.next_index else None
        return _Place(session, index + (1 if after is None or after.continues != index else 2))

    def _from(self, place: _Place, order: Order) -> Run | None:
        """The turn that follows there, in the session itself or a copy; `None` where there is no such place any more."""
        store, premises = self._service.store, self._service.premises
        try:
            session = store.find(place.session, premises.workspace)
        except (NotFound, Ambiguous):
            return None
        if session.id != place.session:
            return None
        run = self._service.go_on(session, place.end, order)
        if run is not None:
            return run
        copy = self._copied(place)
        return None if copy is None else self._service.take(copy, order)

    def _copied(self, place: _Place) -> Session | None:
        """A copy of the session that ends there; `None` where the turn that it would end with is gone."""
        store, premises = self._service.store, self._service.premises
        with store.snapshot():
            session, log = store.find(place.session, premises.workspace), store.log(place.session)
            if place.end > log.next_index or log.get(place.end - 1) is None:
                return None
            turns, receipts = all_turns(log), store.receipts(session.id)
            session = session_before(place.end, session, log)
        return forked(premises, store, session, [turn for turn in turns if turn.index < place.end], receipts)

    def _taken_in(self, talk: Talk) -> Session:
        """A new session that holds what the client says was said, as turns of the primary."""
        premises = self._service.premises
        turns = [{"role": "primary", "prompt": one.prompt, "answer": one.answer} for one in talk.before if one.prompt.strip() and one.answer.strip()]
        if not turns:
            session = fresh_session(premises)
            self._service.store.create(session)
            return session
        session, taken, receipts = read_session(premises, encoded({"turns": turns}), "messages", new_id=premises.new_id, new_nonce=premises.new_nonce)
        self._service.store.import_session(session, taken, receipts)
        return session
