"""What went wrong in public with other programs that drive `claude`, each case by its id."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from orchestrator import errors
from orchestrator.providers import ToolResultSeen

ID = "11111111-2222-4333-8444-555555555555"


@pytest.mark.trial("T39")
@pytest.mark.parametrize("on_stdout", [False, True])
def test_t39_conversation_that_is_gone_is_lost(stage, on_stdout):
    line = {"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0, "errors": [f"No conversation found with session ID: {ID}"]}

    outcome = stage.turn(
        f"""
        heard()
        if {on_stdout}: say({line})
        sys.stderr.write("No conversation found with session ID: {ID}\\n")
        sys.exit(1)
        """,
        stage.request(action="resume"),
    )

    assert type(outcome.error) is errors.SessionLost


@pytest.mark.trial("T41")
@pytest.mark.parametrize("exit_code", [0, 1])
def test_t41_usage_limit_is_no_answer_and_names_its_end(stage, data, exit_code):
    outcome = stage.replay(data("T41.ndjson"), exit_code=exit_code)

    assert type(outcome.error) is errors.RateLimited
    assert "resets 8:30am (UTC)" in outcome.error.message
    assert 0 <= outcome.error.retry_after <= 24 * 3600
    assert not outcome.texts


@pytest.mark.trial("T43")
@pytest.mark.parametrize(
    ("code", "kind"),
    [(529, errors.Overloaded), (500, errors.Unavailable), (401, errors.AuthFailed), (400, errors.InvalidRequest), (429, errors.RateLimited)],
)
def test_t43_status_is_read_from_the_text_where_there_is_no_field(stage, data, tmp_path, code, kind):
    path = tmp_path / "varied.ndjson"
    said = data("T43.ndjson").read_text()
    path.write_text(said if code == 529 else said.replace("529", str(code)).replace("overloaded_error", "api_error").replace("Overloaded", "Sorry"))

    outcome = stage.replay(path, exit_code=1)

    assert type(outcome.error) is kind
    assert outcome.error.retryable == (code in (529, 500, 429))
    assert not outcome.texts


@pytest.mark.trial("T44")
def test_t44_objects_glued_together_and_cut_apart_are_read(stage, data):
    writes = [write["utf8"] for write in json.loads(data("T44.json").read_text())["stdout_writes"]]

    outcome = stage.turn(f"heard()\nfor piece in {writes!r}:\n    say(piece.encode())\n")

    assert outcome.error is None
    assert outcome.texts == ["one two"]


@pytest.mark.trial("T45")
@pytest.mark.parametrize("size", [70_000, 1_304_261, 9_000_000])
def test_t45_long_lines_pass(stage, size):
    outcome = stage.turn(
        f"""
        heard()
        block = {{"type": "tool_result", "tool_use_id": "t", "content": "x" * {size}}}
        say(init(), {{"type": "user", "message": {{"content": [block]}}}}, assistant(text("seen")), result("seen"))
        """
    )

    assert outcome.texts == ["seen"]
    assert [len(event.content) for event in outcome.events if isinstance(event, ToolResultSeen)] == [size]


@pytest.mark.trial("T46")
def test_t46_noise_around_the_objects_is_skipped(stage, data):
    outcome = stage.replay(data("T46.ndjson"))

    assert outcome.texts == ["clean"]
    assert outcome.session == ID


@pytest.mark.trial("T47")
def test_t47_flood_on_stderr_blocks_nobody(stage):
    outcome = stage.turn(
        """
        heard()
        for number in range(16384):
            sys.stderr.write(f"[mcp] noise {number}\\n")
        sys.stderr.flush()
        say(init(), assistant(text("ok")), result("ok"))
        """
    )

    assert outcome.error is None
    assert outcome.texts == ["ok"]


@pytest.mark.trial("T48")
@pytest.mark.parametrize("size", [131_071, 131_072, 400_000])
def test_t48_long_texts_never_stand_in_the_arguments(stage, size):
    system_text, prompt = "é" * (size // 2) + "s" * (size % 2), "p" * 400_000

    outcome = stage.turn(
        """
        path = sys.argv[sys.argv.index("--append-system-prompt-file") + 1]
        seen = {"longest": max(map(len, sys.argv)), "path": path, "mode": os.stat(path).st_mode, "folder": os.stat(os.path.dirname(path)).st_mode}
        seen |= {"system": open(path, encoding="utf-8").read(), "message": heard()["message"]["content"]}
        open("seen.json", "w").write(json.dumps(seen))
        os.abort()
        """,
        stage.request(prompt, system_text=system_text),
    )

    seen = json.loads((stage.workspace / "seen.json").read_text())
    assert type(outcome.error) is errors.Incomplete
    assert seen["longest"] < 32_000
    assert (seen["system"], seen["message"]) == (system_text, f"[context]\n\n{prompt}")
    assert (stat.S_IMODE(seen["mode"]), stat.S_IMODE(seen["folder"])) == (0o600, 0o700)
    assert not Path(seen["path"]).parent.exists()


@pytest.mark.trial("T48")
def test_t48_failed_start_has_a_message_of_its_own(stage):
    missing = stage.run(str(stage.folder / "nowhere"))
    not_a_program = stage.run(str(stage.workspace))

    assert "there is no program" in missing.error.message
    assert "bin" in missing.error.hint
    assert "was not started" in not_a_program.error.message


@pytest.mark.trial("T51")
@pytest.mark.parametrize("exit_code", [143, 0])
def test_t51_end_without_a_result_is_incomplete(stage, data, exit_code):
    outcome = stage.replay(data("T51.ndjson"), exit_code=exit_code)

    assert type(outcome.error) is errors.Incomplete
    assert outcome.error.partial == "Half of the ans"
    assert not outcome.texts


@pytest.mark.trial("T52")
def test_t52_empty_result_in_the_middle_of_work_is_incomplete(stage, data):
    outcome = stage.replay(data("T52.ndjson"))

    assert type(outcome.error) is errors.Incomplete
    assert not outcome.texts


@pytest.mark.trial("T53")
def test_t53_denied_permissions_are_told(stage, data):
    outcome = stage.replay(data("T53.ndjson"))

    assert outcome.texts == ["I was not allowed to write the file."]
    assert outcome.notices == "permissions denied: Write"


@pytest.mark.trial("T55")
def test_t55_child_starts_inside_another_claude_session(stage, data):
    outer = {name: value for name, value in json.loads(data("T55.json").read_text())["env"].items() if name.startswith("CLAUDE")}

    outcome = stage.turn(
        f"""
        heard()
        if any(name in os.environ for name in {sorted(outer)!r}):
            sys.exit("Error: Claude Code cannot be launched inside another Claude Code session.")
        say(init(), result("ok"))
        """,
        environ=outer,
    )

    assert outcome.texts == ["ok"]


@pytest.mark.trial("T56")
def test_t56_changed_id_is_the_one_told(stage, data):
    outcome = stage.replay(data("T56.ndjson"), request=stage.request(action="resume"))

    assert outcome.texts == ["I remember"]
    assert outcome.session == "66666666-7777-4888-8999-aaaaaaaaaaaa"


@pytest.mark.trial("T57")
def test_t57_id_already_in_use_is_not_retried(stage):
    outcome = stage.turn(f'heard()\nsys.exit("Error: Session ID {ID} is already in use.")')

    assert type(outcome.error) is errors.InvalidRequest
    assert not outcome.error.retryable


@pytest.mark.trial("T58")
def test_t58_refused_resume_is_a_lost_conversation(stage, data):
    resumed = stage.replay(data("T58.ndjson"), request=stage.request(action="resume"))
    started = stage.replay(data("T58.ndjson"))

    assert type(resumed.error) is errors.SessionLost
    assert type(started.error) is errors.InvalidRequest


@pytest.mark.trial("T59")
def test_t59_output_is_utf8_whatever_the_locale_says(stage, data):
    said = bytes.fromhex(json.loads(data("T59.json").read_text())["stdout_hex"])

    outcome = stage.turn(
        f"heard()\nsys.stderr.buffer.write(b'\\xff')\nsys.stderr.flush()\nsay({said!r})\n",
        environ={"PYTHONUTF8": "0", "LC_ALL": "C"},
    )

    assert outcome.texts == ["He said “yes” → ok"]
