"""What a command works with: the program's premises, and the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from orchestrator.cli.output import Output
from orchestrator.clock import parse_time
from orchestrator.errors import UsageError
from orchestrator.premises import Premises

if TYPE_CHECKING:
    from orchestrator.cli.notify import Notifier
    from orchestrator.plugins import PluginManager


class Front(Premises):
    """One run of a command."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        config_file: Path | None,
        sets: Sequence[str],
        flags: Mapping[str, str],
        output: Output,
        verbose: bool = False,
        writes_log: bool = True,
    ) -> None:
        """`writes_log` is false for a command that leaves nothing behind; `verbose` shows on stderr what the log is told."""
        super().__init__(environ=environ, cwd=cwd, config_file=config_file, sets=sets, flags=flags, tell=self._say, verbose=verbose, writes_log=writes_log)
        self.output = output
        self._notifier: Notifier | None = None

    def _say(self, text: str) -> None:
        self.output.notice(text)  # where that is by then: a chat has its own

    def _loaded_plugins(self, *, blocked: Sequence[str] = (), strict: bool = False) -> PluginManager:
        self.output.keep_alone()
        stderr = sys.stderr
        try:
            return super()._loaded_plugins(blocked=blocked, strict=strict)
        finally:
            # A plugin may have put something else in its place, or closed it, and notices would be lost.
            sys.stderr = open(2, "w", errors="backslashreplace", closefd=False) if stderr.closed else stderr  # noqa: SIM115  # as long as the program runs

    @property
    def notifier(self) -> Notifier:
        """Starts the user's `notify.command`."""
        if self._notifier is None:
            from orchestrator.cli.notify import Notifier

            command, check = self.accepted_command("notify.command")
            self._notifier = Notifier(command, environ=self.environ, cwd=self.workspace, tell=self.notice, require_accepted=check)
        return self._notifier

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

    @classmethod
    def since(cls, text: str, now: datetime) -> datetime:
        """The moment given for --since: a time, or how long ago."""
        with suppress(UsageError, OverflowError):
            return now - timedelta(seconds=cls.duration(text, "--since"))
        try:
            return parse_time(text)
        except ValueError as error:
            raise UsageError(f"--since: {text!r} is no time", hint="as in 2026-01-31, 2026-01-31T12:00 or 7d") from error

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
        return Front(
            environ=environ | {"ESCALERA_HOME": str(folder)}, cwd=folder, config_file=nothing, sets=(), flags={}, output=self.output, verbose=self._verbose
        )

    def afresh(self) -> Front:
        """The same once more, for when the files have changed."""
        return self._again(self.cwd)

    def _again(self, cwd: Path) -> Self:
        return type(self)(
            environ=self.environ,
            cwd=cwd,
            config_file=self._config_file,
            sets=self._sets,
            flags=self._flags,
            output=self.output,
            verbose=self._verbose,
            writes_log=self._writes_log,
        )

    def close(self) -> None:
        try:
            if self._notifier is not None:
                self._notifier.close()
        finally:
            super().close()
