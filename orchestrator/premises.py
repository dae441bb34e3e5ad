"""What a program of ours works with: settings, store, agents and texts, each made when it is first asked for."""

from __future__ import annotations

import json
import os
import random
import sys
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from orchestrator.clock import Clock, SystemClock
from orchestrator.errors import ConfigError, EscaleraError
from orchestrator.settings.declarations import SETTINGS
from orchestrator.settings.paths import Paths, paths_of
from orchestrator.workspaces import same_workspace

if TYPE_CHECKING:
    from orchestrator.artifacts import ArtifactTerms
    from orchestrator.broker import Broker
    from orchestrator.crew import Crew
    from orchestrator.escalation import Workplace
    from orchestrator.hooks import Hooks
    from orchestrator.hookspecs import Sensing
    from orchestrator.lease import Renewals
    from orchestrator.logbook import Logbook
    from orchestrator.memory.upkeep import Upkeep
    from orchestrator.permissions import Rule, RuleSet
    from orchestrator.planning.case import Additions, Expiry
    from orchestrator.plugins import PluginManager
    from orchestrator.routing import Rules
    from orchestrator.settings.grants import GrantStore
    from orchestrator.settings.known import KnownSecrets
    from orchestrator.settings.limits import Limits
    from orchestrator.settings.live import LiveSettings
    from orchestrator.settings.problems import Problem
    from orchestrator.settings.project import Project
    from orchestrator.settings.resolution import Settings, Sources
    from orchestrator.settings.trust import TrustStore
    from orchestrator.store import Store
    from orchestrator.templates import Override, Templates
    from orchestrator.tools import Bench
    from orchestrator.wires import Wires

_MOST_NEWS = 20
"""Notices that are kept for whoever asks for them; of more, the last."""


