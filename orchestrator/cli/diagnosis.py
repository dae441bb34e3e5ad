"""From what was found to what works, what does not, and what to do next."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.agents import agent_problems
from orchestrator.cli.checks import checked_agents, said
from orchestrator.cli.front import Front
from orchestrator.cli.installing import missing_plugins
from orchestrator.cli.survey import SECONDS, Survey
from orchestrator.errors import ConfigError, PluginError, StoreError
from orchestrator.plugins import DISTRIBUTIONS, PluginManager, missing_kind
from orchestrator.probes.aws import aws_facts
from orchestrator.probes.leftovers import Marked, left_behind
from orchestrator.probes.servers import Server, is_loopback
from orchestrator.providers import CheckResult
from orchestrator.settings.agent_config import AgentConfig
from orchestrator.settings.hiding import masked
from orchestrator.settings.problems import ConfigProblems
from orchestrator.settings.resolution import Settings
from orchestrator.settings.secrets import SecretRef
from orchestrator.store import Health, Store

if TYPE_CHECKING:
    from orchestrator.documents.kinds.agents import FindingArea, FindingStatus

CHECK_SECONDS = 30.0
"""For reading the whole database."""

_MODELS_SHOWN = 5
_REGION_HINT = "set AWS_DEFAULT_REGION (AWS_REGION is not read), or `region` for the agent"
ROLES = ("primary", "escalation")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `next` is what to do about it."""

    area: FindingArea
    name: str
    status: FindingStatus
    detail: str
    next: str | None = None


def read_settings(front: Front) -> tuple[Settings | None, list[str]]:
    """The settings and what is wrong with them; without settings, why they cannot be read."""
    try:
        settings = front.settings
        return settings, [str(problem) for problem in agent_problems(settings.agents.values(), front.plugins.kinds())]
    except ConfigProblems as error:
        return None, [str(problem) for problem in error.problems]
    except ConfigError as error:
        return None, [error.message + (f" ({error.hint})" if error.hint else "")]
    except PluginError as error:  # plugins.strict
        return None, [error.message]


def read_plugins(front: Front, settings: Settings | None) -> PluginManager:
    """The plugins as configured, or all of them where the configuration cannot be read."""
    return front.plugins if settings is not None else front.all_plugins()


def diagnose(front: Front, settings: Settings | None, problems: Sequence[str], plugins: PluginManager, survey: Survey) -> list[Finding]:
    """All findings, the roles first."""
    return [
        *_roles(front, settings, survey),
        *_configuration(front, settings, problems),
        *map(_server, survey.servers),
        *_claude(front, survey),
        *_aws(survey),
        *_keys(survey),
        *_embedded(survey),
        *_plugins(plugins),
        *_beside_plugins(front, settings, plugins),
        *_kept(front, survey.processes),
    ]


# -- who would answer -----------------------------------------------------------------------------


def _roles(front: Front, settings: Settings | None, survey: Survey) -> Iterator[Finding]:
    if settings is None:
        yield from (Finding("roles", role, "problem", "the configuration cannot be used", "mend what is named below") for role in ROLES)
        return
    named = {role: settings.explain(role).value for role in ROLES}
    agents = {name: settings.agent(name) for name in named.values() if name is not None}
    here = [agent for agent in agents.values() if _stays_here(agent)]
    results = checked_agents(front, here, seconds=SECONDS)
    for role, name in named.items():
        if name is None:
            yield Finding("roles", role, "problem", "no agent has this role", f'set {role} = "NAME" in {settings.user_file}, or run `escalera doctor --write`')
        elif name in results:
            result = results[name]
            status: FindingStatus = "works" if result.ok else "problem"
            yield Finding("roles", role, status, f"{name} ({agents[name].provider}): {_detail(result)}", None if result.ok else result.hint)
        else:
            yield _elsewhere(role, agents[name], front, survey)


def _stays_here(agent: AgentConfig) -> bool:
    """Whether asking it contacts this machine only."""
    addresses = [agent.options.get(key) for key in ("base_url", "endpoint_url")]
    return agent.provider in ("embedded", "claude-cli") or any(isinstance(url, str) and is_loopback(url) for url in addresses)


