"""Whether Claude Code is logged in, as far as its environment and its files tell; no secret leaves this module."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from escalera_claude_cli.environment import BACKENDS, LOGINS, works_through

_MOST_BYTES = 10_000_000


def login_found(environ: Mapping[str, str], *, now: float, platform: str) -> str | None:
    """How it is logged in, in words; `None` where nothing shows it. `now` in seconds since 1970, `platform` as in `sys.platform`."""
    for variable, backend in BACKENDS.items():
        if works_through(environ, variable):
            return f"works through {backend}"
    for variable in LOGINS:
        if environ.get(variable):
            return f"logged in by {variable}"
    return _login_in_files(environ, now=now, platform=platform)


def _login_in_files(environ: Mapping[str, str], *, now: float, platform: str) -> str | None:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    own = environ.get("CLAUDE_CONFIG_DIR")
    folder = Path(own) if own else home / ".claude"
    state = _object(Path(own or home) / ".claude.json")
    if _is_usable(_object(folder / ".credentials.json").get("claudeAiOauth"), now):
        return "logged in with a Claude account"
    if platform == "darwin" and state.get("oauthAccount"):  # the tokens themselves are in the keychain there
        return "logged in with a Claude account"
    if state.get("primaryApiKey"):
        return "logged in with a key of the Console"
    if _object(folder / "settings.json").get("apiKeyHelper"):
        return "logged in by the apiKeyHelper of its settings"
    return None


def _is_usable(login: object, now: float) -> bool:
    """A login that still holds, or that Claude Code can renew by itself."""
    if not isinstance(login, dict) or not login.get("accessToken"):
        return False
    expires = login.get("expiresAt")
    return bool(login.get("refreshToken")) or not isinstance(expires, int | float) or expires / 1000 > now


def _object(path: Path) -> dict[str, Any]:
    """A file's JSON object; empty where there is none."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return {}
        with open(path, "rb") as file:
            value = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
