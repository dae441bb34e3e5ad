"""Full text search. Storing a turn never touches the index: a search first takes in what was closed since the last one."""

# ruff: noqa: S608 - names of tables and columns are constants of ours, and every value is bound

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from orchestrator.messages import Reasoning, Text, ToolCall, ToolResult, well_formed
from orchestrator.session import Outcome
from orchestrator.store import SearchHit, rows
from orchestrator.store.artifacts import made_whole
from orchestrator.store.counters import counter
from orchestrator.store.faults import Damaged
from orchestrator.workspaces import workspace_key

Notice = Callable[[str], None]

_AROUND = 60
"""Characters of a snippet on each side of its match."""
_UNSPACED = re.compile("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
"""Letters of scripts that put no blanks between words: each is indexed as a word of its own."""
_WORDS = re.compile(r"\w")


def search(
    connection: sqlite3.Connection, text: str, workspace: str | None, limit: int, *, lasting: bool, platform: str, notice: Notice
) -> Sequence[SearchHit]:
    """Turns that hold every word of the text, best first. `lasting`: the index may be written, else the rest is indexed in memory."""
    query = _query(well_formed(text))
    if not query or limit <= 0:
        return []
    tables = _index(connection, notice) if lasting else _index_in_memory(connection, notice)
    ranked = " UNION ALL ".join(f"SELECT rowid AS turn, rank AS score FROM {table} WHERE {table.rpartition('.')[2]} MATCH ?" for table in tables)
    key = None if workspace is None else workspace_key(well_formed(workspace), platform)
    found = connection.execute(
        f"SELECT turns.id, sessions.id, sessions.name, sessions.workspace, turns.idx FROM ({ranked})"
        " JOIN turns ON turns.id = turn JOIN sessions ON sessions.id = turns.session"
        " WHERE ? IS NULL OR sessions.workspace_key = ? ORDER BY score, turns.id DESC LIMIT ?",
        (*[query] * len(tables), key, key, limit),
    ).fetchall()
    terms = well_formed(text).split()
    return [SearchHit(session, name, place, index, snippet(_text(connection, turn, notice), terms)) for turn, session, name, place, index in found]


def forget_session(connection: sqlite3.Connection, session: str, notice: Notice) -> None:
    """Take a session's turns out of the index before their text is gone."""
    forget_turns(connection, [turn for (turn,) in connection.execute("SELECT id FROM turns WHERE session = ?", (session,))], notice)


def forget_turns(connection: sqlite3.Connection, turns: Sequence[int], notice: Notice) -> None:
    """Take these turns, by their rows' ids, out of the index before their text is gone."""
    if not _has_index(connection):
        return
    upto = _upto(connection)
    unindexed = {turn for (turn,) in connection.execute("SELECT turn FROM unindexed")}
    for turn in turns:
        if turn <= upto and turn not in unindexed:
            connection.execute("INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)", (turn, _spaced(_text(connection, turn, notice))))


def snippet(text: str, terms: Sequence[str]) -> str:
    """What stands around the first match, on one line, the match between `[` and `]`."""
    folded = _folded(text)
    matches = [match for term in terms if (match := _match(folded, _folded(term))) is not None]
    start, end = min(matches, default=(0, 0))
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    marked = f"[{text[start:end]}]" if matches else ""
    cut = ("…" if start > _AROUND else "", "…" if end + _AROUND < len(text) else "")
    return f"{cut[0]}{_one_line(before)}{_one_line(marked)}{_one_line(after)}{cut[1]}".strip()


def _query(text: str) -> str:
    """Each word quoted, so that none of it is query syntax; what holds no letter and no digit asks for nothing."""
    words = (_spaced(word).replace('"', '""') for word in text.split() if _WORDS.search(word))
    return " ".join(f'"{word}"' for word in words)


def _index(connection: sqlite3.Connection, notice: Notice) -> Sequence[str]:
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5 (text, content = '')")
    rest = _rest(connection)
    for turn, outcome in rest:
        if outcome == Outcome.OPEN:
            connection.execute("INSERT OR IGNORE INTO unindexed VALUES (?)", (turn,))
        else:
            connection.execute("INSERT INTO search (rowid, text) VALUES (?, ?)", (turn, _spaced(_text(connection, turn, notice))))
            connection.execute("DELETE FROM unindexed WHERE turn = ?", (turn,))
    connection.execute("UPDATE meta SET value = ? WHERE key = 'indexed'", (max([_upto(connection), *(turn for turn, _ in rest)]),))
    return ["search"]


def _index_in_memory(connection: sqlite3.Connection, notice: Notice) -> Sequence[str]:
    connection.execute("DROP TABLE IF EXISTS temp.rest")
    connection.execute("CREATE VIRTUAL TABLE temp.rest USING fts5 (text, content = '')")
    for turn, outcome in _rest(connection):
        if outcome != Outcome.OPEN:
            connection.execute("INSERT INTO temp.rest (rowid, text) VALUES (?, ?)", (turn, _spaced(_text(connection, turn, notice))))
    return ["search", "temp.rest"] if _has_index(connection) else ["temp.rest"]


def _rest(connection: sqlite3.Connection) -> Sequence[tuple[int, str]]:
    """Turns that the index does not have."""
    if not _has_index(connection):
        return connection.execute("SELECT id, outcome FROM turns").fetchall()
    return connection.execute("SELECT id, outcome FROM turns WHERE id > ? OR id IN (SELECT turn FROM unindexed)", (_upto(connection),)).fetchall()


def _has_index(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'search'").fetchone() is not None


def _upto(connection: sqlite3.Connection) -> int:
    return counter(connection, "indexed")


def _text(connection: sqlite3.Connection, turn: int, notice: Notice) -> str:
    """Prompt and steps of a turn, a line each. Raises `Damaged` when a turn that was found is not there."""
    row = connection.execute("SELECT prompt FROM turns WHERE id = ?", (turn,)).fetchone()
    if row is None:
        raise Damaged(f"turn {turn} stands in an index, but not in its table")
    (prompt,) = row
    payloads = connection.execute("SELECT payload FROM steps WHERE turn = ? ORDER BY seq", (turn,)).fetchall()
    steps = made_whole(connection, rows.decoded([payload for (payload,) in payloads]))
    return "\n".join([prompt if isinstance(prompt, str) else "", *(line for fields in steps for line in _said(fields, notice))])


def _said(fields: object, notice: Notice) -> Iterator[str]:
    try:
        part = rows.part_value(fields)
    except rows.BAD as problem:
        notice(f"a step was left out of the search: {problem}")
        return
    match part:
        case Text(text) | Reasoning(text):
            yield text
        case ToolCall(name=name, arguments=arguments):
            yield f"{name} {' '.join(str(value) for value in arguments.values())}"
        case ToolResult(content=content):
            yield content


def _spaced(text: str) -> str:
    return _UNSPACED.sub(r" \1 ", text)


def _folded(text: str) -> str:
    """As the index compares: case and accents set aside, each character in its place."""
    return "".join(unicodedata.normalize("NFKD", character)[0].lower()[0] for character in text)


def _match(folded: str, term: str) -> tuple[int, int] | None:
    """Where the term's words stand in a row, with whatever divides them."""
    words = re.findall(r"\w+", term)
    if not words:
        return None
    edge = "" if _UNSPACED.search(term) else r"(?<!\w)"
    found = re.search(edge + r"\W+".join(map(re.escape, words)) + edge.replace("<", ""), folded)
    return None if found is None else found.span()


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
