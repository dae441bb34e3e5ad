"""Holding a session for as long as a turn runs: waiting for it, renewing it, giving it back (page 1)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from orchestrator.clock import Clock
from orchestrator.errors import EscaleraError, LeaseLost, SessionInUse
from orchestrator.lifetimes import LEASE_TTL
from orchestrator.providers import Cancel
from orchestrator.store import Claim, Store

RENEW_EVERY = 20.0
"""Seconds. A renewal that failed is tried again after a quarter of that."""
END_BEFORE = timedelta(seconds=10)
"""How long before the lease lapses a turn ends that could not renew it: long enough for its provider to end."""
POLL_EVERY = 0.1
"""Seconds between two looks at a session that somebody else holds."""


class Renewals:
    """Renews the leases of a process, by one thread for all of them, which ends when there has been none for a while."""

    def __init__(self, every: float = RENEW_EVERY) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._held: list[_Held] = []
        self._running = False

    def begin(self, store: Store, claim: Claim, clock: Clock, cancel: Cancel) -> Callable[[], object]:
        """Renew this lease until what is given back is called. One that is lost, or about to lapse unrenewed, sets `cancel`."""
        one = _Held(store, claim, clock, cancel, time.monotonic() + self._every)
        with self._lock:
            self._held.append(one)
            if not self._running:
                threading.Thread(target=self._run, name="leases", daemon=True).start()
                self._running = True
        return partial(self._end, one)

    def _end(self, one: _Held) -> bool:
        """Whether it was held until now."""
        with self._lock:
            was_held = one in self._held
            self._held = [other for other in self._held if other is not one]
            return was_held

    def _run(self) -> None:
        idle = 0
        while True:
            with self._lock:
                due = min(self._held, key=lambda one: one.due, default=None)
                idle = 0 if due is not None else idle + 1
                if idle > 1:
                    self._running = False
                    return
            # What comes in meanwhile is due later still.
            time.sleep(self._every if due is None else max(0.0, due.due - time.monotonic()))
            if due is not None and due in self._held:
                due.due = time.monotonic() + self._renew(due)

    def _renew(self, one: _Held) -> float:
        """Seconds until the next time. A store that is full or busy may soon be neither; but once another owner may come, the call must end."""
        try:
            one.claim = one.store.renew(one.claim, LEASE_TTL)
        except EscaleraError as error:
            if (isinstance(error, LeaseLost) or one.claim.expires_at - one.clock.now() <= END_BEFORE) and self._end(one):
                one.cancel.set(f"the session's lease could not be renewed: {error.message}")
            return self._every / 4
        return self._every


@dataclass(slots=True, eq=False)
class _Held:
    """A lease that is renewed."""

    store: Store
    claim: Claim
    clock: Clock
    cancel: Cancel
    due: float
    """When it is renewed next, as a monotonic time."""


@contextmanager
def held(store: Store, session: str, owner: str, *, clock: Clock, wait: float, cancel: Cancel, renewals: Renewals | None = None) -> Iterator[Claim]:
    """The session's lease, renewed until the block ends, by the thread of `renewals` or by one of its own.

    Waits up to `wait` seconds for another owner, then raises `SessionInUse`. A lease that is lost, or about to lapse unrenewed, cancels the turn.
    """
    claim = _claimed(store, session, owner, clock=clock, wait=wait, cancel=cancel)
    end_renewing = (renewals or Renewals()).begin(store, claim, clock, cancel)
    try:
        yield claim
    finally:
        end_renewing()
        with suppress(EscaleraError):  # a lease that cannot be given back lapses by itself
            store.release(claim)


def _claimed(store: Store, session: str, owner: str, *, clock: Clock, wait: float, cancel: Cancel) -> Claim:
    deadline = clock.monotonic() + wait
    while True:
        claim = store.claim(session, owner, LEASE_TTL)
        if isinstance(claim, Claim):
            return claim
        cancel.raise_if_set()
        if clock.monotonic() >= deadline:
            raise SessionInUse(
                f"session {session[:8]} is in use by another process ({claim.owner[:8]}) and did not become free within {wait:g} s",
                hint="try again when its turn has ended, wait longer with --session-wait, or work in another session with --new",
            )
        clock.sleep(POLL_EVERY, cancel.event)
