"""The situations of the recordings, lived through with the real `claude`: they end as the recordings do."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from escalera_claude_cli import processes

from orchestrator.providers import Answer, Cancel, TextDelta
from orchestrator.testing.anthropic_server import Break, CallTool, Fail, Hang, Say, Step

from .conftest import ID, MARKED, Outcome, collect, nobody
from .real import needs_claude, real_provider
from .test_recordings import replay

pytestmark = needs_claude

TOUCH = CallTool("Bash", {"command": "touch made.txt", "description": "Create"})
LOOK = CallTool("Bash", {"command": "ls", "description": "List"})
ONCE: Mapping[str, str] = {"CLAUDE_CODE_MAX_RETRIES": "0"}
LOGIN = {"CLAUDE_CODE_OAUTH_TOKEN": "dummy", "ANTHROPIC_API_KEY": ""}
REJECTED = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": "1893466800",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
}
CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
OVERLOADED = Fail(529, "overloaded_error", "Overloaded")


@dataclass(frozen=True)
class Situation:
    """What the API answers, and what else happens; `sends` is how often it may be asked."""

    steps: tuple[Step, ...]
    sends: int
    environ: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    answer: Answer | None = None
    killed_by: signal.Signals | None = None
    worded_alike: bool = True


SITUATIONS = {
    "03-tool-use": Situation(
        (
            CallTool("Bash", {"command": "echo milk, eggs", "description": "x"}, text="Let me look at the notes."),
            Say("The notes say: milk, eggs."),
        ),
        2,
        options={"allowed_tools": ("Bash",)},
    ),
    "04-permission-allowed": Situation((TOUCH, Say("All done.")), 2, answer=Answer("accept")),
    "05-permission-denied": Situation((TOUCH, Say("Understood, I will not.")), 2, answer=Answer("decline")),
    "07-permission-unanswered-eof": Situation((TOUCH, Say("Understood, I will not.")), 2, answer=Answer("cancel", by="expiry")),
    "11-api-529": Situation((OVERLOADED,) * 9, 2, worded_alike=False),  # it waits less often than in the recording, and says so
    "12-api-529-max-retries-1": Situation((OVERLOADED,) * 9, 2, {"CLAUDE_CODE_MAX_RETRIES": "1"}),
    "13-api-429-then-ok": Situation((Fail(429, "rate_limit_error", "slow down", {"retry-after": "1"}), Say("Recovered.")), 2),
    "14-api-401": Situation((Fail(401, "authentication_error", "invalid x-api-key"),) * 9, 1, ONCE),
    "15-api-500": Situation((Fail(500, "api_error", "Internal server error"),) * 9, 1, ONCE),
    "16-api-credit": Situation((Fail(400, "invalid_request_error", CREDIT),) * 9, 1, ONCE),
    "17-api-prompt-too-long": Situation((Fail(400, "invalid_request_error", TOO_LONG),) * 9, 1, ONCE),
    "18-api-429": Situation((Fail(429, "rate_limit_error", "This request would exceed your rate limit"),) * 9, 1, ONCE),
    "19-killed-sigterm": Situation((Hang("Once upon a time "),), 1, killed_by=signal.SIGTERM),
    "20-killed-sigint": Situation((Hang("Once upon a time "),), 1, killed_by=signal.SIGINT),
    "21-killed-sigkill": Situation((Hang("Once upon a time "),), 1, killed_by=signal.SIGKILL),
    "22-sigint-before-first-byte": Situation((Hang(),), 1, killed_by=signal.SIGINT, worded_alike=False),  # with a result line or without
    "24-max-turns": Situation((LOOK,) * 9, 1, options={"allowed_tools": ("Bash",), "extra_args": ("--max-turns", "1")}),
    "25-partial-split-tags": Situation((Say("I am thirsty. <milk:need:abc123>a glass of water</milk:need:abc123> and <milk:percept:p7/> seen."),), 1),
    "26-partial-broken-stream-restart": Situation((Break("First try: <milk"), Say("Second try: <milk:need:def456>tea</milk:need:def456>")), 2),
    "32-rate-limit-rejected": Situation((Fail(429, "rate_limit_error", "This request would exceed your rate limit", REJECTED),) * 9, 1, LOGIN),
}


@pytest.fixture
def live(stage, serve, tmp_path) -> Callable[[Situation], tuple[Outcome, int]]:
    """A situation's outcome with the real program, and how often the API was asked."""

    def run(situation: Situation) -> tuple[Outcome, int]:
        server = serve(*situation.steps)
        provider = real_provider(stage, tmp_path / "home", server.url, environ=situation.environ, **situation.options)
        events = provider.run(stage.request(id=ID), cancel=Cancel(), ask=(lambda question: situation.answer) if situation.answer else nobody)
        if situation.killed_by and not situation.steps[0].text:
            threading.Thread(target=lambda: server.wait_for_messages(1, 20) and kill(situation.killed_by)).start()
        return collect(killing_after(situation.steps[0].text, events, situation.killed_by) if situation.killed_by else events), len(server.messages)

    return run


def killing_after(text: str, events, number: signal.Signals):
    """The events; once that text was told, the child gets the signal."""
    told = ""
    for event in events:
        yield event
        if isinstance(event, TextDelta):
            told += event.text
            if told == text:
                kill(number)


def kill(number: signal.Signals) -> None:
    for process in processes.marked(MARKED):
        os.kill(process.pid, number)


VARIES = r"exit code -?\d+|127\.0\.0\.1:\d+|resets [^(]+|only ~\d+ tokens"


def ends(outcome: Outcome, *, words: bool = True) -> dict[str, Any]:
    """What must be the same: how it ended, with which words, which texts and which usage."""
    error = outcome.error
    return {
        "finished": outcome.finished and outcome.finished.reason,
        "error": error and (type(error), re.sub(VARIES, "", error.message) if words else "", error.partial),
        "texts": outcome.texts,
        "usage": outcome.usage,
    }


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_ends_like_its_recording(stage, live, name):
    lived, sends = live(SITUATIONS[name])

    alike = SITUATIONS[name].worded_alike
    assert ends(lived, words=alike) == ends(replay(stage, name), words=alike)
    assert sends <= SITUATIONS[name].sends


def test_unicode_arrives_as_in_its_recording(stage, live):
    recorded = replay(stage, "29-unicode")

    lived, _ = live(Situation((Say(recorded.texts[0], piece=1),), 1))

    assert ends(lived) == ends(recorded)


def test_answer_of_200_kilobytes_arrives_whole(live):
    answer = "All work and no play makes long lines. " * 5251 + "The end"
    assert len(answer) > 204_000

    lived, sends = live(Situation((Say(answer, piece=1000),), 1))

    assert lived.texts == [answer]
    assert "".join(event.text for event in lived.events if isinstance(event, TextDelta)) == answer
    assert sends == 1
