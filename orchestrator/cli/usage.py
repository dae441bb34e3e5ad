"""`escalera usage`: what the turns took, and what that cost as far as anybody knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, get_args

import click

from orchestrator.cli.front import Front
from orchestrator.errors import UsageError
from orchestrator.spending import Cost, Spending, spent, total
from orchestrator.store import UsageKey
from orchestrator.terminal import clean

if TYPE_CHECKING:
    from orchestrator.documents.kinds.usage import UsageDocument, UsageFigures, UsageRow

_LABELS = {
    "billed": "what the provider charged",
    "reported": "what the agent says by a reckoning of its own",
    "estimated": "tokens times the agent's `prices` as they are set now",
    "unknown": "nobody said, and the agent has no `prices`",
}


@click.command("usage")
@click.option("--by", type=click.Choice(get_args(UsageKey)), default="agent", show_default=True, help="What to sum by; days are those of UTC.")
@click.option("--session", "ref", metavar="REF", help="Only this session: an id, the beginning of one, or a name.")
@click.option("--all-workspaces", is_flag=True, help="Of all directories; else of this one.")
@click.option("--since", metavar="TIME", help="Only turns since then: a day, a time, or how long ago, as in 7d.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def command(front: Front, by: UsageKey, ref: str | None, all_workspaces: bool, since: str | None, as_json: bool) -> None:
    """Tokens, cache shares and cost.

    Turns that failed or were cancelled count as well. Each cost says where it comes from: billed by the provider, reported by
    the agent, estimated from the agent's `prices` (dollars for a million tokens), or unknown, which is never 0.

    A turn counts once, for the session that it was taken in, however many forks have it: also when it was undone, as long as one
    of them is there. An imported session counts with what its document says it used.
    """
    if ref is not None and all_workspaces:
        raise UsageError("--session names one session; it does not go with --all-workspaces")
    begin = None if since is None else Front.since(since, front.clock.now())
    prices = {agent.name: agent.prices for agent in front.settings.agents.values()}
    store = front.store(read_only=True)
    session = None if ref is None else store.find(ref, front.workspace).id
    workspace = None if all_workspaces or session is not None else front.workspace
    sums = store.usage(by, workspace=workspace, session=session, since=begin)
    rows, whole = spent(sums, prices), total(sums, prices)
    if by == "day":
        rows.sort(key=lambda row: row.key or "")
    if as_json:
        front.output.print_json(usage_document(by, rows, whole))
        return
    say_usage(front, by, rows, whole)


def usage_document(by: UsageKey, rows: Sequence[Spending], whole: Spending) -> UsageDocument:
    """The document: one object for each key, and the totals."""
    return {"format": "escalera.usage/1", "by": by, "usage": [_row(by, row) for row in rows], "totals": _figures(whole)}


def _row(by: UsageKey, row: Spending) -> UsageRow:
    return cast("UsageRow", {by: row.key, **({"name": row.name} if by == "session" else {}), **_figures(row)})


def _figures(row: Spending) -> UsageFigures:
    return {
        "turns": row.turns,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cache_read_tokens": row.cache_read_tokens,
        "cache_write_tokens": row.cache_write_tokens,
        "reasoning_tokens": row.reasoning_tokens,
        "cache_read_share": None if row.cache_read_share is None else round(row.cache_read_share, 4),
        "cost_usd": _rounded(row.cost_usd),
        "cost_label": row.cost_label,
        "unknown_turns": row.unknown_turns,
        "costs": [{"label": cost.label, "usd": _rounded(cost.usd), "turns": cost.turns} for cost in row.costs],
    }


def _rounded(usd: float | None) -> float | None:
    """Without the digits that only adding up has made."""
    return None if usd is None else round(usd, 10)


def say_usage(front: Front, by: str, rows: Sequence[Spending], whole: Spending) -> None:
    """The table for people."""
    if not rows:
        front.output.say("nothing was used here yet")
        return
    head: tuple[str, ...] = (by, "turns", "input", "from cache", "to cache", "output", "reasoning", "cost")
    lines = [_line(_shown_key(by, row), row) for row in rows] + ([_line("all", whole)] if len(rows) > 1 else [])
    told = [column for column in range(len(head)) if any(line[column] != "-" for line in lines)]
    head, lines = _only(head, told), [_only(line, told) for line in lines]
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    front.output.heading(_laid_out(head, widths))
    for line in lines:
        front.output.say(_laid_out(line, widths))
    front.output.say()
    for cost in whole.costs:
        front.output.say(f"{cost.label}: {_LABELS[cost.label]} ({_turns(cost.turns)})")


def _only(cells: Sequence[str], columns: Sequence[int]) -> tuple[str, ...]:
    """Columns in which no agent reported anything are left out."""
    return tuple(cells[column] for column in columns)


def _laid_out(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names and costs to the left, numbers to the right."""
    last = len(cells) - 1
    laid_out = (cell.ljust(width) if place in (0, last) else cell.rjust(width) for place, (cell, width) in enumerate(zip(cells, widths, strict=True)))
    return "  ".join(laid_out).rstrip()


def _line(key: str, row: Spending) -> tuple[str, ...]:
    share = "" if row.cache_read_share is None else f" ({row.cache_read_share:.0%})"
    tokens = (row.cache_write_tokens, row.output_tokens, row.reasoning_tokens)
    return key, f"{row.turns:,}", _count(row.input_tokens), _count(row.cache_read_tokens) + share, *map(_count, tokens), _costs(row.costs)


def _shown_key(by: str, row: Spending) -> str:
    if by == "session":
        return clean(f"{(row.key or '')[:8]} {row.name or ''}".rstrip(), keep_newlines=False)
    return clean(row.key or "(unknown)", keep_newlines=False)


def _count(tokens: int | None) -> str:
    return "-" if tokens is None else f"{tokens:,}"


def _costs(costs: Sequence[Cost]) -> str:
    return " + ".join(f"{shown_dollars(cost.usd)} {cost.label}" if cost.usd is not None else f"unknown for {_turns(cost.turns)}" for cost in costs)


def shown_dollars(usd: float) -> str:
    """A cost that is there never looks like none."""
    return "<$0.0001" if 0 < usd < 0.0001 else f"${usd:,.4f}"


def _turns(number: int) -> str:
    return f"{number:,} turn{'' if number == 1 else 's'}"
