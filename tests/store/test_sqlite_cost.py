"""What a turn costs does not depend on how many came before it (page 1)."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.session import (
    TOLD,
    Outcome,
    Role,
    Session,
    Turn,
    escalation_most_recent,
    last_escalation_boundary,
    last_escalation_turn,
    need_changed_since_escalation,
    primary_turns_since_escalation,
)
from orchestrator.store import Claim
from orchestrator.store.sqlite import SqliteStore

LONG = int(os.environ.get("ESCALERA_PROOF_TURNS", "10000"))
STEPS = (ToolCall("c", "grep", {"pattern": "x" * 60}), ToolResult("c", "line\n" * 40), Text("answer " * 40))


def history(length: int) -> list[Turn]:
    """One escalation turn at the beginning, then failed and completed primary turns."""
    kinds = [(Role.ESCALATION, Outcome.COMPLETED)] + [(Role.PRIMARY, Outcome.FAILED if index % 2 else Outcome.COMPLETED) for index in range(1, length)]
    return [Turn(index, role, "local", f"prompt {index}", STEPS, outcome) for index, (role, outcome) in enumerate(kinds)]


@pytest.fixture
def long_and_short(sqlite: Callable[..., SqliteStore]) -> SqliteStore:
    store = sqlite()
    for identity, length in (("short", 100), ("long", LONG)):
        store.import_session(Session(id=identity, workspace="/w", nonce="n"), history(length))
    return store


def store_a_turn(store: SqliteStore, claim: Claim) -> None:
    session = store.find(claim.session, "/w")
    index = store.log(claim.session).next_index
    store.open_turn(claim, Turn(index, Role.PRIMARY, "local", "prompt"), session)
    for seq, step in enumerate(STEPS):
        store.append_step(claim, index, seq, step)
    store.close_turn(claim, Turn(index, Role.PRIMARY, "local", "prompt"), session)


@pytest.mark.proof
def test_storing_a_turn_writes_and_takes_no_more_in_a_long_history(folder: Path, long_and_short: SqliteStore) -> None:
    cost: dict[str, tuple[int, float]] = {}
    connection = long_and_short._database._writing.connection
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    for identity in ("short", "long"):
        claim = long_and_short.claim(identity, "me", timedelta(hours=1))
        assert isinstance(claim, Claim)
        store_a_turn(long_and_short, claim)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        times = []
        for _ in range(20):
            began = time.perf_counter()
            store_a_turn(long_and_short, claim)
            times.append(time.perf_counter() - began)
        cost[identity] = ((folder / "escalera.db-wal").stat().st_size, statistics.median(times))
    assert cost["long"][0] < 1.5 * cost["short"][0]
    assert cost["long"][1] < 3 * cost["short"][1] + 0.002


@pytest.mark.proof
def test_a_decision_reads_no_more_of_a_long_history(long_and_short: SqliteStore) -> None:
    """Counted in steps of SQLite's machine, which no other load on the computer changes."""
    assert primary_turns_since_escalation(long_and_short.log("long")) == LONG // 2 - 1
    for decision in (
        last_escalation_turn,
        last_escalation_boundary,
        escalation_most_recent,
        lambda log: need_changed_since_escalation(None, log),
        lambda log: log.next_index,
        lambda log: log.get(50),
        lambda log: next(log.newest_first(outcomes=TOLD)),
        lambda log: next(log.newest_first(role=Role.ESCALATION, outcomes=frozenset({Outcome.INTERRUPTED})), None),
        lambda log: [turn for turn, _ in zip(log.newest_first(), range(40), strict=False)],
        lambda log: log.count(role=Role.ESCALATION),
    ):
        short, long = (_work(long_and_short, partial(decision, long_and_short.log(identity))) for identity in ("short", "long"))
        assert long <= 1.3 * short + 200


def _work(store: SqliteStore, act: Callable[[], object]) -> int:
    """How many steps (by tens) the database's machine takes for it."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 10
        return 0

    connection = store._database._writing.connection
    connection.set_progress_handler(count, 10)
    try:
        act()
    finally:
        connection.set_progress_handler(None, 10)
    return taken


def test_a_search_takes_in_only_what_is_new(long_and_short: SqliteStore) -> None:
    long_and_short.search("answer", None, limit=1)
    first = _work(long_and_short, lambda: long_and_short.search("nothing", None))
    claim = long_and_short.claim("long", "me", timedelta(hours=1))
    assert isinstance(claim, Claim)
    store_a_turn(long_and_short, claim)
    assert _work(long_and_short, lambda: long_and_short.search("nothing", None)) < first + 2000
