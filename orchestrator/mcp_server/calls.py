"""Escalations that MCP clients ask for: each a task in the store, run by a thread of its own, which the calls that wait for it follow."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.asking import Asking
from orchestrator.background import Ended, run_held, turn_taken
from orchestrator.continuing import offer
from orchestrator.crews import Crews
from orchestrator.documents.error import error_document
from orchestrator.errors import EscaleraError, InternalError, KeyTaken, NotFound, StoreError, UsageError
from orchestrator.escalation import Workplace, begin_session
from orchestrator.lifetimes import LEASE_TTL, begun, whole_ms
from orchestrator.premises import Premises
from orchestrator.providers import Answer, Cancel
from orchestrator.quoting import one_line
from orchestrator.sessions import begun as begun_session
from orchestrator.sessions import fresh_session, stored_session
from orchestrator.tasks import StoredTask, TaskState

if TYPE_CHECKING:
    from orchestrator.broker import Waiting
    from orchestrator.dispatch.desk import Shown
    from orchestrator.planning.case import Wish
    from orchestrator.questions import StoredQuestion
    from orchestrator.session import Session

MOST_CALLS = 64
"""Escalations that run at once; more are refused, not queued."""
END_SECONDS = 8.0
"""How long a cancelled turn has to end when the server ends."""

_KEYS = uuid.UUID("6f0b1f0e-6c0e-5a57-9d3c-6f6e6f1a2c55")
_TEXT_STEP = 1000
"""Characters of an answer between two words of progress."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a client wants."""

    wish: Wish
    session: str | None
    """A reference; `None` is the newest of the workspace, begun where there is none."""
    key: str | None
    """The client's own: the same once more is the same escalation."""


class Call:
    """One escalation that runs here. Its thread fills it; any number of calls follow it."""

    def __init__(self, task: StoredTask) -> None:
        self.task, self.cancel, self.ended = task, Cancel(), threading.Event()
        self.questions: dict[str, StoredQuestion] = {}
        """All that it asked, by id."""
        self._asked: StoredQuestion | None = None
        self._aside: set[str] = set()
        self._told: list[str] = []
        self._length = 0
        self._lock = threading.Lock()
        self._followers: dict[int, Callable[[], None]] = {}

    # -- its thread --------------------------------------------------------------------------------

    def human(self, waiting: Waiting) -> StoredQuestion:
        """Puts a question to whoever follows, and waits for its end."""
        self._ask(waiting.stored)
        try:
            return waiting.until_it_ends()
        finally:
            self._ask(None)

    def show(self, shown: Shown) -> None:
        """Something is shown of the turn: what of it is worth a word to who waits."""
        text = self._worth_telling(shown)
        if text is not None:
            with self._lock:
                self._told.append(one_line(text, 200))
            self._wake()

    def end(self) -> None:
        self.ended.set()
        self._wake()

    def _worth_telling(self, shown: Shown) -> str | None:
        match shown.type:
            case "turn_started":
                mode = shown.data.get("mode")
                return f"{shown.data['agent']} has the turn" + (f" ({mode})" if mode else "")
            case "tool_call":
                return f"calls {shown.data['name']}"
            case "notice" | "retry":
                return shown.text
            case "question":
                return f"asks: {shown.text}"
            case "text":
                before, self._length = self._length, self._length + len(shown.text)
                return f"{self._length:,} characters of the answer so far" if before // _TEXT_STEP != self._length // _TEXT_STEP or not before else None
        return None

    def _ask(self, stored: StoredQuestion | None) -> None:
        with self._lock:
            self._asked = stored
            if stored is not None:
                self.questions[stored.id] = stored
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            followers = list(self._followers.values())
        for wake in followers:
            wake()

    # -- those who follow --------------------------------------------------------------------------

    @property
    def asked(self) -> StoredQuestion | None:
        """The question that is open now, and not answered yet by anybody who follows."""
        with self._lock:
            return None if self._asked is None or self._asked.id in self._aside else self._asked

    def put_aside(self, identities: Collection[str]) -> None:
        """These questions were answered; the turn itself learns of it in a moment."""
        with self._lock:
            self._aside.update(identities)

    def told(self, after: int) -> list[str]:
        """What there was to tell, from that place on."""
        with self._lock:
            return self._told[after:]

    @contextmanager
    def followed(self, wake: Callable[[], None]) -> Iterator[None]:
        """`wake` is called, by any thread, whenever there is something new."""
        with self._lock:
            self._followers[id(wake)] = wake
        try:
            yield
        finally:
            with self._lock:
                del self._followers[id(wake)]

    @property
    def is_followed(self) -> bool:
        with self._lock:
            return bool(self._followers)


