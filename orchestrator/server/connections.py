"""Connections that do nothing are bounded, in number and in time, so that they keep nobody else out."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_IDLE = 256
"""Connections on which no request is under way; beyond that the one that waits longest is closed."""
MOST = 768
"""Connections in all; beyond that requests are answered by 503. Below the 1,024 files that a process may usually have open."""
REQUEST_SECONDS = 30.0
"""How long a new connection may take to its first whole request head."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it. All connections of one server are in `server_state.connections`."""

    _since: float
    _late: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        # asyncio sets it only where the listening socket names its protocol. Without it, head and body of an answer wait for each other: 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._since = self.loop.time()
        self._late = self.loop.call_later(REQUEST_SECONDS, self._close_if_late)
        idle = [one for one in self.connections if isinstance(one, BoundedProtocol) and one.is_idle]
        if len(idle) > MOST_IDLE:
            min(idle, key=lambda one: one._since).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def abort(self) -> None:
        """Let it go at once."""
        self.connections.discard(self)
        self.transport.abort()

    def _close_if_late(self) -> None:
        if self.cycle is None:
            self.abort()
