"""Threads that stay for the next piece of work, so that a turn does not wait for one to be started."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

IDLE_SECONDS = 30.0
"""For how long one stays without work."""


class Workers:
    """As many threads as there is work at once; none of them keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0
        """Threads that wait, and are promised to nobody."""

    def start(self, work: Callable[[], None]) -> None:
        """Do it at once, in a thread of its own. It raises nothing."""
        with self._lock:
            if self._free:
                self._free -= 1
            else:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._free:  # else it is promised, and the work is about to come
                        self._free -= 1
                        return
                continue
            work()
            del work
            with self._lock:
                self._free += 1