class Calls:
    """All of one server. May be used by several threads."""

    def __init__(self, premises: Premises, *, wait_questions: bool = False) -> None:
        """Opens the store. `wait_questions`: where a client cannot ask its user, wait for an answer from elsewhere. Raises `ConfigError`, `StoreError`."""
        self.premises, self._waits = premises, wait_questions
        self.store = premises.store()
        self.broker = premises.broker(self.store)
        self._lock = threading.RLock()
        self._running: dict[str, tuple[Call, threading.Thread]] = {}
        self._crews = Crews()
        self._seen: set[str] = set()
        """Sessions in which turns were taken here (page 1)."""
        self._closed = False

    def begin(self, order: Order, *, can_ask: bool) -> Call | StoredTask:
        """Begin an escalation, or give the one that was begun with that key: what runs of it here, or the task as it stands.

        One of which no turn came is begun anew. Raises what keeps it from coming to be, and `KeyTaken` for a key that stands for another one.
        """
        identity = self.premises.new_id() if order.key is None else str(uuid.uuid5(_KEYS, f"{self.premises.workspace}\0{order.key}"))
        self.refresh()
        with self._lock:
            known = None if order.key is None else self._known(identity, order)
            if known is not None:
                return known
            if self._closed or len(self._running) >= MOST_CALLS:
                raise UsageError(f"{MOST_CALLS} escalations run already", hint="try again in a moment")
            session = self._session(order)
            task = self._task(identity, session, order)
            self.store.settle_tasks()
            try:
                self.store.add_task(task, LEASE_TTL)
            except StoreError:
                other = self._known(identity, order)  # another process was quicker with the same key
                if other is None:
                    raise
                return other
            return self._start(task, session, order, can_ask=can_ask)

    def refresh(self) -> None:
        """Take in changed settings: before anything that a client asks for."""
        with self._lock:
            self.premises.refresh()

    def running(self, identity: str) -> Call | None:
        """The escalation of that task, if it runs here."""
        with self._lock:
            found = self._running.get(identity)
            return None if found is None else found[0]

    def session_of(self, ref: str | None) -> Session:
        """The session meant, begun where the workspace has none yet. Raises `NotFound`, `Ambiguous`."""
        found = stored_session(self.premises, self.store, ref=ref, new=False, name=None)
        if found is not None:
            return found
        fresh = fresh_session(self.premises)
        return begun_session(self.store, fresh, first=True, begin=lambda: self.store.create(fresh, first=True))

    def was_used(self, session: str) -> bool:
        """Whether this process took turns in that session."""
        with self._lock:
            return session in self._seen

    @contextmanager
    def place(self, workspace: str) -> Iterator[Workplace]:
        """Where a turn of that workspace is taken: by the settings as they are now, with the same agents as long as those stay."""
        with ExitStack() as turn:
            with self._lock:
                there = self.premises.at(workspace)
                there.refresh()
                crew = turn.enter_context(self._crews.at_work(there, workspace))
                place = there.workplace(self.store, workspace, crew=crew)
            yield place

    def answer(self, call: Call, given: Mapping[str, Answer]) -> dict[str, str]:
        """Answer its questions, by id: what was wrong with those that stay open. What is not asked, or not any more, is let be."""
        problems: dict[str, str] = {}
        for identity in call.questions.keys() & given.keys():
            try:
                self.broker.answer(identity, given[identity])
            except EscaleraError as error:
                if self.broker.peek(identity).is_pending:
                    problems[identity] = error.message
        return problems

    def close(self) -> None:
        """End what runs: its turns are kept as cancelled."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for call, _ in running:
            call.cancel.set("the server ends")
        for _, thread in running:
            thread.join(END_SECONDS)

    # -- beginning ---------------------------------------------------------------------------------

    def _known(self, identity: str, order: Order) -> Call | StoredTask | None:
        here = self.running(identity)
        try:
            task = here.task if here is not None else self.store.read_task(identity)
        except NotFound:
            return None
        if task.came_to_nothing:
            self.store.forget_task(identity)
            return None
        if task.order.get("same") != _same(order):
            raise KeyTaken("this idempotency key stands for another escalation", hint="each one has a key of its own")
        return here or task

    def _session(self, order: Order) -> Session:
        found = stored_session(self.premises, self.store, ref=order.session, new=False, name=None)
        if found is not None:
            return found
        fresh = fresh_session(self.premises)
        with self.place(fresh.workspace) as place:
            begin = partial(begin_session, place, fresh, order.wish, first=True)
            return begun_session(self.store, fresh, first=True, begin=begin)

    def _task(self, identity: str, session: Session, order: Order) -> StoredTask:
        now, value = self.store.now(), self.premises.settings.value
        life = begun(now, ttl=timedelta(seconds=value("tasks.ttl")), max_age=timedelta(seconds=value("tasks.max_age")))
        return StoredTask(identity, session.id, {"prompt": order.wish.prompt, "by": "mcp", "same": _same(order)}, whole_ms(now), life)

    def _start(self, task: StoredTask, session: Session, order: Order, *, can_ask: bool) -> Call:
        if self.store.hold_task(task.id, LEASE_TTL) is None:
            raise NotFound(f"task {task.id} is no longer there")
        call = Call(task)
        thread = threading.Thread(target=self._run, args=(call, session, order, can_ask), name=f"escalate-{task.id[:8]}", daemon=True)
        self._running[task.id] = call, thread
        thread.start()
        return call

    # -- its thread --------------------------------------------------------------------------------

    def _run(self, call: Call, session: Session, order: Order, can_ask: bool) -> None:
        try:
            run_held(self.premises, self.store, call.task.id, call.cancel, lambda: self._turn(call, session, order, can_ask=can_ask))
        except Exception as fault:  # whatever it is: who waits is told, and the log has it
            self._failed(call, fault)
        finally:
            with self._lock:
                self._running.pop(call.task.id, None)
            call.end()

    def _failed(self, call: Call, fault: Exception) -> None:
        if isinstance(fault, EscaleraError):  # the end could not be stored
            self.premises.failed(fault)
            return
        self.premises.crashed(fault)
        error = InternalError(f"a fault in Escalera itself ({type(fault).__name__})", hint="the log has the details")
        self.store.end_task(call.task.id, TaskState.FAILED, error_document(error), error.exit_code)

    def _turn(self, call: Call, session: Session, order: Order, *, can_ask: bool) -> Ended:
        asking = Asking(self.broker, call.cancel, human=call.human if can_ask else None, waits=self._waits, watch=call.show)
        self.broker.tidy()
        waits = offer(self.broker, session.id)
        with self.place(session.workspace) as place:
            _, (state, document, code) = turn_taken(
                place, session.id, order.wish, asking=asking, cancel=call.cancel, watch=call.show, loaded=not self.was_used(session.id)
            )
        with self._lock:
            self._seen.add(session.id)
        if waits is not None:
            document = {**document, "notices": [*document["notices"], waits]}
        return state, document, code


def _same(order: Order) -> str:
    """The same for two orders of the same."""
    wish = order.wish
    wanted = [wish.prompt, wish.choice.agent, wish.reason, wish.fresh, order.session]
    return hashlib.sha256(json.dumps(wanted).encode()).hexdigest()
