"""Turns cancelled at any moment, with each kind of strong agent: back in time, nothing left open, and what was said kept as a part."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.dispatch.desk import Shown
from orchestrator.errors import Cancelled
from orchestrator.escalation import Workplace, take_turn
from orchestrator.messages import Text
from orchestrator.planning.case import Wish
from orchestrator.providers import Answer, Cancel
from orchestrator.recording import Report
from orchestrator.routing import Choice
from orchestrator.session import Outcome, Role
from orchestrator.sessions import fresh_session
from orchestrator.testing import bedrock_server
from orchestrator.testing.anthropic_server import Hang
from orchestrator.testing.openai_server import Reply, reply

from .backends import CLAUDE, NO_CLAUDE, Backend, backend
from .processes import processes_with

CANCELS = int(os.environ.get("ESCALERA_PROOF_CANCELS", "8"))
"""Turns for each kind that is cheap to call; a quarter for programs, an eighth for one that takes no hint and costs five seconds."""

ANSWER = "one two three four five six seven eight nine ten"
PAUSE = 0.02
WISH = Wish("count", Choice(role=Role.ESCALATION))

STUB = """\
#!{python}
import json, os, signal, subprocess, sys, threading, time
deaf = {deaf}
if deaf:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"], start_new_session=True)
def say(item):
    sys.stdout.write(json.dumps(item) + "\\n")
    sys.stdout.flush()
def delta(text):
    return {{"type": "stream_event", "event": {{"type": "content_block_delta", "delta": {{"type": "text_delta", "text": text}}}}}}
def heed():
    for line in sys.stdin:
        if "interrupt" in line and not deaf:
            say({{"type": "result", "is_error": True, "result": None}})
            os._exit(0)
sys.stdin.readline()
threading.Thread(target=heed, daemon=True).start()
say({{"type": "system", "subtype": "init", "session_id": sys.argv[sys.argv.index("--session-id") + 1], "model": "m"}})
for word in {answer!r}.split():
    say(delta(word + " "))
    time.sleep({pause})
if deaf:
    time.sleep(600)
say({{"type": "assistant", "message": {{"id": "a", "model": "m", "content": [{{"type": "text", "text": {answer!r}}}]}}}})
say({{"type": "result", "is_error": False, "result": {answer!r}, "num_turns": 1}})
"""


@dataclass
class Watched:
    """What was shown of one turn, and when it was cancelled."""

    texts: list[str] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    at: float = 0.0

    def watch(self, shown: Shown) -> None:
        self.started.set()
        if shown.type == "text":
            self.texts.append(shown.text)
        elif shown.type == "withdrawn":
            self.texts.clear()


@dataclass(frozen=True)
class Place:
    """A running agent of one kind, and a way to take turns with it in this process."""

    kind: str
    workplace: Workplace
    front: Front
    script: Callable[[], None]
    """Gives the server its next answer."""
    mark: str
    """What stands in the environment or the command line of its processes, if it has any."""

    def turn(self, after: float | None) -> tuple[Report, Watched, float]:
        """One turn in a session of its own, cancelled so many seconds after it began; how long it took from then, 0 where it was over."""
        session = fresh_session(self.front)
        self.workplace.store.create(session)
        self.script()
        cancel, watched = Cancel(), Watched()

        def press() -> None:
            watched.started.wait(30)
            time.sleep(after or 0)
            watched.at = time.monotonic()
            cancel.set("enough")

        presser = threading.Thread(target=press)
        if after is not None:
            presser.start()
        report = take_turn(self.workplace, session.id, WISH, cancel=cancel, ask=lambda _: Answer("cancel", by="nobody"), watch=watched.watch)
        ended = time.monotonic()
        if after is not None:
            presser.join()
        (stored,) = self.workplace.store.log(session.id).newest_first(outcomes=None)
        assert stored == report.turn
        return report, watched, max(0.0, ended - watched.at)


@contextmanager
def place(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The agent of that kind as the escalation agent of a home of its own."""
    with agent(kind, folder) as (table, script, environ, mark):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        primary = '[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\nmodel = "small"\n'
        config = folder / "config.toml"
        config.write_text(f'primary = "local"\nescalation = "{table.partition("]")[0].removeprefix("[agents.")}"\n{primary}{table}')
        around = {name: value for name, value in os.environ.items() if not name.startswith("ESCALERA_")} | {"ESCALERA_HOME": str(folder / "home")}
        front = Front(environ=around, cwd=folder, config_file=config, sets=(), flags={}, output=Output(interactive=False, color=False, plain=True))
        try:
            yield Place(kind, front.workplace(front.store(), front.workspace), front, script, mark)
        finally:
            front.close()


