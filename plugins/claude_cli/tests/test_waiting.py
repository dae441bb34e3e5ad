"""One child for many turns of a conversation: when it stays, when it goes, and that nothing of one turn reaches the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from escalera_claude_cli import processes
from escalera_claude_cli.provider import ClaudeProvider
from escalera_claude_cli.timing import Timing

from orchestrator import errors
from orchestrator.providers import Answer, Cancel, Finished, TextDelta, Timeouts

from .conftest import ID, MARKED, QUICK, Outcome, collect, nobody

OTHER = str(uuid.uuid4())
SESSION = f"session of {ID}"

TALKS = """
cost = 0.0
open("starts", "a").write(" ".join(sys.argv[1:]) + "\\n")
while line := sys.stdin.buffer.readline():
    message = json.loads(line)
    if message.get("type") != "user":
        continue
    cost += 0.25
    told = message["message"]["content"].split("\\n\\n", 1)[1]
    say(init())
    {more}
    say(assistant(text(told.upper())), result(told.upper(), total_cost_usd=cost, usage={{"input_tokens": 3, "output_tokens": 4}}))
    {after}
open("gone", "a").write("x")
"""


class Chat:
    """Turns of one provider, whose stand-in answers in capitals for as long as it is asked."""

    def __init__(self, stage, provider: ClaudeProvider) -> None:
        self.stage, self.provider = stage, provider

    def says(self, prompt: str, *, action: str = "resume", ask=nobody, cancel: Cancel | None = None, **request) -> Outcome:
        return collect(self.provider.run(self.stage.request(prompt, action=action, **request), cancel=cancel or Cancel(), ask=ask))

    @property
    def starts(self) -> list[str]:
        """The argument lists of the children so far."""
        return (self.stage.workspace / "starts").read_text().splitlines()


@pytest.fixture
def chat(stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Chat]]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    made: list[Chat] = []

    def make(more: str = "pass", *, after: str = "pass", timing: Timing = QUICK, long_lived: bool = True, **options) -> Chat:
        provider = stage.provider(stage.program(TALKS.format(more=more, after=after)), timing=timing, long_lived=long_lived, **options)
        made.append(Chat(stage, provider))
        return made[-1]

    yield make
    for each in made:
        each.provider.close()
    assert not processes.marked(MARKED)
    assert not list((tmp_path / "tmp").iterdir())


def files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "tmp").rglob("*.md"))


def test_turns_of_a_conversation_share_a_child(chat, tmp_path):
    talk = chat()

    outcomes = [talk.says("one", action="start"), talk.says("two", model="m"), talk.says("three", model="m")]

    assert [outcome.texts for outcome in outcomes] == [["ONE"], ["TWO"], ["THREE"]]
    assert [outcome.finished for outcome in outcomes] == [Finished("stop", "m")] * 3
    assert len(talk.starts) == 1
    assert len(files(tmp_path)) == 1
    talk.provider.close()
    assert (talk.stage.workspace / "gone").read_text() == "x"


def test_cost_of_a_turn_is_what_it_added(chat):
    talk = chat()

    usages = [talk.says(word, action=action, model="m").usage for word, action in (("one", "start"), ("two", "resume"), ("three", "resume"))]

    assert [usage.cost_usd for usage in usages] == [0.25, 0.25, 0.25]
    assert [usage.input_tokens for usage in usages] == [3, 3, 3]


def test_usage_of_the_models_adds_up_over_the_turns_and_is_taken_apart(stage):
    """As after answers without streaming, whose sum is all zero."""
    program = stage.program(
        """
        spent = 0
        while line := sys.stdin.buffer.readline():
            spent += 5
            models = {"m": {"inputTokens": spent, "outputTokens": 2 * spent}} | ({"n": {"inputTokens": 1}} if spent > 5 else {})
            say(init(), result("fine", usage={"input_tokens": 0, "output_tokens": 0}, modelUsage=models))
        """
    )
    provider = stage.provider(program, long_lived=True)
    outcomes = [
        collect(provider.run(stage.request(action=action, model=model), cancel=Cancel(), ask=nobody)) for action, model in (("start", None), ("resume", "m"))
    ]
    provider.close()

    assert [(outcome.usage.input_tokens, outcome.usage.output_tokens) for outcome in outcomes] == [(5, 10), (6, 10)]


def test_without_a_long_life_each_turn_has_a_child_of_its_own(chat):
    talk = chat(long_lived=False)

    talk.says("one", action="start")
    talk.says("two")

    assert len(talk.starts) == 2
    assert not processes.marked(MARKED)


@pytest.mark.parametrize(
    "other",
    [
        {"system_text": "Other bytes."},
        {"model": "another"},
        {"session": "another"},
        {"id": OTHER},
        {"action": "start", "id": OTHER},
    ],
)
def test_turn_on_other_terms_has_a_child_of_its_own(chat, other):
    talk = chat()
    talk.says("one", action="start", model="m")

    outcome = talk.says("two", **{"model": "m", **other})

    assert outcome.texts == ["TWO"]
    assert len(talk.starts) == 2
    assert (talk.stage.workspace / "gone").read_text() == "x"
    talk.provider.close()
    assert not processes.marked({"_ESCALERA_EXTERNAL_SESSION": OTHER})


def test_turn_that_must_do_without_the_workspaces_files_has_a_child_of_its_own(chat):
    talk = chat()
    talk.says("one", action="start", model="m")

    list(talk.provider.run(replace(talk.stage.request("two", action="resume", model="m"), unaccepted=(".mcp.json",)), cancel=Cancel(), ask=nobody))
    talk.says("three", model="m")

    assert [start.endswith("--setting-sources user") for start in talk.starts] == [False, True, False]


def test_turn_in_another_directory_has_a_child_of_its_own(chat, tmp_path):
    talk = chat()
    talk.says("one", action="start")
    talk.stage.workspace = tmp_path / "elsewhere"
    talk.stage.workspace.mkdir()

    assert talk.says("two", model="m").texts == ["TWO"]
    assert len(talk.starts) == 1


def test_child_that_died_between_turns_is_followed_by_one_that_resumes(chat):
    talk = chat()
    talk.says("one", action="start")
    (child,) = processes.marked(MARKED)
    os.kill(child.pid, signal.SIGKILL)

    outcome = talk.says("two", model="m")

    assert outcome.texts == ["TWO"]
    assert f"--resume {ID}" in talk.starts[1]


def test_child_that_dies_before_it_takes_the_message_up_is_followed_by_one_that_resumes(chat):
    talk = chat(after="sys.stdin.buffer.readline(); os._exit(0)")
    talk.says("one", action="start")

    outcome = talk.says("two", model="m")

    assert outcome.texts == ["TWO"]
    assert len(talk.starts) == 2


def test_child_that_dies_in_the_middle_of_an_answer_is_not_asked_again(chat):
    talk = chat("if told == 'two': os._exit(1)")
    talk.says("one", action="start")

    outcome = talk.says("two", model="m")

    assert type(outcome.error) is errors.Incomplete
    assert len(talk.starts) == 1


def test_child_that_spoke_between_turns_is_not_trusted(chat):
    talk = chat(after="say(init(), result('of nobody')); open('spoke', 'w')")
    talk.says("one", action="start")
    while not (talk.stage.workspace / "spoke").exists():
        time.sleep(0.01)
    while talk.provider._waiting._kept[1]._output.empty():
        time.sleep(0.01)

    assert talk.says("two", model="m").texts == ["TWO"]
    assert len(talk.starts) == 2


def test_failed_turn_ends_its_child_and_the_next_resumes(chat, tmp_path):
    talk = chat("if told == 'bad': say({**result('API Error: 529 Overloaded'), 'is_error': True, 'api_error_status': 529}); continue")
    talk.says("one", action="start")

    failed = talk.says("bad", model="m")
    assert not processes.marked(MARKED)
    assert not files(tmp_path)
    after = talk.says("two", model="m")

    assert type(failed.error) is errors.Overloaded
    assert after.texts == ["TWO"]
    assert len(talk.starts) == 2


def test_time_out_ends_its_child(chat):
    talk = chat("if told == 'hang': time.sleep(600)")
    talk.says("one", action="start")

    outcome = talk.says("hang", model="m", timeouts=Timeouts(first_byte=0.3, idle=0.3, turn=20))

    assert type(outcome.error) is errors.TimedOut
    assert not processes.marked(MARKED)


def test_cancel_interrupts_first_and_keeps_the_partial_text(chat):
    hangs = """if told == "hang":
        say({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "half"}}})
        open("asked", "w").write(sys.stdin.buffer.readline().decode())
        say({**result(None), "is_error": True})
        continue"""
    talk, cancel = chat(hangs), Cancel()
    talk.says("one", action="start")

    outcome = Outcome()
    try:
        for event in talk.provider.run(talk.stage.request("hang", action="resume", model="m"), cancel=cancel, ask=nobody):
            outcome.events.append(event)
            if isinstance(event, TextDelta):
                cancel.set()
    except errors.Cancelled as error:
        outcome.error = error

    assert outcome.error.partial == "half"
    assert '"interrupt"' in (talk.stage.workspace / "asked").read_text()
    assert not processes.marked(MARKED)
    assert talk.says("two", model="m").texts == ["TWO"]
    assert len(talk.starts) == 2


@pytest.mark.parametrize("begins", ["start", "resume"])
def test_cancel_while_an_unwanted_child_is_being_ended_is_seen_and_the_prompt_goes_nowhere(stage, begins):
    """The child before is deaf: it stays when its input ends, and takes no signal but the last."""
    program = stage.program(
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for line in sys.stdin:
            open("heard", "a").write(line)
            if json.loads(line)["type"] == "user":
                say(init(), result("hi"))
        open("told_to_go", "w").close()
        time.sleep(600)
        """
    )
    patient = Timing(after_interrupt=0.3, after_sigint=0.3, after_term=0.3, after_result=60)
    provider = stage.provider(program, timing=patient, long_lived=True)
    assert collect(provider.run(stage.request("first"), cancel=Cancel(), ask=nobody)).error is None
    cancel, cancelled_at = Cancel(), []

    def press() -> None:
        while not (stage.workspace / "told_to_go").exists():
            time.sleep(0.02)
        cancelled_at.append(time.monotonic())
        cancel.set()

    threading.Thread(target=press).start()
    outcome = collect(provider.run(stage.request("second", action=begins, model="another"), cancel=cancel, ask=nobody))

    assert type(outcome.error) is errors.Cancelled
    assert time.monotonic() - cancelled_at[0] < 6
    assert not processes.marked(MARKED)
    assert "second" not in (stage.workspace / "heard").read_text()
    provider.close()


