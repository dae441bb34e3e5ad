"""Values as what a row holds, and back: JSON for what has parts, text with microseconds for times, so that they sort."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, get_args

from orchestrator.clock import parse_time
from orchestrator.messages import CostSource, Part, Reasoning, Text, ToolCall, ToolResult, Usage, mapping_as_dict, well_formed, well_formed_values
from orchestrator.percepts import Percept, mark_of, subject_key
from orchestrator.session import Brief, ExternalSession, LastNeed, Need, NeedSource, Outcome, Reason, Role, Session, State, Turn, TurnError
from orchestrator.words import statement_of
from orchestrator.workspaces import workspace_key

T = TypeVar("T")
Complain = Callable[[str], None]
"""Told which field of a row could not be read."""
Row = tuple[Any, ...]
"""A row as SQLite gives it: a damaged one may hold anything anywhere."""

BAD = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
"""What reading a damaged value raises."""

_PARTS: Mapping[str, type[Part]] = {"text": Text, "reasoning": Reasoning, "tool_call": ToolCall, "tool_result": ToolResult}
_NAMES = {part: name for name, part in _PARTS.items()}


def clean_text(text: str | None) -> str | None:
    return None if text is None else well_formed(text)


def encode(value: Any) -> str:
    """Compact JSON of a value, cleaned; walked through text by text only where the whole is not well formed."""
    text = _ENCODER.encode(value)
    return text if "\\u0000" not in text and well_formed(text) is text else _ENCODER.encode(well_formed_values(value))


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=mapping_as_dict)


def object_value(payload: Any) -> dict[str, Any]:
    """The JSON object of a payload. Raises one of `BAD` for anything else."""
    return _mapping(json.loads(payload))


def time_text(moment: datetime | None) -> str | None:
    """UTC with microseconds always, so that texts sort as times do."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_value(value: Any) -> datetime | None:
    """Any form of time that a row may hold, seconds since 1970 among them; raises one of `BAD` for what is none."""
    if value is None:
        return None
    try:
        return parse_time(value)
    except ValueError:
        return parse_time(float(value))  # a column of text makes a text of a number


# -- parts ---------------------------------------------------------------------------------------


def part_text(part: Part, instead: Mapping[str, Any] = MappingProxyType({})) -> str:
    """A step as JSON, as the session document has it (page 6), with some of its fields held elsewhere; absent fields are left out."""
    fields = {name: value for name in part.__slots__ if (value := getattr(part, name)) is not None}
    return encode({"type": _NAMES[type(part)], **fields, **instead})


def decoded(payloads: Sequence[Any]) -> Sequence[Any]:
    """The JSON of many rows, in one go where all of it is sound; a damaged row's place holds the error."""
    try:
        together = json.loads(f"[{','.join(payloads)}]")
    except BAD:
        together = ()
    return together if len(together) == len(payloads) else [_decoded(payload) for payload in payloads]


def _decoded(payload: Any) -> Any:
    try:
        return json.loads(payload)
    except BAD as problem:
        return problem


def part_value(fields: Any) -> Part:
    """The step of a decoded payload. Raises one of `BAD` for a damaged one."""
    if isinstance(fields, Exception):
        raise ValueError(str(fields))
    kind, extra = fields["type"], fields.get("extra")
    if extra is not None:
        _mapping(extra)
    if kind == "text":
        return Text(_str(fields["text"]), extra)
    if kind == "reasoning":
        return Reasoning(_str(fields["text"]), _str_or_none(fields.get("model")), _str_or_none(fields.get("signature")), extra)
    if kind == "tool_call":
        return ToolCall(_str(fields["id"]), _str(fields["name"]), _mapping(fields["arguments"]), extra)
    if kind == "tool_result":
        return ToolResult(_str(fields["id"]), _str(fields["content"]), fields.get("is_error") is True, extra)
    raise ValueError(f"no such step: {kind!r}")


# -- turns ---------------------------------------------------------------------------------------

TURN_COLUMNS = "idx, role, outcome, agent, prompt, mode, reasons, started_at, ended_at, usage, error, continues, model_requested, model_served, copied_from"


def turn_row(turn: Turn) -> Row:
    """The columns of `TURN_COLUMNS`."""
    return (
        turn.index,
        turn.role.value,
        turn.outcome.value,
        well_formed(turn.agent),
        clean_text(turn.prompt),
        clean_text(turn.mode),
        _reasons_text(turn),
        time_text(turn.started_at),
        time_text(turn.ended_at),
        None if turn.usage is None else _usage_text(turn.usage),
        None if turn.error is None else encode({"type": turn.error.type, "message": turn.error.message}),
        turn.continues,
        clean_text(turn.model_requested),
        clean_text(turn.model_served),
        clean_text(turn.copied_from),
    )


