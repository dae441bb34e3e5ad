"""The six tools: what each takes, and those that answer at once. What is here knows nothing of the protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.dispatch.heard import MAX_SUBJECT, Heard
from orchestrator.dispatch.own_tools import GET_MEMORY, GET_SESSION_CONTEXT, own_tools
from orchestrator.dispatch.session_context import SessionContext
from orchestrator.documents.plan import plan_document
from orchestrator.errors import UsageError
from orchestrator.escalation import foreseen, planned
from orchestrator.mcp_server.calls import Calls, Order
from orchestrator.memory.view import MemoryView
from orchestrator.messages import well_formed_values
from orchestrator.needs import change_need, need_document, stand_of, usable_need
from orchestrator.percepts import INITIAL_WEIGHTS, MAX_CONTENT, Percept
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import Plan, counted
from orchestrator.premises import Premises
from orchestrator.providers import Answer, Cancel
from orchestrator.routing import Choice
from orchestrator.session import Role, Session, TurnList, TurnLog, set_need
from orchestrator.sessions import fresh_session, stored_session
from orchestrator.tags import MAX_BODY
from orchestrator.tools import Tool, ToolContext

MAX_PROMPT = 1024 * 1024
"""Characters of a prompt: the budget of any agent is far below."""

HOST = "host"
"""The name of whoever calls, where no primary is configured."""

_SESSION = Field(None, max_length=300, description="A session's id, the beginning of one, or its name; else the newest of the workspace.")
_REASON = Field(None, max_length=MAX_BODY, description="Why it is handed over, what was tried and what is open: the agent is told it first.")
_AGENT = Field(None, max_length=300, description="An agent by name; else the one that is configured for escalation.")
_FRESH = Field(False, description="Let the agent start afresh, with the full context.")


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanEscalation(_Arguments):
    """What an escalation would be and send, without sending it: agent, mode, reasons, budget, what is left out."""

    prompt: str = Field(max_length=MAX_PROMPT, description="What the agent shall do or answer.")
    reason: str | None = _REASON
    session: str | None = _SESSION
    agent: str | None = _AGENT
    fresh: bool = _FRESH


class Escalate(PlanEscalation):
    """Ask a second, stronger model. It has the session's memory and knows what was done before; it is told what you say here.

    What takes long becomes a task: the result names it, and the same call with `task` waits for it further.
    """

    prompt: str = Field("", max_length=MAX_PROMPT, description="What the agent shall do or answer. May be left out with `task`.")
    idempotency_key: str | None = Field(
        None, min_length=1, max_length=200, description="Any text of your own: repeated with the same key, the escalation is not made (or paid) again."
    )
    task: str | None = Field(None, min_length=1, max_length=100, description="The task that an earlier call gave: wait for it, instead of anything new.")


class CurrentNeed(_Arguments):
    """What the user is trying to achieve now: with `text` it is recorded, without it is told."""

    text: str | None = Field(None, max_length=MAX_BODY, description="The user's current goal, in one sentence.")
    session: str | None = _SESSION


class RecordMemory(_Arguments):
    """Remember one short fact that will still matter in later conversations, such as a lasting preference."""

    content: str = Field(max_length=MAX_CONTENT, description="The fact, as one plain sentence.")
    subject: str | None = Field(
        None, max_length=MAX_SUBJECT, description="What it is about, in a word or two; a new value for the same subject takes the place of the old one."
    )
    session: str | None = _SESSION


class GetMemory(_Arguments):
    """Look up remembered facts: the few that fit the words of `query` best, or the most important ones."""

    query: str = Field("", max_length=MAX_BODY, description="What it is about.")
    session: str | None = _SESSION


class SessionContextOf(_Arguments):
    """How the session stands: need, hand-overs, and a line for each recent turn; with `turn`, all of one earlier turn."""

    turn: int | None = Field(None, ge=0, description="The number of an earlier turn.")
    session: str | None = _SESSION


TOOLS: Mapping[str, type[_Arguments]] = {
    "escalate": Escalate,
    "plan_escalation": PlanEscalation,
    "current_need": CurrentNeed,
    "record_memory": RecordMemory,
    "get_memory": GetMemory,
    "session_context": SessionContextOf,
}
LOOKS_ONLY = frozenset({"plan_escalation", "session_context"})
"""Those that change nothing, whatever they are given; `get_memory` notes what was used."""


def read_arguments(name: str, given: Mapping[str, Any] | None) -> _Arguments:
    """The arguments of a tool. Raises `UsageError` that names what is wrong."""
    try:
        return TOOLS[name].model_validate(well_formed_values(dict(given or {})))
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, problem['loc'])) or 'the arguments'}: {problem['msg']}" for problem in error.errors(include_url=False)[:5]]
        raise UsageError(f"{name} cannot be called like this: {'; '.join(problems)}") from error


def order_of(wanted: Escalate) -> Order:
    """Raises `UsageError` for an empty prompt."""
    return Order(_wish(wanted), wanted.session, wanted.idempotency_key)


def _wish(wanted: PlanEscalation) -> Wish:
    if not wanted.prompt.strip():
        raise UsageError("the prompt is empty", hint="say what the agent shall do")
    return Wish(wanted.prompt, Choice(Role.ESCALATION, wanted.agent), reason=wanted.reason, fresh=wanted.fresh)


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool answers: a text, and the same as data where it is data."""

    text: str
    data: Mapping[str, Any] | None = None


