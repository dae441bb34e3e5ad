"""The store seam: everything that is kept, behind verbs that are one transaction each (page 1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

from orchestrator.artifacts import Artifact
from orchestrator.messages import CostSource, Part
from orchestrator.percepts import Archived, Consolidated, Edge, Engram, Inquiry, Percept, Recalled, Stale
from orchestrator.providers import Answer
from orchestrator.questions import StoredQuestion
from orchestrator.session import Session, Turn, TurnLog
from orchestrator.tasks import StoredTask, TaskState

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease on a session. Every append carries its `fence`; an owner whose fence was overtaken can write nothing."""

    session: str
    owner: str
    fence: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Who has the session's lease, and until when unless it is renewed."""

    owner: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session as a list shows it."""

    id: str
    name: str | None
    workspace: str
    created_at: datetime | None
    updated_at: datetime | None
    state: str
    turns: int
    need: str | None
    in_use: bool = False


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A turn whose text holds what was searched for; the match stands between `[` and `]` in the snippet."""

    session: str
    name: str | None
    workspace: str
    turn: int
    snippet: str


UsageKey = Literal["agent", "model", "session", "day"]
"""What usage is summed by; days are those of UTC, as providers bill them."""


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The usage of turns that are alike: of one agent, with costs of one source. A figure that none of them has is `None`."""

    key: str | None
    """The agent, model, session id or day; `None` where that is not known."""
    name: str | None
    """The session's name, where sums are by session."""
    agent: str
    cost_source: CostSource | None
    """Where the costs come from; `None` for turns without one."""
    counted: bool
    """Whether input and output tokens are known of each of these turns."""
    turns: int
    input_tokens: int | None = None
    """Without what came from the cache or went into it."""
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What a full check of the store found: how many sessions and turns it holds, and every fault in the file."""

    sessions: int
    turns: int
    journal: str
    """The journal mode; empty where there is no file yet."""
    faults: tuple[str, ...] = ()
    complete: bool = True
    """The check came to its end within its time."""


Receipt = Mapping[str, Any]
"""What a turn was decided by, as JSON; what is in it is no business of a store."""
NO_RECEIPTS: Mapping[int, Receipt] = MappingProxyType({})


class Store(Protocol):
    """What a store does. Rows become values before they leave it; a damaged one is reported, never in the way.

    Raises `NotFound`, `Ambiguous`, `LeaseLost`, `StoreReadOnly`, `StoreFull`, `StoreTooNew`, `StoreError`.
    """

    @property
    def notices(self) -> Sequence[str]:
        """What the user should be told: rows skipped, a file set aside, another journal mode."""

    def now(self) -> datetime:
        """The store's own clock, aware, in UTC; leases go by it."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that this thread reads inside the block comes from one state of the store; nothing is written there."""

    def create(self, session: Session, *, first: bool = False) -> None:
        """A new session without turns; where it shall be the `first` of its workspace, refused if there is one by now."""

    def find(self, ref: str | None, workspace: str) -> Session:
        """By exact id, unique id prefix, exact name within the workspace, or `None` for its newest; never creates."""

    def log(self, session: str) -> TurnLog:
        """The session's turns, read on demand; an open turn without a living owner reads as `interrupted`."""

    def list(self, workspace: str | None) -> Sequence[SessionSummary]:
        """Newest first; of one workspace, or of all."""

    def search(self, text: str, workspace: str | None, limit: int = 50) -> Sequence[SearchHit]:
        """Full text over prompts and steps, best first; of one workspace, or of all."""

    def claim(self, session: str, owner: str, ttl: timedelta) -> Claim | HeldBy:
        """Take the lease if it is free, lapsed, or its owner is dead; then marks turns found open as `interrupted`."""

    def renew(self, claim: Claim, ttl: timedelta) -> Claim:
        """Hold it longer. Raises `LeaseLost`."""

    def release(self, claim: Claim) -> None:
        """Give it back; a lost one is no error."""

    def open_turn(self, claim: Claim, turn: Turn, session: Session, receipt: Receipt | None = None) -> None:
        """Store the turn (outcome open), what it was decided by and the session's header before anything is sent. Idempotent by index."""

    def append_step(self, claim: Claim, index: int, seq: int, step: Part) -> None:
        """Store one finished step of the open turn. Idempotent by index and `seq`."""

    def close_turn(self, claim: Claim, turn: Turn, session: Session, percepts: Sequence[Percept] = (), receipt: Receipt | None = None) -> None:
        """Store the turn's end (everything but its steps), the session's header and what was learned, in one transaction.

        A `receipt` takes the place of the one that it was opened with.
        """

    def receipts(self, session: str) -> Mapping[int, Receipt]:
        """What the session's turns were decided by, by their indexes; those that have none, or a damaged one, are left out."""

    def receipts_by(self, session: str, quickly: Callable[[str], _T | None]) -> Mapping[int, _T | Receipt]:
        """As `receipts`, but where `quickly` makes something of the stored JSON, that: many are read without taking each apart twice."""

    def withdraw(self, claim: Claim, index: int, session: Session) -> None:
        """Remove the turns from that index on, which no later turn gets again, and store the session's header."""

    def save(self, claim: Claim, session: Session) -> None:
        """Store the session's header (need, state, brief, name)."""

    def import_session(self, session: Session, turns: Sequence[Turn], receipts: Mapping[int, Receipt] = NO_RECEIPTS) -> None:
        """A whole session at once; an id that is taken raises `StoreError` and nothing is stored."""

    def drop(self, session: str, next_index: int, *, purge: bool = False) -> None:
        """Remove a session whose next turn would have that index; with `purge` the store's indexes and log forget its words, too.

        Raises `SessionInUse` while it is held, `StoreError` when turns were added meanwhile.
        """

    def usage(self, by: UsageKey, *, workspace: str | None = None, session: str | None = None, since: datetime | None = None) -> Sequence[UsageSum]:
        """The usage of all turns, however they ended, summed by that key, by agent and by source of the cost; of one workspace, one session, or all."""

    def check(self, seconds: float) -> Health:
        """Read everything there is and look whether it is sound, for so long at most; mends nothing."""

    def learn(self, percept: Percept, links: Sequence[Edge] = ()) -> tuple[Percept, bool]:
        """Store a percept, or reinforce the one that says the same: (what stands now, whether it is new).

        It is linked to what it contradicts, updates or is near to, and by `links`, in which its own id stands for it.
        Raises `UsageError` for a content that is empty or too long.
        """

    def percepts(self, *, session: str | None = None) -> Sequence[Percept]:
        """Global percepts and those of the session, heaviest first, ties by id."""

    def all_percepts(self) -> Sequence[Percept]:
        """Those of every session, too, in the order in which they came."""

    def percept(self, ref: str) -> Percept:
        """One, by id or unique prefix."""

    def edges(self) -> Sequence[Edge]:
        """All links between percepts, in the order in which they came."""

    def engrams(self, *, session: str | None = None) -> Sequence[Engram]:
        """The subjects of global percepts and those of the session, heaviest first."""

    def link(self, edge: Edge) -> Edge:
        """Link two percepts, by id or unique prefix; a link that is there stays as it is."""

    def recall(self, inquiry: Inquiry) -> Recalled:
        """What an agent may be told: found by full text, best first by score × weight; core percepts always. No use of them yet."""

    def best_percepts(self, inquiry: Inquiry, most: int) -> Sequence[Percept]:
        """The best of those with weight enough for `get_memory` that fit the inquiry's text. No use of them yet."""

    def forget(self, ref: str, *, purge: bool = False) -> Percept:
        """Remove one, by id or unique prefix, and give it back; it is kept in the archive, unless it is to be purged from there, too."""

    def mark_used(self, ids: Sequence[str], at: datetime) -> None:
        """Percepts that were really sent: sets `last_used_at`, resets `idle_seconds`."""

    def widen(self, ref: str) -> Percept:
        """From now on this percept, by id or unique prefix, is told everywhere."""

    def consolidate(self, *, archive_after: float | None, most: int | None) -> Consolidated:
        """One pass of page 4's seven steps; `archive_after` in seconds of running time, `None` is never, and so is a `most` of `None`."""

    def stale(self, archive_after: float) -> Sequence[Stale]:
        """Global percepts that are not core, with the running time left to each; the next to go first."""

    def archived(self) -> Sequence[Archived]:
        """What left the store and has not come back, in the order of leaving."""

    def restore(self, ref: str) -> Percept:
        """Bring one back from the archive, by id or unique prefix. Raises `UsageError` when the same has been learned since."""

    def take_in(
        self, given: Sequence[Percept], links: Sequence[Edge] = (), archived: Sequence[Archived] = (), *, fresh: Collection[str] = ()
    ) -> Sequence[bool]:
        """Store what was exported as it is, all at once; of each percept whether it is new. The `fresh` ones, by id, are linked like any that is heard."""

    def add_question(self, stored: StoredQuestion) -> None:
        """Keep a new question. One that is not durable is withdrawn when this store object dies."""

    def peek_question(self, ref: str) -> StoredQuestion:
        """By id or unique beginning, as it stands now; no read of it (page 5). Raises `NotFound`, `Ambiguous`."""

    def read_question(self, ref: str) -> StoredQuestion:
        """An item read: a pending one lives on by it, as far as it may; the end of any other is written down."""

    def questions(self, *, session: str | None = None, pending: bool = False, untold: bool = False) -> Sequence[StoredQuestion]:
        """Oldest first, of one session or of all: the pending, those whose asker does not know their end, or every one. No read of any."""

    def answer_question(self, identity: str, answer: Answer) -> tuple[StoredQuestion, bool]:
        """Answer it where it is still open: as it stands now, and whether by this answer. What is accepted too late is kept with it."""

    def expire_question(self, identity: str, expires_at: datetime) -> None:
        """Expire a pending one whose deadline that is, whatever the wall clock says."""

    def settle_questions(self) -> None:
        """Write down what is expired or withdrawn already, and remove what was kept long enough."""

    def mark_questions_told(self, identities: Sequence[str]) -> None:
        """Their askers know how they ended, and what came late."""

    def add_task(self, task: StoredTask, lease: timedelta) -> None:
        """Keep a new task, which a runner must take within the time of the lease."""

    def hold_task(self, identity: str, lease: timedelta) -> StoredTask | None:
        """Run a task, or go on running it, for so long; `None` for one that another runner has, or that is over."""

    def end_task(self, identity: str, state: TaskState, result: Mapping[str, Any], exit_code: int) -> bool:
        """Store how it ended; whether it was still running. Its result's life begins."""

    def forget_task(self, identity: str) -> None:
        """Remove one that came to nothing; any other stays."""

    def cancel_task(self, identity: str) -> StoredTask:
        """Ask its runner to end it, if it runs."""

    def peek_task(self, ref: str) -> StoredTask:
        """By id or unique beginning, as it stands now; no read of it. Raises `NotFound` also for one that has expired, `Ambiguous`."""

    def read_task(self, ref: str) -> StoredTask:
        """An item read: it, or its result, lives on by it as far as it may."""

    def tasks(self) -> Sequence[StoredTask]:
        """Oldest first; no read of any."""

    def settle_tasks(self) -> None:
        """Write down whose runners are gone, and remove results that have expired."""

    def add_artifact(self, artifact: Artifact, body: bytes, quota: int | None) -> bool:
        """Keep a new artifact, whose content is stored once; whether there is room for it below the quota, in bytes, of all that live.

        A step with just this text, stored from now on, holds the same content.
        """

    def peek_artifact(self, ref: str) -> Artifact:
        """By id or unique beginning; no read of it. Raises `NotFound` also for one that has expired, `Ambiguous`."""

    def read_artifact(self, ref: str) -> Artifact:
        """An item read, by which one that opted in lives on as far as it may."""

    def artifact_body(self, ref: str) -> bytes:
        """What it holds; of none that has expired. No read of it by itself."""

    def artifacts(self, *, session: str | None = None) -> Sequence[Artifact]:
        """Oldest first, of one session or of all; no read of any."""

    def collect_artifacts(self) -> None:
        """Remove those that have expired, and contents that neither an artifact nor a turn holds."""

    def close(self) -> None:
        """Let go of the file."""


__all__ = ["NO_RECEIPTS", "Claim", "Health", "HeldBy", "Receipt", "SearchHit", "SessionSummary", "Store", "UsageKey", "UsageSum"]
