"""What one run of the program works with."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output


def test_files_are_taken_in_when_a_command_asks_and_what_there_is_to_say_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text("need_expiry_hours = 1\n")
    front = Front(
        environ={"ESCALERA_HOME": str(tmp_path)}, cwd=tmp_path, config_file=None, sets=(), flags={}, output=Output(interactive=False, color=False, plain=True)
    )
    assert front.settings.value("need_expiry_hours") == 1

    file.write_text("need_expiry_hours = 2\n")
    assert front.expiry.need_hours == 1
    front.refresh()
    assert (front.settings.value("need_expiry_hours"), front.expiry.need_hours) == (2, 2)

    file.write_text("need_expiry_hours = ")
    front.refresh()
    front.refresh()
    assert front.expiry.need_hours == 2
    assert capsys.readouterr().err.count("still counts") == 1
