"""`session show --turn N --wire`: what really went over the wire, with every kind, and no secret in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from orchestrator.testing.bedrock_server import BedrockServer, fail, say
from orchestrator.testing.openai_server import OpenAIServer, json_reply, reply

from .conftest import Shell

KEY = "canary-key-0123456789"
AWS = {"AWS_ACCESS_KEY_ID": "AKIDCANARY0000000000", "AWS_SECRET_ACCESS_KEY": "canary-aws-secret", "AWS_EC2_METADATA_DISABLED": "true"}


def kept(shell: Shell) -> str:
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in sorted((shell.home / "state" / "wire").iterdir()))


def configured(shell: Shell, url: str, more: str = "") -> None:
    secrets = f'api_key = {{ cmd = ["echo", "{KEY}"] }}\nheaders = {{ x-team = "team-canary" }}\n'
    agent = f'[agents.local]\nprovider = "openai"\nbase_url = "{url}"\nmodel = "m"\n{secrets}'
    shell.configure(f'primary = "local"\nescalation = "strong"\n{agent}{more or agent.replace("local", "strong")}')


def test_the_last_request_and_its_answer_of_an_http_agent(shell: Shell) -> None:
    refused = json_reply({"error": {"message": f"busy, {KEY}"}}, status=503, headers={"retry-after": "0", "set-cookie": "id=canary-cookie"})
    with OpenAIServer(refused, reply(f"Hello, {KEY}. AKIAABCDEFGHIJKLMNOP"), refused, refused, refused, refused) as server:
        configured(shell, server.url)
        assert shell.run("ask", "which birds?").returncode == 0
        assert shell.run("ask", "again?").returncode == 1
        asked, failed = shell.json("session", "show", "--turn", "0", "--wire", "--json"), shell.json("session", "show", "--turn", "1", "--wire", "--json")

        head, _, body = asked["sent"].partition("\n\n")
        assert head.splitlines()[0] == f"POST {server.url}/chat/completions"
        assert {"authorization: ***", "x-team: ***", "content-type: application/json"} <= set(head.splitlines())
        assert json.loads(body) == server.requests[1].body
    assert asked["received"].startswith("HTTP 200\n")
    assert '"content": "***. "' in asked["received"] or '"***.' in asked["received"]
    assert "AKIA" not in asked["received"], "masked when shown, by its shape"
    assert failed["received"].startswith("HTTP 503\n")
    assert "busy, ***" in failed["received"]
    assert [word for word in (KEY, "team-canary", "canary-cookie") if word in kept(shell)] == []


def test_people_read_it_too(shell: Shell) -> None:
    with OpenAIServer(reply("Hello \x1b]0;title\x07.")) as server:
        configured(shell, server.url)
        assert shell.run("ask", "hello").returncode == 0

    shown = shell.run("session", "show", "--turn", "0", "--wire").stdout
    assert shown.startswith("--- sent to local\nPOST http://127.0.0.1")
    assert "\n--- received\nHTTP 200\n" in shown
    assert "\x1b" not in shown


def test_a_turn_of_which_nothing_is_kept_is_told_apart_from_one_that_is_not_there(shell: Shell) -> None:
    with OpenAIServer(reply("a"), reply("b"), reply("c")) as server:
        configured(shell, server.url)
        for prompt in ("a", "b", "c"):
            assert shell.run("ask", prompt).returncode == 0
    files = sorted((shell.home / "state" / "wire").iterdir())
    files[1].unlink()

    gone, nowhere, whole = (shell.run("session", "show", *more, "--wire") for more in (("--turn", "1"), ("--turn", "9"), ()))

    assert (gone.returncode, gone.stderr) == (3, "escalera: what went over the wire in turn 1 is not kept (it is kept of the turns 0, 2)\n")
    assert (nowhere.returncode, "has no turn 9" in nowhere.stderr) == (3, True)
    assert (whole.returncode, "--turn N" in whole.stderr) == (2, True)


def test_a_dropped_session_leaves_nothing_of_it(shell: Shell) -> None:
    with OpenAIServer(reply("a")) as server:
        configured(shell, server.url)
        assert shell.run("ask", "--name", "x", "a").returncode == 0
    assert shell.run("session", "drop", "x").returncode == 0

    assert kept(shell) == ""


def test_argv_and_both_pipes_of_claude(shell: Shell, asks: Callable[[str, dict[str, object]], None]) -> None:
    asks("Bash", {"command": "make"})
    config = shell.home / "config" / "config.toml"
    config.write_text(config.read_text() + 'extra_args = ["--api-key=canary-argument", "--debug"]\n')

    assert shell.run("ask", "--escalate", "build it").returncode == 5
    wire = shell.json("session", "show", "--turn", "0", "--wire", "--json")

    call, message, permission = map(json.loads, wire["sent"].splitlines())
    assert call["argv"][1] == "--print"
    assert "--api-key=***" in call["argv"]
    assert "strong" in call["system_prompt_file"]
    assert message["message"]["content"].endswith("build it")
    assert permission["response"]["response"]["behavior"] == "deny"
    assert [json.loads(line)["type"] for line in wire["received"].splitlines()] == ["system", "control_request", "assistant", "result"]
    assert "canary-argument" not in kept(shell)


def test_a_turn_on_bedrock(shell: Shell) -> None:
    odd = "The Canonical String for this request should have been: AKIDCANARY0000000000 canary-aws-secret"
    with OpenAIServer() as local, BedrockServer(say("Hello."), fail(403, "InvalidSignatureException", odd)) as strong:
        agent = f'[agents.strong]\nprovider = "bedrock"\nmodel = "m"\nregion = "us-east-1"\nendpoint_url = "{strong.url}"\n'
        configured(shell, local.url, agent)
        assert shell.run("ask", "--escalate", "hello", **AWS).returncode == 0
        assert shell.run("ask", "--escalate", "again", **AWS).returncode == 1
    answered, refused = (shell.json("session", "show", "--turn", turn, "--wire", "--json") for turn in "01")

    head, _, body = answered["sent"].partition("\n\n")
    assert head.splitlines()[0].startswith(f"POST {strong.url}/model/m/converse-stream")
    assert "authorization: ***" in head.lower()
    assert json.loads(body)["messages"][0]["content"][0]["text"] == "hello"
    first, *events = answered["received"].splitlines()
    assert (first, json.loads(events[0])) == ("HTTP 200", {"messageStart": {"role": "assistant"}})
    assert refused["received"].startswith("HTTP 403\n")
    assert "should have been: *** ***" in refused["received"]
    assert [value for value in AWS.values() if len(value) > 6 and value in kept(shell)] == []


def test_a_turn_of_the_embedded_model(shell: Shell) -> None:
    assert shell.run("ask", "Say hello.").returncode == 0

    wire = shell.json("session", "show", "--turn", "0", "--wire", "--json")
    assert wire["sent"].startswith("POST http://127.0.0.1:")
    assert "authorization: ***" in wire["sent"]
    assert wire["received"].startswith("HTTP 200\n")


def test_what_is_kept_stays_in_the_state_folder(shell: Shell) -> None:
    with OpenAIServer(reply("a")) as server:
        configured(shell, server.url)
        assert shell.run("ask", "a").returncode == 0

    assert [Path(path.name).suffix for path in (shell.home / "state" / "wire").iterdir()] == [".wire"]
