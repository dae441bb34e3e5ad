"""What the server does, without HTTP: turns in threads of their own, what is held of a session between its turns, and a clean end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from orchestrator.asking import Asking, left_open
from orchestrator.continuation import Tokens
from orchestrator.crews import Crews
from orchestrator.documents.turn import turn_document
from orchestrator.errors import EscaleraError, KeyTaken, ServerBusy, StoreError
from orchestrator.escalation import Workplace, take_turn
from orchestrator.premises import Premises
from orchestrator.server.client_tools import ClientTools
from orchestrator.server.idle import Idleness
from orchestrator.server.runs import Run
from orchestrator.server.shelf import Shelf
from orchestrator.server.workers import Workers
from orchestrator.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.documents.kinds.turns import TurnDocument
    from orchestrator.planning.case import Wish
    from orchestrator.questions import StoredQuestion
    from orchestrator.server.openai.spoken import Opening
    from orchestrator.settings.resolution import Explained

MOST_TURNS = 128
"""Turns at once; more are refused, not queued."""
KEPT_RUNS = 100
"""How many ended turns of a session are held, each with its key and its document."""
STOP_SECONDS = 10.0
"""How long running turns may go on when the server shall end; then they are cancelled."""
CANCEL_SECONDS = 8.0
"""How long a cancelled turn has to end."""


@dataclass(frozen=True, slots=True)
class Order:
    """One turn that a client wants, and how."""

    wish: Wish
    wait_questions: bool = False
    timeout: float | None = None
    due: Sequence[StoredQuestion] = ()
    """Questions whose answers it tells."""
    key: str | None = None
    """The client's own: the same key again is the same turn."""
    same: str = ""
    """The same for two orders of the same."""
    client_prompt: str = ""
    tools: ClientTools | None = None
    opening: Opening | None = None
    """What a client of a model is told of it."""
    begins: bool = False
    """Whether the session is to be stored first."""


@dataclass(slots=True)
class Served:
    """What the server holds of a session between its turns (page 5: idle)."""

    used: float = 0.0
    runs: list[Run] = field(default_factory=list)
    """Those that have not ended, and the last ones that have; the newest last."""
    loaded: bool = True
    """No turn was taken in it here so far (page 1)."""


