"""`escalera mcp` as a host starts it: over standard input and output, with the official client or without."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from orchestrator.clock import SystemClock
from orchestrator.session import Outcome
from orchestrator.store.sqlite import open_store
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, reply, sse

from .conftest import LEGACY, MODERN, Asked, drive, says_accept, text

PROGRAM = str(Path(sys.executable).with_name("escalera"))
ASK = {"index": 0, "id": "c1", "function": {"name": "ask_user", "arguments": json.dumps({"question": "Which colour?"})}}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as made:
        yield made


@pytest.fixture
def environ(tmp_path: Path, server: OpenAIServer) -> dict[str, str]:
    (tmp_path / "work").mkdir()
    config = tmp_path / "home" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'escalation = "strong"\n[agents.strong]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\n')
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ESCALERA_")}
    return kept | {"ESCALERA_HOME": str(tmp_path / "home")}


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
def test_the_official_client_escalates_is_asked_and_cancels(environ: dict[str, str], tmp_path: Path, server: OpenAIServer, mode: str) -> None:
    never = threading.Event()
    server.add(sse(chunk({"tool_calls": [ASK]}), chunk({}, finish_reason="tool_calls")), reply("Red it is."))
    server.add(Reply(before_head=never), reply("Again."))
    user = Asked(says_accept(answer="red"))
    parameters = StdioServerParameters(command=PROGRAM, args=["mcp"], env=environ, cwd=tmp_path / "work")

    async def work() -> tuple[types.CallToolResult, types.CallToolResult]:
        with open(tmp_path / "stderr", "w") as errors:
            async with Client(stdio_client(parameters, errlog=errors), mode=mode, cache=None, elicitation_callback=user) as client:
                first = await client.call_tool("escalate", {"prompt": "paint it"})
                call = asyncio.ensure_future(client.call_tool("escalate", {"prompt": "and the door"}))
                while len(server.requests) < 3:
                    await asyncio.sleep(0.01)
                call.cancel()
                return first, await client.call_tool("escalate", {"prompt": "once more"})

    try:
        first, last = drive(work())
    finally:
        never.set()

    assert (text(first).splitlines()[0], text(last).splitlines()[0]) == ("Red it is.", "Again.")
    assert [shown.message for shown in user.seen] == ["strong asks: Which colour?"]
    assert "red" in json.dumps(server.requests[1].body["messages"])
    assert "Traceback" not in (tmp_path / "stderr").read_text()


@pytest.mark.parametrize("how", ["SIGTERM", "end of input"])
def test_its_end_ends_the_turn_and_leaves_it_cancelled(environ: dict[str, str], tmp_path: Path, server: OpenAIServer, how: str) -> None:
    never = threading.Event()
    server.add(Reply(before_head=never))
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "escalate", "arguments": {"prompt": "go"}, "_meta": meta}}
    process = subprocess.Popen([PROGRAM, "mcp"], env=environ, cwd=tmp_path / "work", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        assert server.receiving.wait(20)
        if how == "end of input":
            process.stdin.close()
            process.stdin = None
        else:
            process.send_signal(signal.Signals[how])
        out, err = process.communicate(timeout=20)
    finally:
        never.set()
        process.kill()
        process.wait()

    assert (process.returncode, b"Traceback" in err) == (0, False)
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    with closing(open_store(tmp_path / "home" / "data", clock=SystemClock(), read_only=True)) as store:
        session = store.find(None, str(tmp_path / "work"))
        assert [turn.outcome for turn in store.log(session.id).newest_first(outcomes=None)] == [Outcome.CANCELLED]


def test_over_http_it_says_where_it_is_and_a_signal_ends_it_with_the_store_closed(environ: dict[str, str], tmp_path: Path) -> None:
    process = subprocess.Popen([PROGRAM, "mcp", "--http", "--port", "0"], env=environ, cwd=tmp_path / "work", stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = [process.stderr.readline() for _ in range(2)]
        token = (tmp_path / "home" / "data" / "server-token").read_text().strip()
        refused, taken = (httpx2.post(said[0].strip(), headers={"Authorization": f"Bearer {given}"}).status_code for given in ("x", token))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

    assert (refused, taken) == (401, 400)  # let in, and told that it sent nothing
    assert token not in "".join(said)
    assert list((tmp_path / "home" / "data" / "owners").iterdir()) == []