def turn_value(row: Row, steps: tuple[Part, ...], complain: Complain) -> Turn | None:
    """The turn of a row; `None` for one whose place, role, outcome or agent is unreadable. Other damaged fields are unknown."""
    index, role, outcome, agent, prompt, mode, reasons, started, ended, usage, error, continues, requested, served, copied_from = row
    try:
        place, part, end, name = _int(index), Role(role), Outcome(outcome), _str(agent)
    except BAD as problem:
        complain(f"skipped: {problem}")
        return None
    mode_reasons, routing = ((), ()) if reasons is None else _or_none(_reasons, reasons, "reasons", complain) or ((), ())
    return Turn(
        place,
        part,
        name,
        None if prompt is None else _or_none(_str, prompt, "prompt", complain),
        steps,
        end,
        None if mode is None else _or_none(_str, mode, "mode", complain),
        mode_reasons,
        None if started is None else _or_none(time_value, started, "started_at", complain),
        None if ended is None else _or_none(time_value, ended, "ended_at", complain),
        None if usage is None else _or_none(_usage, usage, "usage", complain),
        None if error is None else _or_none(_turn_error, error, "error", complain),
        None if continues is None else _or_none(_int, continues, "continues", complain),
        None if requested is None else _or_none(_str, requested, "model_requested", complain),
        None if served is None else _or_none(_str, served, "model_served", complain),
        routing,
        None if copied_from is None else _or_none(_str, copied_from, "copied_from", complain),
    )


def _or_none(read: Callable[[Any], T], value: Any, name: str, complain: Complain) -> T | None:
    """A field's value, or unknown with a complaint: a bad field never takes the rest of its row along."""
    try:
        return read(value)
    except BAD as problem:
        complain(f"{name} unreadable: {problem}")
        return None


def _reasons_text(turn: Turn) -> str | None:
    """The mode's reasons and, marked, those of the routing: one list, so that rows from before the second kind read as ever."""
    given = [{"rule": reason.rule, "detail": reason.detail} for reason in turn.reasons]
    given += [{"rule": reason.rule, "detail": reason.detail, "of": "routing"} for reason in turn.routing]
    return encode(given) if given else None


@lru_cache(maxsize=256)
def _reasons(text: Any) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """The mode's reasons, then the routing's. Most turns of a session have the same."""
    items = [(Reason(_str(item["rule"]), _str(item["detail"])), item.get("of") == "routing") for item in json.loads(text)]
    return tuple(reason for reason, routing in items if not routing), tuple(reason for reason, routing in items if routing)


def _usage_text(usage: Usage) -> str:
    figures = {name: getattr(usage, name) for name in Usage.__slots__}
    return encode({name: value for name, value in figures.items() if value is not None and value is not False})


def _usage(text: Any) -> Usage:
    fields = _mapping(json.loads(text))
    figures = {name: _number(value) for name, value in fields.items() if name in Usage.__slots__ and name not in ("cost_source", "cache_in_input")}
    source = fields.get("cost_source")
    stated = None if source is None else cast("CostSource", _one_of(source, get_args(CostSource)))
    return Usage(**figures, cost_source=stated, cache_in_input=fields.get("cache_in_input") is True)


def _turn_error(text: Any) -> TurnError:
    fields = json.loads(text)
    return TurnError(_str(fields["type"]), _str(fields["message"]))


# -- sessions ------------------------------------------------------------------------------------

SESSION_COLUMNS = "id, name, workspace, nonce, created_at, updated_at, state, need, last_need, brief"
EXTERNAL_COLUMNS = "agent, id, workspace, config_dir, turn_index, model, system_text, delivered"


def need_text(need: Need | None) -> str | None:
    return None if need is None else encode(_need_fields(need))


def last_need_text(last: LastNeed | None) -> str | None:
    return None if last is None else encode({"need": _need_fields(last.need), "reason": last.reason, "cleared_at": time_text(last.cleared_at)})


def brief_text(brief: Brief | None) -> str | None:
    return None if brief is None else encode({"text": brief.text, "source": brief.source, "carried": brief.carried})


def _need_fields(need: Need) -> dict[str, Any]:
    return {"text": need.text, "turn_index": need.turn_index, "during": need.during, "updated_at": time_text(need.updated_at), "source": need.source}


def session_value(row: Row, external_sessions: tuple[ExternalSession, ...], complain: Complain) -> Session | None:
    """The session of a row; `None` without an id. Other damaged fields are unknown, an unknown state is `routing`."""
    identity, name, workspace, nonce, created, updated, state, need, last_need, brief = row
    try:
        key, place, mark = _str(identity), _str(workspace), _str(nonce)
    except BAD as problem:
        complain(f"skipped: {problem}")
        return None
    return Session(
        id=key,
        workspace=place,
        nonce=mark,
        name=_or_none(_str_or_none, name, "name", complain),
        created_at=_or_none(time_value, created, "created_at", complain),
        updated_at=_or_none(time_value, updated, "updated_at", complain),
        state=_or_none(State, state, "state", complain) or State.ROUTING,
        need=need_value(need, complain),
        last_need=last_need_value(last_need, complain),
        brief=brief_value(brief, complain),
        external_sessions=external_sessions,
    )


def need_value(text: Any, complain: Complain) -> Need | None:
    return None if text is None else _or_none(lambda value: _need(json.loads(value)), text, "need", complain)


def last_need_value(text: Any, complain: Complain) -> LastNeed | None:
    return None if text is None else _or_none(_last_need, text, "last_need", complain)


