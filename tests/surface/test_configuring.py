"""Configuring from the command line: settings set and unset, agents added and used, project files accepted, secrets shown nowhere."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import PROGRAM, Result, Shell

TWO = 'primary = "a"\nescalation = "b"\n[agents.a]\nprovider = "embedded"\n[agents.b]\nprovider = "embedded"\n[agents.c]\nprovider = "embedded"\n'
TRIAL = json.loads((Path(__file__).parents[1] / "trials" / "T96.json").read_text())["secrets"]
CANARY, QUERY = TRIAL["api_key"], TRIAL["query_key"]


def user_file(shell: Shell) -> Path:
    return shell.home / "config" / "config.toml"


def documents(results: list[Result]) -> list[dict[str, Any]]:
    assert [result.returncode for result in results] == [0] * len(results), [result.stderr for result in results]
    return [json.loads(result.stdout) for result in results]


def test_set_and_unset_say_what_get_says_then(shell: Shell) -> None:
    shell.configure(TWO)

    results = shell.each(
        ["settings", "set", "limits.idle_timeout", "90s", "--json"],
        ["settings", "get", "limits.idle_timeout", "--json"],
        ["settings", "set", "agents.a.threads", "2", "--json"],
        ["settings", "get", "agents.a.threads", "--json"],
        ["settings", "set", "agents.a.limits.retry_attempts", "0", "--json"],
        ["settings", "get", "agents.a.limits.retry_attempts", "--json"],
        ["settings", "set", "--project", "need_expiry_hours", "1.5", "--json"],
        ["settings", "get", "need_expiry_hours", "--json"],
        ["settings", "unset", "limits.idle_timeout", "--json"],
        ["settings", "get", "limits.idle_timeout", "--json"],
    )

    said = documents(results)
    assert said[::2] == said[1::2]
    assert [document["value"] for document in said[::2]] == ["90s", 2, 0, 1.5, "120s"]
    assert said[0]["source"] == f"file:{user_file(shell)}"
    assert said[6]["source"] == f"file:{shell.cwd / 'escalera.toml'}"
    assert (
        user_file(shell).read_text()
        == TWO.replace('[agents.a]\nprovider = "embedded"\n', '[agents.a]\nprovider = "embedded"\nthreads = 2\n') + "\n[agents.a.limits]\nretry_attempts = 0\n"
    )


def test_a_value_may_be_negative_and_what_goes_before_it_is_said(shell: Shell) -> None:
    (done, shadowed, missing) = shell.each(
        ["settings", "set", "global_archive_after_days", "-1", "--json"],
        ["--need-expiry-hours", "5", "settings", "set", "need_expiry_hours", "4"],
        ["settings", "unset", "fallback"],
    )

    assert json.loads(done.stdout)["value"] == -1
    assert shadowed.stdout.startswith("need_expiry_hours = 5  [flag]")
    assert shadowed.stderr.strip() == f"flag goes before {user_file(shell)}"
    assert missing.stdout == "fallback = false  [default]\n"
    assert missing.stderr.strip() == f"{user_file(shell)} does not set fallback"


def test_what_cannot_be_set_is_one_line_with_a_way_on(shell: Shell) -> None:
    shell.configure(TWO)
    cases = {
        ("settings", "set", "limits.idle_timout", "5s"): (2, "did you mean `limits.idle_timeout`?"),
        ("settings", "set", "limits.idle_timeout", "5"): (2, "expected a duration with its unit"),
        ("settings", "set", "limits.idle_timeout"): (2, "missing argument 'VALUE'"),
        ("settings", "set", "agents.a.threads", "many"): (2, "agents.a.threads: 'many' is not usable"),
        ("settings", "set", "agents.a.threds", "2"): (2, "unknown option of the provider embedded; did you mean `threads`?"),
        ("settings", "set", "agents.a.api_key", CANARY): (2, '{ env = "NAME" }'),
        ("settings", "set", "agents.c.body.x", "nan"): (2, "agents.c.body"),
        ("settings", "unset", "limits.idle_timout"): (2, "did you mean `limits.idle_timeout`?"),
        ("settings", "unset", "agents.a.modle"): (2, "did you mean `agents.a.model`?"),
        ("agents", "use", "aa", "--as", "escalation"): (3, "did you mean `a`?"),
        ("agents", "use", "a", "--as", "third"): (2, "third"),
        ("agents", "add", "a", "--provider", "embedded"): (2, "there is an agent 'a' already"),
        ("agents", "add", "d", "--provider", "embeded"): (2, "did you mean `embedded`?"),
        ("agents", "add", "d", "--provider", "openai", "--model", "m"): (2, "agents.d.base_url: is missing; the provider openai needs it"),
        ("agents", "add", "d", "--provider", "embedded", "--option", CANARY): (2, "number 1 is not of the form KEY=VALUE"),
        ("agents", "add", "d e", "--provider", "embedded"): (2, "is no name for an agent"),
        ("agents", "add", "d", "--provider", "openai", "--option", "base_url=http://h", "--option", f"api_key={CANARY}"): (2, '{ env = "NAME" }'),
        ("agents", "add", "d", "--provider", "openai", "--option", f"base_url=http://me:{CANARY}@h"): (2, '{ env = "NAME" }'),
    }

    results = shell.each(*map(list, cases))

    for result, (code, says) in zip(results, cases.values(), strict=True):
        assert (result.returncode, result.stdout) == (code, ""), result.args
        assert says in result.stderr
        assert result.stderr.count("\n") == 1
        assert CANARY not in result.stderr
    assert user_file(shell).read_text() == TWO


def test_an_agent_is_added_and_takes_a_role(shell: Shell) -> None:
    shell.configure("# mine\n" + TWO)

    added, used, listed = documents(
        shell.each(
            [
                "agents",
                "add",
                "d",
                "--provider",
                "openai",
                "--model",
                "405",
                "--option",
                "base_url=http://127.0.0.1:9/v1",
                "--option",
                "headers.x-n=1",
                "--json",
            ],
            ["agents", "use", "d", "--as", "escalation", "--json"],
            ["agents", "list", "--json"],
        )
    )

    assert (added["format"], added["name"], added["roles"], added["model"], added["problem"]) == ("escalera.agent/1", "d", [], "405", None)
    assert used == {**added, "roles": ["escalation"]}
    assert {key: value for key, value in used.items() if key != "format"} in listed["agents"]
    assert user_file(shell).read_text() == "# mine\n" + TWO.replace('"b"\n', '"d"\n', 1) + (
        '\n[agents.d]\nprovider = "openai"\nmodel = "405"\nbase_url = "http://127.0.0.1:9/v1"\n\n[agents.d.headers]\nx-n = "1"\n'
    )


def test_a_first_agent_makes_the_file(shell: Shell) -> None:
    result = shell.run("agents", "add", "local", "--provider", "embedded")

    assert (result.returncode, result.stdout, result.stderr) == (0, "local [primary]  embedded\n", "")
    assert user_file(shell).read_text() == '[agents.local]\nprovider = "embedded"\n'


def test_a_project_file_that_is_not_accepted_is_changed_and_counts_only_once_it_is(shell: Shell) -> None:
    file = shell.cwd / "escalera.toml"
    file.write_text("need_expiry_hours = 1\n")
    options = ["--provider", "openai", "--option", "base_url=http://127.0.0.1:9/v1"]

    added, changed, unknown, trusted, used = shell.each(
        ["agents", "add", "d", *options, "--project", "--json"],
        ["settings", "set", "--project", "agents.d.model", "m", "--json"],
        ["agents", "use", "d", "--as", "escalation", "--project"],
        ["trust", "--yes"],
        ["agents", "use", "d", "--as", "escalation", "--project", "--json"],
    )

    assert [result.returncode for result in (added, changed, unknown, trusted, used)] == [0, 0, 3, 0, 0]
    assert all("not trusted" in result.stderr for result in (added, changed, unknown))
    assert (json.loads(added.stdout)["provider"], json.loads(changed.stdout)["value"]) == ("openai", None)
    assert (json.loads(used.stdout)["model"], json.loads(used.stdout)["roles"]) == ("m", ["escalation"])


def test_a_broken_file_is_not_touched_and_a_wrong_one_can_be_mended(shell: Shell) -> None:
    shell.configure("primary = ")
    broken = shell.run("settings", "set", "fallback", "true")
    assert (broken.returncode, user_file(shell).read_text()) == (2, "primary = ")
    assert "line 1" in broken.stderr

    shell.configure("primary = 'nobody'\nneed_expire = 3\n")
    results = shell.each(["settings", "set", "primary", "local"], ["settings", "unset", "need_expire"], ["settings", "get", "primary"])

    assert [result.returncode for result in results] == [0, 0, 0]
    assert "still wrong" in results[0].stderr
    assert user_file(shell).read_text() == 'primary = "local"\n'


# -- accepting a project's file --------------------------------------------------------------------------

PROJECT = (
    "need_expiry_hours = 1\nprimary = 'theirs'\n[plugins]\nstrict = true\n[agents.theirs]\nprovider = 'claude-cli'\nbin = './run-me'\n"
    f"allowed_tools = ['Bash']\nenv = {{ API_TOKEN = '{CANARY}' }}\n"
)
KEYS = ("primary", "plugins.strict", "agents.theirs.provider", "agents.theirs.bin", "agents.theirs.allowed_tools", "agents.theirs.env")


def test_trust_lists_every_key_with_its_value_before_it_accepts_and_one_changed_byte_asks_again(shell: Shell) -> None:
    file = shell.cwd / "escalera.toml"
    file.write_text(PROJECT)

    alone, notice, yes, accepted, listed = shell.each(["trust"], ["agents", "list"], ["trust", "--yes"], ["agents", "list"], ["trust", "--list"])

    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert "--yes" in alone.stderr
    for key in KEYS:
        assert key in alone.stdout
        assert key in notice.stderr
    assert '  agents.theirs.bin = "./run-me"' in yes.stdout
    assert 'agents.theirs.env = { API_TOKEN = "***" }' in yes.stdout
    assert "theirs" not in notice.stdout
    assert "theirs [primary]  claude-cli" in accepted.stdout
    assert listed.stdout == f"{file}\n"

    file.write_text(PROJECT + " ")
    again, listed, revoked, gone = shell.each(["agents", "list"], ["trust", "--list"], ["trust", "--revoke"], ["trust", "--list"])

    assert "theirs" not in again.stdout
    assert "is not trusted" in again.stderr
    assert "has changed since" in listed.stdout
    assert revoked.stdout == f"no longer accepted: {file}\n"
    assert gone.stdout == ""
    assert not any(CANARY in result.stdout + result.stderr for result in (alone, notice, yes, accepted, listed, again))


@pytest.mark.parametrize(("answer", "accepted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_trust_asks_at_a_terminal_after_it_has_shown_what_it_is_about(shell: Shell, answer: str, accepted: bool) -> None:
    (shell.cwd / "escalera.toml").write_text(PROJECT)
    parent, child = pty.openpty()
    os.write(parent, answer.encode())
    done = subprocess.Popen([PROGRAM, "trust"], cwd=shell.cwd, env=shell.environ, stdin=child, stdout=child, stderr=child)
    os.close(child)
    shown = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert done.wait(30) == (0 if accepted else 130)

    text = shown.decode()
    assert text.index("agents.theirs.bin") < text.index("accept it as it is now?")
    assert bool(shell.json("trust", "--list", "--json")["files"]) is accepted


def test_the_users_own_change_keeps_an_accepted_file_accepted(shell: Shell) -> None:
    (shell.cwd / "escalera.toml").write_text("fallback = true\n")

    before, trusted, changed, after = shell.each(
        ["settings", "set", "--project", "plugins.blocked", "x"],
        ["trust", "--yes"],
        ["settings", "set", "--project", "plugins.blocked", "y"],
        ["settings", "get", "plugins.blocked"],
    )

    assert "is not trusted, so these are ignored: plugins.blocked, fallback" in before.stderr
    assert trusted.returncode == 0
    assert "is accepted with this change" in changed.stderr
    assert after.stdout.startswith('plugins.blocked = ["y"]  [file:')


# -- secrets ------------------------------------------------------------------------------------------------

SECRETS = f"""
primary = "plain"
escalation = "asked"
[limits]
retry_attempts = 0
[agents.plain]
provider = "openai"
base_url = "http://127.0.0.1:9/v1?key={QUERY}"
model = "m"
api_key = "{CANARY}"
headers = {{ Authorization = "Bearer {CANARY}", x-trace = "{CANARY}" }}
body = {{ deep = {{ password = "{CANARY}" }} }}
[agents.asked]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key = {{ env = "ASKED_KEY" }}
headers = {{ x-more = {{ cmd = ["{sys.executable}", "-c", "print('sk-DEMO-' + '4242424242')"] }} }}
[agents.claude]
provider = "claude-cli"
bin = "/no/such/program"
env = {{ ANTHROPIC_API_KEY = "{CANARY}" }}
[agents.url]
provider = "openai"
base_url = "http://me:{CANARY}@127.0.0.1:9/v1"
model = "m"
[agents.wrong]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
api_key = "{CANARY}\\nx\\u00e9"
headers = {{ "a b" = "{CANARY}" }}
[agents.keyed]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
api_key = {{ keyring = "somewhere/x" }}
"""


@pytest.mark.trial("T96")
def test_t96_a_secret_is_in_nothing_that_any_command_prints(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKED_KEY", CANARY)
    shell.configure(SECRETS)
    commands = [
        *(["settings", "list", *more] for more in ([], ["--json"])),
        *(
            ["settings", "get", f"agents.{path}", "--json"]
            for path in ("plain.api_key", "plain.headers", "plain.headers.x-trace", "plain.body", "plain.base_url", "claude.env")
        ),
        *(["agents", "list", *more] for more in ([], ["--json"])),
        *(["agents", "check", name] for name in ("plain", "asked", "claude", "url", "wrong", "keyed")),
        *(["plan", "--agent", name, "--json", "hello"] for name in ("plain", "asked", "claude", "url", "wrong", "keyed")),
        *(["ask", "--agent", name, "--json", "hello"] for name in ("plain", "asked", "claude", "url", "wrong", "keyed")),
        ["session", "export"],
        ["plugins", "list", "--json"],
        ["settings", "set", "agents.plain.model", "n", "--json"],
        ["settings", "set", "agents.plain.headers.x-more", "1"],
        ["settings", "unset", "agents.plain.headers.x-trace", "--json"],
        ["settings", "unset", "agents.plain.api_key", "--json"],
        ["agents", "use", "claude", "--as", "escalation", "--json"],
        ["--set", f"agents.plain.api_key={CANARY}", "settings", "get", "agents.plain.api_key"],
        ["--set", f"agents.plain.api_key=['{CANARY}']", "agents", "list"],
        ["--set", CANARY, "agents", "list"],
    ]

    said = {" ".join(result.args): result.stdout + result.stderr for result in shell.each(*commands)}

    assert [(command, text) for command, text in said.items() if CANARY[:12] in text or QUERY in text] == []
    assert not any("Traceback" in text for text in said.values())


def test_the_roles_are_swapped_by_one_command(shell: Shell) -> None:
    shell.configure(TWO)

    first, second = shell.each(["agents", "use", "b", "--as", "primary", "--json"], ["agents", "use", "b", "--as", "escalation"])

    assert json.loads(first.stdout)["roles"] == ["primary"]
    assert second.returncode == 0
    assert user_file(shell).read_text() == TWO


def test_a_file_that_is_named_and_not_there_is_made(shell: Shell, tmp_path: Path) -> None:
    new = tmp_path / "new.toml"

    done, got = shell.each(
        ["--config", str(new), "settings", "set", "limits.idle_timeout", "90s"], ["--config", str(new), "settings", "get", "limits.idle_timeout"]
    )
    missing = shell.run("--config", str(tmp_path / "none.toml"), "settings", "list")

    assert (done.returncode, new.read_text()) == (0, '[limits]\nidle_timeout = "90s"\n')
    assert "limits.idle_timeout = 90s" in got.stdout
    assert missing.returncode == 2


def test_a_directory_stands_for_its_project(shell: Shell) -> None:
    (shell.cwd / "sub").mkdir()
    (shell.cwd / "escalera.toml").write_text("fallback = true\n")

    accepted = shell.json("trust", "sub", "--yes", "--json")

    assert (accepted["file"], accepted["accepted"]) == (str(shell.cwd / "escalera.toml"), True)
    assert shell.run("trust", "/", "--yes").returncode == 3


def test_a_variable_that_is_no_text_is_refused_in_words(shell: Shell) -> None:
    shell.configure('primary = "x"\n[agents.x]\nprovider = "claude-cli"\nenv = { DEBUG = true }\n')

    refused = shell.run("ask", "x")

    assert refused.returncode == 2
    assert "agents.x.env.DEBUG: " in refused.stderr
    assert "lax-or-strict" not in refused.stderr
