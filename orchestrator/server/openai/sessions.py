"""Which session a client means that knows nothing of sessions: the one it names, or the one in which what it repeats was said."""

from __future__ import annotations

import threading
from collections import OrderedDict

from orchestrator.errors import NotFound
from orchestrator.server.openai.talk import Exchange, Talk, digest_of
from orchestrator.server.problems import Refused, encoded
from orchestrator.server.service import Service
from orchestrator.session import Session
from orchestrator.sessions import all_turns, forked, fresh_session, named_session, read_session

MOST_KNOWN = 4096
"""Conversations of clients that are known by what was said in them."""
RESPONSE = "resp_"


class Sessions:
    """Finds them, and begins those that are not there."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: OrderedDict[str, str] = OrderedDict()
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()

    def of(self, talk: Talk, *, ref: str | None, user: str | None, previous: str | None = None) -> tuple[Session, bool]:
        """The session, and whether it is still to be stored. A named one is what its store says, whatever the client repeats."""
        store, premises = self._service.store, self._service.premises
        if ref is not None:
            return store.find(ref, premises.workspace), False
        if previous is not None:
            return self._after(previous), False
        if user is not None and user.strip():
            return self._of_user(user.strip())
        if not talk.before:
            return fresh_session(premises), True
        with self._lock:
            known = self._known.get(talk.digest)
        if known is not None:
            try:
                return store.find(known, premises.workspace), False
            except NotFound:  # it was dropped
                pass
        return self._taken_in(talk), False

    def remember(self, session: str, before: tuple[Exchange, ...], prompt: str, answer: str) -> None:
        """What the client will repeat when it goes on."""
        digest = digest_of((*before, Exchange(prompt, answer)))
        with self._lock:
            self._known[digest] = session
            self._known.move_to_end(digest)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def _of_user(self, user: str) -> tuple[Session, bool]:
        store, premises = self._service.store, self._service.premises
        known = self._names.get(user)
        if known is not None:
            try:
                session = store.find(known, premises.workspace)
                if session.id == known and session.name == user:
                    return session, False
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
        return session, False

    def _after(self, previous: str) -> Session:
        """The session of an earlier response; a copy that ends with it, where the session has gone on since."""
        identity, _, index = previous.removeprefix(RESPONSE).rpartition("_")
        if not previous.startswith(RESPONSE) or not identity or not (index.isascii() and index.isdigit() and len(index) < 10):
            raise Refused(404, "previous_response_id: there is no such response")
        store, premises = self._service.store, self._service.premises
        with store.snapshot():
            session = store.find(identity, premises.workspace)
            log = store.log(session.id)
            if session.id != identity or log.next_index <= int(index):
                raise Refused(404, "previous_response_id: there is no such response")
            if log.next_index == int(index) + 1:
                return session
            turns, receipts = all_turns(log), store.receipts(session.id)
        return forked(premises, store, session, [turn for turn in turns if turn.index <= int(index)], receipts)

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
