"""Whether a turn succeeded, and if not, which error it is: the one table (page 7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from escalera_claude_cli.limits import USAGE_LIMIT, seconds_until_reset
from escalera_claude_cli.lines import Line
from escalera_claude_cli.transcript import Transcript
from orchestrator.errors import (
    AuthFailed,
    Blocked,
    ContextOverflow,
    EmptyAnswer,
    Incomplete,
    InvalidRequest,
    ModelNotFound,
    OutOfFunds,
    Overloaded,
    PermissionDenied,
    ProviderError,
    RateLimited,
    SessionLost,
    Unavailable,
)
from orchestrator.providers import Finished

LOGIN_HINT = "run `claude` and log in with /login, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"

Kind = Literal["auth", "funds", "rate", "overloaded", "unavailable", "overflow", "invalid", "model", "lost", "denied", "incomplete", "blocked"]

TEXTS: tuple[tuple[str, Kind], ...] = (
    (r"no conversation found with session id", "lost"),
    (r"credit balance is too low|out of (?:extra )?usage credits|billing", "funds"),
    (USAGE_LIMIT, "rate"),
    (r"prompt is too long|context (?:window|length)|exceeds? the (?:maximum|context)|conversation is too long|request too large", "overflow"),
    (r"not logged in|please run /login|invalid api key|authentication|oauth token (?:has )?(?:expired|revoked)|unauthori[sz]ed", "auth"),
    (r"issue with the selected model|model[^.\n]{0,80}not[ _]found|not_found_error[^\n]{0,80}model", "model"),
    (r"overloaded|at capacity", "overloaded"),
    (r"rate.?limit|too many requests|throttl", "rate"),
    (r"usage policy|content filter|unable to respond to this request", "blocked"),
    (r"internal server error|connection error|connection refused|econnre|enotfound|etimedout|fetch failed|service unavailable|bad gateway", "unavailable"),
    (r"session id .{0,80} is already in use|inside another claude code session|unknown option|invalid (?:argument|session id|mcp config)", "invalid"),
)
"""What texts tell, the more particular first. A status or a name of the CLI's goes before them, but for what a plain 400 hides."""

BY_STATUS: dict[int, Kind] = {
    **{401: "auth", 402: "funds", 403: "auth", 404: "model", 408: "unavailable", 413: "overflow", 422: "invalid"},
    **{429: "rate", 529: "overloaded"},
}

BY_OWN_ERROR: dict[str, Kind] = {
    **{"authentication_failed": "auth", "oauth_org_not_allowed": "auth", "billing_error": "funds", "rate_limit": "rate", "overloaded": "overloaded"},
    **{"model_not_found": "model", "server_error": "unavailable", "max_output_tokens": "incomplete"},
}
"""By the `error` of the event that the CLI wrote in the place of an answer; `invalid_request` and `unknown` tell nothing by themselves."""

BY_TERMINAL_REASON: dict[str, Kind] = {
    **{"prompt_too_long": "overflow", "blocking_limit": "overflow", "image_error": "invalid", "stop_hook_prevented": "denied", "hook_stopped": "denied"},
    **{"max_turns": "incomplete", "aborted_streaming": "incomplete"},
}

HIDDEN_IN_400: tuple[Kind, ...] = ("funds", "overflow", "lost")
"""What the API answers with a plain 400, so that only the text tells it."""

ENDED_BY_SIGNAL = 128
"""Exit codes from here on tell of a signal, as a shell does; the lower ones are the program's own."""

STATUS_IN_TEXT = re.compile(r"api error:?\s*(?:request rejected\s*)?\(?([45]\d\d)\b", re.IGNORECASE)
"""Older versions name the status only here."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn's process ended, and what it was asked for."""

    exit_code: int | None
    stderr: str
    resumed: bool
    agent: str
    now: float
    """Seconds since 1970, against which the time of a reset is counted."""


def judge(transcript: Transcript, ending: Ending) -> Finished:
    """The proper end of a turn, or its error raised. `is_error` decides; the subtype says `success` for failures, and exit codes lie."""
    result = transcript.result
    if result is None:
        raise _without_result(transcript, ending)
    stop_reason = result.get("stop_reason")
    if result.get("is_error") is not False:
        raise _failed(transcript, ending)
    if stop_reason == "refusal":
        raise Blocked("the model refused to answer", agent=ending.agent, partial=transcript.partial)
    if not _answer(transcript):
        if stop_reason == "tool_use":
            raise Incomplete("Claude Code stopped in the middle of its work, before it had answered", agent=ending.agent, partial=transcript.partial)
        if not transcript.tool_calls and not transcript.partial:
            raise _empty(transcript, ending)
    if stop_reason in ("max_tokens", "model_context_window_exceeded"):
        hint = "raise CLAUDE_CODE_MAX_OUTPUT_TOKENS in the agent's env, or ask for less at once"
        raise Incomplete("the output limit cut the answer", agent=ending.agent, partial=transcript.partial, hint=hint)
    return Finished("stop", transcript.model)


def _failed(transcript: Transcript, ending: Ending) -> ProviderError:
    text = _error_text(transcript, ending)
    return _error(_kind(transcript, text, resumed=ending.resumed), text, transcript, ending)


