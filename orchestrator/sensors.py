"""The built-in sensors of the routing: what in a prompt speaks for the escalation agent, by lists and weights that the user sets (page 2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.hookspecs import Sensing, Signal, hookimpl

_MOST_NAMED = 5
_LONGEST_PATH = 300

_CODE = re.compile(r"```|~~~|`[^`\s][^`\n]{0,200}`")
_SENTENCE_END = re.compile(r"""((?<![.!?])[.!?]++[)\]"'`*_»”]*+(?!\S)|[\uff1f\u3002\n])""")
"""A mark inside a word, as in a.py, ends none."""
_PATH = re.compile(
    r"(?:~|\.\.?)?/\w\S*"  # /etc/hosts, ./run, ../lib, ~/notes
    r"|[A-Za-z]:[\\/]\S+"
    r"|[\w.@+-]+(?:[/\\][\w.@+-]+)*[/\\][\w@+-][\w.@+-]*\.\w{1,8}"  # src/parser.py
)


@hookimpl
def escalera_routing_signals(prompt: str, sensing: Sensing) -> Sequence[Signal]:
    """Each sensor that has a weight and an opinion."""
    opinions = ((name, sensing.weights.get(name, 0.0), sense) for name, sense in SENSORS.items())
    return [Signal(name, weight, seen) for name, weight, sense in opinions if weight and (seen := sense(prompt, sensing)) is not None]


def _long_prompt(prompt: str, sensing: Sensing) -> str | None:
    least = sensing.long_prompt_chars
    return f"{len(prompt):,} characters" if 0 < least <= len(prompt) else None


def _keywords(prompt: str, sensing: Sensing) -> str | None:
    return _listed(_whole_words(sensing.keywords, prompt))


def _verbs(prompt: str, sensing: Sensing) -> str | None:
    return _listed(_whole_words(sensing.verbs, prompt))


def _code(prompt: str, _sensing: Sensing) -> str | None:
    return "code between backticks or in a fence" if _CODE.search(prompt) else None


def _paths(prompt: str, _sensing: Sensing) -> str | None:
    count = sum(1 for token in prompt.split() if _is_path(token))
    return None if not count else "a path" if count == 1 else f"{count} paths"


def _open_questions(prompt: str, sensing: Sensing) -> str | None:
    if not sensing.question_words:
        return None
    pieces = _SENTENCE_END.split(prompt)
    questions = [sentence for sentence, end in zip(pieces[::2], pieces[1::2], strict=False) if "?" in end or "\uff1f" in end]
    return _listed(_whole_words(sensing.question_words, "\n".join(questions)))


SENSORS: Mapping[str, Callable[[str, Sensing], str | None]] = {
    "long_prompt": _long_prompt,
    "keywords": _keywords,
    "verbs": _verbs,
    "code": _code,
    "paths": _paths,
    "open_questions": _open_questions,
}
"""By the name of their signal: each says what it saw, in words of ours or of the settings, or has no opinion (`None`)."""


def _is_path(token: str) -> bool:
    token = token.strip("\"'`()[]{}<>,;:!?").rstrip(".")
    return len(token) <= _LONGEST_PATH and "://" not in token and _PATH.fullmatch(token) is not None


def _whole_words(words: Iterable[str], text: str) -> list[str]:
    """Those of the words, or of several words in a row, that stand in the text as they are, in upper or lower case."""
    wanted = {" ".join(_folded(word).split()): word for word in words if word.strip()}
    if not wanted:
        return []
    either = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(wanted, key=len, reverse=True))
    found = re.findall(rf"(?<!\w)(?:{either})(?!\w)", _folded(text))
    return [wanted[word] for word in dict.fromkeys(" ".join(word.split()) for word in found) if word in wanted]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _listed(found: Sequence[str]) -> str | None:
    if not found:
        return None
    return ", ".join(found[:_MOST_NAMED]) + (f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else "")
