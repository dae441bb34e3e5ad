"""A turn's life: real processes, really ended."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from escalera_claude_cli import processes
from escalera_claude_cli.child import Child
from escalera_claude_cli.environment import marks, renews_login
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.timing import Timing
from escalera_claude_cli.transcript import Transcript
from escalera_claude_cli.verdict import refused_wait

from orchestrator import errors
from orchestrator.messages import ToolCall
from orchestrator.providers import Answer, Cancel, ExternalSessionStarted, Finished, MessageDone, TextDelta, Timeouts

from .conftest import ID, MARKED, QUICK, dispatched

TAKES_NO_HINT = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""

GRANDCHILD = """
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('grandchild', 'w'); time.sleep(600)"],
                 start_new_session=True)
while not os.path.exists("grandchild"): time.sleep(0.01)
"""


def cancel_when(path: Path, cancel: Cancel) -> None:
    def work() -> None:
        while not path.exists():
            time.sleep(0.01)
        cancel.set()

    threading.Thread(target=work).start()


def test_input_is_held_open_until_the_result(stage):
    outcome = stage.turn(
        """
        import select
        heard()
        say(init())
        early = select.select([sys.stdin], [], [], 0.3)[0]
        say(result("closed early" if early else "held open"))
        until_closed()
        """
    )

    assert outcome.texts == ["held open"]


def test_cancel_interrupts_politely_and_keeps_what_was_spent(stage):
    cancel = Cancel()
    cancel_when(stage.workspace / "ready", cancel)

    outcome = stage.turn(
        """
        heard()
        say(init(), assistant(text("half")))
        open("ready", "w")
        asked = heard()
        say({**result(None), "is_error": True, "usage": {"input_tokens": 7, "output_tokens": 1}})
        open("asked", "w").write(json.dumps(asked))
        until_closed()
        """,
        cancel=cancel,
    )

    assert type(outcome.error) is errors.Cancelled
    assert outcome.error.partial == "half"
    assert outcome.usage.input_tokens == 7
    assert '"subtype": "interrupt"' in (stage.workspace / "asked").read_text()


def test_cancel_ends_a_child_and_a_grandchild_that_take_no_hint(stage):
    cancel = Cancel()
    cancel_when(stage.workspace / "grandchild", cancel)
    began = time.monotonic()

    outcome = stage.turn(TAKES_NO_HINT + GRANDCHILD + "heard(); say(init()); time.sleep(600)", cancel=cancel, timing=Timing())

    assert type(outcome.error) is errors.Cancelled
    assert time.monotonic() - began < 6
    assert not processes.marked(MARKED)


def test_cancel_before_the_turn_starts_nothing(stage):
    cancel = Cancel()
    cancel.set("too late")

    outcome = stage.turn("open('started', 'w')", cancel=cancel)

    assert type(outcome.error) is errors.Cancelled
    assert not (stage.workspace / "started").exists()


def test_cancel_while_a_question_is_open_ends_the_question(stage):
    cancel = Cancel()

    def ask(question):
        threading.Thread(target=cancel.set).start()
        assert question.withdrawn.wait(10)
        return Answer("cancel", by="asker")

    outcome = stage.turn("heard(); say(init(), asks('r1', 'Bash', command='x')); time.sleep(600)", ask=ask, cancel=cancel)

    assert type(outcome.error) is errors.Cancelled


def test_closing_the_iterator_leaves_no_process(stage):
    provider = stage.provider(stage.program(GRANDCHILD + "heard(); say(init()); until_closed()"))
    events = provider.run(stage.request(), cancel=Cancel(), ask=lambda question: Answer("decline"))
    assert isinstance(next(events), ExternalSessionStarted)

    events.close()

    assert not processes.marked(MARKED)


def test_grandchild_left_after_a_good_turn_is_ended(stage):
    outcome = stage.turn(GRANDCHILD + "heard(); say(init(), result('done'))")

    assert outcome.texts == ["done"]
    assert not processes.marked(MARKED)


def test_child_that_stays_after_its_result_is_ended_and_the_turn_stands(stage):
    outcome = stage.turn("heard(); say(init(), result('done')); time.sleep(600)")

    assert isinstance(outcome.finished, Finished)
    assert outcome.error is None
    assert not processes.marked(MARKED)


def test_orphan_of_a_killed_orchestrator_is_ended_at_the_next_turn(stage):
    mark = {"_ESCALERA_SESSION": f"session of {ID}"}
    subprocess.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 &"], env={**os.environ, **mark}, check=True)
    while not processes.marked(mark):  # it may be in the midst of its start
        time.sleep(0.01)

    stage.turn("heard(); say(init(), result('done'))", stage.request(session=f"session of {ID}"))

    assert not processes.marked(mark)


@pytest.mark.parametrize("own", [True, False], ids=["by env", "by the user's environment"])
def test_login_that_the_program_tells_is_in_no_error(stage, own):
    login = {"ANTHROPIC_API_KEY": "sk-own-secret"}

    outcome = stage.turn("sys.exit('no, ' + os.environ['ANTHROPIC_API_KEY'] + ' is wrong')", **{"env" if own else "environ": login})

    assert "no, *** is wrong" in outcome.error.message
    assert "sk-own" not in str(outcome.error)


def test_output_held_open_by_a_process_that_outlives_the_child_ends_with_the_child(stage):
    outcome = stage.turn("heard(); say(init(), assistant(text('half')))\nsubprocess.Popen(['sleep', '3'], env={}, start_new_session=True)")

    assert type(outcome.error) is errors.Incomplete
    assert outcome.error.partial == "half"


@pytest.mark.parametrize(
    ("said", "which", "partial"),
    [
        ("init()", "first_byte", ""),
        ("init(), assistant(text('half'))", "idle", "half"),
    ],
)
def test_silence_is_a_time_out_with_what_had_come(stage, said, which, partial):
    outcome = stage.turn(f"heard(); say({said}); until_closed()", stage.request(timeouts=Timeouts(first_byte=0.3, idle=0.3, turn=20)))

    assert type(outcome.error) is errors.TimedOut
    assert (outcome.error.which, outcome.error.partial) == (which, partial)
    assert not processes.marked(MARKED)


@pytest.mark.parametrize(
    ("body", "which"),
    [
        ("time.sleep(600)", "first_byte"),
        ("\nwhile True: sys.stderr.write('still here\\n'); sys.stderr.flush(); time.sleep(0.01)", "first_byte"),
        ("heard(); say(init(), assistant(text('half')))\nwhile True: say(b'x'); time.sleep(0.01)", "idle"),
        ("heard(); say(init(), assistant(text('half')))\nos.close(1)\nos.close(2)\ntime.sleep(600)", None),
    ],
    ids=["input is not read", "only stderr", "a line without end", "closed output"],
)
def test_child_that_stalls_or_closes_its_output_is_ended_by_ourselves(stage, body, which):
    began = time.monotonic()

    outcome = stage.turn(body, stage.request("x" * 2_000_000, timeouts=Timeouts(first_byte=0.6, idle=0.6, turn=20)))

    assert type(outcome.error) is (errors.TimedOut if which else errors.Incomplete)
    assert getattr(outcome.error, "which", None) == which
    assert time.monotonic() - began < 6
    assert not processes.marked(MARKED)


def test_chatter_does_not_outlast_the_turn_limit(stage):
    outcome = stage.turn("heard()\nwhile True: say(init()); time.sleep(0.02)", stage.request(timeouts=Timeouts(first_byte=None, idle=None, turn=0.3)))

    assert outcome.error.which == "turn"


def test_announced_delay_and_a_running_tool_are_no_silence(stage):
    outcome = stage.turn(
        """
        heard()
        say(init(), {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "retry_delay_ms": 500})
        time.sleep(0.6)
        say(assistant(tool_use("t1", "Bash", command="make")))
        time.sleep(0.6)
        say({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "made"}]}}, result("done"))
        """,
        stage.request(timeouts=Timeouts(first_byte=0.3, idle=0.3, turn=20)),
    )

    assert outcome.error is None


STARTS = {"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m1"}}}
STOPS = {"type": "stream_event", "event": {"type": "message_stop"}}
DELTA = {"type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hal"}}}
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 1, "retry_delay_ms": 1}
NUDGE = {"type": "user", "isSynthetic": True, "message": {"content": [{"type": "text", "text": "[say something]"}]}}
GIVEN_UP = {"type": "assistant", "message": {"model": "<synthetic>", "content": []}, "error": "server_error"}
CALLS = {"type": "assistant", "message": {"id": "m2", "model": "m", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]}}
RETURNS = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]}}
BUSY = "[WARN] Mid-stream 529 before content — retrying streaming (1/3)"
GONE = "[WARN] Stream connection closed (ECONNRESET) before first event — retrying streaming (1/2)"
WITHOUT_STREAM = '[ERROR] Error streaming, falling back to non-streaming mode: {"type":"error"}'
NOTES_NO_STREAM = "[WARN] Streaming endpoint returned 404, falling back to non-streaming mode"
REFUSED = "[ERROR] API error (attempt 1/2): 529 [WARN] Mid-stream 529 before content — retrying streaming (1/3)"
FINAL = "[WARN] Stream connection closed (ECONNRESET) after 1 block(s) yielded — finalizing partial response"
NOTES = """
def note(*notes):
    with open(os.environ["CLAUDE_CODE_DEBUG_LOGS_DIR"], "a", encoding="utf-8") as log:
        log.writelines(f"2026-11-30T18:44:44.991Z {one}\\n" for one in notes)
