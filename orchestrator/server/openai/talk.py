"""What a client's list of messages says: who it is told to be, what was said before, and what is said now."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.messages import well_formed
from orchestrator.server.problems import Refused

_SPACE = re.compile(r"\s+")
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "summary_text": "text"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message of the user's and what was answered to it."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Talk:
    """A request, whichever of the two ways it was put in. Either there is a prompt, or there are results of tools."""

    system: str
    before: tuple[Exchange, ...]
    prompt: str
    results: Mapping[str, str] = field(default_factory=dict)
    """What the client's tools gave, by the ids of the calls, where nothing else was said since."""

    @property
    def digest(self) -> str:
        """The same for the same exchanges before, however they are spaced."""
        return digest_of(self.before)


def digest_of(exchanges: Iterable[Exchange]) -> str:
    said = hashlib.sha256()
    for exchange in exchanges:
        for text in (exchange.prompt, exchange.answer):
            said.update(hashlib.sha256(_SPACE.sub("", text).encode("utf-8", "surrogatepass")).digest())
    return said.hexdigest()


class Reader:
    """Takes in messages in their order."""

    def __init__(self, system: str = "") -> None:
        self._system = [system] if system.strip() else []
        self._before: list[Exchange] = []
        self._prompts: list[str] = []
        self._answers: list[str] = []
        self._answered = False
        self._results: dict[str, str] = {}

    def system(self, text: str) -> None:
        self._system.append(text)

    def user(self, text: str) -> None:
        if self._answered:
            self._close()
        self._prompts.append(text)
        self._results = {}

    def assistant(self, text: str) -> None:
        """What was answered, or a part of it; tools may come between."""
        self._answers.append(text)
        self._answered = True
        self._results = {}

    def result(self, call: str, text: str) -> None:
        """What a tool of the client's gave."""
        self._answered = True
        self._results[call] = text

    def talk(self) -> Talk:
        """Raises `Refused` where nothing is said that could be answered."""
        system = "\n\n".join(text for text in map(well_formed, self._system) if text.strip())
        prompt = "\n\n".join(self._prompts)
        if self._results:
            return Talk(system, tuple(self._before), prompt, self._results)
        if self._answered or not prompt.strip():
            raise Refused(400, "the last message has to be the user's, with a text, or the result of a tool")
        return Talk(system, tuple(self._before), prompt)

    def _close(self) -> None:
        self._before.append(Exchange("\n\n".join(self._prompts), "\n\n".join(text for text in self._answers if text)))
        self._prompts, self._answers, self._answered = [], [], False


def text_of(content: Any, where: str) -> str:  # a stranger's JSON
    """The text of a message's content. Raises `Refused` for content that is no text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return well_formed(content)
    if not isinstance(content, list):
        raise Refused(400, f"{where}: the content has to be a text, or a list of texts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get(_TEXTS[kind]) if isinstance(kind, str) and kind in _TEXTS else None
        if not isinstance(text, str):
            shown = kind[:40] if isinstance(kind, str) else "something else"
            raise Refused(400, f"{where}: only texts can be sent to the orchestrator, not {shown}")
        texts.append(well_formed(text))
    return "\n".join(texts)
