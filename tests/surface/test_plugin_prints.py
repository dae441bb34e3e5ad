"""Whatever a plugin prints, and however: stdout has the answer and nothing else, and the answer is on stdout (pages 6 and 7)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from ..sites import Site
from .conftest import PROGRAM, Shell

READER = """
import queue, threading, time
from pydantic import BaseModel
from orchestrator.hookspecs import hookimpl
from orchestrator.messages import Text
from orchestrator.providers import Capabilities, CheckResult, Finished, MessageDone, ProviderKind, TextDelta

def chatter():
    for number in range(2000):
        print("beside", number)

threading.Thread(target=chatter).start()

class Options(BaseModel):
    pass

class Reader:
    capabilities = Capabilities(streams=True)
    model = None

    def run(self, request, *, cancel, ask):
        chunks = queue.Queue()
        def read():
            for number in range(3000):
                print("chunk", number)
                chunks.put("x")
            chunks.put(None)
        threading.Thread(target=read).start()
        while (chunk := chunks.get(timeout=30)) is not None:
            yield TextDelta(chunk)
        yield MessageDone((Text("x" * 3000),))
        yield Finished("stop")

    def preview(self, request):
        return {}

    def check(self):
        return CheckResult(True, "works")

@hookimpl
def escalera_provider_kinds():
    return [ProviderKind("acme", Options, lambda options, context: Reader(), summary="reads in a thread")]
"""

EVERY_WAY = """
import atexit, os, subprocess, sys, threading
from orchestrator.hookspecs import hookimpl

def aloud(place):
    print(place, "print")
    sys.__stdout__.write(f"{place} dunder\\n")
    sys.stdout.buffer.write(f"{place} buffer\\n".encode())
    sys.stdout.flush()
    os.write(1, f"{place} descriptor\\n".encode())
    subprocess.run(["echo", f"{place} child"])
    os.system(f"echo {place} shell")
    thread = threading.Thread(target=print, args=(place, "thread"))
    thread.start()
    thread.join()

aloud("import")
atexit.register(aloud, "exit")

@hookimpl
def escalera_turn_ended(turn):
    aloud("hook")
"""
WAYS = ("print", "dunder", "buffer", "descriptor", "child", "shell", "thread")


@pytest.fixture
def acme(shell: Shell, tmp_path: Path) -> Callable[[str], Shell]:
    def install(code: str) -> Shell:
        Site(tmp_path / "plugins").install("acme", code)
        return replace(shell, more={"PYTHONPATH": str(tmp_path / "plugins"), "PYTHONDONTWRITEBYTECODE": "1"})

    (tmp_path / "plugins").mkdir()
    return install


def test_a_provider_that_prints_in_its_reader_thread_breaks_nothing(acme: Callable[[str], Shell]) -> None:
    shell = acme(READER)
    shell.configure('primary = "a"\nescalation = "b"\n[agents.a]\nprovider = "acme"\n[agents.b]\nprovider = "acme"\n')

    asked = shell.run("ask", "hello", "--stream-json")

    assert asked.returncode == 0, asked.stderr[-2000:]
    *events, document = map(json.loads, asked.stdout.splitlines())
    assert "".join(event["text"] for event in events if event["type"] == "text") == "x" * 3000
    assert document["answer"] == "x" * 3000
    lines = asked.stderr.splitlines()
    assert [line for line in lines if line.startswith("chunk")] == [f"chunk {number}" for number in range(3000)]
    assert "beside 1999" in lines


def test_nothing_that_a_plugin_prints_gets_to_stdout(acme: Callable[[str], Shell], agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("fine")) as server:
        agents(server.url)
        asked = acme(EVERY_WAY).run("ask", "hello", "--json")

    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["answer"] == "fine"
    assert [line for line in asked.stderr.splitlines() if line.endswith(WAYS)] == [f"{place} {way}" for place in ("import", "hook", "exit") for way in WAYS]


@pytest.mark.parametrize(
    "instead",
    [
        'io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")',
        'codecs.getwriter("utf-8")(sys.stdout.buffer)',
        "sys.stderr = io.StringIO()",
        "print(sys.stdout.close(), sys.stderr.close(), os.close(1), file=io.StringIO())",
    ],
)
def test_a_plugin_that_puts_something_in_the_place_of_stdout_keeps_no_answer(acme: Callable[[str], Shell], agents: Callable[[str], None], instead: str) -> None:
    with OpenAIServer(reply("grüße")) as server:
        agents(server.url)
        asked = acme(f"import codecs, io, os, sys\nsys.stdout = {instead}\n").run("ask", "hello")

    assert (asked.returncode, asked.stdout) == (0, "grüße\n"), asked.stderr
    assert "turn 0, completed" in asked.stderr


def test_an_editor_has_the_terminal_also_where_notices_go_to_a_file(shell: Shell, agents: Callable[[str], None], tmp_path: Path) -> None:
    """Stands for every program that inherits standard output on purpose."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\n[ -t 1 ] && echo seen > seen\n")
    editor.chmod(0o755)
    agents("http://127.0.0.1:9")
    ours, theirs = os.openpty()
    with (tmp_path / "notices").open("wb") as notices:
        subprocess.run(
            [PROGRAM, "--set", "limits.retry_attempts=0", "ask", "--edit-brief", "--escalate", "so?"],
            cwd=shell.cwd,
            env=shell.environ | {"EDITOR": str(editor)},
            stdin=theirs,
            stdout=theirs,
            stderr=notices,
            check=False,
        )
    os.close(theirs)
    os.close(ours)

    assert (shell.cwd / "seen").exists()


def test_a_program_that_uses_our_modules_keeps_its_standard_output(shell: Shell, agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9")

    shown, listed = shell.each(["plugins", "list", "--json"], ["paths"])

    assert (shown.returncode, listed.returncode) == (0, 0)
    assert json.loads(shown.stdout)["plugins"]
    assert listed.stdout
