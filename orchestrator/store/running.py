"""Running time as the store counts it: what the idle time and the decay of percepts go by (page 4).

Two counters in `meta`, in milliseconds, and where each of them stood when a percept was last reckoned. So a pass writes two
numbers, however many percepts there are.

- `running` is the sum of the running times of all processes; a pass adds what its process ran since its last one.
- `aged` is the time in which any process ran: of those side by side only the longest counts. Decay goes by it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from orchestrator.percepts import PRUNE_THRESHOLD
from orchestrator.store.counters import SOUND, counter

HOUR = 3_600_000

_RUNNING = "(SELECT value FROM meta WHERE key = 'running')"
_AGED = "(SELECT value FROM meta WHERE key = 'aged')"

IDLE_SECONDS = f"(idle_seconds + CASE WHEN core = 0 AND scope = 'global' THEN max(0, {_RUNNING} - idle_mark) / 1000.0 ELSE 0 END)"
"""A percept's idle time now."""
WEIGHT = (
    f"(CASE WHEN core = 0 AND scope = 'global' AND weight > {PRUNE_THRESHOLD}"
    f" THEN max({PRUNE_THRESHOLD}, weight - max(0, {_AGED} - weight_mark) / {HOUR}) ELSE weight END)"
)
"""A percept's weight now."""
SET_IDLE_FROM_NOW = f"idle_seconds = 0, idle_mark = {_RUNNING}, use = (SELECT value FROM meta WHERE key = 'uses')"  # noqa: S608  # names are ours
"""Of a percept that is used or comes in; `count_use` goes before."""
KEEP_PART_OF_HOUR = f"weight_mark = {_AGED} - max(0, {_AGED} - weight_mark) % {HOUR}"
"""Where a weight is set anew, the hour that has begun goes on."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How far this process's running time is counted: at its last pass, or when it opened the store."""

    own: int
    """In its own milliseconds since it opened the store."""
    uses: int
    """How many uses there had been by then."""
    aged: int
    """How that counter stood then."""


NOTHING = Reading(0, 0, 0)


def opened(connection: sqlite3.Connection) -> Reading:
    """Of a process that has just opened the store."""
    return Reading(0, _value(connection, "uses"), _value(connection, "aged"))


def accrue(connection: sqlite3.Connection, reading: Reading, own: int) -> Reading:
    """Count what this process, which has run for `own` milliseconds, ran since its last pass; whatever was used meanwhile does not become idle by it."""
    interval = max(0, own - reading.own)
    aged = aged_by_now(connection, reading, own)
    _set(connection, "running", _value(connection, "running") + interval)
    _set(connection, "aged", aged)
    if interval:
        connection.execute("UPDATE percepts SET idle_mark = idle_mark + ? WHERE use > ?", (interval, reading.uses))
    return Reading(own, _value(connection, "uses"), aged)


def aged_by_now(connection: sqlite3.Connection, reading: Reading, own: int) -> int:
    """Where `aged` will stand at least once this process's time up to now is counted: what comes in now is aged from there on."""
    return max(_value(connection, "aged"), reading.aged + max(0, own - reading.own))


def count_use(connection: sqlite3.Connection) -> None:
    """One more use, whose number is the highest so far."""
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'uses'")


def mend(connection: sqlite3.Connection) -> None:
    """After rows were saved from a damaged file: no counter lies behind what the percepts say of it."""
    for key, column in (("running", "idle_mark"), ("aged", "weight_mark"), ("uses", "use")):
        connection.execute(
            f"INSERT OR REPLACE INTO meta SELECT ?, max(coalesce((SELECT max({column}) FROM percepts WHERE typeof({column}) = 'integer'), 0),"  # noqa: S608  # names are ours
            f" coalesce((SELECT value FROM meta WHERE key = ? AND {SOUND}), 0))",
            (key, key),
        )


def _value(connection: sqlite3.Connection, key: str) -> int:
    return counter(connection, key)


def _set(connection: sqlite3.Connection, key: str, value: int) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
