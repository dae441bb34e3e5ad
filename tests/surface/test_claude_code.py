"""One conversation with the real `claude`, through the command line; asserted from what its API stand-in received."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.anthropic_server import AnthropicServer, Break, CallTool, Fail, Hang, Say, Step
from orchestrator.testing.openai_server import OpenAIServer, reply

from .backends import CLAUDE, NO_CLAUDE, claude_table
from .conftest import Shell
from .processes import processes_with

pytestmark = pytest.mark.skipif(not CLAUDE, reason=NO_CLAUDE)

TRIAL = Path(__file__).parents[1] / "trials" / "T40.json"


class Stage:
    """A primary on a scripted server, and the real `claude` as escalation agent."""

    def __init__(self, shell: Shell, home: Path, strong: AnthropicServer, local: OpenAIServer, more: str) -> None:
        self.shell, self.home, self.strong = shell, home, strong
        primary = f'[agents.local]\nprovider = "openai"\nbase_url = "{local.url}"\nmodel = "small"\n'
        shell.configure(f'primary = "local"\nescalation = "claude"\n{primary}{claude_table("claude", strong.url, home, more=more)}')

    def ask(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        return self.shell.json("ask", "--json", *arguments, code=code)

    @property
    def last(self) -> Any:
        """The last request for a message."""
        return self.strong.messages[-1].body

    @property
    def told(self) -> str:
        """What the last request told in its user message; the program puts reminders of its own beside it."""
        content = [message for message in self.last["messages"] if message["role"] == "user"][-1]["content"]
        return content if isinstance(content, str) else content[-1]["text"]

    @property
    def system(self) -> str:
        return self.last["system"][-1]["text"]


@pytest.fixture
def stage(shell: Shell, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    with ExitStack() as servers:

        def make(*steps: Step, local: tuple[str, ...] = (), more: str = "") -> Stage:
            strong = servers.enter_context(AnthropicServer(steps))
            primary = servers.enter_context(OpenAIServer(*(reply(text) for text in local)))
            return Stage(shell, tmp_path / "claude-home", strong, primary, more)

        yield make


@pytest.mark.long
def test_one_conversation_through_all_modes(stage: Callable[..., Stage]) -> None:
    steps = (Say("A stone oven."), Say("Which flour do you have?"), Say("Rye it is."), Say("Welcome back."), Say("A letter, then."), Say("Recovered."))
    play = stage(*steps, local=("The shop is green.", "The sign is blue."))
    play.shell.run("memory", "learn", "The user lives in Sevilla.")
    play.shell.run("need", "set", "open a small bakery")

    first = play.ask("--escalate", "--reason", "needs a plan", "/etc is where I start: which oven?")
    opening, external = play.system, first["external_session"]
    plan = play.shell.json("session", "export")
    stored = plan["external_sessions"][0]["system_text"]
    assert (first["mode"], first["answer"]) == ("first", "A stone oven.")
    assert opening.endswith(stored)
    for told in ("needs a plan", "open a small bakery", "The user lives in Sevilla."):
        assert told in stored
    assert play.told.endswith("\n\n/etc is where I start: which oven?")
    assert not play.told.startswith("/")

    second = play.ask("--escalate", "--", "--version")
    assert (second["mode"], second["external_session"]) == ("continuation", external)
    assert play.told.endswith("\n\n--version")
    assert second["state"] == "waiting"

    third = play.ask("--", "- rye")
    assert (third["mode"], third["agent"], third["state"]) == ("resume", "claude", "routing")
    assert play.told.endswith("\n\n- rye")
    assert "Which flour do you have?" in json.dumps(play.last["messages"])

    play.ask("what colour is the shop?")
    play.ask("and the sign?")
    fourth = play.ask("--escalate", "back to you")
    assert (fourth["mode"], [reason["rule"] for reason in fourth["reasons"]]) == ("returning", ["primary_worked"])
    assert "The shop is green." in play.told
    assert "The sign is blue." in play.told
    assert play.told.endswith("\n\nback to you")
    assert [request.body["system"][-1]["text"] for request in play.strong.messages] == [opening] * 4

    play.shell.run("need", "set", "write a newsletter")
    fifth = play.ask("--escalate", "what goes first?")
    assert (fifth["mode"], [reason["rule"] for reason in fifth["reasons"]]) == ("fresh_start", ["need_changed"])
    assert fifth["external_session"] != external
    assert "write a newsletter" in play.system
    assert "Welcome back." in play.system
    assert "Rye it is." not in json.dumps(play.last["messages"])
    assert len([message for message in play.last["messages"] if message["role"] == "user"]) == 1

    for kept in play.home.rglob(f"{fifth['external_session']}.jsonl"):
        kept.unlink()
    sixth = play.ask("--escalate", "still there?")
    assert (sixth["mode"], [reason["rule"] for reason in sixth["reasons"]]) == ("fresh_start", ["no_primary_turns", "external_session_lost"])
    assert (sixth["answer"], sixth["turn"]) == ("Recovered.", fifth["turn"] + 1)
    assert sixth["external_session"] not in (external, fifth["external_session"])
    assert any("lost its own memory" in notice for notice in sixth["notices"])
    assert "A letter, then." in play.system
    assert play.told.endswith("\n\nstill there?")
    assert [turn["outcome"] for turn in play.shell.json("session", "show", "--json")["turns"]] == ["completed"] * 8


@pytest.mark.trial("T40")
def test_t40_conversation_of_one_directory_outlives_a_detour_through_another(stage: Callable[..., Stage], tmp_path: Path) -> None:
    """Wherever the session is asked from, its turns run in the directory it belongs to; a link to that is the same place."""
    play = stage(*(Say(f"turn {number}") for number in range(1, 5)))
    places = {"<DIR_A>": tmp_path / "work", "<DIR_B>": tmp_path / "elsewhere", "<LINK_TO_DIR_A>": tmp_path / "link"}
    places["<DIR_B>"].mkdir()
    places["<LINK_TO_DIR_A>"].symlink_to(places["<DIR_A>"])
    first = play.ask("--escalate", "hello")

    for number, turn in enumerate(json.loads(TRIAL.read_text())["turns"], start=2):
        there = play.shell.elsewhere(play.shell.home, places[turn["cwd"]])
        told = there.json("ask", "--json", "--escalate", "--session", first["session"], "and here?")

        assert (told["outcome"], told["answer"]) == ("completed", f"turn {number}")
        assert (told["mode"], told["external_session"]) == ("continuation", first["external_session"])
        assert not told["notices"]
        assert "turn 1" in json.dumps(play.last["messages"])


@pytest.mark.trial("T40")
def test_t40_another_directory_begins_a_conversation_of_its_own_and_a_link_does_not(stage: Callable[..., Stage], tmp_path: Path) -> None:
    play = stage(Say("turn 1"), Say("another"), Say("turn 2"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(play.shell.cwd)
    first = play.ask("--escalate", "hello")

    other = play.shell.elsewhere(play.shell.home, tmp_path / "elsewhere").json("ask", "--json", "--escalate", "and here?")
    back = play.shell.elsewhere(play.shell.home, tmp_path / "link").json("ask", "--json", "--escalate", "back again")

    assert (other["mode"], other["session"] == first["session"], other["external_session"] == first["external_session"]) == ("first", False, False)
    assert (back["mode"], back["session"], back["external_session"]) == ("continuation", first["session"], first["external_session"])


def test_cancelled_while_its_tool_runs_no_process_is_left(stage: Callable[..., Stage]) -> None:
    waits = CallTool("Bash", {"command": "sleep 3119 & touch runs; sleep 3120", "description": "wait"})
    play = stage(Say("Hello."), waits, Say("Whole."), more='allowed_tools = ["Bash"]\n')
    play.ask("--escalate", "hello")
    running = play.shell.start("ask", "--escalate", "--json", "now wait")
    assert _until((play.shell.cwd / "runs").exists, 30)
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=20)

    assert time.monotonic() - began < 6
    assert (running.returncode, json.loads(out)["outcome"]) == (130, "cancelled")
    assert not processes_with("sleep 31")
    assert not processes_with(str(play.home))
    again = play.ask("--escalate", "go on")
    assert (again["mode"], again["answer"]) == ("continuation", "Whole.")
    assert [turn["outcome"] for turn in play.shell.json("session", "show", "--json")["turns"]] == ["completed", "cancelled", "completed"]


def test_other_agents_credentials_do_not_reach_its_tools(stage: Callable[..., Stage]) -> None:
    look = {"command": 'echo "[$AWS_SECRET_ACCESS_KEY$AWS_SESSION_TOKEN$AWS_BEARER_TOKEN_BEDROCK$THEIRS]"', "description": "look"}
    bedrock = '[agents.cloud]\nprovider = "bedrock"\nmodel = "m"\nregion = "us-east-1"\n'
    theirs = '[agents.other]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\nmodel = "m"\napi_key = { env = "THEIRS" }\n'
    play = stage(CallTool("Bash", look), Say("Seen."), more=f'allowed_tools = ["Bash"]\n{bedrock}{theirs}')
    names = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "THEIRS")

    play.shell.json("ask", "--json", "--escalate", "look", environ={name: f"of {name}" for name in names})

    assert '"content": "[]"' in json.dumps(play.last["messages"])


@pytest.mark.parametrize("elsewhere", [False, True], ids=["a copy under another id", "the same session in another home"])
def test_copies_of_a_session_never_take_a_turn_in_one_conversation_at_once(stage: Callable[..., Stage], tmp_path: Path, elsewhere: bool) -> None:
    play = stage(Say("Hello."), Hang("half an ans"), Say("From the copy."))
    first = play.ask("--escalate", "hello")
    document = play.shell.json("session", "export", "--raw") | ({} if elsewhere else {"id": "copy"})
    (tmp_path / "copy.json").write_text(json.dumps(document))
    other = play.shell.elsewhere(tmp_path / "other-home", play.shell.cwd) if elsewhere else play.shell
    other.configure((play.shell.home / "config" / "config.toml").read_text())
    assert other.run("session", "import", str(tmp_path / "copy.json")).returncode == 0
    running = play.shell.start("ask", "--session", first["session"], "--escalate", "--json", "and now?")
    assert play.strong.wait_for_messages(2, 30)
    refused = other.json("--set", "session_wait=0s", "ask", "--json", "--session", document["id"], "--escalate", "me too", code=4)
    assert refused["error"]["type"] == "SessionInUse"
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=20)
    assert json.loads(out)["outcome"] == "cancelled"
    went_on = other.json("ask", "--json", "--session", document["id"], "--escalate", "and now me")
    assert (went_on["mode"], went_on["answer"]) == ("continuation", "From the copy.")


def _until(seen: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true within that time."""
    deadline = time.monotonic() + seconds
    while not seen() and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen()


