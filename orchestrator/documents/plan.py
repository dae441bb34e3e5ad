"""The plan document: what the next turn would be and would send (page 6)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.documents.need import need_fields
from orchestrator.documents.turn import reasons
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall
from orchestrator.planning.case import Expiry
from orchestrator.planning.plan import Plan

if TYPE_CHECKING:
    from orchestrator.documents.kinds.plans import LeftOutTurn, MessageObject, NeedFields, PartObject, PlanDocument


def plan_document(plan: Plan, *, expiry: Expiry, now: datetime) -> PlanDocument:
    """The plan as `plan --json` prints it. Opens and sends nothing: `delivery` is what the provider would send."""
    parts = plan.budget.parts
    return {
        "format": "escalera.plan/1",
        "session": plan.standing.session.id,
        "turn": plan.index,
        "role": plan.route.role,
        "agent": plan.agent.name,
        "provider": plan.agent.kind,
        "mode": plan.mode,
        "reasons": reasons(plan.reasons),
        "routing": reasons(plan.route.reasons),
        "state": plan.standing.session.state,
        "need": _need(plan, expiry, now),
        "system": [{"name": block.name, "chars": len(block.text), "text": block.text} for block in plan.texts.blocks],
        "history": {
            "scope": plan.scope.name,
            "sent": list(plan.fitted.sent),
            "shortened": list(plan.fitted.shortened),
            "dropped": _dropped(plan),
            "messages": [_message(message) for message in plan.request.messages],
        },
        "percepts": {
            "sent": [percept.id for percept in plan.texts.told],
            "withheld": [{"id": percept, "why": why} for percept, why in (*plan.chosen.withheld, *_already_told(plan))],
        },
        "budget": {
            "limit_chars": plan.budget.limit_chars,
            "parts": {
                "system": parts["system"],
                "orientation": parts["orientation"],
                "percepts": parts["percepts"],
                "tools": parts["tools"],
                "prompt": parts["prompt"],
                "history": parts["history"],
            },
            "total_chars": plan.budget.total_chars,
            "tokens_estimate": plan.budget.tokens_estimate,
            "chars_per_token": round(plan.budget.ratio.chars_per_token, 2),
            "chars_per_token_measured": plan.budget.ratio.measured,
            "tokens_counted_by": plan.budget.counted_by,
        },
        "tools": [tool.name for tool in plan.request.tools],
        "notices": list(plan.notices),
        "delivery": dict(plan.agent.provider.preview(plan.request)),
    }


def _dropped(plan: Plan) -> list[LeftOutTurn]:
    """The turns that are not sent, and those that are without their oldest tool batches, in order."""
    whole: list[LeftOutTurn] = [{"turn": turn, "why": why} for turn, why in plan.fitted.dropped]
    cut: list[LeftOutTurn] = [{"turn": turn, "why": "budget", "batches": count} for turn, count in plan.fitted.cut]
    return sorted(whole + cut, key=lambda left: left["turn"])


def _already_told(plan: Plan) -> list[tuple[str, str]]:
    """The chosen percepts that the agent's own conversation has been told before."""
    told = {percept.id for percept in plan.texts.told}
    return [(percept.id, "already told") for percept in plan.chosen.sent if percept.id not in told]


def _need(plan: Plan, expiry: Expiry, now: datetime) -> NeedFields:
    shown = plan.need or plan.standing.shown_need
    status = "set" if plan.need is not None else plan.standing.need_status
    return need_fields(shown, status, pending=plan.index, expiry_hours=expiry.need_hours, now=now)


def _message(message: Message) -> MessageObject:
    """A message by role and parts, in the form that belongs to no provider."""
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: Part) -> PartObject:
    """A part under the names of page 6's steps."""
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text, model):
            return {"type": "reasoning", "text": text, "model": model}
        case ToolCall(call, name, arguments):
            return {"type": "tool_call", "id": call, "name": name, "arguments": dict(arguments)}
    return {"type": "tool_result", "id": part.id, "content": part.content, "is_error": part.is_error}
