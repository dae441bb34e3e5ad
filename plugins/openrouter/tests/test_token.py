"""A command that prints a token, and its end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from escalera_openrouter.token import token_from

from orchestrator.errors import TimedOut
from orchestrator.providers import Stop, Stopped, Timeouts
from orchestrator.testing.openai_server import OpenAIServer

from .conftest import REQUEST, openai, run


@pytest.fixture
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each system; `os` has no process groups on Windows."""
    if request.param == "win32":
        monkeypatch.delattr(os, "killpg")
    return str(request.param)


SLOW = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


@pytest.mark.parametrize("platform", ["linux", "win32"], indirect=True)
@pytest.mark.parametrize("ended_by", ["its time", "a cancel"])
def test_a_token_command_that_takes_too_long_is_ended(platform: str, ended_by: str, tmp_path: Path) -> None:
    started, stop = tmp_path / "pid", Stop()
    command = [sys.executable, "-c", SLOW, str(started)]
    if ended_by == "a cancel":
        _once(lambda: started.exists() and started.read_text() != "", stop.now)

    with pytest.raises(TimeoutError if ended_by == "its time" else Stopped):
        token_from(command, stop, seconds=1 if ended_by == "its time" else None, platform=platform)

    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's background")
def test_what_a_token_command_leaves_running_is_not_waited_for() -> None:
    began = time.monotonic()
    assert token_from(["sh", "-c", "sleep 30 & echo $! >&2; echo tok"], Stop()) == "tok"
    assert time.monotonic() - began < 10


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's background")
def test_a_cancel_does_not_wait_for_what_a_token_command_left_running(tmp_path: Path) -> None:
    stop, started, began = Stop(), tmp_path / "pid", time.monotonic()
    _once(lambda: started.exists() and started.read_text() != "", stop.now)
    with pytest.raises(Stopped):
        token_from(["sh", "-c", f"setsid sleep 30 & echo $! > {started}; sleep 20"], stop)
    assert time.monotonic() - began < 10
    os.kill(int(started.read_text()), 9)


def test_a_token_command_that_takes_too_long_is_what_the_error_names() -> None:
    with OpenAIServer() as server:
        agent = openai(server.url, token_cmd=[sys.executable, "-c", "import time; time.sleep(60)"])
        turn = run(agent, replace(REQUEST, timeouts=Timeouts(0.5, 5, 5)))
    assert isinstance(turn.error, TimedOut)
    assert (turn.error.which, "token_cmd" in turn.error.message) == ("first_byte", True)


def _once(so: Callable[[], bool], then: Callable[[], None]) -> None:
    def watch() -> None:
        while not so():
            time.sleep(0.01)
        then()

    threading.Thread(target=watch, daemon=True).start()
