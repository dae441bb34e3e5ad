"""What a turn was decided by, kept with it: enough to explain the decision, and to take it again under other limits (pages 2 and 6)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.errors import ConfigError, UsageError
from orchestrator.modes import Facts, Flags, Mode, ModeLimits, decide, lost_reason, resumable_session
from orchestrator.routing import RouteFacts, Rules, route
from orchestrator.session import ExternalSession, NeedSource, NeedStatus, Reason, Role
from orchestrator.settings.limits import Limits

if TYPE_CHECKING:  # pydantic is imported where a receipt is read; writing one costs nothing
    from pydantic import TypeAdapter

VERSION = 1
LONGEST = 64 * 1024
"""Characters of a receipt as JSON that is taken from a document; ours have one or two thousand."""

Json = dict[str, Any]  # what `json.dumps` takes


Spans = tuple[tuple[int, int], ...]
"""Runs of turns, each by its first and its last."""


@dataclass(frozen=True, slots=True)
class NeedReport:
    """The need as it stood, or the last one as it was when it went; its text is told in the turn that set it."""

    status: NeedStatus
    label: Literal["current", "verify"] | None = None
    turn_index: int | None = None
    source: NeedSource | None = None
    chars: int | None = None
    during: bool = False
    updated_at: str | None = None
    """`None` is unknown."""


@dataclass(frozen=True, slots=True)
class BriefReport:
    """Whose the brief was, and how long."""

    source: Literal["user", "primary", "prompt"]
    chars: int
    carried: bool = False
    """Whether an escalation turn has told it before."""


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """What the turn might take, and what it took as it was planned."""

    limit_chars: int | None
    parts: Mapping[str, int]
    total_chars: int
    tokens_estimate: int


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """Which turns were sent, and which were not and why."""

    scope: Literal["all", "since_boundary", "none"]
    sent: Spans
    dropped: Mapping[str, Spans]
    shortened: Spans
    cut: Spans
    """Turns that were sent without so many of their oldest rounds of tool calls."""


@dataclass(frozen=True, slots=True)
class PerceptsReport:
    """The remembered facts that were told, by the beginnings of their ids, and how many were and were not."""

    sent: tuple[str, ...]
    count: int
    withheld: int
    over: int = 0
    """How many of the withheld ones a limit kept back."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was planned to be sent: sizes and places, no texts."""

    budget: BudgetReport
    history: HistoryReport
    percepts: PerceptsReport
    need: NeedReport
    brief: BriefReport | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The inputs of one turn's decision as values, and a report on what was then planned to be sent."""

    routing: RouteFacts
    rules: Rules
    limits: Limits
    report: Report
    facts: Facts | None = None
    """`None` for a primary turn, which has no mode."""
    flags: Flags = field(default_factory=Flags)
    conversation_lost: bool = False
    """Whether the turn was run again, since its agent had lost its own conversation."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Who has the turn, in which mode, and why."""

    role: Role
    agent: str
    mode: Mode | None
    """`None` for a primary turn, and where the facts for another agent are not known."""
    reasons: tuple[Reason, ...]
    """The mode's or, for a primary turn, the routing's."""
    routing: tuple[Reason, ...]


def redecide(receipt: Receipt, limits: ModeLimits | None = None, rules: Rules | None = None) -> Decided:
    """The decision once more, with the limits and the rules of then or with others. Pure.

    Where other rules give the turn to another agent than had it, no mode is known: what would have been found of that one was not kept.
    Raises `UsageError` and `ConfigError` as the routing did then.
    """
    way = route(receipt.routing, rules or receipt.rules)
    reasons = way.reasons
    if way.role is Role.PRIMARY and receipt.conversation_lost:
        reasons = (*reasons, lost_reason(way.agent))
    if way.role is Role.PRIMARY or receipt.facts is None or receipt.facts.agent != way.agent:
        return Decided(way.role, way.agent, None, reasons, reasons)
    decision = decide(receipt.facts, limits or receipt.limits, receipt.flags)
    return Decided(way.role, way.agent, decision.mode, decision.reasons, reasons)


