"""A configuration to start with, made of what was found on this machine."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from orchestrator.probes.aws import AwsFacts
from orchestrator.probes.keys import Vendor
from orchestrator.probes.servers import Server


@dataclass(frozen=True, slots=True)
class Found:
    """What can be used."""

    servers: Sequence[Server] = ()
    claude: bool = False
    """It is there, and logged in as far as that is known."""
    aws: AwsFacts | None = None
    keys: Sequence[Vendor] = ()
    embedded: bool = False
    kinds: Collection[str] = field(default_factory=frozenset)
    """The provider kinds that are installed."""
    claude_bin: str | None = None
    """The program of Claude Code, where one is configured."""


@dataclass(frozen=True, slots=True)
class _Agent:
    name: str
    options: dict[str, str]
    why: str
    key: str | None = None


def starting_configuration(found: Found) -> str | None:
    """The text of a configuration file with the best primary and the best escalation agent; `None` where there is no primary.

    Primary: the first local server with a model, else the embedded one. Escalation: Claude Code, Bedrock, or a vendor whose key is set.
    """
    primary = _primary(found)
    if primary is None:
        return None
    escalation = _escalation(found)
    agents = [primary] if escalation is None else [primary, escalation]
    head = ["# Written by `escalera doctor --write` from what it found on this machine; change whatever you like.", ""]
    roles = [f"primary = {_text(primary.name)}", *([f"escalation = {_text(escalation.name)}"] if escalation else [])]
    return "\n".join([*head, *roles, *(line for agent in agents for line in _table(agent))]) + "\n"


def _primary(found: Found) -> _Agent | None:
    for server in found.servers if "openai" in found.kinds else ():
        if server.status == "works" and server.chat_model is not None:
            others = len(server.models) - 1
            more = f"; it has {others} more model{'' if others == 1 else 's'}" if others else ""
            return _Agent("local", {"provider": "openai", "base_url": server.url, "model": server.chat_model}, f"{server.name} on this machine{more}")
    return (
        _Agent("local", {"provider": "embedded"}, "a very small model in this process: fine for a first look, no judge of anything") if found.embedded else None
    )


def _escalation(found: Found) -> _Agent | None:
    if found.claude and "claude-cli" in found.kinds:
        program = {"bin": found.claude_bin} if found.claude_bin is not None else {}
        return _Agent("claude", {"provider": "claude-cli", **program}, "Claude Code")
    aws = found.aws
    if aws is not None and aws.credentials and aws.region and aws.region.isprintable() and aws.profile.isprintable() and "bedrock" in found.kinds:
        profile = {"profile": aws.profile} if aws.profile != "default" and "profile" in aws.credentials else {}
        model = f"{_geography(aws.region)}.anthropic.claude-sonnet-4-5-20250929-v1:0"
        return _Agent("bedrock", {"provider": "bedrock", "model": model, "region": aws.region, **profile}, "Amazon Bedrock")
    for vendor in found.keys:
        if vendor.provider in found.kinds and vendor.model is not None:
            url = {"base_url": vendor.base_url} if vendor.base_url else {}
            return _Agent(vendor.name.lower(), {"provider": vendor.provider, **url, "model": vendor.model}, vendor.name, key=vendor.variable)
    small = "the very small model again: put a strong agent in its place"
    return _Agent("stand-in", {"provider": "embedded"}, small) if found.embedded else None


def _geography(region: str) -> str:
    """The inference profile that serves a region; `global` is there in all of them."""
    place = region.partition("-")[0]
    return place if place in ("us", "eu") and not region.startswith("us-gov") else "global"


def _table(agent: _Agent) -> list[str]:
    options = [f"{name} = {_text(value)}" for name, value in agent.options.items()]
    key = [f"api_key = {{ env = {_text(agent.key)} }}"] if agent.key else []
    return ["", f"# {agent.why}", f"[agents.{agent.name}]", *options, *key]


def _text(value: str) -> str:
    """A TOML string: what is printable is written in JSON as TOML wants it."""
    return json.dumps(value, ensure_ascii=False)
