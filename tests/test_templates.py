"""Only files are templates: overridable one by one, refused with file and line when they are broken, and values are never rendered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.templates import Templates, built_in_folder

TRIALS = Path(__file__).parent / "trials"
T102 = json.loads((TRIALS / "T102.json").read_text("utf-8"))
T103 = json.loads((TRIALS / "T103.json").read_text("utf-8"))


def override(folder: Path, name: str, text: str) -> Templates:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jinja").write_text(text, "utf-8")
    return Templates([folder])


def test_a_built_in_template_renders_its_values() -> None:
    assert Templates().render("not_shown", count=7) == "7 earlier turns are not shown."


def test_trailing_blanks_are_removed_and_blank_is_empty(tmp_path: Path) -> None:
    templates = override(tmp_path, "brief", "{{ brief }} \n\n \t\n")

    assert templates.render("brief", brief=" kept") == " kept"
    assert templates.render("brief", brief=" ") == ""


def test_the_first_folder_goes_before_the_second_and_both_before_the_built_in_ones(tmp_path: Path) -> None:
    override(tmp_path / "project", "brief", "project: {{ brief }}")
    override(tmp_path / "user", "brief", "user: {{ brief }}")
    override(tmp_path / "user", "not_shown", "user: {{ count }}")
    templates = Templates([tmp_path / "project", tmp_path / "absent", tmp_path / "user"])

    assert templates.render("brief", brief="x") == "project: x"
    assert templates.render("not_shown", count=2) == "user: 2"
    assert "Current goal" in templates.render("need", need="x", label="current")


def test_a_template_is_read_once(tmp_path: Path) -> None:
    templates = override(tmp_path, "brief", "old {{ brief }}")
    assert templates.render("brief", brief="x") == "old x"

    (tmp_path / "brief.jinja").write_text("new {{ brief }", "utf-8")

    assert templates.render("brief", brief="x") == "old x", "what worked stays"
    with pytest.raises(ConfigError):
        Templates([tmp_path]).check()


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "brief.jinja").write_bytes(b"\xef\xbb\xbfx {{ brief }}")

    assert Templates([tmp_path]).render("brief", brief="y") == "x y"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a\nb {% if %}", 2, "Expected an expression"),
        ("a\n\n{{ brief", 3, "unexpected end of template"),
        ("a\n{{ brief.upper(1, 2) }}", 2, "takes no arguments"),
        ("a\n{{ 1 / 0 }}", 2, "division by zero"),
        ("a\nb\n{{ unknown }}", 3, "'unknown' is undefined"),
        ("{{ ''.__class__.__mro__ }}", 1, "unsafe"),
        ("{{ values.append(1) }}{% set values = [] %}", 1, "undefined"),
        ("\n{% set l = [] %}{{ l.append(1) }}", 2, "is unsafe"),
        ("{% for i in range(99999999) %}{% endfor %}", 1, "Range too big"),
        ("{% include '../../etc/passwd' %}", 1, "passwd"),
    ],
)
def test_a_broken_template_is_an_error_with_file_and_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    templates = override(tmp_path, "brief", text)

    with pytest.raises(ConfigError) as caught:
        templates.render("brief", brief="x")

    assert f"{tmp_path / 'brief.jinja'}, line {line}: " in caught.value.message
    assert reason in caught.value.message
    assert caught.value.hint


def test_a_template_that_is_not_utf8_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "brief.jinja").write_bytes(b"caf\xe9")

    with pytest.raises(ConfigError, match=r"brief\.jinja is not UTF-8"):
        Templates([tmp_path]).render("brief", brief="x")


def test_check_names_every_broken_override_in_one_error(tmp_path: Path) -> None:
    override(tmp_path, "brief", "{{ brief")
    override(tmp_path, "need", "{{ need }} {{ label }}\n{{ nede }}")
    templates = override(tmp_path, "not_shown", "{{ count }}")
    (tmp_path / "percepts.jinja").write_bytes(b"\xff")

    with pytest.raises(ConfigError) as caught:
        templates.check()

    brief, need, percepts = caught.value.message.splitlines()
    assert f"{tmp_path / 'brief.jinja'}, line 1" in brief
    assert "'nede' is not given; known are label, need" in need
    assert "percepts.jinja" in percepts


def test_check_passes_without_overrides_and_for_good_ones(tmp_path: Path) -> None:
    Templates().check()
    override(tmp_path, "brief", "Why: {{ brief }}").check()


def test_every_built_in_template_compiles_for_itself(tmp_path: Path) -> None:
    names = sorted(path.name for path in built_in_folder().glob("*.jinja"))
    assert len(names) >= 14
    for name in names:
        (tmp_path / name).write_text((built_in_folder() / name).read_text("utf-8"), "utf-8")

    Templates([tmp_path]).check()


def test_importing_does_not_import_jinja() -> None:
    code = "import sys, orchestrator.templates, orchestrator.context.static, orchestrator.memory.inject; sys.exit('jinja2' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.trial("T102")
@pytest.mark.parametrize("text", T102["texts"])
def test_t102_template_syntax_in_values_reaches_the_agent_unchanged(text: str) -> None:
    assert Templates().render("brief", brief=text).endswith(f"\n{text}")


@pytest.mark.trial("T103")
def test_t103_braces_in_a_prompt_file_work_or_give_one_error_with_file_and_line(tmp_path: Path) -> None:
    prompt = T103["prompt_file"]
    kept = override(tmp_path, "identity", "You are {{ agent }}: {{ role }}, {{ others }}. {single} braces {stay")
    values = {"agent": T103["values"]["agent"], "role": "primary", "others": ""}
    assert "Bob {0}: primary, . {single} braces {stay" in kept.render("identity", **values)

    with pytest.raises(ConfigError) as caught:
        override(tmp_path, "identity", prompt).check()

    assert f"{tmp_path / 'identity.jinja'}" in caught.value.message
    assert "'x' is not given" in caught.value.message
    assert "Bob {0}" in kept.render("identity", **values), "the last good one stays"
