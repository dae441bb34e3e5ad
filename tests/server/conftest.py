"""What tests of the server share: premises with scripted agents and a clock that is set by hand, in process or behind a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from orchestrator.crew import Crew
from orchestrator.messages import Text
from orchestrator.premises import Premises
from orchestrator.providers import Capabilities, Question, Request
from orchestrator.questions import StoredQuestion
from orchestrator.server import create_app
from orchestrator.server.connections import BoundedProtocol
from orchestrator.server.running import Server
from orchestrator.server.service import Service
from orchestrator.session import Session
from orchestrator.sessions import fresh_session
from orchestrator.testing.fake_provider import FakeProvider, fake_kind

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOKEN = "a-token-that-only-tests-know"  # noqa: S105  # of no server but theirs
CONFIG = """
primary = "local"
escalation = "strong"
[agents.local]
provider = "fake"
[agents.strong]
provider = "fake"
"""
TOOLS = Capabilities(takes_tools=True)
YES = Question("May I?", durable=True)


class HandClock:
    """Wall time moves when it is set. Monotonic seconds pass by themselves as well, and whoever sleeps looks again soon."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.unused = 0.0
        """Monotonic seconds more, of which the wall clock knows nothing: leases and questions do not grow old by them."""
        self._began = time.monotonic()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds + self.unused + time.monotonic() - self._began

    def sleep(self, _seconds: float, wake: threading.Event | None = None) -> None:
        (wake or threading.Event()).wait(0.005)


class Stage(Premises):
    """Premises whose agents follow scripts."""

    agents: Mapping[str, FakeProvider]

    def _again(self, cwd: Path) -> Stage:
        other = super()._again(cwd)
        other.agents = self.agents
        return other

    def crew(self, workspace: str, **options: Any) -> Crew:
        options.pop("settings", None)
        made = Crew(self.settings, {"fake": fake_kind(self.agents)}, environ={}, workspace=workspace, **options)
        self._crews.append(made)
        return made


@dataclass
class Home:
    """A server's home: `request` answers in process, `served` puts it behind a socket."""

    folder: Path
    config: str = CONFIG
    clock: HandClock = field(default_factory=HandClock)
    agents: dict[str, FakeProvider] = field(default_factory=lambda: {"local": FakeProvider(capabilities=TOOLS), "strong": FakeProvider(capabilities=TOOLS)})
    environ: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    server: Server | None = None
    """The one that runs."""
    _app: FastAPI | None = None

    @property
    def app(self) -> FastAPI:
        if self._app is None:
            (self.folder / "work").mkdir(exist_ok=True)
            file = self.folder / "config.toml"
            file.write_text(self.config)
            environ = {"ESCALERA_HOME": str(self.folder / "home"), **self.environ}
            stage = Stage(environ=environ, cwd=self.folder / "work", config_file=file, sets=(), flags={}, tell=self.notices.append)
            stage.clock, stage.agents = self.clock, self.agents
            self._app = create_app(premises=stage, token=TOKEN)
        return self._app

    @property
    def service(self) -> Service:
        made: Service = self.app.state.service
        return made

    @property
    def local(self) -> FakeProvider:
        return self.agents["local"]

    @property
    def strong(self) -> FakeProvider:
        return self.agents["strong"]

    def begin(self, name: str | None = None) -> Session:
        session = fresh_session(self.service.premises, name)
        self.service.store.create(session)
        return session

    def ask_question(self, question: Question = YES, session: Session | None = None) -> StoredQuestion:
        """An open question, as an agent of another process put it."""
        return self.service.broker.open(replace(question, session=(session or self.begin()).id, turn=0, agent="strong"))

    def request(self, method: str, path: str, document: Any = None, *, headers: Mapping[str, str] | None = None, **more: Any) -> httpx.Response:
        async def sent() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://localhost", timeout=30) as client:
                given = {"authorization": f"Bearer {TOKEN}", **(headers or {})}
                body = {} if document is None else {"json": document}
                return await client.request(method, path, headers=given, **body, **more)

        return asyncio.run(sent())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, document: Any = None, **more: Any) -> httpx.Response:
        return self.request("POST", path, {} if document is None else document, **more)

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of the server, which runs until the block ends."""
        listening = socket.create_server(("127.0.0.1", 0))
        ready = threading.Event()
        config = uvicorn.Config(self.app, http=BoundedProtocol, ws="none", lifespan="on", log_level="critical", log_config=None, timeout_graceful_shutdown=5)
        server = self.server = Server(config, self.service, ready.set)
        thread = threading.Thread(target=server.run, args=([listening],), name="server")
        thread.start()
        assert ready.wait(10)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(15)
            assert not thread.is_alive()

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        with self.served() as url, httpx.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=20, trust_env=False) as client:
            yield client

    def close(self) -> None:
        if self._app is not None:
            self.service.close()
            self.service.premises.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()
    assert not any(agent.running for agent in made.agents.values()), "a provider was not let go"


def events(text: str) -> list[tuple[str | None, str | None, dict[str, Any]]]:
    """(id, name, document) of each event in a stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "data" in fields and fields["data"] != "[DONE]":
            found.append((fields.get("id"), fields.get("event"), json.loads(fields["data"])))
    return found


def kinds(lines: list[tuple[str | None, str | None, dict[str, Any]]]) -> list[str]:
    return [document["type"] for _, _, document in lines]


def texts_sent(request: Request) -> list[str]:
    """The text of every message of a call."""
    return [part.text for message in request.messages for part in message.parts if isinstance(part, Text)]
