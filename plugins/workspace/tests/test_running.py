"""Commands: asked about, confined where that can be, ended whatever they do."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.tools import ToolFailed

from .conftest import Work

BWRAP = shutil.which("bwrap") is not None and subprocess.run(["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "true"], check=False).returncode == 0
confined = pytest.mark.skipif(not BWRAP, reason="bubblewrap is not installed, or cannot start here")


@pytest.fixture
def plain(work: Work, tmp_path: Path) -> Work:
    """Where bubblewrap is not to be had."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sleep", "yes", "cat", "python3", "setsid", "env", "touch", "sh"):
        os.symlink(shutil.which(name) or sys.executable, tools / name)
    work.with_path(tools)
    return work


@pytest.fixture(params=["plain", pytest.param("confined", marks=confined)])
def either(request: pytest.FixtureRequest, work: Work) -> Work:
    """With and without bubblewrap: what holds for both."""
    return work if request.param == "confined" else request.getfixturevalue("plain")


def gone(mark: str) -> bool:
    """Whether no process with that in its command line runs any more, within a moment."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if not [pid for pid in os.listdir("/proc") if pid.isdigit() and mark in command_line(pid)]:
            return True
        time.sleep(0.01)
    return False


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


# -- what holds in any case ----------------------------------------------------------------------


def test_a_command_runs_in_the_workspace_and_tells_how_it_ended(either: Work) -> None:
    either.put("a.txt", "here\n")

    told = either.call("run", command="cat a.txt; echo err >&2; exit 3")

    assert told.startswith("[exit code 3 after ")
    assert told.endswith("]\nhere\nerr\n")


def test_the_user_is_asked_with_the_exact_command_and_nothing_runs_before(either: Work) -> None:
    either.user.says_yes = False

    assert "said no" in either.refused("run", command="touch made  #  twice")
    assert [act.what for act in either.user.acts] == ["touch made  #  twice"]
    assert list(either.root.iterdir()) == []


def test_a_command_that_hangs_is_ended_with_what_it_printed(either: Work) -> None:
    told = either.refused("run", command="echo begun; sleep 86401", timeout=1)

    assert "longer than 1 s" in told
    assert told.endswith("\nbegun\n")
    assert gone("86401")


def test_a_command_that_hides_from_signals_and_groups_is_ended(either: Work) -> None:
    assert "longer than 1 s" in either.refused("run", command="trap '' TERM INT HUP; setsid sleep 86402 & sleep 86402", timeout=1)
    assert gone("86402")


@pytest.mark.parametrize("how", ["sleep 86403 &", "setsid sleep 86403 &", "(setsid sleep 86403 >/dev/null 2>&1 &) &", "exec sleep 86403 >&- 2>&- &"])
def test_what_it_leaves_in_the_background_is_ended_and_not_waited_for(either: Work, how: str) -> None:
    began = time.monotonic()

    assert "exit code 0" in either.call("run", command=f"{how}\necho done", timeout=60)
    assert gone("86403")
    assert time.monotonic() - began < 30


def test_a_flood_is_ended_and_kept_in_part(either: Work) -> None:
    told = either.refused("run", command="yes 86404", timeout=60)

    assert "more than 64 MiB" in told
    assert "bytes left out" in told
    assert len(told) < 300_000
    assert gone("86404")


def test_a_command_has_no_input(either: Work) -> None:
    assert "it printed nothing" in either.call("run", command="cat")


def test_a_cancelled_turn_ends_it_at_once(either: Work) -> None:
    threading.Timer(0.3, either.context.cancel.set).start()

    assert "cancelled" in either.refused("run", command="sleep 86405", timeout=60)
    assert gone("86405")


def test_it_sees_the_environment_that_the_core_lets_it_see(either: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_OF_OURS", "x")

    told = either.call("run", command="env")

    assert "A_SECRET_OF_OURS" not in told
    assert f"HOME={either.outside}" in told
    assert "_ESCALERA_SESSION=s1" in told


@pytest.mark.parametrize("command", ["", "   ", "x" * 20_001, "a\0b", "echo \ud800", 7, None])
def test_what_is_no_command_is_told_before_anybody_is_asked(work: Work, command: object) -> None:
    assert "command" in work.refused("run", command=command)
    assert work.user.acts == []


def test_bytes_of_any_kind_come_back_as_text(either: Work) -> None:
    assert either.call("run", command=r"printf '\377\000ok'").endswith("\ufffd\0ok")


# -- without a sandbox ---------------------------------------------------------------------------


def test_without_bubblewrap_question_and_result_say_so(plain: Work) -> None:
    told = plain.call("run", command="echo hi")

    (act,) = plain.user.acts
    assert act.beyond == {"network", "unconfined"}
    assert act.notes == ("NOT confined, since bubblewrap is not installed: it can read, change and send whatever you can.",)
    assert "; not confined, since bubblewrap is not installed]" in told


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_bubblewrap_that_cannot_start_is_told_with_its_reason(work: Work, tmp_path: Path) -> None:
    script(tmp_path / "bin" / "bwrap", "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")
    work.with_path(tmp_path / "bin")

    told = work.call("run", command="echo hi")

    assert "bubblewrap cannot start here: No permissions to create a new namespace" in work.user.acts[0].notes[0]
    assert "not confined" in told
    assert told.endswith("hi\n")


def test_a_sandbox_that_fails_after_it_was_promised_runs_nothing(work: Work, tmp_path: Path) -> None:
    told = 'for word; do [ "$before" = --json-status-fd ] && fd=$word; before=$word; done'
    script(tmp_path / "bin" / "bwrap", f"""{told}\n[ "$before" = : ] || exit 1\necho '{{"exit-code": 0}}' >/proc/self/fd/$fd""")
    work.with_path(tmp_path / "bin", "/usr/bin", "/bin")

    assert "the command did not run" in work.refused("run", command="touch made")
    assert work.user.acts[0].beyond == frozenset()
    assert list(work.root.iterdir()) == []


def test_a_program_of_that_name_in_the_workspace_is_no_sandbox(work: Work) -> None:
    script(work.root / "bin" / "bwrap", "touch taken")
    work.with_path("bin", ".", "", work.root / "bin")

    work.call("run", command="echo hi")

    assert work.user.acts[0].beyond == {"network", "unconfined"}
    assert not (work.root / "taken").exists()


# -- in bubblewrap -------------------------------------------------------------------------------


@confined
def test_in_bubblewrap_only_the_workspace_can_be_changed(work: Work) -> None:
    told = work.call("run", command=f"echo x > made; echo x > {work.outside}/secret.txt; echo x > /etc/made; cat {work.outside}/secret.txt; ls /tmp /run")

    assert work.user.acts[0].beyond == frozenset()
    assert (work.root / "made").read_text() == "x\n"
    assert (work.outside / "secret.txt").read_text() == "the secret\n"
    assert not Path("/etc/made").exists()
    assert told.lower().count("read-only file system") >= 1


@confined
@pytest.mark.parametrize(("network", "reached"), [(False, False), (True, True)])
def test_in_bubblewrap_there_is_a_network_only_where_it_was_asked_for(work: Work, network: bool, reached: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = work.call("run", command=f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'", network=network)

    assert ("exit code 0" in told) is reached
    assert work.user.acts[0].beyond == ({"network"} if network else frozenset())


@confined
def test_in_bubblewrap_what_this_program_keeps_is_not_to_be_seen(work: Work) -> None:
    inside = work.put("home/config.toml", "key\n").parent
    work.seen(off_limits=(str(work.outside), str(inside), "/nowhere"))

    told = work.call("run", command=f"cat {work.outside}/secret.txt home/config.toml; echo x > home/config.toml; echo done")

    assert "secret\n" not in told
    assert "key" not in told
    assert (inside / "config.toml").read_text() == "key\n"


PARENT = """
import sys
from escalera_workspace.running import RUN
from orchestrator.providers import Answer, Cancel
from orchestrator.tools import ToolContext
class Yes:
    def __call__(self, act): print("asked", flush=True)
    def stands(self, act): return True
RUN.run({"command": sys.argv[2]}, ToolContext(sys.argv[1], "s", "a", None, Cancel(), permit=Yes(), environ={"PATH": sys.argv[3]}))
"""


@confined
def test_in_bubblewrap_a_command_goes_with_the_program_that_was_killed(work: Work, tmp_path: Path) -> None:
    command = "touch begun; setsid sleep 86406 & sleep 86406"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(work.root), command, os.environ["PATH"]], stdout=subprocess.DEVNULL)
    _until((work.root / "begun").exists)

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    assert gone("86406")


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("pytest -q tests", "pytest *"),
        ("git status", "git status *"),
        ("git push origin", "=git push origin"),
        ("rm -rf build", "=rm -rf build"),
        ("python x.py", "=python x.py"),
        ("./run.sh", "=./run.sh"),
        ("a; b", "=a; b"),
        ("ls *", "=ls *"),
        ("A=1 make", "=A=1 make"),
        ("ls  -l", "=ls  -l"),
    ],
)
def test_what_is_offered_to_be_allowed_along_with_it(plain: Work, command: str, pattern: str) -> None:
    plain.user.says_yes = False

    with pytest.raises(ToolFailed):
        plain.call("run", command=command)
    assert plain.user.acts[0].pattern == pattern
