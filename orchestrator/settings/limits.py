"""The limits that one agent is held to: the global ones, with the agent's own laid over them (page 6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Resolved values for one agent. Durations are seconds; `None` stands for `unlimited` where the setting's help allows it."""

    returning_fresh_start_local_turns: int = 8
    """0 = never by turn count."""
    message_budget_chars: int | None = None
    """Characters; `None` = unset (the context window or 100,000 decides), 0 = no limit."""
    global_message_budget_chars: int | None = None
    """The `[limits]` value, which counts only where the agent has neither its own nor a known window (page 3)."""
    context_window_tokens: int | None = None
    output_reserve_tokens: int = 4096
    context_budget_chars: int | None = 12000
    """Characters of each digest; `None` = unlimited."""
    percept_inject_max: int | None = 25
    percept_inject_max_bytes: int | None = 2048
    percept_relevance_gate: bool = True
    max_tool_iterations: int | None = 20
    tool_result_max_chars: int | None = 8000
    first_byte_timeout: float | None = 60.0
    idle_timeout: float | None = 120.0
    turn_timeout: float | None = 600.0
    retry_attempts: int = 3
    retry_max_wait: float = 60.0