def test_cancelled_while_it_answers_the_session_is_intact_and_goes_on(stage: Callable[..., Stage]) -> None:
    play = stage(Say("Hello."), Hang("half an ans"), Say("Whole."))
    play.ask("--escalate", "hello")
    running = play.shell.start("ask", "--escalate", "--json", "and now?")
    assert play.strong.wait_for_messages(2, 30)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=20)
    assert (running.returncode, json.loads(out)["outcome"]) == (130, "cancelled")
    again = play.ask("--escalate", "go on")
    assert (again["mode"], again["answer"]) == ("continuation", "Whole.")


BUSY, CUT, MUTE = Fail(529, "overloaded_error", "Overloaded"), Break("one two "), Say("")
"""Refused, broken off within the text, and ended without a word."""


@pytest.mark.parametrize(
    ("attempts", "steps", "sends"),
    [
        *((0, [BUSY], 1), (1, [BUSY], 2), (3, [BUSY], 4)),
        *((0, [CUT, BUSY], 1), (1, [CUT, BUSY], 2), (2, [CUT, BUSY], 3), (3, [CUT, BUSY, BUSY], 4)),
        *((1, [BUSY, CUT, BUSY], 2), (2, [BUSY, CUT, BUSY], 3), (3, [BUSY, CUT, BUSY], 4)),
        *((1, [MUTE, BUSY], 2), (3, [MUTE, BUSY, BUSY], 4), (3, [BUSY, MUTE, BUSY], 4)),
    ],
)
def test_sends_of_a_turn_never_exceed_the_attempts_and_one(stage: Callable[..., Stage], attempts: int, steps: list[Step], sends: int) -> None:
    limits = f'[agents.claude.limits]\nretry_attempts = {attempts}\nretry_max_wait = "100ms"\n'
    play = stage(*steps, *[BUSY] * 9, more=limits)

    failed = play.ask("--escalate", "hello", code=1)

    assert failed["error"]["type"] == ("Unavailable" if steps[sends - 1 :] and steps[sends - 1] is CUT else "Overloaded")
    assert len(play.strong.messages) == sends <= attempts + 1


