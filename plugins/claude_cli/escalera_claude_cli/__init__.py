"""Claude Code's command line as a provider kind of Escalera: `claude-cli`."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind

ESCALERA_API_LEVEL = 1


@hookimpl
def escalera_provider_kinds() -> Sequence[ProviderKind]:
    """Register `claude-cli`."""
    from escalera_claude_cli.environment import CREDENTIALS
    from escalera_claude_cli.options import ClaudeOptions
    from escalera_claude_cli.provider import ClaudeProvider

    summary = "Claude Code, through its command line"
    return [ProviderKind(name="claude-cli", options=ClaudeOptions, factory=ClaudeProvider, summary=summary, environment=CREDENTIALS)]
