"""Running the application with uvicorn: the socket, idle exit, and a graceful stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from uvicorn.server import HANDLED_SIGNALS

from orchestrator.errors import UsageError
from orchestrator.server.connections import MOST, BoundedProtocol
from orchestrator.server.service import CANCEL_SECONDS, STOP_SECONDS, Service

LOOK_EVERY = 1.0
"""Seconds between two looks at whether something held is to be let go, or the server may end."""

TIDY_EVERY = 600.0
"""Seconds between two rounds in which the store is rid of what is over."""


def listen(host: str, port: int) -> socket.socket:
    """The socket; port 0 is any. Raises `UsageError`."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror or error}", hint="choose another one with --host or --port") from error


def run(app: FastAPI, listening: socket.socket, *, ready: Callable[[], None] = lambda: None) -> None:
    """Until a signal ends it, or nobody has used it for long enough. The first signal lets turns end; a second does not wait."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_level="critical",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(STOP_SECONDS + CANCEL_SECONDS),
    )
    Server(config, app.state.service, ready).run([listening])


class Server(uvicorn.Server):
    """Uvicorn's, with an eye on the service."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn, but that a signal which ended the server properly is not raised once more."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def main_loop(self) -> None:
        self._ready()
        looking = asyncio.ensure_future(self._look())
        try:
            await super().main_loop()
        finally:
            looking.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping = asyncio.ensure_future(run_in_threadpool(self._service.stop))
        await super().shutdown(sockets)
        await stopping

    async def _look(self) -> None:
        tidied = time.monotonic()
        while not self.should_exit:
            await asyncio.sleep(LOOK_EVERY)
            self._service.sweep()
            if time.monotonic() - tidied >= TIDY_EVERY:
                tidied = time.monotonic()
                await run_in_threadpool(self._service.tidy)
            if await run_in_threadpool(self._service.may_end):
                self.should_exit = True
