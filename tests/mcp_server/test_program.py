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


def outcomes(folder: Path) -> list[str]:
    """Of the turns in the store, oldest first."""
    with closing(open_store(folder / "home" / "data", clock=SystemClock(), read_only=True)) as store:
        session = store.find(None, str(folder / "work"))
        return [turn.outcome.value for turn in store.log(session.id).newest_first(outcomes=None)][::-1]


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
def test_the_official_client_escalates_is_asked_cancels_and_goes(environ: dict[str, str], tmp_path: Path, server: OpenAIServer, mode: str) -> None:
    never = threading.Event()
    server.add(sse(chunk({"tool_calls": [ASK]}), chunk({}, finish_reason="tool_calls")), reply("Red it is."))
    server.add(Reply(before_head=never), reply("Again."), Reply(before_head=never))
    user = Asked(says_accept(answer="red"))
    parameters = StdioServerParameters(command=PROGRAM, args=["mcp"], env=environ, cwd=tmp_path / "work")

    async def work() -> list[str]:
        async def begun(client: Client, prompt: str, requests: int) -> asyncio.Future[types.CallToolResult]:
            call = asyncio.ensure_future(client.call_tool("escalate", {"prompt": prompt}))
            while len(server.requests) < requests:
                await asyncio.sleep(0.01)
            return call

        with open(tmp_path / "stderr", "w") as errors:
            async with Client(stdio_client(parameters, errlog=errors), mode=mode, cache=None, elicitation_callback=user) as client:
                first = await client.call_tool("escalate", {"prompt": "paint it"})
                (await begun(client, "and the door", 3)).cancel()
                last = await client.call_tool("escalate", {"prompt": "once more"})
                left = await begun(client, "and then", 5)
        await asyncio.wait([left])
        assert left.cancelled() or left.exception() is not None
        return [text(result).splitlines()[0] for result in (first, last)]

    try:
        assert drive(work()) == ["Red it is.", "Again."]
    finally:
        never.set()

    assert [shown.message for shown in user.seen] == ["strong asks: Which colour?"]
    assert "red" in json.dumps(server.requests[1].body["messages"])
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    assert outcomes(tmp_path) == ["completed", "cancelled", "completed", "cancelled"]


def test_a_signal_ends_the_turn_and_leaves_it_cancelled(environ: dict[str, str], tmp_path: Path, server: OpenAIServer) -> None:
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
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0  # though its input is still open
        out, err = process.communicate()
    finally:
        never.set()
        process.kill()
        process.wait()

    assert b"Traceback" not in err
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    assert outcomes(tmp_path) == ["cancelled"]


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
