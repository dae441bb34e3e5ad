"""A bearer token out of a command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from orchestrator.errors import AuthFailed
from orchestrator.providers import Stop

_SECONDS = 30.0
_GRACE = 1.0
"""Seconds for the pipes of a command that was ended: on Windows what it started may hold them on."""


def token_from(command: Sequence[str], stop: Stop, *, folder: str | None = None, seconds: float | None = None, platform: str = sys.platform) -> str:
    """What the command prints, its blanks taken off. Raises `AuthFailed` that names the command and never its output. `platform` as in `sys.platform`.

    `TimeoutError` when the `seconds` are over that the call has left, and `Stopped`.
    """
    limit = _SECONDS if seconds is None else min(seconds, _SECONDS)
    try:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise AuthFailed(f"token_cmd: {command[0]} cannot be started: {error.strerror}.", hint="Check the agent's token_cmd.") from error
    stop.hold(lambda: _kill(process, platform))
    try:
        output, complaint = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired as error:
        _kill(process, platform)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_GRACE)
        if limit < _SECONDS:
            raise TimeoutError from error
        raise AuthFailed(f"token_cmd: {command[0]} gave no token within {_SECONDS:g} seconds.") from error
    stop.raise_if_stopped()
    token = output.decode("utf-8", "replace").strip()
    if process.returncode != 0:
        last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2][:300]
        raise AuthFailed(f"token_cmd: {command[0]} failed with exit code {process.returncode}: {last}", hint="Run it by hand; it may want a new login.")
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise AuthFailed(f"token_cmd: {command[0]} did not print one token.", hint="Its standard output must be the token and nothing else.")
    return token


def _kill(process: subprocess.Popen[bytes], platform: str) -> None:
    """End the command with all it started; otherwise a grandchild would keep the pipes open. Windows knows no process groups."""
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        if platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
