"""Turns in the background: the order that a command leaves, and the process of its own that carries it out (page 5)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from subprocess import DEVNULL, PIPE
from typing import IO, TYPE_CHECKING, Any, cast

from orchestrator.asking import Asking, left_open
from orchestrator.dispatch.desk import Shown
from orchestrator.documents.error import error_document
from orchestrator.documents.turn import turn_document
from orchestrator.errors import EscaleraError, NotFound, StoreError
from orchestrator.keeping import Keeper
from orchestrator.lifetimes import LEASE_TTL, begun, whole_ms
from orchestrator.premises import Premises
from orchestrator.providers import Cancel
from orchestrator.session import Outcome, Role, Session
from orchestrator.store import Store
from orchestrator.tasks import StoredTask, TaskState

if TYPE_CHECKING:
    from orchestrator.dispatch.desk import Watch
    from orchestrator.escalation import Workplace
    from orchestrator.planning.case import Wish
    from orchestrator.recording import Report

LOOK_EVERY = 0.25
"""Seconds between two looks of a runner at whether its task shall end."""
RENEW_EVERY = 20.0
"""Seconds between two renewals of its lease."""

_ENDS = {Outcome.CANCELLED: TaskState.CANCELLED, Outcome.FAILED: TaskState.FAILED}


def start_task(
    premises: Premises, store: Store, session: Session, wish: Wish, *, timeout: float | None, wait_questions: bool, due: Sequence[str] = ()
) -> StoredTask:
    """Leave the order of one turn, and start who carries it out. `due` are questions whose answers it tells."""
    now = store.now()
    ttl, max_age = (timedelta(seconds=premises.settings.value(f"tasks.{name}")) for name in ("ttl", "max_age"))
    order = {
        "prompt": wish.prompt,
        "role": None if wish.choice.role is None else wish.choice.role.value,
        "agent": wish.choice.agent,
        "reason": wish.reason,
        "fresh": wish.fresh,
        "timeout": timeout,
        "wait_questions": wait_questions,
        "due": list(due),
    }
    task = StoredTask(premises.new_id(), session.id, order, whole_ms(now), begun(now, ttl=ttl, max_age=max_age))
    store.settle_tasks()
    store.add_task(task, LEASE_TTL)
    keeper = Keeper(store, premises.artifact_terms, session.id, None, premises.new_id)
    for name, content in wish.files:
        keeper.file(name, content)
    premises.tell_once(*keeper.problems)
    try:
        _detached([*premises.child_arguments(), "tasks", "run", task.id], premises.child_input(), cwd=premises.workspace, environ=premises.environ)
    except OSError as error:
        failed = EscaleraError(f"the background process could not be started: {error.strerror or error}")
        store.end_task(task.id, TaskState.FAILED, error_document(failed), 1)
        raise failed from error
    return task


def _detached(arguments: Sequence[str], told: str, *, cwd: str, environ: Mapping[str, str]) -> None:
    """A process that goes on when this one, and its terminal, are gone. It is told something on its standard input, in ASCII."""
    apart: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    child = subprocess.Popen(arguments, cwd=cwd, env=environ, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, close_fds=True, **apart)
    with suppress(OSError), cast("IO[bytes]", child.stdin) as pipe:  # one that has gone already is found by its lease
        pipe.write(told.encode("ascii"))


Ended = tuple[TaskState, Mapping[str, Any], int]
"""How a turn ended as a task's: its state, the document and the exit code of page 6."""


def run_task(premises: Premises, store: Store, identity: str, cancel: Cancel) -> int:
    """Carry out a task, and store how it ended; `cancel` ends it early. Raises `NotFound` for one that is not there to be run."""
    task = store.hold_task(identity, LEASE_TTL)
    if task is None:
        raise NotFound(f"task {identity} is run by another process, or is over")
    return run_held(premises, store, identity, cancel, lambda: _carried_out(premises, store, task, cancel))


def run_held(premises: Premises, store: Store, identity: str, cancel: Cancel, work: Callable[[], Ended]) -> int:
    """Do the work of a task that is held, hold it meanwhile, and store how it ended; `cancel` is set where somebody wants it to end."""
    done = threading.Event()
    keeper = threading.Thread(target=_keep, args=(premises, store, identity, cancel, done), name="task", daemon=True)
    keeper.start()
    try:
        state, document, code = work()
    except EscaleraError as error:
        state, document, code = TaskState.FAILED, error_document(error), error.exit_code
    finally:
        done.set()
        keeper.join()
    store.end_task(identity, state, document, code)
    return code


def turn_taken(place: Workplace, session: str, wish: Wish, *, asking: Asking, cancel: Cancel, watch: Watch, loaded: bool = True) -> tuple[Report, Ended]:
    """One turn, and how it ended. Raises what keeps it from coming to be."""
    from orchestrator.escalation import take_turn

    report = take_turn(place, session, wish, cancel=cancel, ask=asking, watch=watch, loaded=loaded)
    report = replace(report, notices=(*report.notices, *asking.denied, *map(left_open, asking.left)))
    document = turn_document(report, open_questions=[question.id for question in asking.left])
    code = asking.exit_code if report.error is None else report.error.exit_code
    state = _ENDS.get(report.turn.outcome, TaskState.COMPLETED) if report.error is not None else TaskState.COMPLETED
    return report, (state, cast("Mapping[str, Any]", document), code)


def _carried_out(premises: Premises, store: Store, task: StoredTask, cancel: Cancel) -> Ended:
    order = task.order
    session = store.find(task.session, premises.workspace)
    premises = premises.at(session.workspace)
    place = premises.workplace(store, session.workspace, turn_timeout=order["timeout"])
    asking = Asking(premises.broker(store), cancel, human=None, waits=bool(order["wait_questions"]), watch=_unseen)
    report, ended = turn_taken(place, session.id, _wish(order), asking=asking, cancel=cancel, watch=_unseen)
    if report.error is None and order["due"]:
        store.mark_questions_told(order["due"])
    return ended


def _wish(order: Mapping[str, Any]) -> Wish:
    from orchestrator.planning.case import Wish
    from orchestrator.routing import Choice

    role = None if order["role"] is None else Role(order["role"])
    return Wish(order["prompt"], Choice(role, order["agent"]), reason=order["reason"], fresh=order["fresh"])


def _keep(premises: Premises, store: Store, identity: str, cancel: Cancel, done: threading.Event) -> None:
    """Hold the task while its turn runs, and end the turn when somebody wants that, or when the task is no longer ours."""
    renewed = premises.clock.monotonic()
    while not done.wait(LOOK_EVERY):
        try:
            if premises.clock.monotonic() - renewed >= RENEW_EVERY:
                if store.hold_task(identity, LEASE_TTL) is None:
                    cancel.set("the task's lease was lost")
                    return
                renewed = premises.clock.monotonic()
            if store.peek_task(identity).cancelling:
                cancel.set()
        except NotFound:
            cancel.set("the task is no longer there")
            return
        except StoreError:
            continue  # a store that is busy may soon not be


def _unseen(_shown: Shown) -> None:
    """Nobody watches."""
