"""Secrets in what leaves the machine: obvious keys become `***` in exports (page 6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from orchestrator.settings.hiding import mask_assigned


def mask_secrets(text: str) -> str:
    """The text with every obvious secret replaced by `***`: keys and tokens by their shape, bearer headers, passwords in URLs, private key blocks.

    A secret without a shape of its own cannot be seen. Text without any is given back as the same object; masking twice is masking once.
    """
    masked = _SECRET.sub(_mask, text)
    content = masked.encode("utf-8", "surrogatepass")
    clear = mask_assigned(content)
    return masked if clear == content else clear.decode("utf-8", "surrogatepass")


def mask_values(value: Any) -> Any:  # a session, turns, or any JSON value: what comes in goes out
    """The value with the secrets in all its texts masked, whatever it is made of; also those that only their key gives away."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else mask_secrets(value)
    if isinstance(value, list | tuple):
        return type(value)(mask_values(item) for item in value)
    if isinstance(value, Mapping):
        return {mask_secrets(str(key)): _mask_item(str(key), item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: mask_values(getattr(value, field.name)) for field in fields(value)})
    return value


def _mask_item(key: str, value: Any) -> Any:
    """The value under a key: as it would be masked beside it in a text."""
    if isinstance(value, str):
        beside = f'"{key}": "{value}"'
        masked = mask_secrets(beside)
        if masked != beside and masked.endswith(': "***"'):
            return "***"
    return mask_values(value)


def _mask(match: re.Match[str]) -> str:
    return (match["head"] or match["scheme"] or match["name"] or "") + "***"


# Every key begins where no word goes on, so that a long run of beginnings is gone over once.
_SECRET = re.compile(
    r"""
    -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY(?:\ BLOCK)?-----
        (?: [^-]*(?:-(?!----)[^-]*)*-----END\ [A-Z ]{0,30}PRIVATE\ KEY(?:\ BLOCK)?-----  |  (?:(?:\s|\\n){1,4}[A-Za-z0-9+/=]{16,})* )
    | (?P<head>(?<![A-Za-z0-9])(?i:bearer|basic)[ \t]{1,4})(?=[A-Za-z0-9._~+/=-]{0,200}[0-9=])[A-Za-z0-9._~+/-]{16,}=*
    | (?P<scheme>(?<![A-Za-z0-9])[a-z]{2,12}://[^\s:/@"'<>]{0,100}:)(?!\*\*\*@)[^\s/@"]{1,200}(?=@)
    | (?<![A-Za-z0-9_-])(?:
          sk-(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{16,}
        | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
        | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])
        | ABSK[A-Za-z0-9+/]{40,}=*
        | gh[pousr]_[A-Za-z0-9]{20,}
        | github_pat_[A-Za-z0-9_]{20,}
        | glpat-[A-Za-z0-9_-]{20,}
        | xox[abeoprs]-[A-Za-z0-9-]{10,}
        | AIza[A-Za-z0-9_-]{35}
        | hf_[A-Za-z0-9]{30,}
        | eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}
      )
    | (?P<name>(?i:aws_secret_access_key)["']?[ ]{0,2}[=:][ ]{0,2}["']?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])
    """,
    re.VERBOSE,
)
