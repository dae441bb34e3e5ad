"""Interrupts while a turn runs: it is cancelled, the session stays as it was, and the next turn goes on."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, reply, sse

from .conftest import Shell

NOT_UNDER_NOHUP = pytest.mark.skipif(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="these tests were started with nohup, whose wish is heeded")
HANGS = {
    "before an answer": Reply(before_head=threading.Event()),
    "while it streams": Reply([*reply("one two three four").writes[:2], threading.Event()]),
    "while it waits to try again": Reply([b"{}"], status=429, headers={"retry-after": "50"}),
}


def interrupted(process: subprocess.Popen[str], event: str, numbers: Sequence[signal.Signals]) -> tuple[int, list[dict[str, object]], str]:
    """Send the signals as soon as that event was read: the exit code, the lines after it, stderr."""
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == event:
            break
    for number in numbers:
        process.send_signal(number)
    out, err = process.communicate(timeout=20)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


@pytest.mark.parametrize(
    ("hang", "event", "numbers"),
    [
        ("before an answer", "turn_started", [signal.SIGINT]),
        ("while it streams", "text", [signal.SIGINT]),
        ("while it streams", "text", [signal.SIGINT] * 5),
        ("while it streams", "text", [signal.SIGTERM]),
        pytest.param("while it streams", "text", [signal.SIGHUP], marks=NOT_UNDER_NOHUP),
        ("while it waits to try again", "retry", [signal.SIGINT] * 2),
    ],
)
def test_a_signal_cancels_the_turn_and_keeps_the_session(
    shell: Shell, agents: Callable[[str], None], hang: str, event: str, numbers: Sequence[signal.Signals]
) -> None:
    with OpenAIServer(reply("Which colour?"), HANGS[hang]) as server:
        agents(server.url)
        assert shell.run("ask", "--escalate", "--reason", "the sign", "paint it").returncode == 0
        code, lines, err = interrupted(shell.start("ask", "--stream-json", "blue"), event, numbers)
        server.replace(reply("Blue it is."))
        after = shell.json("ask", "--json", "blue, I said")

    document = lines[-1]
    assert (code, document["type"], document["outcome"], document["state"]) == (130, "turn", "cancelled", "waiting")
    assert "Traceback" not in err
    assert ("cancelled by the user" in err) == (numbers[0] == signal.SIGINT)
    assert (after["agent"], after["mode"], after["answer"], after["turn"]) == ("strong", "resume", "Blue it is.", 2)


def _has_open(process: int, name: str) -> bool:
    """Whether the process has a file of that name open."""
    for link in Path(f"/proc/{process}/fd").glob("*"):
        with suppress(OSError):
            if link.readlink().name == name:
                return True
    return False


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are looked up in /proc")
def test_one_that_waits_for_the_session_can_be_interrupted(shell: Shell, agents: Callable[[str], None]) -> None:
    go, whole = threading.Event(), reply("first answer")
    with OpenAIServer(Reply([*whole.writes[:1], go, *whole.writes[1:]])) as server:
        agents(server.url)
        first = shell.start("ask", "--json", "first prompt")
        assert server.receiving.wait(30)
        second = shell.start("ask", "--json", "second prompt")
        while second.poll() is None and not _has_open(second.pid, "escalera.db"):
            time.sleep(0.05)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=1.5)  # it has started, and waits for the first
        second.send_signal(signal.SIGINT)
        out, err = second.communicate(timeout=20)
        go.set()
        assert json.loads(first.communicate(timeout=30)[0])["answer"] == "first answer"

    assert (second.returncode, json.loads(out)["error"]["type"], err.count("\n")) == (130, "Cancelled", 1)
    assert [turn[6] for turn in shell.stored()["turns"]] == ["first prompt"]


def test_an_interrupt_that_comes_twice_leaves_the_turn_its_document(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(Reply([*sse(chunk({"content": "long " * 2000}), done=False).writes, threading.Event()])) as server:
        agents(server.url)
        process = shell.start("ask", "--stream-json", "--escalate", "blue")
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        while json.loads(process.stdout.readline())["type"] != "text":
            pass
        process.send_signal(signal.SIGINT)
        while process.poll() is None and _unread(process.stdout) < 2048:  # until it writes the document, which the pipe is too small for
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    document = json.loads(out.splitlines()[-1])
    assert (process.returncode, document["outcome"], document["partial"]) == (130, "cancelled", "long " * 2000)
    assert "Traceback" not in err


def _unread(stream: IO[str]) -> int:
    """How many bytes lie in the pipe."""
    size = bytearray(4)
    fcntl.ioctl(stream, termios.FIONREAD, size)
    return int.from_bytes(size, sys.byteorder)