@pytest.mark.parametrize(
    ("attempts", "steps"), [(0, [BUSY]), (1, [BUSY]), (1, [CUT, BUSY]), (1, [BUSY, CUT]), (1, [MUTE, BUSY]), (2, [BUSY, CUT, BUSY]), (3, [CUT, BUSY, BUSY])]
)
def test_sends_of_a_turn_within_a_conversation_never_exceed_them_either(stage: Callable[..., Stage], attempts: int, steps: list[Step]) -> None:
    limits = f'[agents.claude.limits]\nretry_attempts = {attempts}\nretry_max_wait = "100ms"\n'
    play = stage(Say("First."), *steps, *[BUSY] * 9, more=limits)
    play.ask("--escalate", "hello")

    play.ask("--escalate", "and now?", code=1)

    assert 1 + min(attempts, 1) <= len(play.strong.messages) - 1 <= attempts + 1


@pytest.mark.parametrize("steps", [[BUSY], [CUT], [BUSY, CUT], [CUT, BUSY], [MUTE]])
def test_what_breaks_off_or_is_refused_is_asked_again_within_a_conversation_too(stage: Callable[..., Stage], steps: list[Step]) -> None:
    play = stage(Say("First."), *steps, Say("Second."))
    play.ask("--escalate", "hello")

    second = play.ask("--escalate", "and now?")

    assert (second["mode"], second["answer"]) == ("continuation", "Second.")
    assert json.dumps(play.last["messages"]).count("and now?") == 1
    assert len(play.strong.messages) == 2 + len(steps)


