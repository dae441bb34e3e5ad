"""Orientation: what an agent has to know before it reads the prompt, by mode (page 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.context.delivery import is_new
from orchestrator.modes import Mode
from orchestrator.quoting import fenced, one_line
from orchestrator.session import NeedStatus
from orchestrator.templates import Templates

NOT_SHOWN_CHARS = 80
"""What `not_shown` adds at most, so that fitting the history needs one pass (page 3)."""

MAX_BRIEF = 280
"""Characters of a prompt that stands in for a reason (page 2)."""

_MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """What another agent asked the user and has no reply to."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a plugin tells the agent."""

    plugin: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known when a turn is handed over. Texts are raw: they are quoted here."""

    mode: Mode | None
    """`None` for a turn of the primary."""
    agent: str
    keeps_conversation: bool
    prompt: str = ""
    need: str | None = None
    need_status: NeedStatus = "none"
    need_label: Literal["current", "verify"] = "current"
    previous_need: str | None = None
    """The need that was last cleared as fulfilled."""
    brief: str | None = None
    brief_given: bool = False
    """Whether somebody gave it as a reason; else it is the head of a prompt."""
    brief_by: Literal["user", "primary", "prompt"] = "prompt"
    """Whose words it is: a primary's conclusions are claims."""
    open_question: OpenQuestion | None = None
    lost_session: bool = False
    primary_activity: str = ""
    """For a primary that goes on in its own conversation: what was done or attempted since its last turn there."""
    prior_escalation: str = ""
    contributions: tuple[Contribution, ...] = ()
    delivered: Mapping[str, Any] = field(default_factory=dict)
    """What the agent's external session has been told (`delivered_marks`); empty where it has none."""


Blocks = dict[tuple[object, ...], str]
"""Blocks that were written, by template and text."""


def orientation(templates: Templates, situation: Situation, *, not_shown: int = 0, batches: int = 0, written: Blocks | None = None) -> str:
    """The orientation's blocks in page 2's order, blank ones left out; `""` when there is nothing to tell.

    `not_shown` turns that the history leaves out, and `batches` of tool calls of the newest one that it shows, add one
    line, at most `NOT_SHOWN_CHARS` with its separator. `written` is for who writes many that are mostly alike.
    """
    writer = _Writer(templates, {} if written is None else written)
    return "\n\n".join([block for block in _blocks(writer, situation, not_shown, batches) if block])


def brief_of(prompt: str) -> str:
    """The brief of a first escalation turn for which nobody gave a reason."""
    return prompt.strip()[:MAX_BRIEF]


def _blocks(write: _Writer, situation: Situation, not_shown: int, batches: int) -> Iterator[str]:
    if situation.mode is None:
        yield from _for_primary(write, situation)
    elif situation.keeps_conversation and situation.mode in (Mode.RESUME, Mode.CONTINUATION):
        yield from _for_one_who_remembers(write, situation)
    else:
        yield from _for_escalation(write, situation)
    if situation.open_question is not None:
        yield write.quoting("open_question", question=situation.open_question.text, agent=one_line(situation.open_question.agent, _MAX_NAME))
    if not_shown > 0 or batches > 0:
        yield write.templates.render("not_shown", count=not_shown, batches=batches)
    if situation.lost_session:
        yield write.templates.render("lost_session")
    for contribution in situation.contributions:
        yield write.contributed(contribution)


def _for_escalation(write: _Writer, situation: Situation) -> Iterator[str]:
    """`first`, `fresh_start` and `returning`; agents that forget everything between turns get the last in `resume` and `continuation`, too."""
    brief = situation.brief or (brief_of(situation.prompt) if situation.mode is Mode.FIRST else "")
    yield write.brief(brief, situation)
    yield write.need(situation, previous=situation.mode not in (Mode.FIRST, Mode.FRESH_START))
    if situation.mode in (Mode.FIRST, Mode.FRESH_START):
        yield write.quoting("prior_escalation", digest=situation.prior_escalation, agent=one_line(situation.agent, _MAX_NAME))
    yield write.quoting("primary_activity", digest=situation.primary_activity)


def _for_one_who_remembers(write: _Writer, situation: Situation) -> Iterator[str]:
    if situation.brief_given:
        yield write.brief(situation.brief or "", situation)
    if is_new("primary_activity", situation.primary_activity, situation.delivered):
        yield write.quoting("primary_activity", digest=situation.primary_activity)


def _for_primary(write: _Writer, situation: Situation) -> Iterator[str]:
    """A primary with its own conversation is told what happened outside it; before its first turn there, that is everything."""
    yield write.need(situation, previous=False)
    if not situation.keeps_conversation:
        return
    yield write.quoting("primary_activity", digest=situation.primary_activity)
    if is_new("prior_escalation", situation.prior_escalation, situation.delivered):
        yield write.quoting("escalation_since", digest=situation.prior_escalation)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Renders blocks, quoting what is not ours."""

    templates: Templates
    written: Blocks

    def quoting(self, template: str, *, agent: str | None = None, **text: str) -> str:
        """The block around its one foreign text; blank where that is."""
        key = (template, agent, *text.values())
        if key not in self.written:
            self.written[key] = self._quoting(template, agent, text)
        return self.written[key]

    def _quoting(self, template: str, agent: str | None, text: Mapping[str, str]) -> str:
        quoted = {name: fenced(value) for name, value in text.items()}
        named = {} if agent is None else {"agent": agent}
        return self.templates.render(template, **quoted, **named) if all(quoted.values()) else ""

    def brief(self, text: str, situation: Situation) -> str:
        quoted = fenced(text)
        return self.templates.render("brief", brief=quoted, said_by=situation.brief_by) if quoted else ""

    def contributed(self, contribution: Contribution) -> str:
        quoted = fenced(contribution.text)
        return self.templates.render("contributed", plugin=one_line(contribution.plugin, _MAX_NAME), text=quoted) if quoted else ""

    def need(self, situation: Situation, *, previous: bool) -> str:
        """The need as it stands; once it is fulfilled, as the previous one where that is told."""
        if situation.need_status == "set":
            return self._need(situation.need, situation.need_label)
        fulfilled = situation.need if situation.need_status == "fulfilled" else situation.previous_need
        return self._need(fulfilled, "previous") if previous else ""

    def _need(self, text: str | None, label: str) -> str:
        quoted = fenced(text or "")
        return self.templates.render("need", need=quoted, label=label) if quoted else ""
