"""What a turn says to a client of a model: texts, calls of the client's tools, and the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from orchestrator.errors import EscaleraError, InternalError
from orchestrator.server.client_tools import ClientCall
from orchestrator.server.openai.talk import Exchange
from orchestrator.server.runs import AWAITED, Run

if TYPE_CHECKING:
    from orchestrator.documents.kinds.stream import TurnEvent
    from orchestrator.documents.kinds.turns import TurnDocument, UsageObject

WITHDRAWN = "\n\n[What stands above is withdrawn: the answer is asked for again.]\n\n"
"""What has been streamed to such a client cannot be taken back."""
_BETWEEN = "\n\n"


@dataclass(slots=True)
class Opening:
    """How a run was asked for, and what its client has been told of it so far."""

    before: tuple[Exchange, ...]
    prompt: str
    named: bool = False
    """Whether it named its session; else what it repeats is all that tells which one it means."""
    told: str = ""
    seen: int = 0
    """Events that have been told."""


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of text."""

    kind: Literal["text", "reasoning"]
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The turn waits for the client to run these."""

    calls: Sequence[ClientCall]


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over. `answer` is that of its last agent, since the client was last told something."""

    document: TurnDocument | TurnEvent
    answer: str


Spoken = Said | Called | Ended


async def spoken(run: Run, opening: Opening) -> AsyncIterator[Spoken]:
    """From where the client was last told something; ends with `Called` or `Ended`. Raises the error of a turn that has no answer."""
    answer: list[str] = []
    firm = 0
    """How many pieces of the answer belong to finished messages."""
    async for number, line in run.follow(opening.seen):
        opening.seen = number
        if line == AWAITED:
            yield Called(() if run.tools is None else run.tools.unanswered())
            return
        match line["type"]:
            case "turn_started":
                if answer:
                    yield Said("text", _BETWEEN)
                answer, firm = [], 0
            case "text":
                answer.append(line["text"])
                yield Said("text", line["text"])
            case "reasoning":
                yield Said("reasoning", line["text"])
            case "tool_call" | "tool_result":
                if answer and answer[-1] != _BETWEEN:
                    answer.append(_BETWEEN)
                    yield Said("text", _BETWEEN)
                firm = len(answer)
            case "withdrawn":
                if len(answer) > firm:
                    yield Said("text", WITHDRAWN)
                answer = answer[:firm]
            case "turn":
                yield Ended(line, "".join(answer).strip() or (line["answer"] or ""))
                return
    raise run.error or InternalError("the turn has no end")


def failure_of(run: Run, document: TurnDocument | TurnEvent) -> EscaleraError | None:
    """Why the turn has no answer; `None` where it has one, even if it could not be stored."""
    return None if document["answer"] else run.failure


def beginning(run: Run) -> dict[str, str]:
    """The headers that say who has the turn, in which mode and why; nothing of a turn that was not opened."""
    started = run.started
    if started is None:
        return {"escalera-session": quote(run.session, safe="")}
    return {
        "escalera-session": quote(run.session, safe=""),
        "escalera-turn": str(started["turn"]),
        "escalera-agent": quote(started["agent"], safe=""),
        "escalera-role": started["role"],
        **({} if started["mode"] is None else {"escalera-mode": started["mode"]}),
        "escalera-reasons": ", ".join(quote(reason["rule"], safe="") for reason in started["reasons"]),
    }


def told_of(document: TurnDocument | TurnEvent) -> dict[str, Any]:
    """What else there is to know of a turn, for clients that look for it."""
    keys = ("session", "turn", "role", "agent", "mode", "reasons", "routing", "state", "notices", "escalated_from", "open_questions", "model_served")
    return {key: document[key] for key in keys}  # type: ignore[literal-required]  # keys of the turn document, all of them


def input_tokens(usage: UsageObject) -> int:
    """All that was sent, with what came from a cache and went into one."""
    cached = 0 if usage["cache_in_input"] else (usage["cache_read_tokens"] or 0) + (usage["cache_write_tokens"] or 0)
    return (usage["input_tokens"] or 0) + cached