@contextmanager
def agent(kind: str, folder: Path) -> Iterator[tuple[str, Callable[[], None], dict[str, str], str]]:
    """Its part of the configuration, its script, its environment, and what marks its processes."""
    if kind in ("polite", "deaf"):
        program = folder / "claude-stub"
        program.write_text(STUB.format(python=sys.executable, deaf=kind == "deaf", answer=ANSWER, pause=PAUSE))
        program.chmod(0o700)
        mark = f"stub-{os.getpid()}-{folder.name}"
        yield f'[agents.stub]\nprovider = "claude-cli"\nbin = "{program}"\nenv = {{ MARK = "{mark}" }}\n', lambda: None, {}, mark
        return
    with backend(kind, folder) as strong:
        yield strong.table, partial(paced, strong), dict(strong.environ), str(folder / "claude-home")


def paced(strong: Backend) -> None:
    """The answer, a word every now and then; the real program gets one that never ends.

    Twice: a server that is slow may look at the cancelled request of the turn before only now.
    """
    match strong.kind:
        case "claude-cli":
            strong.server.add(Hang(ANSWER))
        case "bedrock":
            strong.server.replace(*[bedrock_server.Reply([part for write in bedrock_server.say(ANSWER).writes for part in (PAUSE, write)])] * 2)
        case _:
            strong.server.replace(*[Reply([part for write in reply(ANSWER).writes for part in (PAUSE, write)])] * 2)


@dataclass(frozen=True)
class Open:
    """What this process holds."""

    files: int
    threads: int
    processes: int

    @classmethod
    def now(cls, mark: str) -> Open:
        """As it is; threads are those of the providers."""
        names = [thread.name for thread in threading.enumerate()]
        ours = [name for name in names if name.startswith("escalera-") or name.endswith(("(_read)", "(_write)", "(_drain)", "(end)"))]
        return cls(len(os.listdir("/proc/self/fd")), len(ours), len(processes_with(mark)) if mark else 0)


def settled(mark: str) -> Open:
    """What is open once nothing changes any more."""
    now, before = Open.now(mark), None
    while now != before:
        time.sleep(0.3)
        now, before = Open.now(mark), now
    return now


def settles_to(before: Open, mark: str) -> Open:
    """What is open once the servers, which run in this process too, have seen that their clients went."""
    deadline = time.monotonic() + 5
    while (now := Open.now(mark)) != before and time.monotonic() < deadline:
        time.sleep(0.01)
    return now


LIMITS = {"openai": 2.0, "openrouter": 2.0, "bedrock": 2.0, "claude-cli": 6.0, "polite": 6.0, "deaf": 6.0}
"""Seconds from the cancel to the end of the turn (page 7)."""


TURNS = {kind: CANCELS if limit == 2 else max(1, CANCELS // 8 if kind == "deaf" else CANCELS // 4) for kind, limit in LIMITS.items()}


@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
@pytest.mark.parametrize("kind", LIMITS)
def test_cancelled_at_random_moments(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "claude-cli" and not CLAUDE:
        pytest.skip(NO_CLAUDE)
    chance, times, outcomes, partial_texts = random.Random(3), [], [], 0
    with place(kind, tmp_path, monkeypatch) as at:
        at.turn(0.5)  # what is loaded once
        before = settled(at.mark)
        long = 4.0 if kind == "claude-cli" else 0.1 + 13 * PAUSE
        for number in range(TURNS[kind]):
            report, watched, took = at.turn(chance.uniform(0, long))
            shown, texts = "".join(watched.texts), [step for step in report.turn.steps if isinstance(step, Text)]
            kept = "".join(step.text for step in texts)
            assert took < LIMITS[kind], number
            assert kept.startswith(shown.strip()), number  # a program may say more until it has ended
            if report.error is None:
                assert (report.turn.outcome, kept) == (Outcome.COMPLETED, ANSWER)
            else:
                assert isinstance(report.error, Cancelled)
                assert report.turn.outcome is Outcome.CANCELLED
                assert ANSWER.startswith(kept.strip()), number
                assert all(step.extra == {"partial": True} for step in texts)
            times.append(took)
            outcomes.append(report.turn.outcome.value)
            partial_texts += bool(texts)
            assert settles_to(before, at.mark) == before, number
    print({outcome: outcomes.count(outcome) for outcome in outcomes}, f"{partial_texts} with text, slowest {max(times):.2f} s")  # noqa: T201  # for the long proof
