"""Asking the primary's model, before it answers, whether a prompt is beyond it (page 2, step 5 of the routing): one bounded call."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from orchestrator.crew import Agent
from orchestrator.dispatch.desk import Answered, Desk
from orchestrator.dispatch.heard import Heard
from orchestrator.dispatch.turn import run_turn
from orchestrator.errors import Cancelled, EscaleraError
from orchestrator.history.ratio import read_tokens
from orchestrator.messages import Message, Text, Usage
from orchestrator.providers import Answer, Request, SystemBlock, Timeouts
from orchestrator.quoting import clipped, fenced, one_line
from orchestrator.routing import Verdict
from orchestrator.session import Role, answer_of
from orchestrator.templates import Templates

PROMPT_CHARS = 4000
"""What it is shown of the prompt: head and tail."""
OUTPUT_TOKENS = 256
"""A word and a reason, and some room for a model that reasons first."""

_KEEP, _ESCALATE = "keep", "escalate"


@dataclass(frozen=True, slots=True)
class Classified:
    """What came of the call; no verdict is no opinion."""

    verdict: Verdict | None
    usage: Usage | None
    """What it took, also where it came to nothing. It tells nothing of how many characters make a token: it was not asked what the turn asks."""
    notice: str | None = None
    """Why there is no verdict."""


def classify(agent: Agent, prompt: str, *, templates: Templates, timeout: float, nonce: str, session: str, workspace: str, desk: Desk) -> Classified:
    """Ask once, within `timeout` seconds; the agent gets no tools, and what it says is shown to nobody. Raises `Cancelled`."""
    limits = replace(agent.limits, retry_attempts=0, max_tool_iterations=0, turn_timeout=timeout)
    request = Request(
        agent=agent.name,
        system=(SystemBlock("static", templates.render("classifier")),),
        messages=(Message("user", (Text(fenced(clipped(prompt, PROMPT_CHARS))),)),),
        workspace=workspace,
        session=session,
        max_output_tokens=OUTPUT_TOKENS,
        timeouts=Timeouts(limits.first_byte_timeout, limits.idle_timeout, timeout),
    )
    answered = Answered()
    aside = replace(desk, ask=lambda _: Answer("decline", by="nobody"), watch=lambda _: None, record=lambda _: None)
    try:
        run_turn(agent.provider, request, limits=limits, role=Role.PRIMARY, nonce=nonce, heard=Heard(), answered=answered, desk=aside)
    except Cancelled:
        raise
    except EscaleraError as error:
        return Classified(None, _aside(answered.usage), f"{agent.name!r} could not say whether this is beyond it, and takes the turn: {error.message}")
    said = answer_of(answered.steps)
    verdict = _verdict(said)
    if verdict is None:
        what = one_line(said, 80) or "nothing"
        return Classified(None, _aside(answered.usage), f"{agent.name!r} was asked whether this is beyond it and said neither KEEP nor ESCALATE, but: {what}")
    return Classified(verdict, _aside(answered.usage))


def _aside(usage: Usage | None) -> Usage | None:
    return None if usage is None else replace(usage, sent_chars=None, sent_tokens_estimate=None, aside_tokens=read_tokens(usage))


def _verdict(said: str) -> Verdict | None:
    """By the one of the two words that occurs; both, or none, is no opinion."""
    found = {word.casefold() for word in re.findall(rf"\b(?:{_KEEP}|{_ESCALATE})\b", said, re.IGNORECASE)}
    if len(found) != 1:
        return None
    (word,) = found
    _, _, why = re.split(rf"\b({word})\b", said, maxsplit=1, flags=re.IGNORECASE)
    return Verdict(word == _ESCALATE, one_line(why.strip(" \n\t*:.,-–—"), 120))
