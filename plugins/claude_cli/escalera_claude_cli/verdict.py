"""Whether a turn succeeded, and if not, which error it is: the one table (page 7)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from escalera_claude_cli.limits import USAGE_LIMIT, seconds_until_reset
from escalera_claude_cli.lines import Line
from escalera_claude_cli.transcript import CUT, Transcript, announced_wait, is_named, told_cause
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
    TimedOut,
    Transient,
    Unavailable,
)
from orchestrator.providers import Finished
from orchestrator.retry_after import wait_in_words

LOGIN_HINT = "run `claude` and log in with /login, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"

CUT_SHORT = r"response above may be incomplete|(?:connection closed|response stalled) (?:mid-|while )"
"""Words for a stream that was cut behind a whole block; the `error` beside them says that the server failed."""

Kind = Literal[
    "auth", "funds", "budget", "rate", "late", "overloaded", "unavailable", "overflow", "invalid", "model", "lost", "denied", "incomplete", "blocked"
]


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of failure: the error it becomes, and all that tells it."""

    kind: Kind
    error: type[ProviderError]
    hint: str | None = None
    status: tuple[int, ...] = ()
    """HTTP statuses, in the field `api_error_status` or in the text."""
    own: tuple[str, ...] = ()
    """The `error` of the event that the CLI wrote in the place of an answer; `invalid_request` and `unknown` tell nothing by themselves."""
    reason: tuple[str, ...] = ()
    """The `terminal_reason` of the result line."""
    subtype: tuple[str, ...] = ()
    """The `subtype` of the result line: what a version says that does not give the reason, or not as an error."""
    text: str | None = None
    """What the words say; the first row that matches counts."""


TABLE = (
    Row("lost", SessionLost, text=r"no conversation found with session id"),
    Row(
        *("funds", OutOfFunds, "add credit to the account that `claude` uses, or choose another agent"),
        status=(402,),
        own=("billing_error",),
        text=r"credit balance is too low|out of (?:extra )?usage credits|billing",
    ),
    Row("budget", OutOfFunds, "raise the budget that its options set (`--max-budget-usd`), or go on without it", subtype=("error_max_budget_usd",)),
    Row("rate", RateLimited, text=USAGE_LIMIT),
    Row(
        *("overflow", ContextOverflow),
        status=(413,),
        reason=("prompt_too_long", "blocking_limit"),
        text=r"prompt is too long|context (?:window|length)|exceeds? (?:the (?:maximum|context)|context limit)|conversation is too long|request too large",
    ),
    Row(
        *("auth", AuthFailed, LOGIN_HINT),
        status=(401, 403),
        own=("authentication_failed", "oauth_org_not_allowed"),
        text=r"not logged in|please run /login|invalid api key|authentication|oauth token (?:has )?(?:expired|revoked)|unauthori[sz]ed",
    ),
    Row(
        *("model", ModelNotFound, "name a model that the account may use in the agent's `model`"),
        status=(404,),
        own=("model_not_found",),
        text=r"issue with the selected model|model identifier is invalid|model[^.\n]{0,80}not[ _]found|not_found_error[^\n]{0,80}model",
    ),
    Row("overloaded", Overloaded, status=(529,), own=("overloaded",), text=r"overloaded|at capacity"),
    Row("rate", RateLimited, status=(429,), own=("rate_limit",), text=r"rate.?limit|too many requests|throttl"),
    Row("late", TimedOut, "ask for less at once, or use another agent", status=(408,)),
    Row("blocked", Blocked, text=r"usage policy|content filter|unable to respond to this request"),
    Row(
        *("unavailable", Unavailable),
        status=(*range(500, 529), *range(530, 1000)),
        own=("server_error",),
        text=r"internal server error|connection error|connection refused|econnre|enotfound|etimedout|fetch failed|service unavailable|bad gateway",
    ),
    Row(
        *("invalid", InvalidRequest),
        status=(400, 422),  # and any other; but 400 on resume is `lost`
        reason=("image_error",),
        text=r"session id .{0,80} is already in use|inside another claude code session|unknown option|invalid (?:argument|session id|mcp config)",
    ),
    Row("denied", PermissionDenied, "list what it may do in the agent's `allowed_tools`", reason=("stop_hook_prevented", "hook_stopped")),
    Row(
        *("incomplete", Incomplete),
        own=("max_output_tokens",),
        reason=("max_turns", "aborted_streaming"),
        subtype=("error_max_turns", "error_max_structured_output_retries"),
        text=CUT_SHORT,
    ),
)
"""From what Claude Code tells to our errors. What a plain 400 hides goes first, then status, own word, reason and subtype, text; else it is unavailable."""

