"""Whether the user asks the same thing again (page 2): the same words in the same order, but for what is written around them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from orchestrator.session import TOLD, Turn, TurnLog

FEWEST_WORDS, FEWEST_LETTERS = 4, 10
"""What is shorter ("go on", "run the tests") is said again for good reasons."""
LONGEST = 20_000
"""Characters of a prompt that is compared; what is longer was not typed again by hand."""

_ALONE = r"\u3040-\u30ff\u3400-\u9fff"
"""Writing without blanks, each sign of which counts as a word."""
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")


def asked_before(prompt: str, log: TurnLog, among: int) -> Turn | None:
    """The newest of the last `among` turns whose prompt asks the same; `None` where none does. Turns that came to nothing do not count."""
    words = _words(prompt)
    if among <= 0 or len(words) < FEWEST_WORDS or sum(map(len, words)) < FEWEST_LETTERS:
        return None
    asked = ((turn, turn.prompt) for turn in log.newest_first(outcomes=TOLD) if turn.prompt is not None)
    return next((turn for turn, before in islice(asked, among) if is_same(words, _words(before))), None)


def is_same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one has the words of the other in their order, and at most one more ("still", "please"), or one for each five.

    A word in another's place is another matter, and so is another number.
    """
    short, long = sorted((one, other), key=len)
    if len(short) < FEWEST_WORDS or len(long) - len(short) > max(1, len(short) // 5) or _numbers(short) != _numbers(long):
        return False
    rest = iter(long)
    return all(word in rest for word in short)


def _words(text: str) -> list[str]:
    """Without case, marks and blanks."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold()) if len(text) <= LONGEST else []


def _numbers(words: Sequence[str]) -> Counter[str]:
    return Counter(word for word in words if any(sign.isdigit() for sign in word))
