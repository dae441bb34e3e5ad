"""The error document: what a command prints with `--json` when no turn came to be (page 6)."""

from __future__ import annotations

from typing import Any

from orchestrator.errors import Ambiguous, BudgetExceeded, ContextOverflow, EscaleraError, ProviderError, TimedOut, Transient


def error_document(error: EscaleraError) -> dict[str, Any]:
    """`{"format", "error": {"type", "message", "hint", …}}`."""
    return {"format": "escalera.error/1", "error": error_object(error)}


def error_object(error: EscaleraError) -> dict[str, Any]:
    """The error alone, as it stands in turn and error documents; fields beyond the first four where the class has them."""
    fields: dict[str, Any] = {"type": error.type, "message": error.message, "hint": error.hint, "retryable": error.retryable}
    if isinstance(error, ProviderError):
        fields["agent"] = error.agent
    match error:
        case Transient():
            fields["retry_after"] = error.retry_after
        case TimedOut():
            fields["which"] = error.which
        case ContextOverflow():
            fields |= {"limit": error.limit, "needed": error.needed}
        case BudgetExceeded():
            fields |= {"limit": error.limit, "parts": error.parts}
        case Ambiguous():
            fields["candidates"] = list(error.candidates)
    return fields
