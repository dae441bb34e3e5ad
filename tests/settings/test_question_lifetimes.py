"""The settings of a question's life, case by case (page 5)."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings.declarations import SETTINGS
from orchestrator.settings.live import LiveSettings
from orchestrator.settings.resolution import Settings, Sources

from .conftest import Place

TTL, MAX_AGE = "questions.ttl", "questions.max_age"
BOTH_FILES = '[questions]\nttl = "5m"\n'
ENVIRON = {"ESCALERA_QUESTIONS_TTL": "90s"}
FLAGS = {TTL: "30s"}


def ttl(settings: Settings) -> tuple[float, str, list[str]]:
    """Seconds, source, and the sources that are shadowed."""
    explained = settings.explain(TTL)
    return settings.value(TTL), explained.source, [source for source, _ in explained.shadowed]


def test_g1_by_themselves(place: Place) -> None:
    settings = place.load()

    assert (settings.value(TTL), settings.value(MAX_AGE), settings.explain(TTL).source) == (120, 1800, "default")


def test_g2_g3_g4_each_source_shadows_those_below_it(place: Place) -> None:
    file = f"file:{place.user(BOTH_FILES)}"

    assert ttl(place.load()) == (300, file, ["default"])
    assert ttl(place.load(env=ENVIRON)) == (90, "env:ESCALERA_QUESTIONS_TTL", [file, "default"])
    assert ttl(place.load(env=ENVIRON, flags=FLAGS)) == (30, "flag", ["env:ESCALERA_QUESTIONS_TTL", file, "default"])


def test_g5_what_is_set_while_it_runs_goes_before_all(place: Place) -> None:
    place.user(BOTH_FILES)
    live = LiveSettings(Sources({**place.environ, **ENVIRON}, place.workspace, place.paths, flags=FLAGS))

    live.put(TTL, "10m")

    assert ttl(live.current)[:2] == (600, "runtime")


def test_g7_the_ceiling_has_its_variable(place: Place) -> None:
    assert place.load(env={"ESCALERA_QUESTIONS_MAX_AGE": "10m"}).value(MAX_AGE) == 600


@pytest.mark.parametrize("path", [TTL, MAX_AGE])
@pytest.mark.parametrize("value", ["forever", "120", "", "0s", "-5s"], ids=["g8 a word", "g8 no unit", "g9 nothing", "g9 zero", "g9 negative"])
@pytest.mark.parametrize("source", ["file", "env", "flag"])
def test_g8_g9_what_is_no_time_is_refused_with_its_source(place: Place, path: str, value: str, source: str) -> None:
    given: dict[str, Any] = {}
    if source == "file":
        place.user(f'[questions]\n{path.partition(".")[2]} = "{value}"\n')
    elif source == "env":
        given["env"] = {f"ESCALERA_{path.upper().replace('.', '_')}": value}
    else:
        given["flags"] = {path: value}

    with pytest.raises(ConfigError) as refused:
        place.load(**given)

    assert {"file": "config.toml", "env": "ESCALERA_QUESTIONS", "flag": "--questions"}[source] in refused.value.message


def test_a13_a_life_longer_than_its_ceiling_is_refused_with_its_source(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"ESCALERA_QUESTIONS_TTL.*longer than questions.max_age"):
        place.load(env={"ESCALERA_QUESTIONS_TTL": "3600s"})


def test_g10_the_nearer_file_goes_before_the_farther(place: Place) -> None:
    user, project = place.user(BOTH_FILES), place.project('[questions]\nttl = "7m"\n')

    assert ttl(place.load()) == (420, f"file:{project}", [f"file:{user}", "default"])


def test_g15_each_has_its_variable_and_its_flag() -> None:
    found = {setting.path: (setting.env, setting.flag) for setting in SETTINGS if setting.path.startswith("questions.")}

    assert found == {
        TTL: ("ESCALERA_QUESTIONS_TTL", "--questions-ttl"),
        MAX_AGE: ("ESCALERA_QUESTIONS_MAX_AGE", "--questions-max-age"),
        "questions.keep": ("ESCALERA_QUESTIONS_KEEP", "--questions-keep"),
    }
