"""`plugins check` and `plugins new` from outside, with a plugin that has a fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from .conftest import Shell

FAULTY = Path(__file__).parent.parent / "third_party" / "escalera_faulty"


@pytest.fixture
def faulty(shell: Shell, tmp_path: Path) -> Shell:
    """The package as pip lays it out."""
    info = tmp_path / "site" / "escalera_faulty-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: escalera-faulty\nVersion: 1.0\n")
    harness = "faulty = escalera_faulty.harness:FaultyHarness"
    (info / "entry_points.txt").write_text(f"[escalera]\nfaulty = escalera_faulty\n[escalera.provider_tests]\n{harness}\n")
    return replace(shell, more={"PYTHONPATH": f"{FAULTY}:{tmp_path / 'site'}"})


def test_a_fault_is_a_line_of_the_table_and_the_exit_code(faulty: Shell) -> None:
    done = faulty.run("plugins", "check", "faulty", KIT_FAULT="reports_no_usage_as_0")

    assert done.returncode == 1, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "FAILED" in line]
    assert line.split()[0] == "usage.unknown"
    assert line.endswith("the backend reported no usage, and {'input_tokens': 0, 'output_tokens': 0} is told; what is unknown is None")
    assert done.stdout.splitlines()[-1].startswith("faulty (escalera-faulty 1.0), kit 1: ")
    assert ", 1 failed, " in done.stdout.splitlines()[-1]


def test_without_a_fault_it_is_a_document_and_exit_code_0(faulty: Shell) -> None:
    document = faulty.json("plugins", "check", "faulty", "--json")

    assert (document["kind"], document["distribution"], document["version"], document["kit"], document["api_level"]) == (
        "faulty",
        "escalera-faulty",
        "1.0",
        1,
        1,
    )
    assert document["ok"] is True
    assert document["counts"]["failed"] == 0
    assert sum(document["counts"].values()) == len(document["checks"])
    assert {check["status"] for check in document["checks"]} == {"passed", "not_claimed", "not_shown"}


def test_a_kind_that_is_not_there_and_one_without_a_harness_are_told_apart(faulty: Shell, tmp_path: Path) -> None:
    (file,) = (tmp_path / "site").glob("*/entry_points.txt")
    file.write_text("[escalera]\nfaulty = escalera_faulty\n")

    absent, bare = faulty.run("plugins", "check", "faultx"), faulty.run("plugins", "check", "faulty")

    assert (absent.returncode, bare.returncode) == (2, 2)
    assert "there is no provider kind 'faultx'; did you mean `faulty`?" in absent.stderr
    assert "no installed distribution has a harness for the kind 'faulty'" in bare.stderr
    assert "escalera.provider_tests" in bare.stderr


def test_a_package_is_written_here_and_only_once(shell: Shell) -> None:
    first = shell.json("plugins", "new", "grey-owl", "--subprocess", "--json")
    again = shell.run("plugins", "new", "grey-owl")
    ours = shell.run("plugins", "new", "openrouter")
    unnamed = shell.run("plugins", "new", "Grey Owl")

    assert first["folder"] == str(shell.cwd / "escalera-grey-owl")
    assert all((shell.cwd / "escalera-grey-owl" / name).is_file() for name in first["files"])
    assert (again.returncode, ours.returncode, unnamed.returncode) == (2, 2, 2)
    assert "is there already and is no empty folder; nothing was written" in again.stderr
    assert "openrouter is a kind of Escalera's own" in ours.stderr
    assert [path.name for path in shell.cwd.iterdir()] == ["escalera-grey-owl"]
