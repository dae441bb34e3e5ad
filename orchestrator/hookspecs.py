"""The hooks a plugin may implement, in the order of a program's life (page 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pluggy

from orchestrator.modes import Mode
from orchestrator.providers import ProviderKind
from orchestrator.session import Role, Session, Turn, TurnLog
from orchestrator.tools import Tool

PROJECT = "escalera"
"""The entry-point group, and the name under which hooks are marked."""

API_LEVEL = 1
"""What a plugin may say it was built for, as `ESCALERA_API_LEVEL` in its module; another level is refused by name."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True)
class Signal:
    """Something about a prompt that speaks for the escalation agent, or with a negative weight against it."""

    name: str
    """Lower-case letters, digits, `-`, `_` and `.`: what `routing.factors` and the turn's reasons call it."""
    weight: float
    detail: str = ""
    """What was seen, for people."""


@dataclass(frozen=True, slots=True)
class Sensing:
    """What the built-in sensors look for in a prompt, as the settings under `routing` say."""

    long_prompt_chars: int = 0
    """From how many characters on a prompt is long; 0 = none is."""
    keywords: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    question_words: tuple[str, ...] = ()
    """What makes a question an open one, which no yes or no answers."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By the signal's name; without one, the sensor has no opinion."""


@hookspec
def escalera_provider_kinds() -> Sequence[ProviderKind]:  # type: ignore[empty-body]
    """Provider kinds that agents can name as their `provider`.

    Called once, when the plugin manager is built. Return the kinds; import no vendor SDK on the way.
    Without any, an agent that names the kind is an error that says which distribution brings it.
    Of two plugins with a kind of one name, the first by the name of its distribution has it.

    ```python
    from orchestrator.hookspecs import hookimpl
    from orchestrator.providers import ProviderKind


    @hookimpl
    def escalera_provider_kinds():
        from pydantic import BaseModel  # imported when it is needed, like everything that takes time

        class Options(BaseModel, extra="forbid"):
            model: str | None = None

        def make(options, context):
            raise NotImplementedError("a provider, see docs/plugins.md")

        return [ProviderKind("mine", Options, make, summary="what it talks to")]
    ```
    """


@hookspec
def escalera_template_folders() -> Sequence[Path]:  # type: ignore[empty-body]
    """Folders with templates that go before the built-in ones of the same name, and behind the user's and the project's.

    Called once, when the first text of the program is written. Return absolute paths of folders. A file `NAME.jinja` in one
    of them stands in for the built-in template of that name (`escalera templates list` has the names) and is given the same
    values; one that is broken or asks for another value is left out, with a notice that names file and line. Of two plugins
    with a template of one name, the first by the name of its distribution has it.

    ```python
    from pathlib import Path

    from orchestrator.hookspecs import hookimpl


    @hookimpl
    def escalera_template_folders():
        return [Path(__file__).parent / "templates"]
    ```
    """


@hookspec
def escalera_routing_signals(prompt: str, session: Session, turns: TurnLog, workspace: str, sensing: Sensing) -> Sequence[Signal] | None:
    """Signals that speak for giving a prompt to the escalation agent.

    Called in every plan in which nothing goes before it: no flag, no reply to an open question, no pin, and there is an escalation
    agent. `session` and `turns` are what is stored; they can be read, and a change in them reaches nobody. `sensing` is what
    the user has set for the built-in sensors, which are a plugin like this (`sensors`). Return signals,
    or nothing for "no opinion". Each weight is multiplied by its factor in `routing.factors` (1 where there is none); where
    their sum reaches `routing.threshold`, the escalation agent gets the turn, and the reason `rules` names the signals.
    Without any signals the primary has the turn. What was given is kept with the turn, to decide it again under other rules: put
    nothing secret into `detail`. `escalera plan` calls it too: change nothing. It runs while somebody waits and
    cannot be interrupted: be quick.

    ```python
    from orchestrator.hookspecs import Signal, hookimpl


    @hookimpl
    def escalera_routing_signals(prompt):
        if "migration" in prompt.lower():
            return [Signal("migration", 0.6, "speaks of a migration")]
        return None
    ```
    """


