"""The environment a `claude` child gets: the user's own, without what belongs to others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from escalera_claude_cli.options import ClaudeOptions
from orchestrator.providers import SESSION_MARK, STORE_MARK

OUTER_SESSION = frozenset(
    {
        *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_PARENT_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION"),
        *("CLAUDE_CODE_SESSION_ACCESS_TOKEN", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_TASK_LIST_ID", "CLAUDE_CODE_TEAM_NAME"),
        *("CLAUDE_CODE_AGENT_NAME", "CLAUDE_CODE_AGENT_ID", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_EFFORT", "AI_AGENT"),
        *("CLAUDE_CODE_REMOTE", "CLAUDE_CODE_REMOTE_SESSION_ID", "CLAUDE_CODE_TMUX_SESSION", "CLAUDE_CODE_SESSION_LOG", "CLAUDE_SESSION_ID"),
        *("CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR", "CLAUDE_CODE_SESSION_KIND", "CLAUDE_CODE_SESSION_NAME"),
    }
)
"""What Claude Code sets for its own children. With these a child refuses to start, or takes itself for a part of the outer session."""

LOGINS = ("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
"""What logs it in; it takes the first of them that is set."""

CREDENTIALS = (*LOGINS, "CLAUDE_CODE_OAUTH_REFRESH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_CUSTOM_HEADERS")
"""What Claude Code takes from the environment to sign in with: its own, also where another agent is given the same."""

BACKENDS = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
"""What says that it works through somebody else's cloud, with the login of that."""

CONVERSATION_MARK = "_ESCALERA_EXTERNAL_SESSION"
"""By this one and the session's the processes of a turn are found again when nothing else leads to them."""

_SECRET_NAME = re.compile(r"key|token|secret|passw|auth|cookie|credential|headers", re.IGNORECASE)
_SHORTEST_SECRET = 4

MAX_RETRIES = "CLAUDE_CODE_MAX_RETRIES"
NO_SECOND_WAY = "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK"
"""Switched on, the CLI does not ask again, without streaming, for an answer whose stream broke."""


LOG = "CLAUDE_CODE_DEBUG_LOGS_DIR"
"""The file, in spite of its name, that the CLI writes its log to."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What the CLI may send again by itself. It counts by request: a stream is up to three of them, lost or overloaded before its first event, and the
    second way is one more."""

    refused: int
    """Retries of a request that was refused, each announced; its default waits for minutes."""
    broken: bool
    """Whether it may ask again for an answer that broke off: once one has begun, only the CLI can repeat it."""

    def variables(self) -> dict[str, str]:
        """What tells the child of it."""
        return {MAX_RETRIES: str(self.refused), **({} if self.broken else {NO_SECOND_WAY: "1"})}


def log_variables(environ: Mapping[str, str], path: str) -> dict[str, str]:
    """What has the CLI note its repeats in this file; nothing where the user has it log elsewhere."""
    return {} if LOG in environ else {"DEBUG_SDK": "1", "CLAUDE_CODE_DEBUG_LOG_LEVEL": "warn", LOG: path}


def child_environment(
    environ: Mapping[str, str], options: ClaudeOptions, secret_values: Sequence[str] = (), secret_names: Sequence[str] = ()
) -> dict[str, str]:
    """The user's environment, minus the marks of an outer Claude session and the secrets of other agents, then `env` of the options."""
    left_out = OUTER_SESSION | {SESSION_MARK, CONVERSATION_MARK}
    foreign = {name for name, value in environ.items() if name in secret_names or value in secret_values}
    kept = {name: value for name, value in environ.items() if name not in left_out and (name not in foreign or _is_own(name, environ, options))}
    for name, value in options.env.items():
        if value is False:
            kept.pop(name, None)
        else:
            kept[name] = value.get_secret_value()
    return kept


def works_through(environ: Mapping[str, str], backend: str) -> bool:
    """Whether one of `BACKENDS` is switched on."""
    return environ.get(backend, "").lower() not in ("", "0", "false", "no", "off")


def renews_login(environ: Mapping[str, str]) -> bool:
    """Whether it may sign in anew when it is refused: with a login or a helper of its own, or a cloud's; not with a key or token that it is given."""
    given = any(environ.get(name) for name in LOGINS)
    return not given or any(works_through(environ, backend) for backend in BACKENDS)


def _is_own(name: str, environ: Mapping[str, str], options: ClaudeOptions) -> bool:
    """Whether it signs in with that: on Bedrock with what AWS tools take, as an agent of ours on Bedrock does."""
    setting = options.env.get("CLAUDE_CODE_USE_BEDROCK")
    switch = environ.get("CLAUDE_CODE_USE_BEDROCK", "") if setting is None else setting.get_secret_value() if setting else ""
    return name in CREDENTIALS or (name.startswith("AWS_") and works_through({"CLAUDE_CODE_USE_BEDROCK": switch}, "CLAUDE_CODE_USE_BEDROCK"))


def without_secrets(text: str, environ: Mapping[str, str], options: ClaudeOptions) -> str:
    """A text of the program's, for an error: it may quote the key that was refused, or be of a wrapper that tells everything."""
    names = {*CREDENTIALS, *(name for name in options.env if _SECRET_NAME.search(name))}
    secrets = {environ[name] for name in names if len(environ.get(name, "")) >= _SHORTEST_SECRET}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def own_repeats(retries_left: int | None) -> Repeats:
    """What the CLI is started with; a turn sees to it that it is not sent more often than `retries_left` and one (`may_go_on`).

    One repeat at least, also where none is left: the CLI says how long it was told to wait only where it would send again.
    """
    if retries_left is None:
        return Repeats(1, True)
    return Repeats(max(1, retries_left), retries_left > 0)


def may_go_on(retries_left: int, repeats: int, *, second_way: bool) -> bool:
    """Whether the CLI may send once more, as the last of so many `repeats`; a stream may be followed by the second way, which nothing holds up."""
    reserve = own_repeats(retries_left).broken and not second_way
    return repeats + reserve <= retries_left


def marks(session: str, conversation: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that mark every process of a turn: its conversation, its session, and the store that session is in."""
    told = {SESSION_MARK: session, STORE_MARK: environ.get(STORE_MARK, "")}
    return {CONVERSATION_MARK: conversation, **{name: value for name, value in told.items() if value}}
