"""`python -m bench.chat`: how long after Enter the first text of the embedded model is seen in a chat, beside its server asked directly."""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import httpx
import pyte
from escalera_embedded.provider import EmbeddedProvider
from escalera_embedded.server import ServerSettings
from escalera_embedded.weights import model_file

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.escalation import planned
from orchestrator.planning.case import Wish
from orchestrator.providers import Cancel
from orchestrator.sessions import fresh_session

GOAL = 50
"""Milliseconds that a chat may add, by the median."""
PATIENCE = 120.0


def main() -> int:
    """Print both, and what is added; the exit code is 1 where that is more than the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="prompts, each sent both ways, in turns")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name, _chat(Path(name)) as chat, _direct(Path(name)) as direct:
        for prompt in ("Say hello.", "Say good-bye."):  # the models are loaded, and what laying out needs
            chat.first_text(prompt)
            direct.first_text(prompt)
        pairs = [(direct.first_text(prompt), chat.first_text(prompt)) for prompt in (f"Name {number + 2} birds." for number in range(runs))]
    directly, seen = ([pair[side] * 1000 for pair in pairs] for side in (0, 1))
    added = statistics.median(after - before for before, after in zip(directly, seen, strict=True))
    print(f"milliseconds to the first text, median of {runs} (slowest)")
    for what, times in (("from the server directly", directly), ("seen in a chat", seen)):
        print(f"{what:>26}: {statistics.median(times):7.1f} ({max(times):.1f})")
    ratio = statistics.median(seen) / statistics.median(directly)
    print(f"{'added':>26}: {added:+7.1f} (goal: at most {GOAL}), ratio {ratio:.2f}")
    return 0 if added <= GOAL else 1


class _Chat:
    """The program on a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)

    def first_text(self, prompt: str) -> float:
        """Seconds from Enter until text of the answer is seen; afterwards the turn is cancelled and a new session begun."""
        os.write(self._terminal, f"{prompt}".encode())
        self.until(prompt)
        began = time.perf_counter()
        os.write(self._terminal, b"\r")
        self.until("is answering")
        seconds = time.perf_counter() - began
        os.write(self._terminal, b"\x03")
        self.until("cancelled]", "completed]")
        os.write(self._terminal, b"/new\r")
        self.until("begins a new session")
        os.write(self._terminal, b"\x0c")  # a clean screen
        self.until("> ", without="begins a new session")
        return seconds

    def until(self, *texts: str, without: str = "\0") -> None:
        """Wait until one of these is on the screen."""
        deadline = time.monotonic() + PATIENCE
        while True:
            shown = "\n".join(self._screen.display)
            if any(text in shown for text in texts) and without not in shown:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{texts} did not come:\n{shown}")
            if select.select([self._terminal], [], [], 0.5)[0]:
                self._stream.feed(os.read(self._terminal, 65536))


@contextmanager
def _chat(folder: Path) -> Iterator[_Chat]:
    ours, theirs = pty.openpty()
    ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    program = str(Path(sys.executable).with_name("escalera"))
    environ = os.environ | {"ESCALERA_HOME": str(folder / "chat"), "TERM": "xterm"}
    process = subprocess.Popen([program, "chat"], cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        chat = _Chat(ours)
        chat.until("/help lists")
        yield chat
    finally:
        process.terminate()
        process.wait()
        os.close(ours)


class _Direct:
    """The same model's server in this process, sent the very body that a first turn sends."""

    def __init__(self, front: Front) -> None:
        self._front, self._store = front, front.store()
        self._place = front.workplace(self._store, front.workspace)
        self._client = httpx.Client(trust_env=False, timeout=PATIENCE)

    def first_text(self, prompt: str) -> float:
        """Seconds until the first text."""
        session = fresh_session(self._front)
        self._store.create(session)
        plan = planned(self._place, session.id, Wish(prompt))
        provider = plan.agent.provider
        if not isinstance(provider, EmbeddedProvider):
            raise SystemExit("the primary agent is not the embedded model")
        options = provider._options
        running = provider._servers.get(ServerSettings(model_file(None), options.threads, options.context_window_tokens), Cancel())
        body, headers = provider.preview(plan.request)["body"], {"authorization": f"Bearer {running.key}"}
        began = time.perf_counter()
        with self._client.stream("POST", f"{running.url}/chat/completions", json=body, headers=headers) as response:
            for line in response.iter_lines():
                if line.startswith("data: {") and (json.loads(line[6:])["choices"][0]["delta"] or {}).get("content"):
                    return time.perf_counter() - began
        raise SystemExit("the server answered without a text")


@contextmanager
def _direct(folder: Path) -> Iterator[_Direct]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ESCALERA_")} | {"ESCALERA_HOME": str(folder / "direct")}
    front = Front(environ=environ, cwd=folder, config_file=None, sets=(), flags={}, output=Output(interactive=False, color=False, plain=True))
    try:
        yield _Direct(front)
    finally:
        front.close()


if __name__ == "__main__":
    sys.exit(main())
