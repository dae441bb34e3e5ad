"""The core's tools that look something up or ask: memory, session, the human (page 4; those that say something stand with `heard`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from orchestrator.dispatch.heard import Heard
from orchestrator.dispatch.session_context import SessionContext
from orchestrator.errors import Ambiguous, NotFound, StoreError, UsageError
from orchestrator.flat_schema import MAX_CHOICES, flat_schema
from orchestrator.memory.view import MemoryView
from orchestrator.percepts import Percept
from orchestrator.providers import Answer, Question, ToolSchema
from orchestrator.quoting import fenced, one_line
from orchestrator.tags import MAX_BODY
from orchestrator.tools import Tool, ToolContext, ToolFailed, text_argument

_SHOWN_ID = 8

Found = TypeVar("Found")


def _schema(name: str, description: str, required: Sequence[str] = (), **properties: Mapping[str, Any]) -> ToolSchema:
    return ToolSchema(name, description, {"type": "object", "properties": properties, "required": list(required)})


GET_MEMORY = _schema(
    "get_memory",
    "Look up remembered facts: the few that fit the words of `query` best, or the most important ones.",
    query={"type": "string", "description": "What it is about."},
)
LIST_MEMORY = _schema("list_memory", "List remembered facts with their ids.")
FORGET_MEMORY = _schema(
    "forget_memory",
    "Take a remembered fact out when it is wrong or no longer holds.",
    ("id",),
    id={"type": "string", "description": "Its id, from list_memory or get_memory."},
)
GET_SESSION_CONTEXT = _schema(
    "get_session_context",
    "How this session stands: need, hand-overs, and a line for each recent turn; with `turn`, all of one earlier turn.",
    turn={"type": "integer", "description": "The number of an earlier turn."},
)
ASK_USER = _schema(
    "ask_user",
    "Ask the user something you need to know before you can go on, and wait for the answer. Never ask for passwords or keys.",
    ("question",),
    question={"type": "string"},
    choices={"type": "array", "items": {"type": "string"}, "description": "What to choose from, if not any text will do."},
    schema={"type": "object", "description": "For several answers at once: a flat JSON Schema with `properties`, instead of `choices`."},
)
OWN_SCHEMAS = (GET_MEMORY, LIST_MEMORY, FORGET_MEMORY, GET_SESSION_CONTEXT, ASK_USER)


def own_tools(memory: MemoryView, session: SessionContext, heard: Heard, *, tell: Callable[[str], None]) -> tuple[Tool, ...]:
    """The tools behind `OWN_SCHEMAS`, for one turn; `tell` gives the user a notice."""
    return (
        Tool(GET_MEMORY, lambda arguments, _: _remembered(memory, arguments), parallel=True),
        Tool(LIST_MEMORY, lambda *_: _listed(memory, heard), parallel=True),
        Tool(FORGET_MEMORY, lambda arguments, context: _forgotten(memory, arguments, context, tell)),
        Tool(GET_SESSION_CONTEXT, lambda arguments, _: _told(session, arguments), parallel=True),
        Tool(ASK_USER, _asked),
    )


# -- memory -----------------------------------------------------------------------------------------


def _remembered(memory: MemoryView, arguments: Mapping[str, Any]) -> str:
    query = arguments.get("query") or ""
    if not isinstance(query, str):
        raise ToolFailed("argument 'query' must be a text")
    found = _from_store(lambda: memory.recall(query[:MAX_BODY]))
    if not found:
        return "No remembered fact has to do with that; list_memory shows what there is." if query.strip() else "Nothing is remembered."
    return f"Remembered facts, the best first:\n{_facts(found)}"


def _listed(memory: MemoryView, heard: Heard) -> str:
    shown, more = _from_store(memory.listed)
    parts = [f"Remembered facts:\n{_facts(shown)}" if shown else "No fact is shown." if more else "Nothing is remembered."]
    if more:
        parts.append(f"{more} more are not shown; get_memory finds them by what they are about.")
    if heard.facts:
        parts.append("Said in this turn, and remembered when it ends:\n" + (fenced("\n".join(f"- {one_line(text, 300)}" for text, _ in heard.facts))))
    return "\n\n".join(parts)


def _forgotten(memory: MemoryView, arguments: Mapping[str, Any], context: ToolContext, tell: Callable[[str], None]) -> str:
    ref = text_argument(arguments, "id")
    gone = _from_store(lambda: memory.forget(ref))
    tell(f"{context.agent!r} took a fact out of the memory, kept in the archive: {one_line(gone.content, 200)}")
    return f"forgotten: {gone.id[:_SHOWN_ID]}"


def _from_store(act: Callable[[], Found]) -> Found:
    try:
        return act()
    except (NotFound, Ambiguous, StoreError) as error:
        raise ToolFailed(error.message) from error
    except UsageError as error:
        raise ToolFailed(f"{error.message} ({error.hint})" if error.hint else error.message) from error


def _facts(percepts: Sequence[Percept]) -> str:
    """One item each with its id; further lines are indented, so that none poses as an item of its own."""
    return fenced("\n".join(f"- [{percept.id[:_SHOWN_ID]}]{_mark(percept)} " + "\n  ".join(percept.content.strip().splitlines()) for percept in percepts))


def _mark(percept: Percept) -> str:
    return " (from tool output, unproven)" if percept.trust == "tool_output" else " (the user asked to keep this)" if percept.core else ""


# -- the session ------------------------------------------------------------------------------------


def _told(session: SessionContext, arguments: Mapping[str, Any]) -> str:
    turn = arguments.get("turn")
    if turn is None:
        return _from_store(session.overview)
    if isinstance(turn, bool) or not isinstance(turn, int):
        raise ToolFailed("argument 'turn' must be a whole number")
    return _from_store(lambda: session.turn(turn))


# -- the human --------------------------------------------------------------------------------------


def _asked(arguments: Mapping[str, Any], context: ToolContext) -> str:
    message = text_argument(arguments, "question")
    if len(message) > MAX_BODY:
        raise ToolFailed(f"that question is {len(message)} characters long; at most {MAX_BODY} are taken")
    try:
        schema = flat_schema(_asked_for(arguments))
    except ValueError as error:
        raise ToolFailed(str(error)) from error
    answer = context.ask(Question(f"{context.agent} asks: {message}", mode="form", schema=schema, durable=True))
    if answer.action != "accept":
        raise ToolFailed(_why_not(answer))
    content = dict(answer.content)
    if set(content) == {"answer"} and isinstance(content["answer"], str):
        return f"The user answers:\n{fenced(content['answer']) or '(nothing)'}"
    return f"The user answers:\n{fenced(json.dumps(content, ensure_ascii=False))}"


def _asked_for(arguments: Mapping[str, Any]) -> object:
    """The schema of the answer: the one given, or a single text."""
    schema, choices = arguments.get("schema"), arguments.get("choices")
    if schema:
        if choices:
            raise ToolFailed("give 'choices' or 'schema', not both")
        return schema
    field: dict[str, Any] = {"type": "string", "title": "Your answer"}
    if choices:
        if not isinstance(choices, list | tuple) or len(choices) > MAX_CHOICES:
            raise ToolFailed(f"argument 'choices' must be a list of at most {MAX_CHOICES} texts")
        field["enum"] = list(choices)
    return {"type": "object", "properties": {"answer": field}, "required": ["answer"]}


def _why_not(answer: Answer) -> str:
    """Which of the ways in which there is no answer it was (page 5)."""
    if answer.by == "later":
        return "Nobody is there now; the question stays open, and the answer comes as a message of its own. End your turn, and say what waits for it."
    if answer.by == "nobody":
        return "Nobody is there who could be asked. Go on with what you know, and say in your answer what you assumed or would have asked."
    if answer.action == "decline":
        return "The user does not want to answer this. Go on without it, or say what you cannot do."
    if answer.by == "expiry":
        return "Nobody answered in time, which is no refusal. Go on with what you know, and say what you assumed."
    return "The question was put away without an answer. Go on with what you know, and say what you assumed."
