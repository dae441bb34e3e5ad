"""`escalera doctor` on machines of the tests' own making: a home, a PATH, and servers on loopback."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer

from .conftest import Result, Shell

NOBODY = "http://127.0.0.1:9/v1"
"""Where nobody listens: the discard port."""
SILENCED = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OLLAMA_HOST"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"),
)
LOGGED_OUT = '{"loggedIn": false}'
LOGGED_IN = '{"loggedIn": true}'


@dataclass
class Machine:
    """What the doctor looks at."""

    shell: Shell
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def claude(self, status: str, before: str = "") -> None:
        """Put a stand-in for Claude Code on the PATH."""
        program = self.folder / "bin" / "claude"
        program.write_text(f"#!/bin/sh\n{before}\ncase \"$1\" in --version) echo '2.1.197 (Claude Code)';; *) echo '{status}';; esac\n")
        program.chmod(0o755)

    def run(self, *arguments: str, server: str = NOBODY, **environ: str) -> Result:
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        own = dict.fromkeys(SILENCED, "") | {"HOME": str(self.folder), "PATH": path} | self.environ | environ
        return self.shell.run("doctor", "--server", server, *arguments, **own)

    def findings(self, *arguments: str, code: int = 0, **options: str) -> list[dict[str, Any]]:
        result = self.run("--json", *arguments, **options)
        assert result.returncode == code, result.stdout + result.stderr
        document = json.loads(result.stdout)
        assert document["format"] == "escalera.doctor/1"
        assert document["ok"] is (code == 0)
        return list(document["findings"])

    @property
    def config(self) -> Path:
        return self.shell.home / "config" / "config.toml"


@pytest.fixture
def machine(shell: Shell, tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(shell, tmp_path)


def of(findings: list[dict[str, Any]], area: str) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["area"] == area]


def statuses(findings: list[dict[str, Any]], area: str) -> dict[str, str]:
    return {finding["name"]: finding["status"] for finding in of(findings, area)}


def test_a_bare_machine_has_the_embedded_model_and_nothing_is_made_there(machine: Machine) -> None:
    findings = machine.findings()
    assert statuses(findings, "roles") == {"primary": "works", "escalation": "works"}
    assert statuses(findings, "claude") == {"claude": "absent"}
    assert statuses(findings, "aws") == {"credentials": "absent"}
    assert statuses(findings, "servers") == {"named": "absent"}
    assert statuses(findings, "store") == {"folder": "works", "database": "absent"}
    assert {status for name, status in statuses(findings, "plugins").items() if name != "bubblewrap"} == {"works"}
    assert not machine.shell.home.exists()


def test_writes_a_configuration_of_what_it_found_that_works(machine: Machine) -> None:
    machine.claude(LOGGED_IN)
    with OpenAIServer(models=["nomic-embed-text", "qwen2.5-coder"]) as server:
        result = machine.run("--write", server=server.url)
        assert result.returncode == 0, result.stdout + result.stderr
        written = machine.config.read_text()
        again = machine.findings(server=server.url)
    assert f'base_url = "{server.url}"' in written
    assert 'model = "qwen2.5-coder"' in written
    assert stat.S_IMODE(machine.config.stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.shell.home.stat().st_mode) == 0o700
    assert os.listdir(machine.config.parent) == ["config.toml"]
    assert f"Written to {machine.config}" in result.stdout
    assert [finding["detail"].partition(" ")[0] for finding in of(again, "roles")] == ["local", "claude"]
    agents = machine.shell.json("agents", "list", "--json")["agents"]
    assert {agent["name"]: agent["roles"] for agent in agents} == {"local": ["primary"], "claude": ["escalation"]}


def test_a_configuration_that_is_a_link_to_nothing_is_a_problem(machine: Machine) -> None:
    machine.config.parent.mkdir(parents=True)
    machine.config.symlink_to("/nonexistent/config.toml")

    (found,) = of(machine.findings(), "configuration")

    assert (found["status"], found["next"]) == ("problem", "put the file there, or remove the link")
    assert "/nonexistent/config.toml" in found["detail"]


def test_a_program_that_only_an_agent_names_is_found(machine: Machine) -> None:
    machine.claude(LOGGED_IN)
    program = machine.folder / "elsewhere"
    (machine.folder / "bin" / "claude").rename(program)
    machine.config.parent.mkdir(parents=True)
    machine.config.write_text(f'escalation = "strong"\n[agents.strong]\nprovider = "claude-cli"\nbin = "{program}"\n')

    assert statuses(machine.findings(code=1), "claude") == {"claude": "works"}


def test_what_is_no_program_has_a_next_step(machine: Machine) -> None:
    (machine.folder / "bin" / "claude").write_text("no program")
    (machine.folder / "bin" / "claude").chmod(0o755)

    (found,) = of(machine.findings(), "claude")

    assert (found["status"], "Exec format error" in found["detail"]) == ("problem", True)
    assert "`bin`" in found["next"]


def test_pipes_in_the_place_of_files_hold_nothing_up(machine: Machine) -> None:
    machine.claude(LOGGED_OUT)
    for folder, name in ((".aws", "credentials"), (".claude", ".credentials.json")):
        (machine.folder / folder).mkdir()
        os.mkfifo(machine.folder / folder / name)
    began = time.monotonic()

    findings = machine.findings()

    assert time.monotonic() - began < 5
    assert "is a pipe" in next(finding["detail"] for finding in of(findings, "aws") if finding["status"] == "problem")
    assert [finding["detail"] for finding in of(findings, "claude")] == ["not logged in: 2.1.197 (Claude Code) is installed"]


@pytest.mark.parametrize("there", ["a file", "a dangling link"])
def test_what_is_there_is_never_written_over(machine: Machine, there: str) -> None:
    machine.config.parent.mkdir(parents=True)
    if there == "a file":
        machine.config.write_text("# mine\n")
    else:
        machine.config.symlink_to(machine.folder / "nowhere")
    result = machine.run("--write")
    assert result.returncode == 0
    assert "left as it is" in result.stderr
    assert 'primary = "local"' in result.stdout
    assert not (machine.folder / "nowhere").exists()
    if there == "a file":
        assert machine.config.read_text() == "# mine\n"


def test_a_claude_that_is_not_logged_in_is_no_choice(machine: Machine) -> None:
    machine.claude(LOGGED_OUT)
    document = json.loads(machine.run("--json", OPENROUTER_API_KEY="sk-or-1").stdout)
    (claude,) = of(document["findings"], "claude")
    assert claude["status"] == "problem"
    assert "claude auth login" in claude["next"]
    assert 'provider = "openrouter"' in document["suggestion"]
    assert "claude-cli" not in document["suggestion"]


def test_a_login_that_another_agent_uses_too_stays_claudes_and_stand_ins_for_keys_switch_nothing_off(machine: Machine) -> None:
    machine.claude(LOGGED_OUT)
    local = '[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\napi_key = "1"\n'
    shared = '[agents.other]\nprovider = "openai"\nbase_url = "https://api.anthropic.com/v1"\nmodel = "m"\napi_key = { env = "ANTHROPIC_API_KEY" }\n'
    machine.shell.configure(f'primary = "local"\nescalation = "claude"\n{local}{shared}[agents.claude]\nprovider = "claude-cli"\n')

    for environ in ({"ANTHROPIC_API_KEY": "sk-ant-dummy-1"}, {"CLAUDE_CODE_USE_BEDROCK": "1"}):
        findings = machine.findings(code=1, **environ)

        (found,) = of(findings, "claude")
        (role,) = [finding for finding in of(findings, "roles") if finding["name"] == "escalation"]
        assert (found["status"], role["status"]) == ("works", "works")
        assert found["detail"] in role["detail"]


def test_no_secret_is_ever_shown(machine: Machine) -> None:
    (machine.folder / ".aws").mkdir()
    (machine.folder / ".aws" / "credentials").write_text("[default]\naws_access_key_id = SECRET1\naws_secret_access_key = SECRET2\n")
    machine.environ |= {"OPENROUTER_API_KEY": "SECRET3", "OPENAI_API_KEY": "SECRET4", "AWS_ACCESS_KEY_ID": "SECRET5", "AWS_SECRET_ACCESS_KEY": "SECRET6"}
    machine.shell.configure('[agents.local]\nprovider = "embedded"\n[agents.x]\nprovider = "openrouter"\nmodel = "m"\napi_key = "SECRET7"\n')
    for arguments in (["--json"], ["--write"]):
        result = machine.run(*arguments)
        assert "SECRET" not in (result.stdout + result.stderr).replace("AWS_SECRET_ACCESS_KEY", "")
        assert "OPENROUTER_API_KEY" in result.stdout


def test_nothing_that_hangs_holds_it_up(machine: Machine) -> None:
    machine.claude(LOGGED_IN, before="sleep 60")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        findings = machine.findings(server=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert time.monotonic() - began < 8
    assert "no answer" in of(findings, "servers")[0]["detail"]
    assert "no answer" in of(findings, "claude")[0]["detail"]


def test_agents_elsewhere_are_looked_at_and_not_contacted(machine: Machine) -> None:
    machine.shell.configure(
        'primary = "near"\nescalation = "far"\n[agents.near]\nprovider = "openai"\nbase_url = "https://models.invalid/v1"\n'
        '[agents.far]\nprovider = "openrouter"\nmodel = "m"\napi_key = { env = "OPENROUTER_API_KEY" }\n'
    )
    assert statuses(machine.findings(OPENROUTER_API_KEY="sk"), "roles") == {"primary": "ready", "escalation": "ready"}
    _, escalation = of(machine.findings(code=1), "roles")
    assert (escalation["status"], escalation["next"]) == ("problem", "export OPENROUTER_API_KEY=…")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ('provider = "openrouter"\nmodel = "m"', "no API key"),
        ('provider = "no-such-kind"', "no-such-kind"),
        ('provider = "claude-cli"', "no program 'claude'"),
        (f'provider = "openai"\nbase_url = "{NOBODY}"', "cannot be reached"),
    ],
)
def test_a_role_that_cannot_work_fails_and_says_what_to_do(machine: Machine, agent: str, said: str) -> None:
    machine.shell.configure(f'escalation = "x"\n[agents.local]\nprovider = "embedded"\n[agents.x]\n{agent}\n')
    primary, escalation = of(machine.findings(code=1), "roles")
    assert (primary["status"], escalation["status"]) == ("works", "problem")
    assert said in escalation["detail"]


def test_a_broken_configuration_is_told_whole_and_stops_nothing_else(machine: Machine) -> None:
    machine.shell.configure('primry = "local"\n[limits]\nmax_tool_iterations = "many"\n')
    findings = machine.findings(code=1)
    problems = [finding["detail"] for finding in of(findings, "configuration") if finding["name"] == "problem"]
    assert any("primry" in problem for problem in problems)
    assert any("max_tool_iterations" in problem for problem in problems)
    assert set(statuses(findings, "roles").values()) == {"problem"}
    assert {status for name, status in statuses(findings, "plugins").items() if name != "bubblewrap"} == {"works"}


def test_options_that_only_a_plugin_knows_are_checked_too(machine: Machine) -> None:
    machine.shell.configure('[agents.local]\nprovider = "embedded"\n[agents.stand-in]\nprovider = "embedded"\nthread = 2\n')
    findings = machine.findings(code=1)
    assert any("thread" in finding["detail"] for finding in of(findings, "configuration"))


def test_a_plugin_that_does_not_load_is_named(machine: Machine) -> None:
    folder = machine.folder / "plugins" / "escalera_broken-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: escalera-broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[escalera]\nbroken = escalera_broken\n")
    broken = next(finding for finding in of(machine.findings(PYTHONPATH=str(folder.parent)), "plugins") if finding["name"] == "broken")
    assert broken["status"] == "problem"
    assert "escalera_broken" in broken["detail"]


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_what_agents_run_commands_in_and_plugins_that_are_missing_are_told(machine: Machine) -> None:
    machine.shell.configure('[plugins]\nwanted = ["escalera-acme>=2"]\n')
    without = statuses(machine.findings(PATH=str(machine.folder / "bin")), "plugins")
    program = machine.folder / "bin" / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    having = statuses(machine.findings(PATH=str(machine.folder / "bin")), "plugins")
    assert (without["bubblewrap"], having["bubblewrap"]) == ("absent", "ready")
    assert (without["escalera-acme"], having["escalera-acme"]) == ("problem", "problem")


def stored_session(machine: Machine) -> str:
    turns = [{"role": "primary", "prompt": f"prompt {number} " + "x" * 3000, "answer": "a"} for number in range(60)]
    file = machine.shell.cwd / "session.json"
    file.write_text(json.dumps({"format": "escalera.session/1", "turns": turns}))
    assert machine.shell.run("session", "import", str(file)).returncode == 0
    return str(machine.shell.json("session", "list", "--json")["sessions"][0]["id"])


def test_the_store_is_read_in_full_and_left_as_it_is(machine: Machine) -> None:
    stored_session(machine)
    database = machine.shell.home / "data" / "escalera.db"
    before = database.read_bytes()
    (folder, sound) = of(machine.findings(), "store")
    assert (folder["status"], sound["status"]) == ("works", "works")
    assert "60 turns" in sound["detail"]
    assert "wal" in sound["detail"]
    assert database.read_bytes() == before


def test_damage_anywhere_in_the_store_is_found_and_left_as_it_is(machine: Machine) -> None:
    stored_session(machine)
    database = machine.shell.home / "data" / "escalera.db"
    damaged = bytearray(database.read_bytes())
    middle = len(damaged) // 2 // 4096 * 4096
    damaged[middle : middle + 4096] = os.urandom(4096)
    database.write_bytes(damaged)
    assert "problem" in [finding["status"] for finding in of(machine.findings(), "store") if finding["name"] == "database"]
    assert database.read_bytes() == bytes(damaged)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the environment of other processes cannot be read here")
def test_processes_left_behind_are_found_by_their_session(machine: Machine) -> None:
    session = stored_session(machine)
    ours = {"PATH": "/usr/bin:/bin", "_ESCALERA_STORE": str(machine.shell.home / "data"), "_ESCALERA_OWNER": "999999999:1"}
    marks = (ours | {"_ESCALERA_SESSION": session}, ours | {"_ESCALERA_SESSION": "somebody-elses"}, {"_ESCALERA_SESSION": session})
    started = [subprocess.Popen(["sleep", "60"], env=mark) for mark in marks]
    try:
        (left,) = of(machine.findings(), "processes")
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert left["status"] == "problem"
    assert left["next"] == f"kill {started[0].pid}; the next turn of any session ends it too"
    assert statuses(machine.findings(), "processes") == {"left behind": "works"}


def test_people_read_what_works_and_the_next_step(machine: Machine) -> None:
    result = machine.run()
    assert result.returncode == 0
    assert result.stdout.startswith("Who answers\n  works    primary: local (embedded)")
    assert "next: run `escalera doctor --write`" in result.stdout
    assert result.stdout.rstrip().endswith("To begin with what was found here: escalera doctor --write")


def test_a_folder_that_cannot_be_written_is_an_error_in_words(machine: Machine) -> None:
    machine.shell.home.write_text("a file where a folder belongs")
    result = machine.run("--write")
    assert result.returncode == 2
    assert "cannot write" in result.stderr
    assert "Traceback" not in result.stderr
