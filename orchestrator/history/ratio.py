"""How many characters make a token for one agent: what its provider counted, against what was sent (page 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

from orchestrator.messages import Usage
from orchestrator.session import TOLD, Role, Turn, TurnLog

CHARS_PER_TOKEN = 3.0
"""Until something is measured."""
_LOOKED_AT, _AVERAGED = 16, 5
_BELIEVED = (0.5, 6.0)
"""Characters a token. What is reported outside of that counts something else: only what no cache held, or nothing at all."""
_CORRECTED = (0.5, 4.0)
"""How far the estimate of a request is trusted to be off: a session in English never halves what a prompt in Chinese is counted as."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Characters a token, and the factor that the estimate of a request is off by."""

    chars_per_token: float = CHARS_PER_TOKEN
    correction: float = 1.0
    measured: bool = False

    def corrected(self, estimate: int) -> int:
        """The estimate as the provider would count it."""
        return estimate if self.correction == 1 else math.ceil(estimate * self.correction)


ASSUMED = Ratio()


def ratio_of(log: TurnLog, *, role: Role, agent: str, model: str | None) -> Ratio:
    """The running ratio of the agent with this model, from its newest turns whose usage tells it; else three characters a token."""
    newest = islice(log.newest_first(role=role, outcomes=TOLD), _LOOKED_AT)
    own = (turn for turn in newest if turn.agent == agent and turn.model_requested == model)
    measured = list(islice(filter(None, map(_measured, own)), _AVERAGED))
    if not measured:
        return ASSUMED
    chars, estimate, tokens = (sum(figures) for figures in zip(*measured, strict=True))
    return Ratio(chars / tokens, min(max(tokens / estimate, _CORRECTED[0]), _CORRECTED[1]), measured=True)


def _measured(turn: Turn) -> tuple[int, int, int] | None:
    """Characters sent, tokens estimated and tokens counted; `None` where one is unknown or together they are not believed."""
    usage = turn.usage
    tokens = None if usage is None else read_tokens(usage)
    if usage is None or not usage.sent_chars or not usage.sent_tokens_estimate or not tokens:
        return None
    believed = _BELIEVED[0] <= usage.sent_chars / tokens <= _BELIEVED[1]
    return (usage.sent_chars, usage.sent_tokens_estimate, tokens) if believed else None


def read_tokens(usage: Usage) -> int | None:
    """All that the model read, from a cache or not."""
    if usage.input_tokens is None or usage.cache_in_input:
        return usage.input_tokens
    return usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
