"""A turn that runs in a thread of its own, and the log of what was shown of it, which any number of clients follow at their own pace."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal, cast

from orchestrator.documents.error import error_document
from orchestrator.documents.stream import error_line, stream_line, turn_line
from orchestrator.errors import EscaleraError, InternalError, NotFound
from orchestrator.providers import Cancel
from orchestrator.server.client_tools import ClientTools

if TYPE_CHECKING:
    from orchestrator.dispatch.desk import Shown
    from orchestrator.documents.kinds.stream import StreamLine, TurnStarted
    from orchestrator.documents.kinds.turns import TurnDocument
    from orchestrator.server.openai.spoken import Opening

MOST_KEPT = 8 * 1024 * 1024
"""Characters of one turn's events that are kept for those who follow; of a turn that shows more, the first are let go."""

AWAITED: Literal["awaited"] = "awaited"
"""Stands in the log where the turn waits for what the client's own tools give."""


@dataclass(slots=True)
class _Follower:
    """Somebody who waits, in an event loop, for more."""

    loop: asyncio.AbstractEventLoop
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
            self.loop.call_soon_threadsafe(self.more.set)


class Run:
    """One turn, with the escalation turn that follows where it is handed over. Filled by its thread, followed from event loops."""

    def __init__(self, session: str, *, key: str | None = None, same: str = "", tools: ClientTools | None = None) -> None:
        self.session, self.key, self.same, self.tools = session, key, same, tools
        self.identity = secrets.token_hex(8)
        self.cancel = Cancel()
        self.opening: Opening | None = None
        """What a client of a model has been told of it."""
        self.started: TurnStarted | None = None
        """How its first turn was opened."""
        self.has_said = False
        """Whether a text of it was shown."""
        self.failure: EscaleraError | None = None
        """Why the turn did not complete."""
        self.turns: list[int] = []
        """The indexes of its turns, once they were opened."""
        self.questions: list[str] = []
        """The questions that it asked and somebody could answer, by id."""
        self.document: TurnDocument | None = None
        self.error: EscaleraError | None = None
        """Why no turn came to be, or the first one has no end that could be told."""
        self.ended = threading.Event()
        self._lines: deque[tuple[StreamLine | Literal["awaited"], int]] = deque()
        self._dropped = 0
        self._kept = 0
        self._lock = threading.Lock()
        self._waiting: dict[int, _Follower] = {}
        self._waiting_for_end: dict[int, _Follower] = {}
        if tools is not None:
            tools.on_waiting = lambda: self._put(AWAITED, 0)

    # -- its thread --------------------------------------------------------------------------------

    def show(self, shown: Shown) -> None:
        """Something is shown of the turn."""
        line = stream_line(shown, first=self._first)
        if shown.type == "turn_started" and isinstance(index := shown.data["turn"], int):
            self.turns.append(index)
            self.started = self.started or cast("TurnStarted", line)
        self.has_said = self.has_said or shown.type == "text"
        if shown.type == "question" and isinstance(identity := shown.data["id"], str):
            self.questions.append(identity)
        if shown.type == "tool_call" and self.tools is not None:
            self.tools.announce(shown)
        self._put(line, len(shown.text) + 200)

    def carry_out(self, work: Callable[[], TurnDocument]) -> None:
        """Do the work to its end, whatever that is."""
        try:
            self.document = work()
        except EscaleraError as error:
            self.error = error
        except Exception as fault:  # whatever it is: those who follow are told, and the caller sees it
            self.error = InternalError(f"a fault in Escalera itself ({type(fault).__name__})", hint="the log of the server has the details")
            raise
        finally:
            document = self.document
            line = turn_line(document) if document is not None else error_line(error_document(self.error or _NOTHING))
            self._put(line, 0 if document is None else len(document["answer"] or ""), last=True)

    @property
    def _first(self) -> bool:
        return not self._dropped and not self._lines

    def _put(self, line: StreamLine | Literal["awaited"], size: int, *, last: bool = False) -> None:
        with self._lock:
            self._lines.append((line, size))
            self._kept += size
            while self._kept > MOST_KEPT and len(self._lines) > 1:
                self._kept -= self._lines.popleft()[1]
                self._dropped += 1
            if last:
                self.ended.set()
            waiting, self._waiting = list(self._waiting.values()), {}
            if last:
                waiting += self._waiting_for_end.values()
        for one in waiting:
            one.wake()

    # -- those who follow --------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the client to run its tools."""
        return self.tools is not None and self.tools.is_waiting and not self.ended.is_set()

    @property
    def size(self) -> int:
        """How many events there are by now."""
        with self._lock:
            return self._dropped + len(self._lines)

    @property
    def came_to_nothing(self) -> bool:
        """Whether it has ended, and no turn ever came to be."""
        return self.ended.is_set() and not self.turns

    @property
    def dropped(self) -> int:
        """How many of its first events are kept no more."""
        with self._lock:
            return self._dropped

    @property
    def kept(self) -> int:
        """Characters of its events, about."""
        with self._lock:
            return self._kept

    def let_go(self) -> None:
        """Keep its events no longer."""
        with self._lock:
            self._dropped += len(self._lines)
            self._kept = 0
            self._lines.clear()

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[int, StreamLine | Literal["awaited"]]]:
        """Each event behind the first `after`, with its number, from 1 on; ends behind the last. Raises `NotFound` where some are kept no more."""
        me = _Follower(asyncio.get_running_loop())
        try:
            while True:
                batch, ended = self._behind(after, me)
                for line in batch:
                    after += 1
                    yield after, line
                if batch:
                    continue
                if ended:
                    return
                await me.more.wait()
                me.more.clear()
        finally:
            with self._lock:
                self._waiting.pop(id(me), None)

    async def end(self) -> None:
        """Wait for the end, and for nothing before it."""
        me = _Follower(asyncio.get_running_loop())
        with self._lock:
            if self.ended.is_set():
                return
            self._waiting_for_end[id(me)] = me
        try:
            await me.more.wait()
        finally:
            with self._lock:
                self._waiting_for_end.pop(id(me), None)

    def _behind(self, after: int, me: _Follower) -> tuple[list[StreamLine | Literal["awaited"]], bool]:
        with self._lock:
            if after < self._dropped:
                raise NotFound("the events that follow are kept no more", hint="read the turn itself")
            batch = [line for line, _ in islice(self._lines, after - self._dropped, after - self._dropped + _BATCH)]
            if not batch and not self.ended.is_set():
                self._waiting[id(me)] = me
            return batch, self.ended.is_set()


_BATCH = 64
_NOTHING = InternalError("the turn has no end")
