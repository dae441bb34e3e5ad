"""Reading facts that were exported or written elsewhere: whatever is sound is taken, whatever is not is said (page 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orchestrator.percepts import CORE_WEIGHT, HEAVIEST, INITIAL_WEIGHTS, MAX_CONTENT, Archived, Edge, Percept
from orchestrator.store.archive import edges_of, number_of, percept_of
from orchestrator.store.rows import BAD, time_value


@dataclass(frozen=True, slots=True)
class Given:
    """What such a text holds."""

    percepts: list[Percept] = field(default_factory=list)
    fresh: set[str] = field(default_factory=set)
    """Ids of those that came without one: facts to be linked like any that is heard."""
    edges: list[Edge] = field(default_factory=list)
    archived: list[Archived] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)
    """What was left out: (line, why)."""


def read_memory(data: bytes, *, new_id: Callable[[], str], now: datetime) -> Given:
    """An export; or one object, a list of them, or objects in lines, also several in one (trial T80).

    An object is a percept with its `content` and whatever else is known of it, an edge, an archived percept, or an entity or a relation as the
    memory server of the Model Context Protocol stores them.
    """
    text = data.decode("utf-8-sig", "replace")
    given = Given()
    reader = _Reader(given, new_id, now)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        for line, item in _in_lines(text, given.problems):
            reader.take(line, item)
        return given
    for item in whole if isinstance(whole, list) else [whole]:
        reader.take(1, item)
    return given


def _in_lines(text: str, problems: list[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    """Records end at LF alone; two that stand on one line are two."""
    decoder = json.JSONDecoder()
    for number, line in enumerate(text.split("\n"), 1):
        rest = line.strip()
        while rest:
            try:
                item, end = decoder.raw_decode(rest)
            except (ValueError, RecursionError):
                problems.append((number, f"no JSON, or cut off: {rest[:60]!r}"))
                break
            yield number, item
            rest = rest[end:].lstrip()


class _Reader:
    def __init__(self, given: Given, new_id: Callable[[], str], now: datetime) -> None:
        self._given, self._new_id, self._now = given, new_id, now

    def take(self, line: int, item: object) -> None:
        try:
            self._take(line, item)
        except BAD as problem:
            self._given.problems.append((line, str(problem)))

    def _take(self, line: int, item: object) -> None:
        if not isinstance(item, Mapping):
            raise TypeError(f"no object: {item!r:.60}")
        kind = item.get("type")
        if isinstance(item.get("percepts"), list):
            self._take_export(line, item)
        elif kind == "entity" and isinstance(item.get("observations"), list):
            for observation in item["observations"]:
                self.take(line, {"content": observation, "subject": item.get("name")})
        elif kind == "relation" and {"from", "relationType", "to"} <= item.keys():
            self.take(line, {"content": f"{item['from']} {item['relationType']} {item['to']}", "subject": item["from"]})
        elif {"source", "target", "kind"} <= item.keys():
            self._given.edges.extend(self._edges([item]))
        elif "archived_at" in item:
            self._given.archived.append(self._archived(item))
            self._note_fresh(item, self._given.archived[-1].percept)
        elif "content" in item:
            self._given.percepts.append(self._percept(item))
            self._note_fresh(item, self._given.percepts[-1])
        else:
            raise ValueError(f"nothing that is known here: {json.dumps(item)[:60]}")

    def _take_export(self, line: int, item: Mapping[str, Any]) -> None:
        for key in ("percepts", "edges", "archived"):
            for part in item.get(key) or ():
                self.take(line, part)

    @staticmethod
    def _edges(items: object) -> list[Edge]:
        found = list(edges_of(items))
        if not found:
            raise ValueError("an edge of no known kind")
        return found

    def _archived(self, item: Mapping[str, Any]) -> Archived:
        days, reason = item.get("idle_days"), item.get("reason")
        return Archived(
            self._percept(item),
            time_value(item.get("archived_at")),
            reason if isinstance(reason, str) else "unknown",
            0.0 if days is None else number_of(days),
            tuple(edges_of(item.get("edges"))),
        )

    def _percept(self, item: Mapping[str, Any]) -> Percept:
        """What is not said of it is as for a fact that the user states."""
        problems: list[str] = []
        producer, core = item.get("producer", "user"), item.get("core") is True
        usual = {
            "producer": producer,
            "consumer": "all",
            "weight": CORE_WEIGHT if core else INITIAL_WEIGHTS.get(producer, 0),
            "scope": "global",
            "idle_seconds": 0.0,
            "trust": "user" if producer == "user" else "agent",
            "created_at": self._now.isoformat(),
            "updated_at": self._now.isoformat(),
        }
        if "id" not in item:
            usual["id"] = self._new_id()
        fields = {**usual, **item}
        self._check(fields)
        percept = percept_of(fields, problems.append)
        if percept is None:
            raise ValueError("; ".join(problems))
        content = percept.content.strip()
        if not content or len(content) > MAX_CONTENT:
            raise ValueError(f"a fact has 1 to {MAX_CONTENT} characters, this one {len(content):,}")
        if not percept.id or "\x00" in percept.id:
            raise ValueError("an id that cannot be used")
        if percept.scope == "session" and percept.session is None:
            raise ValueError("a fact of a session names it")
        return percept

    @staticmethod
    def _check(fields: Mapping[str, Any]) -> None:
        """What would be mended in an archive of ours is refused here."""
        number_of(fields["idle_seconds"])
        weight = fields["weight"]
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= HEAVIEST:
            raise ValueError(f"a weight is a whole number from 0 to {HEAVIEST}")
        json.dumps(fields.get("source"), allow_nan=False)

    def _note_fresh(self, item: Mapping[str, Any], percept: Percept) -> None:
        if "id" not in item:
            self._given.fresh.add(percept.id)
