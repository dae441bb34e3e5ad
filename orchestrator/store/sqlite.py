"""The embedded store: one SQLite file, each verb one transaction."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.artifacts import Artifact
from orchestrator.clock import Clock
from orchestrator.errors import UsageError
from orchestrator.messages import Part, well_formed
from orchestrator.percepts import Archived, Consolidated, Edge, Engram, Inquiry, Percept, Recalled, Stale
from orchestrator.providers import Answer
from orchestrator.questions import StoredQuestion
from orchestrator.session import Session, Turn
from orchestrator.store import (
    NO_RECEIPTS,
    Claim,
    Health,
    HeldBy,
    Receipt,
    SearchHit,
    SessionSummary,
    UsageKey,
    UsageSum,
    artifacts,
    consolidation,
    edges,
    health,
    leases,
    percepts,
    questions,
    recall,
    running,
    search,
    sessions,
    tasks,
    turns,
    usage,
)
from orchestrator.store.database import Database
from orchestrator.store.log import Settled, SqliteTurnLog
from orchestrator.store.questions import Look
from orchestrator.tasks import StoredTask, TaskState

T = TypeVar("T")


def open_store(folder: Path, *, clock: Clock, read_only: bool = False) -> SqliteStore:
    """The store in that folder, `escalera.db`; made where there is none.

    Opened `read_only` it writes no byte and makes no file; where there is none it is empty. Raises `StoreTooNew`,
    `StoreReadOnly`, `StoreFull`, `StoreError`.
    """
    return SqliteStore(Database(folder, clock, read_only=read_only), clock)


class SqliteStore:
    """A `Store` over one database. Any thread may use it; a turn that was stored survives the death of the process."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._opened_at = clock.monotonic()
        self._counting = threading.Lock()
        """Held while this process's running time is counted."""
        self._settled = Settled()
        self._counted = running.NOTHING if database.read_only else database.read(running.opened)

    @property
    def notices(self) -> Sequence[str]:
        return self._database.notices

    def now(self) -> datetime:
        return self._database.now()

    def close(self) -> None:
        self._database.close()

    def snapshot(self) -> AbstractContextManager[None]:
        return self._database.snapshot()

    # -- sessions ----------------------------------------------------------------------------------

    def create(self, session: Session, *, first: bool = False) -> None:
        now, platform = self.now(), self._database.platform
        self._database.write(lambda connection: sessions.create(connection, session, first=first, now=now, platform=platform))

    def find(self, ref: str | None, workspace: str) -> Session:
        database = self._database
        return database.read(lambda connection: sessions.find(connection, ref, workspace, platform=database.platform, notice=database.notice))

    def log(self, session: str) -> SqliteTurnLog:
        identity = well_formed(session)
        self._database.read(lambda connection: sessions.require(connection, identity))
        return SqliteTurnLog(self._database, identity, self._is_held, self._settled)

    def list(self, workspace: str | None) -> Sequence[SessionSummary]:
        database = self._database
        return database.read(
            lambda connection: sessions.summaries(
                connection, workspace, platform=database.platform, in_use=lambda session: self._is_held(connection, session), notice=database.notice
            )
        )

    def search(self, text: str, workspace: str | None, limit: int = 50) -> Sequence[SearchHit]:
        database = self._database
        lasting = not database.read_only
        run = database.write if lasting else database.read
        return run(lambda connection: search.search(connection, text, workspace, limit, lasting=lasting, platform=database.platform, notice=database.notice))

    def import_session(self, session: Session, turns: Sequence[Turn], receipts: Mapping[int, Receipt] = NO_RECEIPTS) -> None:
        now, platform = self.now(), self._database.platform
        self._database.write(lambda connection: sessions.import_session(connection, session, turns, receipts, now=now, platform=platform))

    def drop(self, session: str, next_index: int, *, purge: bool = False) -> None:
        identity, now, database = well_formed(session), self.now(), self._database

        def dropped(connection: sqlite3.Connection) -> None:
            sessions.require(connection, identity)
            leases.refuse_held(connection, identity, now=now, is_dead=database.is_dead)
            turns.refuse_longer(connection, identity, next_index)
            search.forget_session(connection, identity, database.notice)
            percepts.drop_session(connection, identity, database.files.archive, now=now, notice=database.notice)
            connection.execute("DELETE FROM unindexed WHERE turn IN (SELECT id FROM turns WHERE session = ?)", (identity,))
            turns.forget_indexes(connection, identity)
            connection.execute("DELETE FROM sessions WHERE id = ?", (identity,))
            artifacts.collect(connection, now)

        database.write(dropped)
        if purge:
            database.scrub()

    # -- leases ------------------------------------------------------------------------------------

    def claim(self, session: str, owner: str, ttl: timedelta) -> Claim | HeldBy:
        identity, database = well_formed(session), self._database

        def claimed(connection: sqlite3.Connection) -> Claim | HeldBy:
            sessions.require(connection, identity)
            claim = leases.claim(connection, identity, owner, ttl, now=self.now(), lock=database.owner_lock(), is_dead=database.is_dead)
            if isinstance(claim, Claim):
                turns.interrupt(connection, identity)
            return claim

        return database.write(claimed)

    def renew(self, claim: Claim, ttl: timedelta) -> Claim:
        return self._database.write(lambda connection: leases.renew(connection, claim, ttl, now=self.now()))

    def release(self, claim: Claim) -> None:
        self._database.write(lambda connection: leases.release(connection, claim))

    def _is_held(self, connection: sqlite3.Connection, session: str) -> bool:
        return leases.held_by(connection, session, now=self.now(), is_dead=self._database.is_dead) is not None

    # -- turns -------------------------------------------------------------------------------------

    def open_turn(self, claim: Claim, turn: Turn, session: Session, receipt: Receipt | None = None) -> None:
        def opened(connection: sqlite3.Connection, now: datetime) -> None:
            turns.open_turn(connection, claim.session, turn)
            turns.put_receipt(connection, claim.session, turn.index, receipt)
            sessions.save(connection, claim.session, session, now=now, platform=self._database.platform)

        self._fenced(claim, opened)

    def append_step(self, claim: Claim, index: int, seq: int, step: Part) -> None:
        self._fenced(claim, lambda connection, _: turns.append_step(connection, claim.session, index, seq, step))

    def close_turn(self, claim: Claim, turn: Turn, session: Session, percepts: Sequence[Percept] = (), receipt: Receipt | None = None) -> None:
        def closed(connection: sqlite3.Connection, now: datetime) -> None:
            if turns.close_turn(connection, claim.session, turn):
                turns.put_receipt(connection, claim.session, turn.index, receipt)
                sessions.save(connection, claim.session, session, now=now, platform=self._database.platform)
                for percept in percepts:
                    self._learned(connection, percept, now)

        self._fenced(claim, closed)

    def receipts(self, session: str) -> Mapping[int, Receipt]:
        return self.receipts_by(session, lambda _: None)

    def receipts_by(self, session: str, quickly: Callable[[str], T | None]) -> Mapping[int, T | Receipt]:
        identity, database = well_formed(session), self._database
        return database.read(lambda connection: turns.receipts(connection, identity, database.notice, quickly))

    def withdraw(self, claim: Claim, index: int, session: Session) -> None:
        def withdrawn(connection: sqlite3.Connection, now: datetime) -> None:
            gone = turns.from_index(connection, claim.session, index)
            search.forget_turns(connection, gone, self._database.notice)
            turns.remove(connection, claim.session, gone)
            artifacts.collect(connection, now)
            sessions.save(connection, claim.session, session, now=now, platform=self._database.platform)

        self._fenced(claim, withdrawn)

    def save(self, claim: Claim, session: Session) -> None:
        self._fenced(claim, lambda connection, now: sessions.save(connection, claim.session, session, now=now, platform=self._database.platform))

    def _fenced(self, claim: Claim, work: Callable[[sqlite3.Connection, datetime], None]) -> None:
        """Work that only the session's owner may do; looked at in the same transaction."""

        def done(connection: sqlite3.Connection) -> None:
            now = self.now()
            leases.check(connection, claim, now=now)
            work(connection, now)

        self._database.write(done)

    # -- reckoning and checking --------------------------------------------------------------------

    def usage(self, by: UsageKey, *, workspace: str | None = None, session: str | None = None, since: datetime | None = None) -> Sequence[UsageSum]:
        database = self._database

        def summed(connection: sqlite3.Connection) -> Sequence[UsageSum]:
            return usage.sums(connection, by, workspace=workspace, session=session, since=since, platform=database.platform)

        return database.read(summed)

    def check(self, seconds: float) -> Health:
        database = self._database
        return database.read(lambda connection: health.check(connection, database.files, seconds, journal=database.journal))

    # -- percepts ----------------------------------------------------------------------------------

    def learn(self, percept: Percept, links: Sequence[Edge] = ()) -> tuple[Percept, bool]:
        return self._database.write(lambda connection: self._learned(connection, percept, self.now(), links))

    def _learned(self, connection: sqlite3.Connection, percept: Percept, now: datetime, links: Sequence[Edge] = ()) -> tuple[Percept, bool]:
        database = self._database
        return percepts.learn(connection, percept, aged=self._aged(connection), now=now, platform=database.platform, notice=database.notice, links=links)

    def percepts(self, *, session: str | None = None) -> Sequence[Percept]:
        return self._database.read(lambda connection: percepts.standing(connection, session, self._database.notice))

    def all_percepts(self) -> Sequence[Percept]:
        return self._database.read(lambda connection: percepts.everything(connection, self._database.notice))

    def percept(self, ref: str) -> Percept:
        return self._database.read(lambda connection: percepts.find(connection, ref, self._database.notice))

    def edges(self) -> Sequence[Edge]:
        return self._database.read(edges.everything)

    def engrams(self, *, session: str | None = None) -> Sequence[Engram]:
        return self._database.read(lambda connection: percepts.engrams(connection, session))

    def link(self, edge: Edge) -> Edge:
        now, notice = self.now(), self._database.notice

        def linked(connection: sqlite3.Connection) -> Edge:
            found = Edge(percepts.find(connection, edge.source, notice).id, percepts.find(connection, edge.target, notice).id, edge.kind)
            if found.source == found.target:
                raise UsageError("a percept cannot be linked to itself")
            edges.link(connection, found, now)
            return found

        return self._database.write(linked)

    def recall(self, inquiry: Inquiry) -> Recalled:
        database = self._database
        return database.read(lambda connection: recall.recall(connection, inquiry, platform=database.platform, notice=database.notice))

    def best_percepts(self, inquiry: Inquiry, most: int) -> Sequence[Percept]:
        database = self._database
        return database.read(lambda connection: recall.best(connection, inquiry, most, platform=database.platform, notice=database.notice))

    def forget(self, ref: str, *, purge: bool = False) -> Percept:
        database, now = self._database, self.now()
        gone = database.write(lambda connection: percepts.forget(connection, ref, database.files.archive, purge=purge, now=now, notice=database.notice))
        if purge:
            database.scrub()
        return gone

    def mark_used(self, ids: Sequence[str], at: datetime) -> None:
        self._database.write(lambda connection: percepts.mark_used(connection, ids, at))

    def widen(self, ref: str) -> Percept:
        now, notice = self.now(), self._database.notice
        return self._database.write(lambda connection: percepts.widen(connection, ref, aged=self._aged(connection), now=now, notice=notice))

    def consolidate(self, *, archive_after: float | None, most: int | None) -> Consolidated:
        database, now = self._database, self.now()
        with self._counting:
            own = self._own()
            done, self._counted = database.write(
                lambda connection: consolidation.consolidate(
                    connection,
                    self._counted,
                    own,
                    archive=database.files.archive,
                    archive_after=archive_after,
                    most=most,
                    now=now,
                    platform=database.platform,
                    notice=database.notice,
                )
            )
        return done

    def stale(self, archive_after: float) -> Sequence[Stale]:
        return self._database.read(lambda connection: consolidation.stale(connection, archive_after, self._database.notice))

    def archived(self) -> Sequence[Archived]:
        database = self._database
        return database.read(lambda connection: percepts.archived(connection, database.files.archive, database.notice))

    def restore(self, ref: str) -> Percept:
        database, now = self._database, self.now()

        def restored(connection: sqlite3.Connection) -> Percept:
            return percepts.restore(
                connection, ref, database.files.archive, aged=self._aged(connection), now=now, platform=database.platform, notice=database.notice
            )

        return database.write(restored)

    def take_in(
        self, given: Sequence[Percept], links: Sequence[Edge] = (), archived: Sequence[Archived] = (), *, fresh: Collection[str] = ()
    ) -> Sequence[bool]:
        database, now = self._database, self.now()

        def taken(connection: sqlite3.Connection) -> Sequence[bool]:
            aged = self._aged(connection)
            new = percepts.take_in(connection, given, aged=aged, now=now, platform=database.platform, notice=database.notice)
            percepts.take_in_edges(connection, links, now)
            linked = [percept for percept, is_new in zip(given, new, strict=True) if is_new and percept.id in fresh]
            percepts.relate_all(connection, linked, now=now, platform=database.platform)
            percepts.take_in_archived(connection, archived, database.files.archive, database.notice)
            return new

        return database.write(taken)

    def _own(self) -> int:
        """Milliseconds for which this process has had the store open; a suspended machine and a stepped clock add nothing."""
        return int((self._clock.monotonic() - self._opened_at) * 1000)

    def _aged(self, connection: sqlite3.Connection) -> int:
        """From where on the weight of what comes in now decays."""
        return running.aged_by_now(connection, self._counted, self._own())

    # -- questions ---------------------------------------------------------------------------------

    def add_question(self, stored: StoredQuestion) -> None:
        database = self._database
        database.write(lambda connection: questions.add(connection, stored, lock=None if stored.question.durable else database.owner_lock()))

    def peek_question(self, ref: str) -> StoredQuestion:
        return self._database.read(lambda connection: questions.peek(connection, ref, self._look()))

    def read_question(self, ref: str) -> StoredQuestion:
        return self._database.write(lambda connection: questions.read(connection, ref, self._look()))

    def questions(self, *, session: str | None = None, pending: bool = False, untold: bool = False) -> Sequence[StoredQuestion]:
        return self._database.read(lambda connection: questions.listed(connection, self._look(), session=session, pending=pending, untold=untold))

    def answer_question(self, identity: str, answer: Answer) -> tuple[StoredQuestion, bool]:
        return self._database.write(lambda connection: questions.answer(connection, identity, answer, self._look()))

    def expire_question(self, identity: str, expires_at: datetime) -> None:
        self._database.write(lambda connection: questions.expire(connection, identity, expires_at, now=self.now()))

    def settle_questions(self) -> None:
        def settled(connection: sqlite3.Connection) -> None:
            look = self._look()
            questions.settle(connection, look)
            questions.remove_old(connection, now=look.now)

        self._database.write(settled)

    def mark_questions_told(self, identities: Sequence[str]) -> None:
        self._database.write(lambda connection: questions.mark_told(connection, identities))

    # -- tasks -------------------------------------------------------------------------------------

    def add_task(self, task: StoredTask, lease: timedelta) -> None:
        self._database.write(lambda connection: tasks.add(connection, task, lease))

    def hold_task(self, identity: str, lease: timedelta) -> StoredTask | None:
        lock = self._database.owner_lock()
        return self._database.write(lambda connection: tasks.hold(connection, identity, lease, self._look(), lock=lock))

    def end_task(self, identity: str, state: TaskState, result: Mapping[str, Any], exit_code: int) -> bool:
        return self._database.write(lambda connection: tasks.end(connection, identity, state, result, exit_code, self._look()))

    def forget_task(self, identity: str) -> None:
        self._database.write(lambda connection: tasks.forget(connection, identity, self._look()))

    def cancel_task(self, identity: str) -> StoredTask:
        return self._database.write(lambda connection: tasks.ask_to_end(connection, identity, self._look()))

    def peek_task(self, ref: str) -> StoredTask:
        return self._database.read(lambda connection: tasks.peek(connection, ref, self._look()))

    def read_task(self, ref: str) -> StoredTask:
        return self._database.write(lambda connection: tasks.read(connection, ref, self._look()))

    def tasks(self) -> Sequence[StoredTask]:
        return self._database.read(lambda connection: tasks.listed(connection, self._look()))

    def settle_tasks(self) -> None:
        self._database.write(lambda connection: tasks.settle(connection, self._look()))

    # -- artifacts ---------------------------------------------------------------------------------

    def add_artifact(self, artifact: Artifact, body: bytes, quota: int | None) -> bool:
        return self._database.write(lambda connection: artifacts.add(connection, artifact, body, quota, self._look()))

    def peek_artifact(self, ref: str) -> Artifact:
        return self._database.read(lambda connection: artifacts.peek(connection, ref, self._look()))

    def read_artifact(self, ref: str) -> Artifact:
        return self._database.write(lambda connection: artifacts.read(connection, ref, self._look()))

    def artifact_body(self, ref: str) -> bytes:
        return self._database.read(lambda connection: artifacts.body(connection, ref, self._look()))

    def artifacts(self, *, session: str | None = None) -> Sequence[Artifact]:
        return self._database.read(lambda connection: artifacts.listed(connection, self._look(), session=session))

    def collect_artifacts(self) -> None:
        self._database.write(lambda connection: artifacts.collect(connection, self.now()))

    def _look(self) -> Look:
        return Look(self.now(), self._database.is_dead, self._database.notice)
