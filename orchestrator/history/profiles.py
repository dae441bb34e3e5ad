"""What each wire format accepts, as a table for the normaliser (page 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.providers import WireProfile


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in which formats differ; what all of them want is in the normaliser itself."""

    alternates: bool = False
    """User and assistant take turns: neighbours of one role are merged."""
    system: Literal["anywhere", "first", "merged"] = "anywhere"
    """Where system messages may stand: anywhere; in front, in order (there is a field for them); in front, as one."""
    call_id: re.Pattern[str] | None = None
    """What a tool-call id must match in full; without it any id that is not blank will do."""
    tool_name: re.Pattern[str] | None = None
    """What the name of a called tool must match in full."""
    separates_results: bool = False
    """A user message holds tool results or text, and an assistant message stands between the two."""
    signed_reasoning: bool = False
    """Reasoning without a signature is refused."""
    ordered: bool = False
    """An assistant message holds reasoning, then text, then tool calls."""


_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OPENAI = Rules()

PROFILES: Mapping[WireProfile, Rules] = {
    "none": _OPENAI,
    "openai": _OPENAI,
    # Chat templates of the Gemma and Mistral kind raise inside the server on anything else; the Mistral ones leave
    # tool messages out of their count, so a user text right after results would be two user messages to them.
    "openai-strict": Rules(alternates=True, system="merged", separates_results=True),
    "anthropic": Rules(alternates=True, system="first", call_id=re.compile(r"[a-zA-Z0-9_-]+"), tool_name=_TOOL_NAME, signed_reasoning=True, ordered=True),
    "bedrock": Rules(alternates=True, system="first", call_id=re.compile(r"[a-zA-Z0-9_.:-]{1,64}"), tool_name=_TOOL_NAME, signed_reasoning=True, ordered=True),
}

__all__ = ["PROFILES", "Rules"]
