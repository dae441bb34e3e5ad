"""What tests of the MCP server share: scripted agents behind a real store, and the official client over every way it has."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from orchestrator.crew import Crew
from orchestrator.mcp_server.calls import Calls
from orchestrator.mcp_server.running import _Server, http_app, listen
from orchestrator.mcp_server.server import build_server
from orchestrator.premises import Premises
from orchestrator.providers import Capabilities, Question
from orchestrator.session import Turn
from orchestrator.testing.fake_provider import FakeProvider, fake_kind

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOKEN = "a-token-that-only-tests-know"  # noqa: S105  # of no server but theirs
CONFIG = 'primary = "local"\nescalation = "strong"\n[agents.local]\nprovider = "fake"\n[agents.strong]\nprovider = "fake"\n'
MODERN, LEGACY = "2026-07-28", "legacy"
COLOUR = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
ASKS = Question("Which colour?", mode="form", schema=COLOUR)
TOOLS = Capabilities(takes_tools=True)
T = TypeVar("T")


class HandClock:
    """Wall time moves when it is set. Monotonic seconds pass by themselves as well, and whoever sleeps looks again soon."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = time.monotonic()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds + time.monotonic() - self._began

    def sleep(self, _seconds: float, wake: threading.Event | None = None) -> None:
        (wake or threading.Event()).wait(0.005)


class Stage(Premises):
    """Premises whose agents follow scripts."""

    agents: Mapping[str, FakeProvider]

    def crew(self, workspace: str, **options: Any) -> Crew:
        options.pop("settings", None)
        made = Crew(self.settings, {"fake": fake_kind(self.agents)}, environ={}, workspace=workspace, **options)
        self._crews.append(made)
        return made


@dataclass
class Home:
    """A server's home, with `strong` as the agent that is escalated to."""

    folder: Path
    clock: HandClock = field(default_factory=HandClock)
    config: str = CONFIG
    task_after: float = 30.0
    wait_questions: bool = False
    agents: dict[str, FakeProvider] = field(default_factory=lambda: {name: FakeProvider(capabilities=TOOLS) for name in ("local", "strong")})
    made: list[Calls] = field(default_factory=list)

    @property
    def strong(self) -> FakeProvider:
        return self.agents["strong"]

    def process(self) -> Calls:
        """The calls of one more process on the same store."""
        (self.folder / "work").mkdir(exist_ok=True)
        file = self.folder / "config.toml"
        file.write_text(self.config)
        stage = Stage(environ={"ESCALERA_HOME": str(self.folder / "home")}, cwd=self.folder / "work", config_file=file, sets=(), flags={}, tell=lambda _: None)
        stage.clock, stage.agents = self.clock, self.agents
        self.made.append(Calls(stage, wait_questions=self.wait_questions))
        return self.made[-1]

    @property
    def calls(self) -> Calls:
        return self.made[0] if self.made else self.process()

    @property
    def turns(self) -> list[Turn]:
        session = self.calls.store.find(None, self.calls.premises.workspace)
        return list(reversed(list(self.calls.store.log(session.id).newest_first(outcomes=None))))

    @asynccontextmanager
    async def client(self, mode: str = MODERN, calls: Calls | None = None, **options: Any) -> AsyncIterator[Client]:
        """In process; the older revisions over streams, the present one directly."""
        server = build_server(calls or self.calls, task_after=self.task_after)
        async with Client(server, mode=mode, cache=None, **options) as client:
            yield client

    @asynccontextmanager
    async def over_http(self, mode: str = MODERN, **options: Any) -> AsyncIterator[Client]:
        """Over a real socket."""
        async with self.address() as url, self.reached(url, mode, **options) as client:
            yield client

    @asynccontextmanager
    async def reached(self, url: str, mode: str = MODERN, **options: Any) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20) as web,
            Client(streamable_http_client(url, http_client=web), mode=mode, cache=None, **options) as client,
        ):
            yield client

    @asynccontextmanager
    async def address(self) -> AsyncIterator[str]:
        import uvicorn

        server, listening, ready = build_server(self.calls, task_after=self.task_after), listen(0), asyncio.Event()
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(http_app(server, TOKEN), ws="none", lifespan="on", log_level="critical", log_config=None, timeout_graceful_shutdown=5)
        running = _Server(config, lambda: loop.call_soon_threadsafe(ready.set), self.calls.close)
        thread = threading.Thread(target=running.run, args=([listening],), name="http")
        thread.start()
        await ready.wait()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            running.should_exit = True
            await asyncio.to_thread(thread.join, 15)
            assert not thread.is_alive()

    def close(self) -> None:
        for calls in self.made:
            calls.close()
            calls.premises.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()
    assert not any(agent.running for agent in made.agents.values()), "a provider was not let go"


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a client's work to its end, or fail."""

    async def bounded() -> T:
        return await asyncio.wait_for(work, 30)

    return asyncio.run(bounded())


async def until(said: Callable[[], object]) -> None:
    """Wait until it is so, for what no event tells."""
    deadline = time.monotonic() + 20
    while not said():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def text(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


class Asked:
    """A client's user: answers with what was prepared, and keeps what was asked."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self._answers = list(answers)
        self.seen: list[types.ElicitRequestParams] = []

    async def __call__(self, _context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.seen.append(params)
        return self._answers.pop(0)


def says_accept(**content: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=dict(content))
