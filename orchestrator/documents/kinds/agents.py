"""The configured agents, and whether they can be called."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Stated
from orchestrator.providers import CheckStatus
from orchestrator.session import Role


class AgentObject(TypedDict):
    """A configured agent; `problem` says why it cannot be asked."""

    name: Stated
    roles: list[Role]
    provider: Stated
    model: str | None
    source: Stated
    problem: str | None
    mcp_servers: list[str]
    """The MCP servers whose tools it is offered."""


class AgentsDocument(TypedDict):
    """`agents list --json`."""

    format: Literal["escalera.agents/1"]
    agents: list[AgentObject]


class AgentDocument(AgentObject):
    """`agents use` and `agents add` with `--json`: the agent as it is configured now."""

    format: Literal["escalera.agent/1"]


class CheckObject(TypedDict):
    """Whether an agent answers."""

    name: Stated
    provider: Stated
    model: str | None
    ok: bool
    status: CheckStatus
    detail: str
    hint: str | None


class ServerCheckObject(TypedDict):
    """Whether an MCP server answers, and the tools that it has for agents, by the names under which they know them."""

    name: Stated
    ok: bool
    tools: list[str]
    problem: str | None


class ChecksDocument(TypedDict):
    """`agents check --json`."""

    format: Literal["escalera.checks/1"]
    agents: list[CheckObject]
    mcp_servers: list[ServerCheckObject]


FindingArea = Literal["roles", "configuration", "servers", "claude", "aws", "keys", "embedded", "plugins", "store", "processes"]
FindingStatus = Literal["works", "ready", "note", "absent", "problem"]
"""`ready`: everything is there, and it was not contacted; `absent`: not there, which harms nobody by itself."""
