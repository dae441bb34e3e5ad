"""A stranger's tool as every provider takes it: its name, its description, its parameters (pages 3 and 7)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.messages import compact_json, is_json, well_formed_values
from orchestrator.quoting import clipped, plain
from orchestrator.tags import neutralise

MAX_NAME = 64
MAX_DESCRIPTION = 1000
MAX_SCHEMA = 4000
"""Characters of one tool's parameters; what is larger loses its descriptions first, then what is nested."""

_MAX_RAW = 5_000_000
_MAX_DEPTH, _MAX_NODES = 12, 2000
_NAME_PART = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_COMBINED = ("allOf", "anyOf", "oneOf")
_NAMED = frozenset({"properties", "patternProperties"})
"""Keywords that hold schemas by name."""
_SINGLE = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})
_LISTED = frozenset({*_COMBINED, "prefixItems"})
_SHAPES: Mapping[str, type | tuple[type, ...]] = {"type": (str, list), "required": list, "enum": list}
_VALUES = frozenset(
    {
        *("type", "enum", "const", "default", "required", "format", "pattern", "nullable"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)
"""Keywords that hold no schema. What stands under any other means nothing to a provider, and is left out."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """A JSON Schema of an object, and which of its properties the server knows by another name."""

    schema: Mapping[str, Any]
    renamed: Mapping[str, str]
    """The server's name by ours."""

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """As the server wants them."""
        return {self.renamed.get(name, name): value for name, value in given.items()}


def tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """`mcp__SERVER__TOOL` in the letters and the length that every wire format takes; one that would stand for two tools ends in a mark of its own."""
    name = "__".join(("mcp", server, _NAME_PART.sub("_", tool) or "tool"))
    if len(name) <= MAX_NAME and name not in taken:
        return name
    mark = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[: MAX_NAME - len(mark) - 1]}_{mark}"


def described(server: str, text: str) -> str:
    """A description as data: bounded, without control characters and tags, under the name of who gives it."""
    said = clipped(plain(neutralise(text)).strip(), MAX_DESCRIPTION - len(server) - 20)
    return f"(tool server {server}) {said or 'no description'}"


def parameters_of(given: object) -> Parameters:
    """The parameters, complete in themselves: references are followed, what no provider takes at the top is laid together."""
    if not isinstance(given, dict) or not is_json(given) or len(compact_json(given)) > _MAX_RAW:
        return Parameters(_object({}, ()), {})
    whole = well_formed_values(given)
    top = _Copy(whole).node(whole, 0, ())
    properties, required = _together(top)
    names = dict(_named(properties))
    schema = _object({names[name]: value for name, value in properties.items()}, [names[name] for name in properties if name in required])
    return Parameters(_smaller(schema), {new: old for old, new in names.items() if new != old})


class _Copy:
    """Copies a schema without references and without end: what is too deep, or stands in itself, may be anything."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole, self._left = whole, _MAX_NODES

    def node(self, value: Any, depth: int, inside: tuple[str, ...]) -> Any:
        """Any JSON value."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            return {}
        if isinstance(value, bool):
            return {} if value else {"not": {}}
        if not isinstance(value, dict):
            return {}
        if "$ref" in value:
            return self._followed(value, depth, inside)
        return self._keys(value, depth, inside)

    def _followed(self, value: Mapping[str, Any], depth: int, inside: tuple[str, ...]) -> Any:
        ref = value["$ref"]
        beside = self._keys({key: item for key, item in value.items() if key != "$ref"}, depth, inside)
        if not isinstance(ref, str) or ref in inside:
            return beside
        target = self.node(_pointed(self._whole, ref), depth + 1, (*inside, ref))
        return {**target, **beside}

    def _keys(self, value: Mapping[str, Any], depth: int, inside: tuple[str, ...]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in value.items():
            if key in _NAMED and isinstance(item, dict):
                made[key] = {neutralise(name): self.node(inner, depth + 1, inside) for name, inner in item.items()}
            elif key in _LISTED and isinstance(item, list):
                made[key] = [self.node(inner, depth + 1, inside) for inner in item]
            elif key in _SINGLE:
                made[key] = item if isinstance(item, bool) and key != "items" else self.node(item, depth + 1, inside)
            elif key == "description" and isinstance(item, str):
                made[key] = clipped(plain(neutralise(item)), MAX_DESCRIPTION)
            elif key in _VALUES and isinstance(item, _SHAPES.get(key, object)):
                made[key] = _harmless(item)
        if made.get("type") == "array" and "items" not in made:
            made["items"] = {}
        return made


def _pointed(whole: Any, ref: str) -> Any:
    """What a reference within the schema points at; anything where that is nowhere."""
    if not ref.startswith("#"):
        return {}
    for part in ref[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        whole = whole.get(key, {}) if isinstance(whole, dict) else {}
    return whole


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return neutralise(value)
    if isinstance(value, list):
        return [_harmless(item) for item in value]
    if isinstance(value, dict):
        return {neutralise(key): _harmless(item) for key, item in value.items()}
    return value


def _together(top: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Properties and required names, with those of alternatives laid beside them: what one of them requires is not required of all."""
    properties = dict(top.get("properties", {}))
    required = {name for name in top.get("required", ()) if isinstance(name, str)}
    for key in _COMBINED:
        for part in top.get(key, ()):
            more, needed = _together(part)
            properties = {**more, **properties}
            required |= needed if key == "allOf" else set()
    return properties, required


def _named(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    taken = {name for name in properties if _PROPERTY.fullmatch(name)}
    for name in properties:
        if name in taken:
            yield name, name
            continue
        new = base = _NAME_PART.sub("_", name)[:50].strip("_") or "value"
        number = 2
        while new in taken:
            new, number = f"{base}_{number}", number + 1
        taken.add(new)
        yield name, new


def _object(properties: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), **({"required": list(required)} if required else {})}


def _smaller(schema: dict[str, Any]) -> dict[str, Any]:
    """The first of the ever plainer versions that is not too large."""
    versions = (
        lambda: schema,
        lambda: _plainer(schema, text=120),
        lambda: _plainer(schema, text=0),
        lambda: _object({name: _flat(value, choices=20) for name, value in schema["properties"].items()}, schema.get("required", ())),
        lambda: _object({name: _flat(value, choices=0) for name, value in schema["properties"].items()}, schema.get("required", ())),
    )
    for version in versions:
        made = version()
        if len(compact_json(made)) <= MAX_SCHEMA:
            return made
    needed = schema.get("required", ())[:50]
    return _object({name: {} for name in needed}, needed)


def _plainer(value: Any, *, text: int) -> Any:
    """With descriptions of so many characters at most."""
    if isinstance(value, list):
        return [_plainer(item, text=text) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: clipped(item, text) if key == "description" and isinstance(item, str) else _plainer(item, text=text)
        for key, item in value.items()
        if text or key != "description" or not isinstance(item, str)
    }


def _flat(value: Any, *, choices: int) -> dict[str, Any]:
    """The type alone, and a few choices."""
    if not isinstance(value, dict):
        return {}
    flat = {"type": value["type"]} if isinstance(value.get("type"), str) else {}
    if flat.get("type") == "array":
        flat["items"] = {}
    enum = value.get("enum")
    return flat | ({"enum": enum} if isinstance(enum, list) and len(enum) <= choices else {})
