"""Secrets that are known by their text, for keeping them out of what is written down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import quote

from orchestrator.settings.secrets import MASK, Secret, SecretRef, is_secret_name

SHORTEST = 6
"""Characters. A shorter one is a stand-in for a server that wants none, and stands in many a word."""

_IN_URL = re.compile(r"(?<=://)[^/@\s:]*:(?P<password>[^/@\s]+)@|[?&][^=&\s]*(?:key|token|secret|password|sig)[^=&\s]*=(?P<value>[^&\s#]+)", re.IGNORECASE)


class KnownSecrets:
    """Grows as secrets come to be known; texts and bytes without them."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._forms: list[bytes] = []
        self.longest = 0
        """Bytes of the longest form that one has."""

    def add(self, secrets: Iterable[str]) -> None:
        new = {secret for secret in secrets if len(secret) >= SHORTEST} - self._texts
        if new:
            self._texts |= new
            self._forms = sorted({form for secret in self._texts for form in _forms(secret)}, key=len, reverse=True)
            self.longest = len(self._forms[0])

    def mask(self, text: str) -> str:
        """The text with `***` for each of them."""
        if not self._forms:
            return text
        content = text.encode("utf-8", "surrogatepass")
        masked = self.mask_bytes(content)
        return text if masked == content else masked.decode("utf-8", "surrogatepass")

    def mask_bytes(self, content: bytes) -> bytes:
        for form in self._forms:  # a search each is many times faster than one for all of them
            content = content.replace(form, MASK.encode())
        return content


def _forms(secret: str) -> Iterator[bytes]:
    """As it is, and as it stands in JSON and in a URL."""
    for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret.encode("utf-8", "surrogatepass"), safe="")):
        yield form.encode("utf-8", "surrogatepass")


def written_secrets(name: str, value: object) -> Iterator[str]:
    """The secrets that are written out in a value, wherever `masked` would put `***`: under names, in URLs, in command lines, in JSON."""
    if isinstance(value, Secret):
        yield value.text
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from written_secrets("authorization" if name == "headers" and isinstance(item, str) else key, item)
    elif isinstance(value, list | tuple):
        for before, item in zip((None, *value), value, strict=False):
            is_named = isinstance(before, str) and before.startswith("-") and is_secret_name(before)
            yield from written_secrets("secret" if is_named else name, item)
    elif isinstance(value, str):
        yield from [value] if is_secret_name(name) else _within(name, value)


def _within(name: str, text: str) -> Iterator[str]:
    flag, given, word = text.partition("=")
    if given and flag.startswith("-") and is_secret_name(flag):
        yield word
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            yield from written_secrets(name, json.loads(text))
    yield from (match["password"] or match["value"] for match in _IN_URL.finditer(text))


def resolved_secrets(value: object, resolved: object) -> Iterator[str]:
    """The secrets that a value refers to, from the same value with all of them resolved."""
    if isinstance(value, SecretRef) and isinstance(resolved, str):
        yield resolved
    elif isinstance(value, Mapping) and isinstance(resolved, Mapping):
        for key, item in value.items():
            yield from resolved_secrets(item, resolved.get(key))
