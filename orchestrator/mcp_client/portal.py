"""The event loop that the SDK runs in: one thread beside the core, which is synchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
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
        """Cancel what is left, and wait for the thread."""
        self._loop.call_soon_threadsafe(self._cancel_all)
        self._thread.join(seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        ended = asyncio.gather(*tasks, return_exceptions=True)
        ended.add_done_callback(lambda _: self._loop.stop())
