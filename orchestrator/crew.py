"""The configured agents, each with its provider, limits and prompt, built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.agents import agent_prompt, build_provider, tool_environ
from orchestrator.errors import ConfigError, foreign
from orchestrator.history.fit import Weighed
from orchestrator.mcp_client.listings import Listings
from orchestrator.mcp_client.servers import Offer, ToolServers
from orchestrator.plugins import PluginReport
from orchestrator.providers import Provider, ProviderKind
from orchestrator.settings.agent_config import AgentConfig
from orchestrator.settings.files import shown_path
from orchestrator.settings.known import KnownSecrets
from orchestrator.settings.lending import lent_credentials
from orchestrator.settings.limits import Limits
from orchestrator.settings.named_files import Places, leads_into, variables_of
from orchestrator.settings.paths import home_of
from orchestrator.settings.problems import raise_problems
from orchestrator.settings.project import obeyed_settings
from orchestrator.settings.resolution import Settings
from orchestrator.settings.tool_servers import TABLE, ToolServer


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent, ready to be asked."""

    name: str
    kind: str
    provider: Provider
    limits: Limits
    prompt: str
    extra_tools: tuple[str, ...] = ()
    """What it is offered although not every agent is: names of tools, or of plugins that have some."""
    weighed: Weighed = field(default_factory=Weighed, repr=False, compare=False)
    """What turns that ended are to it."""

    def asks_for(self, tool: str, plugin: str) -> bool:
        """Whether its settings name that tool, or the plugin that it is from."""
        return tool in self.extra_tools or plugin in self.extra_tools

    @property
    def window(self) -> int | None:
        """The model's context window in tokens: the setting goes before what the provider knows."""
        return self.limits.context_window_tokens or self.provider.capabilities.context_window_tokens

    @property
    def takes_tools(self) -> bool:
        """Whether it is offered tools; where not, it says by tag what they are for."""
        return self.provider.capabilities.takes_tools and self.limits.max_tool_iterations != 0

    @property
    def config_dir(self) -> str | None:
        """The configuration folder that an external session is bound to, for agents that have one."""
        return getattr(self.provider, "config_dir", None)

    def close(self) -> str | None:
        """Let go of what its provider keeps ready between two turns, for providers that keep anything. What went wrong there, for the user."""
        try:
            close: Callable[[], None] | None = getattr(self.provider, "close", None)
            if close is not None:
                close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # strangers' code; what was asked of it is done by now
            return f"agents.{self.name}: its provider ({self.kind}) did not let go of what it keeps: {foreign(error)}"
        return None


