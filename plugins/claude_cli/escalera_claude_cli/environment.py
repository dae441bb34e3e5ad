"""The environment a `claude` child gets: the user's own, without what belongs to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from escalera_claude_cli.options import ClaudeOptions
from orchestrator.providers import SESSION_MARK

OUTER_SESSION = frozenset(
    {
        *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_PARENT_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION"),
        *("CLAUDE_CODE_SESSION_ACCESS_TOKEN", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_TASK_LIST_ID", "CLAUDE_CODE_TEAM_NAME"),
        *("CLAUDE_CODE_AGENT_NAME", "CLAUDE_CODE_AGENT_ID", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_EFFORT", "AI_AGENT"),
    }
)
"""What Claude Code sets for its own children. With these a child refuses to start, or takes itself for a part of the outer session."""

CONVERSATION_MARK = "_ESCALERA_EXTERNAL_SESSION"
"""By this one and the session's the processes of a turn are found again when nothing else leads to them."""

MAX_RETRIES = "CLAUDE_CODE_MAX_RETRIES"
OWN_RETRIES = 1
"""The CLI's own retries of a request (its default waits for minutes). Not 0: once an answer has begun, only the CLI can repeat one."""


def child_environment(environ: Mapping[str, str], options: ClaudeOptions, secret_values: Sequence[str] = ()) -> dict[str, str]:
    """The user's environment, minus the marks of an outer Claude session and the secrets of other agents, then `env` of the options."""
    secrets = {value for value in secret_values if value}
    kept = {name: value for name, value in environ.items() if name not in OUTER_SESSION | {SESSION_MARK, CONVERSATION_MARK} and value not in secrets}
    for name, value in options.env.items():
        if value is False:
            kept.pop(name, None)
        else:
            kept[name] = value.get_secret_value()
    return kept


def own_retries(retries_left: int | None) -> int:
    """How often the CLI may repeat a request by itself: each time counts among the retries of the turn."""
    return OWN_RETRIES if retries_left is None else min(OWN_RETRIES, retries_left)


def marks(session: str, conversation: str) -> dict[str, str]:
    """Variables that mark every process of a turn."""
    return {CONVERSATION_MARK: conversation, **({SESSION_MARK: session} if session else {})}
