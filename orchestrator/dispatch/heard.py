"""What an agent said beside its answer: needs, facts and a hand-over, by tag or by tool (page 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.percepts import MAX_CONTENT
from orchestrator.providers import ToolSchema
from orchestrator.session import Role
from orchestrator.tags import MAX_BODY, Tag
from orchestrator.tools import Tool, ToolFailed, text_argument

Channel = Literal["tag", "tool"]
MAX_SUBJECT = 200
"""Characters of what a fact is about."""
NO_REASON = "(no reason given)"
"""Stands for that of an agent that hands over without one."""


@dataclass(slots=True)
class Heard:
    """Collected while a turn runs, acted on when it ends."""

    needs: list[tuple[str, Channel]] = field(default_factory=list)
    facts: list[tuple[str, Channel]] = field(default_factory=list)
    subjects: dict[str, str] = field(default_factory=dict)
    """What facts are about, by their texts, where that was said."""
    handed_over: str | None = None
    """The reason for handing over, from the first request for it."""
    refused: list[str] = field(default_factory=list)
    """Notices of what was said by tag and is too long; who says it by tool is told itself."""

    empty: list[str] = field(default_factory=list)
    """Notices of tags that said nothing."""

    @property
    def anything(self) -> bool:
        """Whether the agent said something beside its answer, even if it was no use."""
        return bool(self.needs or self.facts or self.refused) or self.handed_over is not None

    def need(self, text: str, channel: Channel) -> str:
        self.needs.append((text, channel))
        return "recorded"

    def fact(self, text: str, channel: Channel) -> str:
        self.facts.append((text, channel))
        return "recorded"

    def hand_over(self, reason: str) -> str:
        self.handed_over = self.handed_over or reason
        return "The stronger agent takes over this turn."

    def take_in(self, tags: Sequence[Tag], role: Role) -> None:
        """Act on the tags of a final message, in order; only the primary can hand over."""
        for tag in tags:
            if not tag.body and tag.kind != "escalate":
                self.empty.append(f"an empty {tag.kind} tag said nothing, and nothing was recorded")
            elif tag.kind == "need":
                self.need(tag.body, "tag")
            elif tag.kind == "percept":
                self._fact_by_tag(tag.body)
            elif role is Role.PRIMARY:
                self.hand_over(tag.body or NO_REASON)

    def _fact_by_tag(self, text: str) -> None:
        """A fact is remembered as it was said or not at all, as by tool."""
        if len(text) > MAX_CONTENT:
            self.refused.append(f"a fact of {len(text)} characters was not remembered: it may have at most {MAX_CONTENT}")
        else:
            self.fact(text, "tag")


def session_tools(heard: Heard, *, hands_over: bool) -> tuple[Tool, ...]:
    """The tools that stand for the tags, for agents that take tools; `hands_over`: whether there is somebody to hand over to."""
    need = Tool(_NEED, lambda arguments, _: heard.need(_bounded(text_argument(arguments, "text"), MAX_BODY), "tool"))
    memory = Tool(_MEMORY, lambda arguments, _: _remember(heard, arguments))
    if not hands_over:
        return (need, memory)
    return (need, memory, Tool(_ESCALATE, lambda arguments, _: heard.hand_over(_bounded(text_argument(arguments, "reason"), MAX_BODY))))


def _remember(heard: Heard, arguments: Mapping[str, Any]) -> str:
    content = _bounded(text_argument(arguments, "content"), MAX_CONTENT)
    if arguments.get("subject") is not None:
        heard.subjects[content] = _bounded(text_argument(arguments, "subject"), MAX_SUBJECT)
    return heard.fact(content, "tool")


def _schema(name: str, description: str, required: str, **meanings: str) -> ToolSchema:
    properties = {key: {"type": "string", "description": meaning} for key, meaning in meanings.items()}
    return ToolSchema(name, description, {"type": "object", "properties": properties, "required": [required]})


_NEED = _schema(
    "current_need",
    "Record what the user is trying to achieve now, in one sentence, when it changed or became clear.",
    required="text",
    text="The user's current goal.",
)
_MEMORY = _schema(
    "record_memory",
    "Remember one short fact that will still matter in later conversations, such as a lasting preference. Not for the task at hand.",
    required="content",
    content="The fact, as one plain sentence.",
    subject="What it is about, in a word or two; a new value for the same subject takes the place of the old one.",
)
_ESCALATE = _schema(
    "escalate",
    "Hand this turn to the stronger agent when the task is beyond you. It sees the conversation; say why, what you tried and what is open.",
    required="reason",
    reason="What the stronger agent needs to know.",
)


def _bounded(text: str, most: int) -> str:
    """A text as long as one by tag may be: it is never cut, and a huge need or brief would leave room for nothing else."""
    if len(text) > most:
        raise ToolFailed(f"that is {len(text)} characters long; at most {most} are taken")
    return text
