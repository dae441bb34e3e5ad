"""The files that a project's escalera.toml names, from wherever the program runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings.named_files import Places
from orchestrator.settings.project import project_of
from orchestrator.settings.secrets import SecretRef
from orchestrator.settings.trust import TrustStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    for name in ("run", "tool.py", "conf/a.json", "sub/tool.py", "sub/only.py", "sub/run"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def named(places: Places, value: object, key: str = "command") -> list[str]:
    return [part.path.relative_to(places.root).as_posix() for part in places.named_parts({key: value}, lambda *_: True)]


def test_a_word_names_a_file_beside_the_configuration_and_one_where_programs_run(root: Path) -> None:
    places = Places(root, root / "sub")

    assert named(places, ["run", "only.py", "-x", "../tool.py"]) == ["run", "sub/run", "sub/only.py", "tool.py"]


def test_a_name_that_counts_from_its_file_leads_nowhere_else(root: Path) -> None:
    places = Places(root, root / "sub")

    assert named(places, ["sh", "tool.py"], "token_cmd") == ["tool.py"]
    assert named(places, {"T": SecretRef("cmd", cmd=("sh", "tool.py")), "V": "tool.py"}, "env") == ["tool.py"]
    assert named(places, ("tool.py", "run"), "args") == ["tool.py", "run", "sub/run"]


def test_an_option_with_a_value_and_an_object_in_json_name_files_too(root: Path) -> None:
    places = Places(root, root)

    assert named(places, ["--config=conf/a.json", '{"mcpServers": {"x": {"command": "./tool.py"}}}', '{"broken": "run']) == ["conf/a.json", "tool.py"]


def test_words_that_plainly_name_a_file_are_placed_and_all_else_stays(root: Path) -> None:
    places = Places(root, root / "sub")
    words = ("tool.py", "./conf/a.json", "--config=conf/a.json", "run", "only.py", ".", "conf/", "/etc/hostname", "-y", "a\0.b", "x" * 5000 + ".py")

    assert places.placed("args", words) == (f"{root}/tool.py", f"{root}/conf/a.json", f"--config={root}/conf/a.json", *words[3:])
    assert places.placed("env", {"FILE": "tool.py", "OFF": False}) == {"FILE": f"{root}/tool.py", "OFF": False}
    assert places.placed("model", "tool.py") == "tool.py"


def test_what_a_command_of_a_setting_names_is_a_part_of_the_project(root: Path, tmp_path: Path) -> None:
    (root / "escalera.toml").write_text('[notify]\ncommand = ["sh", "tool.py"]\n[mcp_servers.s]\ncommand = "./run"\nenv = { T = { cmd = ["sh", "run"] } }\n')
    trusted = TrustStore(tmp_path / "trust.json")

    project = project_of(root, home=None, trusted=trusted)

    assert [part.path for part in project.named] == [root / "run", root / "tool.py"]
    assert project_of(root / "sub", home=None, trusted=trusted).named == project.named
    assert "tool.py" in str(project.notice)


def test_only_what_is_accepted_as_it_is_may_be_named(root: Path, tmp_path: Path) -> None:
    trusted, places = TrustStore(tmp_path / "trust.json"), Places(root, root)
    trusted.trust(root / "tool.py", b"tool.py")
    check = {"command": ("sh", "tool.py")}, {"command": "file:x"}, trusted.is_trusted

    places.require_accepted("notify", *check)
    (root / "tool.py").write_text("tool.py ")

    with pytest.raises(ConfigError, match=r"notify.command \(file:x\): .*/tool.py is not accepted as it is now"):
        places.require_accepted("notify", *check)


def test_what_a_program_writes_stops_nobody_and_what_it_runs_counts_as_accepted(root: Path, tmp_path: Path) -> None:
    names = ("tool.py", "run", "notes.txt", "app.json", "memory.json", "notes.db", "claude.log")
    values = {
        "command": "python3.12",
        "args": ["-u", "notes.txt", "tool.py", "--config", "app.json", "--db=notes.db", "--debug-file", "claude.log", "memory.json", "run"],
        "env": {"MEMORY_FILE_PATH": "memory.json", "DB": "notes.db"},
    }
    trusted, places = TrustStore(tmp_path / "trust.json"), Places(root, root)
    for name in names:
        (root / name).write_text("x")

    def refused() -> list[str]:
        refused = []
        for name in names:
            (root / name).write_text("changed")
            try:
                places.require_accepted("s", values, {"args": "file:x", "env": "file:x"}, trusted.is_trusted)
            except ConfigError:
                refused.append(name)
            (root / name).write_text("x")
        return refused

    for name in ("tool.py", "run", "notes.txt", "app.json"):
        trusted.trust(root / name, b"x")
    assert refused() == ["tool.py", "run", "notes.txt", "app.json"]
    trusted.trust(root / "memory.json", b"x")
    assert refused() == ["tool.py", "run", "notes.txt", "app.json"]


def test_a_file_that_can_be_run_is_pinned_wherever_it_is_named(root: Path) -> None:
    places = Places(root, root)
    (root / "conf" / "a.json").chmod(0o755)
    (root / "sub" / "data.dat").write_text("#!/bin/sh")

    parts = places.named_parts({"env": {"A": "conf/a.json", "B": "sub/data.dat"}}, lambda *_: False)

    assert [part.pinned for part in parts] == [True, True]


def test_inline_json_runs_its_programs_and_keeps_its_data(root: Path) -> None:
    server = '{"mcpServers": {"m": {"command": "sh", "args": ["conf/a.json"], "env": {"MEMORY": "sub/m.json", "N": "n.db"}}}}'
    (root / "sub" / "m.json").write_text("{}")
    (root / "n.db").write_text("")

    parts = list(Places(root, root).named_parts({"extra_args": ["--mcp-config", server]}, lambda *_: False))

    assert [(part.path.name, part.pinned) for part in parts] == [("a.json", True), ("m.json", False)]


def test_a_changed_file_of_data_is_told_once_it_was_accepted_and_not_before(root: Path, tmp_path: Path) -> None:
    (root / "escalera.toml").write_text('[mcp_servers.s]\ncommand = "server"\nenv = { MEMORY = "memory.json" }\n')
    trusted = TrustStore(tmp_path / "trust.json")
    (root / "memory.json").write_text("1")
    assert project_of(root, home=None, trusted=trusted).notice is None

    trusted.trust(root / "memory.json", b"1")
    (root / "memory.json").write_text("2")

    assert "these have changed since they were accepted, and are used as they are: memory.json" in str(project_of(root, home=None, trusted=trusted).notice)


def test_a_name_in_the_home_folder_that_leads_into_the_project_is_one_of_its_files(root: Path, tmp_path: Path) -> None:
    (root / "escalera.toml").write_text(
        '[agents.a]\nprompt_file = "~/repo/conf/p.md"\ntoken_cmd = ["~/repo/run"]\n[mcp_servers.s]\ncommand = "~/repo/tool.py"\n'
    )
    (root / "conf" / "p.md").write_text("p")

    project = project_of(root, home=tmp_path, trusted=TrustStore(tmp_path / "trust.json"))

    assert [part.path for part in project.named] == [root / "conf" / "p.md", root / "run", root / "tool.py"]


def test_words_stay_as_they_are_where_programs_run_beside_the_configuration(root: Path) -> None:
    words = ("run", "-v", ".:/app", "image", "python", "tool.py", "--config=conf/a.json")

    assert Places(root, root).placed("args", words) == words
