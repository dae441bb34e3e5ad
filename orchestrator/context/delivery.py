"""How the texts reach an agent: its system messages, or the system text and context block of a conversation it keeps itself (page 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.percepts import Percept
from orchestrator.providers import SystemBlock
from orchestrator.templates import Templates


def system_blocks(static: Sequence[SystemBlock], *, orientation: str, percepts: str) -> tuple[SystemBlock, ...]:
    """Every system text by name, in the order it is sent, as a plan lists it; blank ones left out."""
    return _filled(*static, SystemBlock("orientation", orientation), SystemBlock("percepts", percepts))


def system_messages(static: Sequence[SystemBlock], *, orientation: str, percepts: str) -> tuple[SystemBlock, ...]:
    """The system messages of an agent without a conversation of its own: `static`, `orientation`, `percepts`; blank ones are not sent.

    The first is the same bytes in every turn, so that its cached prefix holds.
    """
    return _filled(SystemBlock("static", _joined(static)), SystemBlock("orientation", orientation), SystemBlock("percepts", percepts))


def system_text(templates: Templates, static: Sequence[SystemBlock], *, orientation: str, percepts: str) -> str:
    """The system prompt of a conversation that the agent keeps: made in its first turn, then sent with the same bytes for its whole life."""
    return templates.render("system_text", static=_joined(static), orientation=orientation, percepts=percepts)


def context_block(templates: Templates, *, orientation: str = "", percepts: str = "", tool_percepts: str = "") -> str:
    """What is new in this turn, to stand in front of the prompt between two fixed lines; never blank."""
    return templates.render("context_block", orientation=orientation, percepts=percepts, tool_percepts=tool_percepts)


def delivered_marks(
    before: Mapping[str, Any], *, primary_activity: str, prior_escalation: str, percepts: Iterable[str], contributed: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What an external session has been told once this turn succeeded: a mark of each digest as it now stands, and all ids of percepts. JSON-safe.

    `contributed` are the plugins' texts that are told, by plugin; what others told before stays told.
    """
    told = {**_contributed(before), **{plugin: mark_of(text) for plugin, text in (contributed or {}).items()}}
    return {
        "primary_activity": mark_of(primary_activity),
        "prior_escalation": mark_of(prior_escalation),
        "percepts": sorted(_delivered_ids(before) | set(percepts)),
        **({"contributed": told} if told else {}),
        **({"stated": sorted(stated)} if (stated := stated_marks(before)) else {}),
    }


def with_stated(delivered: Mapping[str, Any], statements: Iterable[str]) -> dict[str, Any]:
    """The marks with what the agent itself stated in its conversation, which it is not told again there."""
    stated = stated_marks(delivered) | set(statements)
    return {**delivered, **({"stated": sorted(stated)} if stated else {})}


def stated_marks(delivered: Mapping[str, Any]) -> set[str]:
    """The statements that the agent made itself in this conversation, by their marks."""
    return _texts_in(delivered.get("stated"))


def is_new(name: str, text: str, delivered: Mapping[str, Any]) -> bool:
    """Whether the digest `name` says something, and something else than when it was last delivered."""
    return bool(text) and delivered.get(name) != mark_of(text)


def is_new_contribution(plugin: str, text: str, delivered: Mapping[str, Any]) -> bool:
    """Whether it is another text than this plugin's last one that was delivered."""
    return _contributed(delivered).get(plugin) != mark_of(text)


def new_percepts(percepts: Sequence[Percept], delivered: Mapping[str, Any]) -> tuple[Percept, ...]:
    """The percepts that this external session was not told yet."""
    told = _delivered_ids(delivered)
    return tuple(percept for percept in percepts if percept.id not in told)


def mark_of(text: str) -> str:
    """A short mark that differs where the text does."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _filled(*blocks: SystemBlock) -> tuple[SystemBlock, ...]:
    return tuple(block for block in blocks if block.text.strip())


def _joined(blocks: Sequence[SystemBlock]) -> str:
    return "\n\n".join(block.text for block in _filled(*blocks))


def _delivered_ids(delivered: Mapping[str, Any]) -> set[str]:
    """An imported document may hold anything under `delivered`; what is no list of texts counts as nothing told."""
    return _texts_in(delivered.get("percepts"))


def _texts_in(value: object) -> set[str]:
    return {text for text in value if isinstance(text, str)} if isinstance(value, list | tuple) else set()


def _contributed(delivered: Mapping[str, Any]) -> dict[str, str]:
    """Marks by plugin; of an imported document, whatever is one."""
    marks = delivered.get("contributed")
    return {name: mark for name, mark in marks.items() if isinstance(name, str) and isinstance(mark, str)} if isinstance(marks, Mapping) else {}
