"""Stored sessions replayed by as many processes as there are processors; a few are replayed in this one."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.percepts import Percept
from orchestrator.receipts import from_stored_text
from orchestrator.session import Turn, TurnLog
from orchestrator.store import Store
from orchestrator.store.sqlite import open_store
from orchestrator.templates import Override, Templates
from orchestrator.tuning.past import Past, past_of
from orchestrator.tuning.sweep import Outcome, Task, replay_into
from orchestrator.tuning.telling import Script

FEW_TURNS = 8_000
"""So many take about as long as starting processes does."""
_LEAST_TURNS = 2_000
"""For less than that, nothing is handed to another process."""


@dataclass(frozen=True, slots=True)
class Job:
    """Where the sessions are, and what they are replayed with. Other processes get it whole, and open the store for themselves, for reading."""

    data: Path
    task: Task
    overrides: Mapping[str, tuple[Override, ...]] = field(default_factory=dict)
    """Of templates, by the workspace of the session."""


def replay_stored(
    job: Job,
    store: Store,
    sessions: Sequence[tuple[str, int]],
    *,
    processes: int | None = None,
    few: int = FEW_TURNS,
    heard: Callable[[int], object] = lambda _: None,
) -> Outcome:
    """The sessions, each given by its id and its number of turns; `few` turns are left to this process, whose open store `store` is.

    `heard` is told how many turns are done whenever other processes have done some.
    """
    workers = min(len(sessions), processes or _processors())
    if workers < 2 or sum(turns for _, turns in sessions) < few:
        return _replayed(job, store, [identity for identity, _ in sessions])
    outcome, done, chunks = Outcome(len(job.task.variants)), 0, _chunks(sessions, workers)
    # Started anew, not forked: this process may have threads, and has the store open.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin) as pool:
        parts = pool.map(_in_worker, [(job, [identity for identity, _ in chunk]) for chunk in chunks])
        for chunk, part in zip(chunks, parts, strict=True):
            outcome.merge(part)
            done += sum(turns for _, turns in chunk)
            heard(done)
    return outcome


def known_percepts(store: Store) -> dict[str, Percept]:
    """What is remembered or was archived, by the beginnings of the ids as receipts have them."""
    archived = {item.percept.id[:8]: item.percept for item in store.archived()}
    return archived | {percept.id[:8]: percept for percept in store.all_percepts()}


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunks(sessions: Sequence[tuple[str, int]], workers: int) -> list[list[tuple[str, int]]]:
    """The longest sessions first, and ever fewer at a time, so that all processes end at about the same time."""
    left = sum(turns for _, turns in sessions)
    chunks: list[list[tuple[str, int]]] = [[]]
    size = 0
    for session in sorted(sessions, key=lambda item: -item[1]):
        if size >= max(_LEAST_TURNS, left // (4 * workers)):
            chunks.append([])
            left, size = left - size, 0
        chunks[-1].append(session)
        size += session[1]
    return chunks


def _begin() -> None:
    """An interrupt is the first process's to heed; and values that live for one session need no collector."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()


def _in_worker(work: tuple[Job, list[str]]) -> Outcome:
    job, identities = work
    store = open_store(job.data, clock=SystemClock(), read_only=True)
    try:
        return _replayed(job, store, identities)
    finally:
        store.close()
        gc.collect()


def _replayed(job: Job, store: Store, identities: Sequence[str]) -> Outcome:
    outcome, percepts = Outcome(len(job.task.variants)), known_percepts(store)
    scripts: dict[tuple[Override, ...], Script] = {}
    for past in _pasts(store, identities):
        overrides = job.overrides.get(past.session.workspace, ())
        if overrides not in scripts:
            scripts[overrides] = Script(Templates(overrides))
        replay_into(outcome, past, job.task, scripts[overrides], percepts)
    return outcome


def _pasts(store: Store, identities: Sequence[str]) -> Iterator[Past]:
    for identity in identities:
        with store.snapshot():
            yield past_of(store.find(identity, ""), _all_turns(store.log(identity)), store.receipts_by(identity, from_stored_text))


def _all_turns(log: TurnLog) -> list[Turn]:
    return list(reversed(list(log.newest_first(outcomes=None))))
