"""Whether two names stand for one model: backends answer for an alias under the name behind it."""

from __future__ import annotations

import re

_VERSION = re.compile(r"|[-@:](\d{6,8}|\d{4}-\d{2}-\d{2}|latest)|-(\d\d(0[1-9]|1[0-2])|(0[1-9]|1[0-2])[0-3]\d)|-v\d+(:\d+)?|\.gguf")
"""What a name may have more than the one that was asked for, and still be the same model; a short date is YYMM or MMDD."""
_ASKED_WAYS = re.compile(r"[-@:]latest$|:(free|nitro|floor|online|thinking|extended|exacto|beta)$")
"""What stands behind a name to ask for the newest of its kind, or for a way to be served (OpenRouter); the answer need not repeat it."""
_VARIANT = re.compile(r"\[\w+\]$")
"""What Claude Code calls a model with a larger window by: the API knows one name for both."""
_ALIASES = {**{kind: (kind,) for kind in ("sonnet", "opus", "haiku", "fable")}, "opusplan": ("opus", "sonnet"), "best": ("claude",), "default": ("claude",)}
"""Names that Claude Code takes for the newest model of a kind, and what is in the names of those."""


def is_same_model(asked: str, served: str) -> bool:
    """Whether one name is the other with a vendor before it or a date behind it, as aliases are answered for."""
    asked, served = _plain(asked), _plain(served)
    if asked in _ALIASES:
        return any(kind in served for kind in _ALIASES[asked])
    return _is_version(asked, served) or _is_version(_ASKED_WAYS.sub("", asked), served)


def _is_version(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and _VERSION.fullmatch(long.removeprefix(short)) is not None


def _plain(name: str) -> str:
    return _VARIANT.sub("", name.casefold().replace("\\", "/").rpartition("/")[2])