class Premises:
    """Those of one run. Opening is lazy: `paths` needs no configuration, and `--help` nothing at all."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        config_file: Path | None,
        sets: Sequence[str],
        flags: Mapping[str, str],
        tell: Callable[[str], None],
        verbose: bool = False,
        writes_log: bool = True,
    ) -> None:
        """`tell` says something to the user; `writes_log` is false for what leaves nothing behind, and `verbose` tells all that the log is told."""
        self.environ, self.cwd = environ, cwd
        self._config_file, self._sets, self._flags, self._tell = config_file, sets, flags, tell
        self._verbose, self._writes_log = verbose, writes_log
        self._store: Store | None = None
        self._crews: list[Crew] = []
        self._others: dict[str, Self] = {}
        self._told = 0
        self._said: set[str] = set()
        self._news: deque[str] = deque(maxlen=_MOST_NEWS)
        self._plugins: PluginManager | None = None
        self._templates: tuple[list[Override], Templates] | None = None
        self._turns = False
        """Whether turns were taken."""
        self.clock: Clock = SystemClock()

    @cached_property
    def paths(self) -> Paths:
        return paths_of(self.environ, platform=sys.platform)

    @cached_property
    def log(self) -> Logbook:
        """The log; without a file where there is no place for one."""
        from orchestrator.logbook import Logbook

        tell = self._tell if self._verbose else None
        try:
            file, begins = self.paths.log_file if self._writes_log else None, self.paths.data.is_dir
        except ConfigError:
            return Logbook(None, self.clock, mask=self.masked, tell=tell)
        return Logbook(file, self.clock, mask=self.masked, tell=tell, begins=begins)

    @cached_property
    def known_secrets(self) -> KnownSecrets:
        """The secrets of the configured agents, as far as they are known by now."""
        from orchestrator.settings.known import KnownSecrets

        return KnownSecrets()

    def masked(self, text: str) -> str:
        """The text without secrets: those of the configuration, and what looks like one."""
        from orchestrator.documents.masking import mask_secrets

        return mask_secrets(self.known_secrets.mask(text))

    @property
    def wires(self) -> Wires:
        """What went over the wire in the last turns."""
        from orchestrator.wires import Wires

        return Wires(self.paths.wires, self.known_secrets, self.log)

    @property
    def sources(self) -> Sources:
        """Where the settings come from."""
        from orchestrator.settings.resolution import Sources

        return Sources(self.environ, self.cwd, self.paths, self._config_file, self._flags, self._sets)

    @cached_property
    def live(self) -> LiveSettings:
        from orchestrator.settings.live import LiveSettings

        live = LiveSettings(self.sources, self._problems_of_agents)
        self.tell_once(*live.current.notices)
        return live

    def _problems_of_agents(self, settings: Settings) -> list[Problem]:
        """What the providers would say to the agents' tables, as far as they are loaded."""
        from orchestrator.agents import agent_problems, kind_problems

        if self._plugins is None:
            return []
        agents, kinds = settings.agents.values(), self._plugins.kinds()
        return [*kind_problems(agents, kinds), *agent_problems(agents, kinds)]

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self.live.current

    def refresh(self) -> None:
        """Take in changed files, and say what there is to say about them: before each turn of a command that takes several."""
        for notice in self.live.refresh():
            self.notice(notice)

    def tell_once(self, *notices: str) -> None:
        """Notices about the configuration, each of them once in a run."""
        for notice in notices:
            if notice not in self._said:
                self._said.add(notice)
                self.notice(notice)

    def notice(self, text: str) -> None:
        """Something the user should know, said and put into the log."""
        self._tell(text)
        self._news.append(text)
        self.log("notice", text=text)

    def take_news(self) -> list[str]:
        """What was said since this was asked last, for whoever does not see where it is said: the client of a server. May be called from any thread."""
        news = []
        with suppress(IndexError):
            while True:
                news.append(self._news.popleft())
        return news

    def failed(self, error: EscaleraError) -> None:
        """Put an error into the log; whoever caught it tells the user."""
        self.log("error", type=error.type, message=error.message, hint=error.hint)

    def crashed(self, fault: BaseException) -> Path | None:
        """Put a fault of ours into the log, whatever the command: the file, or `None` where it could not be written."""
        import traceback

        trace = "".join(traceback.format_exception(fault))
        with suppress(ConfigError):
            self.log.file = self.paths.log_file
        return self.log.file if self.log.keep("crash", type=type(fault).__name__, message=str(fault), traceback=trace) else None

    @property
    def workspace(self) -> str:
        """The directory whose sessions are meant."""
        return str(self.cwd)

    @property
    def plugins(self) -> PluginManager:
        """The installed plugins, loaded as the settings say; what is wrong with one is told once."""
        if self._plugins is None:
            self._plugins = self.found_plugins(strict=self.settings.value("plugins.strict"))
            self.tell_once(*(str(report) for report in self._plugins.reports() if report.problem and not report.blocked))
        return self._plugins

    def found_plugins(self, *, strict: bool = False) -> PluginManager:
        """The installed plugins, for who tells what is wrong with them himself."""
        return self._loaded_plugins(blocked=self.settings.value("plugins.blocked"), strict=strict)

    def all_plugins(self) -> PluginManager:
        """The installed plugins where no settings can be read: all of them."""
        return self._loaded_plugins()

    def _loaded_plugins(self, *, blocked: Sequence[str] = (), strict: bool = False) -> PluginManager:
        from orchestrator.plugins import BUILT_IN, PluginManager, installed_entry_points

        return PluginManager.load(installed_entry_points(), built_in=BUILT_IN, blocked=blocked, strict=strict)

    def plugins_at_hand(self) -> PluginManager | None:
        """The installed plugins, for checking a change of the configuration: none where that cannot be used as it is."""
        from orchestrator.settings.resolution import read_files, resolved

        settings, problems = resolved(self.sources, read_files(self.sources, to_change=True))
        return None if problems else self._loaded_plugins(blocked=settings.value("plugins.blocked"), strict=settings.value("plugins.strict"))

    @cached_property
    def hooks(self) -> Hooks:
        """The plugins' hooks, for calling."""
        from orchestrator.hooks import Hooks

        return Hooks(self.plugins.implementations, strict=self.settings.value("plugins.strict"))

    def project(self, workspace: str) -> Project:
        """What the workspace brings beside its configuration, as it is now."""
        from orchestrator.settings.paths import home_of
        from orchestrator.settings.project import project_of

        return project_of(Path(workspace), home=home_of(self.environ), trusted=self.trusted)

    def accepted_command(self, path: str) -> tuple[Sequence[str], Callable[[], None]]:
        """The command of a setting, and what raises `ConfigError` where files of the project that it names are not accepted as they are now."""
        from orchestrator.settings.named_files import Places

        settings, source = self.settings, self.settings.explain(path).source
        words = settings.command(path, home=self.sources.home)
        if settings.project_file is None or source != f"file:{settings.project_file}":
            return words, lambda: None
        places = Places(settings.project_file.parent, Path(self.workspace))
        placed = places.placed_words(words)
        owner, _, key = path.rpartition(".")
        return placed, lambda: places.require_accepted(owner, {key: placed}, {key: source}, self.trusted.is_trusted)

    @property
    def trusted(self) -> TrustStore:
        """Which files of projects the user has accepted."""
        from orchestrator.settings.trust import TrustStore

        return TrustStore(self.paths.trust_file)

    def additions(self, project: Project) -> Additions:
        """What turns are planned with beside the session: plugins, rules, and the project's instructions where they are trusted."""
        from orchestrator.planning.case import Additions

        if project.notice is not None:
            self.tell_once(project.notice)
        instructions = project.instructions
        trusted = instructions.text if instructions is not None and instructions.accepted else ""
        return Additions(self.hooks, self.rules, self.sensing, trusted, project.unaccepted)

    @property
    def grants(self) -> GrantStore:
        """What the user has allowed when a tool asked."""
        from orchestrator.settings.grants import GrantStore

        return GrantStore(self.paths.grants_file)

    @property
    def permissions(self) -> RuleSet:
        """The rules on what tools may do, as the settings are now. Raises `ConfigError` that names one which is none."""
        from orchestrator.permissions import RuleSet, rule_of

        def rules(path: str) -> tuple[Rule, ...]:
            try:
                return tuple(map(rule_of, self.settings.value(path) or ()))  # not as it is shown, where `***` may stand in a pattern
            except ValueError as error:
                raise ConfigError(f"{path} ({self.settings.source(path)}): {error}") from error

        return RuleSet(rules("permissions.deny"), rules("permissions.ask"), rules("permissions.allow"))

    def _bench(self, crew: Crew, workspace: str) -> Callable[[str, str, Callable[[str], None]], Bench]:
        """What tools of a turn there work with."""
        from orchestrator.permits import Permits, Workshop
        from orchestrator.tools import Bench

        rules, root = self.permissions, os.path.realpath(workspace)
        own = (os.path.realpath(folder) for folder in (self.paths.config, self.paths.data, self.paths.state))
        off_limits = tuple(folder for folder in dict.fromkeys(own) if not Path(root).is_relative_to(folder))

        def bench(agent: str, session: str, tell: Callable[[str], None]) -> Bench:
            shop = Workshop(agent, session, root, rules, self.grants, off_limits, self.new_id, self.clock.now, tell)
            return Bench(partial(Permits, shop), crew.tool_environ(), off_limits)

        return bench

    @property
    def rules(self) -> Rules:
        """How what is seen in a prompt is weighed, as the settings are now."""
        from orchestrator.routing import rules_of

        value = self.settings.value
        return rules_of(
            value("routing.threshold"),
            value("routing.factors") or (),
            source=self.settings.source("routing.factors"),
            repeated_prompts=value("routing.repeated_prompts"),
            classifier=value("routing.classifier"),
            classifier_timeout=value("routing.classifier_timeout"),
        )

    @property
    def sensing(self) -> Sensing:
        """What the built-in sensors look for, as the settings are now."""
        from orchestrator.hookspecs import Sensing

        value = self.settings.value
        return Sensing(
            long_prompt_chars=value("routing.long_prompt_chars"),
            keywords=value("routing.keywords"),
            verbs=value("routing.verbs"),
            question_words=value("routing.question_words"),
            weights={
                "long_prompt": value("routing.long_prompt_weight"),
                "keywords": value("routing.keywords_weight"),
                "verbs": value("routing.verbs_weight"),
                "code": value("routing.code_weight"),
                "paths": value("routing.paths_weight"),
                "open_questions": value("routing.open_questions_weight"),
            },
        )

    def templates(self, project: Project) -> Templates:
        """The texts: the user's own, the project's where they are trusted, the plugins', the built-in ones."""
        from orchestrator.templates import Templates

        overrides = self.overrides(project)
        if self._templates is None or self._templates[0] != overrides:  # what did not change is not read and compiled again
            before = None if self._templates is None else self._templates[1]
            self._templates = overrides, Templates(overrides, tell=self.tell_once, before=before)
        return self._templates[1]

    def overrides(self, project: Project) -> list[Override]:
        """The files that may stand in for built-in texts."""
        from orchestrator.templates import Override, overrides_in

        folders = self.hooks.template_folders()
        self.tell_once(*folders.notices)
        return [
            *overrides_in(self.paths.config / "templates", "user"),
            *(Override(part.path, "project", part.content, accepted=part.accepted) for part in project.templates),
            *(override for plugin, folder in folders.values for override in overrides_in(folder, "plugin", plugin=plugin.name)),
        ]

    @property
    def expiry(self) -> Expiry:
        from orchestrator.planning.case import Expiry

        return Expiry(need_hours=self.settings.value("need_expiry_hours"), waiting_hours=self.settings.value("waiting_expiry_hours"))

    def crew(
        self,
        workspace: str,
        *,
        settings: Settings | None = None,
        turn_timeout: float | None = None,
        with_secrets: bool = True,
        long_lived: bool = False,
        revise: Callable[[Limits], Limits] = lambda limits: limits,
    ) -> Crew:
        """The configured agents, as they are now or as those settings have them, at work in that directory.

        `with_secrets` is false where nobody is called, `long_lived` true where many turns are taken; `revise` gives them other limits.
        """
        from orchestrator.crew import Crew
        from orchestrator.mcp_client.listings import Listings
        from orchestrator.probes.leftovers import owner_marks

        settings = settings or self.settings
        self.learn_secrets(settings)
        crew = Crew(
            settings,
            self.plugins.kinds(),
            environ={**self.environ, **owner_marks(self.paths.data)},
            workspace=workspace,
            turn_timeout=turn_timeout,
            with_secrets=with_secrets,
            long_lived=long_lived,
            reports=self.plugins.reports(),
            trusted=self.trusted.is_trusted,
            known=self.known_secrets,
            listings=Listings(self.paths.listings, self.known_secrets, self.clock, self.log, platform=sys.platform),
            revise=revise,
        )
        if with_secrets:  # nobody is called through any other, so it keeps nothing
            self._crews.append(crew)
        return crew

    def let_go(self, crew: Crew) -> None:
        """Let go of a crew before the end; none of its turns may run any more."""
        if crew in self._crews:
            self._crews.remove(crew)
            self.tell_once(*crew.close())

    def learn_secrets(self, settings: Settings) -> None:
        """From now on, the secrets of these settings and of their agents' environment are known, but for those that a program must be run for."""
        from orchestrator.settings.known import written_secrets
        from orchestrator.settings.secrets import secret_texts

        kinds = self.plugins.kinds()
        for agent in settings.agents.values():
            self.known_secrets.add(written_secrets("", agent.options))
            self.known_secrets.add(secret_texts(agent.options, environ=self.environ))
            variables = kinds[agent.provider].environment if agent.provider in kinds else ()
            self.known_secrets.add(self.environ.get(name, "") for name in variables)
        for setting in SETTINGS:
            if setting.is_command:
                self.known_secrets.add(written_secrets(setting.name, settings.command(setting.path, home=None)))
        for server in settings.servers.values():
            self.known_secrets.add(written_secrets("", server.texts))
            self.known_secrets.add(secret_texts(server.texts, environ=self.environ))

    def greet(self) -> None:
        """Without any configuration: say what answers, and how to name a real model."""
        from orchestrator.settings.resolution import zero_config_notice

        notice = zero_config_notice(self.settings)
        if notice is not None:
            self._tell(notice)

    def store(self, *, read_only: bool = False) -> Store:
        """The store in the data folder; what it has to say stands on stderr, and what it finds later follows when it is closed.

        Whoever may write there ends first what a killed run has left behind.
        """
        from orchestrator.store.sqlite import open_store

        self._store = open_store(self.paths.data, clock=self.clock, read_only=read_only)
        self._tell_notices(self._store)
        if not read_only:
            self._reap(self._store)
        return self._store

    def _reap(self, store: Store) -> None:
        from orchestrator.reaping import reap

        left = reap(store, self.paths.data)
        if left:
            names = ", ".join(f"{process.name} ({process.pid})" for process in left)
            self.notice(f"ended what a run of Escalera that was killed had left behind: {names}")

    def _tell_notices(self, store: Store) -> None:
        for notice in store.notices[self._told :]:
            self.notice(notice)
        self._told = len(store.notices)

    def broker(self, store: Store) -> Broker:
        """Between the agents that ask and whoever answers; a question lives by the settings of the moment it is asked."""
        from orchestrator.broker import Broker, Terms

        def terms() -> Terms:
            ttl, max_age, keep = (timedelta(seconds=self.settings.value(f"questions.{name}")) for name in ("ttl", "max_age", "keep"))
            return Terms(ttl, max_age, keep)

        return Broker(store, self.clock, terms, self.new_id)

    def child_arguments(self) -> list[str]:
        """The program once more, with the configuration that this run was given: `child_input` belongs on its standard input."""
        config = [] if self._config_file is None else ["--config", str(self._config_file)]
        return [sys.executable, "-m", "orchestrator", *config, "--given-on-stdin", "--no-input"]

    def child_input(self) -> str:
        """The settings of this run's command line. They may be secrets, and the line of a process that lives on is there for all to read."""
        return json.dumps({"sets": list(self._sets), "flags": dict(self._flags)})

    def workplace(self, store: Store, workspace: str, *, turn_timeout: float | None = None, long_lived: bool = False, crew: Crew | None = None) -> Workplace:
        """Where turns are taken: one of them, or with `long_lived` as many as come until `close`; by that crew, or a new one."""
        from orchestrator.escalation import Workplace

        project = self.project(workspace)
        self._turns = True
        crew = crew or self.crew(workspace, turn_timeout=turn_timeout, long_lived=long_lived)
        return Workplace(
            store=store,
            crew=crew,
            templates=self.templates(project),
            clock=self.clock,
            workspace=workspace,
            owner=self.new_id(),
            expiry=self.expiry,
            session_wait=self.settings.value("session_wait"),
            new_id=self.new_id,
            jitter=random.Random(),  # noqa: S311  # spreads retries, guards nothing
            additions=self.additions(project),
            log=self.log,
            wires=self.wires,
            upkeep=self.upkeep,
            renewals=self.renewals,
            bench=self._bench(crew, workspace),
            artifacts=self.artifact_terms,
        )

    @cached_property
    def renewals(self) -> Renewals:
        """One thread for all leases of the process, however many turns and changes come."""
        from orchestrator.lease import Renewals

        return Renewals()

    @property
    def artifact_terms(self) -> ArtifactTerms:
        """What is kept as an artifact, and for how long."""
        from orchestrator.artifacts import ArtifactTerms

        value, idle = self.settings.value, self.settings.value("artifacts.idle_ttl")
        ttl, idle_ttl = timedelta(seconds=value("artifacts.ttl")), None if idle is None else timedelta(seconds=idle)
        return ArtifactTerms(value("artifacts.inline_max"), ttl, idle_ttl, value("artifacts.quota"))

    @property
    def upkeep(self) -> Upkeep:
        """What becomes of remembered facts."""
        from orchestrator.memory.upkeep import Upkeep

        return Upkeep(self.settings.value("global_archive_after_days"), self.settings.value("percept_store_max"))

    @staticmethod
    def new_id() -> str:
        return str(uuid.uuid4())

    @staticmethod
    def new_nonce() -> str:
        import secrets

        from orchestrator.tags import new_nonce

        return new_nonce(secrets.token_bytes)

    def at(self, workspace: str) -> Self:
        """Those for a session of that directory, whose project file counts then; these where it is the same, or is no more."""
        if same_workspace(workspace, self.workspace) or not Path(workspace).is_dir():
            return self
        if workspace not in self._others:
            other = self._again(Path(workspace))
            other._said, other.clock, other.renewals = self._said, self.clock, self.renewals
            self._others[workspace] = other
        return self._others[workspace]

    def _again(self, cwd: Path) -> Self:
        """The same for that directory."""
        return type(self)(
            environ=self.environ,
            cwd=cwd,
            config_file=self._config_file,
            sets=self._sets,
            flags=self._flags,
            tell=self._tell,
            verbose=self._verbose,
            writes_log=self._writes_log,
        )

    def close(self) -> None:
        try:
            for crew in self._crews:
                self.tell_once(*crew.close())
            for other in self._others.values():
                other.close()
        finally:
            if self._store is not None:
                self._keep_up(self._store)
                self._store.close()
                self._tell_notices(self._store)

    def _keep_up(self, store: Store) -> None:
        """Whoever has taken turns consolidates once more when it exits (page 4)."""
        everywhere: list[Premises] = [self, *self._others.values()]
        for premises in everywhere:
            if premises._turns:
                from orchestrator.memory.upkeep import keep_up

                self.tell_once(*keep_up(store, premises.upkeep))
                with suppress(EscaleraError):
                    store.collect_artifacts()
                return
