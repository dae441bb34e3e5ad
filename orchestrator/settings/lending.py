"""Whose address and whose secret: nothing of the user's is sent where only a project's file says (page 5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_NOT_THERE = "take it out there, and write it into your own file"
_CLOUDS: Mapping[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "AWS": (frozenset({"BEDROCK"}), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")),
    "GOOGLE": (frozenset({"VERTEX", "GCLOUD", "CLOUDSDK", "GCE"}), ("GOOGLE_APPLICATION_CREDENTIALS",)),
    "AZURE": (frozenset({"FOUNDRY"}), ("AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "ANTHROPIC_FOUNDRY_API_KEY")),
}
"""Of a cloud by the first word of its variables: other words that stand for it, and what every program of it signs in with."""


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


def lent_credentials(
    agent: AgentConfig,
    layers: Sequence[Layer],
    *,
    variables: Sequence[str],
    environ: Mapping[str, str],
    project: str,
    told: Iterable[tuple[str, Mapping[str, object]]] = (),
) -> list[Problem]:
    """The same for what a provider takes by itself: from these variables, or from a login that it finds on the machine.

    `told` are further variables that its program is given by the project, with where they stand. No problem where the project brings a credential
    of its own, which is used instead.
    """
    given = list(_of_agent(agent, layers))
    places = {_Given(_VARIABLES, name, value, project): place for place, table in told for name, value in table.items() if isinstance(value, str)}
    given += places
    for address in (one for one in given if one.is_address and one.source == project):
        takes = _taken(address, variables)
        if takes and (whose := _lent(takes, given, environ, project)):
            place = f"agents.{agent.name}.{_path(address)}" if address not in places else f"{_path(address)} ({places[address]})"
            mend = f"give it yourself, as in --set agents.{agent.name}.{_path(address)}=…, or take it out there and write it into your own file"
            text = f"is from {project}, and {whose} would be sent there; {mend if address not in places else _NOT_THERE}"
            return [Problem(project, place, text)]
    return []


def _taken(address: _Given, variables: Sequence[str]) -> Sequence[str]:
    """The credentials that a provider would use there: at an option of its own or a proxy all, at a variable those of the same vendor or cloud."""
    if address.key != _VARIABLES or address.name.lower().endswith("proxy"):
        return variables
    words = address.name.split("_")
    for cloud, (names, credentials) in _CLOUDS.items():
        if cloud == words[0] or not names.isdisjoint(words):
            return credentials
    return variables if words[0] in {name.partition("_")[0] for name in variables} else ()


def _lent(takes: Sequence[str], given: Sequence[_Given], environ: Mapping[str, str], project: str) -> str | None:
    """What of the user's would be used, in words; nothing where the project brings what is used instead."""
    if any(one.is_secret and one.key != _VARIABLES and one.source == project for one in given):
        return None
    set_here = [one.name for one in given if one.key == _VARIABLES]
    lent = [name for name in takes if environ.get(name) and name not in set_here]
    brings = any(one.key == _VARIABLES and one.name in takes and one.value and one.source == project for one in given)
    return f"what is in {', '.join(lent)}" if lent else None if brings else "your login"


def _mixed(owner: str, values: Iterator[_Given], project: str) -> list[Problem]:
    given = list(values)
    address = next((one for one in given if one.is_address and one.source == project), None)
    if address is None:
        return []
    text = f"would be sent to the `{_path(address)}` of {project}; give both in one file, or the {_path(address)} with --set"
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
