"""The percepts that left the store: a file that only grows, one JSON record a line (page 4).

Whatever leaves is appended, on the disk, and only then removed. What a crash in between leaves in both places is known by
where the file ended when the database was last changed together with it, and is not appended again. A percept that stands
in the store is in the store alone, whatever the file says of it; so no order of crashes loses one or shows it twice.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from orchestrator.percepts import HEAVIEST, Archived, Edge, EdgeKind, Percept
from orchestrator.store import rows
from orchestrator.store.files import PRIVATE_FILE, make_folder, size
from orchestrator.store.rows import encode, time_text

Notice = Callable[[str], None]

_TIMES = ("created_at", "updated_at", "last_used_at")


def keep(connection: sqlite3.Connection, path: Path, leaving: Sequence[Archived]) -> None:
    """Append these, on the disk when this returns. Only then may they be removed, in the same transaction. Raises `OSError`."""
    there = _appended_before_a_crash(connection, path)
    _append(path, [_record_of(archived) for archived in leaving if archived.percept.id not in there])
    _remember_end(connection, path)


def note_restored(connection: sqlite3.Connection, path: Path, identity: str, now: datetime) -> None:
    """Append that one has come back. Raises `OSError`."""
    _append(path, [{"restored": identity, "restored_at": time_text(now)}])
    _remember_end(connection, path)


def said_by(identity: str) -> str:
    """Why one left that another says already, which took over its weight and edges."""
    return f"said by {identity}"


def purge(connection: sqlite3.Connection, path: Path, identity: str) -> frozenset[str]:
    """Take every record of one percept out of the file, which the user asked for, and of those that were merged into it: their ids. Raises `OSError`."""
    lines = _lines(path)
    merged = _merged_into(identity, [record for line in lines if (record := _record(line)) is not None])
    kept = [line for line in lines if not _is_about(line, {identity, *merged})]
    if len(kept) < len(lines):
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        _write_all(draft, b"".join(line + b"\n" for line in kept if line))
        os.replace(draft, path)
        _remember_end(connection, path)
    return merged


def archived(path: Path, notice: Notice) -> dict[str, Archived]:
    """Who was archived, by id, as it last left, in the order of leaving. Lines that cannot be read are reported and left out."""
    found: dict[str, Archived] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        record = _record(line)
        if record is None:
            notice(f"line {number} of {path} is no record, cut off by a crash perhaps: it is left out")
        elif "percept" in record and (one := _archived(record, number, path, notice)) is not None:
            found.pop(one.percept.id, None)
            found[one.percept.id] = one
    return found


def records(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The records in their order; a line that is none (cut off by a crash) is left out."""
    return tuple(record for line in _lines(path) if (record := _record(line)) is not None)


def restored_since(path: Path, identity: str) -> frozenset[str]:
    """The ids of those that have come back since the percept left last."""
    found: set[str] = set()
    for record in records(path):
        if _identity(record) == identity:
            found.clear()
        elif isinstance(record.get("restored"), str):
            found.add(record["restored"])
    return frozenset(found)


# -- writing -------------------------------------------------------------------------------------


def _append(path: Path, new: Sequence[Mapping[str, Any]]) -> None:
    """Records end at LF alone. What a crash left without one is closed first, so that it spoils no other record."""
    make_folder(path.parent)
    _write_all(path, b"".join(encode(record).encode() + b"\n" for record in new))


