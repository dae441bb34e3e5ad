"""What is done otherwise on Windows, as far as that can be seen elsewhere: the program, and the end of what it started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from escalera_claude_cli import processes
from escalera_claude_cli.command import program_path
from escalera_claude_cli.environment import child_environment
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.turn import run_turn

from orchestrator.errors import Cancelled, InvalidRequest
from orchestrator.providers import Cancel

from .conftest import MARKED, QUICK, collect, nobody

TASKKILL = """\
#!/bin/sh
echo "$@" >> {log}
for last; do :; done
kill -9 -- "-$last"
"""


@pytest.mark.parametrize(
    ("named", "started"), [("claude", "claude.exe"), ("C:/tools/claude.EXE", "C:/tools/claude.EXE"), ("C:/Program Files/claude", "C:/Program Files/claude.exe")]
)
def test_program_itself_is_started(named, started):
    assert program_path(named, "win32") == started


@pytest.mark.parametrize("script", ["claude.cmd", "C:/npm/claude.CMD", "claude.bat", "claude.ps1"])
def test_script_in_its_place_is_refused(script):
    with pytest.raises(InvalidRequest, match="is a script") as refused:
        program_path(script, "win32")

    assert "claude.exe" in refused.value.hint
    assert program_path(script, "linux") == script


def test_cancel_ends_the_whole_tree_with_the_systems_own_tool(stage, monkeypatch):
    tools = stage.folder / "tools"
    tools.mkdir()
    (tools / "taskkill").write_text(TASKKILL.format(log=stage.folder / "log"))
    (tools / "taskkill").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    program = stage.program(
        """
        signal.signal(signal.SIGINT, lambda *_: open("interrupted", "w"))
        subprocess.Popen(["sleep", "600"])
        heard(); say(init()); time.sleep(600)
        """
    )
    exe = Path(program).rename(f"{program}.exe")
    options, cancel = ClaudeOptions(bin=program), Cancel()

    events = run_turn(options, stage.request(), environ=child_environment(os.environ, options), timing=QUICK, cancel=cancel, ask=nobody, platform="win32")
    next(events)
    cancel.set()
    outcome = collect(events)

    assert exe.exists()
    assert type(outcome.error) is Cancelled
    assert (stage.folder / "log").read_text().startswith("/T /F /PID ")
    assert not (stage.workspace / "interrupted").exists()
    assert not processes.marked(MARKED)
