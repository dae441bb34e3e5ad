"""Calling the plugins' hooks: each implementation on its own, and what it breaks is a notice (page 7)."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from orchestrator.errors import PluginError, foreign
from orchestrator.hookspecs import Sensing, Signal
from orchestrator.messages import well_formed, well_formed_values
from orchestrator.modes import Mode
from orchestrator.plugins import Implementation, PluginReport
from orchestrator.providers import ToolSchema
from orchestrator.session import COMPLETED, Outcome, Role, Session, Turn, TurnLog
from orchestrator.settings.values import shown
from orchestrator.tools import SESSION_TOOLS, Tool

TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
"""What every wire format takes."""

_SIGNAL_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)

_MOST_TOKENS = 10**12
"""Far beyond any request."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with one plugin's part in a hook."""

    plugin: PluginReport
    text: str

    def __str__(self) -> str:
        return f"{self.plugin.label}: {self.text}"


@dataclass(frozen=True, slots=True)
class Given(Generic[Value]):
    """What plugins gave, each value with the plugin that gave it, and what was wrong with the rest."""

    values: tuple[tuple[PluginReport, Value], ...] = ()
    troubles: tuple[Trouble, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """What was wrong, for the user."""
        return tuple(map(str, self.troubles))


class Hooks:
    """The hooks, ready to be called. Without implementations nothing is called, and nothing given.

    With `strict`, what a plugin breaks before a turn is sent raises `PluginError` instead of being a problem among others.
    """

    def __init__(self, implementations: Callable[[str], Sequence[Implementation]] = lambda _: (), *, strict: bool = False) -> None:
        self._implementations, self._strict = implementations, strict

    def template_folders(self) -> Given[Path]:
        """Folders with templates, in the order in which they count."""
        return self._given("escalera_template_folders", _folders)

    def signals(self, *, prompt: str, session: Session, turns: TurnLog, workspace: str, sensing: Sensing) -> Given[Signal]:
        """What speaks for the escalation agent."""
        return self._given("escalera_routing_signals", _signals, prompt=prompt, session=session, turns=turns, workspace=workspace, sensing=sensing)

    def tools(self, *, agent: str, role: Role, workspace: str) -> Given[Tool]:
        """The plugins' tools for an agent; of two with one name, the first counts."""
        given = self._given("escalera_tools", _tools, agent=agent, role=role, workspace=workspace)
        owners: dict[str, PluginReport] = {}
        troubles = []
        for plugin, tool in given.values:
            owner = owners.setdefault(tool.schema.name, plugin)
            if owner is not plugin:
                troubles.append(self._trouble(plugin, f"its tool {tool.schema.name} is left out, since {owner.label} has one of that name"))
        kept = tuple((plugin, tool) for plugin, tool in given.values if owners[tool.schema.name] is plugin)
        return Given(kept, (*given.troubles, *troubles))

    def context(self, *, session: Session, turns: TurnLog, agent: str, role: Role, mode: Mode | None, prompt: str, workspace: str) -> Given[str]:
        """Texts that an agent should know; blank ones are left out."""
        return self._given("escalera_context", _texts, session=session, turns=turns, agent=agent, role=role, mode=mode, prompt=prompt, workspace=workspace)

    def count_tokens(self, *, kind: str, model: str | None, text: Callable[[], str]) -> Given[int]:
        """The first count that a plugin gives; `text` is made only where there is somebody to count."""
        if not self._implementations("escalera_count_tokens"):
            return Given()
        return self._given("escalera_count_tokens", _counts, first=True, kind=kind, model=model, text=text())

    def turn_started(self, turn: Turn, session: Session) -> tuple[str, ...]:
        """Tell the observers; what is wrong with them comes back."""
        return self._told("escalera_turn_started", turn, session)

    def turn_ended(self, turn: Turn, session: Session) -> tuple[str, ...]:
        """Tell the observers; what is wrong with them comes back."""
        return self._told("escalera_turn_ended", turn, session)

    def _told(self, hook: str, turn: Turn, session: Session) -> tuple[str, ...]:
        lenient: Given[object] = Hooks(self._implementations)._given(hook, lambda _: (), turn=turn, session=session)
        return lenient.notices

    def _given(self, hook: str, read: Callable[[object], Iterable[Value]], *, first: bool = False, **arguments: object) -> Given[Value]:
        """What `read` makes of each plugin's answer, all of it or nothing of one plugin's; with `first`, of the first that has one."""
        values: list[tuple[PluginReport, Value]] = []
        troubles: list[Trouble] = []
        for implementation in self._implementations(hook):
            try:
                answer = implementation(**{name: _copied(value) for name, value in arguments.items()})
                found = [(implementation.plugin, value) for value in read(answer)]
            except _WrongAnswer as wrong:
                troubles.append(self._trouble(implementation.plugin, f"{hook} gave {wrong}"))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # strangers' code, which may raise anything; only what the user presses goes through
                troubles.append(self._trouble(implementation.plugin, f"{hook} broke: {foreign(error)}"))
            else:
                values += found
                if first and found:
                    break
        return Given(tuple(values), tuple(troubles))

    def _trouble(self, plugin: PluginReport, text: str) -> Trouble:
        trouble = Trouble(plugin, text)
        if self._strict:
            raise PluginError(str(trouble), hint="plugins.strict is on; `escalera plugins list` shows all of them")
        return trouble


NO_HOOKS = Hooks()
"""For where no plugins are."""


class _WrongAnswer(Exception):
    """What a hook returned is not what it should; the text says what it is instead."""


class _TurnsToRead:
    """A log of which a plugin gets copies, so that what it changes reaches nobody."""

    def __init__(self, log: TurnLog) -> None:
        self._log = log

    @property
    def next_index(self) -> int:
        return self._log.next_index

    def get(self, index: int) -> Turn | None:
        return copy.deepcopy(self._log.get(index))

    def newest_first(
        self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None
    ) -> Iterator[Turn]:
        return map(copy.deepcopy, self._log.newest_first(role=role, outcomes=outcomes, start=start, stop=stop))

    def count(self, *, role: Role | None = None, outcomes: frozenset[Outcome] | None = COMPLETED, start: int = 0, stop: int | None = None) -> int:
        return self._log.count(role=role, outcomes=outcomes, start=start, stop=stop)


def _copied(value: object) -> object:
    if isinstance(value, Session | Turn | Sensing):
        return copy.deepcopy(value)
    return value if value is None or isinstance(value, str | int) else _TurnsToRead(value)  # type: ignore[arg-type]  # what else the hooks are given


def _sequence(answer: object, of: str) -> Sequence[Any]:  # any: each element is checked next
    if answer is None:
        return ()
    if not isinstance(answer, list | tuple):
        raise _WrongAnswer(f"{type(answer).__name__} instead of a list of {of}")
    return answer


def _folders(answer: object) -> Iterator[Path]:
    for folder in _sequence(answer, "Path"):
        if not isinstance(folder, Path):
            raise _WrongAnswer(f"{type(folder).__name__} instead of a Path")
        if not folder.is_absolute():
            raise _WrongAnswer(f"{str(folder)!r:.200}, which is no absolute path")
        if not folder.is_dir():
            raise _WrongAnswer(f"{str(folder)!r:.200}, which is no folder")
        yield folder


def _signals(answer: object) -> Iterator[Signal]:
    for signal in _sequence(answer, "Signal"):
        if not isinstance(signal, Signal) or not isinstance(signal.name, str) or not isinstance(signal.detail, str):
            raise _WrongAnswer(f"{type(signal).__name__} with other fields than a Signal has")
        if not _SIGNAL_NAME.fullmatch(signal.name):
            raise _WrongAnswer("a signal whose name is not made of lower-case letters, digits, `-`, `_` and `.`")
        if isinstance(signal.weight, bool) or not isinstance(signal.weight, int | float) or not math.isfinite(signal.weight):
            raise _WrongAnswer(f"the signal {signal.name} with a weight that is no finite number")
        yield signal


def _tools(answer: object) -> Iterator[Tool]:
    names = set()
    for tool in _sequence(answer, "Tool"):
        if not isinstance(tool, Tool) or not isinstance(tool.schema, ToolSchema) or not callable(tool.run):
            raise _WrongAnswer(f"{type(tool).__name__} with other fields than a Tool has")
        schema = tool.schema
        if not isinstance(schema.name, str) or not TOOL_NAME.fullmatch(schema.name):
            raise _WrongAnswer("a tool whose name is not made of a letter and at most 63 more letters, digits, `_` and `-`")
        if schema.name in SESSION_TOOLS:
            raise _WrongAnswer(f"a tool with the name {schema.name}, which is the session's own")
        if schema.name in names:
            raise _WrongAnswer(f"two tools with the name {schema.name}")
        if not isinstance(schema.description, str) or not schema.description.strip():
            raise _WrongAnswer(f"the tool {schema.name} without a description")
        names.add(schema.name)
        try:
            told = _schema(schema.name, schema.description, json.dumps(dict(schema.parameters), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise _WrongAnswer(f"the tool {schema.name} with parameters that are no JSON") from error
        if told.parameters.get("type") != "object":
            raise _WrongAnswer(f"the tool {schema.name} with parameters that are no JSON Schema of an object")
        yield Tool(told, tool.run, parallel=tool.parallel is True, on_request=tool.on_request is True)


@lru_cache(maxsize=256)
def _schema(name: str, description: str, parameters: str) -> ToolSchema:
    """As agents are told it; `parameters` is JSON. Most tools are the same for every turn, and what is told of them is measured, too."""
    return ToolSchema(name, well_formed(description), well_formed_values(json.loads(parameters)))


def _texts(answer: object) -> Iterator[str]:
    if answer is None:
        return
    if not isinstance(answer, str):
        raise _WrongAnswer(f"{type(answer).__name__} instead of a text")
    if answer.strip():
        yield answer


def _counts(answer: object) -> Iterator[int]:
    if answer is None:
        return
    if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer <= _MOST_TOKENS:
        raise _WrongAnswer(f"{shown(answer)} instead of a count" if isinstance(answer, int | float) else f"{type(answer).__name__} instead of a count")
    yield answer