def brief_value(text: Any, complain: Complain) -> Brief | None:
    return None if text is None else _or_none(_brief, text, "brief", complain)


def _need(fields: Any) -> Need:
    source = _one_of(fields["source"], get_args(NeedSource))
    return Need(_str(fields["text"]), _int(fields["turn_index"]), fields["during"] is True, time_value(fields["updated_at"]), cast("NeedSource", source))


def _last_need(text: Any) -> LastNeed:
    fields = json.loads(text)
    reason = _one_of(fields["reason"], ("fulfilled", "expired", "cleared"))
    return LastNeed(_need(fields["need"]), cast('Literal["fulfilled", "expired", "cleared"]', reason), parse_time(fields["cleared_at"]))


def _brief(text: Any) -> Brief:
    fields = json.loads(text)
    source = cast('Literal["user", "primary", "prompt"]', _one_of(fields["source"], ("user", "primary", "prompt")))
    return Brief(_str(fields["text"]), source, fields.get("carried") is True)


def external_row(external: ExternalSession, platform: str) -> Row:
    """The columns of `EXTERNAL_COLUMNS`, and the workspace's key."""
    workspace = well_formed(external.workspace)
    return (
        well_formed(external.agent),
        well_formed(external.id),
        workspace,
        clean_text(external.config_dir),
        external.turn_index,
        clean_text(external.model),
        well_formed(external.system_text),
        encode(external.delivered),
        workspace_key(workspace, platform),
    )


def external_value(row: Row, complain: Complain) -> ExternalSession | None:
    agent, identity, workspace, config_dir, turn_index, model, system_text, delivered = row
    try:
        return ExternalSession(
            _str(agent),
            _str(identity),
            _str(workspace),
            _str_or_none(config_dir),
            _int_or_none(turn_index),
            _str_or_none(model),
            _str(system_text),
            _mapping(json.loads(delivered)),
        )
    except BAD as problem:
        complain(f"conversation of {agent!r} skipped: {problem}")
        return None


# -- percepts ------------------------------------------------------------------------------------

PERCEPT_COLUMNS = (
    "id, content, producer, consumer, weight, core, scope, workspace, session, subject, created_at, updated_at, last_used_at, idle_seconds, source, trust"
)


DERIVED_COLUMNS = "statement, workspace_key, stance, denied, subject_key"
"""What a percept is compared by."""


def percept_row(percept: Percept, platform: str) -> Row:
    """The columns of `PERCEPT_COLUMNS` and of `DERIVED_COLUMNS`."""
    said = statement_of(well_formed(percept.content))
    content, workspace = well_formed(percept.content), clean_text(percept.workspace)
    return (
        well_formed(percept.id),
        content,
        percept.producer,
        well_formed(percept.consumer),
        percept.weight,
        int(percept.core),
        percept.scope,
        workspace,
        clean_text(percept.session),
        clean_text(percept.subject),
        time_text(percept.created_at),
        time_text(percept.updated_at),
        time_text(percept.last_used_at),
        percept.idle_seconds,
        None if percept.source is None else encode(percept.source),
        percept.trust,
        mark_of(said.key),
        None if workspace is None else workspace_key(workspace, platform),
        mark_of(said.stance),
        int(said.denied),
        subject_key(clean_text(percept.subject)),
    )


def percept_value(row: Row, complain: Complain) -> Percept | None:
    """The percept of a row of `PERCEPT_COLUMNS`; `None` for one that cannot be told any more. Unreadable times are unknown."""
    identity, content, producer, consumer, weight, core, scope, workspace, session, subject, created, updated, used, idle, source, trust = row
    try:
        return Percept(
            id=_str(identity),
            content=_str(content),
            producer=cast('Literal["user", "primary", "escalation", "system"]', _one_of(producer, ("user", "primary", "escalation", "system"))),
            consumer=_str(consumer),
            weight=_int(weight),
            core=bool(_int(core)),
            scope=cast('Literal["session", "global"]', _one_of(scope, ("session", "global"))),
            workspace=_str_or_none(workspace),
            session=_str_or_none(session),
            subject=_str_or_none(subject),
            created_at=_or_none(time_value, created, "created_at", complain),
            updated_at=_or_none(time_value, updated, "updated_at", complain),
            last_used_at=_or_none(time_value, used, "last_used_at", complain),
            idle_seconds=float(idle),
            source=None if source is None else _mapping(json.loads(source)),
            trust=cast('Literal["user", "agent", "tool_output"]', _one_of(trust, ("user", "agent", "tool_output"))),
        )
    except BAD as problem:
        complain(f"skipped: {problem}")
        return None


# -- single fields -------------------------------------------------------------------------------


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _str_or_none(value: Any) -> str | None:
    return None if value is None else _str(value)


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r:.40} is no whole number")
    return value


def _int_or_none(value: Any) -> int | None:
    return None if value is None else _int(value)


def _number(value: Any) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"{value!r:.40} is no number")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is no object")
    return value


def _one_of(value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{value!r:.40} is none of {', '.join(choices)}")
    return _str(value)
