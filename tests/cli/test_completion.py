"""Completion scripts, completing in the real shells: what they offer, and that they never start the program."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from orchestrator.cli.app import COMMANDS, root
from orchestrator.cli.shells import script
from orchestrator.cli.tree import Place, tree_of
from orchestrator.settings.declarations import SETTINGS

TREE = tree_of(root, "escalera", summaries=COMMANDS)
Complete = Callable[..., list[str]]

BASH = """\
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_escalera escalera "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """\
compdef() { :; }
_describe() { local -a names=("${(P@)@[-1]}"); for one in $names; do [[ $one == $word* ]] && print -r -- ${one%%:*}; done }
compadd() { shift; for one; do [[ $one == $word* ]] && print -r -- $one; done }
_files() { for one in $word*(N); do print -r -- $one; done }
compset() { word=${word#*=} }
source $1; shift
words=("$@"); CURRENT=$#
_escalera
"""
"""The function itself, with stand-ins for what only a line that is being edited has."""


@pytest.fixture(params=["bash", "zsh", "fish"])
def complete(request: pytest.FixtureRequest, tmp_path: Path) -> Complete:
    """What the shell offers behind those words, the last of which is begun; a program that is started leaves a file."""
    shell = str(request.param)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file, trap = tmp_path / f"completion.{shell}", tmp_path / "bin" / "escalera"
    file.write_text(script(shell, TREE))
    trap.parent.mkdir()
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    trap.chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes and more.txt").touch()

    def offered(*words: str) -> list[str]:
        if shell == "fish":
            command = [shell, "--no-config", "-c", f"source {file}; complete -C 'escalera {' '.join(words)}'"]
        else:
            command = [shell, "-f" if shell == "zsh" else "--norc", "-c", BASH if shell == "bash" else ZSH, shell, str(file), "escalera", *words]
        environ = {"PATH": f"{trap.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        result = subprocess.run(command, cwd=tmp_path / "work", env=environ, capture_output=True, text=True, check=False)
        assert result.stderr == ""
        assert not (tmp_path / "started").exists()
        return sorted(line.partition("\t")[0].replace("\\ ", " ") for line in result.stdout.splitlines() if line)

    return offered


def test_every_command_is_offered_where_it_stands(complete: Complete) -> None:
    assert complete("") == sorted(COMMANDS)
    assert complete("sess") == ["session"]
    assert complete("session", "s") == ["search", "show"]
    assert complete("--set", "a=b", "--color", "never", "session", "show", "--t") == ["--turn"]


def test_the_words_of_an_option_are_offered(complete: Complete) -> None:
    assert complete("--color", "") == ["always", "auto", "never"]
    assert complete("usage", "--by", "s") == ["session"]
    assert complete("--notify-terminal", "t") == ["true"]
    assert complete("completion", "") == ["bash", "fish", "zsh"]


def test_the_value_of_an_option_is_no_command(complete: Complete) -> None:
    assert complete("--primary", "session", "usage", "--b") == ["--by"]
    assert complete("--primary", "") == []
    assert complete("ask", "--reason", "se") == []


def test_settings_are_offered_by_path_and_as_flags(complete: Complete) -> None:
    assert complete("settings", "get", "") == sorted(setting.path for setting in SETTINGS)
    assert complete("--limits-idle") == ["--limits-idle-timeout"]


def test_files_are_offered_where_one_is_wanted_and_nowhere_else(complete: Complete) -> None:
    assert complete("ask", "--file", "no") == ["notes and more.txt"]
    assert complete("session", "import", "no") == ["notes and more.txt"]
    assert complete("ask", "no") == []
    assert complete("ask", "--", "--js") == []


def test_an_option_with_its_value_in_one_word_is_completed() -> None:
    """As readline cuts it, and as it stands where the sign does not cut words."""
    for words, expected in ((["--color", "=", "al"], "always"), (["--color", "="], "always auto never"), (["--color=al"], "--color=always")):
        assert sorted(in_bash(words)) == expected.split()


def in_bash(words: list[str]) -> list[str]:
    program = BASH.replace('source "$1"; shift', script("bash", TREE))
    result = subprocess.run(["bash", "--norc", "-c", program, "bash", "escalera", *words], capture_output=True, text=True, check=True)
    return result.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_every_option_is_in_the_script(shell: str) -> None:
    text = script(shell, TREE)

    missing = [name for place in TREE.all() for name in (*place.path[-1:], *_long(place)) if (name.removeprefix("--") if shell == "fish" else name) not in text]
    assert missing == []


def _long(place: Place) -> list[str]:
    return [name for option in place.options for name in option.names if name.startswith("--")]


def test_the_tree_has_what_click_has() -> None:
    def count(command: click.Command, context: click.Context) -> int:
        below = [command.get_command(context, name) for name in command.list_commands(context)] if isinstance(command, click.Group) else []
        return 1 + sum(count(found, click.Context(found, info_name=found.name, parent=context)) for found in below if found is not None and not found.hidden)

    assert len(list(TREE.all())) == count(root, click.Context(root, info_name="escalera"))
