"""Tags in an agent's answer: how they are written, and how look-alikes are made harmless (page 2)."""

from __future__ import annotations

import re
from typing import Literal

TagKind = Literal["need", "percept", "escalate"]

_LOOKALIKE = re.compile(r"<(?=\s*/?\s*escalera\s*:)", re.IGNORECASE)


def tag(kind: TagKind, body: str, nonce: str) -> str:
    """The tag as an agent writes it."""
    return f"<escalera:{kind}:{nonce}>{body}</escalera:{kind}:{nonce}>"


def neutralise(text: str) -> str:
    """The text with the opening mark of everything that looks like a tag replaced; as long as before."""
    return _LOOKALIKE.sub("\u2039", text) if "<" in text else text


def strip_tags(text: str, nonce: str) -> str:
    """The text without this session's tags and their bodies."""
    if f":{nonce}>" not in text:
        return text
    return re.sub(
        rf"<escalera:(need|percept|escalate):{re.escape(nonce)}>(?:(?!</?escalera:).){{0,4000}}</escalera:\1:{re.escape(nonce)}>", "", text, flags=re.DOTALL
    )
