"""One configured `claude-cli` agent."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

from escalera_claude_cli import command
from escalera_claude_cli.child import INSTALL_HINT
from escalera_claude_cli.environment import child_environment
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.timing import Timing
from escalera_claude_cli.turn import run_turn
from orchestrator.providers import AgentContext, Ask, Cancel, Capabilities, CheckResult, Event, Request

CHECK_TIMEOUT = 15.0
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
        """Whether the program is there. Whether it is logged in shows only in a turn, and that costs tokens."""
        program = command.program_path(self._options.bin)
        try:
            asked = subprocess.run(
                [program, "--version"], env=self._environ, cwd=self._context.workspace or None, capture_output=True, timeout=CHECK_TIMEOUT, check=False
            )
        except FileNotFoundError:
            return CheckResult(False, "not_installed", f"there is no program {self._options.bin!r}", INSTALL_HINT)
        except (OSError, subprocess.TimeoutExpired) as error:
            return CheckResult(False, "error", f"{self._options.bin!r}: {error}")
        said = (asked.stdout or asked.stderr).decode("utf-8", "replace").strip()[:200]
        if asked.returncode != 0:
            return CheckResult(False, "error", f"`{self._options.bin} --version` ended with exit code {asked.returncode}: {said}")
        return CheckResult(True, "works", f"{said}; whether it is logged in shows with the first turn")
