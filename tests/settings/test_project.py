"""What lies beside a project file and waits for trust with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.settings.project import Project, project_of
from orchestrator.settings.trust import TrustStore


@pytest.fixture
def trusted(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state" / "trust.json")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "src" / "deep").mkdir(parents=True)
    return tmp_path / "repo"


def found(workspace: Path, trusted: TrustStore) -> Project:
    return project_of(workspace, home=None, trusted=trusted)


def test_the_nearest_instructions_up_to_the_project_file_count(root: Path, trusted: TrustStore) -> None:
    (root.parent / "AGENTS.md").write_text("outside")
    (root / "escalera.toml").write_text("")
    assert found(root / "src" / "deep", trusted).instructions is None

    (root / "AGENTS.md").write_text("top")
    project = found(root / "src" / "deep", trusted)
    assert project.instructions is not None
    assert (project.root, project.instructions.text) == (root, "top")

    (root / "src" / "AGENTS.md").write_text("nearer")
    project = found(root / "src" / "deep", trusted)
    assert project.instructions is not None
    assert project.instructions.text == "nearer"
    assert project.name(project.instructions) == "src/AGENTS.md"


def test_without_a_project_file_only_the_workspace_itself_counts(root: Path, trusted: TrustStore) -> None:
    (root / "AGENTS.md").write_text("top")

    assert found(root / "src", trusted).instructions is None
    assert found(root, trusted).instructions is not None


def test_each_part_is_accepted_for_itself(root: Path, trusted: TrustStore) -> None:
    (root / ".escalera" / "templates").mkdir(parents=True)
    (root / ".escalera" / "templates" / "brief.jinja").write_text("x")
    (root / ".escalera" / "templates" / "notes.txt").write_text("x")
    (root / "AGENTS.md").write_bytes(b"\xef\xbb\xbfcaf\xe9")
    assert "AGENTS.md, .escalera/templates/brief.jinja." in str(found(root, trusted).notice)

    trusted.trust(root / "AGENTS.md", b"\xef\xbb\xbfcaf\xe9")

    project = found(root, trusted)
    assert project.instructions is not None
    assert (project.instructions.accepted, project.instructions.text) == (True, "caf\ufffd")
    assert ": .escalera/templates/brief.jinja." in str(project.notice)
    trusted.trust(root / ".escalera" / "templates" / "brief.jinja", b"x")
    assert found(root, trusted).notice is None


def test_prompt_files_of_the_project_file_are_parts_and_others_are_not(root: Path, trusted: TrustStore) -> None:
    (root / "a.md").write_text("a")
    names = ["a.md", "./a.md", "x" * 5000, "../b.md", "/etc/hostname", "gone.md", "a\\u0000b"]
    tables = "".join(f'[agents.a{number}]\nprompt_file = "{name}"\n' for number, name in enumerate(names))
    (root.parent / "b.md").write_text("b")
    (root / "escalera.toml").write_text(tables + "[agents.x]\nprompt_file = 3\n")

    assert [part.path for part in found(root, trusted).named] == [root / "a.md"]


@pytest.mark.parametrize("content", ["[broken", "agents = 3", "[agents]\nx = 3"])
def test_a_broken_project_file_is_somebody_elses_to_tell(root: Path, trusted: TrustStore, content: str) -> None:
    (root / "escalera.toml").write_text(content)

    assert found(root, trusted).parts == ()


def test_what_is_no_file_of_a_reasonable_size_is_no_part(root: Path, trusted: TrustStore) -> None:
    os.mkfifo(root / "AGENTS.md")
    (root / ".escalera" / "templates" / "brief.jinja").mkdir(parents=True)
    (root / ".escalera" / "templates" / "need.jinja").write_bytes(b"x" * 1_000_001)

    assert found(root, trusted).parts == ()


def test_a_workspace_that_is_not_there_has_nothing(tmp_path: Path, trusted: TrustStore) -> None:
    for name in ("gone", "a\0b", "\ud800", "x" * 5000):
        assert found(tmp_path / name, trusted).parts == ()


def test_a_part_has_a_name_also_where_links_lead_to_it(root: Path, trusted: TrustStore) -> None:
    (root / "a.md").write_text("a")
    (root.parent / "link").symlink_to(root)
    (root / "escalera.toml").write_text(f'[agents.x]\nprompt_file = "{root}/a.md"\n')

    project = found(root.parent / "link", trusted)

    assert [project.name(part) for part in project.parts] == ["../repo/a.md"]
    assert "../repo/a.md" in str(project.notice)


def obey(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")


def test_what_claude_code_obeys_waits_for_trust_wherever_it_looks(root: Path, trusted: TrustStore) -> None:
    deep, settings = root / "src" / "deep", ".claude/settings.json"
    (root / ".git").mkdir()
    for folder in (deep, root, root.parent):
        obey(folder, settings, ".claude/settings.local.json", ".mcp.json", ".claude/notes.json")

    project = found(deep, trusted)

    assert project.notice is None, "what agents read themselves is told where such an agent is asked"
    assert project.unaccepted == (
        *(settings, ".claude/settings.local.json", f"../../{settings}", "../../.claude/settings.local.json"),
        *(".mcp.json", "../../.mcp.json", "../../../.mcp.json"),
    )
    for part in project.parts:
        trusted.trust(part.path, part.content)
    assert found(deep, trusted).unaccepted == ()
    (root / settings).write_text("{ }")
    assert found(deep, trusted).unaccepted == (f"../../{settings}",)


def test_what_lies_in_the_home_folder_itself_is_the_users_own(root: Path, trusted: TrustStore) -> None:
    obey(root, ".claude/settings.json", ".mcp.json")
    obey(root.parent, ".mcp.json")
    (root / ".git").mkdir()
    obey(root / "src", ".claude/settings.json")

    assert project_of(root, home=root, trusted=trusted).unaccepted == ()
    assert project_of(root / "src", home=root, trusted=trusted).unaccepted == (".claude/settings.json",)


def test_what_cannot_be_accepted_is_never_obeyed_and_what_is_not_there_asks_nothing(root: Path, trusted: TrustStore, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "settings.json").write_text("{}")
    (root / ".claude").symlink_to(tmp_path / "shared")
    (root / ".claude" / "settings.local.json").symlink_to("nowhere")
    os.mkfifo(root / ".mcp.json")

    project = found(root, trusted)

    assert [project.name(part) for part in project.parts] == [".claude/settings.json"], "a link that leads out of the project is followed as Claude Code does"
    assert project.unreadable == (root / ".mcp.json",)
    assert project.unaccepted == (".claude/settings.json", ".mcp.json")


def test_what_claude_code_takes_for_definitions_waits_for_trust_too(root: Path, trusted: TrustStore, tmp_path: Path) -> None:
    """An agent of a repository may bring hooks, servers and permissions of its own."""
    (root / ".git").mkdir()
    obey(root / "src", ".claude/agents/deep/evil.md", ".claude/skills/s/SKILL.md", ".claude/commands/c.MD", ".claude/agents/notes.txt")
    obey(root, ".claude/agents/top.md")
    obey(tmp_path / "shared", "linked.md")
    (root / ".claude" / "agents" / "there").symlink_to(tmp_path / "shared")
    (root / ".claude" / "agents" / "circle").symlink_to(root / ".claude" / "agents")

    project = found(root / "src", trusted)

    assert project.unaccepted == (
        *(".claude/agents/deep/evil.md", ".claude/skills/s/SKILL.md", ".claude/commands/c.MD"),
        *("../.claude/agents/there/linked.md", "../.claude/agents/top.md"),
    )
    for part in project.parts:
        trusted.trust(part.path, part.content)
    assert found(root / "src", trusted).unaccepted == ()
    obey(root, ".claude/agents/later.md")
    assert found(root / "src", trusted).unaccepted == ("../.claude/agents/later.md",)


def test_more_definitions_than_one_can_look_at_are_never_accepted(root: Path, trusted: TrustStore) -> None:
    obey(root, *(f".claude/agents/{number}.md" for number in range(501)))

    project = found(root, trusted)

    assert (project.parts, project.unreadable) == ((), (root / ".claude" / "agents",))
    assert project.unaccepted == (".claude/agents",)


def test_the_notice_names_every_part(root: Path, trusted: TrustStore) -> None:
    obey(root, *(f".escalera/templates/{number}.jinja" for number in range(40)))

    assert all(f"/{number}.jinja" in str(found(root, trusted).notice) for number in range(40))