GAVE_UP_HINT = "try again later: Claude Code gave up at once, as it does when it is told to wait for more than a minute, and it does not say how long"

HIDDEN_IN_400: tuple[Kind, ...] = ("funds", "overflow", "lost", "model")
"""What the API answers with a plain 400, so that only the text tells it."""

WHOLE = ("end_turn", "stop_sequence", "tool_use")
"""Why an answer stops that is whole; what else there is but `CUT` and a refusal is told as a notice."""

ENDED_BY_SIGNAL = 128
"""Exit codes from here on tell of a signal, as a shell does; the lower ones are the program's own."""

STATUS_IN_TEXT = re.compile(r"api error(?: \([^()\n]{1,200}\))?:?\s*(?:request rejected\s*)?\(?([45]\d\d)\b", re.IGNORECASE)
"""Older versions name the status only here, some of them behind the model."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn's process ended, and what it was asked for."""

    exit_code: int | None
    stderr: str
    resumed: bool
    agent: str
    now: float
    """Seconds since 1970, against which the time of a reset is counted."""
    repeats: int = 0
    """How often the CLI may have sent a refused request again, as far as we bound it."""


def judge(transcript: Transcript, ending: Ending) -> Finished:
    """The proper end of a turn, or its error raised. `is_error` decides, or a subtype that names an error; it says `success` for failures, too."""
    result = transcript.result
    if result is None:
        raise _without_result(transcript, ending)
    stop_reason = result.get("stop_reason")
    if result.get("is_error") is not False or str(result.get("subtype")).startswith("error"):
        raise _failed(transcript, ending)
    if transcript.broke_off:
        raise Incomplete("the answer broke off before its end", agent=ending.agent, partial=transcript.partial, hint="try again")
    if stop_reason == "refusal":
        raise Blocked("the model refused to answer", agent=ending.agent, partial=transcript.partial)
    if not _answer(transcript):
        if stop_reason == "tool_use":
            raise Incomplete("Claude Code stopped in the middle of its work, before it had answered", agent=ending.agent, partial=transcript.partial)
        if not transcript.tool_calls and not transcript.partial:
            raise _empty(transcript, ending)
    if stop_reason in CUT:
        hint = "raise CLAUDE_CODE_MAX_OUTPUT_TOKENS in the agent's env, or ask for less at once"
        raise Incomplete("the output limit cut the answer", agent=ending.agent, partial=transcript.partial, hint=hint)
    return Finished("stop" if _is_known(result, transcript) else "other", transcript.served)


def refused_wait(line: Line, transcript: Transcript, *, longest: float | None, agent: str, renews_login: bool) -> ProviderError | None:
    """The error that an announced repeat is at once: a time-out, a login that it cannot renew, or a named wait above `longest` seconds (page 7, Retries).

    What a server names comes in whole seconds; the CLI's own wait, which nobody asked for, in odd ones; of two it takes the longer.
    """
    if not is_announced_repeat(line):
        return None
    row, cause = _announced_row(line), told_cause(line)
    if row.kind in ("model", "late") or (row.kind == "auth" and not renews_login):
        return _of_row(row, f"the request was refused: {cause}", agent, transcript.partial)
    wait = announced_wait(line)
    if longest is None or wait <= longest or not is_named(wait):
        return None
    error = row.error if issubclass(row.error, Transient) else Unavailable
    return error(f"the request was refused ({cause}), to be asked again in {wait:.0f} s", retry_after=wait, agent=agent, partial=transcript.partial)


def is_announced_repeat(line: Line) -> bool:
    """Whether the CLI says that it sends a refused request again, once it has waited."""
    return line.get("type") == "system" and line.get("subtype") == "api_retry"


def spent(line: Line, transcript: Transcript, agent: str) -> Transient:
    """The error that an announced repeat is where the turn may have no more of them."""
    row, wait = _announced_row(line), announced_wait(line)
    error = row.error if issubclass(row.error, Transient) else Unavailable
    retry_after = wait if is_named(wait) else transcript.named_wait
    return error(f"the request was refused ({told_cause(line)})", retry_after=retry_after, agent=agent, partial=transcript.partial)


def _announced_row(line: Line) -> Row:
    own_error = line.get("error") if isinstance(line.get("error"), str) else None
    kind = _by_status(_status(line.get("error_status"), ""), None, own_error=own_error, resumed=False) or _by_own_error(own_error, None) or "unavailable"
    return next(row for row in TABLE if row.kind == kind)


