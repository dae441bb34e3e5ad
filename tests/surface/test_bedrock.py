"""A session between an OpenAI-compatible primary and an escalation agent on Bedrock, through the command line and real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from orchestrator.testing.bedrock_server import BedrockServer, call, fail, say
from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell

MODEL = "us.anthropic.claude-test-v1:0"


@dataclass(frozen=True)
class Session:
    """One session, and the two servers that its agents are on."""

    shell: Shell
    local: OpenAIServer
    strong: BedrockServer
    environ: dict[str, str]

    def run(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        result = self.shell.run(*arguments, "--json", **self.environ)
        assert result.returncode == code, result.stderr
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the last call on Bedrock."""
        body: dict[str, Any] = self.strong.requests[-1].body
        return body


@pytest.fixture
def session(shell: Shell) -> Iterator[Session]:
    with OpenAIServer() as local, BedrockServer() as strong:
        shell.configure(
            f"""
            primary = "local"
            escalation = "strong"

            [agents.local]
            provider = "openai"
            base_url = "{local.url}"
            model = "local-model"

            [agents.strong]
            provider = "bedrock"
            model = "{MODEL}"
            region = "us-east-1"
            """
        )
        environ = {
            "HOME": str(shell.home),
            "AWS_ACCESS_KEY_ID": "AKIDDUMMY0000",
            "AWS_SECRET_ACCESS_KEY": "dummy-secret",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": strong.url,
            "NO_PROXY": "127.0.0.1",
        }
        yield Session(shell, local, strong, environ)


def texts(body: dict[str, Any]) -> list[str]:
    return [block["text"] for message in body["messages"] for block in message["content"] if "text" in block]


def test_a_session_in_every_mode_reaches_bedrock_as_it_should(session: Session) -> None:
    session.run("memory", "learn", "the user likes short answers")
    session.strong.add(say("Opening."), say("Going on."), say("Which colour?"), say("Blue then."), say("Welcome back."), say("New task begun."))
    session.local.add(reply("Local work."))

    first = session.run("ask", "--escalate", "prove the theorem", "--reason", "the primary gave up")
    first_body = session.sent
    continued = session.run("ask", "--escalate", "and the corollary")
    continued_body = session.sent
    asked = session.run("ask", "--escalate", "paint the diagram")
    resumed = session.run("ask", "blue")
    session.run("ask", "--primary", "note that down")
    returned = session.run("ask", "--escalate", "is the note right?")
    returned_body = session.sent
    session.run("need", "set", "write the letter")
    plan = session.run("plan", "--escalate", "begin the letter")
    fresh = session.run("ask", "--escalate", "begin the letter")
    fresh_body = session.sent

    assert [document["mode"] for document in (first, continued, asked, resumed, returned, fresh)] == [
        "first", "continuation", "continuation", "resume", "returning", "fresh_start",
    ]  # fmt: skip
    assert (asked["state"], resumed["agent"], fresh["model_served"]) == ("waiting", "strong", None)
    for body in (first_body, continued_body, returned_body, fresh_body):
        static, *told = [block["text"] for block in body["system"]]
        assert static == first_body["system"][0]["text"]
        assert "likes short answers" in told[-1]
        assert [message["role"] for message in body["messages"]] == ["user", "assistant"] * (len(body["messages"]) // 2) + ["user"]
    for body in (first_body, returned_body, fresh_body):
        orientation, percepts = (block["text"] for block in body["system"][1:])
        assert "likes short answers" not in orientation
        assert "likes short answers" in percepts
    assert "the primary gave up" in first_body["system"][1]["text"]
    assert texts(continued_body) == ["prove the theorem", "Opening.", "and the corollary"]
    assert texts(returned_body)[:2] == ["prove the theorem", "Opening."]
    assert any("Local work." in text for text in texts(returned_body))
    assert texts(returned_body)[-1] == "is the note right?"
    assert "write the letter" in fresh_body["system"][1]["text"]
    assert texts(fresh_body)[-1] == "begin the letter"
    assert not any(old in text for text in texts(fresh_body) for old in ("prove the theorem", "Opening.", "corollary", "Going on.", "diagram"))
    assert plan["delivery"]["body"] == fresh_body


def test_tools_run_between_two_calls(session: Session) -> None:
    session.strong.add(call("current_need", {"text": "prove it"}, id="tooluse_7", text="Noting."), say("Done."))

    document = session.run("ask", "--escalate", "prove it, please")

    assert (document["outcome"], document["usage"]["input_tokens"], document["usage"]["cache_read_tokens"]) == ("completed", 20, None)
    asked, given = session.sent["messages"][-2:]
    assert asked["content"] == [{"text": "Noting."}, {"toolUse": {"toolUseId": "tooluse_7", "name": "current_need", "input": {"text": "prove it"}}}]
    assert given["content"][0]["toolResult"]["toolUseId"] == "tooluse_7"
    assert session.run("need", "show")["text"] == "prove it"


def test_a_failed_call_is_a_turn_document_and_throttling_is_waited_for(session: Session) -> None:
    session.strong.add(fail(429, "ThrottlingException", "Too many tokens, please wait", headers={"x-amz-retry-after": "10"}), say("Now."))
    assert session.run("ask", "--escalate", "go")["answer"] == "Now."

    session.strong.add(fail(403, "AccessDeniedException", "not yours"))
    failed = session.run("ask", "--escalate", "again", code=1)
    assert (failed["outcome"], failed["error"]["type"], failed["error"]["agent"]) == ("failed", "AuthFailed", "strong")
    assert "not yours" in failed["error"]["message"]


def test_without_credentials_a_turn_fails_at_once_and_a_plan_does_not(session: Session) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del session.environ[name]
    session.environ["AWS_EC2_METADATA_DISABLED"] = "true"

    failed = session.run("ask", "--escalate", "go", code=1)
    checked = session.run("agents", "check", "strong", code=1)
    planned = session.run("plan", "--escalate", "go")

    assert failed["error"]["type"] == "AuthFailed"
    assert "aws configure" in failed["error"]["hint"]
    assert checked["agents"][0]["status"] == "no_credentials"
    assert planned["delivery"]["body"]["messages"][-1]["content"][-1] == {"text": "go"}
    assert session.strong.requests == []
