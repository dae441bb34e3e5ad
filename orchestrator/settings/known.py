"""Secrets that are known by their text, for keeping them out of what is written down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, unquote

from orchestrator.settings.hiding import USER, hidden, mask_assigned
from orchestrator.settings.secrets import MASK, SecretRef

SHORTEST = 6
"""Characters. A shorter one is a stand-in for a server that wants none, and stands in many a word."""

_STAND_INS = frozenset({"ollama", "lm-studio", "lmstudio", "llama.cpp", "openai", "not-needed", "unused"})
"""What is commonly given to a server that wants no key: words of messages."""


class KnownSecrets:
    """Grows as secrets come to be known; texts and bytes without them."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._forms: list[bytes] = []
        self.longest = 0
        """Bytes of the longest form that one has."""

    def add(self, secrets: Iterable[str]) -> None:
        new = {secret for secret in secrets if len(secret) >= SHORTEST} - self._texts - _STAND_INS
        if new:
            self._texts |= new
            self._forms = sorted({form for secret in self._texts for form in _forms(secret)}, key=len, reverse=True)
            self.longest = len(self._forms[0])

    def mask(self, text: str) -> str:
        """The text with `***` for each of them, and for what an environment has under a name of secrets (`OPENAI_API_KEY=…`)."""
        content = text.encode("utf-8", "surrogatepass")
        masked = self.mask_bytes(content)
        return text if masked == content else masked.decode("utf-8", "surrogatepass")

    def mask_bytes(self, content: bytes) -> bytes:
        for form in self._forms:  # a search each is many times faster than one for all of them
            content = content.replace(form, MASK.encode())
        return mask_assigned(content)


def _forms(secret: str) -> Iterator[bytes]:
    """As it is, and as it stands in JSON and in a URL."""
    for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret.encode("utf-8", "surrogatepass"), safe="")):
        yield form.encode("utf-8", "surrogatepass")


def written_secrets(name: str, value: object) -> Iterator[str]:
    """The secrets that are written out in a value, wherever `masked` would put `***`: under names, in URLs, in command lines, in JSON."""
    found: list[tuple[str, str]] = []

    def collect(name: str, text: str) -> str:
        found.append((name, text))
        return MASK

    hidden(name, value, collect)
    for under, text in found:
        yield from _parts(text.partition(":")[2] or text if under == USER else text)


def _parts(text: str) -> Iterator[str]:
    """A secret, also as it stands in a URL, and that of a header without its scheme."""
    words = text.split()
    yield from dict.fromkeys((text, unquote(text), *(words[1:] if len(words) == 2 else ())))


def resolved_secrets(value: object, resolved: object) -> Iterator[str]:
    """The secrets that a value refers to, from the same value with all of them resolved."""
    if isinstance(value, SecretRef) and isinstance(resolved, str):
        yield from _parts(resolved)
    elif isinstance(value, Mapping) and isinstance(resolved, Mapping):
        for key, item in value.items():
            yield from resolved_secrets(item, resolved.get(key))
    elif isinstance(value, list) and isinstance(resolved, list):
        for item, other in zip(value, resolved, strict=False):
            yield from resolved_secrets(item, other)