def _write_all(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    try:
        end = os.fstat(descriptor).st_size
        if data and end and os.pread(descriptor, 1, end - 1) != b"\n":
            data = b"\n" + data
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remember_end(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('archived', ?)", (size(path),))


def _appended_before_a_crash(connection: sqlite3.Connection, path: Path) -> frozenset[str]:
    """The ids in what was appended since the database last knew of the file."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'archived'").fetchone()
    known = row[0] if row is not None and isinstance(row[0], int) else 0
    if size(path) <= known:
        return frozenset()
    with path.open("rb") as file:
        file.seek(known)
        found = [_record(line) for line in file.read().split(b"\n")]
    return frozenset(identity for record in found if record is not None and (identity := _identity(record)) is not None)


def _record_of(one: Archived) -> dict[str, Any]:
    return {
        "percept": _fields(one.percept),
        "edges": [{"source": edge.source, "target": edge.target, "kind": edge.kind} for edge in one.edges],
        "archived_at": time_text(one.archived_at),
        "reason": one.reason,
        "idle_days": round(one.idle_days, 4),
    }


def _fields(percept: Percept) -> dict[str, Any]:
    return {name: time_text(getattr(percept, name)) if name in _TIMES else getattr(percept, name) for name in Percept.__slots__}


# -- reading -------------------------------------------------------------------------------------


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _record(line: bytes) -> Mapping[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _identity(record: Mapping[str, Any]) -> str | None:
    fields = record.get("percept")
    identity = fields.get("id") if isinstance(fields, Mapping) else None
    return identity if isinstance(identity, str) else None


def _is_about(line: bytes, identities: Collection[str]) -> bool:
    record = _record(line)
    return record is not None and any(isinstance(one, str) and one in identities for one in (_identity(record), record.get("restored")))


def _merged_into(identity: str, found: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Who was, also by way of others."""
    merged: set[str] = set()
    while True:
        reasons = {said_by(one) for one in (identity, *merged)}
        more = {one for record in found if record.get("reason") in reasons and (one := _identity(record)) is not None} - merged - {identity}
        if not more:
            return frozenset(merged)
        merged |= more


def _archived(record: Mapping[str, Any], number: int, path: Path, notice: Notice) -> Archived | None:
    def complain(problem: str) -> None:
        notice(f"line {number} of {path}: {problem}")

    percept = percept_of(record["percept"], complain)
    if percept is None:
        return None
    try:
        at = rows.time_value(record.get("archived_at"))
    except rows.BAD:
        at = None
    days = record.get("idle_days", percept.idle_seconds / 86_400)
    reason = record.get("reason")
    return Archived(
        percept,
        at,
        reason if isinstance(reason, str) else "unknown",
        _or_zero(days, "idle_days", complain),
        tuple(edges_of(record.get("edges"))),
    )


def percept_of(fields: object, complain: Callable[[str], None]) -> Percept | None:
    """The percept that such an object stands for; `None`, with a complaint, where it stands for none."""
    if not isinstance(fields, Mapping):
        complain("no percept")
        return None
    row = {
        **{name: fields.get(name) for name in Percept.__slots__},
        "core": int(fields.get("core") is True),
        "weight": _within_range(fields.get("weight"), complain),
        "idle_seconds": _or_zero(fields.get("idle_seconds"), "idle_seconds", complain),
        "source": _source(fields.get("source"), complain),
    }
    return rows.percept_value(tuple(row[name] for name in rows.PERCEPT_COLUMNS.split(", ")), complain)


def number_of(value: object) -> float:
    """A finite number that is not negative. Raises one of `rows.BAD` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= float(value) < math.inf:
        raise ValueError(f"{value!r:.40} is no number from 0 on")
    return float(value)


def _or_zero(value: object, name: str, complain: Callable[[str], None]) -> float:
    try:
        return number_of(value)
    except rows.BAD:
        complain(f"{name}: {value!r:.40} is no number from 0 on, 0 is taken")
        return 0.0


def _within_range(weight: object, complain: Callable[[str], None]) -> object:
    if isinstance(weight, int) and not 0 <= weight <= HEAVIEST:
        complain(f"weight: {weight!r:.40} is not from 0 to {HEAVIEST}")
        return min(max(0, weight), HEAVIEST)
    return weight


def _source(source: object, complain: Callable[[str], None]) -> str | None:
    """As JSON, which has no `NaN`."""
    if not source:
        return None
    try:
        json.dumps(source, allow_nan=False)
    except rows.BAD as problem:
        complain(f"source is left out: {problem}")
        return None
    return encode(source)


def edges_of(value: object) -> Iterator[Edge]:
    """Whatever in a list is an edge."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("source"), str) and isinstance(item.get("target"), str) and item.get("kind") in get_args(EdgeKind):
            yield Edge(item["source"], item["target"], item["kind"])