@hookspec
def escalera_tools(agent: str, role: Role, workspace: str) -> Sequence[Tool] | None:
    """Tools that agents are offered beside the session's own.

    Called in every plan for an agent that takes tools, before anything is sent: return the same schemas for the same
    arguments, start nothing and change nothing; `escalera plan` shows their size. A name has letters, digits, `_` and `-`,
    begins with a letter and is 64 characters long at most, so that every wire format takes it. It is none of the session's
    tools, and of two plugins with one name the first by the name of its distribution has it; what is refused is a notice.
    `run` is called with the arguments as the model gave them and a `ToolContext`, and returns the result's text, which is
    shortened to `tool_result_max_chars`. `ToolFailed` tells the model why not. Whatever else it raises, or returns, is an
    error result and a notice, and the turn goes on. Every call has a thread of its own, those of a tool with `parallel=True` side
    by side. It cannot be interrupted: one that takes long looks at `context.cancel`, and one that still runs two seconds after
    the turn was cancelled is left to itself.

    A tool that writes or runs something says so first: `context.permit(Act("run", command, "=" + command))` comes back where the rules or
    the user allow it, and raises `ToolFailed` where they do not. What it starts sees `context.environ` and nothing else of the environment. With
    `on_request=True` a tool is only for agents whose `extra_tools` name it or its plugin.

    ```python
    from pathlib import Path

    from orchestrator.hookspecs import hookimpl
    from orchestrator.providers import Question, ToolSchema
    from orchestrator.tools import Tool, ToolFailed, text_argument

    SCHEMA = ToolSchema(
        "count_lines",
        "How many lines a file of the workspace has.",
        {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
    )


    def count_lines(arguments, context):
        file = Path(context.workspace, text_argument(arguments, "file"))
        if context.ask(Question(f"May {context.agent} read {file}?")).action != "accept":
            raise ToolFailed("the user does not want that file to be read")
        try:
            return str(len(file.read_text("utf-8").splitlines()))
        except (OSError, ValueError) as error:
            raise ToolFailed(f"it cannot be read: {error}") from error


    @hookimpl
    def escalera_tools(role):
        return [Tool(SCHEMA, count_lines)]
    ```
    """


@hookspec
def escalera_context(session: Session, turns: TurnLog, agent: str, role: Role, mode: Mode | None, prompt: str, workspace: str) -> str | None:
    """A text that an agent should know before it reads the prompt.

    Called once in every plan, also by `escalera plan`: change nothing. `mode` is none for a turn of the primary; `session` and
    `turns` are what is stored; they can be read, and a change in them reaches nobody. Return a plain text, or nothing. It stands
    at the end of the orientation under the plugin's name, as quoted text that commands nothing, is counted in the budget and
    shown by `escalera plan`. At most 4,000 characters of it are told, fewer where the digests have to shrink, none where there
    are no digests. An agent that keeps its own conversation is told it when it starts, and again when it differs from what it
    was last told: say so in the text when something no longer holds, and keep what always changes (the time, counters) out of it.
    Without any, nothing is told. It runs while somebody waits and cannot be interrupted: be quick.

    ```python
    from pathlib import Path

    from orchestrator.hookspecs import hookimpl


    @hookimpl
    def escalera_context(role, workspace):
        notes = Path(workspace, "NOTES.md")
        return notes.read_text("utf-8") if role == "escalation" and notes.is_file() else None
    ```
    """


@hookspec(firstresult=True)
def escalera_count_tokens(kind: str, model: str | None, text: str) -> int | None:
    """How many tokens a text is for a model, for the estimate that `escalera plan` shows.

    Called with everything that one call would send, as one text, when a plan is made to be looked at. `kind` is the agent's
    provider kind, `model` the configured model. Return a count, or nothing for a model that is not known; the first answer
    counts, in the order of the distributions' names. Without any, the estimate is ours. What fits is reckoned in characters
    and does not depend on it.

    ```python
    from orchestrator.hookspecs import hookimpl


    @hookimpl
    def escalera_count_tokens(kind, model, text):
        return len(text.encode()) // 4 if model == "my-model" else None
    ```
    """


@hookspec
def escalera_turn_started(turn: Turn, session: Session) -> None:
    """A turn was opened: it stands in the store, and its agent is called next.

    Called for every turn, the escalation turn after a hand-over included. `turn` and `session`, the header that the turn was
    opened with, are copies. What it returns is
    ignored, and what it raises is a notice: an observer changes and ends no turn. It cannot be interrupted; what takes long
    belongs into a thread of its own, with `daemon=True`: one without it keeps the program seven seconds, and is then cut off.

    ```python
    import logging

    from orchestrator.hookspecs import hookimpl


    @hookimpl
    def escalera_turn_started(turn):
        logging.getLogger(__name__).info("turn %s: %s as %s", turn.index, turn.agent, turn.role)
    ```
    """


@hookspec
def escalera_turn_ended(turn: Turn, session: Session) -> None:
    """A turn has ended, however it did: `turn.outcome` and `turn.error` say how.

    Called when the end is stored, and also where the store refused it, which the turn's notices say; not for turns that a
    killed process left open. `turn` and `session`, the header with which it ended, are copies. What it returns is ignored,
    and what it raises is a notice. It cannot be interrupted; what takes long belongs into a thread of its own, with `daemon=True`.

    ```python
    import logging

    from orchestrator.hookspecs import hookimpl


    @hookimpl
    def escalera_turn_ended(turn):
        spent = turn.usage.output_tokens if turn.usage else None
        logging.getLogger(__name__).info("turn %s: %s, %s tokens", turn.index, turn.outcome, spent)
    ```
    """
