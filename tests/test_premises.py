"""What a program that lives on makes of a configuration that changes under it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.premises import Premises

GOOD = """
primary = "a"
[agents.a]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
[agents.unused]
provider = "elsewhere"
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('model = "m"', 'model = "m"\nmaxtokens = 5', "agents.a.maxtokens: unknown option of the provider openai"),
        ('base_url = "http://127.0.0.1:9/v1"\n', "", "agents.a.base_url: is missing"),
        ('provider = "openai"', 'provider = "opanai"', "there is no provider kind 'opanai'; did you mean `openai`?"),
        ("[agents.unused]", '[agents.b]\nprovider = "openai"\n[agents.unused]', "agents.b.base_url: is missing"),
    ],
)
def test_agents_that_their_providers_would_refuse_leave_the_settings_from_before(tmp_path: Path, before: str, after: str, said: str) -> None:
    heard: list[str] = []
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    file = home / "config" / "config.toml"
    file.write_text(GOOD)
    premises = Premises(environ={"ESCALERA_HOME": str(home)}, cwd=tmp_path, config_file=None, sets=(), flags={}, tell=heard.append)
    assert premises.plugins.kinds()
    premises.refresh()
    assert heard == []

    file.write_text(GOOD.replace(before, after) + "[limits]\nretry_attempts = 7\n")
    premises.refresh()
    options = premises.settings.agent("a").options
    assert (options, premises.settings.value("limits.retry_attempts")) == ({"base_url": "http://127.0.0.1:9/v1", "model": "m"}, 3)
    assert len(heard) == 1
    assert said in heard[0]
    assert heard[0].endswith("the settings from before stay")

    file.write_text(GOOD + "[limits]\nretry_attempts = 7\n")
    premises.refresh()
    assert (premises.settings.value("limits.retry_attempts"), len(heard)) == (7, 1)


def test_rules_for_tools_are_taken_as_they_are_written_and_not_as_they_are_shown(tmp_path: Path) -> None:
    rule = "run(curl --api-key=k0a1b2c3d4e5 *)"
    config = tmp_path / "home" / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"{GOOD}[permissions]\nallow = ['{rule}']\n")

    premises = Premises(environ={"ESCALERA_HOME": str(tmp_path / "home")}, cwd=tmp_path, config_file=None, sets=(), flags={}, tell=lambda _: None)

    assert "k0a1b2c3d4e5" not in str(premises.settings.explain("permissions.allow").value)
    assert [allowed.pattern for allowed in premises.permissions.allow] == ["curl --api-key=k0a1b2c3d4e5 *"]
