"""What turns have used, summed in one query, so that it stays quick over tens of thousands of them."""

# ruff: noqa: S608 - names of columns and figures are constants of ours, and every value is bound

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast, get_args

from orchestrator.messages import CostSource, well_formed
from orchestrator.store import UsageKey, UsageSum, rows
from orchestrator.workspaces import workspace_key

_TAKEN_IN = "coalesce(turns.copied_from, turns.session)"
_KEYS: dict[UsageKey, str] = {
    "agent": "turns.agent",
    "model": "coalesce(turns.model_served, turns.model_requested)",
    "session": _TAKEN_IN,
    "day": "substr(coalesce(turns.started_at, turns.ended_at), 1, 10)",
}
_FIGURES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd")
_SOURCES = ", ".join(f"'{source}'" for source in get_args(CostSource))


def sums(
    connection: sqlite3.Connection, by: UsageKey, *, workspace: str | None, session: str | None, since: datetime | None, platform: str
) -> Sequence[UsageSum]:
    """In no particular order. What cannot be read of a damaged row is unknown.

    A turn counts once, for the session that it was taken in: a copy of it only where the turn itself is gone (undone, or dropped with
    its session), and of several copies the first.
    """
    where, bound = _where(workspace, session, since, platform)
    query = f"""
        WITH chosen AS (
            SELECT {_KEYS[by]} AS key, payer.name AS name, turns.agent AS agent, CASE WHEN json_valid(turns.usage) THEN turns.usage END AS told
            FROM turns JOIN sessions ON sessions.id = turns.session LEFT JOIN sessions payer ON payer.id = {_TAKEN_IN} WHERE {where}),
        read AS (
            SELECT key, name, agent, {", ".join(f"{_figure(name)} AS {name}" for name in _FIGURES)},
                json_extract(told, '$.cost_source') AS source, coalesce(json_extract(told, '$.cache_in_input') = 1, 0) AS within
            FROM chosen)
        SELECT key, {"name" if by == "session" else "NULL"}, agent,
            CASE WHEN cost_usd IS NULL THEN NULL WHEN source IN ({_SOURCES}) THEN source ELSE 'reported' END AS label,
            input_tokens IS NOT NULL AND output_tokens IS NOT NULL AS counted, count(*),
            sum(CASE WHEN within THEN max(0, input_tokens - coalesce(cache_read_tokens, 0) - coalesce(cache_write_tokens, 0)) ELSE input_tokens END * 1.0),
            {", ".join(f"sum({name} * 1.0)" for name in _FIGURES[1:])}
        FROM read GROUP BY 1, 2, 3, 4, 5"""
    return [_sum(row) for row in connection.execute(query, bound)]


_ONCE = """(turns.copied_from IS NULL OR NOT EXISTS (
    SELECT 1 FROM turns taken WHERE taken.session = turns.copied_from AND taken.idx = turns.idx AND taken.copied_from IS NULL
    UNION ALL SELECT 1 FROM turns other WHERE other.copied_from = turns.copied_from AND other.idx = turns.idx AND other.id < turns.id))"""


def _figure(name: str) -> str:
    """A number that is none below zero, or unknown: a damaged row may hold anything."""
    path = f"'$.{name}'"
    return f"CASE WHEN json_type(told, {path}) IN ('integer', 'real') AND json_extract(told, {path}) >= 0 THEN json_extract(told, {path}) END"


def _where(workspace: str | None, session: str | None, since: datetime | None, platform: str) -> tuple[str, Sequence[str]]:
    conditions, bound = [_ONCE], list[str]()
    if workspace is not None:
        conditions.append("sessions.workspace_key = ?")
        bound.append(workspace_key(well_formed(workspace), platform))
    if session is not None:
        conditions.append("((turns.session = ? AND turns.copied_from IS NULL) OR turns.copied_from = ?)")
        bound += [well_formed(session)] * 2
    if since is not None:
        conditions.append("coalesce(turns.started_at, turns.ended_at) >= ?")
        bound.append(rows.time_text(since) or "")
    return " AND ".join(conditions), bound


def _sum(row: rows.Row) -> UsageSum:
    key, name, agent, label, counted, turns, *figures, cost = row
    tokens = {figure: _whole(value) for figure, value in zip(_FIGURES, figures, strict=False)}
    return UsageSum(_text(key), _text(name), str(agent), cast("CostSource | None", label), bool(counted), turns, cost_usd=_finite(cost), **tokens)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _finite(value: Any) -> float | None:
    return value if isinstance(value, float) and math.isfinite(value) else None


def _whole(value: Any) -> int | None:
    number = _finite(value)
    return None if number is None else round(number)
