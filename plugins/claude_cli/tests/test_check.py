"""Whether `claude` is there and logged in, asked of stand-ins with a home of their own."""

import json
import os
import subprocess
import time

import pytest
from escalera_claude_cli.login import login_found
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.provider import ClaudeProvider

from orchestrator.providers import AgentContext

NOW = 1_800_000_000.0
ACCOUNT = {"claudeAiOauth": {"accessToken": "secret-token", "refreshToken": "secret-refresh", "expiresAt": 1}}


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def check(stage, home):
    """The result for a stand-in that answers `--version` with that text and runs `more` for anything else."""

    def run(version="2.1.197 (Claude Code)", more="sys.exit(1)", **environ):
        program = stage.program(f"if sys.argv[1:] == ['--version']:\n    print({version!r})\n    sys.exit(0)\n{more}")
        kept = {"HOME": str(home), "PATH": os.environ["PATH"], **environ}
        return ClaudeProvider(ClaudeOptions(bin=program), AgentContext("claude", str(stage.workspace), kept)).check()

    return run


def said(logged_in):
    return f"assert sys.argv[1:] == ['auth', 'status']\nprint('{json.dumps({'loggedIn': logged_in})}')"


def test_a_program_that_says_it_is_not_logged_in_is_not(check):
    result = check(more=said(False))
    assert (result.ok, result.status) == (False, "not_logged_in")
    assert "claude auth login" in result.hint


def test_a_program_that_says_it_is_logged_in_works(check):
    assert check(more=said(True)).status == "works"


def test_a_login_on_file_is_found_without_asking_and_without_being_told(check, home):
    (home / ".claude" / ".credentials.json").write_text(json.dumps(ACCOUNT))
    result = check(more="open(os.environ['HOME'] + '/asked', 'w')")
    assert result.status == "works"
    assert "Claude account" in result.detail
    assert "secret" not in f"{result}"
    assert not (home / "asked").exists()


def test_an_old_program_is_asked_for_its_version_only(check, home):
    result = check(version="1.0.44 (Claude Code)", more="open(os.environ['HOME'] + '/asked', 'w')")
    assert result.status == "works"
    assert "first turn" in result.detail
    assert not (home / "asked").exists()


@pytest.mark.parametrize("more", ["print('what?')", "print('[' * 100000)", "print('[]')", "sys.exit(3)"])
def test_an_answer_that_says_nothing_leaves_it_open(check, more):
    result = check(more=more)
    assert result.status == "works"
    assert "first turn" in result.detail


def test_a_program_that_hangs_is_ended_with_what_it_started(stage, home):
    pid = home / "pid"
    program = stage.program(f"import subprocess\nopen({str(pid)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\ntime.sleep(60)")
    began = time.monotonic()
    result = stage.provider(program).check()
    assert result.status == "error"
    assert time.monotonic() - began < 5
    while alive(int(pid.read_text())) and time.monotonic() - began < 10:  # a kill takes its moment, and this one is not our child to wait for
        time.sleep(0.02)
    assert alive(int(pid.read_text())) is False


def alive(pid):
    """Whether it runs; one that has ended and was not waited for does not."""
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()[:1] not in ("", "Z")


def test_a_program_that_fails_says_how(stage):
    result = stage.provider(stage.program("sys.exit('broken')")).check()
    assert result.status == "error"
    assert "broken" in result.detail


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"ANTHROPIC_API_KEY": "sk-1"}, "ANTHROPIC_API_KEY"),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "t"}, "CLAUDE_CODE_OAUTH_TOKEN"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "Bedrock"),
        ({"CLAUDE_CODE_USE_BEDROCK": "0"}, None),
        ({"ANTHROPIC_API_KEY": ""}, None),
        ({}, None),
    ],
)
def test_the_environment_tells_how_it_is_logged_in(home, environ, found):
    login = login_found({"HOME": str(home), **environ}, now=NOW, platform="linux")
    assert (login is None) if found is None else (found in login)
    assert "sk-1" not in str(login)


@pytest.mark.parametrize(
    ("file", "content", "platform", "found"),
    [
        (".claude/.credentials.json", ACCOUNT, "linux", True),
        (".claude/.credentials.json", {"claudeAiOauth": {"accessToken": "t", "expiresAt": (NOW - 1) * 1000}}, "linux", False),
        (".claude/.credentials.json", {"claudeAiOauth": {"accessToken": "t", "expiresAt": (NOW + 1) * 1000}}, "linux", True),
        (".claude/.credentials.json", ["no"], "linux", False),
        (".claude/settings.json", {"apiKeyHelper": "/bin/key"}, "linux", True),
        (".claude.json", {"primaryApiKey": "sk-2"}, "linux", True),
        (".claude.json", {"oauthAccount": {"x": 1}}, "darwin", True),
        (".claude.json", {"oauthAccount": {"x": 1}}, "linux", False),
    ],
)
def test_the_files_tell_how_it_is_logged_in(home, file, content, platform, found):
    (home / file).write_text(json.dumps(content))
    assert (login_found({"HOME": str(home)}, now=NOW, platform=platform) is not None) == found


def test_a_configuration_folder_of_its_own_is_where_it_looks(home, tmp_path):
    (home / ".claude" / ".credentials.json").write_text(json.dumps(ACCOUNT))
    environ = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(tmp_path / "own")}
    assert login_found(environ, now=NOW, platform="linux") is None
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / ".credentials.json").write_text(json.dumps(ACCOUNT))
    assert login_found(environ, now=NOW, platform="linux") is not None


@pytest.mark.skipif(not os.environ.get("ESCALERA_TEST_CLAUDE"), reason="ESCALERA_TEST_CLAUDE does not name the real program")
def test_the_real_program_knows_that_it_is_not_logged_in(stage, home):
    kept = {"HOME": str(home), "PATH": os.environ["PATH"], "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1"}
    real = ClaudeOptions(bin=os.environ["ESCALERA_TEST_CLAUDE"])
    assert ClaudeProvider(real, AgentContext("claude", str(stage.workspace), kept)).check().status == "not_logged_in"
    assert ClaudeProvider(real, AgentContext("claude", str(stage.workspace), kept | {"ANTHROPIC_API_KEY": "sk-1"})).check().status == "works"
