"""What one run of the program works with."""

from __future__ import annotations

import os
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


def notifying(tmp_path: Path, folder: str) -> Front:
    return Front(
        environ={"ESCALERA_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
        cwd=tmp_path / "repo" / folder,
        config_file=None,
        sets=(),
        flags={},
        output=Output(interactive=False, color=False, plain=True),
    )


def ran(front: Front, tmp_path: Path) -> str:
    front.notifier("answer", session="s", agent="a", text="x")
    front.notifier.close()
    log = tmp_path / "ran"
    said = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    return said


def test_the_command_of_an_accepted_project_runs_from_anywhere_in_it_and_only_as_it_was_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    for name in ("n.sh", "sub/n.sh"):
        (tmp_path / "repo" / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (tmp_path / "repo" / name).chmod(0o755)
    project = tmp_path / "repo" / "escalera.toml"
    project.write_text('notify.command = ["./n.sh"]\n')
    accepted = notifying(tmp_path, "").trusted
    for file in (project, tmp_path / "repo" / "n.sh"):
        accepted.trust(file, file.read_bytes())

    assert [ran(notifying(tmp_path, folder), tmp_path) for folder in ("", "sub")] == ["n.sh\n", "n.sh\n"]
    assert capsys.readouterr().err == ""
    (tmp_path / "repo" / "n.sh").write_text((tmp_path / "repo" / "n.sh").read_text() + "\n")
    assert ran(notifying(tmp_path, ""), tmp_path) == ""
    assert capsys.readouterr().err.count(f"{project.parent}/n.sh is not accepted as it is now") == 1


def test_a_command_of_the_users_own_starts_from_their_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "repo").mkdir()
    config = tmp_path / "home" / "config"
    config.mkdir(parents=True)
    (config / "n.sh").write_text(f"#!/bin/sh\necho mine >> {tmp_path}/ran\n")
    (config / "n.sh").chmod(0o755)
    (config / "config.toml").write_text('notify.command = ["./n.sh"]\n')

    assert ran(notifying(tmp_path, ""), tmp_path) == "mine\n"
    assert capsys.readouterr().err == ""
