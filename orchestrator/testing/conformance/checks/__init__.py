"""The checks, by capability. Each is a function that raises `Fault` with what it found, or `NotClaimed`."""

from __future__ import annotations

from orchestrator.testing.conformance.checks import (
    cancelling,
    conversations,
    errors,
    openings,
    programs,
    secrets,
    streaming,
    timers,
    tools,
    truncation,
    turns_at_once,
    usage,
)
from orchestrator.testing.conformance.checks.check import Check

CHECKS: tuple[Check, ...] = (
    *streaming.CHECKS,
    *tools.CHECKS,
    *conversations.CHECKS,
    *cancelling.CHECKS,
    *timers.CHECKS,
    *errors.CHECKS,
    *usage.CHECKS,
    *truncation.CHECKS,
    *secrets.CHECKS,
    *programs.CHECKS,
    *openings.CHECKS,
    *turns_at_once.CHECKS,
)
"""In the order in which they are run and told."""
