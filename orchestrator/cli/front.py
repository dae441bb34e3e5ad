"""What a command works with: settings, store, agents and texts, each made when it is first asked for."""

from __future__ import annotations

import random
import sys
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.output import Output
from orchestrator.clock import Clock, SystemClock
from orchestrator.errors import UsageError
from orchestrator.settings.paths import Paths, paths_of
from orchestrator.workspaces import same_workspace

if TYPE_CHECKING:
    from orchestrator.crew import Crew
    from orchestrator.escalation import Workplace
    from orchestrator.hooks import Hooks
    from orchestrator.memory.upkeep import Upkeep
    from orchestrator.planning.case import Additions, Expiry
    from orchestrator.plugins import PluginManager
    from orchestrator.settings.live import LiveSettings
    from orchestrator.settings.project import Project
    from orchestrator.settings.resolution import Settings, Sources
    from orchestrator.settings.trust import TrustStore
    from orchestrator.store import Store
    from orchestrator.templates import Override, Templates


class Front:
    """One run of the program. Opening is lazy: `paths` needs no configuration, and `--help` nothing at all."""

    def __init__(
        self, *, environ: Mapping[str, str], cwd: Path, config_file: Path | None, sets: Sequence[str], flags: Mapping[str, str], output: Output
    ) -> None:
        self.environ, self.cwd, self.output = environ, cwd, output
        self._config_file, self._sets, self._flags = config_file, sets, flags
        self._store: Store | None = None
        self._crews: list[Crew] = []
        self._others: dict[str, Front] = {}
        self._told = 0
        self._said: set[str] = set()
        self._plugins: PluginManager | None = None
        self._templates: tuple[list[Override], Templates] | None = None
        self._turns = False
        """Whether turns were taken."""
        self.clock: Clock = SystemClock()

    @cached_property
    def paths(self) -> Paths:
        return paths_of(self.environ, platform=sys.platform)

    @property
    def sources(self) -> Sources:
        """Where the settings come from."""
        from orchestrator.settings.resolution import Sources

        return Sources(self.environ, self.cwd, self.paths, self._config_file, self._flags, self._sets)

    @cached_property
    def live(self) -> LiveSettings:
        from orchestrator.settings.live import LiveSettings

        live = LiveSettings(self.sources)
        self.tell_once(*live.current.notices)
        return live

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self.live.current

    def refresh(self) -> None:
        """Take in changed files, and say what there is to say about them: before each turn of a command that takes several."""
        for notice in self.live.refresh():
            self.output.notice(notice)

    def tell_once(self, *notices: str) -> None:
        """Notices about the configuration, each of them once in a run."""
        for notice in notices:
            if notice not in self._said:
                self._said.add(notice)
                self.output.notice(notice)

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
        return self._loaded_plugins(self.settings, strict=strict)

    @staticmethod
    def _loaded_plugins(settings: Settings, *, strict: bool) -> PluginManager:
        from orchestrator.plugins import PluginManager, installed_entry_points

        return PluginManager.load(installed_entry_points(), blocked=settings.value("plugins.blocked"), strict=strict)

    def plugins_at_hand(self) -> PluginManager | None:
        """The installed plugins, for checking a change of the configuration: none where that cannot be used as it is."""
        from orchestrator.settings.resolution import read_files, resolved

        settings, problems = resolved(self.sources, read_files(self.sources))
        return None if problems else self._loaded_plugins(settings, strict=settings.value("plugins.strict"))

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

    @property
    def trusted(self) -> TrustStore:
        """Which files of projects the user has accepted."""
        from orchestrator.settings.trust import TrustStore

        return TrustStore(self.paths.trust_file)

    def additions(self, project: Project) -> Additions:
        """What turns are planned with beside the session: plugins, rules, and the project's instructions where they are trusted."""
        from orchestrator.planning.case import Additions
        from orchestrator.routing import rules_of

        factors = self.settings.explain("routing.factors")
        rules = rules_of(self.settings.value("routing.threshold"), factors.value or (), source=factors.source)
        if project.notice is not None:
            self.tell_once(project.notice)
        instructions = project.instructions
        return Additions(self.hooks, rules, instructions.text if instructions is not None and instructions.accepted else "")

    def templates(self, project: Project) -> Templates:
        """The texts: the user's own, the project's where they are trusted, the plugins', the built-in ones."""
        from orchestrator.templates import Override, Templates, overrides_in

        folders = self.hooks.template_folders()
        self.tell_once(*folders.notices)
        overrides = [
            *overrides_in(self.paths.config / "templates", "user"),
            *(Override(part.path, "project", part.content, accepted=part.accepted) for part in project.templates),
            *(override for plugin, folder in folders.values for override in overrides_in(folder, "plugin", plugin=plugin.name)),
        ]
        if self._templates is None or self._templates[0] != overrides:  # what did not change is not read and compiled again
            before = None if self._templates is None else self._templates[1]
            self._templates = overrides, Templates(overrides, tell=self.tell_once, before=before)
        return self._templates[1]

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
    ) -> Crew:
        """The configured agents, as they are now or as those settings have them, at work in that directory.

        `with_secrets` is false where nobody is called, `long_lived` true where many turns are taken.
        """
        from orchestrator.crew import Crew
        from orchestrator.probes.leftovers import owner_marks

        crew = Crew(
            settings or self.settings,
            self.plugins.kinds(),
            environ={**self.environ, **owner_marks(self.paths.data)},
            workspace=workspace,
            turn_timeout=turn_timeout,
            with_secrets=with_secrets,
            long_lived=long_lived,
            reports=self.plugins.reports(),
            trusted=self.trusted.is_trusted,
        )
        self._crews.append(crew)
        return crew

    def greet(self) -> None:
        """Without any configuration: say what answers, and how to name a real model."""
        from orchestrator.settings.resolution import zero_config_notice

        notice = zero_config_notice(self.settings)
        if notice is not None:
            self.output.notice(notice)

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
            self.output.notice(f"ended what a run of Escalera that was killed had left behind: {names}")

    def _tell_notices(self, store: Store) -> None:
        for notice in store.notices[self._told :]:
            self.output.notice(notice)
        self._told = len(store.notices)

    def workplace(self, store: Store, workspace: str, *, turn_timeout: float | None = None, long_lived: bool = False, crew: Crew | None = None) -> Workplace:
        """Where turns are taken: one of them, or with `long_lived` as many as come until `close`; by that crew, or a new one."""
        from orchestrator.escalation import Workplace

        project = self.project(workspace)
        self._turns = True
        return Workplace(
            store=store,
            crew=crew or self.crew(workspace, turn_timeout=turn_timeout, long_lived=long_lived),
            templates=self.templates(project),
            clock=self.clock,
            workspace=workspace,
            owner=self.new_id(),
            expiry=self.expiry,
            session_wait=self.settings.value("session_wait"),
            new_id=self.new_id,
            jitter=random.Random(),  # noqa: S311  # spreads retries, guards nothing
            additions=self.additions(project),
            upkeep=self.upkeep,
        )

    @property
    def upkeep(self) -> Upkeep:
        """What becomes of remembered facts."""
        from orchestrator.memory.upkeep import Upkeep

        return Upkeep(self.settings.value("global_archive_after_days"), self.settings.value("percept_store_max"))

    @staticmethod
    def duration(text: str, flag: str) -> float:
        """Seconds of a time given for one flag, as `90s` or `5m`; none is no time."""
        from orchestrator.settings.values import seconds

        try:
            duration = seconds(text)
        except ValueError as error:
            raise UsageError(f"{flag}: {text!r} is no time", hint="as in 90s or 5m") from error
        if not duration:
            raise UsageError(f"{flag}: {text!r} is no time at all", hint="as in 90s or 5m")
        return duration

    @staticmethod
    def new_id() -> str:
        return str(uuid.uuid4())

    @staticmethod
    def new_nonce() -> str:
        import secrets

        from orchestrator.tags import new_nonce

        return new_nonce(secrets.token_bytes)

    def at(self, workspace: str) -> Front:
        """The front for a session of that directory, whose project file counts then; this one where it is the same, or is no more."""
        if same_workspace(workspace, self.workspace) or not Path(workspace).is_dir():
            return self
        if workspace not in self._others:
            other = Front(environ=self.environ, cwd=Path(workspace), config_file=self._config_file, sets=self._sets, flags=self._flags, output=self.output)
            other._said, other.clock = self._said, self.clock
            self._others[workspace] = other
        return self._others[workspace]

    def say_through(self, output: Output) -> None:
        """From now on everything is said there."""
        self.output = output
        for other in self._others.values():
            other.output = output

    def elsewhere(self, folder: Path) -> Front:
        """A front without any configuration, also of folders above, with everything it keeps in that folder."""
        environ = {name: value for name, value in self.environ.items() if not name.startswith("ESCALERA_")}
        nothing = folder / "nothing.toml"
        nothing.touch()
        return Front(environ=environ | {"ESCALERA_HOME": str(folder)}, cwd=folder, config_file=nothing, sets=(), flags={}, output=self.output)

    def afresh(self) -> Front:
        """The same once more, for when the files have changed."""
        return Front(environ=self.environ, cwd=self.cwd, config_file=self._config_file, sets=self._sets, flags=self._flags, output=self.output)

    def close(self) -> None:
        try:
            for crew in self._crews:
                crew.close()
            for other in self._others.values():
                other.close()
        finally:
            if self._store is not None:
                self._keep_up(self._store)
                self._store.close()
                self._tell_notices(self._store)

    def _keep_up(self, store: Store) -> None:
        """Whoever has taken turns consolidates once more when it exits (page 4)."""
        for front in (self, *self._others.values()):
            if front._turns:
                from orchestrator.memory.upkeep import keep_up

                self.tell_once(*keep_up(store, front.upkeep))
                return
