"""Links between percepts: made when one is heard, by the user or by a tool; each counts once for the weights (page 4)."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from orchestrator.percepts import Edge, EdgeKind, Percept, Trust, is_trusted_less, mark_of, subject_key
from orchestrator.store import rows
from orchestrator.words import NEAR, Statement, changes_value, likeness, search_words, statement_of, words_of

_NEAREST = 8
"""How many percepts a new one is linked to at most for being near them."""
_LOOKED_AT = 200
"""How many percepts that share words with a new one are compared with it, the newest first."""
_RARE, _WANTED = 11, 3
"""How many words of a statement are looked for at most, and how many of them a near one must have."""

_HEARD_TOGETHER = (
    " AND (scope = 'global' OR session IS :session) AND (consumer = :consumer OR consumer = 'all' OR :consumer = 'all')"
    " AND (workspace_key IS NULL OR :place IS NULL OR workspace_key = :place) AND id <> :id"
)
"""What may be told together with a percept."""

_Other = tuple[str, str, bool, Trust]
"""Id, content, whether it is denied, and trust."""


def relate(connection: sqlite3.Connection, percept: Percept, place: str | None, *, said_by: Percept, new: bool, now: datetime) -> None:
    """Link a percept that was heard to what it contradicts, updates or is near to; the latest word counts.

    `said_by` is what was heard now, which the percept may only stand for.
    """
    said = statement_of(percept.content)
    about = _About(connection, percept, place, now)
    for other in about.where("stance = :stance AND denied <> :denied", stance=mark_of(said.stance), denied=int(said.denied)):
        about.contradict(other, supersedes=said_by.producer == "user")
    if percept.subject:
        for other in about.where("subject_key = :subject", subject=subject_key(percept.subject)):
            if changes_value(other[1], percept.content, percept.subject):
                about.supersede(other, by=said_by.trust)
    if new:
        for other, words in about.near(percept.content, said):
            about.liken(other, words, said)


def add(connection: sqlite3.Connection, edge: Edge, now: datetime, *, applied: bool = False) -> None:
    """An edge that is there already stays as it is; so do updates that it would make a ring with, in which none would be told."""
    if edge.kind == "updates" and edge.source in _led_to(connection, edge.target):
        return
    connection.execute(
        "INSERT OR IGNORE INTO edges (source, target, kind, applied, created_at) VALUES (?, ?, ?, ?, ?)",
        (edge.source, edge.target, edge.kind, int(applied), rows.time_text(now)),
    )


def supersede(connection: sqlite3.Connection, new: str, old: str, now: datetime) -> None:
    """The new statement counts and the old one is hidden, whichever of them did so before, itself or by others that it had updated."""
    hiding = [(other, new) for other in _led_to(connection, old)]
    connection.executemany("DELETE FROM edges WHERE source = ? AND target = ? AND kind = 'updates'", hiding)
    add(connection, Edge(new, old, "updates"), now)


def say_again(connection: sqlite3.Connection, identity: str, now: datetime) -> None:
    """The user has said it once more: it counts again, and whatever had taken its place, at whatever remove, no longer does."""
    for newer in _leading_to(connection, identity):
        supersede(connection, identity, newer, now)


def link(connection: sqlite3.Connection, edge: Edge, now: datetime) -> None:
    """An edge that somebody asks for now: of updates the later word counts."""
    if edge.kind == "updates":
        supersede(connection, edge.source, edge.target, now)
    else:
        add(connection, edge, now)


def _led_to(connection: sqlite3.Connection, identity: str) -> list[str]:
    """The percept, what it updates, what that updates, and so on."""
    query = "WITH RECURSIVE older (id) AS (SELECT ? UNION SELECT target FROM older JOIN edges ON source = older.id AND kind = 'updates') SELECT id FROM older"
    return [found for (found,) in connection.execute(query, (identity,))]


def _leading_to(connection: sqlite3.Connection, identity: str) -> list[str]:
    """What updates the percept, what updates that, and so on; not itself."""
    query = (
        "WITH RECURSIVE newer (id) AS (SELECT source FROM edges WHERE target = ?1 AND kind = 'updates'"
        " UNION SELECT source FROM newer JOIN edges ON target = newer.id AND kind = 'updates') SELECT id FROM newer WHERE id <> ?1"
    )
    return [found for (found,) in connection.execute(query, (identity,))]


def touching(connection: sqlite3.Connection, identity: str) -> Sequence[Edge]:
    """All edges from or to one percept."""
    return _edges(connection.execute("SELECT source, target, kind FROM edges WHERE source = ? OR target = ? ORDER BY seq", (identity, identity)))


def among(connection: sqlite3.Connection, identities: Collection[str], kind: EdgeKind | None = None) -> Sequence[Edge]:
    """All edges with both ends among these."""
    query = (
        "SELECT source, target, kind FROM edges WHERE source IN (SELECT value FROM json_each(:ids)) AND target IN (SELECT value FROM json_each(:ids))"
        " AND (:kind IS NULL OR kind = :kind) ORDER BY seq"
    )
    return _edges(connection.execute(query, {"ids": json.dumps(list(identities)), "kind": kind}))


def everything(connection: sqlite3.Connection) -> Sequence[Edge]:
    return _edges(connection.execute("SELECT source, target, kind FROM edges ORDER BY seq"))


def remove(connection: sqlite3.Connection, identities: Iterable[str]) -> None:
    """Nothing points to these percepts any more."""
    connection.executemany("DELETE FROM edges WHERE source = ?1 OR target = ?1", [(identity,) for identity in identities])


class _About:
    """What there is about one percept among those that may be told together with it."""

    def __init__(self, connection: sqlite3.Connection, percept: Percept, place: str | None, now: datetime) -> None:
        self._connection, self._id, self._now = connection, percept.id, now
        self._bound = {
            "id": percept.id,
            "session": percept.session if percept.scope == "session" else None,
            "consumer": percept.consumer,
            "place": place,
        }

    def where(self, condition: str, **bound: object) -> list[_Other]:
        found = self._connection.execute(
            f"SELECT id, content, denied, trust FROM percepts WHERE {condition}{_HEARD_TOGETHER} ORDER BY seq DESC LIMIT {_LOOKED_AT}", self._bound | bound
        )
        return found.fetchall()

    def contradict(self, other: _Other, *, supersedes: bool) -> None:
        if not self._linked(other[0], "contradicts"):
            add(self._connection, Edge(self._id, other[0], "contradicts"), self._now)
        if supersedes:
            supersede(self._connection, self._id, other[0], self._now)

    def supersede(self, other: _Other, *, by: Trust) -> None:
        """What somebody says who is trusted less than who said the other is no update of it: so a web page hides no word of the user's."""
        if not is_trusted_less(by, other[3]):
            supersede(self._connection, self._id, other[0], self._now)
        elif not self._linked(other[0], "contradicts"):
            add(self._connection, Edge(self._id, other[0], "contradicts"), self._now)

    def near(self, content: str, said: Statement) -> list[tuple[_Other, frozenset[str]]]:
        """The nearest others that are near, with their words."""
        query = _near_query(content, said)
        if query is None:
            return []
        rowids = "SELECT rowid FROM percept_words WHERE percept_words MATCH :query ORDER BY rowid DESC LIMIT :most"
        found = [(other, words_of(other[1])) for other in self.where(f"seq IN ({rowids})", query=query, most=_LOOKED_AT)]
        near = [(other, words) for other, words in found if likeness(words, said.words) >= NEAR]
        return sorted(near, key=lambda entry: -likeness(entry[1], said.words))[:_NEAREST]

    def liken(self, other: _Other, words: frozenset[str], said: Statement) -> None:
        if self._linked(other[0], "updates", "contradicts"):
            return
        if _says_more(said.words, words) and bool(other[2]) == said.denied:
            edge = Edge(self._id, other[0], "extends")
        elif _says_more(words, said.words) and bool(other[2]) == said.denied:
            edge = Edge(other[0], self._id, "extends")
        else:
            edge = Edge(self._id, other[0], "derives")
        add(self._connection, edge, self._now)

    def _linked(self, other: str, *kinds: EdgeKind) -> bool:
        query = f"SELECT 1 FROM edges WHERE ((source = ?1 AND target = ?2) OR (source = ?2 AND target = ?1)) AND kind IN ({', '.join('?' * len(kinds))})"
        return self._connection.execute(query, (self._id, other, *kinds)).fetchone() is not None


