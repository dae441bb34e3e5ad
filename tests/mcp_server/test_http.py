"""The server behind a real socket: the official client over streamable HTTP, and who is not let in."""

from __future__ import annotations

import asyncio
import json

import httpx2
import mcp_types as types
import pytest

from orchestrator.messages import Text
from orchestrator.providers import Answer
from orchestrator.session import Outcome
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, says

from .conftest import ASKS, LEGACY, MODERN, TOKEN, Asked, Home, drive, says_accept, text, until

both = pytest.mark.parametrize("mode", [MODERN, LEGACY])
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@both
def test_an_escalation_with_a_question_and_progress(home: Home, mode: str) -> None:
    home.strong.will([ASKS, *says("Done.")])
    user, told = Asked(says_accept(colour="red")), list[str | None]()

    async def heard(_progress: float, _total: float | None, message: str | None) -> None:
        told.append(message)

    async def work() -> types.CallToolResult:
        async with home.over_http(mode, elicitation_callback=user) as client:
            return await client.call_tool("escalate", {"prompt": "go"}, progress_callback=heard)

    assert text(drive(work())) == "Done."
    assert home.strong.answers == [Answer("accept", {"colour": "red"})]
    assert "strong has the turn (first)" in told
    assert [shown.message for shown in user.seen] == ["Which colour?"]


@both
def test_a_cancelled_call_cancels_its_turn(home: Home, mode: str) -> None:
    home.strong.will([UNTIL_CANCELLED])

    async def work() -> None:
        async with home.over_http(mode) as client:
            call = asyncio.ensure_future(client.call_tool("escalate", {"prompt": "go"}))
            await until(lambda: home.strong.running)
            call.cancel()
            await until(lambda: home.turns[0].outcome is Outcome.CANCELLED)

    drive(work())

    assert [turn.outcome for turn in home.turns] == [Outcome.CANCELLED]


def test_a_stop_of_the_server_ends_what_runs(home: Home) -> None:
    home.strong.will([UNTIL_CANCELLED])

    async def work() -> None:
        async with home.address() as url, httpx2.AsyncClient(headers=HEADERS) as web:
            meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
            params = {"name": "escalate", "arguments": {"prompt": "go"}, "_meta": meta}
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "escalate"}
            asking = asyncio.ensure_future(web.post(url, json={**PING, "method": "tools/call", "params": params}, headers=headers))
            await until(lambda: home.strong.running)
        await asyncio.wait([asking], timeout=5)
        assert asking.done()

    drive(work())

    assert home.turns[0].outcome is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_who_is_a_stranger_is_not_let_in(home: Home, changed: dict[str, str], status: int) -> None:
    async def work() -> int:
        async with home.address() as url, httpx2.AsyncClient() as web:
            return (await web.post(url, content=json.dumps(PING), headers={**HEADERS, **changed})).status_code

    assert drive(work()) == status
    assert home.calls.store.list(None) == []


def test_a_body_without_end_is_refused_and_others_go_on(home: Home) -> None:
    home.strong.will(says("Done."))

    async def work() -> tuple[int, str]:
        async with home.address() as url, httpx2.AsyncClient() as web, home.reached(url) as client:
            refused = await web.post(url, content=b"x" * (10 * 1024 * 1024), headers=HEADERS)
            return refused.status_code, text(await client.call_tool("escalate", {"prompt": "go"}))

    assert drive(work()) == (413, "Done.")
    assert [part.text for message in home.strong.requests[0].messages for part in message.parts if isinstance(part, Text)] == ["go"]
