"""How many characters make a token for one agent: what its provider counted, against what was sent (page 3).

What was measured says nothing about text that came after it: that is reckoned as if nothing had been measured. So a talk in
English makes no long room for a page of digits, and one full of emoji leaves room for English.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from orchestrator.messages import Usage, part_text
from orchestrator.session import TOLD, Outcome, Role, Turn, TurnLog

CHARS_PER_TOKEN = 3.0
"""Until something is measured."""
_LOOKED_AT, _AVERAGED = 16, 5
_BELIEVED = (0.2, 6.0)
"""Characters a token. What is reported outside of that counts something else: only what no cache held, or nothing at all."""
_MOST_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """Characters a token in what was sent before, and by how much the estimate of it was off."""

    chars_per_token: float = CHARS_PER_TOKEN
    factor: float = 1.0
    """Tokens counted for each that was estimated; below 1 only where it is known of plain text."""
    measured: bool = False
    turn: int = -1
    """The newest turn that was measured: its own answer and all that followed were not."""


ASSUMED = Ratio()


def ratio_of(log: TurnLog, *, role: Role, agent: str, model: str | None) -> Ratio:
    """The running ratio of the agent with this model, from its newest turns whose usage tells it; else three characters a token.

    Nothing counts as measured where the newest turn did not fit in spite of it.
    """
    newest = islice(log.newest_first(role=role, outcomes=TOLD | {Outcome.FAILED}), _LOOKED_AT)
    own = [turn for turn in newest if turn.agent == agent and turn.model_requested == model]
    if not own or (own[0].error is not None and own[0].error.type == "ContextOverflow"):
        return ASSUMED
    measured = list(islice(((turn.index, figures) for turn in own if turn.outcome in TOLD and (figures := _measured(turn))), _AVERAGED))
    if not measured:
        return ASSUMED
    chars, estimate, tokens = (sum(figures) for figures in zip(*(figures for _, figures in measured), strict=True))
    factor = min(tokens / estimate, _MOST_FACTOR)
    return Ratio(chars / tokens, factor if factor > 1 or _is_plain(chars, estimate) else 1.0, measured=True, turn=measured[0][0])


def text_since(log: TurnLog, ratio: Ratio, *, most: int) -> str:
    """What was said since the newest measured turn was sent, its answer included, as far as `most` characters: new to the ratio."""
    if not ratio.measured:
        return ""
    texts: list[str] = []
    size = 0
    for turn in log.newest_first(outcomes=TOLD, start=ratio.turn):
        said = [part_text(step) for step in turn.steps]
        texts += said if turn.index == ratio.turn or turn.prompt is None else [turn.prompt, *said]
        size += sum(map(len, said)) + len(turn.prompt or "")
        if size >= most:
            break
    return "".join(texts)[:most]


def _measured(turn: Turn) -> tuple[int, int, int] | None:
    """Characters sent, tokens estimated and tokens counted; `None` where one is unknown or together they are not believed."""
    usage = turn.usage
    tokens = 0 if usage is None else (read_tokens(usage) or 0) - (usage.aside_tokens or 0)
    if usage is None or tokens <= 0 or not usage.sent_chars or not usage.sent_tokens_estimate:
        return None
    believed = _BELIEVED[0] <= usage.sent_chars / tokens <= _BELIEVED[1]
    return (usage.sent_chars, usage.sent_tokens_estimate, tokens) if believed else None


def _is_plain(chars: int, estimate: int) -> bool:
    """Whether next to all of it was ASCII: each other character is estimated at two tokens or more."""
    return estimate <= 1.05 * chars / CHARS_PER_TOKEN


def read_tokens(usage: Usage) -> int | None:
    """All that the model read, from a cache or not."""
    if usage.input_tokens is None or usage.cache_in_input:
        return usage.input_tokens
    return usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
