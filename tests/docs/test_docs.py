"""What the documentation shows is what the program takes: every command, option, setting, file and value, read from the pages and tried."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from orchestrator.cli.app import root
from orchestrator.plugins import PluginManager, installed_entry_points
from orchestrator.settings.declarations import BY_ENV, BY_PATH

ROOT = Path(__file__).parents[2]
WRITTEN = {"commands.md", "settings.md", "hooks.md", "provider-checks.md"}
"""What scripts/docs.py writes from the code."""
PAGES = [path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("plugins/*/README.md"))) if path.name not in WRITTEN]
OUTSIDE = re.compile(r"[|>;&…]|\.\.\.|\$\(")
"""What ends a command, or stands for words that are left out."""


def tokens(page: Path) -> Iterator[Token]:
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text("utf-8")):
        yield token
        yield from token.children or ()


def commands(page: Path) -> list[str]:
    """Each command line of ours, in a fence or in a sentence."""
    lines: list[str] = []
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            lines += token.content.replace("\\\n", " ").splitlines()
        elif token.type == "code_inline":
            lines.append(token.content.replace("\n", " "))
    stripped = [re.sub(r"^\s*(\$ )?(uv run )?(\./)?", "", line) for line in lines]
    return [line for line in stripped if re.match(r"escalera( |$)", line)]


def fences(page: Path, language: str) -> list[str]:
    return [token.content for token in tokens(page) if token.type == "fence" and token.info.strip() == language]


def shown(pages: list[Path], found: object) -> list[object]:
    """Parameters, one for each thing that a page shows."""
    return [pytest.param(thing, id=f"{page.relative_to(ROOT)}: {str(thing)[:60]}") for page in pages for thing in found(page)]  # type: ignore[operator]


def walked(line: str) -> tuple[click.Command, list[str]]:
    """The command that a line calls, and the options that it gives to it or to the program. Fails where there is no such command."""
    words = shlex.split(OUTSIDE.split(line.replace('"…"', "something"), maxsplit=1)[0], comments=True)[1:]
    command: click.Command = root
    options = []
    while words:
        word = words.pop(0)
        if word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            options.append(name)
            option = _option(command, name)
            if option is not None and not option.is_flag and not equals and words:
                words.pop(0)
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"{line!r}: there is no command {word!r}"
            command = found
    return command, options


def _option(command: click.Command, name: str) -> click.Option | None:
    context = click.Context(command)
    for one in (command, root):
        for parameter in one.get_params(context):
            if isinstance(parameter, click.Option) and name in (*parameter.opts, *parameter.secondary_opts):
                return parameter
    return None


@pytest.mark.parametrize("line", shown(PAGES, commands))
def test_every_command_that_is_shown_is_one(line: str) -> None:
    command, options = walked(line)
    assert [name for name in options if _option(command, name) is None] == []


def test_a_command_or_an_option_that_is_none_is_found() -> None:
    with pytest.raises(AssertionError, match="there is no command 'plans'"):
        walked("escalera plans --json")
    command, options = walked("escalera --set a.b=1 plan --json --jsn")
    assert [name for name in options if _option(command, name) is None] == ["--jsn"]


@pytest.mark.parametrize("text", shown(PAGES, lambda page: [text for text in fences(page, "toml") if "[project" not in text]))
def test_every_configuration_that_is_shown_can_be_used(text: str, tmp_path: Path) -> None:
    from orchestrator.agents import agent_problems
    from orchestrator.settings.paths import paths_of
    from orchestrator.settings.resolution import Sources, read_files, resolved

    file = tmp_path / "config.toml"
    file.write_text(text)
    paths = paths_of({"ESCALERA_HOME": str(tmp_path / "home")}, platform="linux")
    sources = Sources({}, tmp_path, paths, file, {}, ())
    settings, problems = resolved(sources, read_files(sources))
    kinds = PluginManager.load(installed_entry_points()).kinds()
    assert [*problems, *agent_problems(settings.agents.values(), kinds)] == []


@pytest.mark.parametrize("text", shown(PAGES, lambda page: fences(page, "json")))
def test_every_json_that_is_shown_is_json(text: str) -> None:
    assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_setting_that_is_named_is_one(page: Path) -> None:
    heads = {path.partition(".")[0] for path in BY_PATH if "." in path}
    named = {token.content for token in tokens(page) if token.type == "code_inline"}
    paths = {text.partition(" = ")[0] for text in named if re.fullmatch(r"[a-z_]+(\.(?!py$)[a-z_]+)+( = .*)?", text)}
    assert {path for path in paths if path.partition(".")[0] in heads and path not in BY_PATH and not _is_table(path)} == set()
    variables = {text for text in named if re.fullmatch(r"ESCALERA_[A-Z_]+", text)}
    assert {
        name for name in variables if name not in BY_ENV and name not in OTHER_VARIABLES and not name.startswith(("ESCALERA_TEST_", "ESCALERA_PROOF_"))
    } == set()


OTHER_VARIABLES = {"ESCALERA_HOME", "ESCALERA_API_LEVEL"}


def _is_table(path: str) -> bool:
    return any(known.startswith(f"{path}.") for known in BY_PATH)
