"""Over random sequences of what can befall percepts none is lost, none is in two places, and none is told to whom it is not meant for."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from orchestrator.errors import EscaleraError
from orchestrator.percepts import Edge, Inquiry, Percept
from orchestrator.session import Session
from orchestrator.store import schema
from orchestrator.store.sqlite import SqliteStore, open_store

from .conftest import HandClock

RUNS = int(os.environ.get("ESCALERA_PROOF_MEMORY", "8"))
CONTENTS = [f"{verb} {thing}" for verb in ("use", "do not use") for thing in ("tabs", "long tabs", "short tabs everywhere", "port 1", "port 2", "茶", "🍕")]
AGENTS = {"local": "primary", "strong": "escalation"}
PLACES = ("/work/a", "/work/b")


class Life(RuleBasedStateMachine):
    """A store with three sessions in two workspaces, and what it was said to have stored."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = HandClock()
        self.store = self.opened()
        for session in ("s1", "s2", "s3"):
            self.store.create(Session(id=session, workspace=PLACES[0], nonce="n"))
        self.recorded: set[str] = set()
        self.number = 0

    def opened(self) -> SqliteStore:
        return open_store(self.folder, clock=self.clock)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # -- what can befall them ------------------------------------------------------------------

    @rule(
        content=st.sampled_from(CONTENTS),
        consumer=st.sampled_from(["all", "primary", "strong"]),
        place=st.sampled_from([None, *PLACES]),
        session=st.sampled_from([None, "s1", "s2", "s3"]),
        weight=st.sampled_from([15, 20, 40, 70, 85, 100]),
        core=st.booleans(),
        subject=st.sampled_from([None, "indent"]),
        crash=st.booleans(),
    )
    def record(self, content: str, consumer: str, place: str | None, session: str | None, weight: int, core: bool, subject: str | None, crash: bool) -> None:
        self.number += 1
        scope = "global" if session is None else "session"
        percept = Percept(f"p{self.number:03}", content, "user" if core else "primary", consumer, weight, core, scope, place, session, subject)  # type: ignore[arg-type]  # one of the scopes
        if crash:
            self.crashed(lambda store: store.learn(percept))
        elif self.store.learn(percept)[1]:
            self.recorded.add(percept.id)

    @rule(newer=st.integers(0, 99), older=st.integers(0, 99))
    def link(self, newer: int, older: int) -> None:
        standing = [percept.id for percept in self.store.all_percepts()]
        if standing:
            edge = Edge(standing[newer % len(standing)], standing[older % len(standing)], "updates")
            self.quietly(lambda store: store.link(edge), self.store)

    @rule(pick=st.integers(0, 99))
    def use(self, pick: int) -> None:
        standing = self.store.all_percepts()
        if standing:
            self.store.mark_used([standing[pick % len(standing)].id], self.clock.now())

    @rule(hours=st.sampled_from([0.1, 1, 30, 500]))
    def run_on(self, hours: float) -> None:
        self.clock.advance(hours=hours)

    @rule(after=st.sampled_from([None, 0.0, 86_400.0]), most=st.sampled_from([None, 3, 8]), crash=st.booleans())
    def consolidate(self, after: float | None, most: int | None, crash: bool) -> None:
        self.perhaps(lambda store: store.consolidate(archive_after=after, most=most), crash=crash)

    @rule(pick=st.integers(0, 99), crash=st.booleans())
    def restore(self, pick: int, crash: bool) -> None:
        gone = self.store.archived()
        if gone:
            self.perhaps(lambda store: store.restore(gone[pick % len(gone)].percept.id), crash=crash)

    @rule(pick=st.integers(0, 99), crash=st.booleans())
    def forget(self, pick: int, crash: bool) -> None:
        standing = self.store.all_percepts()
        if standing:
            self.perhaps(lambda store: store.forget(standing[pick % len(standing)].id), crash=crash)

    @rule(session=st.sampled_from(["s2", "s3"]))
    def drop(self, session: str) -> None:
        try:
            self.store.drop(session, 0)
        except EscaleraError:
            return  # it is gone already

    @rule(data=st.binary(max_size=20))
    def tear(self, data: bytes) -> None:
        """A crash of the machine leaves half a line at the end of the archive."""
        archive = self.folder / "memory" / "global-archive.jsonl"
        if archive.exists():
            with archive.open("ab") as file:
                file.write(b'{"percept": {"id": "p' + data.replace(b"\n", b" "))

    def perhaps(self, act: Callable[[SqliteStore], object], *, crash: bool) -> None:
        if crash:
            self.crashed(act)
        else:
            self.quietly(act, self.store)

    def crashed(self, act: Callable[[SqliteStore], object]) -> None:
        """Done up to the commit, which never comes: what went to the archive is there, the database as before."""
        self.store.close()
        database, kept = self.folder / "escalera.db", self.folder / "kept.db"
        shutil.copy(database, kept)
        doomed = self.opened()
        self.quietly(act, doomed)
        doomed.close()
        os.replace(kept, database)
        self.store = self.opened()

    @staticmethod
    def quietly(act: Callable[[SqliteStore], object], store: SqliteStore) -> None:
        try:
            act(store)
        except EscaleraError:
            return  # refused, as a restore of what was learned again

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def each_is_in_exactly_one_place(self) -> None:
        standing = [percept.id for percept in self.store.all_percepts()]
        gone = [one.percept.id for one in self.store.archived()]

        assert sorted([*standing, *gone]) == sorted(self.recorded)

    @invariant()
    def no_updates_make_a_ring(self) -> None:
        newer = {(edge.source, edge.target) for edge in self.store.edges() if edge.kind == "updates"}

        TopologicalSorter({source: {target for one, target in newer if one == source} for source, _ in newer}).prepare()

    @invariant()
    def weights_are_whole_hundredths(self) -> None:
        for percept in self.store.all_percepts():
            assert isinstance(percept.weight, int)
            assert 0 <= percept.weight <= 100
            assert percept.idle_seconds >= 0

    @invariant()
    def edges_have_both_ends(self) -> None:
        standing = {percept.id for percept in self.store.all_percepts()}

        assert {end for edge in self.store.edges() for end in (edge.source, edge.target)} <= standing

    @invariant()
    def none_is_told_to_whom_it_is_not_meant_for(self) -> None:
        for agent, role in AGENTS.items():
            for place in PLACES:
                for text in (None, "use tabs on port 1"):
                    inquiry = Inquiry(frozenset({"all", role, agent}), place, "s1", text)
                    for percept, _ in self.store.recall(inquiry).found:
                        assert percept.consumer in inquiry.consumers
                        assert percept.workspace in (None, place)
                        assert percept.scope == "global" or percept.session == "s1"