def test_cancel_at_the_very_end_ends_the_child_and_the_turn_stands(chat):
    talk, cancel = chat(), Cancel()
    events = talk.provider.run(talk.stage.request("one"), cancel=cancel, ask=nobody)
    while not isinstance(next(events), Finished):
        pass
    cancel.set()

    assert list(events) == []
    assert talk.provider._waiting._kept is None
    assert not processes.marked(MARKED)


def test_closed_iterator_ends_the_child(chat):
    talk = chat()
    talk.says("one", action="start")
    events = talk.provider.run(talk.stage.request("two", action="resume", model="m"), cancel=Cancel(), ask=nobody)
    next(events)

    events.close()

    assert not processes.marked(MARKED)


def test_reader_that_leaves_at_the_proper_end_leaves_the_child(chat):
    talk = chat()
    events = talk.provider.run(talk.stage.request("one"), cancel=Cancel(), ask=nobody)
    while not isinstance(next(events), Finished):
        pass
    events.close()

    assert talk.says("two", model="m").texts == ["TWO"]
    assert len(talk.starts) == 1


def test_child_that_waited_too_long_is_ended(chat, tmp_path):
    talk = chat(timing=Timing(longest_wait=0.2))
    talk.says("one", action="start")

    deadline = time.monotonic() + 10
    while (processes.marked(MARKED) or files(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert not processes.marked(MARKED)
    assert talk.says("two", model="m").texts == ["TWO"]
    assert len(talk.starts) == 2


@pytest.mark.parametrize(
    "tool",
    ["tool_use('t', 'Task', prompt='x')", "tool_use('t', 'ExitPlanMode')", "tool_use('t', 'Bash', command='x', run_in_background=True)"],
)
def test_child_whose_tools_may_go_on_is_not_kept(chat, tool):
    talk = chat(f"say(assistant({tool}), {{'type': 'user', 'message': {{'content': [{{'type': 'tool_result', 'tool_use_id': 't', 'content': 'ok'}}]}}}})")

    talk.says("one", action="start")

    assert not processes.marked(MARKED)


def test_child_whose_tool_left_a_process_behind_is_ended_with_it(chat):
    talk = chat("say(asks('r', 'Bash', command='x')); sys.stdin.buffer.readline(); subprocess.Popen(['sleep', '600'], start_new_session=True)")

    assert talk.says("one", action="start", ask=lambda question: Answer("accept")).texts == ["ONE"]
    assert not processes.marked(MARKED)


def test_servers_of_the_child_do_not_end_it(stage):
    program = stage.program(
        """
        subprocess.Popen(["sleep", "600"])
        while line := sys.stdin.buffer.readline():
            say(init(), assistant(text(str(os.getpid()))), result(str(os.getpid())))
        """
    )
    provider = stage.provider(program, long_lived=True)
    outcomes = [
        collect(provider.run(stage.request(action=action, model=model), cancel=Cancel(), ask=nobody)) for action, model in (("start", None), ("resume", "m"))
    ]
    assert outcomes[0].texts == outcomes[1].texts

    provider.close()

    assert not processes.marked(MARKED)


def test_leave_given_once_is_asked_for_again(chat):
    asks = "say(asks('r' + told, 'Bash', command='x')); open('replies', 'a').write(sys.stdin.buffer.readline().decode())"
    talk, asked = chat(asks), []

    def ask(question):
        asked.append(question)
        return Answer("accept" if len(asked) == 1 else "decline")

    talk.says("one", action="start", ask=ask)
    talk.says("two", model="m", ask=ask)

    assert len(talk.starts) == 1
    first, second = (talk.stage.workspace / "replies").read_text().splitlines()
    assert len(asked) == 2
    assert '"behavior":"allow"' in first
    assert "updatedPermissions" not in first
    assert '"behavior":"deny"' in second


def test_what_an_earlier_turn_wrote_on_stderr_is_not_told_with_a_later_failure(chat):
    talk = chat("sys.stderr.write(told + ' on stderr'); sys.stderr.flush(); told != 'two' or os._exit(1)")
    talk.says("one", action="start")
    while b"one" not in bytes(talk.provider._waiting._kept[1]._stderr):
        time.sleep(0.01)

    error = talk.says("two", model="m").error

    assert "two on stderr" in error.message
    assert "one on stderr" not in error.message


def test_child_of_one_agent_waits_on_while_another_agent_of_its_session_has_a_turn(chat):
    one, other = chat(), chat()
    one.says("one", action="start", session=SESSION)
    other.says("other", action="start", session=SESSION, id=OTHER)
    other.provider.close()

    assert one.says("two", model="m", session=SESSION).texts == ["TWO"]
    assert len(one.starts) == 2


def test_turn_that_another_takes_in_the_same_conversation_ends_the_child_that_waits_there(chat):
    one, other = chat(), chat()
    one.says("one", action="start")

    other.says("between", model="m")

    assert one.says("two", model="m").texts == ["TWO"]
    assert len(one.starts) == 3


ENDS = """
import os, signal, sys, time
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.provider import ClaudeProvider
from escalera_claude_cli.timing import Timing
from orchestrator.messages import Message, Text
from orchestrator.providers import AgentContext, Cancel, Conversation, Request
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
timing = Timing(after_interrupt=0.3, after_sigint=0.3, after_result=0.3)
provider = ClaudeProvider(ClaudeOptions(bin=sys.argv[1]), AgentContext("claude", sys.argv[2], os.environ, (), True), timing)
conversation = Conversation("start", sys.argv[4], "You.", "[context]")
request = Request("claude", (), (Message("user", (Text("one"),)),), conversation=conversation, workspace=sys.argv[2], session=sys.argv[5])
list(provider.run(request, cancel=Cancel(), ask=lambda question: None))
print("ready", flush=True)
if sys.argv[3] != "exit":
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["exit", "SIGTERM", "SIGKILL"])
def test_child_that_waits_does_not_outlive_us(stage, how):
    """Not even one that stays when its input ends. A kill lets us do nothing: what is left then is ended at the next start."""
    stubborn = ("signal.signal(signal.SIGTERM, signal.SIG_IGN); " if how == "SIGKILL" else "") + "time.sleep(600)"
    program = stage.program(TALKS.format(more="pass", after="pass") + stubborn)
    environ = {**os.environ, "TMPDIR": str(stage.folder)}
    ours = subprocess.Popen([sys.executable, "-c", ENDS, program, str(stage.workspace), how, ID, SESSION], stdout=subprocess.PIPE, env=environ)
    assert ours.stdout.readline() == b"ready\n"

    if how != "exit":
        ours.send_signal(getattr(signal, how))
    ours.wait(10)
    ours.stdout.close()

    if how == "SIGKILL":
        assert processes.marked(MARKED)
        collect(stage.provider(program).run(stage.request(action="resume", session=SESSION), cancel=Cancel(), ask=nobody))
    assert not processes.marked(MARKED)
    assert how == "SIGKILL" or not list(stage.folder.rglob("system-prompt.md"))


def test_closed_provider_still_takes_turns_and_keeps_no_child(chat):
    talk = chat()
    talk.provider.close()

    assert talk.says("one", action="start").texts == ["ONE"]
    assert not processes.marked(MARKED)
