"""Turns whose whole process is killed at any moment: what was stored stands, and the next turn goes on."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from orchestrator.clock import SystemClock
from orchestrator.percepts import Percept
from orchestrator.session import Outcome, Session, State, Turn
from orchestrator.store.sqlite import open_store
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, reply, sse

from .conftest import Shell

KILLS = int(os.environ.get("ESCALERA_PROOF_KILLS", "4"))
FACT = "The oven is made of stone."
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "record_memory", "arguments": json.dumps({"content": FACT})}}
REMEMBER = sse(chunk({"tool_calls": [CALL]}), chunk({}, finish_reason="tool_calls"))
ANSWER = "one two three four"


@dataclass(frozen=True)
class Stored:
    """All that the store knows of the newest session."""

    session: Session
    turns: tuple[Turn, ...]
    percepts: tuple[Percept, ...]


def stored(shell: Shell) -> Stored:
    """What a reader finds, in a file that is sound."""
    path = shell.home / "data"
    with closing(open_store(path, clock=SystemClock(), read_only=True)) as store:
        session = store.find(None, str(shell.cwd))
        turns = tuple(reversed(list(store.log(session.id).newest_first(outcomes=None))))
        found = Stored(session, turns, tuple(store.percepts(session=session.id)))
    with closing(sqlite3.connect(f"file:{path}/escalera.db?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return found


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process is killed at the end of the block, wherever it is by then."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def check(before: Stored, after: Stored, prompt: str) -> Outcome | None:
    """Everything from before stands; the killed turn is not there, or whole, or interrupted with whole steps and nothing else changed."""
    assert after.turns[: len(before.turns)] == before.turns
    turn = next(iter(after.turns[len(before.turns) :]), None)
    if turn is None or turn.outcome is Outcome.INTERRUPTED:
        kept = (after.session.state, after.session.need, after.session.brief, after.session.last_need, after.session.external_sessions, after.percepts)
        assert kept == (
            before.session.state,
            before.session.need,
            before.session.brief,
            before.session.last_need,
            before.session.external_sessions,
            before.percepts,
        )
    if turn is None:
        return None
    assert (len(after.turns), turn.index, turn.prompt) == (len(before.turns) + 1, len(before.turns), prompt)
    kinds = [type(step).__name__ for step in turn.steps]
    whole = ["ToolCall", "ToolResult", "Text"]
    if turn.outcome is Outcome.INTERRUPTED:
        assert kinds == whole[: len(kinds)]
        assert turn.answer in ("", ANSWER)
    else:
        assert (turn.outcome, kinds, turn.answer) == (Outcome.COMPLETED, whole, ANSWER)
    return turn.outcome


MOMENTS: dict[str, tuple[list[Reply], int, str, list[str]]] = {
    "before an answer": ([Reply(before_head=threading.Event())], 1, "turn_started", []),
    "while it streams": ([Reply([*reply(ANSWER).writes[:2], threading.Event()])], 1, "text", []),
    "after a tool ran": ([REMEMBER, Reply(before_head=threading.Event())], 2, "tool_result", ["ToolCall", "ToolResult"]),
}
"""For each moment: what the server does, how many requests it gets, the event that is waited for, and the steps that are stored by then."""


@pytest.fixture
def waiting(shell: Shell, agents: Callable[[str], None]) -> Shell:
    """A session whose escalation agent has asked a question, with a need and a brief."""
    with OpenAIServer(reply("A green door."), reply("Which colour has the sign?")) as server:
        agents(server.url)
        done = shell.each(["ask", "the door?"], ["need", "set", "open a bakery"], ["ask", "--escalate", "--reason", "the sign is missing", "paint it"])
    assert [result.returncode for result in done] == [0, 0, 0]
    assert stored(shell).session.state is State.WAITING
    return shell


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_question_survives_the_killed_reply(waiting: Shell, agents: Callable[[str], None], moment: str) -> None:
    script, requests, event, steps = MOMENTS[moment]
    before = stored(waiting)
    with OpenAIServer(*script) as server:
        agents(server.url)
        with killed(waiting.start("ask", "--stream-json", "blue")) as process:
            _read_until(process, event)
            assert _arrived(server, requests)
    after = stored(waiting)

    assert check(before, after, "blue") is Outcome.INTERRUPTED
    assert [type(step).__name__ for step in after.turns[-1].steps] == steps
    assert (after.session.state, after.session.brief) == (State.WAITING, before.session.brief)
    assert after.session.brief is not None
    with OpenAIServer(reply("Blue it is.")) as server:
        agents(server.url)
        answered = waiting.json("ask", "--json", "blue, I said")
    assert (answered["agent"], answered["mode"], answered["state"], answered["turn"]) == ("strong", "resume", "routing", 3)
    assert "Which colour has the sign?" in json.dumps(server.requests[0].body["messages"])


def _read_until(process: subprocess.Popen[str], event: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == event:
            return
    raise AssertionError(f"ended without {event}: {process.communicate()}")


def _arrived(server: OpenAIServer, requests: int) -> bool:
    """Whether so many requests came, within a while."""
    deadline = time.monotonic() + 30
    while len(server.requests) < requests and time.monotonic() < deadline:
        time.sleep(0.005)
    return len(server.requests) == requests


@pytest.mark.long
@pytest.mark.proof
def test_killed_at_random_moments(shell: Shell, agents: Callable[[str], None]) -> None:
    chance, outcomes = random.Random(7), []
    with OpenAIServer() as server:
        agents(server.url)
        assert shell.run("need", "set", "open a bakery").returncode == 0
        server.add(REMEMBER, reply(ANSWER))
        began = time.monotonic()
        asked = shell.start("ask", "prompt")
        assert server.receiving.wait(30)
        sent = time.monotonic()
        assert asked.communicate(timeout=30)[0] == f"{ANSWER}\n"
        start, turn = sent - began, time.monotonic() - sent
        for number in range(KILLS):
            server.replace(REMEMBER, reply(ANSWER))
            before, prompt = stored(shell), f"prompt {number}"
            server.receiving.clear()
            with killed(shell.start("ask", prompt)) as process:
                if chance.random() < 0.75:
                    server.receiving.wait(30)
                    _wait(process, chance.random() ** 2 * turn)
                else:
                    _wait(process, chance.uniform(0, start))
            outcomes.append(check(before, stored(shell), prompt))
            server.replace(REMEMBER, reply(ANSWER))
            asked = shell.run("ask", "--json", "go on")
            assert (asked.returncode, json.loads(asked.stdout)["answer"]) == (0, ANSWER), asked.stderr
    turns = stored(shell).turns
    assert [turn.index for turn in turns] == list(range(len(turns)))
    assert sum(turn.outcome is Outcome.COMPLETED for turn in turns) == 1 + KILLS + outcomes.count(Outcome.COMPLETED)
    print({str(outcome): outcomes.count(outcome) for outcome in set(outcomes)})  # noqa: T201  # shown with -s, for the long proof


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return


@pytest.mark.proof
def test_killed_in_the_first_turn_of_a_home(shell: Shell, agents: Callable[[str], None]) -> None:
    chance = random.Random(11)
    with OpenAIServer() as server:
        for number in range(max(2, KILLS // 4)):
            fresh = shell.elsewhere(shell.home.with_name(f"home-{number}"), shell.cwd)
            fresh.configure(f'primary = "local"\n[agents.local]\nprovider = "openai"\nmodel = "m"\nbase_url = "{server.url}"\n')
            server.replace(reply(ANSWER))
            with killed(fresh.start("ask", "first")) as process:
                _wait(process, chance.uniform(0.2, 1.0))
            server.replace(reply(ANSWER))
            asked = fresh.run("ask", "--json", "again")
            assert (asked.returncode, json.loads(asked.stdout)["answer"]) == (0, ANSWER), asked.stderr
            outcomes = [turn.outcome for turn in stored(fresh).turns]
            assert outcomes[-1] is Outcome.COMPLETED
            assert outcomes[:-1] in ([], [Outcome.INTERRUPTED], [Outcome.COMPLETED])
