"""The four folders: configuration, data, state, cache (page 6)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ConfigError

APP = "escalera"

HOME_HINT = "set ESCALERA_HOME to an absolute path; all four folders go below it"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where things lie. Naming a folder does not make it: whoever writes there does."""

    config: Path
    data: Path
    state: Path
    cache: Path

    @property
    def user_file(self) -> Path:
        """The user's own configuration."""
        return self.config / "config.toml"

    @property
    def trust_file(self) -> Path:
        """Which project files the user has accepted."""
        return self.state / "trust.json"

    @property
    def grants_file(self) -> Path:
        """What the user has allowed tools to do without asking again."""
        return self.state / "permissions.json"

    @property
    def log_file(self) -> Path:
        """What the program did, for when something is wrong."""
        return self.state / "log" / "escalera.log"

    @property
    def wires(self) -> Path:
        """What went over the wire in the last turns."""
        return self.state / "wire"

    @property
    def listings(self) -> Path:
        """What tool servers said they have when the last turn asked them."""
        return self.cache / "mcp_tools"


def paths_of(environ: Mapping[str, str], *, platform: str) -> Paths:
    """The folders for an environment; `platform` is spelled as in `sys.platform`.

    `ESCALERA_HOME` moves all four. Else XDG on Linux and its like, the platform's own places elsewhere.
    Raises `ConfigError` when `ESCALERA_HOME` is unusable or no home folder is known.
    """
    if "ESCALERA_HOME" in environ:
        return _below(environ["ESCALERA_HOME"])
    if platform in ("darwin", "win32"):
        return _native()
    return Paths(
        config=_xdg(environ, "XDG_CONFIG_HOME", ".config"),
        data=_xdg(environ, "XDG_DATA_HOME", ".local/share"),
        state=_xdg(environ, "XDG_STATE_HOME", ".local/state"),
        cache=_xdg(environ, "XDG_CACHE_HOME", ".cache"),
    )


def home_of(environ: Mapping[str, str]) -> Path | None:
    """The home folder: as the environment says, when that is an absolute path; else as the account says; else none."""
    for variable in ("HOME", "USERPROFILE"):
        if os.path.isabs(environ.get(variable, "")):
            return Path(environ[variable])
    return _home_of_account()


def _below(home: str) -> Paths:
    if not home:
        raise ConfigError("ESCALERA_HOME is empty", hint="set it to an absolute path, or unset it")
    if not os.path.isabs(home) or "\0" in home:
        raise ConfigError(f"ESCALERA_HOME is not an absolute path: {home!r}", hint="set it to an absolute path, or unset it")
    root = Path(home)
    return Paths(config=root / "config", data=root / "data", state=root / "state", cache=root / "cache")


def _native() -> Paths:
    from platformdirs import PlatformDirs

    dirs = PlatformDirs(APP, appauthor=False)
    return Paths(config=dirs.user_config_path, data=dirs.user_data_path, state=dirs.user_state_path, cache=dirs.user_cache_path)


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """One folder; a relative value is ignored, as the XDG specification wants it."""
    folder = environ.get(variable, "")
    if os.path.isabs(folder):
        return Path(folder) / APP
    home = home_of(environ)
    if home is None:
        raise ConfigError("there is no home folder: HOME is not set and the account has none", hint=HOME_HINT)
    return home / below_home / APP


def _home_of_account() -> Path | None:
    try:
        import pwd

        home = pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return None
    return Path(home) if os.path.isabs(home) else None
