"""Server-sent events: written as fast as the client reads, and no faster; whoever does not read at all is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator.server.problems import NO_STORE

HEARTBEAT = 15.0
"""Seconds of silence after which a comment shows that the connection lives."""
STALLED = 60.0
"""Seconds for which a client may take nothing."""


def event(data: bytes, *, identity: str | None = None, name: str | None = None) -> bytes:
    """One event; `data` has no line break, as our JSON has none."""
    head = b"" if identity is None else b"id: %s\n" % identity.encode()
    named = b"" if name is None else b"event: %s\n" % name.encode()
    return b"%s%sdata: %s\n\n" % (head, named, data)


class EventStream(Response):
    """A stream of events. `gone` is called where the client went away before the end, or took nothing for `stalled` seconds."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        headers: Mapping[str, str] | None = None,
        gone: Callable[[], None] = lambda: None,
        heartbeat: float = HEARTBEAT,
        stalled: float = STALLED,
    ) -> None:
        super().__init__(None, 200, headers={**NO_STORE, "x-accel-buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._events, self._gone, self._heartbeat, self._stalled = events, gone, heartbeat, stalled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done() or writing.exception() is not None:
                self._gone()
            if writing.done():
                writing.result()
        except TimeoutError:
            return  # the connection is closed, as one whose answer is not at its end
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        coming: asyncio.Future[bytes] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(self._events))
                done, _ = await asyncio.wait({coming}, timeout=self._heartbeat)
                if not done:
                    await self._sent(send, b": \n\n")
                    continue
                try:
                    data = coming.result()
                except StopAsyncIteration:
                    break
                coming = None
                await self._sent(send, data)
        finally:
            if coming is not None:
                coming.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _sent(self, send: Send, data: bytes) -> None:
        async with asyncio.timeout(self._stalled):
            await send({"type": "http.response.body", "body": data, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_there(receive: Receive, work: asyncio.Future[None], gone: Callable[[], None]) -> None:
    """Wait for the work; where the client goes away before, say so and wait on."""
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            gone()
        await work
    finally:
        leaving.cancel()
