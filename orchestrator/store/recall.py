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
_FITS = "length(CAST(content AS BLOB)) <= :fits"
_PAGE = 256
"""Matches that are looked at in one go, at first."""


def recall(connection: sqlite3.Connection, inquiry: Inquiry, *, platform: str, notice: Notice) -> Recalled:
    """The percepts for this agent, workspace and session that have to do with the text, best first; core ones always."""
    size = _size(connection)
    if not size:
        return Recalled()
    bound = _bound(inquiry, platform) | {"query": None if inquiry.text is None else query_of(inquiry.text, size)}
    ranking, more = _ranked(connection, bound, inquiry)
    found = _loaded(connection, ranking, notice)
    longer = _loaded(connection, _extending(connection, bound, [percept.id for percept, _ in found]), notice) if more or inquiry.fits is not None else []
    ids = [percept.id for percept, _ in (*found, *longer)]
    extends = frozenset((edge.source, edge.target) for edge in edges.among(connection, ids, "extends"))
    return Recalled(tuple(found), more, tuple(longer), extends, _withheld(connection, frozenset(ids), bound) if inquiry.explain else ())


def best(connection: sqlite3.Connection, inquiry: Inquiry, most: int, *, platform: str, notice: Notice) -> Sequence[Percept]:
    """What `get_memory` gives: of weight enough, the best that fit the text; without any words in that, the heaviest."""
    query = query_of(inquiry.text or "", _size(connection))
    bound = _bound(inquiry, platform) | {"query": query, "weight": GET_WEIGHT}
    return [percept for percept, _ in _loaded(connection, _ranking(connection, bound, most, f"AND {WEIGHT} >= :weight"), notice)]


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


def _ranked(connection: sqlite3.Connection, bound: Mapping[str, Any], inquiry: Inquiry) -> tuple[list[tuple[int, float]], bool]:
    """The best of those that match, and behind them the core ones that do not; and whether there may be more."""
    most = sys.maxsize if inquiry.most is None else inquiry.most
    also = "" if inquiry.fits is None else f"AND {_FITS}"
    bound = {**bound, "fits": inquiry.fits}
    ranking = _ranking(connection, bound, most, also) if inquiry.fits is None or bound["query"] is None else _small(connection, bound, most)
    if bound["query"] is not None and len(ranking) < most:
        rest = {"matching": json.dumps([seq for seq, _ in ranking]), "rest": most - len(ranking)}
        core = (
            f"SELECT seq, 0.0 FROM percepts INDEXED BY percepts_core WHERE core <> 0 AND {_MEANT} AND NOT {_HIDDEN} {_SOUND} {also}"
            " AND seq NOT IN (SELECT value FROM json_each(:matching)) ORDER BY id LIMIT :rest"
        )
        ranking += connection.execute(core, {**bound, **rest})
    return ranking, len(ranking) == most


def _ranking(connection: sqlite3.Connection, bound: Mapping[str, Any], most: int, also: str = "") -> list[tuple[int, float]]:
    """Rows and scores, best first, `most` of them."""
    if bound["query"] is None:
        statement = f"SELECT seq, 1.0 FROM percepts WHERE {_MEANT} AND NOT {_HIDDEN} {also} ORDER BY {WEIGHT} DESC, id LIMIT :most"
        return connection.execute(statement, {**bound, "most": most}).fetchall()
    best: list[tuple[float, str, int, float]] = []
    statement = f"SELECT seq, id, {WEIGHT} FROM percepts WHERE seq IN (SELECT value FROM json_each(:page)) AND {_MEANT} AND NOT {_HIDDEN} {_SOUND} {also}"
    for page in _pages(connection, bound["query"]):
        if len(best) == most:  # what no weight takes in front of these is not looked at
            page = {seq: score for seq, score in page.items() if best and score * HEAVIEST >= -best[-1][0]}
        if not page:
            break
        found = connection.execute(statement, {**bound, "page": json.dumps(list(page))})
        best = sorted([*best, *((-page[seq] * weight, identity, seq, page[seq]) for seq, identity, weight in found)])[:most]
    return [(seq, score) for _, _, seq, score in best]


def _small(connection: sqlite3.Connection, bound: Mapping[str, Any], most: int) -> list[tuple[int, float]]:
    """The same of those alone that fit into what room is left. They are few as a rule, and only they are ranked."""
    statement = (
        f"SELECT seq, id, {WEIGHT}, -percept_words.rank FROM percept_words CROSS JOIN percepts ON seq = percept_words.rowid"
        f" WHERE percept_words MATCH :query AND {_FITS} AND {_MEANT} AND NOT {_HIDDEN} {_SOUND}"
    )
    best = sorted((-score * weight, identity, seq, score) for seq, identity, weight, score in connection.execute(statement, bound))
    return [(seq, score) for _, _, seq, score in best[:most]]


def _extending(connection: sqlite3.Connection, bound: Mapping[str, Any], found: Sequence[str]) -> list[tuple[int, float]]:
    """Those that may be told and extend one of these, at whatever remove: with their scores."""
    statement = (
        "WITH RECURSIVE longer (id) AS (SELECT source FROM edges WHERE kind = 'extends' AND target IN (SELECT value FROM json_each(:found))"
        " UNION SELECT source FROM longer JOIN edges ON target = longer.id AND kind = 'extends')"
        " SELECT seq, core FROM percepts WHERE id IN (SELECT id FROM longer) AND id NOT IN (SELECT value FROM json_each(:found))"
        f" AND {_MEANT} AND NOT {_HIDDEN}"
    )
    there = dict(connection.execute(statement, {**bound, "found": json.dumps(found)}))
    if bound["query"] is None or not there:
        return [(seq, 1.0) for seq in there]
    # the + keeps the search from being done anew for each of them
    query = "SELECT rowid, -rank FROM percept_words WHERE percept_words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))"
    scores = dict(connection.execute(query, (bound["query"], json.dumps(list(there)))))
    return [(seq, scores.get(seq, 0.0)) for seq, core in there.items() if core or seq in scores]


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
