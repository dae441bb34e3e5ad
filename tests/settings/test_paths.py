from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings.paths import paths_of


def test_folders_follow_xdg_when_it_is_set() -> None:
    environ = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/k"}

    paths = paths_of(environ, platform="linux")

    assert (paths.config, paths.data, paths.state, paths.cache) == (Path("/c/escalera"), Path("/d/escalera"), Path("/s/escalera"), Path("/k/escalera"))


def test_folders_lie_below_home_without_xdg_and_relative_xdg_values_are_ignored() -> None:
    paths = paths_of({"HOME": "/home/ada", "XDG_STATE_HOME": "state"}, platform="linux")

    assert paths.user_file == Path("/home/ada/.config/escalera/config.toml")
    assert paths.data == Path("/home/ada/.local/share/escalera")
    assert paths.state == Path("/home/ada/.local/state/escalera")
    assert paths.cache == Path("/home/ada/.cache/escalera")


def test_escalera_home_moves_all_four_and_makes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "here"

    paths = paths_of({"HOME": "/home/ada", "ESCALERA_HOME": str(root)}, platform="linux")

    assert (paths.config, paths.data, paths.state, paths.cache) == (root / "config", root / "data", root / "state", root / "cache")
    assert not root.exists()


@pytest.mark.parametrize("home", ["", "relative/folder", "~/x", "/with\0nul"])
def test_an_unusable_escalera_home_is_refused_by_name(home: str) -> None:
    with pytest.raises(ConfigError, match="ESCALERA_HOME"):
        paths_of({"ESCALERA_HOME": home}, platform="linux")


@pytest.mark.trial("T77")
@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}, {"HOME": "/"}, {"HOME": "/nonexistent"}])
def test_t77_folders_are_known_without_a_usable_home(environ: dict[str, str]) -> None:
    assert paths_of(environ, platform="linux").state.is_absolute()


def test_the_platform_has_its_own_places_elsewhere() -> None:
    assert paths_of({}, platform="darwin").config.name == "escalera"