class Crew:
    """The agents of this run by name; one that is not used is never built, so that a broken one harms nobody else."""

    def __init__(
        self,
        settings: Settings,
        kinds: Mapping[str, ProviderKind],
        *,
        environ: Mapping[str, str],
        workspace: str,
        turn_timeout: float | None = None,
        with_secrets: bool = True,
        long_lived: bool = False,
        reports: Sequence[PluginReport] = (),
        trusted: Callable[[Path, bytes], bool] = lambda *_: False,
        known: KnownSecrets | None = None,
        listings: Listings | None = None,
        revise: Callable[[Limits], Limits] = lambda limits: limits,
    ) -> None:
        """`revise` gives the agents other limits than their settings do, where it is asked what those would change."""
        self._settings, self._kinds, self._environ, self._workspace = settings, kinds, environ, workspace
        self._turn_timeout, self._with_secrets, self._long_lived = turn_timeout, with_secrets, long_lived
        self._reports, self._trusted, self._known = reports, trusted, known
        self._revise = revise
        self._built: dict[str, Agent] = {}
        self._held = dict(self._held_servers())
        """Servers that are not started, by name, and why."""
        accepted = [self.accepted_server(name) for name in settings.servers if name not in self._held]
        self.tool_servers = ToolServers(accepted, environ=environ, workspace=workspace, listings=listings)
        """The MCP servers whose tools they are offered."""

    @property
    def primary(self) -> str | None:
        """The primary agent's name, `None` where none is configured."""
        return self._named("primary")

    @property
    def escalation(self) -> str | None:
        """The escalation agent's name, `None` where none is configured."""
        return self._named("escalation")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._settings.agents)

    def agent(self, name: str) -> Agent:
        """As its own file of instructions is now. Raises `ConfigError` for a name that is not configured, `PluginError` for a kind that is not installed."""
        config = self._settings.agent(name)
        if name not in self._built:
            self._keep_credentials(config, self._told(config))
            accepted = replace(config, options=self._accepted(f"agents.{name}", config.options, config.sources))
            others = self._settings.agents.values()
            provider = build_provider(
                accepted,
                self._kinds,
                environ=self._environ,
                workspace=Path(self._workspace),
                others=others,
                reports=self._reports,
                with_secrets=self._with_secrets,
                long_lived=self._long_lived,
                session_wait=self._settings.value("session_wait"),
                known=self._known,
            )
            if provider.capabilities.obeys_workspace:
                self._keep_credentials(config, self._obeyed())
            limits = self._revise(self._settings.limits(name))
            if self._turn_timeout is not None:
                limits = replace(limits, turn_timeout=self._turn_timeout)
            self._built[name] = Agent(name, config.provider, provider, limits, self._prompt(config), config.extra_tools)
        elif config.prompt_file is not None and (prompt := self._prompt(config)) != self._built[name].prompt:
            self._built[name] = replace(self._built[name], prompt=prompt)
        return self._built[name]

    def offered(self, agent: str, *, room: int | None, taken: Iterable[str]) -> Offer:
        """The tools of MCP servers for that agent: what is known of them, and where nobody is called what the last turn listed."""
        offer = self.tool_servers.offered(agent, room=room, taken=taken, foresees=not self._with_secrets)
        held = [why for name, why in self._held.items() if self._settings.servers[name].serves(agent)]
        return replace(offer, problems=(*offer.problems, *held))

    def tool_environ(self) -> dict[str, str]:
        """What programs that tools start may see of the environment: nothing that is a secret, be it by its name, of an agent or of a tool server."""
        return dict(self._tool_environ)

    @cached_property
    def _tool_environ(self) -> Mapping[str, str]:
        return tool_environ(self._environ, self._settings.agents.values(), self._settings.servers.values(), self._kinds)

    def close(self) -> Sequence[str]:
        """Let go of what the agents keep ready between two turns, and of the tool servers; no turn may run any more. What went wrong, for the user."""
        try:
            return [problem for agent in self._built.values() if (problem := agent.close()) is not None]
        finally:
            self.tool_servers.close()

    def accepted_server(self, name: str) -> ToolServer:
        """A server with the files of the project that it names in their places. Raises `ConfigError` for one that is not accepted as it is now."""
        server = self._settings.servers[name]
        words = {"command": server.command, "args": server.args, "env": server.env, "headers": server.headers}
        placed = self._accepted(f"{TABLE}.{name}", words, server.sources)
        return replace(server, args=placed["args"], env=placed["env"])

    def _accepted(self, owner: str, values: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Any]:
        """The values with the project's own files in their places, all of which the user has accepted as they are."""
        file = self._settings.project_file
        if file is None:
            return dict(values)
        places = Places(file.parent, Path(self._workspace))
        named = {key: places.placed(key, value) for key, value in values.items() if sources.get(key) == f"file:{file}"}
        placed = {**values, **named}
        places.require_accepted(owner, placed, {key: sources[key] for key in named}, self._trusted)
        return placed

    def _keep_credentials(self, config: AgentConfig, told: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """What its provider signs in with by itself goes to no address of the project's. Raises `ConfigError`."""
        file, kind = self._settings.project_file, self._kinds.get(config.provider)
        if kind is not None:
            project = f"file:{file}" if file is not None else "the project"
            variables, environ = kind.environment, self._environ
            raise_problems(lent_credentials(config, self._settings.layers, variables=variables, environ=environ, project=project, told=told))

    def _told(self, config: AgentConfig) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The variables that the project's file gives in words of the agent's command line."""
        file = self._settings.project_file
        if file is not None:
            values = {key: value for key, value in config.options.items() if config.sources.get(key) == f"file:{file}"}
            yield from Places(file.parent, Path(self._workspace)).variables(values)

    def _obeyed(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The variables in files of the workspace that the agent's program goes by."""
        for part in obeyed_settings(Path(self._workspace), home=home_of(self._environ), is_trusted=self._trusted):
            yield shown_path(part.path), variables_of(part.text)

    def _held_servers(self) -> Iterator[tuple[str, str]]:
        for name in self._settings.servers:
            try:
                self.accepted_server(name)
            except ConfigError as error:
                yield name, f"{error.message}: {error.hint}"

    def _prompt(self, config: AgentConfig) -> str:
        """A prompt file of the project's own counts only as the user has accepted it, like the file that names it (page 5)."""
        project, prompt = self._settings.project_file, config.prompt_file
        if project is None or prompt is None or config.sources.get("prompt_file") != f"file:{project}":
            return agent_prompt(config)
        is_theirs = project.parent in prompt.parents or leads_into(project.parent, prompt)
        return agent_prompt(config, found=True, accepts=self._trusted if is_theirs else lambda *_: True)

    def _named(self, role: str) -> str | None:
        name: str | None = self._settings.value(role)
        return name
