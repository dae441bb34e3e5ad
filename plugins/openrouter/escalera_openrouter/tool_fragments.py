"""Tool calls put together from the fragments of a stream, and parsed strictly at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from escalera_openrouter.json_text import clean_object
from orchestrator.errors import Incomplete, ProtocolError
from orchestrator.messages import ToolCall, is_json, read_json, well_formed

_OWN_FIELDS = frozenset({"index", "id", "type", "function"})


@dataclass(slots=True)
class _Building:
    """One call on its way."""

    index: int | None
    id: str
    name: str = ""
    text: str = ""
    given: dict[str, Any] | None = None
    """Arguments that came as an object instead of text."""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether any of its arguments has come."""
        return self.given is not None or bool(self.text.strip())

    @property
    def complete(self) -> bool:
        """Whether its arguments are a whole object already."""
        if self.given is not None:
            return True
        try:
            return isinstance(read_json(self.text), dict)
        except ValueError:
            return False


class ToolFragments:
    """Which fragment belongs to which call: an id decides, then the index, then the order they came in.

    Servers leave the index out, repeat 0 for every call, begin at 1, leave the id out or send it with every fragment, and
    send a name in pieces; but one that gives a call an id gives one to the next call as well.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._calls: list[_Building] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, fragment: Mapping[str, Any]) -> None:
        """Take one entry of `delta.tool_calls`."""
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        index = fragment.get("index")
        index = int(index) if isinstance(index, int) or (isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10) else None
        name = function.get("name") if isinstance(function.get("name"), str) else ""
        call = self._belongs_to(_text(fragment.get("id")), index, name or "")
        if name and not (call.name and call.begun):
            call.name = name if name.startswith(call.name) else call.name + name
        _add_arguments(call, function.get("arguments"))
        call.extra.update({key: value for key, value in fragment.items() if key not in _OWN_FIELDS})

    def finished(self) -> tuple[ToolCall, ...]:
        """The calls, their ids present and different. Raises `Incomplete` for one that was cut, so that no half call is ever run."""
        calls: list[ToolCall] = []
        seen: set[str] = set()
        for building in self._calls:
            call_id = building.id if building.id and building.id not in seen else self._new_id()
            seen.add(call_id)
            calls.append(ToolCall(call_id, _name(building), _arguments(building), _extra(building)))
        return tuple(calls)

    def _belongs_to(self, call_id: str, index: int | None, name: str) -> _Building:
        if call_id:
            return self._by_id(call_id, index) or self._begin(call_id, index)
        newest = self._calls[-1] if self._calls else None
        call = newest if index is None else next((call for call in reversed(self._calls) if call.index == index), None)
        is_open = call is not None and index is not None and bool(call.id) and not call.begun
        if call is None or (name and call.name and not is_open and (name != call.name or call.complete)):
            return self._begin("", index)
        return call

    def _by_id(self, call_id: str, index: int | None) -> _Building | None:
        for call in reversed(self._calls):
            if call.id == call_id and (index is None or call.index in (None, index)):
                return call
            if not call.id and index is not None and call.index == index and not call.complete:
                call.id = call_id  # it comes after the first fragment
                return call
        return None

    def _begin(self, call_id: str, index: int | None) -> _Building:
        call = _Building(index, call_id)
        self._calls.append(call)
        return call


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _add_arguments(call: _Building, arguments: object) -> None:
    if isinstance(arguments, dict):
        call.given = {**(call.given or {}), **arguments}
    elif isinstance(arguments, str) and not (arguments.strip() and arguments == call.text and call.complete):
        call.text += arguments  # but some send the whole once more at the end
    elif arguments is not None and not isinstance(arguments, str):
        call.text += json.dumps(arguments)


def _name(call: _Building) -> str:
    if not call.name:
        raise Incomplete("The answer ended in the middle of a tool call: it has no name.")
    return well_formed(call.name)


def _arguments(call: _Building) -> dict[str, Any]:
    """Empty and null mean no arguments; anything else must be a whole JSON object (RFC 8259, without NaN)."""
    value: object = call.given
    if call.text.strip():
        try:
            value = read_json(call.text)
        except ValueError as error:
            raise Incomplete(f"The arguments of the tool call {call.name!r} were cut off or are no JSON; it was not run.") from error
    if value is None:
        return {}
    if not is_json(value):
        raise Incomplete(f"The arguments of the tool call {call.name!r} are no JSON; it was not run.")
    if not isinstance(value, dict):
        raise ProtocolError(f"The arguments of the tool call {call.name!r} are no JSON object; it was not run.")
    return clean_object(value)


def _extra(call: _Building) -> dict[str, Any] | None:
    """What has to travel back; nothing that could not."""
    return clean_object({name: value for name, value in call.extra.items() if is_json(value)}) or None
