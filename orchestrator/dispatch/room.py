"""The next call of a tool loop, within the agent's budget (page 3): what the turn itself has done counts, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from orchestrator.errors import BudgetExceeded
from orchestrator.history.budget import measure, measure_request
from orchestrator.history.fit import stub
from orchestrator.history.normalise import normalise
from orchestrator.messages import Message
from orchestrator.providers import Request, WireProfile

Batch = tuple[Message, Message]
"""What the agent said, with its calls, and all their results."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the calls of one turn may weigh, in characters (`None`: no limit), and how to get more of it.

    `refit` gives the turn's first request anew, within a limit, with a history that leaves room for so many characters of the
    running turn, and says that so many of its tool batches are not shown. It raises `BudgetExceeded` where there is no such room.
    """

    limit: int | None
    refit: Callable[[int | None, int, int], Request]


def next_request(first: Request, batches: Sequence[Batch], room: Room | None, profile: WireProfile) -> Request:
    """The turn's first request with what was done since, given up in page 3's order: tool results shortened, oldest first;
    then turns of the history; then the running turn's oldest batches, but for the newest.

    Raises `BudgetExceeded` where even that is too much.
    """
    request = _with(first, batches, profile)
    if room is None or room.limit is None or measure_request(request) <= room.limit:
        return request
    if not batches:
        return room.refit(room.limit, 0, 0)
    short = _shortened(batches, measure_request(request) - room.limit)
    request = _with(first, short, profile)
    for skip in range(len(short)):
        if measure_request(request) <= room.limit:
            return request
        request = _refitted(room, short, skip, profile) or request
    if measure_request(request) <= room.limit:
        return request
    raise _too_large(request, short, room.limit)


def _with(first: Request, batches: Iterable[Batch], profile: WireProfile) -> Request:
    return replace(first, messages=normalise((*first.messages, *(message for batch in batches for message in batch)), profile))


def _shortened(batches: Sequence[Batch], excess: int) -> list[Batch]:
    """With results cut down to their stubs, oldest first, until so many characters are saved."""
    done: list[Batch] = []
    for said, results in batches:
        parts = []
        for part in results.parts:
            parts.append(stub(part) if excess > 0 else part)
            excess -= measure([Message("user", (part,))]) - measure([Message("user", (parts[-1],))])
        done.append((said, replace(results, parts=tuple(parts))))
    return done


def _refitted(room: Room, batches: Sequence[Batch], skip: int, profile: WireProfile) -> Request | None:
    kept = batches[skip:]
    try:
        return _with(room.refit(room.limit, sum(measure(batch) for batch in kept), skip), kept, profile)
    except BudgetExceeded:
        return None


def _too_large(request: Request, batches: Sequence[Batch], limit: int) -> BudgetExceeded:
    newest = measure(batches[-1])
    return BudgetExceeded(
        f"the turn ended early: its last round of tool calls alone takes {newest:,} characters beside what is never dropped, the budget is {limit:,}",
        parts={"request": measure_request(request), "last round of tool calls": newest},
        limit=limit,
        agent=request.agent,
        hint=f"what was done until there is kept; raise agents.{request.agent}.limits.message_budget_chars (0 = no limit), or lower tool_result_max_chars",
    )
