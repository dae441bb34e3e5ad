"""The numbers in `meta`: read in one place, which takes for damage what no counter of ours can be."""

from __future__ import annotations

import sqlite3

from orchestrator.store.faults import Damaged

SOUND = "typeof(value) = 'integer' AND value BETWEEN 0 AND 4503599627370496"
"""The condition on a row that it holds a number which counting could have reached."""


def counter(connection: sqlite3.Connection, key: str) -> int:
    """Raises `Damaged` where there is no such number."""
    row = connection.execute(f"SELECT value FROM meta WHERE key = ? AND {SOUND}", (key,)).fetchone()  # noqa: S608  # a text of ours
    if row is None:
        raise Damaged(f"the counter {key!r} is no number")
    return int(row[0])
