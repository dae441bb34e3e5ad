"""JSON values whose every text can be stored and sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.messages import well_formed


def clean_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same object with unpaired surrogates and NULs replaced, in keys as well."""
    return {well_formed(str(key)): clean(item) for key, item in value.items()}


def clean(value: Any) -> Any:  # any JSON value
    """The same value with unpaired surrogates and NULs replaced."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return clean_object(value)
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value
