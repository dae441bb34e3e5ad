"""Background tasks in the store: their life, their runner's lease, their end (page 5)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from orchestrator.errors import NotFound
from orchestrator.lifetimes import LEASE_TTL, begun
from orchestrator.session import Session
from orchestrator.store import Store
from orchestrator.tasks import StoredTask, TaskState

from .conftest import HandClock

TTL, MAX_AGE = timedelta(seconds=600), timedelta(hours=24)
RESULT = {"answer": "Done."}


@pytest.fixture
def task(store: Store, clock: HandClock) -> Callable[..., StoredTask]:
    """A task of a session, held by the store's runner unless said otherwise."""

    def make(identity: str = "t1", *, held: bool = True, expires_in: float | None = None) -> StoredTask:
        if not store.list(None):
            store.create(Session(id="s1", workspace="/work/a", nonce="n0"))
        now = clock.now()
        explicit = None if expires_in is None else now + timedelta(seconds=expires_in)
        made = StoredTask(identity, "s1", {"prompt": "go"}, now, begun(now, ttl=TTL, max_age=MAX_AGE, expires_at=explicit))
        store.add_task(made, LEASE_TTL)
        if held:
            assert store.hold_task(identity, timedelta(days=9)) is not None
        return made

    return make


def exp(task: StoredTask) -> float:
    return (task.life.expires_at - task.created).total_seconds()


def test_h1_a_read_keeps_a_result_and_a_list_does_not(store: Store, clock: HandClock, task: Callable[..., StoredTask]) -> None:
    task()
    assert store.end_task("t1", TaskState.COMPLETED, RESULT, 0)
    clock.advance(seconds=300)
    assert exp(store.read_task("t1")) == 900
    clock.advance(seconds=200)
    (listed,) = store.tasks()
    assert exp(listed) == 900
    clock.advance(seconds=399)
    store.settle_tasks()

    assert store.peek_task("t1").result == RESULT
    clock.advance(seconds=1)
    store.settle_tasks()
    with pytest.raises(NotFound):
        store.read_task("t1")


def test_h2_a_deadline_of_its_own_stands(store: Store, clock: HandClock, task: Callable[..., StoredTask]) -> None:
    task(expires_in=45)
    clock.advance(seconds=30)

    assert exp(store.read_task("t1")) == 45


def test_h3_a_running_task_outlives_its_deadline_and_its_result_lives_from_its_end(store: Store, clock: HandClock, task: Callable[..., StoredTask]) -> None:
    task()
    clock.advance(seconds=7200)
    store.settle_tasks()
    assert store.read_task("t1").runs

    store.end_task("t1", TaskState.COMPLETED, RESULT, 0)

    assert (exp(store.peek_task("t1")), store.peek_task("t1").created) == (7800, clock.now() - timedelta(seconds=7200))
    ended = clock.now()
    while store.tasks():
        store.read_task("t1")
        clock.advance(seconds=500)
    assert MAX_AGE <= clock.now() - ended < MAX_AGE + TTL


def test_h4_an_expired_one_is_unknown_and_may_have_expired(store: Store, clock: HandClock, task: Callable[..., StoredTask]) -> None:
    task()
    store.end_task("t1", TaskState.FAILED, RESULT, 1)
    clock.advance(seconds=600)

    with pytest.raises(NotFound) as unknown:
        store.peek_task("t1")

    assert "may have expired" in (unknown.value.hint or "")
    assert store.tasks() == []


def test_a_task_ends_once(store: Store, task: Callable[..., StoredTask]) -> None:
    task()

    assert store.end_task("t1", TaskState.CANCELLED, RESULT, 130)
    assert not store.end_task("t1", TaskState.COMPLETED, {}, 0)

    ended = store.peek_task("t1")
    assert (ended.state, ended.exit_code, ended.result) == (TaskState.CANCELLED, 130, RESULT)


def test_a_runner_that_died_leaves_it_interrupted(opened: Callable[..., Store], store: Store, task: Callable[..., StoredTask]) -> None:
    task()
    other = opened()
    store.close()

    assert other.peek_task("t1").state is TaskState.INTERRUPTED
    other.settle_tasks()
    assert other.peek_task("t1").settled
    assert other.hold_task("t1", LEASE_TTL) is None


def test_a_runner_that_never_came_or_fell_silent_leaves_it_interrupted(store: Store, clock: HandClock, task: Callable[..., StoredTask]) -> None:
    task(held=False)
    task("t2", held=False)
    clock.advance(seconds=50)
    assert store.hold_task("t2", LEASE_TTL) is not None
    clock.advance(seconds=11)

    assert [(found.id, found.state.value) for found in store.tasks()] == [("t1", "interrupted"), ("t2", "running")]
    clock.advance(seconds=50)
    assert store.peek_task("t2").state is TaskState.INTERRUPTED


def test_only_one_runner_has_it(opened: Callable[..., Store], task: Callable[..., StoredTask]) -> None:
    task()

    assert opened().hold_task("t1", LEASE_TTL) is None


def test_who_wants_it_to_end_says_so(store: Store, task: Callable[..., StoredTask]) -> None:
    task()
    assert store.cancel_task("t1").cancelling

    store.end_task("t1", TaskState.CANCELLED, RESULT, 130)

    assert store.cancel_task("t1").state is TaskState.CANCELLED


def test_a_dropped_session_takes_its_tasks_along(store: Store, task: Callable[..., StoredTask]) -> None:
    task()
    store.drop("s1", 0)

    assert store.tasks() == []


def test_only_what_came_to_nothing_is_forgotten(store: Store, task: Callable[..., StoredTask]) -> None:
    ends = {
        "busy": (TaskState.FAILED, {"format": "escalera.error/1", "error": {"type": "SessionInUse"}}),
        "fault": (TaskState.FAILED, {"format": "escalera.error/1", "error": {"type": "InternalError"}}),
        "failed": (TaskState.FAILED, {"format": "escalera.turn/1", "error": {"type": "RateLimited"}}),
        "done": (TaskState.COMPLETED, {"format": "escalera.turn/1", "error": None}),
        "damaged": (TaskState.FAILED, {"format": "escalera.error/1", "error": "?"}),
    }
    task("runs")
    for identity, (state, document) in ends.items():
        task(identity)
        store.end_task(identity, state, document, 1)

    for identity in ("runs", *ends, "unknown"):
        store.forget_task(identity)

    assert [one.id for one in store.tasks()] == ["runs", "fault", "failed", "done", "damaged"]
