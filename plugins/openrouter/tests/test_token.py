"""A command that prints a token, and its end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from escalera_openrouter.token import token_from

from orchestrator.providers import Stop, Stopped


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


def _once(so: Callable[[], bool], then: Callable[[], None]) -> None:
    def watch() -> None:
        while not so():
            time.sleep(0.01)
        then()

    threading.Thread(target=watch, daemon=True).start()
