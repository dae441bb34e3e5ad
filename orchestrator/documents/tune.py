"""The tune document: what other limits would have done to recorded sessions (page 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orchestrator.clock import format_time
from orchestrator.spending import Prices
from orchestrator.tuning.knobs import Variant
from orchestrator.tuning.sweep import CLASSES, Outcome, Sums, Task

if TYPE_CHECKING:
    from orchestrator.documents.kinds.tuning import SelfTest, TuneApplied, TuneDocument, TuneFigures, TuneSetting, TuneSweep


@dataclass(frozen=True, slots=True)
class InForce:
    """What is set now: the value of each swept limit, and the agents' prices."""

    values: Mapping[str, object]
    prices: Mapping[str, Prices]


def tune_document(outcome: Outcome, task: Task, now: InForce, applied: TuneApplied | None = None) -> TuneDocument:
    """One sweep for each limit, in the order in which they were asked for."""
    test = _self_test(outcome)
    limits = dict.fromkeys(variant.limit for variant in task.variants)
    return {
        "format": "escalera.tune/1",
        "agent": task.agent,
        "since": None if task.since is None else format_time(task.since),
        "sessions": outcome.sessions,
        "turns": outcome.turns,
        "not_replayed": outcome.missing_count,
        "missing": [{"session": one.session, "turn": one.turn, "why": one.why} for one in outcome.missing],
        "self_test": test,
        "mistakes": [{"session": one.session, "turn": one.turn, "recorded": one.recorded, "replayed": one.replayed} for one in outcome.mistakes],
        "then": _figures(outcome.base, now, test),
        "sweeps": [_sweep(limit, outcome, task, now, test) for limit in limits],
        "applied": applied,
    }


def _self_test(outcome: Outcome) -> SelfTest:
    return {
        "decisions": outcome.replayed,
        "decisions_wrong": outcome.mistakes_count,
        "tokens_recorded": outcome.tokens_recorded,
        "tokens_off_percent": round(outcome.tokens_off_percent, 4),
    }


def _sweep(limit: str, outcome: Outcome, task: Task, now: InForce, test: SelfTest) -> TuneSweep:
    places = [place for place, variant in enumerate(task.variants) if variant.limit == limit]
    settings = [_setting(task.variants[place], outcome.under(place), now, test) for place in places]
    cheapest, by = _cheapest(settings)
    return {
        "limit": limit,
        "path": task.variants[places[0]].path,
        "settings": settings,
        "cheapest": None if cheapest is None else cheapest["value"],
        "by": by,
    }


def _setting(variant: Variant, sums: Sums, now: InForce, test: SelfTest) -> TuneSetting:
    return {
        "value": _json(variant),
        "in_force": variant.limit in now.values and now.values[variant.limit] == variant.value,
        "mode_changed": sums.of("mode_changed"),
        "content_changed": sums.of("content_changed"),
        **_figures(sums, now, test),
    }


def _figures(sums: Sums, now: InForce, test: SelfTest) -> TuneFigures:
    cost, unknown = sums.cost(now.prices)
    return {
        "refused": sums.of("refused"),
        "beyond_record": sums.of("beyond"),
        "tokens": {
            "static": sums.of("static"),
            "orientation": sums.of("orientation"),
            "percepts": sums.of("percepts"),
            "prompt": sums.of("prompt"),
            "history": sums.of("history"),
            "cached": sums.of("cached"),
            "total": sum(map(sums.of, CLASSES)),
        },
        "left_out": {
            "turns": sums.of("turns_left_out"),
            "tool_results_shortened": sums.of("results_shortened"),
            "tool_rounds": sums.of("rounds_left_out"),
            "percepts": sums.of("percepts_left_out"),
        },
        "cost": {"label": "unknown" if cost is None else "estimated", "usd": cost, "unknown_turns": unknown},
        "self_test": test,
    }


def _json(variant: Variant) -> bool | float | str | None:
    written = variant.written
    return ", ".join(written) if isinstance(written, tuple) else written


def _cheapest(settings: Sequence[TuneSetting]) -> tuple[TuneSetting | None, Literal["cost", "tokens"]]:
    """Of those under which every turn can be sent; where several are as cheap, the one that is set now, else the first."""
    usable = [setting for setting in settings if not setting["refused"]] or list(settings)
    by: Literal["cost", "tokens"] = "cost" if any(setting["cost"]["usd"] is not None for setting in settings) else "tokens"

    def rank(setting: TuneSetting) -> tuple[float, bool]:
        cost = setting["cost"]["usd"]
        return (float(setting["tokens"]["total"]) if by == "tokens" or cost is None else round(cost, 9)), not setting["in_force"]

    return min(usable, key=rank, default=None), by
