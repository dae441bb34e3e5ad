"""The one error tree: what went wrong, whether a retry can help, and what the user can do.

EscaleraError                     exit
├── UsageError                    2     a flag, a prompt or a value that cannot be used
│   └── KeyTaken                        an idempotency key that stands for something else
├── ConfigError                   2     a setting, an agent or a file of the configuration
│   └── SecretMissing                   a credential that is named and not there
├── DocumentError                 2     a document that is not what its format says
├── NotFound                      3     no such session, turn or percept
├── Ambiguous                     3     a reference that fits several
├── SessionInUse                  4     another process holds the session
├── QuestionClosed                1     a question that takes no answer any more
├── AnswerInvalid                 2     an answer that does not fit its question, which stays open
├── TaskRuns · TaskEnded           1     a background task that is not over yet, or over already
├── TokenRefused                  2     a continuation token that is forged, expired, or for something else
├── ServerBusy                    1     a server that has as much to do as it takes
├── AnswerAwaited                75     a question that still waits for a human
├── StoreError                    1     the store cannot be read or written
│   ├── StoreTooNew                     written by a newer version
│   ├── StoreReadOnly                   the folder or the file cannot be written
│   ├── StoreFull                       no space left
│   └── LeaseLost                       slept past the lease: another owner went on
├── OutputFailed                  1     what was printed could not be written
├── InternalError                 1     a fault in the program itself
├── PluginError                   2     a provider kind or plugin that is missing or broken
└── ProviderError                 1     the turn failed (page 7)
    ├── AuthFailed · OutOfFunds · PermissionDenied · Blocked
    ├── Transient(retry_after)          a retry can help
    │   └── RateLimited · Overloaded · Unavailable
    ├── TimedOut(which) · Incomplete(partial) · ProtocolError · EmptyAnswer
    ├── ContextOverflow(limit, needed) · InvalidRequest · ModelNotFound
    ├── SessionLost
    ├── Cancelled                 130
    └── BudgetExceeded(parts)
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import ClassVar, Literal


class EscaleraError(Exception):
    """Anything the user is told. `hint` says what to do about it, in one line."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    """Whether the same request may succeed if it is simply sent again (page 7)."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def type(self) -> str:
        """The name of the class, as it stands in documents (page 6)."""
        return type(self).__name__


class UsageError(EscaleraError):
    """A command line or a prompt that cannot be used."""

    exit_code = 2


class KeyTaken(UsageError):
    """An idempotency key under which something else was asked for before."""


class ConfigError(EscaleraError):
    """A value of the configuration that cannot be used; the message names it and its source."""

    exit_code = 2


class SecretMissing(ConfigError):
    """A credential that the configuration names and that cannot be had; the message never holds one."""


class DocumentError(EscaleraError):
    """A document that does not follow its format; the message gives the path of the wrong value."""

    exit_code = 2


class PluginError(EscaleraError):
    """A provider kind that is not installed, or a plugin that does not load."""

    exit_code = 2


class NotFound(EscaleraError):
    """A reference to something that is not there."""

    exit_code = 3


class Ambiguous(EscaleraError):
    """A reference that fits several things; `candidates` lists them."""

    exit_code = 3

    def __init__(self, message: str, *, candidates: Sequence[str], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)


class SessionInUse(EscaleraError):
    """Another process holds the session's lease (page 1)."""

    exit_code = 4


class QuestionClosed(EscaleraError):
    """An answer that came too late, or second; the message names the state in which the question is (page 5)."""


