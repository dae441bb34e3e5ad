"""Whether `claude` can be asked: is it there, does it start, is it logged in. Spends no tokens."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping

from escalera_claude_cli.child import INSTALL_HINT
from escalera_claude_cli.command import program_path
from escalera_claude_cli.login import login_found
from escalera_claude_cli.processes import end_tree
from orchestrator.providers import CheckResult

SECONDS = 2.5
"""For each question that is put to the program."""
LOGIN_HINT = "run `claude auth login`, or set ANTHROPIC_API_KEY"

_QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
_KNOWS_STATUS = (2, 1, 79)
"""Older versions may take `auth status` for a prompt, and answer it."""


def check_claude(program: str, *, environ: Mapping[str, str], workspace: str, now: float) -> CheckResult:
    """`now` in seconds since 1970."""
    where = workspace or None
    try:
        code, said = _said([program_path(program), "--version"], environ, where)
    except FileNotFoundError:
        return CheckResult(False, "not_installed", f"there is no program {program!r}", INSTALL_HINT)
    except subprocess.TimeoutExpired:
        return CheckResult(False, "error", f"`{program} --version` gave no answer within {SECONDS:g} s", "run it by hand to see why")
    except OSError as error:
        return CheckResult(False, "error", f"{program!r}: {error}", "look at that file, and at the agent's `bin`: it cannot be run here as a program")
    said = said.strip()[:200]
    if code != 0:
        return CheckResult(False, "error", f"`{program} --version` ended with exit code {code}: {said}")
    found = login_found(environ, now=now, platform=sys.platform)
    if found is not None:
        return CheckResult(True, "works", f"{said}, {found}")
    if _version(said) >= _KNOWS_STATUS:
        return _status(program, said, environ, where)
    return CheckResult(True, "works", f"{said}; whether it is logged in shows with the first turn", LOGIN_HINT)


def _status(program: str, version: str, environ: Mapping[str, str], where: str | None) -> CheckResult:
    """What it says itself. It is only asked where no login was found, so there is none that asking could renew."""
    with contextlib.suppress(OSError, ValueError, RecursionError, subprocess.TimeoutExpired):
        told = json.loads(_said([program_path(program), "auth", "status"], environ, where)[1])
        if isinstance(told, dict) and told.get("loggedIn") is False:
            return CheckResult(False, "not_logged_in", f"{version} is installed", LOGIN_HINT)
        if isinstance(told, dict) and told.get("loggedIn") is True:
            return CheckResult(True, "works", f"{version}, logged in")
    return CheckResult(True, "works", f"{version}; whether it is logged in shows with the first turn", LOGIN_HINT)


def _version(said: str) -> tuple[int, ...]:
    match = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", said)
    return tuple(map(int, match.groups())) if match else (0,)


def _said(command: list[str], environ: Mapping[str, str], where: str | None) -> tuple[int, str]:
    """Exit code and output; the whole group is gone afterwards, also when it did not answer in time."""
    child = subprocess.Popen(
        command,
        env=_QUIET | dict(environ),
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, complaints = child.communicate(timeout=SECONDS)
    except BaseException:
        _kill(child)
        raise
    return child.returncode, (out or complaints).decode("utf-8", "replace")


def _kill(child: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        end_tree(child.pid)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
