"""The tool seam: what a model may call, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from orchestrator.providers import Ask, Cancel, ToolSchema

SESSION_TOOLS = frozenset({"current_need", "record_memory", "escalate", "get_memory", "list_memory", "forget_memory", "get_session_context", "ask_user"})
"""The core's own tools: no other may have such a name (pages 2 and 4)."""

LOOKS_AT_NOTHING = SESSION_TOOLS - {"ask_user"}
"""Those whose output repeats what the session knows, and verifies none of it."""


class ToolFailed(Exception):
    """A tool could not do what it was asked; the text goes back to the model as an error result."""


Verb = Literal["read", "write", "run"]
Beyond = Literal["network", "unconfined"]


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a tool is about to do, and on which the user may have a say."""

    verb: Verb
    what: str
    """The exact command; or the path within the workspace, links followed, with `/` between its parts, `.` for the workspace itself."""
    pattern: str
    """What the user is offered to allow along with it, as in a rule: `git status *`, `src/**`, or with `=` before it just this."""
    shown: str = ""
    """What the user sees of it beside its name, such as the lines that change. What is not shown would be approved unseen."""
    beyond: frozenset[Beyond] = frozenset()
    """What a command can reach: the network, and with `unconfined` whatever the user can."""
    notes: tuple[str, ...] = ()
    """What the user should know about it, each a line."""
    asks: bool = True
    """Whether the user is asked where no rule says anything; otherwise it is allowed then."""


class Permit(Protocol):
    """Whether a tool may do something: as the rules say, and where they leave it open as the user says."""

    def __call__(self, act: Act) -> None:
        """Comes back where it may be done, which may take as long as a question stands. Raises `ToolFailed` that tells the agent why not."""

    def stands(self, act: Act) -> bool:
        """Whether it may be done without asking."""


class _Nothing:
    def __call__(self, act: Act) -> None:
        raise ToolFailed(f"there is nobody to permit it: {act.verb} {act.what:.200}")

    def stands(self, act: Act) -> bool:
        return False


NO_PERMIT: Permit = _Nothing()
"""For where there are no rules and nobody to ask."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the tools of one turn work with beside their calls."""

    permit: Callable[[Ask], Permit] = lambda _: NO_PERMIT
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    off_limits: tuple[str, ...] = ()


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
    permit: Permit = NO_PERMIT
    """Asks the user before something is written or run, unless the rules know the answer."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What a program that the tool starts may see: the user's environment without secrets. `SESSION_MARK` is the tool's to add."""
    off_limits: tuple[str, ...] = ()
    """Folders with what this program keeps, absolute: no tool has any business there."""
    result_chars: int | None = None
    """Characters of a result that the agent is given; of a longer one the middle is cut out."""


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
    on_request: bool = False
    """Whether only those agents are offered it whose `extra_tools` name it, or the plugin that it is from."""


def text_argument(arguments: Mapping[str, Any], name: str) -> str:
    """A required text among the arguments. Raises `ToolFailed` where it is missing, blank or no text."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolFailed(f"argument {name!r} must be a text that is not empty")
    return value.strip()