def _elsewhere(role: str, agent: AgentConfig, front: Front, survey: Survey) -> Finding:
    """An agent on another machine, which is not contacted: is everything there that it needs?"""
    who = f"{agent.name} ({agent.provider})"
    if agent.provider not in survey.installed:
        error = missing_kind(agent.provider, survey.installed)
        return Finding("roles", role, "problem", f"{who}: {error.message}", error.hint)
    unset = next((value.env for value in agent.options.values() if isinstance(value, SecretRef) and value.env and not front.environ.get(value.env)), None)
    if unset is not None:
        return Finding("roles", role, "problem", f"{who}: the environment variable {unset} is not set", f"export {unset}=…")
    if agent.provider == "openrouter" and not any(agent.options.get(key) for key in ("api_key", "token_cmd", "headers")):
        return Finding("roles", role, "problem", f"{who}: it has no API key", f'set api_key = {{ env = "OPENROUTER_API_KEY" }} under [agents.{agent.name}]')
    if agent.provider == "bedrock":
        options = {key: str(agent.options[key]) for key in ("profile", "region") if agent.options.get(key)}
        facts = aws_facts(front.environ, profile=options.get("profile"), region=options.get("region"))
        if facts.credentials is None or facts.region is None:
            missing = "credentials" if facts.credentials is None else "region"
            return Finding("roles", role, "problem", f"{who}: no AWS {missing} found", "run `aws configure`" if missing == "credentials" else _REGION_HINT)
    return Finding("roles", role, "ready", f"{who}: what it needs is there; it was not contacted", f"`escalera agents check {agent.name}` asks it")


def _detail(result: CheckResult) -> str:
    return result.detail if result.ok and result.detail else said(result)


# -- configuration --------------------------------------------------------------------------------


def _configuration(front: Front, settings: Settings | None, problems: Sequence[str]) -> Iterator[Finding]:
    user = (settings.user_file if settings is not None else None) or front.paths.user_file
    if user.is_symlink() and not user.exists():
        detail = f"{user} is a link to {os.readlink(user)}, where nothing is"
        yield Finding("configuration", "user file", "problem", detail, "put the file there, or remove the link")
    elif os.path.lexists(user):
        yield Finding("configuration", "user file", "works" if settings is not None else "note", str(user))
    else:
        yield Finding("configuration", "user file", "absent", f"{user} is not there yet", "run `escalera doctor --write`")
    if settings is not None and settings.project_file is not None:
        trusted = "trusted" if settings.project_trusted else "not trusted: it can change limits and little else"
        yield Finding("configuration", "project file", "note", f"{settings.project_file}, {trusted}", None if settings.project_trusted else "escalera trust")
    for problem in problems:
        yield Finding("configuration", "problem", "problem", problem, "`escalera settings list` shows every setting with its source")


# -- what there is --------------------------------------------------------------------------------


def _server(server: Server) -> Finding:
    status: Mapping[str, FindingStatus] = {"works": "works", "no_models": "problem", "needs_key": "note", "other": "note", "absent": "absent"}
    hints = {
        "no_models": "ollama pull qwen2.5-coder" if server.name == "Ollama" else "load a model there",
        "needs_key": 'give its agent an api_key = { env = "NAME" }',
    }
    models = f"{len(server.models)} model{'' if len(server.models) == 1 else 's'}: {', '.join(server.models[:_MODELS_SHOWN])}"
    more = ", …" if len(server.models) > _MODELS_SHOWN else ""
    detail = f"{models}{more}" if server.status == "works" else server.detail
    return Finding("servers", server.name, status[server.status], f"{masked('url', server.url)}: {detail}", hints.get(server.status))


def _claude(front: Front, survey: Survey) -> Iterator[Finding]:
    result = survey.kinds["claude-cli"]
    if result is not None:
        status: FindingStatus = "works" if result.ok else "absent" if result.status == "not_installed" else "problem"
        yield Finding("claude", "claude", status, _detail(result), result.hint)
        return
    program = shutil.which("claude", path=front.environ.get("PATH", os.defpath))
    if program is None:
        yield Finding("claude", "claude", "absent", "neither the program nor its plugin is here", f"escalera plugins install {DISTRIBUTIONS['claude-cli']}")
    else:
        yield Finding("claude", "claude", "note", f"{program} is here, and its plugin is not", f"escalera plugins install {DISTRIBUTIONS['claude-cli']}")


def _aws(survey: Survey) -> Iterator[Finding]:
    facts = survey.aws
    if facts.problem is not None:
        yield Finding("aws", "AWS", "problem", facts.problem, "`aws configure list` shows what AWS tools find")
    if facts.credentials is None:
        yield Finding("aws", "credentials", "absent", "none found in the environment or in ~/.aws", "run `aws configure`, if you use Amazon Bedrock")
        return
    yield Finding("aws", "credentials", "ready", f"{facts.credentials}; nobody was asked whether they hold")
    if facts.region is None:
        yield Finding("aws", "region", "problem", "none is set", _REGION_HINT)
    else:
        yield Finding("aws", "region", "ready", facts.region)
    if "bedrock" not in survey.installed:
        yield Finding("aws", "plugin", "note", "the provider kind bedrock is not installed", f"escalera plugins install {DISTRIBUTIONS['bedrock']}")


