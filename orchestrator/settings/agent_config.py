"""The configured agents: every source's tables laid over each other, name by name (page 6)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.settings.declarations import SettingValue
from orchestrator.settings.layers import AGENT_KEYS, Layer
from orchestrator.settings.placing import placed_command, placed_file
from orchestrator.settings.problems import Problem, did_you_mean, nearest
from orchestrator.settings.secrets import SecretRef

BUILT_IN = ("local", "stand-in")
"""The agents that are there as long as nothing names a provider: primary and escalation."""

BUILT_IN_PROVIDER = "embedded"

_FILES = ("mcp_config", "tls_ca", "model_path", "add_dir")
"""Options of the first providers that name a file or a folder; `mcp_config` may be JSON instead."""
_ITEMS = {"add_dirs": "add_dir"}


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One agent as it is configured. `options` are what its provider takes, unchecked, with secrets as `Secret` and `SecretRef`."""

    name: str
    provider: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    prompt: str | None = None
    prompt_file: Path | None = None
    """Absolute: a relative name counts from the file that gave it."""
    limits: Mapping[str, SettingValue] = field(default_factory=dict)
    """Its own limits as they were written, by name; absent ones are inherited."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Dollars for a million tokens, by `input`, `output`, `cache_read`, `cache_write`."""
    extra_tools: tuple[str, ...] = ()
    """Tools that only those agents are offered whose settings name them; a plugin's name stands for all of its own."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Which source gave a key."""
    folders: Mapping[str, Path] = field(default_factory=dict, repr=False)
    """What relative names in a key start from: the folder of the file that gave it."""

    @property
    def source(self) -> str:
        """Where its provider was named."""
        return self.sources.get("provider", "default")

    @property
    def model(self) -> str | None:
        """The configured model."""
        model = self.options.get("model")
        return model if isinstance(model, str) else None


def merge_agents(layers: Sequence[Layer], *, home: Path | None) -> dict[str, AgentConfig]:
    """The agents of all layers, the lowest first; the built-in ones when no layer names a provider.

    Agents without a provider are left out: `unusable_agents` reports them.
    """
    names = list(dict.fromkeys(name for layer in layers for name in layer.agents))
    built_in = not names_provider(layers)
    merged = [_merge(name, layers, home) for name in ([*BUILT_IN, *(name for name in names if name not in BUILT_IN)] if built_in else names)]
    return {agent.name: agent for agent in merged if agent is not None}


def names_provider(layers: Iterable[Layer]) -> bool:
    """Whether any agent is configured at all."""
    return any("provider" in table for layer in layers for table in layer.agents.values())


def unusable_agents(layers: Sequence[Layer], agents: Mapping[str, AgentConfig]) -> list[Problem]:
    """Agents that have keys and no provider."""
    missing = dict.fromkeys((layer.source, name) for layer in layers for name in layer.agents if name not in agents)
    return [Problem(source, f"agents.{name}", f"has no `provider`{did_you_mean(nearest(name, agents, cutoff=0.75))}") for source, name in missing]


def _merge(name: str, layers: Sequence[Layer], home: Path | None) -> AgentConfig | None:
    keys: dict[str, Any] = {"provider": BUILT_IN_PROVIDER} if name in BUILT_IN and not names_provider(layers) else {}
    sources: dict[str, str] = {}
    folders: dict[str, Path] = {}
    limits: dict[str, SettingValue] = {}
    for layer in layers:
        table = layer.agents.get(name, {})
        _drop_outdated(keys, sources, table)
        for key, value in table.items():
            both_tables = layer.merges and isinstance(value, Mapping) and isinstance(keys.get(key), Mapping)
            placed = _placed(key, value, layer.folder, home)
            keys[key] = {**keys[key], **placed} if both_tables else placed
            sources[key], folders[key] = layer.source, Path(os.path.abspath(layer.folder))
        limits.update(layer.agent_limits.get(name, {}))
    if "provider" not in keys:
        return None
    return AgentConfig(
        name=name,
        provider=keys["provider"],
        options={key: value for key, value in keys.items() if key not in AGENT_KEYS},
        prompt=keys.get("prompt"),
        prompt_file=keys.get("prompt_file"),
        limits=limits,
        prices=keys.get("prices", {}),
        extra_tools=keys.get("extra_tools", ()),
        sources=sources,
        folders=folders,
    )


def _drop_outdated(keys: dict[str, Any], sources: dict[str, str], table: Mapping[str, Any]) -> None:
    """What a higher source makes void: options of another provider, and the other way to give the prompt."""
    void: set[str] = set()
    if "provider" in keys and table.get("provider", keys["provider"]) != keys["provider"]:
        void.update(key for key in keys if key not in AGENT_KEYS)
    if "prompt" in table:
        void.add("prompt_file")
    if "prompt_file" in table:
        void.add("prompt")
    for key in void:
        keys.pop(key, None)
        sources.pop(key, None)


def _placed(key: str, value: Any, folder: Path, home: Path | None) -> Any:  # any: what stands in a file
    """A value with its file names absolute: relative ones start from the folder of the file that gives them, wherever it is used (page 5).

    A program without a slash in its name is looked up on PATH.
    """
    if isinstance(value, SecretRef):
        return replace(value, cmd=placed_command(value.cmd, folder, home), folder=os.path.abspath(folder)) if value.cmd else value
    if isinstance(value, Mapping):
        return {name: _placed("", item, folder, home) for name, item in value.items()}
    if key == "prompt_file":
        return placed_file(value, folder, home)
    if key == "bin" and isinstance(value, str):
        return placed_command([value], folder, home)[0]
    if key == "token_cmd" and isinstance(value, list):
        return list(placed_command(value, folder, home))
    if isinstance(value, list):
        return [_placed(_ITEMS.get(key, ""), item, folder, home) for item in value]
    is_name = key in _FILES and isinstance(value, str) and value and not value.lstrip().startswith("{")
    return str(placed_file(value, folder, home)) if is_name else value
