"""The JSON Schema of the configuration file, for editors: every declared setting, and agents with the options of known provider kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from orchestrator.settings.declarations import LIMITS, SETTINGS, UNLIMITED, Setting, SettingValue
from orchestrator.settings.layers import AGENT_KEYS, PRICES
from orchestrator.settings.secrets import is_secret_name
from orchestrator.settings.tool_servers import TABLE
from orchestrator.settings.values import LARGEST, expectation

if TYPE_CHECKING:
    from orchestrator.providers import ProviderKind

JsonSchema = dict[str, Any]

_DURATION = r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)\s*$"
_SIZE = r"^\s*[0-9]{1,12}(\.[0-9]{1,9})?\s*([kKmMgG][iI]?)?[bB]\s*$"
_TEXT: JsonSchema = {"type": "string", "pattern": r"\S"}
_SECRET: JsonSchema = {
    "description": "Where a secret is to be had: an environment variable, the first thing a command prints, or service/name in the system's keyring.",
    "type": "object",
    "properties": {
        "env": {"type": "string", "minLength": 1},
        "cmd": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "keyring": {"type": "string", "pattern": "/"},
    },
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}


def config_schema(kinds: Iterable[ProviderKind]) -> JsonSchema:
    """Draft 2020-12, complete in itself. What one file says may be completed by another, so nothing is required."""
    kinds = sorted(kinds, key=lambda kind: kind.name)
    definitions: JsonSchema = {"secret": _SECRET, "limits": _table(LIMITS.values()), "agent": _agent(kinds)}
    for kind in kinds:
        definitions |= _options(kind)
    top = _table(setting for setting in SETTINGS if "." not in setting.path)
    tables = dict.fromkeys(setting.path.partition(".")[0] for setting in SETTINGS if "." in setting.path)
    for table in tables:
        of_table = [setting for setting in SETTINGS if setting.path.startswith(f"{table}.")]
        top["properties"][table] = {"$ref": "#/$defs/limits"} if table == "limits" else _table(of_table)
    top["properties"]["agents"] = {
        "description": "The agents, each in a table of its own: [agents.NAME].",
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
        "additionalProperties": {"$ref": "#/$defs/agent"},
    }
    top["properties"][TABLE] = {
        "description": f"MCP servers, whose tools agents are offered, each in a table of its own: [{TABLE}.NAME].",
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
        "additionalProperties": _server(),
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Configuration of Escalera", **top, "$defs": definitions}


def _table(settings: Iterable[Setting]) -> JsonSchema:
    return {"type": "object", "properties": {setting.name: _setting(setting) for setting in settings}, "additionalProperties": False}


def _setting(setting: Setting) -> JsonSchema:
    shape = _shape(setting)
    if setting.unlimited:
        any_case = "".join(f"[{letter}{letter.upper()}]" for letter in UNLIMITED)
        shape = {"anyOf": [shape, {"const": UNLIMITED}, {"type": "string", "pattern": rf"^\s*{any_case}\s*$"}]}
    default = {} if setting.default is None else {"default": _json(setting.default)}
    return {"description": f"{setting.help} Takes {expectation(setting)}{_unit(setting)}.", **default, **shape}


def _unit(setting: Setting) -> str:
    return f" ({setting.unit})" if setting.unit and setting.unit != "bytes" else ""


def _shape(setting: Setting) -> JsonSchema:
    bounds: JsonSchema = {"maximum": LARGEST.get(setting.type, 0)}
    bounds["minimum"] = -bounds["maximum"] if setting.minimum is None else setting.minimum
    shapes: dict[str, JsonSchema] = {
        "bool": {"type": "boolean"},
        "int": {"type": "integer", **bounds},
        "number": {"type": "number", **bounds},
        "text": _TEXT,
        "duration": {"type": "string", "pattern": _DURATION if not setting.minimum else _DURATION.replace("[0-9]", "(?=[0-9.]*[1-9])[0-9]", 1)},
        "size": {"anyOf": [{"type": "integer", **bounds}, {"type": "string", "pattern": _SIZE}]},
        "list": {"type": "array", "items": {"type": "string"}},
    }
    return shapes[setting.type]


def _json(value: SettingValue) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _agent(kinds: Iterable[ProviderKind]) -> JsonSchema:
    names = [kind.name for kind in kinds]
    price = {"type": "number", "minimum": 0, "exclusiveMaximum": 1e6}
    return {
        "type": "object",
        "properties": {
            "provider": {"description": "The kind of its provider.", **_TEXT, "examples": names},
            "prompt": {"description": "The agent's own instructions.", **_TEXT},
            "prompt_file": {"description": "A file with them; a relative name counts from this file.", **_TEXT},
            "limits": {"$ref": "#/$defs/limits"},
            "prices": {
                "description": "Dollars for a million tokens, to estimate a cost that the provider does not report.",
                "type": "object",
                "properties": dict.fromkeys(PRICES, price),
                "additionalProperties": False,
            },
            "extra_tools": {
                "description": "Tools that it is offered although not every agent is, by their names or the names of their plugins.",
                "type": "array",
                "items": _TEXT,
                "examples": [["workspace"]],
            },
        },
        "not": {"required": ["prompt", "prompt_file"]},
        "allOf": [{"if": {"properties": {"provider": {"const": name}}, "required": ["provider"]}, "then": {"$ref": f"#/$defs/{name}"}} for name in names],
    }


def _server() -> JsonSchema:
    texts = {"type": "array", "items": {"type": "string"}}
    carried = {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/secret"}]}}
    return {
        "type": "object",
        "properties": {
            "command": {"description": "The program that is started; a relative path counts from this file.", **_TEXT},
            "args": {"description": "Its arguments.", **texts},
            "env": {"description": "What it sees of the environment beside HOME, LOGNAME, PATH, SHELL, TERM and USER.", **carried},
            "url": {"description": "The address of a server that runs elsewhere (streamable HTTP).", "type": "string", "pattern": "^https?://"},
            "headers": {"description": "What is sent to it with every request.", **carried},
            "timeout": {"description": "How long one call may take.", "type": "string", "pattern": _DURATION, "default": "60s"},
            "tools": {"description": "The tools that are offered, by the server's own names; without it all are.", **texts},
            "agents": {"description": "The agents that are offered them; without it all that take tools.", **texts},
        },
        "additionalProperties": False,
    }


def _options(kind: ProviderKind) -> JsonSchema:
    """The definitions of one kind: its options, and the types that they use under names of their own."""
    schema = kind.options.model_json_schema(ref_template=f"#/$defs/{kind.name}.{{model}}")
    inner = {f"{kind.name}.{name}": _for_files(name, definition) for name, definition in schema.pop("$defs", {}).items()}
    properties = {name: _for_files(name, option) for name, option in schema["properties"].items()}
    table = {"type": "object", "properties": {**dict.fromkeys(AGENT_KEYS, True), **properties}, "additionalProperties": False}
    return {kind.name: {"description": schema.get("description", ""), **table}, **inner}


def _for_files(name: str, schema: Any) -> Any:
    """As a file may say it: a secret also as a reference to one; without titles that only say the key again."""
    if isinstance(schema, list):
        return [_for_files(name, item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "password" or (schema.get("type") == "string" and is_secret_name(name)):
        return {"anyOf": [{"type": "string", "minLength": 1}, {"$ref": "#/$defs/secret"}]}
    if {"type": "null"} in schema.get("anyOf", ()):  # TOML has no null: what is not set is not there
        (shape,) = (item for item in schema["anyOf"] if item != {"type": "null"})
        return _for_files(name, {**{key: value for key, value in schema.items() if key not in ("anyOf", "default")}, **shape})
    cleaned = {key: value for key, value in schema.items() if key not in ("title", "format")}
    properties = {key: _for_files(key, value) for key, value in schema.get("properties", {}).items()}
    return {key: properties if key == "properties" else _for_files(name, value) for key, value in cleaned.items()}
