"""What a model gave as arguments, read as what the tools need; what does not fit is told to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.tools import ToolFailed

Arguments = Mapping[str, Any]
"""As the model wrote them: any JSON."""


def text(arguments: Arguments, name: str, default: str | None = None) -> str:
    """A text as it is, blanks and all. Raises `ToolFailed` where it is no text, or missing without a default."""
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ToolFailed(f"argument {name!r} must be a text")
    return value


def whole(arguments: Arguments, name: str, default: int, *, least: int, most: int) -> int:
    """A whole number within bounds; models also write `3.0` and `"3"`."""
    value = arguments.get(name)
    if value is None:
        return default
    try:
        number = int(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not least <= number <= most:
        raise ToolFailed(f"argument {name!r} must be a whole number from {least:,} to {most:,}")
    return number


def truth(arguments: Arguments, name: str) -> bool:
    """True or false, false where it is not said."""
    value = arguments.get(name)
    if value is None or isinstance(value, bool):
        return value is True
    raise ToolFailed(f"argument {name!r} must be true or false")
