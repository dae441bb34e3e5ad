"""The error document: what a command prints with `--json` when no turn came to be (page 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import Ambiguous, AnswerInvalid, BudgetExceeded, ContextOverflow, EscaleraError, ProviderError, TimedOut, Transient

if TYPE_CHECKING:
    from orchestrator.documents.kinds.turns import ErrorDocument, ErrorObject


def error_document(error: EscaleraError) -> ErrorDocument:
    """`{"format", "error": {"type", "message", "hint", …}}`."""
    return {"format": "escalera.error/1", "error": error_object(error)}


def error_object(error: EscaleraError) -> ErrorObject:
    """The error alone, as it stands in turn and error documents; fields beyond the first six where the class has them."""
    fields: ErrorObject = {
        "type": error.type,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        "agent": error.agent if isinstance(error, ProviderError) else None,
        "retry_after": error.retry_after if isinstance(error, Transient) else None,
    }
    match error:
        case TimedOut():
            fields["which"] = error.which
        case ContextOverflow():
            fields["limit"], fields["needed"] = error.limit, error.needed
        case BudgetExceeded():
            fields["limit"], fields["parts"] = error.limit, error.parts
        case AnswerInvalid():
            fields["problems"] = error.problems
        case Ambiguous():
            fields["candidates"] = list(error.candidates)
    return fields
