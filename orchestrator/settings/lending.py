"""Whose address and whose secret: nothing of the user's is sent where only a project's file says (page 5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.settings.agent_config import AgentConfig
from orchestrator.settings.layers import Layer
from orchestrator.settings.problems import Problem
from orchestrator.settings.secrets import Secret, SecretRef, has_secret
from orchestrator.settings.tool_servers import TABLE, ToolServer

_CARRIERS = frozenset({"headers", "token_cmd"})
"""Keys that stand for a secret whatever is in them."""
_ADDRESS = re.compile(r"\s*(https?|wss?|socks[45]?h?)://", re.IGNORECASE)
_ADDRESS_NAME = re.compile(r"(^|[_-])(ur[li]|endpoint|host|address|proxy)([_-]|$)", re.IGNORECASE)
_VARIABLES = "env"


@dataclass(frozen=True, slots=True)
class _Given:
    """One value that counts, on its own or in a table, and the source that gave it."""

    key: str
    name: str
    """Its own name, within the table `key` where it stands in one."""
    value: object
    source: str

    @property
    def is_address(self) -> bool:
        """Whether it says where something is sent: an option, or a variable that a program goes by."""
        is_told = self.key in (self.name, _VARIABLES) and isinstance(self.value, str | Secret | SecretRef)
        return is_told and (_ADDRESS_NAME.search(self.name) is not None or _ADDRESS.match(str(self.value)) is not None)

    @property
    def is_secret(self) -> bool:
        return self.key in _CARRIERS or has_secret(self.value)


def mixed_secrets(layers: Sequence[Layer], agents: Mapping[str, AgentConfig], servers: Mapping[str, ToolServer], *, project: str) -> list[Problem]:
    """Secrets that would be sent to an address of the project file without being from there themselves."""
    problems: list[Problem] = []
    for agent in agents.values():
        problems += _mixed(f"agents.{agent.name}", _of_agent(agent, layers), project)
    for server in servers.values():
        problems += _mixed(f"{TABLE}.{server.name}", _of_server(server, layers), project)
    return problems


def lent_credentials(agent: AgentConfig, layers: Sequence[Layer], *, variables: Sequence[str], environ: Mapping[str, str], project: str) -> list[Problem]:
    """The same for what a provider takes by itself: from these variables, or from a login that it finds on the machine.

    No problem where the project brings a credential of its own, which is used instead.
    """
    given = list(_of_agent(agent, layers))
    address = next((one for one in given if one.is_address and one.source == project and _concerns(one, variables)), None)
    if address is None or not variables or any(one.is_secret and one.key != _VARIABLES and one.source == project for one in given):
        return []
    set_here = [one.name for one in given if one.key == _VARIABLES]
    lent = [name for name in variables if environ.get(name) and name not in set_here]
    brings = any(one.key == _VARIABLES and one.name in variables and one.value and one.source == project for one in given)
    if brings and not lent:
        return []
    what = f"what is in {', '.join(lent)}" if lent else "your login"
    text = f"is from {project}, and {what} would be sent there; give it yourself, as in --set agents.{agent.name}.{_path(address)}=… or your own file"
    return [Problem(project, f"agents.{agent.name}.{_path(address)}", text)]


def _concerns(address: _Given, variables: Sequence[str]) -> bool:
    """Whether the provider goes by it with such a credential: an option of its own, a proxy, or a variable of the same vendor (`ANTHROPIC_BASE_URL`)."""
    vendors = {name.partition("_")[0] for name in variables}
    return address.key != _VARIABLES or address.name.partition("_")[0] in vendors or address.name.lower().endswith("proxy")


def _mixed(owner: str, values: Iterator[_Given], project: str) -> list[Problem]:
    given = list(values)
    address = next((one for one in given if one.is_address and one.source == project), None)
    if address is None:
        return []
    text = f"would be sent to the `{_path(address)}` of {project}; give both in one file, or the {_path(address)} yourself"
    return list(dict.fromkeys(Problem(one.source, f"{owner}.{one.key}", text) for one in given if one.is_secret and one.source != project))


def _of_agent(agent: AgentConfig, layers: Sequence[Layer]) -> Iterator[_Given]:
    return _values(agent.options, [(layer, layer.agents[agent.name]) for layer in layers if agent.name in layer.agents])


def _of_server(server: ToolServer, layers: Sequence[Layer]) -> Iterator[_Given]:
    values = {"url": server.url, "headers": server.headers, "env": server.env}
    return _values(values, [(layer, layer.servers[server.name]) for layer in layers if server.name in layer.servers])


def _values(values: Mapping[str, Any], tables: Sequence[tuple[Layer, Mapping[str, Any]]]) -> Iterator[_Given]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from (_Given(key, name, item, _source(tables, key, name)) for name, item in value.items())
        else:
            yield _Given(key, key, value, _source(tables, key, None))


def _source(tables: Sequence[tuple[Layer, Mapping[str, Any]]], key: str, name: str | None) -> str:
    """The highest source that gives it; one that merges says nothing about what else is in the table."""

    def gives(layer: Layer, given: object) -> bool:
        return given is not None and (name is None or not layer.merges or not isinstance(given, Mapping) or name in given)

    return next((layer.source for layer, table in reversed(tables) if gives(layer, table.get(key))), "default")


def _path(given: _Given) -> str:
    return given.key if given.key == given.name else f"{given.key}.{given.name}"
