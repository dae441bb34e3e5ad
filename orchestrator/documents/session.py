"""The session document: a whole session as one JSON object, and back (page 6)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NewType, NoReturn

from orchestrator.clock import format_time
from orchestrator.documents.json_text import MAX_DEPTH
from orchestrator.errors import DocumentError
from orchestrator.messages import Part, Reasoning, Text, ToolCall, ToolResult, Usage, well_formed
from orchestrator.session import Brief, ExternalSession, LastNeed, Need, Outcome, Reason, Role, Session, State, Turn, TurnError
from orchestrator.store import NO_RECEIPTS

if TYPE_CHECKING:  # pydantic is imported where a document is read, so that writing one costs nothing
    from pydantic import ValidationError

    from orchestrator.documents.models import ExternalSessionShape, NeedShape, SessionShape, Step, TurnShape

FORMAT = "escalera.session/1"

SAFE_NONCE = 8
"""Characters of a nonce, at least (page 2): a shorter one can be guessed."""

Document = dict[str, Any]  # what `json.dumps` takes
SessionDocument = NewType("SessionDocument", Document)
"""A whole one; `models` declares it."""


# -- a session as a document ---------------------------------------------------------------------


def session_document(session: Session, turns: Sequence[Turn], receipts: Mapping[int, Mapping[str, Any]] = NO_RECEIPTS) -> SessionDocument:
    """The session in the shape of page 6, and more: `updated_at`, and in each turn `receipt` and, in a copied one, `copied_from`."""
    document = {
        "format": FORMAT,
        "id": session.id,
        "name": session.name,
        "workspace": session.workspace,
        "created_at": _time(session.created_at),
        "updated_at": _time(session.updated_at),
        "state": session.state.value,
        "need": None if session.need is None else _need_document(session.need),
        "last_need": None if session.last_need is None else _last_need_document(session.last_need),
        "brief": None if session.brief is None else asdict(session.brief),
        "external_sessions": [_external_document(external) for external in session.external_sessions],
        "nonce": session.nonce,
        "turns": [_turn_document(turn, receipts.get(turn.index)) for turn in turns],
    }
    return SessionDocument(document)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def _need_document(need: Need) -> Document:
    return {"text": need.text, "turn_index": need.turn_index, "during": need.during, "updated_at": _time(need.updated_at), "source": need.source}


def _last_need_document(last: LastNeed) -> Document:
    return {**_need_document(last.need), "reason": last.reason, "cleared_at": format_time(last.cleared_at)}


def _external_document(external: ExternalSession) -> Document:
    return {
        "agent": external.agent,
        "id": external.id,
        "workspace": external.workspace,
        "config_dir": external.config_dir,
        "turn_index": external.turn_index,
        "model": external.model,
        "system_text": external.system_text,
        "delivered": dict(external.delivered),
    }


def _turn_document(turn: Turn, receipt: Mapping[str, Any] | None) -> Document:
    return {
        "index": turn.index,
        "role": turn.role.value,
        "agent": turn.agent,
        "prompt": turn.prompt,
        "outcome": turn.outcome.value,
        "steps": [step_document(step) for step in turn.steps],
        "started_at": _time(turn.started_at),
        "ended_at": _time(turn.ended_at),
        "usage": None if turn.usage is None else asdict(turn.usage),
        "mode": turn.mode,
        "reasons": [asdict(reason) for reason in turn.reasons],
        "continues": turn.continues,
        "error": None if turn.error is None else asdict(turn.error),
        "model_requested": turn.model_requested,
        "model_served": turn.model_served,
        "routing": [asdict(reason) for reason in turn.routing],
        "receipt": None if receipt is None else dict(receipt),
        **({} if turn.copied_from is None else {"copied_from": turn.copied_from}),
    }


def step_document(step: Part) -> Document:
    """One step of a turn; `extra` stands only where there is one."""
    extra = {} if step.extra is None else {"extra": dict(step.extra)}
    if isinstance(step, Text):
        return {"type": "text", "text": step.text, **extra}
    if isinstance(step, Reasoning):
        return {"type": "reasoning", "text": step.text, "model": step.model, "signature": step.signature, **extra}
    if isinstance(step, ToolCall):
        return {"type": "tool_call", "id": step.id, "name": step.name, "arguments": dict(step.arguments), **extra}
    return {"type": "tool_result", "id": step.id, "content": step.content, "is_error": step.is_error, **extra}


# -- a document as a session ---------------------------------------------------------------------


def parse_session_document(
    data: object, *, new_id: Callable[[], str], new_nonce: Callable[[], str], workspace: str, agents: Mapping[Role, str] | None = None
) -> tuple[Session, tuple[Turn, ...]]:
    """The session and its turns; what is absent gets page 6's default.

    `data` is parsed JSON, `workspace` is used where the document names none, `agents` are the names for turns that name none (else the role's own name).
    A turn found open is `interrupted`, and a state that only a running turn has is `routing`. Unpaired surrogates and NUL in texts become U+FFFD.
    Raises `DocumentError` with the path of the first wrong value and what was expected there.
    """
    from pydantic import ValidationError

    from orchestrator.documents.models import SessionShape

    plain = _plain(data, (), 0)
    _check_format(plain)
    try:
        shape = SessionShape.model_validate(plain)
    except ValidationError as error:
        _refuse_first(error)
    turns = _turns(shape.turns, agents or {})
    home = shape.workspace or workspace
    session = Session(
        id=shape.id or new_id(),
        workspace=home,
        nonce=shape.nonce if shape.nonce and len(shape.nonce) >= SAFE_NONCE else new_nonce(),
        name=shape.name,
        created_at=shape.created_at,
        updated_at=shape.updated_at,
        state=_state(shape, turns),
        need=None if shape.need is None else _need(shape.need, turns),
        last_need=None if shape.last_need is None else LastNeed(_need(shape.last_need, turns), shape.last_need.reason, shape.last_need.cleared_at),
        brief=None if shape.brief is None else Brief(shape.brief.text, shape.brief.source, shape.brief.carried),
        external_sessions=_external_sessions(shape.external_sessions, turns, home),
    )
    return session, turns


_Path = tuple[str | int, ...]


def _refuse(path: _Path, what: str) -> NoReturn:
    raise DocumentError(f"not a session document: {_spell(path)}: {what}")


def _spell(path: _Path) -> str:
    """`turns[3].steps[0].type`; a key that is no plain word stands in quotes, an endless path is cut."""
    text = ""
    for step in path[:20]:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w-]{1,80}", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step[:80]!r}]"
    return (text or "the document") + ("…" if len(path) > 20 else "")


def _plain(value: object, path: _Path, depth: int) -> object:
    """The value, with texts that can be stored; refuses what JSON cannot hold."""
    if isinstance(value, str):
        return well_formed(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _refuse(path, f"expected a number, not {value}")
    if depth >= MAX_DEPTH:
        _refuse(path, f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return [_plain(item, (*path, place), depth + 1) for place, item in enumerate(value)]
    if isinstance(value, dict):
        return {_key(key, path): _plain(item, (*path, str(key)), depth + 1) for key, item in value.items()}
    _refuse(path, f"expected a JSON value, not {type(value).__name__}")


def _key(key: object, path: _Path) -> str:
    return well_formed(key) if isinstance(key, str) else _refuse(path, f"expected texts as keys, not {_short(key)}")


def _check_format(data: object) -> None:
    if not isinstance(data, dict):
        _refuse((), f"expected an object, not {_short(data)}")
    given = data.get("format", FORMAT)
    if given == FORMAT:
        return
    if isinstance(given, str) and re.fullmatch(r"escalera\.session/\d+", given):
        raise DocumentError(f"the document has the format {given!r}, and this version reads {FORMAT!r}", hint="read it with a newer version of Escalera")
    _refuse(("format",), f"expected {FORMAT!r}, not {_short(given)}")


def _short(value: object) -> str:
    """What was found, in a few words: it may be megabytes long."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:79] + "…"


def _refuse_first(error: ValidationError) -> NoReturn:
    first, *others = error.errors(include_url=False)
    path = _without_step_types(first["loc"])
    more = f" ({len(others)} more like this)" if others else ""
    if first["type"] == "missing":
        _refuse(path, f"is missing{more}")
    if first["type"].startswith("union_tag"):
        found = first["input"].get("type") if isinstance(first["input"], dict) else first["input"]
        _refuse((*path, "type"), f"expected 'text', 'reasoning', 'tool_call' or 'tool_result', not {_short(found)}{more}")
    if first["type"] == "value_error" and " is no key here" in first["msg"]:
        _refuse(path, f"{first['msg'].removeprefix('Value error, ')}{more}")
    what = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    _refuse(path, f"{what}, not {_short(first['input'])}{more}")


def _without_step_types(path: _Path) -> _Path:
    """The path as it stands in the document: the models put a step's type between its place and its key."""
    from orchestrator.documents.models import STEP_TYPES

    return tuple(step for at, step in enumerate(path) if not (at == 4 and path[2] == "steps" and step in STEP_TYPES))


def _turns(shapes: Sequence[TurnShape], agents: Mapping[Role, str]) -> tuple[Turn, ...]:
    turns: dict[int, Turn] = {}
    last = -1
    for place, shape in enumerate(shapes):
        index = place if shape.index is None else shape.index
        if index <= last:
            _refuse(("turns", place, "index"), f"expected more than {last}, the index of the turn before, not {index}")
        last = index
        role = Role(shape.role)
        turns[index] = Turn(
            index=index,
            role=role,
            agent=shape.agent or agents.get(role, role.value),
            prompt=_prompt(shape, turns, place, index),
            steps=_steps(shape, place),
            outcome=Outcome.INTERRUPTED if shape.outcome == "open" else Outcome(shape.outcome),
            mode=shape.mode,
            reasons=tuple(Reason(reason.rule, reason.detail) for reason in shape.reasons),
            started_at=shape.started_at,
            ended_at=shape.ended_at,
            usage=None if shape.usage is None else Usage(**shape.usage.model_dump()),
            error=None if shape.error is None else TurnError(shape.error.type, shape.error.message),
            continues=shape.continues,
            model_requested=shape.model_requested,
            model_served=shape.model_served,
            routing=tuple(Reason(reason.rule, reason.detail) for reason in shape.routing),
            copied_from=shape.copied_from,
        )
    return tuple(turns.values())


def _prompt(shape: TurnShape, earlier: Mapping[int, Turn], place: int, index: int) -> str | None:
    """The prompt; a turn that continues another one has none of its own, though the same text once more does no harm."""
    if shape.continues is None:
        return _refuse(("turns", place, "prompt"), "is missing") if shape.prompt is None else shape.prompt
    begun = earlier.get(shape.continues)
    if begun is None and shape.continues < index and shape.role == "escalation":
        return shape.prompt  # it is lost: an export leaves out what could not be read
    if begun is None or begun.role is not Role.PRIMARY or begun.outcome is not Outcome.ESCALATED:
        _refuse(("turns", place, "continues"), f"expected the index of an earlier primary turn with the outcome 'escalated', not {shape.continues}")
    if shape.role != "escalation":
        _refuse(("turns", place, "role"), "expected 'escalation' in a turn that continues another one")
    if shape.prompt not in (None, begun.prompt):
        _refuse(("turns", place, "prompt"), f"expected null, since the turn answers the prompt of turn {shape.continues}")
    return None


def _steps(shape: TurnShape, place: int) -> tuple[Part, ...]:
    if shape.answer is not None and shape.steps:
        _refuse(("turns", place, "answer"), "expected either 'steps' or 'answer', not both")
    if shape.answer:
        return (Text(shape.answer),)
    return tuple(_step(step) for step in shape.steps or ())


def _step(shape: Step) -> Part:
    if shape.type == "text":
        return Text(shape.text, shape.extra)
    if shape.type == "reasoning":
        return Reasoning(shape.text, shape.model, shape.signature, shape.extra)
    if shape.type == "tool_call":
        return ToolCall(shape.id, shape.name, shape.arguments, shape.extra)
    return ToolResult(shape.id, shape.content, shape.is_error, shape.extra)


def _state(shape: SessionShape, turns: Sequence[Turn]) -> State:
    if shape.state != "waiting":
        return State.ROUTING
    if not any(turn.role is Role.ESCALATION and turn.outcome is Outcome.COMPLETED for turn in turns):
        _refuse(("state",), "'waiting' needs a completed escalation turn whose question is open, and there is none")
    return State.WAITING


def _need(shape: NeedShape, turns: Sequence[Turn]) -> Need:
    during = any(turn.index == shape.turn_index for turn in turns) if shape.during is None else shape.during
    return Need(shape.text, shape.turn_index, during, shape.updated_at, shape.source)


def _external_sessions(shapes: Sequence[ExternalSessionShape], turns: Sequence[Turn], home: str) -> tuple[ExternalSession, ...]:
    last = {turn.agent: turn.index for turn in turns if turn.outcome is Outcome.COMPLETED}
    known: dict[tuple[str, str], ExternalSession] = {}
    for place, shape in enumerate(shapes):
        key = shape.agent, shape.workspace or home
        if key in known:
            _refuse(("external_sessions", place), f"a second external session of agent {key[0]!r} in {key[1]!r}; there is at most one per agent and workspace")
        known[key] = ExternalSession(
            agent=shape.agent,
            id=shape.id,
            workspace=key[1],
            config_dir=shape.config_dir,
            turn_index=shape.turn_index if "turn_index" in shape.model_fields_set else last.get(shape.agent),
            model=shape.model,
            system_text=shape.system_text,
            delivered=shape.delivered,
        )
    return tuple(known.values())
