"""MCP servers as real programs and real addresses, and calls of their tools as a turn makes them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchestrator.mcp_client.servers import Offer, ToolServers
from orchestrator.providers import Answer, Ask, Cancel, Question
from orchestrator.settings.tool_servers import ToolServer
from orchestrator.tools import Tool, ToolContext

PROGRAM = str(Path(__file__).with_name("server.py"))


def refuse(question: Question) -> Answer:
    return Answer("decline")


@dataclass
class Using:
    """One run's servers, prepared for the agent `a`."""

    servers: ToolServers
    told: list[str] = field(default_factory=list)
    cancel: Cancel = field(default_factory=Cancel)

    def prepare(self) -> Offer:
        self.servers.prepare("a", "s1", cancel=self.cancel, tell=self.told.append)
        return self.offer

    @property
    def offer(self) -> Offer:
        return self.servers.offered("a")

    @property
    def tools(self) -> Mapping[str, Tool]:
        return {tool.schema.name: tool for tool in self.offer.tools}

    def call(self, name: str, ask: Ask = refuse, cancel: Cancel | None = None, **arguments: object) -> str:
        return self.tools[name].run(arguments, ToolContext("/", "s1", "a", ask, cancel or Cancel()))


def program(name: str = "t", *flags: str, timeout: float = 30.0, **fields: object) -> ToolServer:
    return ToolServer(name, sys.executable, (PROGRAM, *flags), timeout=timeout, **fields)  # type: ignore[arg-type]  # fields of a server


@pytest.fixture
def use(tmp_path: Path) -> Iterator[Callable[..., Using]]:
    made: list[Using] = []

    def using(*servers: ToolServer, environ: Mapping[str, str] | None = None) -> Using:
        made.append(Using(ToolServers(servers, environ=os.environ if environ is None else environ, workspace=str(tmp_path))))
        return made[-1]

    yield using
    for one in made:
        one.servers.close()


@dataclass
class Address:
    """A server of streamable HTTP on loopback, which can go and come back."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, PROGRAM, "--http", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "the server does not listen"
                time.sleep(0.05)  # there is no other sign

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def address() -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        made = Address(free.getsockname()[1])
    made.start()
    yield made
    made.end()
