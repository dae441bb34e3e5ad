"""Holding a session while a turn runs: waiting for it, renewing it, giving it back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.errors import Cancelled, LeaseLost, SessionInUse, StoreError, StoreFull
from orchestrator.lease import Renewals, held
from orchestrator.lifetimes import LEASE_TTL
from orchestrator.providers import Cancel
from orchestrator.session import Session
from orchestrator.store import Claim
from orchestrator.store.sqlite import SqliteStore, open_store

from .conftest import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def stores(tmp_path: Path, clock: HandClock) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Two openings of one store with one session."""
    first, second = (open_store(tmp_path, clock=clock) for _ in range(2))
    first.create(Session(id="s1", workspace="/w", nonce="n"))
    yield first, second
    first.close()
    second.close()


def test_a_session_is_held_for_as_long_as_the_block_runs(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    with held(mine, "s1", "me", clock=clock, wait=0, cancel=Cancel()) as claim:
        assert (claim.session, claim.owner) == ("s1", "me")
        assert theirs.list(None)[0].in_use
        assert not isinstance(theirs.claim("s1", "them", LEASE_TTL), Claim)

    assert isinstance(theirs.claim("s1", "them", LEASE_TTL), Claim)


def test_it_is_given_back_when_the_block_fails(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    with pytest.raises(RuntimeError), held(mine, "s1", "me", clock=clock, wait=0, cancel=Cancel()):
        raise RuntimeError("boom")

    assert isinstance(theirs.claim("s1", "them", LEASE_TTL), Claim)


def test_a_session_that_somebody_holds_is_waited_for_and_then_in_use(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    theirs.claim("s1", "them", timedelta(hours=1))

    with pytest.raises(SessionInUse, match="in use by another process") as raised, held(mine, "s1", "me", clock=clock, wait=5, cancel=Cancel()):
        pass

    assert 5 <= sum(clock.slept) < 5.2
    assert raised.value.exit_code == 4
    assert raised.value.hint
    assert mine.find("s1", "/w").id == "s1"


def test_a_session_that_becomes_free_meanwhile_is_taken(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    other = theirs.claim("s1", "them", timedelta(hours=1))
    assert isinstance(other, Claim)
    clock.on_sleep = lambda: theirs.release(other) if len(clock.slept) == 3 else None

    with held(mine, "s1", "me", clock=clock, wait=5, cancel=Cancel()) as claim:
        assert claim.fence > other.fence


def test_no_time_to_wait_asks_once(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    theirs.claim("s1", "them", timedelta(hours=1))

    with pytest.raises(SessionInUse), held(mine, "s1", "me", clock=clock, wait=0, cancel=Cancel()):
        pass

    assert clock.slept == []


def test_a_cancel_ends_the_waiting(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    cancel = Cancel()
    theirs.claim("s1", "them", timedelta(hours=1))
    clock.on_sleep = cancel.set

    with pytest.raises(Cancelled), held(mine, "s1", "me", clock=clock, wait=30, cancel=cancel):
        pass

    assert len(clock.slept) == 1


def test_a_lease_is_renewed_while_the_turn_runs(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    renewed = threading.Event()

    class Watched:
        """The store, telling when it renews."""

        def __getattr__(self, name: str) -> object:
            return getattr(mine, name)

        def renew(self, claim: Claim, ttl: timedelta) -> Claim:
            after = mine.renew(claim, ttl)
            renewed.set()
            return after

    with held(Watched(), "s1", "me", clock=clock, wait=0, cancel=Cancel(), renewals=Renewals(0.01)) as claim:  # type: ignore[arg-type]  # a store
        clock.advance(seconds=50)
        renewed.clear()
        assert renewed.wait(10)
        clock.advance(seconds=50)
        assert clock.now() > claim.expires_at
        assert not isinstance(theirs.claim("s1", "them", LEASE_TTL), Claim)


class Refusing:
    """A store that refuses to renew a number of times, telling when it is asked."""

    def __init__(self, store: SqliteStore, times: int) -> None:
        self._store, self._times = store, times
        self.asked = 0
        self.asked_four_times = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def renew(self, claim: Claim, ttl: timedelta) -> Claim:
        self.asked += 1
        if self.asked == 4:
            self.asked_four_times.set()
        if self.asked <= self._times:
            raise StoreFull("full") if self.asked % 2 else StoreError("busy")
        return self._store.renew(claim, ttl)


def test_a_renewal_that_fails_is_tried_again_while_the_lease_lasts(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, _ = stores
    cancel, refusing = Cancel(), Refusing(mine, times=3)

    with held(refusing, "s1", "me", clock=clock, wait=0, cancel=cancel, renewals=Renewals(0.01)) as claim:  # type: ignore[arg-type]  # a store
        clock.advance(seconds=49)
        assert refusing.asked_four_times.wait(10)
        assert not cancel.is_set()
        mine.save(claim, mine.find("s1", "/w"))


def test_a_turn_ends_before_a_lease_lapses_that_cannot_be_renewed(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    cancel, refusing = Cancel(), Refusing(mine, times=10**9)

    with held(refusing, "s1", "me", clock=clock, wait=0, cancel=cancel, renewals=Renewals(0.01)):  # type: ignore[arg-type]  # a store
        assert refusing.asked_four_times.wait(10)
        assert not cancel.is_set()
        clock.advance(seconds=51)
        assert cancel.event.wait(10)
        assert "lease could not be renewed" in cancel.reason
        assert not isinstance(theirs.claim("s1", "them", LEASE_TTL), Claim)


def test_a_lost_lease_cancels_the_turn_at_once(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    cancel = Cancel()

    with held(mine, "s1", "me", clock=clock, wait=0, cancel=cancel, renewals=Renewals(0.01)) as claim:
        clock.advance(seconds=61)
        assert cancel.event.wait(10)
        assert "lease could not be renewed" in cancel.reason
        with pytest.raises(LeaseLost):
            mine.save(claim, mine.find("s1", "/w"))

    assert isinstance(theirs.claim("s1", "them", LEASE_TTL), Claim)


def test_a_lost_lease_is_not_taken_from_its_new_owner(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    with held(mine, "s1", "me", clock=clock, wait=0, cancel=Cancel()):
        clock.advance(seconds=61)
        theirs.claim("s1", "them", timedelta(hours=1))

    assert mine.list(None)[0].in_use


def test_one_thread_renews_all_leases_and_tells_each_turn_of_its_own(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, theirs = stores
    mine.create(Session(id="s2", workspace="/w", nonce="n"))
    before, renewals = threading.active_count(), Renewals(0.01)
    cancels = [Cancel(), Cancel()]

    with held(mine, "s1", "me", clock=clock, wait=0, cancel=cancels[0], renewals=renewals) as claim:
        with held(mine, "s2", "me", clock=clock, wait=0, cancel=cancels[1], renewals=renewals):
            assert threading.active_count() == before + 1
            mine.release(claim)
            theirs.claim("s1", "them", timedelta(hours=1))
            assert cancels[0].event.wait(10)
        assert not cancels[1].is_set()


def test_a_renewal_that_comes_too_late_cancels_no_turn_that_is_over(stores: tuple[SqliteStore, SqliteStore], clock: HandClock) -> None:
    mine, _ = stores
    renewing, over = threading.Event(), threading.Event()
    cancel = Cancel()

    class Slow:
        """The store, whose renewals wait until the lease was given back."""

        def __getattr__(self, name: str) -> object:
            return getattr(mine, name)

        def renew(self, claim: Claim, ttl: timedelta) -> Claim:
            renewing.set()
            over.wait(10)
            try:
                return mine.renew(claim, ttl)
            finally:
                over.clear()

    renewals = Renewals(0.01)
    with held(Slow(), "s1", "me", clock=clock, wait=0, cancel=cancel, renewals=renewals):  # type: ignore[arg-type]  # a store
        assert renewing.wait(10)
    over.set()
    renewing.clear()
    with held(Slow(), "s1", "me", clock=clock, wait=0, cancel=Cancel(), renewals=renewals):  # type: ignore[arg-type]  # a store
        assert renewing.wait(10)  # the same thread: it is done with the one before
        over.set()

    assert not cancel.is_set()
