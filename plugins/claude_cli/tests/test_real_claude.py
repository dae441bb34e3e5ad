"""The real `claude`, against a loopback stand-in for its API: what reaches the model, and what is left after a cancel."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from escalera_claude_cli import processes

from orchestrator.errors import AuthFailed, Cancelled, Incomplete, Overloaded, RateLimited, SessionLost, TimedOut
from orchestrator.providers import Answer, Cancel, ToolResultSeen
from orchestrator.settings.limits import Limits
from orchestrator.testing.anthropic_server import AnthropicServer, Break, CallTool, Fail, Foreign, Hang, Say

from .conftest import ID, MARKED, Hurried, collect, dispatched, nobody
from .real import needs_claude, real_provider, user_text

pytestmark = needs_claude

SYSTEM_TEXT = "Orientation: état ☃ \u2028 of the session.\n<percept>&amp;</percept>\n"


@pytest.fixture
def turn(stage, tmp_path: Path):
    """Runs a turn of the real program."""

    def run(server: AnthropicServer, request, *, ask=nobody, cancel=None, **more):
        return collect(real_provider(stage, tmp_path / "home", server.url, **more).run(request, cancel=cancel or Cancel(), ask=ask))

    return run


def test_conversation_starts_and_goes_on_with_the_same_system_text(stage, serve, turn):
    server = serve(Say("First."), Say("Second."))
    request = partial(stage.request, id=ID, system_text=SYSTEM_TEXT)

    first = turn(server, request("/etc/hosts, what is it?", context_block="[context one]"))
    second = turn(server, request("- and now", action="resume", context_block="[context two]"))

    assert (first.error, second.error) == (None, None)
    assert (first.texts, second.texts) == (["First."], ["Second."])
    assert first.session == ID
    one, two = (received.body for received in server.messages)
    assert one["system"][-1]["text"].endswith(SYSTEM_TEXT)
    assert two["system"][-1]["text"].endswith(SYSTEM_TEXT)
    assert user_text(one) == "[context one]\n\n/etc/hosts, what is it?"
    assert user_text(two) == "[context two]\n\n- and now"


@pytest.mark.parametrize("prompt", ["/etc", "-", "--version", "line\u2028and 😀 \x85" + "x" * 400_000])
def test_prompt_arrives_as_it_is(stage, serve, turn, prompt):
    server = serve(Say("Yes."))

    outcome = turn(server, stage.request(prompt, id=ID))

    assert outcome.texts == ["Yes."]
    assert user_text(server.messages[0].body) == f"[context]\n\n{prompt}"


MENTIONS = (
    *("@{}", "see @{} now", "- @{}", "> @{}", "| @{} |", "```\n@{}\n```", "    @{}", 'see @"{}" now', "see @{}#L1-2", "x\t@{}", "x\r\n@{}", "(@{})", "`@{}`"),
    *("a\u00a0@{}", "a\u3000@{}", "a\ufeff@{}", "a\u2028@{}", "a\x0b@{}", "a\u2003@{}", "。@{}", "、@{}", "？@{}", "！@{}", "a \uff20{}", "a @@{}", "a \\@{}"),
)
"""Ways to name a file; most of them make the program read it where they stand in a prompt."""


def files_read(stage, server, turn, **texts) -> list[str]:
    """Which of the files, each named in a way of its own, the model was told of."""
    paths = [stage.folder / f"file{number}.txt" for number in range(len(MENTIONS))]
    for number, path in enumerate(paths):
        path.write_text(f"secret-{number}-\n")
    for name in ("in-folder.txt", "in home.txt"):
        (stage.workspace / name).write_text(f"secret of {name}")
    named = "\n".join(way.format(path) for way, path in zip(MENTIONS, paths, strict=True)) + '\n@in-folder.txt @./in-folder.txt @"in home.txt"'

    outcome = turn(server, stage.request(id=ID, **{name: text.format(named) for name, text in texts.items()}))

    assert outcome.error is None
    told = str([message.body for message in server.messages])
    return [way for number, way in enumerate(MENTIONS) if f"secret-{number}-" in told] + (["the workspace's"] if "secret of" in told else [])


def test_no_file_that_the_context_names_is_read(stage, serve, turn):
    assert files_read(stage, serve(Say("Yes.")), turn, context_block="[context]\n{}", system_text="{}") == []


def test_files_that_the_user_names_are_read_as_ever(stage, serve, turn):
    """Else the test above would prove nothing."""
    assert len(files_read(stage, serve(Say("Yes.")), turn, prompt="{}")) > 15


def test_tool_runs_once_it_is_allowed(stage, serve, turn):
    server = serve(CallTool("Bash", {"command": "echo made > made.txt; echo done", "description": "make"}), Say("Made it."))

    outcome = turn(server, stage.request(id=ID), ask=lambda question: Answer("accept"))

    assert outcome.texts == ["Made it."]
    assert (stage.workspace / "made.txt").read_text() == "made\n"
    assert ToolResultSeen("toolu_01", "done") in outcome.events


def test_tool_does_not_run_when_nobody_can_be_asked(stage, serve, turn):
    server = serve(CallTool("Bash", {"command": "touch made.txt", "description": "make"}), Say("Not allowed."))

    outcome = turn(server, stage.request(id=ID))

    assert outcome.texts == ["Not allowed."]
    assert not (stage.workspace / "made.txt").exists()
    assert outcome.notices == ""  # whoever would have asked tells it
    assert "nobody who could be asked" in str(server.messages[1].body["messages"][-1])


def test_secret_of_another_agent_does_not_reach_the_tools(stage, serve, turn):
    server = serve(CallTool("Bash", {"command": 'echo "[$OTHER_KEY]"', "description": "look"}), Say("Seen."))

    outcome = turn(server, stage.request(id=ID), environ={"OTHER_KEY": "of another"}, secrets=("of another",), allowed_tools=("Bash",))

    assert ToolResultSeen("toolu_01", "[]") in outcome.events


def test_cancel_while_a_tool_runs_leaves_no_process(stage, serve, turn):
    server = serve(CallTool("Bash", {"command": "sleep 311 & touch runs; sleep 312", "description": "wait"}))
    cancel, cancelled_at = Cancel(), []

    def cancel_once_it_runs() -> None:
        while not (stage.workspace / "runs").exists():
            time.sleep(0.02)
        cancelled_at.append(time.monotonic())
        cancel.set()

    threading.Thread(target=cancel_once_it_runs).start()
    outcome = turn(server, stage.request(id=ID, session=f"session of {ID}"), cancel=cancel, allowed_tools=("Bash",))

    assert type(outcome.error) is Cancelled
    assert time.monotonic() - cancelled_at[0] < 6
    assert not processes.marked(MARKED)


def test_broken_stream_is_asked_again_and_its_deltas_are_void(stage, serve, turn):
    server = serve(Break("half an ans"), Say("A whole answer."))

    outcome = turn(server, stage.request(id=ID))

    assert outcome.texts == ["A whole answer."]
    assert outcome.usage is not None
    assert outcome.usage.input_tokens == 10


def test_a_stream_that_breaks_behind_a_whole_block_is_no_answer(stage, serve, turn):
    server = serve(CallTool("Bash", {"command": "true", "description": "x"}, text="Let me look."), Break("and now", whole="First half. "))

    outcome = turn(server, stage.request(id=ID), allowed_tools=("Bash",))

    assert (type(outcome.error), outcome.error.partial) == (Incomplete, "Let me look.\n\nFirst half. and now")
    assert outcome.texts == ["Let me look."]
    assert len(server.messages) == 2


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_what_is_no_answer_is_asked_for_no_more_often_than_allowed(stage, serve, tmp_path, attempts):
    server = serve(*[Foreign("<html>log in</html>")] * 9)

    answered = dispatched(real_provider(stage, tmp_path / "home", server.url), stage.request(id=ID), Limits(retry_attempts=attempts))

    assert len(server.messages) == answered.sends == attempts + 1


BUSY = Fail(529, "overloaded_error", "Overloaded")
BUSY_STREAM = Foreign('event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n', "text/event-stream")


@pytest.mark.parametrize(
    ("steps", "attempts"),
    [([BUSY_STREAM] * 3, 3), ([BUSY_STREAM] * 3, 0), ([], 3)],
    ids=["stream, then refused", "stream, no repeats", "refused"],
)
def test_an_overload_is_met_no_more_often_than_allowed_however_it_is_told(stage, serve, tmp_path, steps, attempts):
    server = serve(*steps, *[BUSY] * 9)

    answered = dispatched(real_provider(stage, tmp_path / "home", server.url), stage.request(id=ID), Limits(retry_attempts=attempts))

    assert len(server.messages) == answered.sends == attempts + 1


def test_a_wait_above_the_longest_is_not_waited_for(stage, serve, tmp_path):
    server = serve(*[Fail(429, "rate_limit_error", "slow", {"retry-after": "45"})] * 9)
    provider = real_provider(stage, tmp_path / "home", server.url)

    outcome = collect(provider.run(replace(stage.request(id=ID), longest_wait=10.0), cancel=Cancel(), ask=nobody))

    assert (type(outcome.error), outcome.error.retry_after) == (RateLimited, 45.0)
    assert len(server.messages) == 1


def test_a_named_wait_is_known_at_every_attempt(stage, serve, tmp_path):
    server, clock = serve(*[Fail(429, "rate_limit_error", "slow", {"retry-after": "3"})] * 9), Hurried()

    answered = dispatched(real_provider(stage, tmp_path / "home", server.url), stage.request(id=ID), Limits(retry_attempts=2), clock)

    assert len(server.messages) == answered.sends == 3
    assert answered.notices == ["Claude Code asks again in 3.0 s (429 rate_limit; attempt 1 of 2)"]
    assert clock.slept == [3.0]


@pytest.mark.parametrize("attempts", [0, 3])
@pytest.mark.parametrize("status", [(429, "rate_limit_error"), (503, "api_error")])
def test_a_wait_that_the_program_does_not_name_fails_at_once_and_says_so(stage, serve, tmp_path, attempts, status):
    server = serve(*[Fail(*status, "slow", {"retry-after": "3600"})] * 9)

    answered = dispatched(real_provider(stage, tmp_path / "home", server.url), stage.request(id=ID), Limits(retry_attempts=attempts))

    assert len(server.messages) == answered.sends == 1


@pytest.mark.parametrize(
    ("step", "kind"),
    [(Fail(401, "authentication_error", "invalid x-api-key"), AuthFailed), (Fail(408, "timeout_error", "took too long"), TimedOut)],
    ids=["a refused key", "a time-out of the server"],
)
def test_what_a_repeat_cannot_help_or_may_pay_twice_is_sent_once(stage, serve, turn, step, kind):
    server = serve(*[step] * 9)

    outcome = turn(server, stage.request(id=ID))

    assert (type(outcome.error), len(server.messages)) == (kind, 1)


def test_retries_of_the_cli_are_few(stage, serve, turn):
    server = serve(*[Fail(529, "overloaded_error", "Overloaded")] * 9)

    outcome = turn(server, stage.request(id=ID))

    assert type(outcome.error) is Overloaded
    assert len(server.messages) == 2
    assert outcome.error.own_retries == 1


def test_unknown_conversation_is_lost(stage, serve, turn):
    outcome = turn(serve(), stage.request(id=ID, action="resume"))

    assert type(outcome.error) is SessionLost
    assert "No conversation found" in outcome.error.message


def test_silent_server_is_a_cancel_away_from_free(stage, serve, turn):
    server = serve(Hang())
    cancel = Cancel()
    threading.Thread(target=lambda: server.wait_for_messages(1, 20) and cancel.set()).start()

    assert type(turn(server, stage.request(id=ID), cancel=cancel).error) is Cancelled
