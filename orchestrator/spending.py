"""From usage sums to what was spent: tokens, cache shares, and costs that each say where they come from (page 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, get_args

from orchestrator.store import UsageSum

CostLabel = Literal["billed", "reported", "estimated", "unknown"]
"""The surest first."""

Prices = Mapping[str, float]
"""Dollars for a million tokens, by `input`, `output`, `cache_read`, `cache_write`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some turns cost, under one label; `usd` is `None` for unknown, never 0."""

    label: CostLabel
    usd: float | None
    turns: int


@dataclass(frozen=True, slots=True)
class Spending:
    """What one agent, model, session or day took, or all of them. Tokens that nobody reported are `None`."""

    key: str | None
    name: str | None
    turns: int
    input_tokens: int | None
    """All that was sent, what came from the cache and what went into it included."""
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    costs: tuple[Cost, ...]
    """One for each label that occurs, the surest first."""

    @property
    def cost_usd(self) -> float | None:
        """The sum of what is known; `unknown_turns` are not in it."""
        return _sum(cost.usd for cost in self.costs)

    @property
    def cost_label(self) -> CostLabel:
        """The least sure label in the known sum; `unknown` where nothing is known."""
        known = [cost.label for cost in self.costs if cost.usd is not None]
        return known[-1] if known else "unknown"

    @property
    def unknown_turns(self) -> int:
        """Turns whose cost nobody knows."""
        return sum(cost.turns for cost in self.costs if cost.usd is None)

    @property
    def cache_read_share(self) -> float | None:
        """How much of the input came from the cache, from 0 to 1; `None` where no cache was reported."""
        return None if self.cache_read_tokens is None or not self.input_tokens else self.cache_read_tokens / self.input_tokens


def spent(sums: Sequence[UsageSum], prices: Mapping[str, Prices]) -> list[Spending]:
    """One for each key, the dearest first and then those with most tokens. `prices` by agent make estimates of what has no cost."""
    ordered = sorted(sums, key=_order)
    grouped = [_spending(key, list(group), prices) for key, group in groupby(ordered, key=lambda usage: usage.key)]
    return sorted(grouped, key=lambda item: (-(item.cost_usd or 0), -(item.input_tokens or 0) - (item.output_tokens or 0), item.key or ""))


def total(sums: Sequence[UsageSum], prices: Mapping[str, Prices]) -> Spending:
    """All of it."""
    return _spending(None, sums, prices)


def _spending(key: str | None, sums: Sequence[UsageSum], prices: Mapping[str, Prices]) -> Spending:
    cached = [figure for usage in sums for figure in (usage.cache_read_tokens, usage.cache_write_tokens)]
    costs = [_cost(usage, prices.get(usage.agent, {})) for usage in sums]
    return Spending(
        key=key,
        name=next((usage.name for usage in sums if usage.name), None),
        turns=sum(usage.turns for usage in sums),
        input_tokens=_total(sums, lambda usage: usage.input_tokens, cached),
        output_tokens=_total(sums, lambda usage: usage.output_tokens),
        cache_read_tokens=_total(sums, lambda usage: usage.cache_read_tokens),
        cache_write_tokens=_total(sums, lambda usage: usage.cache_write_tokens),
        reasoning_tokens=_total(sums, lambda usage: usage.reasoning_tokens),
        costs=tuple(_labelled(label, costs) for label in get_args(CostLabel) if any(cost.label == label for cost in costs)),
    )


def _cost(usage: UsageSum, prices: Prices) -> Cost:
    if usage.cost_usd is not None:
        return Cost(usage.cost_source or "reported", usage.cost_usd, usage.turns)
    estimate = _estimate(usage, prices)
    return Cost("unknown" if estimate is None else "estimated", estimate, usage.turns)


def _estimate(usage: UsageSum, prices: Prices) -> float | None:
    """By the agent's prices, where they and the tokens are known; cached tokens without a price of their own cost what others do."""
    if not usage.counted or "input" not in prices or "output" not in prices:
        return None
    tokens = {"input": usage.input_tokens, "output": usage.output_tokens, "cache_read": usage.cache_read_tokens, "cache_write": usage.cache_write_tokens}
    return sum((count or 0) * prices.get(name, prices["input"]) for name, count in tokens.items()) / 1_000_000


def _labelled(label: CostLabel, costs: Sequence[Cost]) -> Cost:
    chosen = [cost for cost in costs if cost.label == label]
    return Cost(label, _sum(cost.usd for cost in chosen), sum(cost.turns for cost in chosen))


def _total(sums: Sequence[UsageSum], figure: Callable[[UsageSum], int | None], more: Iterable[int | None] = ()) -> int | None:
    known = [number for number in (*map(figure, sums), *more) if number is not None]
    return sum(known) if known else None


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _order(usage: UsageSum) -> tuple[bool, str]:
    return usage.key is None, usage.key or ""
