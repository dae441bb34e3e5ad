"""What is remembered of turns that have ended: read once, never stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.lifetimes import LEASE_TTL
from orchestrator.messages import Text
from orchestrator.session import Outcome, Role, Session, Turn
from orchestrator.store import Claim
from orchestrator.store.log import Settled
from orchestrator.store.sqlite import SqliteStore, open_store

SESSION = Session(id="s1", workspace="/w", nonce="n")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Two openings of one store, with one session of three turns."""
    first, second = (open_store(tmp_path, clock=SystemClock()) for _ in range(2))
    first.import_session(SESSION, [Turn(index, Role.PRIMARY, "local", f"p{index}", (Text(f"a{index}"),)) for index in range(3)])
    yield first, second
    first.close()
    second.close()


def claimed(store: SqliteStore) -> Claim:
    claim = store.claim("s1", "me", LEASE_TTL)
    assert isinstance(claim, Claim)
    return claim


def test_a_turn_that_has_ended_is_read_once(stores: tuple[SqliteStore, SqliteStore]) -> None:
    store, _ = stores
    once, again = list(store.log("s1").newest_first()), list(store.log("s1").newest_first())
    assert [turn.index for turn in once] == [2, 1, 0]
    assert all(one is other for one, other in zip(once, again, strict=True))


def test_an_open_turn_is_read_anew(stores: tuple[SqliteStore, SqliteStore]) -> None:
    mine, theirs = stores
    claim = claimed(theirs)
    turn = Turn(3, Role.PRIMARY, "local", "p3", outcome=Outcome.OPEN)
    theirs.open_turn(claim, turn, SESSION)
    assert next(mine.log("s1").newest_first(outcomes=None)).outcome is Outcome.OPEN

    theirs.append_step(claim, 3, 0, Text("a3"))
    theirs.close_turn(claim, Turn(3, Role.PRIMARY, "local", "p3"), SESSION)
    newest = next(mine.log("s1").newest_first())
    assert (newest.outcome, newest.answer) == (Outcome.COMPLETED, "a3")


def test_a_turn_that_was_taken_back_is_not_remembered_as_the_one_in_its_place(stores: tuple[SqliteStore, SqliteStore]) -> None:
    mine, theirs = stores
    list(mine.log("s1").newest_first())
    claim = claimed(theirs)
    theirs.withdraw(claim, 2, SESSION)
    assert [turn.index for turn in mine.log("s1").newest_first()] == [1, 0]

    theirs.open_turn(claim, Turn(3, Role.PRIMARY, "other", "q", outcome=Outcome.OPEN), SESSION)
    theirs.close_turn(claim, Turn(3, Role.PRIMARY, "other", "q"), SESSION)
    assert [(turn.index, turn.agent) for turn in mine.log("s1").newest_first()] == [(3, "other"), (1, "local"), (0, "local")]


def test_a_snapshot_shows_one_state_and_the_next_one_a_newer(stores: tuple[SqliteStore, SqliteStore]) -> None:
    mine, theirs = stores
    log = mine.log("s1")
    with mine.snapshot():
        assert (log.next_index, log.count()) == (3, 3)
        claim = claimed(theirs)
        theirs.open_turn(claim, Turn(3, Role.ESCALATION, "strong", "p3", outcome=Outcome.OPEN), SESSION)
        theirs.close_turn(claim, Turn(3, Role.ESCALATION, "strong", "p3"), SESSION)
        assert (log.next_index, log.count(), [turn.index for turn in log.newest_first()]) == (3, 3, [2, 1, 0])
    assert (log.next_index, log.count(role=Role.ESCALATION)) == (4, 1)
    with mine.snapshot():
        assert (log.next_index, log.count(), next(log.newest_first()).index) == (4, 4, 3)


def test_a_snapshot_reads_on_beyond_the_newest_turns(stores: tuple[SqliteStore, SqliteStore]) -> None:
    store, _ = stores
    long = [Turn(index, Role.ESCALATION if index % 30 == 5 else Role.PRIMARY, "local", f"p{index}") for index in range(100)]
    store.import_session(Session(id="s2", workspace="/w", nonce="n"), long)
    log = store.log("s2")

    def asked() -> list[object]:
        return [
            [turn.index for turn in log.newest_first()],
            [turn.index for turn in log.newest_first(role=Role.ESCALATION)],
            [turn.index for turn in log.newest_first(start=10, stop=90)],
            [log.count(start=start, stop=stop) for start in (0, 50, 90) for stop in (None, 5, 95)],
            log.get(3),
            log.get(97),
            log.get(100),
        ]

    outside = asked()
    with store.snapshot():
        assert asked() == outside


def test_readers_of_a_snapshot_that_go_on_side_by_side_or_beyond_its_end_miss_nothing(stores: tuple[SqliteStore, SqliteStore]) -> None:
    store, _ = stores
    store.import_session(Session(id="s2", workspace="/w", nonce="n"), [Turn(index, Role.PRIMARY, "local", f"p{index}") for index in range(100)])
    log = store.log("s2")

    with store.snapshot():
        one, other, late = log.newest_first(), log.newest_first(), log.newest_first(role=Role.PRIMARY)
        begun = next(late)
        together = list(zip(one, other, strict=True))

    assert [(mine.index, theirs.index) for mine, theirs in together] == [(index, index) for index in reversed(range(100))]
    assert [begun.index, *(turn.index for turn in late)] == list(reversed(range(100)))


def test_who_goes_on_in_a_snapshot_reads_for_all_others(stores: tuple[SqliteStore, SqliteStore]) -> None:
    store, _ = stores
    connection = store._database._connection
    assert connection is not None
    store.import_session(Session(id="s2", workspace="/w", nonce="n"), [Turn(index, Role.PRIMARY, "local", f"p{index}") for index in range(40)])
    log = store.log("s2")
    asked: list[str] = []

    with store.snapshot():
        whole = list(log.newest_first())
        connection.set_trace_callback(asked.append)
        again = [list(log.newest_first(role=Role.PRIMARY)), [log.get(index) for index in range(39, -1, -1)]]
        counted = log.count(), log.count(role=Role.ESCALATION)
        connection.set_trace_callback(None)

    assert again == [whole, whole]
    assert counted == (40, 0)
    assert asked == []


def test_it_forgets_when_there_is_too_much_of_it_and_when_the_file_is_another(stores: tuple[SqliteStore, SqliteStore]) -> None:
    one, other = (store._database._connection for store in stores)
    assert one is not None
    assert other is not None
    settled, turn = Settled(), Turn(0, Role.PRIMARY, "local", "p")
    settled.among(one, [])
    settled.keep(1, turn, 10)
    settled.keep(2, turn, 10)
    assert settled.among(one, [2, 3, 1]) == {2: turn, 3: None, 1: turn}
    settled.keep(4, turn, 16 * 1024 * 1024)
    assert settled.among(one, [1, 2, 4]) == {1: None, 2: None, 4: turn}
    assert settled.among(other, [4]) == {4: None}
