"""The one accounting of page 3: what each part of a request weighs against the agent's budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.errors import BudgetExceeded
from orchestrator.history.ratio import ASSUMED, CHARS_PER_TOKEN, Ratio
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, compact_json, part_text
from orchestrator.providers import Request, ToolSchema
from orchestrator.settings.limits import Limits

PartName = Literal["system", "orientation", "percepts", "tools", "prompt", "history"]
PART_NAMES: tuple[PartName, ...] = ("system", "orientation", "percepts", "tools", "prompt", "history")

PART_OVERHEAD = 12
"""Characters for what stands around a part on the wire: about four tokens. Counted per part and not per message,
so that merging two messages never changes a sum."""
DEFAULT_BUDGET_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The accounting of one request, in code points, as `plan` shows it. `limit_chars` None is no limit."""

    limit_chars: int | None
    parts: Mapping[PartName, int]
    tokens_estimate: int
    ratio: Ratio = ASSUMED
    """What the limit and the estimate were reckoned with."""
    counted_by: str | None = None
    """The plugin that counted the tokens; `None` where they are our estimate."""

    @property
    def total_chars(self) -> int:
        """The sum of the parts."""
        return sum(self.parts.values())


def limit_chars(limits: Limits, window_tokens: int | None, ratio: Ratio = ASSUMED, *, new: str = "") -> int | None:
    """The agent's budget in characters, `None` for no limit: its own, its window's, the global one, 100,000 (page 3).

    `window_tokens` is what the provider knows of its model; the setting of that name goes before it. `new` is the text in the
    request that the ratio was not measured by.
    """
    if limits.message_budget_chars is not None:
        return limits.message_budget_chars or None
    window = limits.context_window_tokens if limits.context_window_tokens is not None else window_tokens
    if window is not None and window > 0:
        return _window_chars(window - min(limits.output_reserve_tokens, window // 4), ratio, new)
    if limits.global_message_budget_chars is not None:
        return limits.global_message_budget_chars or None
    return DEFAULT_BUDGET_CHARS


def _window_chars(tokens: int, ratio: Ratio, new: str) -> int:
    if not ratio.measured:
        return int(CHARS_PER_TOKEN * tokens)
    left = tokens - estimate_tokens(new)
    return int(len(new) + ratio.chars_per_token * left) if left > 0 else int(CHARS_PER_TOKEN * tokens)


def require_room(parts: Mapping[PartName, int], limit: int | None, agent: str) -> int | None:
    """What is left for the history beside the parts that are never dropped; `None` without a limit.

    Raises `BudgetExceeded`, which names each part and its size, when they alone are larger than the limit.
    """
    if limit is None:
        return None
    total = sum(parts.values())
    if total <= limit:
        return limit - total
    listed = ", ".join(f"{name} {size:,}" for name, size in parts.items())
    raise BudgetExceeded(
        f"nothing was sent to {agent!r}: what is never dropped takes {total:,} characters ({listed}), the budget is {limit:,}",
        parts={str(name): size for name, size in parts.items()},
        limit=limit,
        agent=agent,
        hint=f"shorten the largest of them, or raise agents.{agent}.limits.message_budget_chars (0 = no limit)",
    )


def measure(messages: Iterable[Message]) -> int:
    """The size of messages in code points, with the overhead of each part; exactly additive."""
    return sum([measure_part(part) for message in messages for part in message.parts])


def measure_part(part: Part) -> int:
    """The size of one part: what is sent of it, ids aside (the overhead covers them)."""
    if isinstance(part, Text):
        size = len(part.text)
    elif isinstance(part, ToolCall):
        size = len(part.name) + len(compact_json(part.arguments))
    elif isinstance(part, Reasoning):
        size = len(part.text) + len(part.signature or "")
    else:
        size = len(part.content)
    return size + PART_OVERHEAD + (len(compact_json(part.extra)) if part.extra else 0)


def measure_text(text: str) -> int:
    """The size of a text that is sent as a part of its own; a blank one is not sent."""
    return len(text) + PART_OVERHEAD if text.strip() else 0


def measure_tools(tools: Sequence[ToolSchema]) -> int:
    """The size of tool schemas."""
    return sum(len(tool.text) + PART_OVERHEAD for tool in tools)


def measure_request(request: Request) -> int:
    """The size of everything that one call sends: system texts or those of an own conversation, messages, tool schemas."""
    own = request.conversation
    texts = sum(measure_text(block.text) for block in request.system) + (0 if own is None else len(own.system_text) + len(own.context_block))
    return texts + measure(request.messages) + measure_tools(request.tools)


def corrected_tokens(estimate: int, ratio: Ratio, *, new: str) -> int:
    """The estimate of a request as its provider would count it. `new` is the text in it that the ratio was not measured by."""
    fresh = estimate_tokens(new)
    return estimate if ratio.factor == 1 else fresh + math.ceil(ratio.factor * max(0, estimate - fresh))


def estimate_request_tokens(request: Request) -> int:
    """Tokens of what `measure_request` counts."""
    texts = [block.text + " " * PART_OVERHEAD for block in request.system if block.text.strip()]
    if request.conversation is not None:
        texts += [request.conversation.system_text, request.conversation.context_block]
    texts += [tool.text + " " * PART_OVERHEAD for tool in request.tools]
    return sum(map(estimate_tokens, texts)) + estimate_message_tokens(request.messages)


def request_text(request: Request) -> str:
    """Everything that one call sends, as one text, for who counts its tokens himself."""
    own = [] if request.conversation is None else [request.conversation.system_text, request.conversation.context_block]
    tools = [f"{tool.name}\n{tool.description}\n{compact_json(tool.parameters)}" for tool in request.tools]
    messages = [part_text(part) for message in request.messages for part in message.parts]
    return "\n\n".join(text for text in (*(block.text for block in request.system), *own, *tools, *messages) if text)


def estimate_tokens(text: str) -> int:
    """Tokens of a text: three ASCII characters make one, and every other code point one per UTF-8 byte.

    A byte-level tokenizer never needs more than that for CJK or emoji.
    """
    if text.isascii():
        return math.ceil(len(text) / CHARS_PER_TOKEN)
    data = text.encode("utf-8", "surrogatepass")
    plain = len(data.decode("ascii", "ignore"))
    return math.ceil(plain / CHARS_PER_TOKEN + len(data) - plain)


def estimate_message_tokens(messages: Iterable[Message]) -> int:
    """Tokens of messages: what `measure` counts, the overhead included."""
    return sum(estimate_tokens(part_text(part) + " " * PART_OVERHEAD) for message in messages for part in message.parts)


__all__ = [
    "DEFAULT_BUDGET_CHARS",
    "PART_NAMES",
    "PART_OVERHEAD",
    "Budget",
    "PartName",
    "corrected_tokens",
    "estimate_message_tokens",
    "estimate_request_tokens",
    "estimate_tokens",
    "limit_chars",
    "measure",
    "measure_part",
    "measure_request",
    "measure_text",
    "measure_tools",
    "request_text",
    "require_room",
]
