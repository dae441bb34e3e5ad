"""Turns as messages, as one agent is to see them: its own words as its own, another agent's marked as that agent's (page 3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.attachments import referenced
from orchestrator.history.normalise import paired
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, compact_json, well_formed
from orchestrator.model_names import is_same_model
from orchestrator.session import Outcome, Role, Turn


@dataclass(frozen=True, slots=True)
class Viewer:
    """The agent that will read the history, and its exact model.

    `clean` makes harmless what looks like a tag (page 2), in every text but reasoning, which is verbatim or nothing.
    It must give a text back unchanged that it gave before.
    """

    agent: str
    model: str | None = None
    clean: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """What is sent, fitted and dropped together: one turn, or an `escalated` one and the turn that continues it.

    `pending` is for the escalated turn that the turn now being planned continues: its prompt is sent last, by the caller.
    """

    turns: tuple[Turn, ...]
    pending: bool = False

    @property
    def place(self) -> int:
        """Where it stands among the others: the index of its last turn."""
        return self.turns[-1].index

    @property
    def prompt(self) -> str | None:
        """The user's message, which stands once."""
        return next((turn.prompt for turn in self.turns if turn.prompt is not None), None)


def render_unit(unit: Unit, viewer: Viewer) -> tuple[Message, ...]:
    """The unit's messages as the viewer sees them, not yet normalised."""
    return show_unit(tidy_unit(unit, viewer), viewer)


def show_unit(unit: Unit, viewer: Viewer, *, skip: int = 0) -> tuple[Message, ...]:
    """The messages of a unit that is tidy already; the oldest `skip` tool batches are left out.

    What the primary did before it handed over comes before the prompt as that agent's work; but the primary itself
    sees it as it was, in answer to the prompt.
    """
    first, *later = unit.turns
    work, skip = _seen(first, skip, own=_is_own(first, viewer) and not unit.pending)
    if unit.pending:
        return work
    text = unit.prompt
    prompt = () if text is None else (Message("user", (Text(text),)),)
    if not later:
        return prompt + work
    answer, _ = _seen(later[0], skip, own=_is_own(later[0], viewer))
    return prompt + work + answer if _is_own(first, viewer) else work + prompt + answer


def _is_own(turn: Turn, viewer: Viewer) -> bool:
    return turn.agent == viewer.agent


def _seen(turn: Turn, skip: int, *, own: bool) -> tuple[tuple[Message, ...], int]:
    """The turn's steps, as they were or marked as another's; and how many batches are still to be left out after it."""
    messages = _grouped(turn.steps)
    if skip or not (own or all(isinstance(step, Text) for step in turn.steps)):
        messages, skip = _without_batches(paired(messages), skip)
    return messages if own else _marked(turn, messages), skip


# -- steps as messages ----------------------------------------------------------------------------


def _grouped(steps: Sequence[Part]) -> tuple[Message, ...]:
    """Runs of results as user messages, everything else as assistant messages."""
    messages: list[Message] = []
    run: list[Part] = []
    results = False
    for step in steps:
        if run and isinstance(step, ToolResult) is not results:
            messages.append(Message("user" if results else "assistant", tuple(run)))
            run = []
        results = isinstance(step, ToolResult)
        run.append(step)
    if run:
        messages.append(Message("user" if results else "assistant", tuple(run)))
    return tuple(messages)


def count_batches(unit: Unit) -> int:
    """How many tool batches it has: assistant messages with calls, each with all its results."""
    return sum(_has_calls(message) for turn in unit.turns for message in paired(_grouped(turn.steps)))


def _without_batches(messages: tuple[Message, ...], skip: int) -> tuple[tuple[Message, ...], int]:
    kept: list[Message] = []
    rest = iter(messages)
    for message in rest:
        if skip and _has_calls(message):
            next(rest)  # its results: they follow it directly, alone
            skip -= 1
        else:
            kept.append(message)
    return tuple(kept), skip


def _has_calls(message: Message) -> bool:
    return any(isinstance(part, ToolCall) for part in message.parts)


# -- another agent's answer -----------------------------------------------------------------------

_WORDS = ("endof", "answerof", "workof", "resultof", "errorof", "called")
_BRACKETS = "\\[\uff3b\u3010\u3014\u27e6\u2045"
_GAP = r"[\W_]*+"
_MARK_LEAD = re.compile(
    f"[{_BRACKETS}]{_GAP}(?=(?P<word>" + "|".join(_GAP.join(f"[{c}{chr(ord(c) + 0xFEE0)}]" for c in word) for word in _WORDS) + ")?)",
    re.IGNORECASE,
)
"""Whatever stands between a bracket and the next letter, and whether the words of one of our marks follow, in any
case, width and spacing. It takes the whole of it either way, so that each stretch is looked at once, however hostile."""


