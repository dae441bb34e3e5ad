"""How often a turn is sent, and how long it waits in between: whole turns with the real clients, counted on the server, under a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.escalation import take_turn
from orchestrator.planning.case import Wish
from orchestrator.providers import Answer, Cancel
from orchestrator.recording import Report
from orchestrator.routing import Choice
from orchestrator.session import Role
from orchestrator.sessions import fresh_session
from orchestrator.testing import bedrock_server, openai_server

from ..conftest import HandClock
from .backends import Backend, backend

HTTP = ("openai", "openrouter", "bedrock")


@dataclass(frozen=True)
class Play:
    """One agent and its scripted server; its turns wait on a clock that takes no time."""

    folder: Path
    strong: Backend

    def turn(self, *script: Any, attempts: int = 3, max_wait: str = "1h") -> tuple[Report, int, list[float]]:
        """The report, how many requests came, and the waits between them in seconds."""
        self.strong.server.replace(*script)
        before, clock = len(self.strong.bodies), HandClock()
        limits = (f"limits.retry_attempts={attempts}", f"limits.retry_max_wait={max_wait}")
        environ, output = {"ESCALERA_HOME": str(self.folder / "home"), **self.strong.environ}, Output(interactive=False, color=False, plain=True)
        front = Front(environ=environ, cwd=self.folder, config_file=self.folder / "config.toml", sets=limits, flags={}, output=output)
        place = replace(front.workplace(front.store(), front.workspace), clock=clock)
        session = fresh_session(front)
        place.store.create(session)
        wish = Wish("hello", Choice(role=Role.ESCALATION))
        report = take_turn(place, session.id, wish, cancel=Cancel(), ask=lambda _: Answer("cancel", by="nobody"), watch=lambda _: None)
        front.close()
        return report, len(self.strong.bodies) - before, clock.slept

    def fails(self, status: int, headers: dict[str, str] | None = None) -> Any:
        """A refusal that may pass."""
        if self.strong.kind == "bedrock":
            names = {429: "ThrottlingException", 500: "InternalServerException", 503: "ServiceUnavailableException", 529: "ServiceUnavailableException"}
            return bedrock_server.fail(status, names[status], "not now", headers=headers)
        return openai_server.json_reply({"error": {"message": "not now", "code": status}}, status=status, headers=headers)

    def says(self, text: str) -> Any:
        return bedrock_server.say(text) if self.strong.kind == "bedrock" else openai_server.reply(text)

    def breaks_off(self) -> Any:
        """An answer that fails, in words that may pass, after its first text."""
        if self.strong.kind == "bedrock":
            events = bedrock_server.say("one two three").events or ()
            return bedrock_server.stream(*events[:2], {"throttlingException": {"message": "not now"}})
        return openai_server.sse(openai_server.chunk({"content": "one "}), {"error": {"message": "not now", "code": 429}}, done=False)


@pytest.fixture
def play(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    kind = request.param
    with backend(kind, tmp_path) as strong:
        for name, value in strong.environ.items():
            monkeypatch.setenv(name, value)
        primary = '[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\nmodel = "small"\n'
        (tmp_path / "config.toml").write_text(f'primary = "local"\nescalation = "{kind}"\n{primary}{strong.table}')
        yield Play(tmp_path, strong)


@pytest.mark.parametrize("play", HTTP, indirect=True)
@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_turn_is_never_sent_more_than_once_and_retry_attempts_times(play: Play, status: int) -> None:
    for attempts in (0, 1, 3):
        report, sends, waits = play.turn(*[play.fails(status)] * 9, attempts=attempts)

        assert report.error is not None
        assert report.error.retryable
        assert (sends, len(waits)) == (attempts + 1, attempts)

    report, sends, _ = play.turn(play.fails(status), play.fails(status), play.says("done"))

    assert (report.turn.answer, sends) == ("done", 3)


@pytest.mark.parametrize("play", HTTP, indirect=True)
def test_nothing_is_sent_again_by_itself_once_something_came(play: Play) -> None:
    report, sends, waits = play.turn(play.breaks_off(), play.says("never"))

    assert report.error is not None
    assert (sends, waits) == (1, [])
    assert "one" in "".join(getattr(step, "text", "") for step in report.turn.steps)


def in_two_minutes() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True)


FORMS: dict[str, tuple[Callable[[], dict[str, str]], float, tuple[str, ...]]] = {
    "seconds": (lambda: {"retry-after": "7"}, 7, HTTP),
    "fraction": (lambda: {"retry-after": "1.5"}, 1.5, HTTP),
    "date": (lambda: {"retry-after": in_two_minutes()}, 120, HTTP),
    "milliseconds": (lambda: {"retry-after-ms": "2500"}, 2.5, HTTP),
    "milliseconds before seconds": (lambda: {"retry-after": "60", "retry-after-ms": "2500"}, 2.5, HTTP),
    "of AWS": (lambda: {"x-amz-retry-after": "3500"}, 3.5, ("bedrock",)),
    "reset in seconds": (lambda: {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360, ("openai", "openrouter")),
}
CASES = [(kind, name) for name, (_, _, kinds) in FORMS.items() for kind in kinds]


@pytest.mark.parametrize(("play", "form"), CASES, indirect=["play"], ids=[f"{kind}-{form}" for kind, form in CASES])
def test_a_named_wait_is_kept(play: Play, form: str) -> None:
    headers, seconds, _ = FORMS[form]

    report, sends, waits = play.turn(play.fails(429, headers()), play.says("done"))

    assert (report.turn.answer, sends, len(waits)) == ("done", 2, 1)
    assert waits[0] == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("play", HTTP, indirect=True)
def test_a_longer_wait_than_allowed_ends_the_turn_at_once_and_is_named(play: Play) -> None:
    report, sends, waits = play.turn(play.fails(429, {"retry-after": "90"}), play.says("never"), max_wait="60s")

    assert report.error is not None
    assert (sends, waits) == (1, [])
    assert "90 s" in (report.error.hint or "")
