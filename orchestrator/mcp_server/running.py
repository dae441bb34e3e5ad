"""Running the MCP server: over standard input and output, or over HTTP on loopback, until its client goes or a signal comes."""

from __future__ import annotations

import asyncio
import hmac
import io
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response

from orchestrator.errors import UsageError
from orchestrator.mcp_client.logs import silence

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of one message of a client."""
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_ENDING = tuple(number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)


# -- standard input and output -------------------------------------------------------------------


def run_stdio(server: Server[Any], stdout: TextIO) -> None:
    """Until the client closes its end, or a signal comes. `stdout` leads to the client, and nothing else is printed there;
    meanwhile nothing else reads from standard input.
    """
    silence()
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # as the protocol wants it, whatever the locale
    asyncio.run(_until_signal(_serve_stdio(server, stdout)))


async def _serve_stdio(server: Server[Any], stdout: TextIO) -> None:
    lines = _Lines(_taken_stdin(), asyncio.get_running_loop())
    # of the lines, only iteration is used
    async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines), stdout=anyio.wrap_file(stdout)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _taken_stdin() -> IO[bytes]:
    """The client's end; who else reads from standard input, such as a program that a turn starts, finds it empty."""
    ours = os.dup(sys.stdin.fileno())
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, sys.stdin.fileno())
    os.close(empty)
    return os.fdopen(ours, "rb")


class _Lines:
    """The client's messages. A thread reads them that nobody waits for: a blocked reading holds up no end."""

    def __init__(self, file: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self._file, self._loop = file, loop
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(16)
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    def _read(self) -> None:
        with suppress(RuntimeError, OSError, asyncio.CancelledError):  # the loop is closed: the server has ended
            while (line := self._file.readline(MAX_MESSAGE + 1)) and len(line) <= MAX_MESSAGE:
                self._put(line.decode("utf-8", "replace"))
            self._put(None)

    def _put(self, line: str | None) -> None:
        asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._queue.get()) is not None:
            yield line


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    for number in _ENDING:
        with suppress(NotImplementedError):  # where the system has no such handlers, the signal ends the program as ever
            loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


# -- HTTP ----------------------------------------------------------------------------------------


def listen(port: int) -> socket.socket:
    """A socket on loopback; port 0 is any. Raises `UsageError`."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        raise UsageError(f"cannot listen on port {port}: {error.strerror or error}", hint="choose another one with --port") from error
    return listening


def http_app(server: Server[Any], token: str) -> ASGIApp:
    """The server at `/mcp`, for who brings the token, under a name of loopback and from no page of another origin."""
    security = TransportSecuritySettings(
        allowed_hosts=[*_NAMES, *(f"{name}:*" for name in _NAMES)], allowed_origins=[f"http://{name}{port}" for name in _NAMES for port in ("", ":*")]
    )
    silence()
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security, max_request_body_size=MAX_MESSAGE)
    return Bearer(app, token)


class Bearer:
    """Lets nobody in without the token, whatever it is asked for."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._wanted = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_known(Headers(scope=scope)):
            await Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_known(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._wanted)


def run_http(server: Server[Any], listening: socket.socket, token: str, *, ready: Callable[[], None] = lambda: None, ending: Callable[[], None]) -> None:
    """Until a signal comes; `ending` is called first, so that what runs can end in time."""
    config = uvicorn.Config(
        http_app(server, token),
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    _Server(config, ready, ending).run([listening])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._ending = ready, ending

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Uvicorn's own would raise the signal again at the end, which leaves nobody the time to close the store."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def main_loop(self) -> None:
        self._ready()
        await super().main_loop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ending = asyncio.ensure_future(asyncio.to_thread(self._ending))
        await super().shutdown(sockets)
        await ending
