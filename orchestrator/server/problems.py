"""Errors as the server answers them: problem details (RFC 9457) that are our error documents as well, and what clients of models expect in them."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import HTTPException
from starlette.responses import Response

from orchestrator import errors
from orchestrator.documents.error import error_object
from orchestrator.errors import EscaleraError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.documents.kinds.turns import ProblemDocument

JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
NO_STORE = {"cache-control": "no-store"}

_STATUS: Mapping[type[EscaleraError], int] = {
    errors.NotFound: 404,
    errors.Ambiguous: 409,
    errors.SessionInUse: 409,
    errors.QuestionClosed: 409,
    errors.TaskRuns: 409,
    errors.TaskEnded: 409,
    errors.AnswerAwaited: 409,
    errors.AnswerInvalid: 422,
    errors.KeyTaken: 422,
    errors.UsageError: 400,
    errors.DocumentError: 400,
    errors.ConfigError: 400,
    errors.TokenRefused: 403,
    errors.ServerBusy: 503,
    errors.StoreFull: 507,
    errors.StoreError: 503,
    errors.BudgetExceeded: 413,
    errors.ContextOverflow: 413,
    errors.RateLimited: 429,
    errors.Overloaded: 503,
    errors.TimedOut: 504,
    errors.Blocked: 422,
    errors.Cancelled: 409,
    errors.ProviderError: 502,
}
"""By the nearest class; a turn's error is answered so where the answer is to be a model's."""

_CODES: Mapping[type[EscaleraError], str] = {
    errors.BudgetExceeded: "context_length_exceeded",
    errors.ContextOverflow: "context_length_exceeded",
    errors.RateLimited: "rate_limit_exceeded",
    errors.Blocked: "content_filter",
}
"""What clients of models look for, where they have a word of their own."""


class Refused(HTTPException):
    """A request that HTTP alone refuses: no error of the product's, so none of its classes."""

    def __init__(self, status: int, message: str, *, hint: str | None = None, code: str | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.hint, self.code = hint, code


def json_response(document: Any, status: int = 200, *, headers: Mapping[str, str] | None = None, media_type: str = JSON_TYPE) -> Response:  # any document
    """A document as a response that no cache keeps (page 5: its lifetime is as of now)."""
    return Response(encoded(document), status, headers={**NO_STORE, **(headers or {})}, media_type=media_type)


def encoded(document: Any) -> bytes:  # any document
    """As JSON in UTF-8; a text that is no text in UTF-8 stands escaped."""
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode()


def status_of(error: EscaleraError) -> int:
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def problem(error: EscaleraError, *, status: int | None = None) -> Response:
    """An error of the product's. A client is not to send the same again by itself: whatever could help was tried."""
    code = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), None)
    status = status or status_of(error)
    document: ProblemDocument = {
        "format": "escalera.error/1",
        "type": f"urn:escalera:error:{error.type}",
        "title": error.type,
        "status": status,
        "detail": error.message,
        "error": {**error_object(error), "code": code, "param": None},
    }
    headers = {"x-should-retry": "false"}
    if isinstance(error, errors.Transient) and error.retry_after is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    return json_response(document, status, headers=headers, media_type=PROBLEM_TYPE)


def refusal(status: int, message: str, *, hint: str | None = None, code: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """What HTTP alone refuses."""
    document: ProblemDocument = {
        "format": "escalera.error/1",
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": message,
        "error": {
            "type": "UsageError",
            "message": message,
            "hint": hint,
            "retryable": False,
            "agent": None,
            "retry_after": None,
            "code": code,
            "param": None,
        },
    }
    return json_response(document, status, headers={"x-should-retry": "false", **(headers or {})}, media_type=PROBLEM_TYPE)


def refused(error: HTTPException) -> Response:
    """The same, from where it was raised."""
    hint, code = (error.hint, error.code) if isinstance(error, Refused) else (None, None)
    return refusal(error.status_code, str(error.detail), hint=hint, code=code, headers=error.headers)