class AnswerInvalid(EscaleraError):
    """Content that does not follow the question's schema. `problems` has each failing field with what it must be."""

    exit_code = 2

    def __init__(self, message: str, *, problems: Mapping[str, str], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = dict(problems)


class TaskRuns(EscaleraError):
    """The result of a background task that has none yet."""


class TaskEnded(EscaleraError):
    """A background task that is over: it cannot be cancelled any more, or has no result."""


class TokenRefused(EscaleraError):
    """A continuation token that is none of ours, has expired, or goes on with something else (page 5)."""

    exit_code = 2


class ServerBusy(EscaleraError):
    """A server that takes no more turns for now."""


class AnswerAwaited(EscaleraError):
    """What was asked for goes on once a human has answered a question that still stands."""

    exit_code = 75


class StoreError(EscaleraError):
    """The store cannot do what it was asked; nothing was half done."""


class StoreTooNew(StoreError):
    """The file was written by a newer version of Escalera."""


class StoreReadOnly(StoreError):
    """The store's folder or file cannot be written."""


class StoreFull(StoreError):
    """There is no space left where the store lies."""


class LeaseLost(StoreError):
    """The session's lease lapsed or was taken over; this owner may write nothing more (page 1)."""


class OutputFailed(EscaleraError):
    """Our own output cannot be written; what was done before stands."""


class InternalError(EscaleraError):
    """Something that no part of the program expects; the log has the details."""


class ProviderError(EscaleraError):
    """A turn that a provider did not complete. `partial` is the text that had come by then."""

    def __init__(self, message: str, *, hint: str | None = None, agent: str | None = None, partial: str = "") -> None:
        super().__init__(message, hint=hint)
        self.agent = agent
        self.partial = partial
        self.affordable_tokens: int | None = None
        """Output tokens that the provider would give, where it complained of being asked for more: the core asks once for so many."""
        self.tools_refused = False
        """Set by a provider that was refused for the tools it offered: the core asks once without them."""
        self.repaired = False
        """Set by a provider that has mended what made the call fail, each thing at most once a turn: the same request may
        be sent again at once, within the limit of sends (page 7, Retries).
        """
        self.own_retries = 0
        """How often the agent's own program had sent it again before it gave up: each counts among the turn's."""
        self.final = False
        """Set by a provider that knows a repeat within moments to be in vain, and not when it would not be: nothing is sent again (page 7, Retries)."""
        self.emitted = False
        """Set by a provider to which something of the answer had come that no event told of, such as a part of a tool call or hidden
        reasoning: nothing is sent again then, as after an event of the answer (page 7, Retries).
        """


class AuthFailed(ProviderError):
    """401, 403 or expired credentials."""


class OutOfFunds(ProviderError):
    """402, or a text about credit."""


class Transient(ProviderError):
    """A failure that may pass by itself; `retry_after` in seconds when the provider named a time."""

    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None, hint: str | None = None, agent: str | None = None, partial: str = "") -> None:
        super().__init__(message, hint=hint, agent=agent, partial=partial)
        self.retry_after = retry_after


class RateLimited(Transient):
    """429 or throttling."""


class Overloaded(Transient):
    """The provider has no capacity at the moment (529, 503 with that text)."""


class Unavailable(Transient):
    """Refused, not resolved, reset, or a 5xx."""


class TimedOut(ProviderError):
    """A timer of ours ended the call; the request may still be running and billed."""

    def __init__(
        self, message: str, *, which: Literal["first_byte", "idle", "turn"], hint: str | None = None, agent: str | None = None, partial: str = ""
    ) -> None:
        super().__init__(message, hint=hint, agent=agent, partial=partial)
        self.which = which


class ContextOverflow(ProviderError):
    """The model's window is too small; `limit` and `needed` in tokens when the provider said them."""

    def __init__(
        self, message: str, *, limit: int | None = None, needed: int | None = None, hint: str | None = None, agent: str | None = None, partial: str = ""
    ) -> None:
        super().__init__(message, hint=hint, agent=agent, partial=partial)
        self.limit = limit
        self.needed = needed


class InvalidRequest(ProviderError):
    """The provider refused the request as malformed; sending it again cannot help."""


class ModelNotFound(ProviderError):
    """The provider does not know the model."""


class SessionLost(ProviderError):
    """The agent no longer has, or can no longer go on with, the conversation it was asked to resume.

    `sent` says whether the request got as far as the model: a conversation that was not even found cost nothing.
    """

    def __init__(self, message: str, *, sent: bool = True, hint: str | None = None, agent: str | None = None, partial: str = "") -> None:
        super().__init__(message, hint=hint, agent=agent, partial=partial)
        self.sent = sent


class PermissionDenied(ProviderError):
    """Something the agent needed was refused."""


class Blocked(ProviderError):
    """A filter, a guardrail or a refusal stopped the answer."""


class EmptyAnswer(ProviderError):
    """The answer ended properly and held nothing."""


class Incomplete(ProviderError):
    """The answer ended without its end marker; what came is kept as `partial`, never as an answer."""


class ProtocolError(ProviderError):
    """The backend spoke something that is not its protocol."""


class Cancelled(ProviderError):
    """The user, or the end of the lease, cancelled the turn."""

    exit_code = 130


class BudgetExceeded(ProviderError):
    """What is never dropped is larger than the budget: nothing was sent or, in a tool loop, nothing more (page 3).

    `parts` are the sizes in characters, `limit` the budget.
    """

    def __init__(self, message: str, *, parts: Mapping[str, int], limit: int, hint: str | None = None, agent: str | None = None) -> None:
        super().__init__(message, hint=hint, agent=agent)
        self.parts = dict(parts)
        self.limit = limit


def foreign(error: BaseException) -> str:
    """What code of strangers raised, and where, as `ValueError in FILE, line N`; not what it said, which may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {PurePath(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
