"""One configured `claude-cli` agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from escalera_claude_cli import command
from escalera_claude_cli.check import check_claude
from escalera_claude_cli.environment import child_environment
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.timing import Timing
from escalera_claude_cli.turn import run_turn
from orchestrator.providers import AgentContext, Ask, Cancel, Capabilities, CheckResult, Event, Request

CAPABILITIES = Capabilities(
    keeps_conversation=True, takes_tools=False, streams=True, reports_usage=True, reports_cost=True, asks_permissions=True, profile="none"
)


class ClaudeProvider:
    """Runs each turn in a `claude` process of its own; holds nothing between turns."""

    def __init__(self, options: ClaudeOptions, context: AgentContext, timing: Timing | None = None) -> None:
        self._options = options
        self._context = context
        self._environ = child_environment(context.environ, options, context.secret_values)
        self._timing = timing or Timing()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def model(self) -> str | None:
        return self._options.model

    @property
    def config_dir(self) -> str | None:
        """Where Claude Code keeps its conversations, `None` for its default: an external session belongs to it (page 2)."""
        return self._environ.get("CLAUDE_CONFIG_DIR") or None

    def preview(self, request: Request) -> dict[str, Any]:
        """`{"argv", "system_prompt_file", "stdin"}`; needs no `claude`, starts and writes nothing."""
        return command.preview(self._options, request)

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        """Run one turn. Raises from the error tree; `ask` is called in the thread that iterates."""
        cancel.raise_if_set()
        yield from run_turn(self._options, request, environ=self._environ, timing=self._timing, cancel=cancel, ask=ask)

    def check(self) -> CheckResult:
        """Whether the program is there and logged in, as far as that shows without spending tokens."""
        return check_claude(self._options.bin, environ=self._environ, workspace=self._context.workspace, now=self._timing.wall())