class Service:
    """One server's work on one store. May be used by several threads."""

    def __init__(self, premises: Premises, *, owns: bool = True) -> None:
        """Opens the store; `owns` says that the premises are to be closed with it. Raises `ConfigError`, `StoreError`."""
        self.premises, self._owns = premises, owns
        self.store = premises.store()
        self.broker = premises.broker(self.store)
        self.tokens = Tokens()
        self.idleness = Idleness(premises.clock.monotonic)
        self._lock = threading.RLock()
        self._sessions: OrderedDict[str, Served] = OrderedDict()
        """The one that was used last at the end."""
        self._crews = Crews()
        self._running: dict[Run, threading.Event] = {}
        """Each with what is set when nothing of it is left to do."""
        self._shelf = Shelf()
        self._workers = Workers("turn")
        self._runtime: dict[str, object] = {}
        """Settings that were set while the server runs."""
        self._elsewhere: dict[str, Premises] = {}
        """The premises of other workspaces."""
        self._stopping = False
        self._closed = False

    # -- turns -------------------------------------------------------------------------------------

    def take(self, session: Session, order: Order) -> Run:
        """Begin a turn; with the key of one that is still held, give that one. Raises `ServerBusy`, `KeyTaken`."""
        with self._lock:
            served = self.served(session.id)
            known = self.known(session, order.key, order.same)
            if known is not None:
                return known
            if self._stopping or len(self._running) >= MOST_TURNS:
                raise ServerBusy("the server is stopping" if self._stopping else f"{MOST_TURNS} turns run already", hint="try again in a moment")
            for run in served.runs:
                if run.is_waiting:
                    run.cancel.set("the client went on without the results of its tools")
            run = Run(session.id, key=order.key, same=order.same, tools=order.tools)
            run.opening = order.opening
            served.runs.append(run)
            self._running[run] = threading.Event()
        self._workers.start(lambda: self._carry_out(run, served, session, order))
        return run

    def known(self, session: Session, key: str | None, same: str) -> Run | None:
        """The turn that was begun with that key, if it is held; not where none came to be. Raises `KeyTaken` where it is another."""
        with self._lock:
            runs = self.served(session.id).runs
            run = next((run for run in runs if key is not None and run.key == key and not run.came_to_nothing), None)
        if run is not None and run.same != same:
            raise KeyTaken("this idempotency key stands for another request in this session", hint="send each request under a key of its own")
        return run

    def go_on(self, session: Session, end: int, order: Order) -> Run | None:
        """Begin the turn of that index; `None` where another one follows the turn before it already or is about to, or that one is gone."""
        with self._lock:
            runs, log = self.served(session.id).runs, self.store.log(session.id)
            if any(not run.ended.is_set() and not run.is_waiting for run in runs) or log.next_index != end or log.get(end - 1) is None:
                return None
            return self.take(session, order)

    def run_of(self, session: str, turn: int) -> Run | None:
        """The run that took that turn here, if its events are still held."""
        with self._lock:
            self._sweep()
            served = self._sessions.get(session)
            if served is None:
                return None
            self._use(session, served)
            return next((run for run in reversed(served.runs) if turn in run.turns), None)

    def awaiting(self, calls: Sequence[str]) -> Run | None:
        """The turn that waits for what these calls of a client's tools gave."""
        with self._lock:
            self._sweep()
            for session, served in self._sessions.items():
                run = next((run for run in served.runs if run.tools is not None and run.tools.awaits(calls) and not run.ended.is_set()), None)
                if run is not None:
                    self._use(session, served)
                    return run
        return None

    def served(self, session: str) -> Served:
        """What is held of that session; used by that."""
        with self._lock:
            self._sweep()
            served = self._sessions.get(session) or Served()
            self._use(session, served)
            return served

    def _carry_out(self, run: Run, served: Served, session: Session, order: Order) -> None:
        try:
            run.carry_out(lambda: self._turn(run, served, session, order))
        except Exception as fault:  # a fault of ours, which the one who follows was told of
            self.premises.crashed(fault)
        finally:
            with self._lock:
                left = self._running.pop(run)
                self._use(session.id, served)
                self._keep(run, served)
            left.set()

    def _keep(self, run: Run, served: Served) -> None:
        """Hold what has ended for those who come back to it; one of which no turn came is as if it had never been asked for."""
        if run.came_to_nothing:
            served.runs.remove(run)
            return
        self._shelf.put(run)
        over = [old for old in served.runs if old not in self._running][:-KEPT_RUNS]
        self._shelf.take_off(over)
        served.runs = [one for one in served.runs if one not in over]

    def _turn(self, run: Run, served: Served, session: Session, order: Order) -> TurnDocument:
        with self.place(session.workspace, timeout=order.timeout) as place:
            if order.tools is not None or order.client_prompt:
                tools = () if order.tools is None else order.tools.tools
                place = replace(place, additions=replace(place.additions, client_prompt=order.client_prompt, client_tools=tools))
            asking = Asking(self.broker, run.cancel, human=None, waits=order.wait_questions, watch=run.show)
            with self._begun(session) if order.begins else nullcontext():
                report = take_turn(place, session.id, order.wish, cancel=run.cancel, ask=asking, watch=run.show, loaded=served.loaded)
            served.loaded = False
            run.failure = report.error
            if order.due and report.error is None:
                self.broker.told(*order.due)
        news = self.premises.at(session.workspace).take_news()
        report = replace(report, notices=(*news, *report.notices, *asking.denied, *map(left_open, asking.left)))
        return turn_document(report, open_questions=[question.id for question in asking.left])

    @contextmanager
    def _begun(self, session: Session) -> Iterator[None]:
        """Store it for its first turn, and remove it again where that does not come to be."""
        self.store.create(session)
        try:
            yield
        except EscaleraError:
            with suppress(EscaleraError):  # a turn is in it after all, or it is gone
                self.store.drop(session.id, 0)
            raise

    @contextmanager
    def place(self, workspace: str, *, timeout: float | None = None) -> Iterator[Workplace]:
        """Where turns of that workspace are taken: by the settings as they are now, with the same agents as long as those stay."""
        with ExitStack() as turn:
            with self._lock:
                premises = self.premises_at(workspace)
                crew = turn.enter_context(self._crews.at_work(premises, workspace, turn_timeout=timeout))
                place = premises.workplace(self.store, workspace, crew=crew)
            yield place

    # -- what is held ------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Let go of what nobody has used for long enough."""
        with self._lock:
            self._sweep()

    def tidy(self) -> None:
        """Write down and remove in the store what is over; where that cannot be done now, another time."""
        with suppress(StoreError):
            self.store.settle_questions()
            self.store.settle_tasks()
            self.store.collect_artifacts()

    def _sweep(self) -> None:
        limit, now = self.premises.settings.value("server.session_idle"), self._now()
        unused = takewhile(lambda item: now - item[1].used >= limit, self._sessions.items())
        for session, served in list(unused):
            at_work = [run for run in served.runs if run in self._running]
            if any(not run.is_waiting for run in at_work):
                continue
            for run in at_work:
                run.cancel.set("the client did not come back with the results of its tools (server.session_idle)")
            if not at_work:
                self._shelf.take_off(served.runs)
                del self._sessions[session]

    def _use(self, session: str, served: Served) -> None:
        served.used = self._now()
        self._sessions[session] = served
        self._sessions.move_to_end(session)

    def _now(self) -> float:
        return self.premises.clock.monotonic()

    # -- the end -----------------------------------------------------------------------------------

    def may_end(self) -> bool:
        """Whether nobody has used the server for so long that it ends (server.idle_exit)."""
        return self.idleness.is_over(self.premises.settings.value("server.idle_exit"), is_needed=self._is_needed)

    def _is_needed(self) -> bool:
        """By a turn, a task or a question; also where that cannot be seen now."""
        with self._lock:
            if self._running:
                return True
        try:
            return any(task.runs for task in self.store.tasks()) or bool(self.broker.listed())
        except StoreError:
            return True

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Take no more turns; let those that run come to their end, or else end them: their turns are kept as cancelled."""
        with self._lock:
            self._stopping = True
            running = dict(self._running)
        for run in running:
            if run.is_waiting:
                run.cancel.set("the server stops")
        until = self._now() + seconds
        for run in running:
            run.ended.wait(max(0.0, until - self._now()))
        for run in running:
            run.cancel.set("the server stops")
        until = self._now() + CANCEL_SECONDS
        for left in running.values():
            left.wait(max(0.0, until - self._now()))

    def close(self) -> None:
        """Stop, and let go of agents and store where they are ours."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.stop()
        if self._owns:
            self.premises.close()

    # -- settings as they count now ----------------------------------------------------------------

    @property
    def token_ttl(self) -> timedelta:
        return timedelta(seconds=self.premises.settings.value("server.token_ttl"))

    def put_setting(self, path: str, value: object) -> Explained:
        """Set a value for as long as the server runs, in every workspace. Raises `ConfigError`."""
        with self._lock:
            explained = self.premises.live.put(path, value)
            self._runtime[path] = value
            for there in self._elsewhere.values():
                there.live.put(path, value)
            return explained

    def remove_setting(self, path: str) -> Explained:
        """Take that back."""
        with self._lock:
            explained = self.premises.live.remove(path)
            self._runtime.pop(path, None)
            for there in self._elsewhere.values():
                there.live.remove(path)
            return explained

    def premises_at(self, workspace: str) -> Premises:
        """Those of a workspace, with the settings as they are now."""
        with self._lock:
            there = self.premises.at(workspace)
            if there is not self.premises and there.workspace not in self._elsewhere:
                for path, value in self._runtime.items():
                    there.live.put(path, value)
                self._elsewhere[there.workspace] = there
            there.refresh()
            return there
