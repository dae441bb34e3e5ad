"""`python -m bench.tune`: sweeps of five knobs over recorded fixture sessions of 10 to 500 turns, read from a store as `escalera tune` does."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.store.sqlite import open_store
from orchestrator.tuning.knobs import SWEEPS, Variant, variant
from orchestrator.tuning.sweep import Outcome, Task
from orchestrator.tuning.work import Job, replay_stored

KNOBS = ("returning_fresh_start_local_turns", "message_budget_chars", "context_budget_chars", "percept_inject_max", "need_expiry_hours")
GOAL = 30.0
"""Seconds for a thousand sessions, on two processors."""


def main() -> None:
    """Print what the sweeps took, and their self-test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--most-turns", type=int, default=500, help="turns of the longest session; the shortest has 10")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sessions = stored(Path(folder), arguments.sessions, arguments.most_turns)
        turns = sum(count for _, count in sessions)
        print(f"{len(sessions):,} sessions, {turns:,} turns, half of them with an escalation agent that keeps its own conversation")
        outcome, seconds, cpu = swept(Path(folder), sessions, arguments.processes)
    variants = len(_variants())
    print(f"{len(KNOBS)} knobs at {variants} values: {seconds:.1f} s, {cpu:.1f} s of processor time, {cpu / turns * 1e6:.0f} µs a turn (goal: {GOAL:.0f} s)")
    print(f"self-test: {outcome.mistakes_count} of {outcome.replayed:,} decisions wrong, tokens off by {outcome.tokens_off_percent:.4f} %")


def stored(folder: Path, count: int, most_turns: int) -> list[tuple[str, int]]:
    """Sessions of every length between 10 turns and the most, by id and number of turns."""
    from bench.recorded import first_turns, recorded  # here: the other processes import this module, too

    wholes = [recorded(folder, 2 * most_turns, keeps_conversation=keeps) for keeps in (False, True)]
    store = open_store(folder / "data", clock=SystemClock())
    sessions = []
    for number in range(count):
        turns = 10 + (most_turns - 10) * number // max(1, count - 1)
        store.import_session(*first_turns(wholes[number % 2], turns, f"fixture-{number}"))
        sessions.append((f"fixture-{number}", turns))
    store.close()
    return sessions


def swept(folder: Path, sessions: list[tuple[str, int]], processes: int) -> tuple[Outcome, float, float]:
    """The outcome, seconds, and seconds of processor time in all processes."""
    store = open_store(folder / "data", clock=SystemClock(), read_only=True)
    began, used = time.perf_counter(), _processor_time()
    outcome = replay_stored(Job(folder / "data", Task(_variants())), store, sessions, processes=processes, few=0)
    seconds, cpu = time.perf_counter() - began, _processor_time() - used
    store.close()
    return outcome, seconds, cpu


def _variants() -> tuple[Variant, ...]:
    return tuple(variant(knob, value, agent=None) for knob in KNOBS for value in SWEEPS[knob])


def _processor_time() -> float:
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


if __name__ == "__main__":
    main()