def _is_known(result: Line, transcript: Transcript) -> bool:
    """Whether the reason to end is one that ends an answer. What was not streamed, such as the CLI's own words, needs none."""
    reason = result.get("stop_reason")
    return reason in WHOLE if reason is not None else not transcript.streamed or "stop_reason" not in result


def _failed(transcript: Transcript, ending: Ending) -> ProviderError:
    text = _error_text(transcript, ending)
    error = _error(_kind(transcript, text, resumed=ending.resumed), text, transcript, ending)
    if isinstance(error, Transient) and error.retry_after is None and _gave_up(transcript, ending):
        error.final, error.hint = True, GAVE_UP_HINT
    return error


def _gave_up(transcript: Transcript, ending: Ending) -> bool:
    """Whether the CLI did not send a refused request again although it might have: it does not wait for longer than a minute, nor against a server's word."""
    status = (transcript.result or {}).get("api_error_status")
    return _status(status, "") is not None and transcript.refusals < ending.repeats


def _kind(transcript: Transcript, text: str, *, resumed: bool) -> Kind:
    """The first that knows: what a plain 400 hides, an answer that broke off, the status, the CLI's own word, the terminal reason, the text."""
    result = transcript.result or {}
    status, by_text = _status(result.get("api_error_status"), text), _by_text(text)
    hidden = by_text if status in (None, 400) and by_text in HIDDEN_IN_400 else None
    cut_short: Kind | None = "incomplete" if status is None and by_text == "incomplete" else None
    return (
        hidden
        or cut_short
        or _by_status(status, by_text, own_error=transcript.own_error, resumed=resumed)
        or _by_own_error(transcript.own_error, by_text)
        or _by_reason(result)
        or by_text
        or "unavailable"
    )


def _by_status(status: int | None, by_text: Kind | None, *, own_error: str | None, resumed: bool) -> Kind | None:
    if status is None or own_error == "billing_error":
        return None
    if status == 400:  # on resume: the conversation can be found, and never continued
        return "lost" if resumed else "invalid"
    kind: Kind | None = next((row.kind for row in TABLE if status in row.status), None)
    return _more_exactly(kind or "invalid", by_text)


def _by_own_error(own_error: str | None, by_text: Kind | None) -> Kind | None:
    kind = next((row.kind for row in TABLE if own_error in row.own), None)
    return _more_exactly(kind, by_text)


def _more_exactly(kind: Kind | None, by_text: Kind | None) -> Kind | None:
    """An overload may come under the status and the name of any failure of a server."""
    return "overloaded" if kind == "unavailable" and by_text == "overloaded" else kind


def _by_reason(result: Line) -> Kind | None:
    reason, subtype = result.get("terminal_reason"), result.get("subtype")
    if reason == "aborted_tools":
        return "denied" if result.get("permission_denials") else "incomplete"
    return next((row.kind for row in TABLE if reason in row.reason or subtype in row.subtype), None)


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
        wait = seconds_until_reset(text, transcript.rejected_until, ending.now)
        return RateLimited(text, retry_after=wait_in_words(text) if wait is None else wait, agent=agent, partial=partial)
    if kind == "overflow":
        return _overflow(text, ending, partial)
    if kind == "lost":
        return SessionLost(text, sent=_status((transcript.result or {}).get("api_error_status"), text) is not None, agent=agent, partial=partial)
    row = next(row for row in TABLE if row.kind == kind)
    return _of_row(row, text, agent, partial)


def _of_row(row: Row, text: str, agent: str, partial: str) -> ProviderError:
    if row.error is TimedOut:  # the server's own limit, of the whole answer
        return TimedOut(text, which="turn", hint=row.hint, agent=agent, partial=partial)
    return row.error(text, hint=row.hint, agent=agent, partial=partial)


def _overflow(text: str, ending: Ending, partial: str) -> ProviderError:
    """Too long. On a resumed conversation there is no history of ours to make shorter: it is given up like a lost one."""
    if ending.resumed:
        return SessionLost(f"the agent's own conversation no longer fits its model: {text}", agent=ending.agent, partial=partial)
    needed, limit = _number(r"~?(\d{4,}) tokens", text), _number(r"(?:limit|>)\s*(\d{4,})", text)
    return ContextOverflow(text, limit=limit, needed=needed, agent=ending.agent, partial=partial)


def _status(field: object, text: str) -> int | None:
    if isinstance(field, int | str) and not isinstance(field, bool) and re.fullmatch(r"[1-9]\d\d", str(field)):
        return int(field)
    return _number(STATUS_IN_TEXT, text)


def _by_text(text: str) -> Kind | None:
    return next((row.kind for row in TABLE if row.text is not None and re.search(row.text, text, re.IGNORECASE)), None)


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
