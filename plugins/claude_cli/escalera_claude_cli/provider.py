"""One configured `claude-cli` agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from escalera_claude_cli import command, processes
from escalera_claude_cli.check import check_claude
from escalera_claude_cli.environment import child_environment, without_secrets
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.timing import Timing
from escalera_claude_cli.turn import run_turn
from escalera_claude_cli.waiting import Waiting
from orchestrator.errors import ProviderError
from orchestrator.providers import AgentContext, Ask, Cancel, Capabilities, CheckResult, Event, Request

CAPABILITIES = Capabilities(
    keeps_conversation=True, takes_tools=False, streams=True, reports_usage=True, reports_cost=True, asks_permissions=True, obeys_workspace=True, profile="none"
)


class ClaudeProvider:
    """Runs each turn in a `claude` process of its own, or, for as long as our process lives on, in that of the conversation's last turn."""

    def __init__(self, options: ClaudeOptions, context: AgentContext, timing: Timing | None = None) -> None:
        self._options = options
        self._context = context
        self._environ = child_environment(context.environ, options, context.secret_values, context.secret_names)
        self._timing = timing or Timing()
        # Where no process can be found by its marks, a child could wait on while another process of ours goes on with its conversation.
        self._waiting = Waiting(self._timing.longest_wait) if context.long_lived and processes.marks_are_readable() else None

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
        wait = self._context.session_wait
        try:
            yield from run_turn(
                self._options, request, environ=self._environ, timing=self._timing, cancel=cancel, ask=ask, waiting=self._waiting, session_wait=wait
            )
        except ProviderError as error:
            error.message = without_secrets(error.message, self._environ, self._options)
            error.args = (error.message,)
            raise

    def close(self) -> None:
        """End the child that waits for a next turn; turns after this one keep none."""
        if self._waiting is not None:
            self._waiting.close()

    def check(self) -> CheckResult:
        """Whether the program is there and logged in, as far as that shows without spending tokens."""
        return check_claude(self._options.bin, environ=self._environ, workspace=self._context.workspace, now=self._timing.wall())
