"""Continuation tokens: signed, bound to what they go on with, with their expiry inside; never touched, only minted anew (page 5)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from orchestrator.errors import TokenRefused


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is given to a client."""

    text: str
    expires_at: datetime
    rounds: int
    """How often it was minted for the same thing; nobody but us can set it back."""


class Tokens:
    """Mints and reads tokens with a key of its own: those of another process, or another run, are refused."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def mint(self, binding: Sequence[str], *, now: datetime, ttl: timedelta, after: Token | None = None) -> Token:
        """A token for what these words name, all of them; `after` is the one that was used. Raises `ValueError` where one is empty, or none is given."""
        if not binding or not all(binding):
            raise ValueError("a token that is bound to nothing would be good for everything")
        rounds, expires_at = (0 if after is None else after.rounds) + 1, now + ttl
        body = [_bound(binding), (expires_at - _EPOCH) // timedelta(milliseconds=1), rounds, secrets.token_hex(8)]
        payload = json.dumps(body, separators=(",", ":")).encode()
        return Token(_encoded(payload + self._seal(payload)), expires_at, rounds)

    def read(self, text: str, binding: Sequence[str], *, now: datetime) -> Token:
        """The token, if it is one of ours, for just that, and has not expired. Reading lengthens nothing. Raises `TokenRefused`."""
        content = _decoded(text)
        payload, seal = content[:-_SEAL], content[-_SEAL:]
        if not hmac.compare_digest(seal, self._seal(payload)):
            raise TokenRefused("this continuation token is none of ours, or was changed", hint=_AFRESH)
        bound, milliseconds, rounds, _ = json.loads(payload)
        if bound != _bound(binding):
            raise TokenRefused("this continuation token goes on with something else", hint=_AFRESH)
        expires_at = _EPOCH + timedelta(milliseconds=milliseconds)
        if now >= expires_at:
            raise TokenRefused("this continuation token has expired", hint=_AFRESH)
        return Token(text, expires_at, rounds)

    def _seal(self, payload: bytes) -> bytes:
        return hmac.new(self._key, payload, hashlib.sha256).digest()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEAL = hashlib.sha256().digest_size
_AFRESH = "ask again; what was answered meanwhile is kept with its question"


def _bound(binding: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(binding)).encode()).hexdigest()


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return b""
    return content if _encoded(content) == text else b""  # of several spellings of the same bytes, one