def _keys(survey: Survey) -> Iterator[Finding]:
    for vendor in survey.keys:
        where = f' at base_url = "{vendor.base_url}"' if vendor.base_url else ""
        yield Finding("keys", vendor.variable, "ready", f'{vendor.name}: provider = "{vendor.provider}"{where}; nobody was asked whether it holds')
    if not survey.keys:
        yield Finding("keys", "API keys", "absent", "no key of a vendor that is known is in the environment")


def _embedded(survey: Survey) -> Iterator[Finding]:
    result = survey.kinds["embedded"]
    if result is None:
        yield Finding("embedded", "embedded model", "absent", "its plugin is not installed", f"escalera plugins install {DISTRIBUTIONS['embedded']}")
    else:
        yield Finding("embedded", "embedded model", "works" if result.ok else "problem", _detail(result), result.hint)


def _plugins(plugins: PluginManager) -> Iterator[Finding]:
    for report in plugins.reports():
        version = f"{report.distribution} {report.version}"
        if report.problem is None:
            yield Finding("plugins", report.name, "works", f"{version}: {', '.join(report.kinds) or 'no provider kinds'}")
        elif report.blocked:
            yield Finding("plugins", report.name, "note", f"{version}: {report.problem}")
        else:
            yield Finding("plugins", report.name, "problem", f"{version}: {report.problem}", f"update it, or list it in plugins.blocked: {report.name}")
    if not plugins.reports():
        yield Finding("plugins", "plugins", "problem", "none is installed", f"escalera plugins install {DISTRIBUTIONS['openai']}")


def _beside_plugins(front: Front, settings: Settings | None, plugins: PluginManager) -> Iterator[Finding]:
    """Plugins that are wanted and missing, and what the tools for the workspace run commands in."""
    for missing in missing_plugins(front) if settings is not None else ():
        yield Finding("plugins", missing.distribution, "problem", f"wanted, missing: {missing.problem}", "escalera plugins sync")
    if not any(report.name == "workspace" and report.loaded for report in plugins.reports()) or sys.platform != "linux":
        return
    if shutil.which("bwrap", path=front.environ.get("PATH")):
        yield Finding("plugins", "bubblewrap", "ready", "commands that agents run can be kept to the workspace")
    else:
        yield Finding("plugins", "bubblewrap", "absent", "commands that agents run are not kept to the workspace", "install the package bubblewrap")


# -- what is kept ---------------------------------------------------------------------------------


def _kept(front: Front, marked: Sequence[Marked] | None) -> Iterator[Finding]:
    folder = front.paths.data
    if _writable(folder):
        yield Finding("store", "folder", "works", str(folder) if folder.is_dir() else f"{folder} is not there yet and can be made")
    else:
        yield Finding("store", "folder", "problem", f"{folder} cannot be written", "set ESCALERA_HOME to a folder that can be written")
    try:
        store = front.store(read_only=True)
        health, at_rest = store.check(CHECK_SECONDS), _sessions_at_rest(store)
    except StoreError as error:
        yield Finding("store", "database", "problem", error.message, error.hint)
        return
    yield from _database(health)
    yield from _processes(marked, folder, at_rest)


def _database(health: Health) -> Iterator[Finding]:
    if not health.journal:
        yield Finding("store", "database", "absent", "there is none yet; the first turn makes it")
        return
    held = f"{health.sessions:,} sessions, {health.turns:,} turns, journal mode {health.journal}"
    for fault in health.faults:
        yield Finding("store", "database", "problem", fault, "copy the folder, then run `escalera ask`: what is found damaged is set aside and saved from")
    if not health.complete:
        yield Finding("store", "database", "note", f"{held}; the check did not come to its end within {CHECK_SECONDS:g} s and found nothing until then")
    elif not health.faults:
        yield Finding("store", "database", "works", f"{held}; every page was read and is sound")


def _writable(folder: Path) -> bool:
    """Whether it can be written, or made where it is not there; nothing is tried out."""
    there = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _processes(marked: Sequence[Marked] | None, data: Path, at_rest: Collection[str]) -> Iterator[Finding]:
    """Only of sessions in which nobody works is it sure that their processes are left over."""
    if marked is None:
        yield Finding("processes", "left behind", "note", "they cannot be looked for on this system")
        return
    left = left_behind(marked, data, at_rest)
    if not left:
        yield Finding("processes", "left behind", "works", "none")
    for process in left:
        detail = f"{process.name} (process {process.pid}) of session {process.session}, in which no turn runs"
        yield Finding("processes", "left behind", "problem", detail, f"kill {process.pid}; the next turn of any session ends it too")


def _sessions_at_rest(store: Store) -> set[str]:
    return {summary.id for summary in store.list(None) if not summary.in_use}
