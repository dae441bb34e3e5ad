"""A question that outlives its turn: the command returns, a human answers, and `ask --continue` goes on (page 5)."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ..sites import Site
from .conftest import Shell
from .played import Played

ASKER = '''
import json
import signal
from pydantic import BaseModel
from orchestrator.hookspecs import hookimpl
from orchestrator.messages import Text
from orchestrator.providers import Capabilities, CheckResult, Finished, MessageDone, ProviderKind, Question

SCHEMA = {"type": "object", "properties": {"colour": {"type": "string", "minLength": 2}}, "required": ["colour"]}


class Options(BaseModel, extra="forbid"):
    pass


class Asker:
    """Asks when the prompt says so, and says what it was told."""
    capabilities, model = Capabilities(streams=False), None

    def __init__(self, options, context):
        pass

    def preview(self, request):
        return {"body": {}}

    def run(self, request, *, cancel, ask):
        told = request.messages[-1].parts[-1].text
        if told == "paint it":
            answer = ask(Question("Which colour?", mode="form", schema=SCHEMA, durable=True))
            told = f"{answer.action} by {answer.by} {json.dumps(dict(answer.content))}"
        yield MessageDone((Text(told),))
        yield Finished("stop")

    def check(self):
        return CheckResult(True, "works")


@hookimpl
def escalera_provider_kinds():
    return [ProviderKind("asker", Options, Asker)]
'''


@pytest.fixture
def asker(shell: Shell, tmp_path: Path) -> Shell:
    """Both agents ask their own, durable question when they shall paint."""
    site = tmp_path / "site"
    site.mkdir()
    Site(site).install("escalera-asker", ASKER)
    shell.configure('primary = "local"\nescalation = "strong"\n[agents.local]\nprovider = "asker"\n[agents.strong]\nprovider = "asker"\n')
    return replace(shell, more={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"})


def asked(shell: Shell, *arguments: str) -> str:
    """The id of the question that a turn left open."""
    turn = shell.json(*arguments, "ask", "--json", "--escalate", "paint it", code=75)
    assert (turn["outcome"], turn["answer"]) == ("completed", "cancel by later {}")
    (question,) = turn["open_questions"]
    assert any(f"escalera questions answer {question[:8]} --accept colour=" in notice for notice in turn["notices"])
    return str(question)


def test_the_command_returns_and_goes_on_with_the_answer(asker: Shell) -> None:
    question = asked(asker)
    (listed,) = asker.json("questions", "list", "--json")["questions"]
    assert (listed["id"], listed["durable"], listed["agent"]) == (question, True, "strong")
    early = asker.json("ask", "--continue", "--json", code=75)
    assert (early["error"]["type"], question[:8] in early["error"]["message"]) == ("AnswerAwaited", True)

    asker.json("questions", "answer", question[:8], "--accept", "colour=red", "--json")
    turn = asker.json("ask", "--continue", "--json", "and quickly")

    assert turn["agent"] == "strong"
    assert turn["answer"].startswith("You asked the user the following, and this is the answer:\n~~~\nWhich colour?\n~~~")
    assert turn["answer"].endswith("The answer:\n~~~\nred\n~~~\n\nand quickly")
    assert asker.json("ask", "--continue", "--json", code=3)["error"]["type"] == "NotFound"


@pytest.mark.parametrize(("flag", "told"), [("--decline", "does not want to answer it"), ("--cancel", "put away without an answer")])
def test_a_refusal_is_told_as_what_it_is(asker: Shell, flag: str, told: str) -> None:
    asker.json("questions", "answer", asked(asker), flag, "--json")

    assert told in asker.json("ask", "--continue", "--json")["answer"]


def test_a_late_answer_is_refused_kept_and_offered(asker: Shell) -> None:
    question = asked(asker, "--questions-ttl", "1ms")
    late = asker.run("questions", "answer", question, "--accept", "colour=red")
    assert (late.returncode, "expired" in late.stderr, "is kept" in late.stderr) == (1, True, True)
    assert asker.json("questions", "show", question, "--json")["late"][0]["content"] == {"colour": "red"}
    assert "`escalera ask --continue` sends it" in asker.run("ask", "hello").stderr

    turn = asker.json("ask", "--continue", "--json")

    assert "The answer came after the question had expired" in turn["answer"]
    assert "\nred\n" in turn["answer"]
    assert "--continue" not in asker.run("ask", "hello").stderr


def test_that_nobody_answered_is_told_too(asker: Shell) -> None:
    asked(asker, "--questions-ttl", "1ms")

    assert "Nobody answered in time, which is no refusal." in asker.json("ask", "--continue", "--json")["answer"]


def test_going_on_may_wait_for_the_answer(asker: Shell) -> None:
    question = asked(asker)
    process = asker.start("ask", "--continue", "--wait-questions", "--json")
    assert process.stderr is not None
    assert question[:8] in process.stderr.readline()

    asker.json("questions", "answer", question, "--accept", '{"colour": "red"}', "--json")

    out, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert "\nred\n" in json.loads(out)["answer"]


def test_going_on_at_a_terminal_asks_there(asker: Shell) -> None:
    asked(asker)
    with Played(asker, "--color", "never", "ask", "--continue") as terminal:
        terminal.until("colour:")
        terminal.type("r\r")
        terminal.until("this must be at least 2 characters long")
        terminal.type("red\r")
        terminal.until("turn 1, completed")
        assert terminal.ended() == 0
        assert "The answer:" in terminal.scrolled


def test_interrupting_that_leaves_the_question_open(asker: Shell) -> None:
    question = asked(asker)
    process = asker.start("ask", "--continue", "--wait-questions", "--json")
    assert process.stderr is not None
    assert question[:8] in process.stderr.readline()

    process.send_signal(signal.SIGINT)

    assert (process.wait(30), asker.json("questions", "list", "--json")["questions"][0]["id"]) == (130, question)
    process.communicate()


def test_with_somebody_waiting_the_same_turn_goes_on(asker: Shell) -> None:
    process = asker.start("ask", "--wait-questions", "--json", "--escalate", "paint it")
    while not (found := asker.json("questions", "list", "--json")["questions"]):
        assert process.poll() is None
    asker.json("questions", "answer", found[0]["id"], "--accept", "colour=red", "--json")

    assert json.loads(process.communicate(timeout=30)[0])["answer"] == 'accept by human {"colour": "red"}'


def test_a_durable_question_survives_the_kill_of_its_asker(asker: Shell) -> None:
    process = asker.start("ask", "--wait-questions", "--json", "--escalate", "paint it")
    while not (found := asker.json("questions", "list", "--json")["questions"]):
        assert process.poll() is None
    process.kill()
    process.communicate()

    assert asker.json("questions", "answer", found[0]["id"], "--accept", "colour=red", "--json")["state"] == "answered"
    assert "\nred\n" in asker.json("ask", "--continue", "--json")["answer"]


def test_a_piped_chat_leaves_it_open_and_sends_the_answer(asker: Shell) -> None:
    result = asker.run("chat", stdin="/escalate paint it\n")
    assert (result.returncode, "then `escalera ask --continue` goes on" in result.stderr) == (75, True)
    (question,) = asker.json("questions", "list", "--json")["questions"]
    asker.json("questions", "answer", question["id"], "--accept", "colour=red", "--json")

    result = asker.run("chat", stdin="/questions\n/questions send\n/questions send\n")

    assert f"{question['id'][:8]}  answered" in result.stdout
    assert "The answer:\n~~~\nred" in result.stdout
    assert result.returncode == 3


@pytest.mark.parametrize("flags", [["--new"], ["--name", "n"]])
def test_going_on_needs_a_session_that_is_there(asker: Shell, flags: list[str]) -> None:
    assert asker.run("ask", "--continue", *flags).returncode == 2
    assert asker.run("ask", "--continue").returncode == 3
