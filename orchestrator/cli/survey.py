"""What there is on this machine for Escalera to work with: every probe of the doctor, asked at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from orchestrator.agents import agent_context
from orchestrator.cli.checks import masked_result, result_of
from orchestrator.cli.front import Front
from orchestrator.plugins import PluginManager
from orchestrator.probes.aws import AwsFacts, aws_facts
from orchestrator.probes.keys import Vendor, keys_found
from orchestrator.probes.leftovers import Marked, marked_processes
from orchestrator.probes.servers import Server, candidates, look_at, versioned
from orchestrator.probes.side_by_side import Answered, side_by_side
from orchestrator.probes.starting import Found
from orchestrator.providers import CheckResult, ProviderKind
from orchestrator.settings.hiding import masked
from orchestrator.settings.resolution import Settings

SECONDS = 6.0
"""For all of it; each probe has shorter limits of its own, Claude Code two of 2.5 s."""

_LOCAL_KINDS = ("claude-cli", "embedded")
"""Kinds that can be asked without any network, and without any option but the program."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The answers. What did not answer in time counts as not there."""

    servers: Sequence[Server]
    aws: AwsFacts
    keys: Sequence[Vendor]
    processes: Sequence[Marked] | None
    kinds: Mapping[str, CheckResult | None]
    """What the local kinds say of themselves; `None` where no plugin brings the kind."""
    installed: frozenset[str]
    """All provider kinds."""
    claude_bin: str | None = None
    """The program that an agent of Claude Code's names; without one it is looked for on PATH."""

    @property
    def found(self) -> Found:
        """What of it can be used."""
        usable = {kind for kind, result in self.kinds.items() if result is not None and result.ok}
        return Found(self.servers, "claude-cli" in usable, self.aws, self.keys, "embedded" in usable, self.installed, self.claude_bin)


def survey(front: Front, settings: Settings | None, plugins: PluginManager, *, servers: Sequence[str]) -> Survey:
    """Look around. `servers` are base URLs to ask in place of the usual ones. Contacts loopback only, unless they say otherwise."""
    environ = front.environ
    options = [agent.options.get("base_url") for agent in settings.agents.values()] if settings else []
    configured = [url for url in options if isinstance(url, str) and masked("base_url", url) == url]  # one with credentials is refused anyway
    addresses = [("named", versioned(url)) for url in servers] or candidates(environ, configured)
    kinds = {name: plugins.kinds().get(name) for name in _LOCAL_KINDS}
    questions: dict[str, Callable[[], Any]] = {url: partial(look_at, name, url) for name, url in addresses}
    program = _program(settings)
    given = {"claude-cli": {"bin": program}} if program is not None else {}
    questions |= {name: partial(_asked, kind, given.get(name, {}), front, settings, plugins) for name, kind in kinds.items() if kind is not None}
    questions |= {"aws": partial(aws_facts, environ), "processes": marked_processes}
    if settings is not None:
        front.learn_secrets(settings)
    answers = side_by_side(questions, seconds=SECONDS)
    return Survey(
        servers=[answers[url].value or Server(name, url, "absent", detail=_silence(answers[url])) for name, url in addresses],
        aws=answers["aws"].value or AwsFacts(None, None, "default", _silence(answers["aws"])),
        keys=keys_found(environ),
        processes=answers["processes"].value,
        kinds={kind: None if found is None else masked_result(result_of(answers[kind], SECONDS), front.known_secrets) for kind, found in kinds.items()},
        installed=frozenset(plugins.kinds()),
        claude_bin=program,
    )


def _program(settings: Settings | None) -> str | None:
    """The program of the first agent of Claude Code's that names one."""
    agents = settings.agents.values() if settings else ()
    return next((str(agent.options["bin"]) for agent in agents if agent.provider == "claude-cli" and "bin" in agent.options), None)


def _asked(kind: ProviderKind, options: Mapping[str, Any], front: Front, settings: Settings | None, plugins: PluginManager) -> Any:
    """What an agent of that kind would say that has only these options, among the agents that are configured."""
    others = [agent for agent in settings.agents.values() if agent.provider != kind.name] if settings else []
    context = agent_context(kind, {}, others, plugins.kinds(), name=kind.name, environ=front.environ, workspace=front.cwd)
    return kind.factory(kind.options(**options), context).check()


def _silence(answer: Answered[Any]) -> str:
    return f"it could not be looked at: {answer.error}" if answer.error is not None else f"no answer within {SECONDS:g} s"
