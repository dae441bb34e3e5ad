"""What Claude Code asks in the middle of a turn, as questions for the broker, and the replies."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from escalera_claude_cli.lines import Line
from orchestrator.messages import well_formed
from orchestrator.providers import Answer, Ask, Question

SHOWN = 20_000
"""Characters of a tool's input in a question. Cut late: what is not shown is approved unseen."""

REFUSALS = {
    "human": "The user said no to this.",
    "expiry": "Nobody answered in time. Nobody refused either: go on without this, and say in your answer what is left to do.",
    "nobody": "There is nobody who could be asked. Go on without this, and say in your answer what is left to do.",
    "asker": "The question was withdrawn before it was answered.",
}
"""What the agent is told, by who ended the question: a refusal, an expiry and an empty house are three different things."""

CANCELLED = "The user neither allowed nor refused this."


@dataclass(frozen=True, slots=True)
class Reply:
    """The line for the CLI (`None` when it no longer waits for one), and what the user should read about it."""

    message: Mapping[str, Any] | None
    notice: str | None = None


def answer_request(line: Line, ask: Ask, withdrawn: threading.Event) -> Reply:
    """Answer a `control_request` of the CLI, asking the user where it is a permission; what we never asked for is refused by name."""
    request = line.get("request")
    request = request if isinstance(request, dict) else {}
    if request.get("subtype") != "can_use_tool":
        return Reply(_response(line, {"subtype": "error", "error": f"{request.get('subtype')!r} is not supported here"}))
    tool, tool_input = str(request.get("tool_name")), request.get("input")
    tool_input = tool_input if isinstance(tool_input, dict) else {}
    verdict, notice = (
        _ask_entries(tool_input, ask, withdrawn) if _is_user_question(tool, tool_input) else _ask_permission(request, tool, tool_input, ask, withdrawn)
    )
    if withdrawn.is_set():
        return Reply(None, f"a question about {tool} was withdrawn by Claude Code")
    return Reply(_response(line, {"subtype": "success", "response": verdict}), notice)


def _ask_permission(
    request: Mapping[str, Any], tool: str, tool_input: dict[str, Any], ask: Ask, withdrawn: threading.Event
) -> tuple[dict[str, Any], str | None]:
    answer = ask(Question(message=_permission_text(request, tool, tool_input), mode="confirm", withdrawn=withdrawn))
    if answer.action == "accept":
        return _allow(tool_input), None
    # That nobody is there, whoever would have asked has told already, with the whole question.
    return _deny(answer), None if answer.by == "nobody" else f"permission denied: {tool} ({_why(answer)})"


def _permission_text(request: Mapping[str, Any], tool: str, tool_input: Mapping[str, Any]) -> str:
    """The tool and its whole input; as JSON, so that no control character reaches a terminal."""
    shown = json.dumps(tool_input, ensure_ascii=False)
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]} … ({len(shown) - SHOWN} more characters are not shown)"
    path = request.get("blocked_path")
    outside = f"\nbecause of {json.dumps(path, ensure_ascii=False)}" if isinstance(path, str) else ""
    return well_formed(f"Claude Code wants to use {tool}:\n{shown}{outside}")


def _is_user_question(tool: str, tool_input: Mapping[str, Any]) -> bool:
    return tool == "AskUserQuestion" and isinstance(tool_input.get("questions"), list) and bool(tool_input["questions"])


def _ask_entries(tool_input: dict[str, Any], ask: Ask, withdrawn: threading.Event) -> tuple[dict[str, Any], str | None]:
    """One question for each entry; the answers are keyed by the full text of the question."""
    answers: dict[str, str] = {}
    for entry in tool_input["questions"]:
        text = str(entry.get("question")) if isinstance(entry, dict) else str(entry)
        answer = ask(Question(message=well_formed(text), mode="form", schema=_schema(entry), withdrawn=withdrawn))
        if answer.action != "accept":
            return _deny(answer), None if answer.by == "nobody" else f"a question of Claude Code was not answered ({_why(answer)})"
        answers[text] = _chosen(answer)
    return _allow({**tool_input, "answers": answers}), None


def _schema(entry: object) -> dict[str, Any]:
    """One field, `answer`: a text, one of the options where there are some, or several of them."""
    entry = entry if isinstance(entry, dict) else {}
    options = [option for option in entry.get("options") or [] if isinstance(option, dict)]
    labels = [well_formed(str(option.get("label"))) for option in options]
    choice: dict[str, Any] = {"type": "string", **({"enum": labels} if labels else {})}
    told = "; ".join(f"{label}: {option['description']}" for label, option in zip(labels, options, strict=True) if option.get("description"))
    field = {"type": "array", "items": choice} if entry.get("multiSelect") else choice
    about = {key: well_formed(value) for key, value in (("title", str(entry.get("header") or "")), ("description", told)) if value}
    return {"type": "object", "properties": {"answer": {**field, **about}}, "required": ["answer"]}


def _chosen(answer: Answer) -> str:
    value = answer.content.get("answer", "")
    return ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)


def _allow(tool_input: Mapping[str, Any]) -> dict[str, Any]:
    """The input must come back with it, else the tool runs with none."""
    return {"behavior": "allow", "updatedInput": tool_input}


def _deny(answer: Answer) -> dict[str, Any]:
    if answer.action == "cancel" and answer.by not in ("expiry", "nobody", "asker"):
        return {"behavior": "deny", "message": CANCELLED}
    return {"behavior": "deny", "message": REFUSALS.get(answer.by, REFUSALS["human"])}


def _why(answer: Answer) -> str:
    return {"expiry": "nobody answered in time", "asker": "withdrawn"}.get(answer.by, f"{answer.action} by {answer.by}")


def _response(line: Line, response: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "control_response", "response": {**response, "request_id": line.get("request_id")}}
