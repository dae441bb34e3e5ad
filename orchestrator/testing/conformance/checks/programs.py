"""What a provider starts: found by the session's mark, and without the secrets of other agents."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.providers import SESSION_MARK
from orchestrator.testing.conformance.checks.check import Check, NotClaimed
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.leftovers import descendants
from orchestrator.testing.conformance.stage import OTHERS_SECRET, Stage
from orchestrator.testing.conformance.turns import Fault


def marked(stage: Stage) -> None:
    session, environments = _environments(stage)
    wanted = f"{SESSION_MARK}={session}".encode()
    if not all(wanted in environment.split(b"\0") for environment in environments):
        raise Fault(f"a program runs without {SESSION_MARK} in its environment: what is left behind would not be found")


def without_others(stage: Stage) -> None:
    _, environments = _environments(stage)
    if any(OTHERS_SECRET.encode() in environment for environment in environments):
        raise Fault("a program has a credential of another agent in its environment (`AgentContext.secret_values`, `secret_names`)")


def _environments(stage: Stage) -> tuple[str, list[bytes]]:
    """The session, and the environments of the programs that a turn of it has started."""
    if not Path("/proc/self/environ").exists():
        raise CannotPlay("environments of programs cannot be read on this system")
    before = set(descendants(os.getpid()))
    request = stage.request()
    stage.in_the_middle("A wren", request)
    programs = set(descendants(os.getpid())) - before
    if not programs:
        raise NotClaimed("it starts no program")
    return request.session, [found for pid in programs if (found := _environment(pid))]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


CHECKS = (
    Check("programs.marked", f"its programs carry {SESSION_MARK}", marked, needs=("streaming.early",)),
    Check("programs.secrets", "its programs are not given secrets of other agents", without_others, needs=("streaming.early",)),
)
