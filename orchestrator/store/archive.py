"""The percepts that left the store: a file that only grows, one JSON record a line (page 4)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.percepts import Percept
from orchestrator.store.files import PRIVATE_FILE, make_folder
from orchestrator.store.rows import encode, time_text

_TIMES = ("created_at", "updated_at", "last_used_at")


def keep(path: Path, percept: Percept, *, reason: str, now: datetime) -> None:
    """Append the percept, on the disk when this returns. Only then may it be removed. Raises `OSError`.

    Records end at LF alone. What a crash left without one is closed first, so that it spoils no other record.
    """
    make_folder(path.parent)
    record = encode({"percept": _fields(percept), "archived_at": time_text(now), "reason": reason}).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    try:
        end = os.fstat(descriptor).st_size
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            record = b"\n" + record
        _write(descriptor, record)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def records(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The records in their order; a line that is none (cut off by a crash) is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(record for line in lines if (record := _record(line)) is not None)


def _fields(percept: Percept) -> dict[str, Any]:
    return {name: time_text(getattr(percept, name)) if name in _TIMES else getattr(percept, name) for name in Percept.__slots__}


def _write(descriptor: int, record: bytes) -> None:
    while record:
        record = record[os.write(descriptor, record) :]


def _record(line: bytes) -> Mapping[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
