"""What an agent may be told: found by full text, ranked by BM25 × weight (page 4)."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from orchestrator.messages import well_formed
from orchestrator.percepts import GET_WEIGHT, Inquiry, Percept, Recalled
from orchestrator.store import edges, rows
from orchestrator.store.percepts import NOW, value_of
from orchestrator.store.running import WEIGHT
from orchestrator.words import search_words
from orchestrator.workspaces import workspace_key

Notice = Callable[[str], None]

_TERMS = 64
"""How many different words are searched for at most: the first and the last ones of a long prompt."""
_TEXT = 16_000
"""Characters of a prompt that are looked at for words: its head and its tail."""

_MEANT = (
    "consumer IN (SELECT value FROM json_each(:consumers)) AND (workspace_key IS NULL OR workspace_key = :place) AND (scope = 'global' OR session = :session)"
)
_HIDDEN = (
    "id IN (SELECT edges.target FROM edges JOIN percepts AS newer ON newer.id = edges.source WHERE edges.kind = 'updates'"
    " AND newer.consumer IN (SELECT value FROM json_each(:consumers)) AND (newer.workspace_key IS NULL OR newer.workspace_key = :place)"
    " AND (newer.scope = 'global' OR newer.session = :session))"
)
"""An update hides the old statement from whoever is told the new one."""
_MATCHING = "SELECT rowid, -bm25(percept_words) AS score FROM percept_words WHERE percept_words MATCH :query"


def recall(connection: sqlite3.Connection, inquiry: Inquiry, *, platform: str, notice: Notice) -> Recalled:
    """The percepts for this agent, workspace and session that have to do with the text, best first; core ones always."""
    bound = _bound(inquiry, platform)
    query = None if inquiry.text is None else query_of(inquiry.text)
    found = _ranked(connection, bound | {"query": query, "most": -1 if inquiry.most is None else inquiry.most}, notice)
    ids = [percept.id for percept, _ in found]
    extends = frozenset((edge.source, edge.target) for edge in edges.among(connection, ids, "extends"))
    return Recalled(tuple(found), extends, _withheld(connection, frozenset(ids), bound) if inquiry.explain else ())


def best(connection: sqlite3.Connection, inquiry: Inquiry, most: int, *, platform: str, notice: Notice) -> Sequence[Percept]:
    """What `get_memory` gives: of weight enough, the best that fit the text."""
    bound = _bound(inquiry, platform) | {"query": query_of(inquiry.text or ""), "most": most, "weight": GET_WEIGHT}
    columns = f"SELECT {NOW}, score FROM percepts"
    if bound["query"] is None:
        statement = f"SELECT {NOW} FROM percepts WHERE {_MEANT} AND {WEIGHT} >= :weight AND NOT {_HIDDEN} ORDER BY {WEIGHT} DESC, id LIMIT :most"
    else:
        statement = (
            f"{columns} JOIN ({_MATCHING}) AS matching ON matching.rowid = seq"
            f" WHERE {_MEANT} AND {WEIGHT} >= :weight AND NOT {_HIDDEN} ORDER BY score * {WEIGHT} DESC, id LIMIT :most"
        )
    rows_found = connection.execute(statement, bound).fetchall()
    width = len(rows.PERCEPT_COLUMNS.split(", "))
    return [percept for row in rows_found if (percept := value_of(row[:width], notice)) is not None]


def query_of(text: str) -> str | None:
    """A search for any of the text's words, each quoted, so that none of it is query syntax; `None` for a text without words."""
    text = well_formed(text)
    if len(text) > _TEXT:
        text = f"{text[: _TEXT // 2]} {text[-_TEXT // 2 :]}"
    words = list(dict.fromkeys(search_words(text)))
    if len(words) > _TERMS:
        words = words[: _TERMS // 2] + words[-_TERMS // 2 :]
    return " OR ".join(map(edges.quote, words)) or None


def _bound(inquiry: Inquiry, platform: str) -> dict[str, Any]:
    return {
        "consumers": rows.encode(sorted(inquiry.consumers)),
        "place": workspace_key(well_formed(inquiry.workspace), platform),
        "session": rows.clean_text(inquiry.session),
    }


def _ranked(connection: sqlite3.Connection, bound: Mapping[str, Any], notice: Notice) -> list[tuple[Percept, float]]:
    """Those that match, and all core ones; each once."""
    if bound["query"] is None:
        statement = f"SELECT {NOW}, 1.0 FROM percepts WHERE {_MEANT} AND NOT {_HIDDEN} ORDER BY core DESC, {WEIGHT} DESC, id LIMIT :most"
        found = connection.execute(statement, bound).fetchall()
    else:
        ranked = (
            f"SELECT {NOW}, score FROM percepts JOIN ({_MATCHING}) AS matching ON matching.rowid = seq"
            f" WHERE {_MEANT} AND NOT {_HIDDEN} ORDER BY score * {WEIGHT} DESC, id LIMIT :most"
        )
        found = connection.execute(ranked, bound).fetchall()
        there = {row[0] for row in found}
        core = connection.execute(f"SELECT {NOW}, 0.0 FROM percepts WHERE core <> 0 AND {_MEANT} AND NOT {_HIDDEN} ORDER BY id", bound)
        found += [row for row in core if row[0] not in there]
    return [(percept, row[-1]) for row in found if (percept := value_of(row[:-1], notice)) is not None]


def _withheld(connection: sqlite3.Connection, found: frozenset[str], bound: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Why each of the others is left out, by its id. Those of other sessions are none of this one's business."""
    statement = (
        f"SELECT id, consumer, consumer IN (SELECT value FROM json_each(:consumers)), workspace_key IS NULL OR workspace_key = :place, {_HIDDEN}"
        " FROM percepts WHERE scope = 'global' OR session = :session ORDER BY id"
    )
    with closing(connection.execute(statement, bound)) as rest:
        return tuple((identity, _why(*of)) for identity, *of in rest if identity not in found)


def _why(consumer: str, meant: int, here: int, hidden: int) -> str:
    if not meant:
        return f"meant for {consumer}"
    if not here:
        return "other workspace"
    return "superseded" if hidden else "not relevant"