def test_text_that_the_output_limit_cut_is_told_as_partial(stage: Callable[..., Stage]) -> None:
    play = stage(*[Say(f"part {number} ", stop_reason="max_tokens") for number in range(6)])

    failed = play.ask("--escalate", "hello", code=1)

    assert (failed["error"]["type"], failed["answer"]) == ("Incomplete", None)
    assert failed["partial"].startswith("part 0 part 1 ")


def test_transient_errors_are_got_over_at_the_start_of_a_conversation_and_within_it(stage: Callable[..., Stage]) -> None:
    busy = Fail(529, "overloaded_error", "Overloaded")
    play = stage(busy, busy, busy, Say("First."), busy, Say("Second."))

    first = play.ask("--escalate", "hello")
    second = play.ask("--escalate", "and now?")

    assert (first["answer"], second["answer"]) == ("First.", "Second.")
    assert second["external_session"] == first["external_session"]
    assert json.dumps(play.last["messages"]).count("and now?") == 1
    assert "hello" in json.dumps(play.last["messages"])


def test_a_budget_that_the_user_set_ends_the_turn_once(stage: Callable[..., Stage]) -> None:
    play = stage(
        *[CallTool("Bash", {"command": "true", "description": "nothing"})] * 9,
        more='allowed_tools = ["Bash"]\nextra_args = ["--max-budget-usd", "0.0000001"]\n',
    )

    failed = play.ask("--escalate", "hello", code=1)

    assert failed["error"]["type"] == "OutOfFunds"
    assert "budget" in failed["error"]["message"]
    assert len(play.strong.messages) == 1


def test_the_model_that_the_program_fell_back_to_is_told(stage: Callable[..., Stage]) -> None:
    more = 'extra_args = ["--fallback-model", "claude-haiku-4-5"]\n'
    play = stage(*[BUSY] * 4, Say("Done."), more=more)

    done = play.shell.json("ask", "--json", "--escalate", "hello", environ={"CLAUDE_CODE_MAX_RETRIES": "6"})

    assert (done["answer"], done["model_served"]) == ("Done.", play.last["model"])
    assert any("was asked for the model claude-sonnet-4-5" in notice for notice in done["notices"])
