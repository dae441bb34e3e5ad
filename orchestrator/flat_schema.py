"""The flat subset of JSON Schema that a question's answer follows: one level of named fields (page 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.messages import well_formed
from orchestrator.quoting import one_line
from orchestrator.settings.secrets import is_secret_name

MAX_FIELDS, MAX_CHOICES = 20, 50
_MAX_NAME, _MAX_TEXT = 64, 500
_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}
_FORMATS = ("email", "uri", "date", "date-time")


def flat_schema(given: object) -> dict[str, Any]:
    """What is usable of a schema that a stranger wrote, in a form of ours: texts bounded, unknown keys left out.

    Raises `ValueError` saying which field is not flat, or asks for a secret, which no form may.
    """
    properties = given.get("properties") if isinstance(given, Mapping) else None
    if not isinstance(properties, Mapping) or not 1 <= len(properties) <= MAX_FIELDS:
        raise ValueError(f"the schema must be of an object with 1 to {MAX_FIELDS} `properties`")
    fields = {_name(name): _field(name, field) for name, field in properties.items()}
    required = given.get("required") if isinstance(given, Mapping) else None
    named = [name for name in required if name in fields] if isinstance(required, list | tuple) else []
    return {"type": "object", "properties": fields, "required": named}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
        raise ValueError(f"a field's name must be a printable text of at most {_MAX_NAME} characters")
    return well_formed(name)


def _field(name: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"the field {name!r} must be described by an object")
    if is_secret_name(name) or given.get("format") == "password":
        raise ValueError(f"the field {name!r} asks for a secret, which is never asked for in a form")
    kind = given.get("type", "string")
    field: dict[str, Any] = {"type": kind}
    for key in ("title", "description"):
        if isinstance(given.get(key), str) and given[key].strip():
            field[key] = one_line(given[key], _MAX_TEXT)
    if kind == "array":
        choices = _choices(name, given.get("items"))
        if not choices:
            raise ValueError(f"the field {name!r} must list what can be chosen, in `items.enum`")
        return {**field, "items": {"type": "string", "enum": choices}, **_bounds(kind, given)}
    if kind not in ("string", "integer", "number", "boolean"):
        raise ValueError(f"the field {name!r} must be a string, an integer, a number, a boolean or an array of choices, nothing nested")
    if kind == "string" and (choices := _choices(name, given)):
        field["enum"] = choices
    if kind == "string" and given.get("format") in _FORMATS:
        field["format"] = given["format"]
    return field | _bounds(kind, given)


def _bounds(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in _BOUNDS.get(kind, ()) if _is_number(given.get(key))}


def _choices(name: str, given: object) -> list[str]:
    """From `enum`, or from `oneOf` and `anyOf` with a `const` each."""
    if not isinstance(given, Mapping):
        return []
    titled = given.get("oneOf") or given.get("anyOf") or ()
    found = given.get("enum") or ([one.get("const") for one in titled if isinstance(one, Mapping)] if isinstance(titled, list | tuple) else [])
    if not isinstance(found, list | tuple) or len(found) > MAX_CHOICES or not all(isinstance(one, str) and 0 < len(one) <= _MAX_TEXT for one in found):
        raise ValueError(f"the choices of the field {name!r} must be at most {MAX_CHOICES} texts of at most {_MAX_TEXT} characters")
    return [well_formed(one) for one in found]


def _is_number(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and math.isfinite(value))
