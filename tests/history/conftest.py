"""What the history tests share: the invariants of a request, and histories in chat form as turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from orchestrator.history.profiles import PROFILES
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, well_formed
from orchestrator.providers import WireProfile
from orchestrator.session import Role, Turn

Violations = Callable[[Sequence[Message], WireProfile], list[str]]


def _violations(messages: Sequence[Message], profile: WireProfile) -> list[str]:
    """What a server of that format would refuse, written apart from the normaliser."""
    rules = PROFILES[profile]
    found: list[str] = []
    rest = [message for message in messages if message.role != "system"]
    if rest and rest[0].role != "user":
        found.append("B1 first message is not the user's")
    if profile in ("openai-strict", "anthropic", "bedrock"):
        found += ["B2 neighbours share a role" for one, two in pairwise(rest) if one.role == two.role]
        front = [message.role for message in messages[: len(messages) - len(rest)]]
        found += [] if set(front) <= {"system"} else ["B10 system message inside"]
        found += ["B10 several system messages"] if profile == "openai-strict" and len(front) > 1 else []
    found += [f"B3 blank part {part}" for message in messages for part in message.parts if _blank(part)]
    found += ["B3 empty message" for message in messages if not message.parts]
    found += _unpaired(rest, profile)
    ids = [part.id for message in messages for part in message.parts if isinstance(part, ToolCall)]
    found += ["B11 ids repeat"] if len(set(ids)) < len(ids) else []
    found += [f"B11 id {name!r}" for name in ids if not name.strip() or (rules.call_id and not rules.call_id.fullmatch(name))]
    found += [f"not UTF-8: {part}" for message in messages for part in message.parts for text in _texts(part) if well_formed(text) != text]
    if rest and rest[-1].role == "assistant" and isinstance(last := rest[-1].parts[-1], Text) and last.text != last.text.rstrip():
        found.append("trailing blank")
    return found


def _unpaired(messages: Sequence[Message], profile: WireProfile) -> list[str]:
    found = []
    for position, message in enumerate(messages):
        calls = [part.id for part in message.parts if isinstance(part, ToolCall)]
        results = [part.id for part in message.parts if isinstance(part, ToolResult)]
        before = messages[position - 1].parts if position else ()
        after = messages[position + 1].parts if position + 1 < len(messages) else ()
        if calls and [part.id for part in after if isinstance(part, ToolResult)] != calls:
            found.append("B4 calls are not answered next, all together")
        if results and [part.id for part in before if isinstance(part, ToolCall)] != results:
            found.append("B5 result without its call")
        if results and any(isinstance(part, ToolResult) for part in message.parts[len(results) :]):
            found.append("B4 text before results")
        if results and profile in ("openai", "openai-strict") and len(results) != len(message.parts):
            found.append("text and results in one message")
        if profile == "openai-strict" and message.role == "user" and not results and position and any(isinstance(part, ToolResult) for part in before):
            found.append("user text right after results")
        if any(isinstance(part, ToolCall | Reasoning) for part in message.parts) and message.role != "assistant":
            found.append("call outside an assistant message")
        if results and message.role != "user":
            found.append("result outside a user message")
        if all(isinstance(part, Reasoning) for part in message.parts):
            found.append("nothing but reasoning")
        if profile in ("anthropic", "bedrock") and message.role == "assistant":
            ranks = [(Reasoning, Text, ToolCall).index(type(part)) for part in message.parts]
            found += [] if ranks == sorted(ranks) else ["parts out of order"]
    return found


def _blank(part: Part) -> bool:
    if isinstance(part, Text):
        return not part.text.strip()
    if isinstance(part, ToolCall):
        return not part.name.strip()
    return isinstance(part, ToolResult) and not part.content.strip()


def _texts(part: Part) -> list[str]:
    if isinstance(part, Text | Reasoning):
        return [part.text]
    if isinstance(part, ToolCall):
        return [part.id, part.name, json.dumps(part.arguments, ensure_ascii=False)]
    return [part.id, part.content]


@pytest.fixture(scope="session")
def violations() -> Violations:
    return _violations


@pytest.fixture(scope="session")
def trial() -> Callable[[str], Any]:
    """The data of a trial."""

    def load(name: str) -> Any:
        return json.loads((Path(__file__).parents[1] / "trials" / f"{name}.json").read_text(encoding="utf-8"))

    return load


def _content(value: Any) -> str:
    return value["repeat"] * value["times"] if isinstance(value, dict) else value or ""


def _parts(message: dict[str, Any]) -> tuple[Part, ...]:
    if message["role"] == "tool":
        return (ToolResult(message["tool_call_id"], _content(message["content"])),)
    calls = [ToolCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", ())]
    return (Text(_content(message["content"])), *calls)


@pytest.fixture(scope="session")
def as_messages() -> Callable[[list[dict[str, Any]]], tuple[Message, ...]]:
    """A history in chat form as messages."""

    def convert(history: list[dict[str, Any]]) -> tuple[Message, ...]:
        return tuple(Message("user" if entry["role"] == "tool" else entry["role"], _parts(entry)) for entry in history)

    return convert


@pytest.fixture(scope="session")
def as_turns() -> Callable[..., list[Turn]]:
    """A history in chat form as the turns it came from; system messages are no part of a turn."""

    def convert(history: list[dict[str, Any]], agent: str = "local") -> list[Turn]:
        turns: list[Turn] = []
        for entry in history:
            if entry["role"] == "user":
                turns.append(Turn(len(turns), Role.PRIMARY, agent, _content(entry["content"])))
            elif entry["role"] != "system":
                last = turns.pop() if turns else Turn(0, Role.PRIMARY, agent, None)
                steps = tuple(part for part in _parts(entry) if not (isinstance(part, Text) and not part.text))
                turns.append(Turn(last.index, last.role, agent, last.prompt, (*last.steps, *steps)))
        return turns

    return convert
