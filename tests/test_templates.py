"""Only files are templates: overridable one by one, refused with file and line when they are broken, and values are never rendered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.templates import Override, Templates, built_in_folder, overrides_in

TRIALS = Path(__file__).parent / "trials"
T102 = json.loads((TRIALS / "T102.json").read_text("utf-8"))
T103 = json.loads((TRIALS / "T103.json").read_text("utf-8"))


class Told(list[str]):
    """What was said about broken overrides."""

    def __call__(self, text: str) -> None:
        self.append(text)


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jinja").write_text(text, "utf-8")


def override(folder: Path, name: str, text: str, told: Told | None = None) -> Templates:
    write(folder, name, text)
    return Templates(overrides_in(folder, "user"), tell=Told() if told is None else told)


def test_a_built_in_template_renders_its_values() -> None:
    assert Templates().render("not_shown", count=7) == "7 earlier turns are not shown."


def test_trailing_blanks_are_removed_and_blank_is_empty(tmp_path: Path) -> None:
    templates = override(tmp_path, "brief", "{{ brief }} \n\n \t\n")

    assert templates.render("brief", brief=" kept") == " kept"
    assert templates.render("brief", brief=" ") == ""


def test_the_first_override_goes_before_the_second_and_both_before_the_built_in_ones(tmp_path: Path) -> None:
    write(tmp_path / "user", "brief", "user: {{ brief }}")
    write(tmp_path / "project", "brief", "project: {{ brief }}")
    write(tmp_path / "project", "not_shown", "project: {{ count }}")
    templates = Templates(
        [*overrides_in(tmp_path / "user", "user"), *overrides_in(tmp_path / "absent", "user"), *overrides_in(tmp_path / "project", "project")]
    )

    assert templates.render("brief", brief="x") == "user: x"
    assert templates.render("not_shown", count=2) == "project: 2"
    assert "Current goal" in templates.render("need", need="x", label="current")
    assert [(found.name, found.origin) for found in templates.all() if found.origin != "built-in"] == [("brief", "user"), ("not_shown", "project")]
    assert [ignored.origin for ignored in templates.get("brief").ignored] == ["project"]


def test_an_override_can_include_the_others(tmp_path: Path) -> None:
    write(tmp_path, "part", "part of {{ brief }}")

    assert override(tmp_path, "brief", "{% include 'part.jinja' %}").render("brief", brief="x") == "part of x"


def test_a_file_that_is_not_trusted_is_not_even_looked_at(tmp_path: Path) -> None:
    told = Told()
    foreign = Override(tmp_path / "brief.jinja", "project", b"{{ brief", accepted=False)

    templates = Templates([foreign], tell=told)

    assert templates.render("brief", brief="x").startswith("## Why")
    assert (told, templates.get("brief").origin) == ([], "built-in")
    assert "not trusted" in str(templates.get("brief").ignored[0].problem)


def test_a_template_is_read_once(tmp_path: Path) -> None:
    templates = override(tmp_path, "brief", "old {{ brief }}")

    write(tmp_path, "brief", "new {{ brief }}")

    assert templates.render("brief", brief="x") == "old x"


def test_a_text_of_a_session_is_rendered_once_and_anew_where_its_template_gave_way(tmp_path: Path) -> None:
    told = Told()
    templates = override(tmp_path, "brief", "{{ brief.upper(1) if brief == 'b' else brief }} of the user's", told)

    first, again = (templates.render_once("brief", brief="a long one") for _ in range(2))
    other = templates.render_once("brief", brief="b")
    after = templates.render_once("brief", brief="a long one")

    assert first is again
    assert (first, other) == ("a long one of the user's", "## Why you have this turn\nb")
    assert after == "## Why you have this turn\na long one"
    assert len(told) == 1


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "brief.jinja").write_bytes(b"\xef\xbb\xbfx {{ brief }}")

    assert Templates(overrides_in(tmp_path, "user")).render("brief", brief="y") == "x y"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a\nb {% if %}", 2, "Expected an expression"),
        ("a\n\n{{ brief", 3, "unexpected end of template"),
        ("a\n{{ brief.upper(1, 2) }}", 2, "takes no arguments"),
        ("a\n{{ 1 / 0 }}", 2, "division by zero"),
        ("{{ ''.__class__.__mro__ }}", 1, "unsafe"),
        ("{{ brief.__init__.__globals__ }}", 1, "unsafe"),
        ("\n{% set l = [] %}{{ l.append(1) }}", 2, "is unsafe"),
        ("{% for i in range(99999999) %}{% endfor %}", 1, "Range too big"),
        ("{% include '../../etc/passwd' %}", 1, "passwd"),
        ("{% extends 'brief.jinja' %}", 1, "recursion"),
    ],
)
def test_a_broken_override_is_told_once_with_file_and_line_and_gives_way(tmp_path: Path, text: str, line: int, reason: str) -> None:
    told = Told()
    templates = override(tmp_path, "brief", text, told)

    assert [templates.render("brief", brief="x") for _ in range(2)] == ["## Why you have this turn\nx"] * 2

    assert len(told) == 1
    assert f"{tmp_path / 'brief.jinja'}, line {line}: " in told[0]
    assert reason in told[0]
    assert templates.get("brief").origin == "built-in"
    assert reason in str(templates.get("brief").ignored[0].problem)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"caf\xe9", "is not UTF-8"),
        (b"\xff\xfex", "UTF-16"),
        (b"x" * 1_000_001, "is larger than"),
        (b"{{ " + b"(" * 5000 + b" }}", "brief.jinja"),
        (b"{{ brief }}\n{{ brief }}\n{{ nede }}\n{{ a }}", "brief.jinja, line 3: 'nede' is not given; known are brief"),
    ],
)
def test_what_can_be_seen_without_rendering_is_told_at_load(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "brief.jinja").write_bytes(content)
    told = Told()

    templates = Templates(overrides_in(tmp_path, "user"), tell=told)

    assert len(told) == 1
    assert reason in told[0]
    assert str(tmp_path / "brief.jinja") in told[0]
    assert templates.render("brief", brief="x").endswith("\nx")


def test_the_next_override_counts_where_the_first_is_broken(tmp_path: Path) -> None:
    write(tmp_path / "user", "brief", "{{ brief.upper(1, 2) }}")
    write(tmp_path / "project", "brief", "project: {{ brief }}")
    templates = Templates([*overrides_in(tmp_path / "user", "user"), *overrides_in(tmp_path / "project", "project")])

    assert templates.render("brief", brief="x") == "project: x"


def test_overrides_of_nothing_are_listed(tmp_path: Path) -> None:
    assert [unknown.name for unknown in override(tmp_path, "breif", "x").unknown()] == ["breif"]


def test_an_unknown_template_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean `brief`"):
        Templates().get("breif")


def test_every_built_in_template_compiles_for_itself(tmp_path: Path) -> None:
    names = sorted(path.name for path in built_in_folder().glob("*.jinja"))
    assert len(names) >= 14
    for name in names:
        (tmp_path / name).write_text((built_in_folder() / name).read_text("utf-8"), "utf-8")

    told = Told()

    templates = Templates(overrides_in(tmp_path, "user"), tell=told)

    assert told == []
    assert {found.origin for found in templates.all()} == {"user"}


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

    told = Told()
    write(tmp_path, "identity", prompt)
    reloaded = Templates(overrides_in(tmp_path, "user"), tell=told, before=kept)

    assert [reloaded.render("identity", **values) for _ in range(2)] == [kept.render("identity", **values)] * 2, "the last good one stays"
    assert len(told) == 1
    assert f"{tmp_path / 'identity.jinja'}, line 1: 'x' is not given" in told[0]
    assert "its last good version stays" in told[0]

    write(tmp_path, "identity", "mended {{ agent }}")
    assert Templates(overrides_in(tmp_path, "user"), tell=told, before=reloaded).render("identity", **values) == "mended Bob {0}"


@pytest.mark.trial("T103")
def test_one_that_breaks_only_when_it_is_rendered_leaves_its_last_good_version(tmp_path: Path) -> None:
    told, values = Told(), {"agent": "Bob"}
    templates = None

    def edited(*texts: str) -> str:
        nonlocal templates
        for text in texts:
            write(tmp_path, "identity", text)
            templates = Templates(overrides_in(tmp_path, "user"), tell=told, before=templates)
        assert templates is not None
        return templates.render("identity", **values)

    assert edited("one {{ agent }}") == "one Bob"
    assert edited("typo {{ agent.name }}") == "one Bob"
    assert told[-1].startswith(f"template {tmp_path}/identity.jinja, line 1: ")
    assert "; its last good version stays (" in told[-1]
    assert edited("typo {{ agent.name }} again", "typo {{ agent.other }}") == "one Bob", "however often it was edited between two turns"
    assert edited("two {{ agent }}") == "two Bob"
    assert edited("load {{ nope }}") == "two Bob"
    assert edited("typo {{ agent.name }}") == "two Bob"
    (tmp_path / "identity.jinja").unlink()
    assert Templates(overrides_in(tmp_path, "user"), before=templates).get("identity").origin == "built-in"


def test_an_override_that_needs_more_memory_than_there_is_gives_way(tmp_path: Path) -> None:
    told = Told()

    assert override(tmp_path, "not_shown", '{{ "a" * 99999999999999 }}', told).render("not_shown", count=7) == "7 earlier turns are not shown."
    assert "not_shown.jinja, line 1: MemoryError" in told[0]


def test_who_includes_a_template_without_its_values_is_blamed_for_it(tmp_path: Path) -> None:
    told = Told()

    assert override(tmp_path, "not_shown", "\n{% include 'brief.jinja' %}", told).render("not_shown", count=7) == "7 earlier turns are not shown."
    assert told[0].startswith(f"template {tmp_path / 'not_shown.jinja'}, line 2: 'brief' is undefined (in {built_in_folder() / 'brief.jinja'}, line ")


@pytest.mark.parametrize(
    "text", ["{{ digest }}", "a\n{{ digest }} b {{ agent }}\n", "{% raw %}{{ no }}{% endraw %} {{digest}}  \n\n", "{# a remark #}x{{- digest -}} y", "plain"]
)
@pytest.mark.parametrize("value", ["two\nlines", "", "{{ agent }}", "ends in blanks  \n"])
def test_a_template_that_decides_nothing_gives_the_same_without_jinja(tmp_path: Path, text: str, value: str) -> None:
    templates = Templates([Override(tmp_path / "prior_escalation.jinja", "user", text.encode())])

    first, second = (templates.render("prior_escalation", digest=value, agent="strong") for _ in range(2))

    assert first == second


def test_a_value_that_is_missing_or_no_text_is_left_to_jinja(tmp_path: Path) -> None:
    told: list[str] = []
    templates = Templates([Override(tmp_path / "prior_escalation.jinja", "user", b"{{ agent }}: {{ digest }}")], tell=told.append)

    assert templates.render("prior_escalation", digest="x", agent="strong") == "strong: x"
    assert templates.render("prior_escalation", digest=7, agent="strong") == "strong: 7"
    assert "x" in templates.render("prior_escalation", digest="x", agent="strong")
    assert told == []