def _kind(transcript: Transcript, text: str, *, resumed: bool) -> Kind:
    """The first that knows: what a plain 400 hides, the status, the CLI's own word, the terminal reason, the text."""
    result = transcript.result or {}
    status, by_text = _status(result.get("api_error_status"), text), _by_text(text)
    hidden = by_text if status in (None, 400) and by_text in HIDDEN_IN_400 else None
    return (
        hidden
        or _by_status(status, by_text, own_error=transcript.own_error, resumed=resumed)
        or _by_own_error(transcript.own_error, by_text)
        or _by_terminal_reason(result)
        or by_text
        or "unavailable"
    )


def _by_status(status: int | None, by_text: Kind | None, *, own_error: str | None, resumed: bool) -> Kind | None:
    if status is None or own_error == "billing_error":
        return None
    if status == 400:  # on resume: the conversation can be found, and never continued
        return "lost" if resumed else "invalid"
    if status >= 500 and status not in BY_STATUS:
        return "overloaded" if by_text == "overloaded" else "unavailable"
    return BY_STATUS.get(status, "invalid")


def _by_own_error(own_error: str | None, by_text: Kind | None) -> Kind | None:
    kind = BY_OWN_ERROR.get(own_error or "")
    return "overloaded" if kind == "unavailable" and by_text == "overloaded" else kind


def _by_terminal_reason(result: Line) -> Kind | None:
    reason = result.get("terminal_reason")
    if reason == "aborted_tools":
        return "denied" if result.get("permission_denials") else "incomplete"
    return BY_TERMINAL_REASON.get(reason) if isinstance(reason, str) else None


def _without_result(transcript: Transcript, ending: Ending) -> ProviderError:
    """No result line: incomplete, whatever the exit code – but for a program that said why it could not begin."""
    text = _error_text(transcript, ending)
    kind = None if transcript.answered else _by_text(text)
    if kind is None and not transcript.said_anything and 0 < (ending.exit_code or 0) < ENDED_BY_SIGNAL:
        kind = "invalid"
    if kind:
        return _error(kind, f"claude ended with exit code {ending.exit_code}: {text or 'it said nothing'}", transcript, ending)
    how = "was still there" if ending.exit_code is None else f"exit code {ending.exit_code}"
    tail = f": {text}" if text else ""
    return Incomplete(f"Claude Code's output ended without its result line ({how}){tail}", agent=ending.agent, partial=transcript.partial)


def _empty(transcript: Transcript, ending: Ending) -> EmptyAnswer:
    told = _last_lines(ending.stderr) or _last_lines(transcript.noise)
    return EmptyAnswer(f"Claude Code answered nothing{f': {told}' if told else ''}", agent=ending.agent)


def _error(kind: Kind, text: str, transcript: Transcript, ending: Ending) -> ProviderError:
    agent, partial = ending.agent, transcript.partial
    if kind == "rate":
        return RateLimited(text, retry_after=seconds_until_reset(text, transcript.rejected_until, ending.now), agent=agent, partial=partial)
    if kind == "overflow":
        return _overflow(text, ending, partial)
    if kind == "lost":
        return SessionLost(text, sent=_status((transcript.result or {}).get("api_error_status"), text) is not None, agent=agent, partial=partial)
    error, hint = ERRORS[kind]
    return error(text, hint=hint, agent=agent, partial=partial)


ERRORS: dict[Kind, tuple[Callable[..., ProviderError], str | None]] = {
    "auth": (AuthFailed, LOGIN_HINT),
    "funds": (OutOfFunds, "add credit to the account that `claude` uses, or choose another agent"),
    "overloaded": (Overloaded, None),
    "unavailable": (Unavailable, None),
    "invalid": (InvalidRequest, None),
    "model": (ModelNotFound, "name a model that the account may use in the agent's `model`"),
    "denied": (PermissionDenied, "list what it may do in the agent's `allowed_tools`"),
    "incomplete": (Incomplete, None),
    "blocked": (Blocked, None),
}


def _overflow(text: str, ending: Ending, partial: str) -> ProviderError:
    """Too long. On a resumed conversation there is no history of ours to make shorter: it is given up like a lost one."""
    if ending.resumed:
        return SessionLost(f"the agent's own conversation no longer fits its model: {text}", agent=ending.agent, partial=partial)
    needed, limit = _number(r"~?(\d{4,}) tokens", text), _number(r"(?:limit|>)\s*(\d{4,})", text)
    return ContextOverflow(text, limit=limit, needed=needed, agent=ending.agent, partial=partial)


def _status(field: object, text: str) -> int | None:
    if isinstance(field, int) and not isinstance(field, bool):
        return field
    return _number(STATUS_IN_TEXT, text)


def _by_text(text: str) -> Kind | None:
    return next((kind for pattern, kind in TEXTS if re.search(pattern, text, re.IGNORECASE)), None)


def _number(pattern: str | re.Pattern[str], text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _answer(transcript: Transcript) -> str:
    answer = (transcript.result or {}).get("result")
    return answer.strip() if isinstance(answer, str) else ""


def _error_text(transcript: Transcript, ending: Ending) -> str:
    """The provider's own words: those of the result, else of the synthetic event, of stderr, of stray lines."""
    errors = (transcript.result or {}).get("errors")
    listed = "; ".join(error for error in errors if isinstance(error, str)) if isinstance(errors, list) else ""
    return _answer(transcript) or listed or transcript.own_text or _last_lines(ending.stderr) or _last_lines(transcript.noise)


def _last_lines(text: str) -> str:
    return text.strip()[-2000:]
