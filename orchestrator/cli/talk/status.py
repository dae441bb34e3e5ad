"""The line below a chat: session, agent, state, need, tokens and cost so far, in whatever width there is."""

from __future__ import annotations

from orchestrator.cli.talk.conversation import Standing
from orchestrator.cli.usage import shown_dollars
from orchestrator.quoting import one_line
from orchestrator.session import State
from orchestrator.spending import Spending
from orchestrator.terminal import clean

SEPARATOR = " · "
_SHORTEST_NEED = 12


def status_line(standing: Standing, *, asks: bool, width: int) -> str:
    """At most `width` characters: the need is shortened first, then the cost is left out, then the end is cut."""
    pinned = " (pinned)" if standing.pinned else ""
    head = [
        one_line(standing.session, 24),
        f"{one_line(standing.agent, 24)}{pinned}",
        *([standing.state.value] if standing.state is not State.ROUTING else []),
        *_needed(standing, asks=asks),
    ]
    tokens, cost = ([], []) if standing.spent is None else ([_tokens(standing.spent)], [_cost(standing.spent)])
    for tail in ([*tokens, *cost], tokens):
        room = width - len(SEPARATOR.join([*head, *tail])) - len(SEPARATOR) - len("need: ")
        if standing.need is None or room >= _SHORTEST_NEED:
            need = [] if standing.need is None else [f"need: {one_line(standing.need, room)}"]
            line = SEPARATOR.join([*head, *need, *tail])
            if len(line) <= width:
                break
    else:
        line = SEPARATOR.join([*head, *tokens])
    return clean(line, keep_newlines=False)[:width]


def _needed(standing: Standing, *, asks: bool) -> list[str]:
    """How many questions wait for the user: those of this session, with the one that an answer ended with, and those of others."""
    here = max(standing.asked + (standing.state is State.WAITING), int(asks))
    counts = [*([str(here)] if here else []), *([f"{standing.elsewhere} elsewhere"] if standing.elsewhere else [])]
    return [f"needs you ({', '.join(counts)})"] if counts else []


def _cost(spent: Spending) -> str:
    """What is known of it, and how surely."""
    if spent.cost_usd is None:
        return "cost unknown"
    return f"{shown_dollars(spent.cost_usd)} {spent.cost_label}{' and more' if spent.unknown_turns else ''}"


def _tokens(spent: Spending) -> str:
    known = [number for number in (spent.input_tokens, spent.output_tokens) if number is not None]
    if not known:
        return "tokens unknown"
    total = sum(known)
    return f"{total:,} tokens" if total < 10_000 else f"{total / 1000:,.1f}k tokens"
