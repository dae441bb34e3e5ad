"""A third party's provider, in a package of its own: built, installed, used; then broken in every way, and the rest works."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell

SOURCE = Path(__file__).parent.parent / "third_party" / "escalera_command"
DOCS = Path(__file__).parent.parent.parent / "docs" / "plugins.md"

CONFIG = """
primary = "local"
escalation = "shouter"
[agents.local]
provider = "openai"
base_url = "{url}"
model = "m"
[agents.shouter]
provider = "command"
command = ["tr", "a-z", "A-Z"]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(SOURCE)], check=True, stdout=subprocess.DEVNULL)
    (found,) = folder.glob("*.whl")
    return found


@dataclass
class Installed:
    """The plugin as pip lays it out, in a folder that the program's Python looks into."""

    shell: Shell
    server: OpenAIServer
    site: Path

    @property
    def module(self) -> Path:
        return self.site / "escalera_command.py"

    @property
    def info(self) -> Path:
        (found,) = self.site.glob("*.dist-info")
        return found

    def change(self, old: str, new: str) -> None:
        text = self.module.read_text("utf-8")
        assert old in text
        self.module.write_text(text.replace(old, new), "utf-8")

    def describe(self, old: str, new: str) -> None:
        """Change the metadata."""
        file = self.info / "METADATA"
        assert old in file.read_text("utf-8")
        file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")

    def plugin(self) -> dict[str, Any]:
        """What `plugins list` says of it."""
        return self.found_in(self.shell.json("plugins", "list", "--json"))

    @staticmethod
    def found_in(document: dict[str, Any]) -> dict[str, Any]:
        plugins = document["plugins"]
        assert {"bedrock", "claude_cli", "embedded", "openrouter"} <= {plugin["name"] for plugin in plugins if plugin["loaded"]}
        (found,) = [plugin for plugin in plugins if plugin["name"] == "command"]
        return dict(found)


@pytest.fixture
def installed(shell: Shell, tmp_path: Path, wheel: Path) -> Iterator[Installed]:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    with OpenAIServer() as server:
        shell.configure(CONFIG.format(url=server.url))
        yield Installed(replace(shell, more={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}), server, site)


def test_it_is_found_configured_listed_checked_and_used(installed: Installed) -> None:
    shell = installed.shell
    installed.server.add(reply("hello"))

    assert installed.plugin() == {
        "name": "command",
        "distribution": "escalera-command",
        "version": "1.0",
        "loaded": True,
        "kinds": ["command"],
        "problem": None,
        "blocked": False,
        "hooks": ["escalera_provider_kinds"],
        "hook_problems": [],
    }
    agents = {agent["name"]: agent for agent in shell.json("agents", "list", "--json")["agents"]}
    assert (agents["shouter"]["problem"], agents["shouter"]["roles"]) == (None, ["escalation"])
    assert shell.run("agents", "check", "shouter").stdout.startswith("shouter  works")
    assert shell.json("plan", "--escalate", "look", "--json")["delivery"]["stdin"].endswith("user: look")

    assert shell.json("ask", "hi", "--json")["answer"] == "hello"
    turn = shell.json("ask", "--escalate", "now you", "--json")

    assert (turn["agent"], turn["mode"], turn["outcome"]) == ("shouter", "first", "completed")
    assert "USER: HI" in turn["answer"]
    assert "[ANSWER OF LOCAL, THE PRIMARY AGENT]\nHELLO\n" in turn["answer"]
    assert turn["answer"].rstrip().endswith("USER: NOW YOU")


def test_a_misspelt_option_is_named_and_so_is_what_the_program_answers(installed: Installed) -> None:
    shell = installed.shell
    wrong = shell.run("--set", "agents.shouter.comand=x", "ask", "--escalate", "x")
    failed = shell.json("--set", 'agents.shouter.command=["false"]', "--set", "limits.retry_attempts=0", "ask", "--escalate", "x", "--json", code=1)

    assert wrong.returncode == 2
    assert "agents.shouter.comand" in wrong.stderr
    assert "did you mean `command`" in wrong.stderr
    assert failed["error"]["message"] == "false ended with exit code 1"


