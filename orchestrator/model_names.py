"""Whether two names stand for one model: backends answer for an alias under the name behind it."""

from __future__ import annotations

import re

_VERSION = re.compile(r"|[-@:](\d{6,8}|\d{4}-\d{2}-\d{2}|latest)|-v\d+(:\d+)?|\.gguf")
"""What a name may have more than the one that was asked for, and still be the same model."""
_ALIASES = frozenset({"sonnet", "opus", "haiku"})
"""Names that Claude Code takes for the newest model of a kind."""


def is_same_model(asked: str, served: str) -> bool:
    """Whether one name is the other with a vendor before it or a date behind it, as aliases are answered for."""
    short, long = sorted((name.casefold().replace("\\", "/").rpartition("/")[2] for name in (asked, served)), key=len)
    return _VERSION.fullmatch(long.removeprefix(short)) is not None if long.startswith(short) else short in _ALIASES and short in long
