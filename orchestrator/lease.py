"""Holding a session for as long as a turn runs: waiting for it, renewing it, giving it back (page 1)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

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


@contextmanager
def held(store: Store, session: str, owner: str, *, clock: Clock, wait: float, cancel: Cancel, renew_every: float = RENEW_EVERY) -> Iterator[Claim]:
    """The session's lease, renewed by a thread of its own until the block ends.

    Waits up to `wait` seconds for another owner, then raises `SessionInUse`. A lease that is lost, or about to lapse unrenewed, cancels the turn.
    """
    claim = _claimed(store, session, owner, clock=clock, wait=wait, cancel=cancel)
    done = threading.Event()
    renewer = threading.Thread(target=_renew, args=(store, claim, clock, done, cancel, renew_every), name=f"lease-{session[:8]}", daemon=True)
    renewer.start()
    try:
        yield claim
    finally:
        done.set()
        renewer.join()
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


def _renew(store: Store, claim: Claim, clock: Clock, done: threading.Event, cancel: Cancel, every: float) -> None:
    """A store that is full or busy may soon be neither; but once another owner may come, the call must end."""
    wait = every
    while not done.wait(wait):
        try:
            claim = store.renew(claim, LEASE_TTL)
            wait = every
        except EscaleraError as error:
            if isinstance(error, LeaseLost) or claim.expires_at - clock.now() <= END_BEFORE:
                cancel.set(f"the session's lease could not be renewed: {error.message}")
                return
            wait = every / 4