def import_error(plugin: Installed) -> None:
    plugin.change("import shutil", "from orchestrator.providers import Capability")


def syntax_error(plugin: Installed) -> None:
    plugin.change("class CommandProvider:", "class CommandProvider(:")


def missing_dependency(plugin: Installed) -> None:
    plugin.change("import shutil", "import shutil, leftpad")


def removed_package(plugin: Installed) -> None:
    plugin.module.unlink()


def wrong_signature(plugin: Installed) -> None:
    plugin.change("def escalera_provider_kinds():", "def escalera_provider_kinds(config):")


def unknown_hook(plugin: Installed) -> None:
    plugin.change("def escalera_provider_kinds():", "def escalera_provider_kind():")


def unmarked_hook(plugin: Installed) -> None:
    plugin.change("@hookimpl\n", "")


def no_kind(plugin: Installed) -> None:
    plugin.change('ProviderKind("command", Options, CommandProvider, summary="asks any program")', '("command", Options)')


def taken_name(plugin: Installed) -> None:
    plugin.change('ProviderKind("command"', 'ProviderKind("openai"')
    plugin.describe("Name: escalera-command", "Name: zzz-command")


def other_level(plugin: Installed) -> None:
    plugin.change("import shutil", "import shutil\nESCALERA_API_LEVEL = 2")


def other_version(plugin: Installed) -> None:
    plugin.describe("escalera>=0.1", "escalera>=99")


def leaves(plugin: Installed) -> None:
    plugin.change("import shutil", "raise SystemExit('no licence')")


def half_registered(plugin: Installed) -> None:
    plugin.change("return [ProviderKind(", "yield ProviderKind('half', Options, CommandProvider)\n    raise RuntimeError('boom')\n    return [ProviderKind(")


NOT_THERE = "there is no provider kind 'command'"


@pytest.mark.parametrize(
    ("breaks", "loaded", "problem"),
    [
        (import_error, False, "ImportError: cannot import name 'Capability'"),
        (syntax_error, False, "SyntaxError"),
        (missing_dependency, False, "needs the module leftpad, which is not installed"),
        (removed_package, False, "its module escalera_command is not there; was the package removed?"),
        (wrong_signature, False, "config"),
        (unknown_hook, True, "implements the unknown hook escalera_provider_kind, which is never called; did you mean `escalera_provider_kinds`?"),
        (unmarked_hook, True, "defines escalera_provider_kinds without @hookimpl"),
        (no_kind, False, "gave tuple instead of ProviderKind"),
        (taken_name, True, "the kind openai is taken by escalera-openrouter"),
        (other_level, False, "was made for plugin API level 2, and this is level 1"),
        (other_version, False, "wants escalera >=99, and this is escalera "),
        (leaves, False, "tried to end the program (SystemExit no licence)"),
        (half_registered, False, "escalera_provider_kinds failed: RuntimeError: boom"),
    ],
)
def test_broken_it_is_listed_with_the_reason_and_the_rest_works(installed: Installed, breaks: Callable[[Installed], None], loaded: bool, problem: str) -> None:
    breaks(installed)
    installed.server.add(reply("still here"))

    commands = (("plugins", "list", "--json"), ("ask", "hello", "--json"), ("agents", "list", "--json"))
    results = installed.shell.each(*commands)

    assert [result.returncode for result in results] == [0, 0, 0]
    listing, turn, others = results
    listed = installed.found_in(json.loads(listing.stdout))
    agents = {agent["name"]: agent for agent in json.loads(others.stdout)["agents"]}
    assert (listed["loaded"], listed["kinds"]) == (loaded, [])
    assert problem in str(listed["problem"])
    assert json.loads(turn.stdout)["answer"] == "still here"
    (line,) = [line for line in turn.stderr.splitlines() if "plugin command" in line]
    assert line.startswith(f"plugin command ({listed['distribution']} 1.0): ")
    assert agents["local"]["problem"] is None
    assert NOT_THERE in agents["shouter"]["problem"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("self.model, self._command = None", "raise RuntimeError('sk-1'); self.model = None", "the provider command cannot be made: RuntimeError"),
        ("forget = cancel", "raise RuntimeError('sk-1'); forget = cancel", "the provider broke: RuntimeError in escalera_command.py, line "),
        ("yield MessageDone((Text(answer),))", "yield answer", "the provider gave something that is no event: str"),
        ('yield Finished("stop")', "", "the answer broke off before its end"),
        ("forget = cancel", "raise SystemExit(0); forget = cancel", "the provider broke: SystemExit in escalera_command.py, line "),
        ("        return {", "        raise KeyError('x')\n        return {", "the provider broke: KeyError"),
    ],
)
def test_a_provider_that_breaks_when_it_is_used_fails_its_own_turn_only(installed: Installed, old: str, new: str, message: str) -> None:
    installed.change(old, new)
    installed.server.add(reply("still here"))

    broken, rest, listed = installed.shell.each(("ask", "--escalate", "x", "--json"), ("ask", "--primary", "hello", "--json"), ("plugins", "list", "--json"))

    assert broken.returncode in (1, 2)
    assert message in json.loads(broken.stdout)["error"]["message"]
    assert "Traceback" not in broken.stderr
    assert json.loads(rest.stdout)["answer"] == "still here"
    assert installed.found_in(json.loads(listed.stdout))["problem"] is None


