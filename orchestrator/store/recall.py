"""What an agent may be told: found by full text, ranked by BM25 × weight (page 4)."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import json
import math
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from orchestrator.messages import well_formed
from orchestrator.percepts import GET_WEIGHT, HEAVIEST, Inquiry, Percept, Recalled
from orchestrator.store import edges, rows
from orchestrator.store.percepts import NOW, value_of
from orchestrator.store.running import WEIGHT
from orchestrator.words import search_words
from orchestrator.workspaces import workspace_key

Notice = Callable[[str], None]

_TERMS, _WORK = (24, 512), 50_000_000
"""How many different words are searched for at most, the first and the last ones of a long prompt: the fewer the more percepts there
are, since ranking takes as long as their number squared, times that of the percepts.
"""
_TEXT = 32_000
"""Characters of a prompt that are looked at for words: its head and its tail."""

_MEANT = (
    "consumer IN (SELECT value FROM json_each(:consumers)) AND (workspace_key IS NULL OR workspace_key = :place) AND (scope = 'global' OR session = :session)"
)
_HIDDEN = (
    "EXISTS (SELECT 1 FROM edges JOIN percepts AS newer ON newer.id = edges.source WHERE edges.kind = 'updates' AND edges.target = percepts.id"
    " AND newer.consumer IN (SELECT value FROM json_each(:consumers)) AND (newer.workspace_key IS NULL OR newer.workspace_key = :place)"
    " AND (newer.scope = 'global' OR newer.session = :session))"
)
"""An update hides the old statement from whoever is told the new one."""
_SOUND = "AND typeof(id) = 'text'"
_PAGE = 256
"""Matches that are looked at in one go, at first."""


def recall(connection: sqlite3.Connection, inquiry: Inquiry, *, platform: str, notice: Notice) -> Recalled:
    """The percepts for this agent, workspace and session that have to do with the text, best first; core ones always."""
    size = _size(connection)
    if not size:
        return Recalled()
    bound = _bound(inquiry, platform)
    query = None if inquiry.text is None else query_of(inquiry.text, size)
    found = _ranked(connection, bound | {"query": query, "most": -1 if inquiry.most is None else inquiry.most}, notice)
    ids = [percept.id for percept, _ in found]
    extends = frozenset((edge.source, edge.target) for edge in edges.among(connection, ids, "extends"))
    return Recalled(tuple(found), extends, _withheld(connection, frozenset(ids), bound) if inquiry.explain else ())


def best(connection: sqlite3.Connection, inquiry: Inquiry, most: int, *, platform: str, notice: Notice) -> Sequence[Percept]:
    """What `get_memory` gives: of weight enough, the best that fit the text; without any words in that, the heaviest."""
    query = query_of(inquiry.text or "", _size(connection))
    bound = _bound(inquiry, platform) | {"query": query, "most": most, "weight": GET_WEIGHT}
    return [percept for percept, _ in _loaded(connection, _ranking(connection, bound, f"AND {WEIGHT} >= :weight"), notice)]


def query_of(text: str, size: int = 0) -> str | None:
    """A search for any of the text's words, each quoted, so that none of it is query syntax; `None` for a text without words.

    `size` is that of the store, in percepts.
    """
    text = well_formed(text)
    if len(text) > _TEXT:
        text = f"{text[: _TEXT // 2]} {text[-_TEXT // 2 :]}"
    words = list(dict.fromkeys(search_words(text)))
    most = min(max(_TERMS[0], math.isqrt(_WORK // max(1, size))), _TERMS[1])
    if len(words) > most:
        words = words[: most // 2] + words[-most // 2 :]
    return " OR ".join(map(edges.quote, words)) or None


def _size(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT max(seq) FROM percepts").fetchone()[0] or 0


def _bound(inquiry: Inquiry, platform: str) -> dict[str, Any]:
    return {
        "consumers": rows.encode(sorted(inquiry.consumers)),
        "place": workspace_key(well_formed(inquiry.workspace), platform),
        "session": rows.clean_text(inquiry.session),
    }


def _ranked(connection: sqlite3.Connection, bound: Mapping[str, Any], notice: Notice) -> list[tuple[Percept, float]]:
    """Those that match, and all core ones; each once."""
    ranking = _ranking(connection, bound)
    if bound["query"] is not None:
        there = dict(ranking)
        core = connection.execute(
            f"SELECT seq FROM percepts INDEXED BY percepts_core WHERE core <> 0 AND {_MEANT} AND NOT {_HIDDEN} ORDER BY weight DESC, id LIMIT :most", bound
        )
        ranking += [(seq, 0.0) for (seq,) in core if seq not in there]
    return _loaded(connection, ranking, notice)


def _ranking(connection: sqlite3.Connection, bound: Mapping[str, Any], also: str = "") -> list[tuple[int, float]]:
    """Rows and scores, best first, `most` of them."""
    if bound["query"] is None:
        statement = f"SELECT seq, 1.0 FROM percepts WHERE {_MEANT} AND NOT {_HIDDEN} {also} ORDER BY {WEIGHT} DESC, id LIMIT :most"
        return connection.execute(statement, bound).fetchall()
    best: list[tuple[float, str, int, float]] = []
    most = bound["most"] if bound["most"] >= 0 else sys.maxsize
    statement = f"SELECT seq, id, {WEIGHT} FROM percepts WHERE seq IN (SELECT value FROM json_each(:page)) AND {_MEANT} AND NOT {_HIDDEN} {_SOUND} {also}"
    for page in _pages(connection, bound["query"]):
        if len(best) == most and (most == 0 or max(page.values()) * HEAVIEST < -best[-1][0]):
            break  # no weight takes any of the rest in front of these
        found = connection.execute(statement, {**bound, "page": json.dumps(list(page))})
        best = sorted([*best, *((-page[seq] * weight, identity, seq, page[seq]) for seq, identity, weight in found)])[:most]
    return [(seq, score) for _, _, seq, score in best]


def _pages(connection: sqlite3.Connection, query: str) -> Iterator[dict[int, float]]:
    """What matches, with its score, the best first, in pages that grow."""
    size = _PAGE
    with closing(connection.execute("SELECT rowid, -rank FROM percept_words WHERE percept_words MATCH ? ORDER BY rank", (query,))) as matches:
        while page := matches.fetchmany(size):
            yield dict(page)
            size *= 2


def _loaded(connection: sqlite3.Connection, ranking: Sequence[tuple[int, float]], notice: Notice) -> list[tuple[Percept, float]]:
    query = f"SELECT seq, {NOW} FROM percepts WHERE seq IN (SELECT value FROM json_each(?))"
    found = {row[0]: row[1:] for row in connection.execute(query, (json.dumps([seq for seq, _ in ranking]),))}
    return [(percept, score) for seq, score in ranking if (percept := value_of(found[seq], notice)) is not None]


def _withheld(connection: sqlite3.Connection, found: frozenset[str], bound: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Why each of the others is left out, by its id. Those of other sessions are none of this one's business."""
    statement = (
        f"SELECT id, consumer, consumer IN (SELECT value FROM json_each(:consumers)), workspace_key IS NULL OR workspace_key = :place, {_HIDDEN}"
        " FROM percepts WHERE (scope = 'global' OR session = :session) AND typeof(id) = 'text' ORDER BY id"
    )
    with closing(connection.execute(statement, bound)) as rest:
        return tuple((identity, _why(*of)) for identity, *of in rest if identity not in found)


def _why(consumer: str, meant: int, here: int, hidden: int) -> str:
    if not meant:
        return f"meant for {consumer}"
    if not here:
        return "other workspace"
    return "superseded" if hidden else "not relevant"
