"""`python -m bench.memory`: what remembered facts cost, however many there are: record, gate and rank, get, consolidate, open."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.memory.inject import select
from orchestrator.percepts import GET_MOST, Inquiry, Percept
from orchestrator.session import Role
from orchestrator.settings.limits import Limits
from orchestrator.store.sqlite import SqliteStore, open_store

SIZES = (100, 1_000, 10_000, 100_000)
LENGTH, VOCABULARY = 80, 2_000
"""Characters of a percept, and of how many different words all of them are made."""
GOALS = {"record": 5, "gate and rank": 50, "long prompt": 50, "get": 20, "consolidate": 1_000, "archive 1 %": 1_000, "open": 50}
"""Milliseconds at 100,000 percepts."""
LIMITS = Limits()


class Words:
    """Texts of a vocabulary of its own, the same in every run."""

    def __init__(self) -> None:
        self._chance = random.Random(7)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = ["".join(self._chance.choices(letters, k=self._chance.randint(3, 10))) for _ in range(VOCABULARY)]

    def text(self, length: int = LENGTH) -> str:
        words = ""
        while len(words) < length:
            words += self._chance.choice(self._words) + " "
        return words[:length].strip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="measurements per figure; the median is printed")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="percepts in the store")
    arguments = parser.parse_args()
    reference = _median(lambda _: json.loads(json.dumps(["reference text with some words in it " * 27] * 100)), arguments.runs)
    print(" | ".join(f"{name:>16}" for name in ("percepts", *GOALS)))
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as folder:
            times = _times(Path(folder), size, arguments.runs)
        print(" | ".join(f"{cell:>16}" for cell in (f"{size:,}", *(f"{times[name] * 1000:.2f} ms {times[name] / reference:.2f}" for name in GOALS))))
    print(f"\ngoals at 100,000: {', '.join(f'{name} {goal:,} ms' for name, goal in GOALS.items())}")
    print(f"reference operation (a JSON round trip of 100,000 characters): {reference * 1000:.3f} ms; every time is followed by its ratio to it")


def _times(folder: Path, size: int, runs: int) -> dict[str, float]:
    words = Words()
    store = _opened(folder)
    for start in range(0, size, 10_000):
        weights = [20 if number % 100 == 0 else 30 + number % 70 for number in range(start, min(size, start + 10_000))]
        store.take_in([Percept(f"p{start + number}", words.text(), "primary", weight=weight) for number, weight in enumerate(weights)])
    times = {
        "record": _median(lambda run: store.learn(Percept(f"new-{run}", words.text(), "primary", weight=70)), runs),
        "gate and rank": _median(lambda _: _told(store, words.text()), runs),
        "long prompt": _median(lambda _: _told(store, words.text(4_000)), runs),
        "get": _median(lambda _: _got(store, words.text(30)), runs),
        "consolidate": _median(lambda _: store.consolidate(archive_after=timedelta(days=14).total_seconds(), most=None), runs),
    }
    began = time.perf_counter()
    store.consolidate(archive_after=0, most=None)
    times["archive 1 %"] = time.perf_counter() - began
    store.close()
    times["open"] = _median(lambda _: _opened(folder).close(), runs)
    return times


def _opened(folder: Path) -> SqliteStore:
    return open_store(folder, clock=SystemClock())


def _told(store: SqliteStore, prompt: str) -> None:
    """What a turn does: asked of the store, and chosen within the limits."""
    select(store.recall, agent="local", role=Role.PRIMARY, workspace="/work", session="s1", limits=LIMITS, prompt=prompt, need=None)


def _got(store: SqliteStore, query: str) -> None:
    found = store.best_percepts(Inquiry(frozenset({"all", "primary", "local"}), "/work", "s1", query), GET_MOST)
    store.mark_used([percept.id for percept in found], store.now())


def _median(action: Callable[[int], object], runs: int) -> float:
    times = []
    for run in range(runs):
        began = time.perf_counter()
        action(run)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()
