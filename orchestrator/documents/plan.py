"""The plan document: what the next turn would be and would send (page 6)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from orchestrator.documents.turn import reasons
from orchestrator.lifetimes import idle_deadline, lifetime_fields
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall
from orchestrator.planning import Expiry, Plan
from orchestrator.session import need_label


def plan_document(plan: Plan, *, expiry: Expiry, now: datetime) -> dict[str, Any]:
    """The plan as `plan --json` prints it. Opens and sends nothing: `delivery` is what the provider would send."""
    return {
        "format": "escalera.plan/1",
        "session": plan.standing.session.id,
        "turn": plan.index,
        "role": plan.route.role.value,
        "agent": plan.agent.name,
        "provider": plan.agent.kind,
        "mode": None if plan.mode is None else plan.mode.value,
        "reasons": reasons(plan.reasons),
        "routing": reasons(plan.route.reasons),
        "state": plan.standing.session.state.value,
        "need": need_object(plan, expiry=expiry, now=now),
        "system": [{"name": block.name, "chars": len(block.text), "text": block.text} for block in plan.texts.blocks],
        "history": {
            "scope": plan.scope.name,
            "sent": list(plan.fitted.sent),
            "shortened": list(plan.fitted.shortened),
            "dropped": [{"turn": turn, "why": why} for turn, why in plan.fitted.dropped],
            "messages": [message_object(message) for message in plan.request.messages],
        },
        "percepts": {
            "sent": [percept.id for percept in plan.chosen.sent],
            "withheld": [{"id": percept, "why": why} for percept, why in plan.chosen.withheld],
        },
        "budget": {
            "limit_chars": plan.budget.limit_chars,
            "parts": dict(plan.budget.parts),
            "total_chars": plan.budget.total_chars,
            "tokens_estimate": plan.budget.tokens_estimate,
        },
        "notices": list(plan.notices),
        "delivery": dict(plan.agent.provider.preview(plan.request)),
    }


def need_object(plan: Plan, *, expiry: Expiry, now: datetime) -> dict[str, Any]:
    """The need with its status; the text of one that was cleared is kept (page 6)."""
    shown = plan.need or plan.standing.shown_need
    status = "set" if plan.need is not None else plan.standing.need_status
    fields: dict[str, Any] = {"text": None if shown is None else shown.text, "status": status, "label": None}
    if shown is None:
        return fields | lifetime_fields(None, None, now)
    if status == "set":
        fields["label"] = need_label(shown, plan.index)
    fields |= {"turn_index": shown.turn_index, "source": shown.source}
    return fields | lifetime_fields(idle_deadline(shown.updated_at, expiry.need_hours), shown.updated_at, now)


def message_object(message: Message) -> dict[str, Any]:
    """A message by role and parts, in the form that belongs to no provider."""
    return {"role": message.role, "parts": [part_object(part) for part in message.parts]}


def part_object(part: Part) -> dict[str, Any]:
    """A part under the names of page 6's steps."""
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text, model):
            return {"type": "reasoning", "text": text, "model": model}
        case ToolCall(call, name, arguments):
            return {"type": "tool_call", "id": call, "name": name, "arguments": dict(arguments)}
    return {"type": "tool_result", "id": part.id, "content": part.content, "is_error": part.is_error}