def _marked(turn: Turn, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """One user message with the agent's words, calls and results as text, between marks that its content cannot forge."""
    body = "\n".join(_folded(messages))
    if not body.strip():
        return ()
    agent = _label(turn.agent)
    role = "primary" if turn.role is Role.PRIMARY else "escalation"
    what, note = ("work", ", before it handed over") if turn.outcome is Outcome.ESCALATED else ("answer", "")
    return (Message("user", (Text(f"[{what} of {agent}, the {role} agent{note}]\n{body}\n[end of {agent}'s {what}]"),)),)


def _folded(messages: tuple[Message, ...]) -> Iterator[str]:
    names: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, Text):
                if part.text.strip():
                    yield harmless(part.text)
            elif isinstance(part, ToolCall):
                names[part.id] = _label(part.name)
                yield f"[called {names[part.id]}: {harmless(compact_json(part.arguments))}]"
            elif isinstance(part, ToolResult):
                kind = "error" if part.is_error else "result"
                yield f"[{kind} of {names.get(part.id, 'a tool call that is not shown')}]\n{harmless(part.content)}\n[end of {kind}]"


def harmless(text: str) -> str:
    """The text, of the same length, with nothing in it that could be taken for one of our marks."""
    if "[" not in text and text.isascii():
        return text
    return _MARK_LEAD.sub(lambda lead: re.sub(f"[{_BRACKETS}]", "(", lead[0]) if lead["word"] else lead[0], text)


def _label(name: str) -> str:
    """A name that cannot end the mark it stands in."""
    return re.sub(r"[^\w .:@/+-]", "_", name)[:80] or "unnamed"


# -- what may be shown of a turn ------------------------------------------------------------------


def tidy_unit(unit: Unit, viewer: Viewer) -> Unit:
    """The unit with texts that can be sent, and without what is bound to another agent or model."""
    turns = tuple([_tidy_turn(turn, viewer) for turn in unit.turns])
    return unit if turns == unit.turns else replace(unit, turns=turns)


def _tidy_turn(turn: Turn, viewer: Viewer) -> Turn:
    prompt = None if turn.prompt is None else _tidy_text(referenced(turn.prompt), viewer)
    own = _is_own(turn, viewer)
    bound = own and _is_of_model(turn, viewer.model)
    models = {viewer.model, *((turn.model_served,) if bound else ())}
    steps = [_tidy_part(part, viewer, models=models if own else (), bound=bound) for part in turn.steps]
    kept = tuple([step for step in steps if step is not None])
    return turn if prompt == turn.prompt and kept == turn.steps else replace(turn, prompt=prompt, steps=kept)


def _is_of_model(turn: Turn, model: str | None) -> bool:
    """Whether that exact model answered: under its own name, or, asked for by an alias as it is now, under the name behind it."""
    asked, served = turn.model_requested, turn.model_served
    if model is None:
        return False
    return model == (served or asked) or (model == asked and served is not None and is_same_model(asked, served))


def _tidy_part(part: Part, viewer: Viewer, *, models: Collection[str | None], bound: bool) -> Part | None:
    """`models`: whose reasoning may go back; `bound`: the viewer's exact model made it, so that `extra` can go back to it, too."""
    extra = part.extra if bound else None
    if isinstance(part, Text):
        text = _tidy_text(part.text, viewer)
        return part if text is part.text and extra is part.extra else Text(text, extra)
    if isinstance(part, Reasoning):
        return part if part.model is not None and part.model in models else None
    if isinstance(part, ToolCall):
        tidy = ToolCall(_tidy_text(part.id, viewer), _tidy_text(part.name, viewer), _tidy_arguments(part.arguments, viewer), extra)
        return part if tidy == part and extra is part.extra else tidy
    call, content = _tidy_text(part.id, viewer), _tidy_text(part.content, viewer)
    return part if call is part.id and content is part.content and extra is part.extra else ToolResult(call, content, part.is_error, extra)


def _tidy_text(text: str, viewer: Viewer) -> str:
    text = well_formed(text)
    return text if viewer.clean is None else viewer.clean(text)


def _tidy_arguments(arguments: Mapping[str, object], viewer: Viewer) -> Mapping[str, object]:
    return arguments if viewer.clean is None else {_tidy_text(key, viewer): _tidy_value(value, viewer) for key, value in arguments.items()}


def _tidy_value(value: object, viewer: Viewer) -> object:
    if isinstance(value, str):
        return _tidy_text(value, viewer)
    if isinstance(value, dict):
        return {_tidy_value(key, viewer): _tidy_value(item, viewer) for key, item in value.items()}
    if isinstance(value, list):
        return [_tidy_value(item, viewer) for item in value]
    return value


__all__ = ["Unit", "Viewer", "count_batches", "harmless", "render_unit", "show_unit", "tidy_unit"]
