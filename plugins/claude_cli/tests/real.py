"""The real `claude`, with a home of its own, against a loopback stand-in for its API."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from escalera_claude_cli.timing import Timing

CLAUDE = os.environ.get("ESCALERA_TEST_CLAUDE") or shutil.which("claude") or ""

needs_claude = pytest.mark.skipif(not CLAUDE, reason="no real claude: none on PATH, and ESCALERA_TEST_CLAUDE names none")

QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")


def environ_of(home: Path, url: str) -> dict[str, str]:
    """What keeps it apart from the user's own, and away from any network but the server's."""
    home.mkdir(exist_ok=True)
    apart = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": url}
    return apart | dict.fromkeys(QUIET, "1")


def real_provider(stage: Any, home: Path, url: str, *, environ: Mapping[str, str] | None = None, **more: Any) -> Any:
    """The real program as a provider, with its real times."""
    return stage.provider(CLAUDE, environ=environ_of(home, url) | dict(environ or {}), timing=Timing(), **more)


def user_text(body: Mapping[str, Any]) -> str:
    """The last user message's own text; the CLI puts reminders of its own beside it."""
    content = [message for message in body["messages"] if message["role"] == "user"][-1]["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])
