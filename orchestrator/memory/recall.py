"""Which percepts have to do with a few words: for an agent that looks something up (page 4)."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from orchestrator.percepts import Percept

_UNSEPARATED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""Scripts that set no space between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_RUN = re.compile(rf"([{_UNSEPARATED}]+)|([^\W{_UNSEPARATED}]+)")


def relevance(query: str, percepts: Sequence[Percept]) -> dict[str, float]:
    """A score by id for each percept that shares a word with the query: the sum of its shared words, each the more the rarer it is."""
    wanted = terms(query)
    shared = {percept.id: wanted & terms(f"{percept.content} {percept.subject or ''}") for percept in percepts}
    frequency = Counter(term for found in shared.values() for term in found)
    rarity = {term: math.log(1 + len(percepts) / count) for term, count in frequency.items()}
    return {identity: sum(rarity[term] for term in found) for identity, found in shared.items() if found}


def terms(text: str) -> frozenset[str]:
    """Its words, case set aside; where a script sets no spaces, every pair of neighbouring characters."""
    found: set[str] = set()
    for run, word in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word:
            found.add(word)
        else:
            found.update({run} if len(run) == 1 else (run[start : start + 2] for start in range(len(run) - 1)))
    return frozenset(found)