def answer_at_once(calls: Calls, wanted: _Arguments) -> Told:
    """What the tools but `escalate` do. Raises `EscaleraError`, `ToolFailed`."""
    calls.refresh()
    match wanted:
        case PlanEscalation():
            return _as_data(_planned(calls, wanted))
        case CurrentNeed():
            return _as_data(_need(calls, wanted))
        case RecordMemory():
            return Told(_remembered(calls, wanted))
        case GetMemory(query=query):
            return Told(_by_tool(calls, wanted.session, GET_MEMORY.name, {"query": query}))
        case SessionContextOf(turn=turn):
            return Told(_by_tool(calls, wanted.session, GET_SESSION_CONTEXT.name, {"turn": turn}))
    raise TypeError(f"no tool takes {type(wanted).__name__}")


def _as_data(data: Mapping[str, Any]) -> Told:
    return Told(json.dumps(data, ensure_ascii=False, indent=2), data)


# -- the plan ---------------------------------------------------------------------------------------


def _planned(calls: Calls, wanted: PlanEscalation) -> Mapping[str, Any]:
    premises, store, wish = calls.premises, calls.store, _wish(wanted)
    session = stored_session(premises, store, ref=wanted.session, new=False, name=None)
    there = premises.at((session or fresh_session(premises)).workspace)
    place = there.workplace(store, there.workspace, crew=there.crew(there.workspace, with_secrets=False))
    plan = foreseen(place, fresh_session(premises), wish) if session is None else planned(place, session.id, wish, loaded=not calls.was_used(session.id))
    return _summary(counted(plan, there.hooks), there, session)


def _summary(plan: Plan, premises: Premises, session: Session | None) -> Mapping[str, Any]:
    """The plan document without the texts: these are what the other agent is told, and long."""
    document = plan_document(plan, expiry=premises.expiry, now=premises.clock.now())
    history = {name: value for name, value in document["history"].items() if name != "messages"}
    kept = ("turn", "agent", "provider", "mode", "reasons", "routing", "state", "need", "percepts", "budget", "notices")
    blocks = [{"name": block["name"], "chars": block["chars"]} for block in document["system"]]
    chosen = {name: document[name] for name in kept}  # type: ignore[literal-required]  # keys of the document
    return {"session": None if session is None else session.id, **chosen, "system": blocks, "history": history}


# -- need and memory --------------------------------------------------------------------------------


def _need(calls: Calls, wanted: CurrentNeed) -> Mapping[str, Any]:
    premises, store = calls.premises, calls.store
    if wanted.text is None:
        found = stored_session(premises, store, ref=wanted.session, new=False, name=None)
        if found is None:
            return {"text": None, "status": "none"}
        return need_document(premises, found, store.log(found.id), loaded=not calls.was_used(found.id))
    text, session = usable_need(wanted.text), calls.session_of(wanted.session)

    def stated(session: Session, index: int, now: datetime) -> Session:
        return replace(session, need=set_need(session.need, text, turn_index=index, during=False, now=now, source="tool"))

    session = change_need(premises, store, session.id, stated, loaded=not calls.was_used(session.id))
    return need_document(premises, session, store.log(session.id), loaded=False)


def _remembered(calls: Calls, wanted: RecordMemory) -> str:
    content, session, now = wanted.content.strip(), calls.session_of(wanted.session), calls.premises.clock.now()
    if not content:
        raise UsageError("a fact cannot be empty", hint="say it in one sentence")
    percept = Percept(
        id=calls.premises.new_id(),
        content=content,
        producer="primary",
        weight=INITIAL_WEIGHTS["primary"],
        scope="session",
        workspace=session.workspace,
        session=session.id,
        subject=None if wanted.subject is None else wanted.subject.strip() or None,
        created_at=now,
        updated_at=now,
        source={"session": session.id, "by": "mcp"},
        trust="agent",
    )
    standing, stored = calls.store.learn(percept)
    return f"remembered: {standing.content}" if stored else f"known already, and now weighs more: {standing.content}"


def _by_tool(calls: Calls, ref: str | None, name: str, arguments: Mapping[str, Any]) -> str:
    """One of the tools that look something up, as the primary of the session has it."""
    found = stored_session(calls.premises, calls.store, ref=ref, new=False, name=None)
    session = found or fresh_session(calls.premises)
    there = calls.premises.at(session.workspace)
    agent = there.settings.explain("primary").value or HOST
    tools = {tool.schema.name: tool for tool in _own(calls, there, session, agent, log=TurnList(()) if found is None else calls.store.log(found.id))}
    context = ToolContext(session.workspace, session.id, agent, _nobody, Cancel())
    return tools[name].run(arguments, context)


def _own(calls: Calls, there: Premises, session: Session, agent: str, *, log: TurnLog) -> tuple[Tool, ...]:
    store, limits, role = calls.store, there.settings.limits(agent), Role.PRIMARY
    memory = MemoryView(store, session=session.id, agent=agent, role=role, workspace=session.workspace, limits=limits, now=there.clock.now)
    stand = stand_of(there, session, log, loaded=not calls.was_used(session.id))
    context = SessionContext(
        session=stand.session,
        index=log.next_index,
        turns=lambda: log,
        workspace=session.workspace,
        agent=agent,
        role=role,
        mode=None,
        reasons=(),
        need=stand.session.need,
        counterpart=there.settings.explain("escalation").value,
    )
    return own_tools(memory, context, Heard(), tell=lambda _: None)


def _nobody(_question: object) -> Answer:
    return Answer("cancel", by="nobody")
