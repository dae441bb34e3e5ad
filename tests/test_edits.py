"""Keys of configuration files that commands and the server set, checked by what providers take."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.edits import edited
from orchestrator.errors import ConfigError
from orchestrator.premises import Premises


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    (tmp_path / "config.toml").write_text('[agents.o]\nprovider = "embedded"\n[agents.p]\nprovider = "embedded"\n')
    sets = ("primary=o", "escalation=p")
    return Premises(environ={"ESCALERA_HOME": str(tmp_path)}, cwd=tmp_path, config_file=tmp_path / "config.toml", sets=sets, flags={}, tell=lambda _: None)


@pytest.mark.parametrize("path", ['agents.o."bogus.X"', "agents.o.bogus", '"agents".o.bogus', 'agents."o".bogus'])
def test_an_option_that_no_provider_takes_is_refused_however_its_path_is_written(premises: Premises, path: str) -> None:
    with pytest.raises(ConfigError, match="unknown option"):
        edited(premises, {path: "1"}, project=False)

    assert "bogus" not in premises.sources.user_file.read_text()


def test_a_provider_that_nobody_installed_is_refused_as_for_a_new_agent(premises: Premises) -> None:
    before = premises.sources.user_file.read_text()

    with pytest.raises(ConfigError, match=r"agents\.o\.provider.*did you mean `openrouter`"):
        edited(premises, {"agents.o.provider": "openruoter"}, project=False)

    assert premises.sources.user_file.read_text() == before


def test_an_agent_whose_plugin_is_gone_can_be_changed_and_mended(premises: Premises) -> None:
    file = premises.sources.user_file
    file.write_text(file.read_text().replace('[agents.p]\nprovider = "embedded"', '[agents.p]\nprovider = "gone"'))

    edited(premises, {"agents.p.model": "m"}, project=False)
    edited(premises, {"agents.p.provider": "openrouter"}, project=False)

    assert '[agents.p]\nprovider = "openrouter"\nmodel = "m"' in file.read_text()
