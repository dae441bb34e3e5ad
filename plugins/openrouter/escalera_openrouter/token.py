"""A bearer token out of a command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from orchestrator.errors import AuthFailed
from orchestrator.providers import Stop

_SECONDS = 30.0
_GRACE = 0.5
"""Seconds for what a command that has ended said last."""
_LOOK = 0.1
"""Seconds between two looks whether it has ended, or shall."""


def token_from(command: Sequence[str], stop: Stop, *, folder: str | None = None, seconds: float | None = None, platform: str = sys.platform) -> str:
    """What the command prints, its blanks taken off. `platform` as in `sys.platform`.

    Raises `AuthFailed` that names the command and never its output, nor its complaints (page 5); `TimeoutError` that says so when the `seconds`
    are over that the call has left, and `Stopped`. What the command leaves running, such as an agent for keys, is not waited for.
    """
    limit = _SECONDS if seconds is None else min(seconds, _SECONDS)
    try:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise AuthFailed(f"token_cmd: {command[0]} cannot be started: {error.strerror}.", hint="Check the agent's token_cmd.") from error
    stop.hold(lambda: _kill(process, platform))
    try:
        output = _said(process, stop, limit)
    except TimeoutError as error:
        if limit < _SECONDS:
            raise TimeoutError(f"token_cmd: {command[0]} gave no token") from error
        raise AuthFailed(f"token_cmd: {command[0]} gave no token within {_SECONDS:g} seconds.") from error
    finally:
        _let_go(process, platform)
    stop.raise_if_stopped()
    token = output.decode("utf-8", "replace").strip()
    if process.returncode != 0:
        raise AuthFailed(f"token_cmd: {command[0]} failed with exit code {process.returncode}.", hint="Run it by hand; it may want a new login.")
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise AuthFailed(f"token_cmd: {command[0]} did not print one token.", hint="Its standard output must be the token and nothing else.")
    return token


def _said(process: subprocess.Popen[bytes], stop: Stop, limit: float) -> bytes:
    """Its output, also where something that it started holds the pipe open. Raises `Stopped`, `TimeoutError`."""
    began = time.monotonic()
    ended: float | None = None
    while True:
        try:
            return process.communicate(timeout=_LOOK)[0]
        except subprocess.TimeoutExpired as so_far:
            stop.raise_if_stopped()
            now = time.monotonic()
            if process.poll() is None and now - began >= limit:
                raise TimeoutError from None
            if process.poll() is not None:
                ended = ended or now
                if now - ended >= _GRACE:
                    return so_far.stdout or b""


def _let_go(process: subprocess.Popen[bytes], platform: str) -> None:
    _kill(process, platform)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_GRACE)
    if process.stdout is not None:
        process.stdout.close()


def _kill(process: subprocess.Popen[bytes], platform: str) -> None:
    """End the command with all it started; otherwise a grandchild would keep the pipe open. Windows knows no process groups."""
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        if platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
