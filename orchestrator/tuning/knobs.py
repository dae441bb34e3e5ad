"""Which limits can be replayed, what a changed one comes to for a recorded turn, and the sweeps that need no values given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from orchestrator.errors import UsageError
from orchestrator.history.budget import DEFAULT_BUDGET_CHARS
from orchestrator.settings.declarations import BY_PATH, LIMITS, SettingValue
from orchestrator.settings.limits import Limits
from orchestrator.settings.problems import did_you_mean, nearest
from orchestrator.settings.values import parse_value, python_value

NEED = "need_expiry_hours"

SWEEPS: Mapping[str, tuple[str, ...]] = {
    "returning_fresh_start_local_turns": ("0", "1", "2", "3", "4", "5", "6", "8", "12", "16"),
    "message_budget_chars": ("12000", "24000", "50000", "100000", "unlimited"),
    "context_budget_chars": ("0", "2000", "6000", "12000", "unlimited"),
    "percept_inject_max": ("0", "5", "10", "25", "50"),
    "percept_inject_max_bytes": ("0", "512", "1024", "2048", "4096"),
    "output_reserve_tokens": ("1024", "2048", "4096", "8192"),
    NEED: ("0", "1", "8", "24", "72"),
}
"""By knob, the values that are tried where none are given."""
KNOBS = (*SWEEPS, "context_window_tokens")

_NOT_REPLAYED = {
    "percept_relevance_gate": "which facts it would have let through was not kept",
    "max_tool_iterations": "it changes what the agent did, and what was done is held as it was",
    "tool_result_max_chars": "it changes what the agent saw, and what was done is held as it was",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One limit at one value: of one agent, or of all that have no value of their own for it."""

    limit: str
    value: object
    """As code works with it."""
    written: SettingValue
    agent: str | None = None
    except_for: frozenset[str] = field(default_factory=frozenset)
    """Agents whose own value goes before a value for all."""

    def concerns(self, agent: str) -> bool:
        return agent == self.agent if self.agent is not None else agent not in self.except_for

    def applied(self, limits: Limits, agent: str) -> Limits:
        """The limits that agent would have been held to."""
        if self.limit == NEED or not self.concerns(agent):
            return limits
        name = "global_message_budget_chars" if self.limit == "message_budget_chars" and self.agent is None else self.limit
        return replace(limits, **{name: self.value})  # type: ignore[arg-type]  # checked by the setting's declaration

    @property
    def path(self) -> str:
        """The setting that would have to be set."""
        if self.limit == NEED:
            return NEED
        return f"limits.{self.limit}" if self.agent is None else f"agents.{self.agent}.limits.{self.limit}"


def knob(name: str) -> str:
    """The limit's own name, with or without `limits.` in front. Raises `UsageError` for what cannot be replayed."""
    short = name.removeprefix("limits.")
    if short in KNOBS:
        return short
    if short in LIMITS:
        why = _NOT_REPLAYED.get(short, "it decides when a call is given up, not what is sent")
        raise UsageError(f"{short} cannot be replayed: {why}", hint=f"these can: {', '.join(KNOBS)}")
    raise UsageError(f"there is no limit {name[:80]!r}{did_you_mean(nearest(short, KNOBS))}", hint=f"these can be replayed: {', '.join(KNOBS)}")


def variant(name: str, text: str, *, agent: str | None, except_for: frozenset[str] = frozenset()) -> Variant:
    """One value of a limit, written as after `settings set`. Raises `UsageError`."""
    limit = knob(name)
    setting = BY_PATH[NEED] if limit == NEED else LIMITS[limit]
    if limit == NEED and agent is not None:
        raise UsageError(f"{NEED} is no limit of an agent", hint="leave out --agent")
    try:
        written = parse_value(setting, text, text=True)
    except ValueError as problem:
        raise UsageError(f"{limit}: {problem}") from problem
    return Variant(limit, python_value(setting, written), written, agent, except_for)


Basis = tuple[Literal["own", "global", "window"], int | None, int]
"""What a budget follows from: the value or the window, and the reserve."""


def basis(limits: Limits, window: int | None) -> Basis:
    """As page 3 looks for it."""
    if limits.message_budget_chars is not None:
        return "own", limits.message_budget_chars, 0
    tokens = limits.context_window_tokens if limits.context_window_tokens is not None else window
    if tokens is not None and tokens > 0:
        return "window", tokens, min(limits.output_reserve_tokens, tokens // 4)
    value = limits.global_message_budget_chars
    return "global", DEFAULT_BUDGET_CHARS if value is None else value, 0
