"""Tools that the client runs itself: a call waits, in its turn, until the client brings what came of it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.providers import ToolSchema
from orchestrator.tools import Tool, ToolContext, ToolFailed

if TYPE_CHECKING:
    from orchestrator.dispatch.desk import Shown


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A call as the client sees it: under an id of ours, since those of agents are only theirs alone within a turn."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class ClientTools:
    """Those of one turn. Calls are announced by the turn's thread, wait in threads of their own, and are answered from anywhere."""

    def __init__(self, schemas: Sequence[ToolSchema]) -> None:
        self._names = {schema.name for schema in schemas}
        self.tools = tuple(Tool(schema, self._run, parallel=True) for schema in schemas)
        self.on_waiting: Callable[[], None] = lambda: None
        """Called when the turn begins to wait for the client."""
        self._mark = secrets.token_hex(8)
        self._lock = threading.Condition()
        self._calls: dict[str, ClientCall] = {}
        """Announced and not answered, by the agent's ids."""
        self._results: dict[str, str] = {}
        self._announced = 0
        self._waiting = 0
        self._told = False

    @property
    def is_waiting(self) -> bool:
        with self._lock:
            return self._waiting > 0

    def announce(self, shown: Shown) -> None:
        """The agent has called a tool, perhaps one of these."""
        name, identity, arguments = shown.data["name"], shown.data["id"], shown.data["arguments"]
        if not isinstance(name, str) or not isinstance(identity, str) or not isinstance(arguments, dict) or name not in self._names:
            return
        with self._lock:
            self._announced += 1
            self._calls[identity] = ClientCall(f"call_{self._mark}_{self._announced}", name, arguments)

    def unanswered(self) -> tuple[ClientCall, ...]:
        """What the client has to run, in the order of the calls."""
        with self._lock:
            return tuple(self._calls.values())

    def awaits(self, identities: Sequence[str]) -> bool:
        """Whether all of these are calls of this turn that wait for their answers."""
        with self._lock:
            return bool(identities) and set(identities) <= {call.id for call in self._calls.values()}

    def give(self, results: Mapping[str, str]) -> None:
        """What came of calls, by the ids that the client knows; what is left out of those that it was told of counts as not done."""
        with self._lock:
            for identity, call in list(self._calls.items()):
                self._results[identity] = results.get(call.id, "The client brought no result of this call.")
                del self._calls[identity]
            self._told = False
            self._lock.notify_all()

    def _run(self, _arguments: Mapping[str, Any], context: ToolContext) -> str:
        forget = context.cancel.on_cancel(self._wake)
        try:
            return self._result(context)
        finally:
            forget()

    def _result(self, context: ToolContext) -> str:
        with self._lock:
            if context.call not in self._results:
                self._tell()
            self._waiting += 1
            try:
                while context.call not in self._results and not context.cancel.is_set():
                    self._lock.wait()
            finally:
                self._waiting -= 1
            if context.call not in self._results:
                raise ToolFailed("the turn ended before the client had run this")
            return self._results.pop(context.call)

    def _tell(self) -> None:
        """Say once for all calls of an answer that the client has something to do."""
        if not self._told:
            self._told = True
            self.on_waiting()

    def _wake(self) -> None:
        with self._lock:
            self._lock.notify_all()
