"""What one run of the program works with."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output


def front_in(folder: Path) -> Front:
    return Front(
        environ={"ESCALERA_HOME": str(folder)}, cwd=folder, config_file=None, sets=(), flags={}, output=Output(interactive=False, color=False, plain=True)
    )


def test_files_are_taken_in_when_a_command_asks_and_what_there_is_to_say_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text("need_expiry_hours = 1\n")
    front = front_in(tmp_path)
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


def test_a_front_elsewhere_heeds_no_configuration_of_folders_above(tmp_path: Path) -> None:
    (tmp_path / "escalera.toml").write_text("[limits]\nreturning_fresh_start_local_turns = 1\n")
    (tmp_path / "tour").mkdir()

    tour = front_in(tmp_path).elsewhere(tmp_path / "tour")

    assert tour.settings.value("limits.returning_fresh_start_local_turns") == 8
    assert tour.crew(tour.workspace).names
