"""Going on after a question: what humans answered when its turn had ended, as the message of another turn (page 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.asking import Asking, left_open
from orchestrator.broker import Broker
from orchestrator.errors import AnswerAwaited, NotFound
from orchestrator.questions import StoredQuestion
from orchestrator.quoting import fenced

if TYPE_CHECKING:
    from orchestrator.planning.case import Wish
    from orchestrator.templates import Templates


def due_questions(broker: Broker, session: str, asking: Asking | None = None) -> Sequence[StoredQuestion]:
    """Those whose end the agent that asked last does not know, oldest first; `asking` puts or waits for those that are still open.

    Raises `AnswerAwaited` where one is open and nobody is there, `NotFound` where there is nothing to go on with.
    """
    found = broker.untold(session)
    if asking is not None:
        for stored in found:
            if stored.is_pending and stored.question.durable:
                asking.take_up(stored)
        found = broker.untold(session)
    due = [stored for stored in found if not stored.is_pending]
    if due:
        return [stored for stored in due if stored.question.agent == due[-1].question.agent]
    waiting = next((stored for stored in found if stored.is_pending), None)
    if waiting is not None:
        raise AnswerAwaited(left_open(waiting))
    raise NotFound(f"no question of session {session[:8]} has an answer that its agent does not know", hint="`escalera questions list --all` has them all")


def with_answers(wish: Wish, due: Sequence[StoredQuestion], templates: Templates) -> Wish:
    """The turn that tells them, to the agent that asked unless another was chosen, with what the user says besides behind it."""
    parts = [_told(stored, templates) for stored in due]
    chosen = wish.choice.role is not None or wish.choice.agent is not None
    choice = wish.choice if chosen else replace(wish.choice, agent=due[-1].question.agent)
    return replace(wish, prompt="\n\n".join([*parts, *([wish.prompt] if wish.prompt else [])]), choice=choice)


def offer(broker: Broker, session: str) -> str | None:
    """What to say where an answer waits for its agent; `None` where none does."""
    due = [stored for stored in broker.untold(session) if _was_said(stored)]
    if not due:
        return None
    one = f"your answer to question {due[0].id[:8]} has" if len(due) == 1 else f"your answers to {len(due)} questions have"
    return f"{one} not reached the agent that asked: `escalera ask --continue` sends {'it' if len(due) == 1 else 'them'}"


def _was_said(stored: StoredQuestion) -> bool:
    return bool(stored.late) or (stored.given is not None and stored.given.answer.by == "human")


def _told(stored: StoredQuestion, templates: Templates) -> str:
    given = stored.late[-1] if stored.late else stored.given
    if given is None:  # still open
        return ""
    how = "late" if stored.late else "expiry" if given.answer.by == "expiry" else given.answer.action
    answer = _said(given.answer.content) if given.answer.action == "accept" else ""
    return templates.render("answered", how=how, question=fenced(stored.question.message), answer=answer)


def _said(content: Mapping[str, Any]) -> str:
    if not content:
        return fenced("yes")
    only = next(iter(content.values()))
    return fenced(only if len(content) == 1 and isinstance(only, str) else json.dumps(dict(content), ensure_ascii=False))
