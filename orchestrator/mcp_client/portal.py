"""The event loop that the SDK runs in: one thread beside the core, which is synchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


class Portal:
    """Made when the first server is needed; `close` ends the loop, whatever still runs in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="mcp servers", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[object, object, Result]) -> Future[Result]:
        """Begin it there; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, seconds: float) -> None:
        """Wait so long for what still runs there, cancel what is left, and end."""
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._end(seconds)))
        self._thread.join(seconds + 1)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _end(self, seconds: float) -> None:
        await self._all_ended(seconds)
        for task in self._others():
            task.cancel()
        await self._all_ended(0.5)
        self._loop.stop()

    async def _all_ended(self, seconds: float) -> None:
        tasks = self._others()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _others(self) -> set[asyncio.Task[object]]:
        return asyncio.all_tasks(self._loop) - {task for task in (asyncio.current_task(self._loop),) if task is not None}
