"""A turn killed in the middle of the stream, with each kind of strong agent: the thread goes on, and nothing is left running."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from orchestrator.testing import bedrock_server
from orchestrator.testing.anthropic_server import Hang
from orchestrator.testing.openai_server import Reply, chunk, sse

from .backends import CLAUDE, KINDS, NO_CLAUDE, Backend, backend
from .conftest import Shell
from .processes import processes_with

KILLS = max(1, int(os.environ.get("ESCALERA_PROOF_KILLS", "4")) // 4)
HALF = "half of an answer "


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_killed_while_it_streams_the_thread_goes_on(shell: Shell, tmp_path: Path, kind: str) -> None:
    if kind == "claude-cli" and not CLAUDE:
        pytest.skip(NO_CLAUDE)
    chance = random.Random(5)
    with backend(kind, tmp_path) as strong:
        primary = '[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\nmodel = "small"\n'
        shell.configure(f'primary = "local"\nescalation = "{kind}"\n{primary}{strong.table}')
        strong.answers("A stone oven?")
        first = shell.json("ask", "--json", "--escalate", "which oven?", environ=strong.environ)
        for number in range(KILLS):
            before, sent = shell.json("session", "export"), len(strong.bodies)
            _streams_half(strong)
            process = shell.start("ask", "--stream-json", f"prompt {number}", environ=strong.environ)
            assert HALF.startswith(_first_text(process))
            assert len(strong.bodies) > sent
            _wait(process, chance.uniform(0.0, 0.5))
            process.kill()
            process.communicate()
            after = shell.json("session", "export")

            assert after["turns"][-1]["outcome"] == "interrupted"
            assert after["turns"][:-1] == before["turns"]
            assert [after[name] for name in ("state", "need", "brief", "external_sessions")] == [
                before[name] for name in ("state", "need", "brief", "external_sessions")
            ]
            strong.answers(f"Answer {number}?")
            went_on = shell.json("ask", "--json", f"reply {number}", environ=strong.environ)
            assert (went_on["mode"], went_on["answer"], went_on["external_session"]) == ("resume", f"Answer {number}?", first["external_session"])
            assert "which oven?" in strong.told

    assert not processes_with(str(tmp_path / "claude-home"))


def _streams_half(strong: Backend) -> None:
    match strong.kind:
        case "claude-cli":
            strong.server.add(Hang(HALF))
        case "bedrock":
            strong.server.add(bedrock_server.Reply(bedrock_server.say(HALF).writes[:2], hold_open=True))
        case _:
            strong.server.add(Reply(sse(chunk({"content": HALF}), done=False).writes, hold_open=True))


def _first_text(process: subprocess.Popen[str]) -> str:
    """What it streams first: from there on it is in the midst of its answer."""
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["type"] == "text":
            return str(event["text"])
    raise AssertionError("it came to its end without a text")


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return
