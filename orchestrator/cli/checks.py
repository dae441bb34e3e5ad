"""Asking agents whether they can work, side by side, whatever their plugins do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from orchestrator.cli.front import Front
from orchestrator.errors import AuthFailed, EscaleraError, ModelNotFound, OutOfFunds, PluginError, RateLimited, SecretMissing
from orchestrator.probes.side_by_side import Answered, side_by_side
from orchestrator.providers import CheckResult, CheckStatus
from orchestrator.settings.agent_config import AgentConfig
from orchestrator.settings.known import KnownSecrets

if TYPE_CHECKING:
    from orchestrator.crew import Crew
    from orchestrator.documents.kinds.agents import CheckObject, ServerCheckObject
    from orchestrator.mcp_client.servers import Listed
    from orchestrator.settings.resolution import Settings

_MOST_SHOWN = 500


def checked_agents(front: Front, agents: Sequence[AgentConfig], *, seconds: float) -> dict[str, CheckResult]:
    """What each agent's provider says of itself, by the agent's name; one that says nothing in time is an `error` like one that fails."""

    def ask(name: str) -> Any:  # strangers' code: what comes back is looked at before it is believed
        return front.crew(front.workspace).agent(name).provider.check()

    answers = side_by_side({agent.name: lambda name=agent.name: ask(name) for agent in agents}, seconds=seconds)  # type: ignore[misc]  # a default binds the name
    return {agent.name: masked_result(result_of(answers[agent.name], seconds), front.known_secrets) for agent in agents}


def checked_servers(front: Front, agents: Sequence[AgentConfig], *, seconds: float) -> list[ServerCheckObject]:
    """What the MCP servers of these agents have; those of agents that take no tools are left alone."""
    crew = front.crew(front.workspace)

    def listed(name: str) -> Listed:
        crew.accepted_server(name)
        return crew.tool_servers.listed([name])[0]

    names = list(dict.fromkeys(name for agent in agents for name in servers_of(front.settings, crew, agent.name)))
    answers = side_by_side({name: lambda name=name: listed(name) for name in names}, seconds=seconds)  # type: ignore[misc]  # a default binds the name
    return [_server_object(name, answers[name], seconds) for name in names]


def servers_of(settings: Settings, crew: Crew, agent: str) -> list[str]:
    """The MCP servers whose tools an agent is offered; none for one that takes no tools, or cannot be built."""
    servers = [server.name for server in settings.servers.values() if server.serves(agent)]
    try:
        return servers if servers and crew.agent(agent).takes_tools else []
    except Exception:  # strangers' code; what is the matter with it is said where it is asked
        return []


def _server_object(name: str, answer: Answered[Any], seconds: float) -> ServerCheckObject:
    if answer.value is None:
        why = f"no answer within {seconds:g} s" if answer.error is None else f"{type(answer.error).__name__}: {answer.error}"
        return {"name": name, "ok": False, "tools": [], "problem": why}
    return {"name": name, "ok": answer.value.problem is None, "tools": list(answer.value.tools), "problem": answer.value.problem}


def check_object(agent: AgentConfig, result: CheckResult) -> CheckObject:
    """A result as documents have it."""
    return {
        "name": agent.name,
        "provider": agent.provider,
        "model": agent.model,
        "ok": result.ok,
        "status": result.status,
        "detail": result.detail,
        "hint": result.hint,
    }


def said(result: CheckResult) -> str:
    """A result in one line, without the hint."""
    return result.status.replace("_", " ") + (f": {result.detail}" if result.detail else "")


def result_of(answer: Answered[Any], seconds: float) -> CheckResult:
    """What came of a provider's `check`, as a result in any case."""
    if answer.error is not None:
        return _failed(answer.error)
    if answer.late:
        return CheckResult(False, "error", f"no answer within {seconds:g} s", "try again; where it stays so, look at its address and its plugin")
    if not isinstance(answer.value, CheckResult):
        return CheckResult(False, "error", f"its plugin answers with {type(answer.value).__name__} instead of a CheckResult", "update the plugin")
    if not isinstance(answer.value.ok, bool) or answer.value.status not in get_args(CheckStatus):
        said = f"ok {answer.value.ok!r:.50}, status {answer.value.status!r:.50}"
        return CheckResult(False, "error", f"its plugin answers with a CheckResult that is none: {said}", "update the plugin")
    return answer.value


def masked_result(result: CheckResult, known: KnownSecrets) -> CheckResult:
    """Without secrets, and not endless: a stranger's words may quote anything."""

    def clear(text: object) -> str:
        return " ".join(known.mask(str(text)).split())[:_MOST_SHOWN]

    return CheckResult(bool(result.ok), result.status, clear(result.detail), None if result.hint is None else clear(result.hint))


def _failed(error: BaseException) -> CheckResult:
    if not isinstance(error, EscaleraError):
        return CheckResult(False, "error", f"its plugin's check failed: {type(error).__name__}: {error}", "update the plugin, or report this to its author")
    message, hint = error.message, error.hint
    match error:
        case SecretMissing():
            return CheckResult(False, "no_credentials", message, hint)
        case PluginError():
            return CheckResult(False, "not_installed", message, hint)
        case AuthFailed():
            return CheckResult(False, "refused", message, hint)
        case OutOfFunds() | RateLimited():
            return CheckResult(False, "quota", message, hint)
        case ModelNotFound():
            return CheckResult(False, "unknown_model", message, hint)
    return CheckResult(False, "error", message, hint)