def _says_more(longer: frozenset[str], shorter: frozenset[str]) -> bool:
    """All words of the other, and a further one. A sign alone changes what is said: 50 is not 50 %, and C is not C++."""
    return shorter < longer and any(any(map(str.isalnum, word)) for word in longer - shorter)


def _near_query(content: str, said: Statement) -> str | None:
    """A search that finds every statement near this one.

    Of n words such a statement shares 60 % at least, so it misses at most n − that: of the rarest words, as many as may be
    missed and three more, it has three. A word's length and digits stand for its rarity. Of long statements the eleven rarest words are looked for.
    """
    index = frozenset(search_words(content))
    indexed = index.intersection(form for word in said.words for form in search_words(word)[:1])
    shared = -(-len(said.words) * 3 // 5) - (len(said.words) - len(indexed))
    if len(said.words) < 2 or not indexed:
        return None
    wanted = min(max(shared, 1), _WANTED)
    rare = sorted(indexed, key=lambda word: (not any(map(str.isdigit, word)), -len(word), word))[: min(len(indexed) - shared + wanted, _RARE)]
    return _at_least(wanted, [quote(word) for word in rare])


def _at_least(count: int, words: Sequence[str]) -> str:
    """A search for texts that have so many of the words."""
    if count == 1:
        return " OR ".join(words)
    return " OR ".join(f"({word} AND ({_at_least(count - 1, words[place:])}))" for place, word in enumerate(words[: len(words) - count + 1], 1))


def quote(word: str) -> str:
    """A word as a search takes it, never as its syntax."""
    return '"' + word.replace('"', '""') + '"'


def _edges(found: Iterable[Sequence[object]]) -> list[Edge]:
    return [Edge(str(source), str(target), kind) for source, target, kind in found if kind in ("extends", "updates", "derives", "contradicts")]