@pytest.mark.proof
def test_no_percept_is_lost_or_told_astray() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]  # hypothesis has no types for it
        Life, settings=settings(max_examples=RUNS, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
    )


def test_a_store_of_the_first_version_is_brought_up(folder: Path, clock: HandClock) -> None:
    """Its percepts begin with an idle time of 0, are found, and are compared as new ones are."""
    folder.mkdir(parents=True)
    connection = sqlite3.connect(folder / "escalera.db", isolation_level=None)
    for statement in (*schema.MIGRATIONS[0], f"PRAGMA application_id = {schema.APPLICATION_ID}", "PRAGMA user_version = 1"):
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO percepts (id, statement, content, producer, consumer, weight, core, scope, idle_seconds, trust)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, 'global', ?, ?)",
        [("p1", "tabs use", "Use tabs", "user", "all", 20, 99_999, "user"), ("p2", "x", b"\xff", "user", "all", 20, 0, "user")],
    )
    connection.close()

    reader = open_store(folder, clock=clock, read_only=True)
    assert [percept.id for percept in reader.percepts()] == ["p1"]
    reader.close()
    store = open_store(folder, clock=clock)
    assert store.percept("p1").idle_seconds == 0
    assert store.consolidate(archive_after=60, most=None).archived == ()
    assert [percept.id for percept, _ in store.recall(Inquiry(frozenset({"all"}), "/w", None, "tabs?")).found] == ["p1"]
    assert store.learn(Percept("p3", "use the tabs", "user"))[0].id == "p1"
    clock.advance(minutes=2)
    store.consolidate(archive_after=None, most=None)
    clock.advance(hours=20)
    assert store.consolidate(archive_after=60, most=None).archived == ("p1",)
    store.close()