# -- as JSON -------------------------------------------------------------------------------------


def as_json(receipt: Receipt) -> Json:
    """What is stored and exported: without what says nothing, a few hundred to two thousand characters."""
    facts = receipt.facts
    small = receipt if facts is None else replace(receipt, facts=replace(facts, external_sessions=_that_matter(facts)))
    return {"version": VERSION, **_object(small)}


def from_json(data: Mapping[str, Any]) -> Receipt:
    """A receipt as it was written. Raises `ValueError` for what is none, or is of another version."""
    from pydantic import ValidationError

    version = data.get("version")
    if version != VERSION:
        raise ValueError(f"its version is {version!r:.40}, and this program reads {VERSION}")
    try:
        receipt = _reader().validate_json(json.dumps(dict(data)), strict=True)
        redecide(receipt)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ConfigError, UsageError) as error:
        raise ValueError(f"it decides nothing: {error.message}") from error
    except (TypeError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    return receipt


def from_stored(data: Mapping[str, Any]) -> Receipt:
    """A receipt that this program stored or has checked: read without the checks that a stranger's needs. Raises `ValueError`."""
    if data.get("version") != VERSION:
        return from_json(data)
    return _reader().validate_python(data)


def from_stored_text(text: str) -> Receipt | None:
    """As `from_stored`, without taking the JSON apart first; `None` where it takes that to say what is wrong with it."""
    if not text.startswith(_OURS):
        return None
    try:
        return _reader().validate_json(text)
    except ValueError:
        return None


_OURS = f'{{"version":{VERSION},'


@cache
def _reader() -> TypeAdapter[Receipt]:
    from pydantic import TypeAdapter

    return TypeAdapter(Receipt)


def receipts_in(document: Any) -> tuple[dict[int, Json], tuple[str, ...]]:  # any: a document as it was parsed
    """The receipts in a session document that was found sound, by turn, and what is left out.

    One of a version that is not known here is kept as it is; one that cannot be read is no reason to refuse the session.
    """
    found: dict[int, Json] = {}
    notices = []
    turns: Sequence[Any] = document["turns"]
    for place, turn in enumerate(turns):
        index, data = turn.get("index"), turn.get("receipt")
        if data is None:
            continue
        number = place if index is None else index
        if (problem := _problem(data)) is not None:
            notices.append(f"turn {number}: its receipt is left out: {problem}")
        else:
            found[number] = data
    return found, tuple(notices)


def _problem(data: Any) -> str | None:
    if not isinstance(data, dict):
        return "it is no object"
    if len(json.dumps(data)) > LONGEST:
        return f"it has more than {LONGEST:,} characters"
    if isinstance(data.get("version"), int) and data["version"] > VERSION:
        return None
    try:
        from_json(data)
    except ValueError as problem:
        return str(problem)
    return None


def _that_matter(facts: Facts) -> tuple[ExternalSession, ...]:
    """Of the agent's own conversations those that the decision looks at, and of these no texts."""
    resumable = resumable_session(facts.external_sessions, facts.workspace, facts.config_dir)
    kept = [known for known in facts.external_sessions if known in (facts.external_sessions[0], resumable)]
    return tuple(ExternalSession(known.agent, known.id, known.workspace, known.config_dir, known.turn_index) for known in kept)


_ALWAYS = (Limits, Rules)
"""Written whole: their defaults are of today, and the receipt is of the day it was written."""


def _object(value: Any) -> Json:  # any: a dataclass of ours
    """Its fields but for those that are empty by default, and are so here."""
    always = isinstance(value, _ALWAYS)
    told = {}
    for name, default in _fields(type(value)):  # type: ignore[arg-type]  # mypy takes no class for a key
        part = getattr(value, name)
        if part or part is not default or always:
            told[name] = _json(part)
    return told


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, object], ...]:
    """Name and default of each field of a dataclass."""
    return tuple((item.name, item.default) for item in fields(kind))


_PLAIN = frozenset({type(None), bool, int, float, str})


def _json(value: Any) -> Any:  # any: a field of one of ours
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    return [_json(item) for item in value] if isinstance(value, list | tuple) else value