def test_strict_makes_it_fatal_and_the_list_still_says_why(installed: Installed) -> None:
    installed.change("import shutil", "import leftpad")

    strict = installed.shell.run("--plugins-strict", "true", "ask", "hello")
    listed = installed.shell.run("--plugins-strict", "true", "plugins", "list")

    assert strict.returncode == 2
    assert "plugin command (escalera-command 1.0): needs the module leftpad" in strict.stderr
    assert installed.server.requests == []
    assert listed.returncode == 0
    assert "command  escalera-command 1.0  not loaded: needs the module leftpad" in listed.stdout


def test_blocked_it_is_not_imported_and_nobody_is_warned(installed: Installed) -> None:
    installed.change("import shutil", "raise RuntimeError('imported')")
    installed.server.add(reply("hi"))

    turn = installed.shell.run("--plugins-blocked", "escalera-command", "ask", "hello")

    assert (turn.returncode, turn.stdout.strip()) == (0, "hi")
    assert "plugin command" not in turn.stderr


def test_a_session_of_an_agent_whose_plugin_is_gone_lists_shows_and_exports(installed: Installed) -> None:
    said = installed.shell.json("ask", "--escalate", "remember me", "--json")
    gone = replace(installed.shell, more={})

    listed = gone.json("session", "list", "--json")["sessions"]
    shown = gone.json("session", "show", "--json")
    exported = json.loads(gone.run("session", "export", said["session"]).stdout)
    found = gone.json("session", "search", "remember", "--json")
    agents = {agent["name"]: agent for agent in gone.json("agents", "list", "--json")["agents"]}
    refused = gone.json("ask", "--escalate", "again", "--json", code=2)

    assert [session["id"] for session in listed] == [said["session"]]
    assert shown["turns"][0]["agent"] == exported["turns"][0]["agent"] == "shouter"
    assert exported["turns"][0]["prompt"] == "remember me"
    assert found["hits"]
    assert NOT_THERE in agents["shouter"]["problem"]
    assert NOT_THERE in refused["error"]["message"]
    assert gone.json("session", "show", "--json")["turns"] == shown["turns"]


def test_the_documentation_shows_this_very_plugin() -> None:
    text = DOCS.read_text("utf-8")

    assert (SOURCE / "escalera_command.py").read_text("utf-8").strip() in text
    assert (SOURCE / "pyproject.toml").read_text("utf-8").strip() in text
