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