heard(); say(init())
"""


def noting(*steps, words="API Error: 529 Overloaded"):
    """A program that says and notes these in turn: texts go to its log, a number is a pause."""
    told = [f"note({step!r})" if isinstance(step, str) else f"time.sleep({step})" if isinstance(step, float) else f"say({step!r})" for step in steps]
    return "\n".join([NOTES, *told, f"say(result({words!r}, is_error=True))"])


@pytest.mark.parametrize(
    ("steps", "counted"),
    [
        ([RETRY, GIVEN_UP], 1),
        ([STARTS, GIVEN_UP], 0),
        ([RETRY, STARTS, RETRY, GIVEN_UP], 3),
        ([STARTS, STARTS, STOPS, GIVEN_UP], 1),
        ([STARTS, STOPS, NUDGE, GIVEN_UP], 1),
        ([STARTS, STOPS, NUDGE, STARTS, STOPS, GIVEN_UP], 1),
        ([STARTS, STOPS, STARTS, STOPS, GIVEN_UP], 1),
        ([BUSY, BUSY, WITHOUT_STREAM, GIVEN_UP], 3),
        ([GONE, BUSY, WITHOUT_STREAM, RETRY, GIVEN_UP], 4),
        ([STARTS, STOPS, BUSY, STARTS, STOPS, BUSY, STARTS, WITHOUT_STREAM, GIVEN_UP], 3),
        ([NOTES_NO_STREAM, GIVEN_UP], 1),
        ([REFUSED, FINAL, GIVEN_UP], 0),
    ],
)
def test_what_the_cli_asks_again_is_counted_also_where_only_its_log_tells(stage, steps, counted):
    outcome = stage.turn(noting(*steps))

    assert outcome.error.own_retries == counted


@pytest.mark.parametrize(
    ("steps", "retries_left", "counted"),
    [
        ([BUSY, 1.0], 0, 0),
        ([BUSY, 1.0], 1, 0),
        ([BUSY, 0.3, BUSY, 1.0], 2, 1),
        ([GONE, 1.0], 0, 1),
        ([BUSY, BUSY, WITHOUT_STREAM, 0.3, RETRY, 1.0], 3, 3),
        ([RETRY, BUSY, 0.3, BUSY, 1.0], 3, 2),
        ([RETRY, 1.0], 0, 0),
        ([RETRY, 1.0], 1, 0),
        ([STARTS, DELTA, RETRY, 1.0], 0, 0),
        ([STARTS, DELTA, WITHOUT_STREAM, 0.3, RETRY, 1.0], 1, 1),
        ([STARTS, DELTA, WITHOUT_STREAM, 0.3, RETRY, RETRY, 1.0], 2, 2),
        ([CALLS, RETURNS, RETRY, 1.0], 1, 0),
        ([RETRY, CALLS, RETURNS, RETRY, RETRY, 1.0], 2, 2),
    ],
)
def test_a_repeat_above_what_the_turn_may_have_is_not_waited_for(stage, steps, retries_left, counted):
    outcome = stage.turn(noting(*steps, words="API Error: 500 it went on"), replace(stage.request(), retries_left=retries_left))

    assert isinstance(outcome.error, errors.Transient)
    assert "went on" not in outcome.error.message
    assert outcome.error.own_retries == counted


@pytest.mark.parametrize(
    ("steps", "retries_left", "environ"),
    [
        ([BUSY, 0.3, BUSY, 0.3, WITHOUT_STREAM, 0.3], 3, {}),
        ([STARTS, DELTA, 0.3, BUSY, 0.3], 0, {}),
        ([STARTS, DELTA, WITHOUT_STREAM, 0.3, RETRY, 0.3], 2, {}),
        ([RETRY, CALLS, RETURNS, RETRY, CALLS, RETURNS, RETRY, 0.3], 2, {}),
        ([RETRY, RETRY, RETRY, RETRY], 3, {"CLAUDE_CODE_MAX_RETRIES": "9"}),
        ([RETRY, RETRY, RETRY, RETRY], None, {}),
    ],
    ids=["within what it may", "something came", "something came, then a refusal", "each of its requests", "the user's own bound", "nobody counts"],
)
def test_a_child_goes_on_where_it_may(stage, steps, retries_left, environ):
    outcome = stage.turn(noting(*steps, words="API Error: 500 it went on"), replace(stage.request(), retries_left=retries_left), environ=environ)

    assert "went on" in outcome.error.message


def test_notes_are_asked_for_in_a_file_of_our_own_unless_the_user_has_one(stage):
    tells = "heard(); say(init(), result(repr([os.environ.get(name) for name in ('DEBUG_SDK', 'CLAUDE_CODE_DEBUG_LOGS_DIR')])))"
    (ours,) = stage.turn(tells).texts
    (own,) = stage.turn(tells, environ={"CLAUDE_CODE_DEBUG_LOGS_DIR": "/elsewhere"}).texts

    assert ours.startswith("['1', ")
    assert "escalera-prompt-" in ours
    assert own == "[None, '/elsewhere']"


def announces(status, error, seconds):
    return {**RETRY, "error_status": status, "error": error, "retry_delay_ms": 1000 * seconds}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (announces(429, "rate_limit", 45), errors.RateLimited),
        (announces(529, "overloaded", 45), errors.Overloaded),
        (announces(503, "server_error", 45), errors.Unavailable),
        (announces(409, "unknown", 45), errors.Unavailable),
        (announces(None, "unknown", 45), errors.Unavailable),
    ],
)
def test_a_wait_that_is_longer_than_allowed_ends_the_turn_at_once_with_the_time_named(line, kind):
    error = refused_wait(line, Transcript(), longest=10.0, agent="claude", renews_login=True)

    assert (type(error), error.retry_after, error.agent) == (kind, 45.0, "claude")
    assert "45 s" in error.message
    assert refused_wait(line, Transcript(), longest=45.0, agent="claude", renews_login=True) is None
    assert refused_wait(line, Transcript(), longest=None, agent="claude", renews_login=True) is None


def test_the_wait_of_the_program_itself_is_its_own_affair():
    assert refused_wait(announces(529, "overloaded", 0.5354), Transcript(), longest=0.1, agent="claude", renews_login=True) is None


def test_a_child_that_would_wait_too_long_is_ended_and_its_repeat_not_counted(stage):
    request = replace(stage.request(session=f"session of {ID}"), longest_wait=10.0)

    outcome = stage.turn(f"heard(); say(init(), {announces(429, 'rate_limit', 45)!r}); time.sleep(600)", request)

    assert (type(outcome.error), outcome.error.retry_after, outcome.error.own_retries) == (errors.RateLimited, 45.0, 0)
    assert outcome.notices == ""
    assert not processes.marked(MARKED)


@pytest.mark.parametrize(("status", "environ", "sends"), [(429, {}, 1), (429, {"CLAUDE_CODE_MAX_RETRIES": "0"}, 4), (None, {}, 4)])
def test_what_the_cli_will_not_repeat_is_not_repeated_for_it(stage, status, environ, sends):
    program = stage.program(f"heard(); say(init(), result('API Error: sorry', is_error=True, api_error_status={status})); until_closed()")

    assert dispatched(stage.provider(program, environ=environ), stage.request(id=ID)).sends == sends


@pytest.mark.parametrize(
    ("announced", "left", "named"),
    [([6], 1, 6.0), ([6, 6, 7], 3, 7.0), ([1, 1.13], 2, 1.0), ([0.53], 1, None), ([0.53, 1.13], 2, None)],
    ids=["at once", "the last counts", "hidden behind a longer wait of its own", "none", "none again"],
)
def test_a_named_wait_that_the_cli_has_no_repeat_left_for_is_the_cores(stage, announced, left, named):
    said = ", ".join(repr(announces(429, "rate_limit", seconds)) for seconds in announced)
    error = stage.turn(f"heard(); say(init(), {said}); time.sleep(600)", replace(stage.request(), retries_left=left)).error

    assert (type(error), error.retry_after, error.own_retries) == (errors.RateLimited, named, len(announced) - 1)


@pytest.mark.parametrize(
    ("environ", "renews"),
    [
        ({}, True),
        ({"ANTHROPIC_API_KEY": "k"}, False),
        ({"ANTHROPIC_AUTH_TOKEN": "k"}, False),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "k"}, False),
        ({"ANTHROPIC_API_KEY": ""}, True),
        ({"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_USE_BEDROCK": "1"}, True),
    ],
)
def test_a_refused_key_is_not_tried_again_and_a_login_may_be_renewed(environ, renews):
    assert renews_login(environ) is renews
    told = [
        refused_wait(announces(status, None, 0.5), Transcript(), longest=60.0, agent="claude", renews_login=renews_login(environ))
        for status in (401, 403, 404, 408)
    ]
    auth = type(None) if renews else errors.AuthFailed
    assert [type(error) for error in told] == [auth, auth, errors.ModelNotFound, errors.TimedOut]


def test_a_time_out_names_the_setting(stage):
    outcome = stage.turn("heard(); time.sleep(600)", stage.request(timeouts=Timeouts(first_byte=0.2, idle=20, turn=20)))

    assert "first_byte_timeout" in outcome.error.hint


def stream_event(**event):
    return {"type": "stream_event", "event": event}


@pytest.mark.parametrize(
    ("lines", "runs"),
    [
        (["assistant(tool_use('t1', 'Bash', command='make'))"], 1),
        (["assistant({'type': 'redacted_thinking', 'data': 'x'})"], 1),
        ([STARTS, stream_event(type="content_block_start", content_block={"type": "tool_use", "id": "t1", "name": "Bash", "input": {}})], 1),
        ([STARTS, stream_event(type="content_block_delta", delta={"type": "input_json_delta", "partial_json": "{"})], 1),
        ([STARTS, stream_event(type="content_block_delta", delta={"type": "signature_delta", "signature": "c2ln"})], 1),
        ([STARTS, stream_event(type="content_block_start", content_block={"type": "text", "text": ""})], 2),
        ([STARTS], 2),
        ([], 2),
    ],
)
def test_nothing_is_sent_again_once_something_of_the_answer_came_though_nothing_was_shown(stage, lines, runs):
    said = ", ".join(line if isinstance(line, str) else repr(line) for line in lines)
    provider = stage.provider(
        stage.program(f"open('runs', 'a').write('x'); heard(); say(init(), *[{said}], result('API Error: 529 Overloaded', is_error=True)); until_closed()")
    )

    dispatched(provider, stage.request(action="resume"))

    assert len((stage.workspace / "runs").read_text()) == runs


def test_what_the_cli_asked_again_before_it_fell_silent_is_counted(stage):
    outcome = stage.turn(f"heard(); say(init(), {RETRY!r}); time.sleep(600)", stage.request(timeouts=Timeouts(first_byte=0.3, idle=0.3, turn=20)))

    assert (type(outcome.error), outcome.error.own_retries) == (errors.TimedOut, 1)


def cut_message(identity, said, stop_reason):
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": said}}
    events = [{"type": "message_start", "message": {"id": identity}}, delta]
    ends = [{"type": "message_delta", "delta": {"stop_reason": stop_reason}}, {"type": "message_stop"}]
    whole = {"type": "assistant", "message": {"id": identity, "model": "m", "content": [{"type": "text", "text": said}]}}
    return [*({"type": "stream_event", "event": event} for event in events), whole, *({"type": "stream_event", "event": event} for event in ends)]


def test_text_that_the_output_limit_cut_is_partial_all_of_it(stage):
    lines = cut_message("m1", "one ", "max_tokens") + cut_message("m2", "two", "max_tokens")

    outcome = stage.turn(f"heard(); say(init(), *{lines!r}, result('two', stop_reason='max_tokens'))")

    assert (type(outcome.error), outcome.error.partial) == (errors.Incomplete, "one two")
    assert outcome.texts == []


def test_text_that_the_output_limit_cut_and_the_model_went_on_with_is_one_message(stage):
    lines = cut_message("m1", "one ", "max_tokens") + cut_message("m2", "two", "end_turn")

    outcome = stage.turn(f"heard(); say(init(), *{lines!r}, result('two'))")

    assert outcome.error is None
    assert outcome.texts == ["one ", "two"]
    assert len([event for event in outcome.events if isinstance(event, MessageDone)]) == 1


def test_limits_stand_still_while_a_question_is_open(stage):
    def ask(question):
        time.sleep(0.5)
        return Answer("accept")

    outcome = stage.turn(
        "heard(); say(init(), asks('r1', 'Bash', command='x')); heard(); say(result('done'))",
        stage.request(timeouts=Timeouts(first_byte=0.4, idle=0.4, turn=20)),
        ask=ask,
    )

    assert outcome.texts == ["done"]


def test_request_that_the_cli_takes_back_withdraws_the_question(stage):
    def ask(question):
        assert question.withdrawn.wait(10)
        return Answer("cancel", by="asker")

    outcome = stage.turn(
        """
        heard()
        say(init(), asks("r1", "Bash", command="x"), {"type": "control_cancel_request", "request_id": "r1"}, result("went on"))
        assert until_closed() == b""
        """,
        ask=ask,
    )

    assert outcome.texts == ["went on"]
    assert "withdrawn" in outcome.notices


def test_end_of_the_child_withdraws_its_question(stage):
    def ask(question):
        assert question.withdrawn.wait(10)
        return Answer("cancel", by="asker")

    outcome = stage.turn("heard(); say(init(), asks('r1', 'Bash', command='x')); sys.exit(1)", ask=ask)

    assert type(outcome.error) is errors.Incomplete


def test_unknown_control_request_is_refused_and_the_turn_goes_on(stage):
    outcome = stage.turn(
        """
        heard()
        say(init(), {"type": "control_request", "request_id": "r9", "request": {"subtype": "brand_new"}})
        say(result(heard()["response"]["subtype"]))
        """
    )

    assert outcome.texts == ["error"]


def test_talk_of_a_subagent_is_no_answer(stage):
    outcome = stage.turn(
        """
        heard()
        delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "inner"}}
        say(init(), {"type": "stream_event", "event": delta, "parent_tool_use_id": "t1"}, {**assistant(text("inner")), "parent_tool_use_id": "t1"})
        say(assistant(text("outer")), result("outer"))
        """
    )

    assert outcome.texts == ["outer"]
    assert not any(isinstance(event, TextDelta) for event in outcome.events)


def test_nothing_at_all_is_an_empty_answer_with_what_stderr_told(stage):
    outcome = stage.turn("heard(); say(init(), result('', num_turns=0)); sys.stderr.write('config is broken')")

    assert type(outcome.error) is errors.EmptyAnswer
    assert "config is broken" in outcome.error.message


def test_end_of_a_flood_on_stderr_is_what_is_told(stage):
    outcome = stage.turn("sys.stderr.write('noise ' * 100_000 + 'this is why'); sys.stderr.flush(); sys.exit(1)")

    assert outcome.error.message.endswith("this is why")
    assert len(outcome.error.message) < 3000


def test_usage_of_the_models_counts_where_the_sum_is_all_zero(stage):
    zero = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    models = {"a": {"inputTokens": 5, "outputTokens": 6, "cacheReadInputTokens": 7}, "b": {"inputTokens": 1, "cacheCreationInputTokens": 2}}

    usage = stage.turn(f"heard(); say(init(), result('fine', usage={zero}, modelUsage={models}, total_cost_usd=0.5))").usage

    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (6, 6, 7, 2)
    assert (usage.cost_usd, usage.cost_source) == (0.5, "reported")


def test_what_was_not_reported_stays_unknown(stage):
    usage = stage.turn("heard(); say(init(), result('fine', usage={'input_tokens': 3}))").usage

    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (3, None, None)


def test_refusal_is_blocked(stage):
    outcome = stage.turn("heard(); say(init(), assistant(text('I')), result('I', stop_reason='refusal'))")

    assert type(outcome.error) is errors.Blocked


def test_program_that_refuses_its_arguments_says_so(stage):
    outcome = stage.turn("sys.exit(\"error: unknown option '--tea'\")", extra_args=("--tea",))

    assert type(outcome.error) is errors.InvalidRequest
    assert "--tea" in outcome.error.message


@pytest.mark.parametrize(("exit_code", "kind"), [(1, errors.InvalidRequest), (143, errors.Incomplete), (0, errors.Incomplete)])
def test_program_that_was_ended_before_it_said_anything_is_no_wrong_request(stage, exit_code, kind):
    outcome = stage.turn(f"heard(); sys.exit({exit_code})")

    assert type(outcome.error) is kind


@pytest.mark.parametrize("wrong", [{"usage": 7, "modelUsage": []}, {"total_cost_usd": 1e999}, {"permission_denials": "x"}, {"session_id": "\x1b[31m"}])
def test_odd_fields_in_a_result_do_not_break_it(stage, wrong):
    outcome = stage.turn(f"heard(); inf = float('inf'); say(init(), {{**result('fine'), **{wrong!r}}})")

    assert outcome.texts == ["fine"]
    assert outcome.session == "11111111-2222-4333-8444-555555555555"


def test_hostile_text_arrives_storable(stage):
    outcome = stage.turn(r"""heard(); say(init(), assistant(text("a\ud800b\x00c")), result("a\ud800b\x00c"))""")

    assert outcome.texts == ["a\ufffdb\ufffdc"]


def test_arguments_that_no_json_can_hold_do_not_fail_the_turn(stage):
    outcome = stage.turn("heard(); say(init(), assistant(tool_use('t1', 'Bash', n=float('inf')), text('ran')), result('ran'))")

    assert outcome.texts == ["ran"]
    assert [part.arguments for event in outcome.events if isinstance(event, MessageDone) for part in event.parts if isinstance(part, ToolCall)] == [{}]


def test_workspace_that_is_gone_is_named(stage):
    program = stage.program("")
    stage.workspace.rmdir()

    assert "is no folder" in stage.run(program).error.message


def test_model_that_the_program_fell_back_to_is_the_one_that_served(stage):
    other = {"type": "assistant", "message": {"id": "m2", "model": "smaller", "content": [{"type": "text", "text": "fine"}]}}

    assert stage.turn(f"heard(); say(init(), {other!r}, result('fine'))").finished.model_served == "smaller"
    assert stage.turn("heard(); say(init(), result('fine'))").finished.model_served == "m"


def test_cost_below_zero_is_unknown(stage):
    assert stage.turn("heard(); say(init(), result('fine', usage={'input_tokens': 3}, total_cost_usd=-1))").usage.cost_usd is None


def test_what_a_program_says_before_it_is_asked_is_told_when_it_fails(stage):
    """A wrapper that fails at once is often quicker than the message; another that is still there is read behind it."""
    options = ClaudeOptions(bin=stage.program('sys.stderr.write("no such profile\\n")\nsys.stderr.flush()\nsys.exit(1)'))
    request = stage.request()
    child = Child(options, request, environ=os.environ, marks=marks(request.session, ID, os.environ), timing=QUICK)
    try:
        assert child.wait(10) == 1
        assert child.stderr() == "no such profile\n"
        child.begin("{}\n")
        assert child.stderr() == "no such profile\n"
    finally:
        child.end()
