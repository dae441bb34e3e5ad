"""The tool seam: what a model may call, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.providers import Ask, Cancel, ToolSchema

SESSION_TOOLS = frozenset({"current_need", "record_memory", "escalate", "get_memory", "list_memory", "forget_memory", "get_session_context", "ask_user"})
"""The core's own tools: no other may have such a name (pages 2 and 4)."""

LOOKS_AT_NOTHING = SESSION_TOOLS - {"ask_user"}
"""Those whose output repeats what the session knows, and verifies none of it."""


class ToolFailed(Exception):
    """A tool could not do what it was asked; the text goes back to the model as an error result."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a tool is at work, for whom, and how it reaches the human."""

    workspace: str
    session: str
    """The session's id."""
    agent: str
    """The agent that called the tool."""
    ask: Ask
    """The question broker: blocks until there is an answer, which may be that nobody answered."""
    cancel: Cancel
    """Set when the turn shall stop. A tool that takes long looks at it, or registers what ends its wait."""
    call: str = ""
    """The id that the agent gave this call."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A schema and what answers it.

    `run` gets the arguments as the model gave them, which need not follow the schema, and returns the result's text.
    It raises `ToolFailed` for what the model should be told in its own words.
    """

    schema: ToolSchema
    run: Callable[[Mapping[str, Any], ToolContext], str]
    parallel: bool = False
    """Whether it may run side by side with other calls of the same answer: it changes nothing that they look at. Its `run` is then
    called from several threads at once.
    """


def text_argument(arguments: Mapping[str, Any], name: str) -> str:
    """A required text among the arguments. Raises `ToolFailed` where it is missing, blank or no text."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolFailed(f"argument {name!r} must be a text that is not empty")
    return value.strip()
