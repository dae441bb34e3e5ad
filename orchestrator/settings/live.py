"""The settings of a process that lives on: files looked at again before each turn, and values that are set while it runs (page 5)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.settings.declarations import BY_PATH, SETTINGS
from orchestrator.settings.files import ConfigFile, config_file, is_stream, read_bytes, shown_path
from orchestrator.settings.problems import ConfigProblems, Problem, raise_problems
from orchestrator.settings.resolution import Explained, Files, Settings, Sources, read_files, resolved
from orchestrator.settings.trust import TrustStore

_Complaint = tuple[str, bytes | None]
"""What is wrong with a file, and the content that it is wrong with: another broken version is another complaint."""


class LiveSettings:
    """`current` is what a turn works with from its beginning to its end: a change makes new settings and leaves these as they are.

    May be used by several threads.
    """

    def __init__(self, sources: Sources, check: Callable[[Settings], Iterable[Problem]] = lambda _: ()) -> None:
        """Read everything once; raises `ConfigError` as every start does. `check` finds further problems of settings."""
        self._sources, self._check = sources, check
        self._runtime: dict[str, object] = {}
        self._lock = threading.Lock()
        self._files = read_files(sources)
        self._seen: tuple[Files, tuple[_Complaint, ...]] = (self._files, ())
        self._settings, problems = resolved(sources, self._files)
        raise_problems(problems)

    @property
    def current(self) -> Settings:
        return self._settings

    def refresh(self) -> tuple[str, ...]:
        """Take in what has changed in the files, and give what there is to say about that. To be called before each turn.

        A file that is gone or does not parse counts as it was before; where what the files say together cannot be used, all stays as it was.
        Each such version is told once. Never raises.
        """
        with self._lock:
            files, complaints = self._look()
            told = self._seen[1]
            if (files, complaints) == self._seen:
                return ()
            self._seen = files, complaints
            notices = [f"{text}; what it said before still counts" for text, _ in complaints if (text, _) not in told]
            return (*notices, *(self._take(files) if files != self._files else ()))

    def put(self, path: str, value: object) -> Explained:
        """Set a value for this process, over every other source; gives what `settings get` says then.

        Raises `ConfigError` for what a file or a flag could not say either, and for what counts from the next start only.
        """
        if path in BY_PATH and not BY_PATH[path].hot:
            raise ConfigError(f"{path} counts from the next start on, so it cannot be set while the program runs", hint=f"escalera settings set {path} …")
        with self._lock:
            return self._adopt({**{other: given for other, given in self._runtime.items() if other != path}, path: value}, path)

    def remove(self, path: str) -> Explained:
        """Take back what was set for this process, if it was; gives what counts then."""
        with self._lock:
            return self._adopt({other: given for other, given in self._runtime.items() if other != path}, path)

    def _adopt(self, runtime: dict[str, object], path: str) -> Explained:
        settings, problems = resolved(self._sources, self._files, runtime=runtime)
        raise_problems(problems)
        explained = settings.explain(path)
        self._settings, self._runtime = settings, runtime
        return explained

    def _take(self, files: Files) -> list[str]:
        settings, problems = resolved(self._sources, files, runtime=self._runtime)
        if not problems:  # what was wrong at the start was told then, and did not matter
            known = list(self._check(self._settings))
            problems = [problem for problem in self._check(settings) if problem not in known]
        if problems:
            return [f"{ConfigProblems(problems).message}; the settings from before stay"]
        before, self._files, self._settings = self._settings, files, settings
        late = [setting for setting in SETTINGS if not setting.hot and settings.value(setting.path) != before.value(setting.path)]
        return [
            *(notice for notice in settings.notices if notice not in before.notices),
            *(f"{setting.path} has changed, which counts from the next start on" for setting in late),
        ]

    def _look(self) -> tuple[Files, tuple[_Complaint, ...]]:
        complaints: list[_Complaint] = []
        user = self._latest(self._sources.user_file, self._files.user, complaints)
        known = self._files.project
        place = known.path if known and not os.path.lexists(known.path) else self._sources.find_project_file()
        project = self._latest(place, known, complaints) if place else None
        trusted = project is not None and TrustStore(self._sources.paths.trust_file).is_trusted(project.path, project.content)
        return Files(user, project, trusted), tuple(complaints)

    @staticmethod
    def _latest(path: Path, known: ConfigFile | None, complaints: list[_Complaint]) -> ConfigFile | None:
        """A file as it is now, or as it was known where that cannot be had."""
        content = None
        try:
            if is_stream(path) or (known is None and not os.path.lexists(path)):
                return known
            content = read_bytes(path)
            return known if known is not None and (known.path, known.content) == (path, content) else config_file(path, content)
        except ConfigError as error:
            gone = not os.path.lexists(path)
            complaints.append((f"{shown_path(path)} is gone" if gone else error.message, content))
            return known
