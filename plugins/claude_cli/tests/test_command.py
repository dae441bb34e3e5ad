"""What the program is called with, and with which environment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from escalera_claude_cli.command import user_line, without_mentions
from escalera_claude_cli.environment import child_environment
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.provider import ClaudeProvider
from pydantic import ValidationError

from orchestrator.providers import AgentContext


def provider(**options):
    return ClaudeProvider(ClaudeOptions(**options), AgentContext("claude", "/nowhere", {}))


def test_preview_shows_the_whole_call_without_a_program(stage):
    shown = provider(bin="not-installed", model="opus", allowed_tools=("Read", "Bash(git log:*)"), add_dirs=("/a", "/b"), mcp_config="m.json").preview(
        stage.request("do it", id="<new>")
    )

    assert shown["argv"] == [
        *("not-installed", "--print", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--include-partial-messages", "--permission-prompt-tool", "stdio", "--session-id", "<new>"),
        *("--append-system-prompt-file", "<system-prompt-file>", "--model", "opus", "--allowedTools", "Read,Bash(git log:*)"),
        *("--add-dir", "/a", "--add-dir", "/b", "--mcp-config", "m.json"),
    ]
    assert shown["system_prompt_file"] == "You are in a session."
    assert json.loads(shown["stdin"])["message"] == {"role": "user", "content": "[context]\n\ndo it"}


def test_resumed_conversation_keeps_the_model_that_served_it(stage):
    request = stage.request(action="resume", model="served")

    resumed, configured = provider().preview(request)["argv"], provider(model="wanted", extra_args=("--max-turns", "3")).preview(request)["argv"]

    assert "--session-id" not in resumed
    assert resumed[resumed.index("--resume") + 1] == request.conversation.id
    assert resumed[-2:] == ["--model", "served"]
    assert configured[-4:] == ["--model", "wanted", "--max-turns", "3"]


@pytest.mark.parametrize("action", ["start", "resume"])
def test_where_the_workspace_has_files_that_nobody_accepted_only_the_users_settings_count(stage, action: str):
    agent, request = provider(extra_args=("--setting-sources", "project")), stage.request(action=action)

    plain, held = (agent.preview(replace(request, unaccepted=files))["argv"] for files in ((), (".mcp.json",)))

    assert held == [*plain, "--setting-sources", "user"], "behind what is configured, since the last one counts"


def test_message_is_one_line_of_ascii_whatever_it_holds(stage):
    line = user_line(stage.request("a\nb\u2028c\x85d\ud800e\x00f 😀"))

    assert line.isascii()
    assert line.count("\n") == 1
    assert json.loads(line)["message"]["content"] == "[context]\n\na\nb\u2028c\x85d\ufffde\ufffdf 😀"


def test_mentions_are_disarmed_in_the_context_and_left_to_the_user_in_the_prompt(stage):
    request = stage.request("explain @a.py", context_block='see @/etc/hosts, @"b c" and me@example.org\n@~/x')

    content = json.loads(user_line(request))["message"]["content"]

    assert content == 'see \\@/etc/hosts, \\@"b c" and me@example.org\n\\@~/x\n\nexplain @a.py'
    assert provider().preview(request)["stdin"] == user_line(request)


@pytest.mark.parametrize("before", ["", " ", "\n", "\t", "(", '"', "`", "。", "\u00a0", "\u3000", "\ufeff", "\u2028", "\x00", "é", "見"])
def test_every_at_that_could_be_a_mention_is_disarmed_once(before):
    once = without_mentions(f"{before}@x")

    assert once == f"{before}\\@x"
    assert without_mentions(once) == once


@pytest.mark.parametrize(
    ("wrong", "key"),
    [({"modell": "x"}, "modell"), ({"model": "-x"}, "model"), ({"allowed_tools": [""]}, "allowed_tools"), ({"env": {"A": True}}, "env")]
    + [({"extra_args": [flag]}, "extra_args") for flag in ("--resume", "--session-id=x", "-p", "--", "--output-format")],
)
def test_wrong_option_is_named(wrong, key):
    with pytest.raises(ValidationError, match=key):
        ClaudeOptions(**wrong)


def test_environment_is_the_users_without_what_belongs_to_others():
    environ = {"HOME": "/h", "HTTPS_PROXY": "p", "CLAUDE_CODE_USE_BEDROCK": "1", "CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s", "_ESCALERA_SESSION": "outer"}
    secrets = {"OPENROUTER_API_KEY": "sk-other", "COPY": "sk-other"}
    options = ClaudeOptions(env={"HTTPS_PROXY": False, "ADDED": "yes", "CLAUDE_CODE_MAX_RETRIES": "0"})

    child = child_environment({**environ, **secrets}, options, ["sk-other", ""])

    assert child == {"HOME": "/h", "CLAUDE_CODE_USE_BEDROCK": "1", "ADDED": "yes", "CLAUDE_CODE_MAX_RETRIES": "0"}


@pytest.mark.parametrize(
    "mark",
    [
        *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_REMOTE", "CLAUDE_CODE_REMOTE_SESSION_ID", "CLAUDE_CODE_TMUX_SESSION"),
        *("CLAUDE_CODE_SESSION_LOG", "CLAUDE_SESSION_ID", "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR"),
    ],
)
def test_no_mark_of_an_outer_session_is_handed_on(mark):
    assert child_environment({mark: "outer", "HOME": "/h"}, ClaudeOptions()) == {"HOME": "/h"}


def test_variables_of_other_agents_are_left_out_unless_they_are_its_own_login():
    names = ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK", "OPENROUTER_API_KEY")
    environ = {name: f"value of {name}" for name in names} | {"COPY": "value of ANTHROPIC_API_KEY"}

    def left(**env):
        return set(child_environment(environ, ClaudeOptions(env=env), ["value of ANTHROPIC_API_KEY", "value of AWS_BEARER_TOKEN_BEDROCK"], names))

    assert left() == {"ANTHROPIC_API_KEY"}
    assert left(CLAUDE_CODE_USE_BEDROCK="0") == {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"}
    assert left(CLAUDE_CODE_USE_BEDROCK="1") == {"ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK", "CLAUDE_CODE_USE_BEDROCK"}
    assert left(OPENROUTER_API_KEY="given") == {"ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"}


def test_retries_of_the_cli_are_bounded_unless_the_user_says_otherwise(stage):
    retries, no_second = "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK"
    body = f"heard(); say(init(), result(' '.join(os.environ.get(name, '-') for name in ('{retries}', '{no_second}'))))"

    def told(retries_left=None, **more):
        return stage.turn(body, replace(stage.request(), retries_left=retries_left), **more).texts

    assert [told(), told(3), told(2), told(1), told(0)] == [["1 -"], ["3 -"], ["2 -"], ["1 -"], ["1 1"]]
    assert told(3, environ={retries: "5"}) == ["5 -"]
    assert told(0, env={retries: "7", no_second: False}) == ["7 -"]


def test_configuration_folder_is_the_childs():
    context = AgentContext("claude", "/w", {"CLAUDE_CONFIG_DIR": "/from-user"})

    assert ClaudeProvider(ClaudeOptions(), context).config_dir == "/from-user"
    assert ClaudeProvider(ClaudeOptions(env={"CLAUDE_CONFIG_DIR": "/own"}), context).config_dir == "/own"
    assert ClaudeProvider(ClaudeOptions(env={"CLAUDE_CONFIG_DIR": False}), context).config_dir is None


def test_secrets_in_options_show_in_no_text():
    assert "sk-own" not in repr(ClaudeOptions(env={"ANTHROPIC_API_KEY": "sk-own"}))


def test_check_says_when_nothing_is_installed(stage):
    result = stage.provider(str(Path(stage.folder, "none"))).check()

    assert result.status == "not_installed"
    assert "install" in result.hint


def test_plugin_registers_its_kind():
    import escalera_claude_cli

    (kind,) = escalera_claude_cli.escalera_provider_kinds()

    assert kind.name == "claude-cli"
    assert kind.factory(kind.options(), AgentContext("claude", "/w", {})).capabilities.keeps_conversation


def test_servers_that_are_no_json_are_refused_before_the_program_could_quote_them():
    with pytest.raises(ValidationError, match=r"is no valid JSON: .* at character 48") as caught:
        ClaudeOptions(mcp_config='{"mcpServers": {"x": {"env": {"TOKEN": "sk-1"}}}')

    assert ClaudeOptions(mcp_config='{"mcpServers": {}}').mcp_config == '{"mcpServers": {}}'
    assert "sk-1" not in caught.value.errors()[0]["msg"]
