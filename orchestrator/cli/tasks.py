"""`escalera tasks`: turns in the background, and what they came to (page 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from orchestrator.background import run_task
from orchestrator.cli.front import Front
from orchestrator.cli.interrupts import cancelled_by_signals
from orchestrator.documents.task import task_document, task_object
from orchestrator.errors import StoreError, TaskEnded, TaskRuns
from orchestrator.providers import Cancel
from orchestrator.quoting import one_line
from orchestrator.store import Store
from orchestrator.tasks import StoredTask

if TYPE_CHECKING:
    from orchestrator.documents.kinds.tasks import TasksDocument
    from orchestrator.documents.kinds.turns import TurnDocument

CANCEL_WAIT = 15.0
"""Seconds that `cancel` waits for the turn to end."""
_LOOK_EVERY = 0.2

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")


@click.group("tasks")
def command() -> None:
    """Turns that `ask --background` began."""


@command.command("list")
@json_option
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """All tasks whose results have not expired, oldest first. Listing keeps none of them for longer."""
    store = front.store(read_only=True)
    found = store.tasks()
    if as_json:
        document: TasksDocument = {"format": "escalera.tasks/1", "tasks": [task_object(task, store.now()) for task in found]}
        front.output.print_json(document)
        return
    for task in found:
        _say(front, task)
    if not found:
        front.output.say("there is no task; `escalera ask --background` begins one")


@command.command("show")
@click.argument("ref", metavar="ID")
@json_option
@click.pass_obj
def show(front: Front, ref: str, as_json: bool) -> None:
    """How a task stands. Looking at it keeps its result for longer, up to its ceiling (tasks.max_age)."""
    _print(front, _read(front.store(), ref), as_json)


@command.command("result")
@click.argument("ref", metavar="ID")
@click.option("--wait", is_flag=True, help="Wait until it has one.")
@json_option
@click.pass_obj
def result(front: Front, ref: str, wait: bool, as_json: bool) -> int:
    """What a task came to, as `ask` would have printed it, and with its exit code."""
    store = front.store()
    task = store.peek_task(ref)
    while wait and task.runs:
        front.clock.sleep(_LOOK_EVERY)
        task = store.peek_task(task.id)
    if task.runs:
        raise TaskRuns(f"task {task.id[:8]} is still running", hint=f"`escalera tasks result {task.id[:8]} --wait` waits for it")
    task = _read(store, task.id)
    if task.result is None or task.exit_code is None:
        raise TaskEnded(f"task {task.id[:8]} was {task.state.value}: it has no result", hint="its turn reads as interrupted; ask again")
    document = cast("TurnDocument", task.result)
    if as_json:
        front.output.print_json(document)
        return task.exit_code
    if "error" in document and document["error"] is not None:
        front.output.notice(f"escalera: {document['error']['message']}")
    for notice in document.get("notices", ()):
        front.output.notice(notice)
    text = document.get("answer") or document.get("partial") or ""
    if text:
        front.output.say(text.rstrip("\n"))
    return task.exit_code


@command.command("cancel")
@click.argument("ref", metavar="ID")
@json_option
@click.pass_obj
def cancel(front: Front, ref: str, as_json: bool) -> None:
    """End a task that runs; its turn is kept as cancelled."""
    store = front.store()
    task = store.peek_task(ref)
    if not task.runs:
        raise TaskEnded(f"task {task.id[:8]} is {task.state.value} already")
    task, until = store.cancel_task(task.id), front.clock.monotonic() + CANCEL_WAIT
    while task.runs and front.clock.monotonic() < until:
        front.clock.sleep(_LOOK_EVERY)
        task = store.peek_task(task.id)
    _print(front, task, as_json)


@command.command("run", hidden=True)
@click.argument("identity", metavar="ID")
@click.pass_obj
def run(front: Front, identity: str) -> int:
    """Carry out a task: what `ask --background` starts."""
    cancel = Cancel()
    with cancelled_by_signals(cancel, front.clock.monotonic):
        return run_task(front, front.store(), identity, cancel)


def _read(store: Store, ref: str) -> StoredTask:
    """An item read. Where that cannot be noted, it stands as it is stored."""
    try:
        return store.read_task(ref)
    except StoreError:
        return store.peek_task(ref)


def _print(front: Front, task: StoredTask, as_json: bool) -> None:
    if as_json:
        front.output.print_json(task_document(task, front.clock.now()))
    else:
        _say(front, task)


def _say(front: Front, task: StoredTask) -> None:
    state = "being cancelled" if task.runs and task.cancelling else task.state.value
    front.output.say(f"{task.id[:8]}  {state:>11}  session {task.session[:8]}  {one_line(str(task.order.get('prompt', '')), 100)}")
