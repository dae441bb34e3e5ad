"""What a provider starts: found by the session's mark, and without the secrets of other agents."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.errors import ProviderError
from orchestrator.providers import SESSION_MARK
from orchestrator.testing.conformance.checks.check import Check, NotClaimed
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.leftovers import descendants
from orchestrator.testing.conformance.stage import OTHERS_SECRET, Stage
from orchestrator.testing.conformance.turns import Fault, told

PLACED_BY_CORE = ("token_cmd",)
"""Commands that come with their program's absolute path, whoever gives them."""


def marked(stage: Stage) -> None:
    session, environments = _environments(stage)
    wanted = f"{SESSION_MARK}={session}".encode()
    if not all(wanted in environment.split(b"\0") for environment in environments):
        raise Fault(f"a program runs without {SESSION_MARK} in its environment: what is left behind would not be found")


def without_others(stage: Stage) -> None:
    _, environments = _environments(stage)
    if any(OTHERS_SECRET.encode() in environment for environment in environments):
        raise Fault("a program has a credential of another agent in its environment (`AgentContext.secret_values`, `secret_names`)")


def placed(stage: Stage) -> None:
    """As where a project's file names a program beside it, and the turn works elsewhere."""
    name, command = _program(stage)
    folder, program = os.path.split(command[0])
    stage.provider = stage.made({**stage.harness.options(), name: [os.path.join(os.curdir, program), *command[1:]]}, {name: folder})
    stage.harness.answers(ANSWER)
    turn = stage.run()
    if turn.error is not None:
        raise Fault(f"a relative program in `{name}` starts from the folder in `AgentContext.folders`, and that raised {told(turn.error)}")


def missing(stage: Stage) -> None:
    name, command = _program(stage)
    stage.provider = stage.made({**stage.harness.options(), name: [str(stage.harness.folder / "no-such-program"), *command[1:]]})
    error = stage.run().failed_as(ProviderError)
    if error.retryable and not error.final:
        raise Fault(f"a program that is not there raised {type(error).__name__}, which is sent again in vain: `InvalidRequest`, or `final = True`")


def _program(stage: Stage) -> tuple[str, list[str]]:
    """The option that names a program and its arguments."""
    for name, value in stage.harness.options().items():
        if name not in PLACED_BY_CORE and isinstance(value, list) and value and isinstance(value[0], str) and os.path.isabs(value[0]):
            return name, value
    raise NotClaimed("no option of it is a command")


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
    Check("programs.folder", "a relative program starts from the folder of the file that names it", placed),
    Check("programs.missing", "a program that is not there fails for good", missing),
    Check("programs.marked", f"its programs carry {SESSION_MARK}", marked, needs=("streaming.early",)),
    Check("programs.secrets", "its programs are not given secrets of other agents", without_others, needs=("streaming.early",)),
)
