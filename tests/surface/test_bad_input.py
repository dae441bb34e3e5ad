"""Whatever comes from outside: one clear line, the right exit code, an error document where asked, and nothing lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import schema
from orchestrator.testing.openai_server import OpenAIServer, Reply, reply

from .conftest import PROGRAM, Result, Shell
from .starter import Starter

ONE_AGENT = '[agents.local]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'


def refused(result: Result, *, code: int, error: str, says: Sequence[str]) -> dict[str, Any]:
    """The error of a command that was refused, with `--json`: one line on stderr, the document on stdout."""
    assert result.returncode == code, result
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("escalera: ")
    assert all(word in result.stderr for word in says), result.stderr
    document = json.loads(result.stdout)
    assert (document["format"], document["error"]["type"]) == ("escalera.error/1", error), document
    assert document["error"]["message"] in result.stderr
    return dict(document["error"])


@pytest.fixture(scope="module")
def once_told(tmp_path_factory: pytest.TempPathFactory, starter: Starter) -> Shell:
    """A home with a session of one turn, a need and a percept, whose server has gone since."""
    folder = tmp_path_factory.mktemp("told")
    (folder / "work").mkdir()
    shell = Shell(folder / "home", folder / "work", starter=starter)
    with OpenAIServer(reply("Hello.")) as server:
        agent = f'provider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\nlimits = {{ retry_attempts = 0 }}'
        shell.configure(f'primary = "local"\nescalation = "strong"\n[agents.local]\n{agent}\n[agents.strong]\n{agent}\n')
        done = shell.each(["ask", "hello"], ["need", "set", "open a bakery"], ["memory", "learn", "The user lives in Sevilla."])
    assert [result.returncode for result in done] == [0, 0, 0]
    return shell


@pytest.fixture
def told(once_told: Shell, tmp_path: Path) -> Shell:
    """A copy of that home, in the same workspace."""
    shutil.copytree(once_told.home, tmp_path / "told")
    return once_told.elsewhere(tmp_path / "told", once_told.cwd)


# -- configuration -------------------------------------------------------------------------------

CONFIGURATIONS = (
    ("primary = \n", "ConfigError", ("line 1, column 11",)),
    (f"{ONE_AGENT}primry = 'local'\n", "ConfigError", ("agents.local.primry",)),
    (f"primry = 'local'\n{ONE_AGENT}", "ConfigError", ("primry", "did you mean `primary`")),
    (f"primary = 'nobody'\n{ONE_AGENT}", "ConfigError", ("'nobody'", "primary")),
    (f"need_expiry_hours = -1\n{ONE_AGENT}", "ConfigError", ("need_expiry_hours", "-1")),
    (f"[limits]\nturn_timeout = 'soon'\n{ONE_AGENT}", "ConfigError", ("turn_timeout", "soon")),
    ("\x00", "ConfigError", ("line 1, column 1",)),
    (b"\xff\xfep\x00", "ConfigError", ("UTF-16",)),
    (b"primary = '\xff'", "ConfigError", ("UTF-8",)),
    (None, "ConfigError", ("Is a directory",)),
)


def test_a_configuration_that_cannot_be_used_is_named_with_place_and_value(told: Shell, tmp_path: Path) -> None:
    before, files = told.stored(), []
    for number, (content, *_) in enumerate(CONFIGURATIONS):
        files.append(tmp_path / f"{number}.toml")
        if content is None:
            files[-1].mkdir()
        else:
            files[-1].write_bytes(content.encode() if isinstance(content, str) else content)

    results = told.each(*(["--config", str(file), command, "--json", "hello"] for file in files for command in ("ask", "plan")))

    for file, (_, error, says), asked, planned in zip(files, CONFIGURATIONS, results[::2], results[1::2], strict=True):
        for result in (asked, planned):
            refused(result, code=2, error=error, says=(str(file), *says))
    assert told.stored() == before


def test_a_provider_that_is_not_installed_is_named_with_the_nearest(told: Shell) -> None:
    before = told.stored()
    told.configure('[agents.local]\nprovider = "opnai"\nmodel = "m"\n')

    refused(told.run("ask", "--json", "hello"), code=2, error="PluginError", says=("'opnai'", "did you mean `openai`", "embedded"))

    assert told.stored() == before


def test_an_unknown_agent_is_named_with_those_there_are(told: Shell) -> None:
    before = told.stored()

    for result in told.each(*(["ask", "--json", *more, "--agent", "nobody", "hello"] for more in ([], ["--new"], ["--name", "other"]))):
        refused(result, code=3, error="NotFound", says=("'nobody'", "local", "strong"))

    assert told.stored() == before


def test_an_unknown_variable_of_ours_is_refused(shell: Shell) -> None:
    result = shell.run("ask", "hello", ESCALERA_HOEM="/nowhere")

    assert result.returncode == 2
    assert result.stderr == "escalera: ESCALERA_HOEM: unknown variable; did you mean `ESCALERA_HOME`?\n"


# -- the command line ----------------------------------------------------------------------------


COMMAND_LINES: Sequence[tuple[tuple[str, ...], int, tuple[str, ...]]] = (
    (("aks", "hello"), 2, ("no such command 'aks'", "'ask'")),
    (("ask", "--agnet", "local", "hello"), 2, ("no such option '--agnet'", "'--agent'")),
    (("ask", "--agent"), 2, ("--agent",)),
    (("ask", "--primary", "--escalate", "hello"), 2, ("--primary", "--escalate", "contradict")),
    (("ask", "--session", "nothing", "hello"), 3, ("'nothing'", "session list")),
    (("ask", "--session", "", "hello"), 2, ("session reference",)),
    (("ask", "--session", "x", "--new", "hello"), 2, ("--session", "--new")),
    (("ask", "--timeout", "soon", "hello"), 2, ("--timeout", "'soon'", "90s")),
    (("ask", "--timeout", "nan", "hello"), 2, ("--timeout", "'nan'")),
    (("ask", "--timeout", "soon", "--new", "hello"), 2, ("--timeout", "'soon'")),
    (("plan", "--now", "soon", "hello"), 2, ("--now", "'soon'")),
    (("plan", "--session-file", "/nowhere/at/all", "hello"), 2, ("/nowhere/at/all", "No such file")),
    (("ask", "--name", "", "hello"), 2, ("session name", "empty")),
    (("need", "set", " "), 2, ("need", "empty")),
    (("ask", ""), 2, ("the prompt is empty",)),
    (("ask", " \n\t "), 2, ("the prompt is empty",)),
    (("ask",), 2, ("the prompt is empty", "pipe it in")),
    (("plan", " "), 2, ("the prompt is empty",)),
)


def test_a_command_line_that_cannot_be_used_is_one_line_and_changes_nothing(told: Shell) -> None:
    before = told.stored()

    for (_, code, says), result in zip(COMMAND_LINES, told.each(*(arguments for arguments, *_ in COMMAND_LINES)), strict=True):
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (code, "", 1), result
        assert all(word in result.stderr for word in says), result.stderr

    assert told.stored() == before


def test_what_is_refused_begins_no_session(shell: Shell, agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9/v1")

    *refusals, listed = shell.each(
        ["ask", " "], ["ask", "--agent", "nobody", "hello"], ["ask", "--name", "", "hello"], ["need", "set", " "], ["session", "list", "--json"]
    )

    assert [result.returncode for result in refusals] == [2, 3, 2, 2]
    assert json.loads(listed.stdout)["sessions"] == []


def test_a_working_directory_that_is_gone_is_said(shell: Shell) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" plan hello'

    result = subprocess.run(["sh", "-c", script, PROGRAM], cwd=shell.cwd, env=shell.environ, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert "working directory" in result.stderr


# -- prompts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stdin", "shown"),
    [
        (("a\udcff\udcfeb", "\\u0000 stays"), b"", "a��b \\u0000 stays"),
        ((), b"a\xff\xed\xa0\x80b \x00c", "a����b �c"),
        ((), "naïve 日本語 🙂\r\n".encode(), "naïve 日本語 🙂"),
    ],
    ids=["arguments", "stdin", "any script"],
)
def test_text_that_is_no_text_is_replaced_and_said(shell: Shell, agents: Callable[[str], None], arguments: tuple[str, ...], stdin: bytes, shown: str) -> None:
    with OpenAIServer(reply("fine")) as server:
        agents(server.url)
        result = shell.raw("ask", "--json", *(("--", *arguments) if arguments else ()), stdin=stdin)

    assert result.returncode == 0, result.stderr
    assert (b"U+FFFD" in result.stderr) == ("�" in shown)
    assert server.requests[0].body["messages"][-1]["content"] == shown
    assert shown in shell.stored()["turns"][0]


def test_bytes_that_are_no_text_pass_wherever_a_text_is_taken(told: Shell) -> None:
    odd = "a\udcffb"
    cases = (
        (("need", "set", odd), 0),
        (("memory", "learn", odd), 0),
        (("session", "search", odd), 0),
        (("ask", "--session", odd, "hello"), 3),
        (("ask", "--agent", odd, "hello"), 3),
        (("--set", f"{odd}=1", "ask", "hello"), 2),
        (("--config", odd, "ask", "hello"), 2),
        (("session", "import", odd), 2),
        ((odd,), 2),
        (("ask", f"--{odd}", "hello"), 2),
    )

    for (_, code), result in zip(cases, told.each(*(arguments for arguments, _ in cases)), strict=True):
        assert result.returncode == code, result
    assert len(told.stored()["turns"]) == 1


def test_a_prompt_larger_than_the_budget_names_every_part_and_leaves_nothing(told: Shell) -> None:
    told.configure((told.home / "config" / "config.toml").read_text().replace("retry_attempts = 0", "message_budget_chars = 3000"))
    before = told.stored()

    asking = [["ask", "--escalate", "--json", *more, "x" * 5000] for more in ([], ["--new"], ["--name", "other"])]
    for result in told.each(*asking, ["plan", "--escalate", "--json", "x" * 5000]):
        error = refused(result, code=1, error="BudgetExceeded", says=("prompt 5,0", "3,000", "message_budget_chars"))
        assert set(error["parts"]) >= {"system", "orientation", "percepts", "tools", "prompt"}
        assert (error["agent"], error["limit"]) == ("strong", 3000)
        assert error["parts"]["prompt"] > 5000

    assert told.stored() == before


def test_a_first_prompt_larger_than_the_budget_begins_no_session(shell: Shell, agents: Callable[..., None]) -> None:
    agents("http://127.0.0.1:9/v1", "[limits]\nmessage_budget_chars = 3000\n")

    asked, listed = shell.each(["ask", "--json", "x" * 5000], ["session", "list", "--json"])

    refused(asked, code=1, error="BudgetExceeded", says=("prompt 5,0",))
    assert json.loads(listed.stdout)["sessions"] == []


def test_two_processes_with_one_new_name_share_the_session(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(*(reply(f"answer {number}") for number in range(3))) as server:
        agents(server.url)
        running = [shell.start("ask", "--name", "bakery", f"prompt {number}") for number in range(3)]
        for process in running:
            assert process.communicate(timeout=60)[1].count("Traceback") == 0
            assert process.returncode == 0

    assert [session["turns"] for session in shell.json("session", "list", "--json")["sessions"]] == [3]


# -- documents -----------------------------------------------------------------------------------

TURN = '{"role": "primary", "prompt": "p", "answer": "a"}'


DOCUMENTS: Sequence[tuple[bytes, tuple[str, ...]]] = (
    (b"", ("line 1",)),
    (b"{", ("line 1, column 2",)),
    (b"\xff", ("0xff", "UTF-8")),
    (b"[]", ("object",)),
    (b"{}", ("turns", "missing")),
    (b'{"format": "escalera.session/2", "turns": []}', ("escalera.session/2",)),
    (b'{"turns": 3}', ("turns", "list")),
    (b'{"turns": [{"role": "prim", "prompt": "p", "answer": "a"}]}', ("turns[0].role", "'prim'")),
    (b'{"turns": [{"role": "primary"}]}', ("turns[0].prompt",)),
    (f'{{"turns": [{TURN}, 7]}}'.encode(), ("turns[1]",)),
    (b'{"turns": [{"index": 0, "role": "primary", "prompt": "p", "answer": "a"}, {"index": 0, "role": "primary", "prompt": "p"}]}', ("turns[1].index",)),
    (b'{"turns": [], "turns": []}', ("'turns'", "twice")),
    (b'{"turns": [], "need": {"text": ""}}', ("need.text",)),
    (b'{"turns": [], "state": "waiting"}', ("state", "waiting")),
    (b'{"turns": [], "created_at": "soon"}', ("created_at", "'soon'")),
    (b'{"turns": [], "id": NaN}', ("NaN",)),
    (b'{"turns": ' + b"[" * 100_000, ("nested",)),
)


def test_a_broken_document_is_refused_with_the_place_and_nothing_is_stored(told: Shell, tmp_path: Path) -> None:
    before, files = told.stored(), []
    for number, (text, _) in enumerate(DOCUMENTS):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_bytes(text)

    imported = told.each(*(["session", "import", "--json", str(file)] for file in files))
    planned = told.each(*(["plan", "--json", "--session-file", str(file), "hello"] for file in files))

    for (_, says), *results in zip(DOCUMENTS, imported, planned, strict=True):
        for result in results:
            refused(result, code=2, error="DocumentError", says=says)
    assert told.stored() == before


def test_lone_surrogates_and_nul_in_a_document_are_replaced_on_the_way_in(shell: Shell) -> None:
    document = rb'{"turns": [{"role": "primary", "prompt": "a\ud800b", "answer": "c\u0000d"}]}'

    assert shell.raw("session", "import", "-", stdin=document).returncode == 0

    turn = shell.json("session", "export")["turns"][0]
    assert (turn["prompt"], turn["steps"][0]["text"]) == ("a�b", "c�d")


# -- the store -----------------------------------------------------------------------------------


def test_a_newer_store_is_refused_with_both_versions(told: Shell) -> None:
    with closing(sqlite3.connect(told.home / "data" / "escalera.db")) as database:
        database.execute("PRAGMA user_version = 999")
    before = told.stored()

    for result in told.each(["ask", "--json", "hello"], ["plan", "--json", "hello"]):
        refused(result, code=1, error="StoreTooNew", says=("999", f"up to {schema.VERSION}", "update"))

    assert told.stored() == before


def test_garbage_in_the_database_place_is_said_by_readers_and_set_aside_by_writers(told: Shell) -> None:
    data, garbage = told.home / "data", os.urandom(20_000)
    for side in data.glob("escalera.db-*"):
        side.unlink()
    (data / "escalera.db").write_bytes(garbage)

    for result in told.each(["plan", "--json", "hello"], ["need", "show", "--json"], ["session", "list", "--json"]):
        refused(result, code=1, error="StoreError", says=(str(data), "damaged", "ask"))
    assert (data / "escalera.db").read_bytes() == garbage

    asked = told.run("ask", "hello")
    assert asked.returncode == 1
    assert "damaged file is kept as" in asked.stderr
    assert [path.read_bytes() for path in data.glob("escalera.db.damaged-*")] == [garbage]


def test_a_folder_in_the_database_place_is_said(told: Shell) -> None:
    data = told.home / "data"
    for file in data.glob("escalera.db*"):
        file.unlink()
    (data / "escalera.db").mkdir()

    asked, planned = told.each(["ask", "--json", "hello"], ["plan", "--json", "hello"])
    refused(asked, code=1, error="StoreReadOnly", says=(str(data / "escalera.db"), "Is a directory"))
    refused(planned, code=1, error="StoreError", says=(str(data / "escalera.db"), "Is a directory"))
    assert (data / "escalera.db").is_dir()


@pytest.mark.parametrize("where", ["data", "."])
def test_a_file_in_the_folder_place_is_said(shell: Shell, where: str) -> None:
    place = shell.home / where
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine")

    result = shell.run("ask", "--json", "hello")

    assert result.returncode == 1
    assert json.loads(result.stdout)["error"]["type"] == "StoreReadOnly"
    assert str(place.resolve()) in result.stderr
    assert "Not a directory" in result.stderr
    assert shell.run("plan", "hello").returncode == 0
    assert place.read_text() == "mine"


def test_damaged_rows_are_reported_and_hide_no_other_session(told: Shell) -> None:
    damage = {"a": "state = x'ff00'", "b": "need = '{'", "c": "brief = '[1'", "d": "updated_at = 'soon'", "e": "nonce = x'00'"}
    told.each(*(["ask", "--name", name, "hello"] for name in damage))
    with closing(sqlite3.connect(told.home / "data" / "escalera.db")) as database:
        for name, change in damage.items():
            database.execute(f"UPDATE sessions SET {change} WHERE name = ?", (name,))  # noqa: S608  # ours
        first = database.execute("SELECT id FROM sessions WHERE name IS NULL").fetchone()[0]
        database.commit()

    listed, shown, *asked = told.each(
        ["session", "list", "--json"], ["session", "show", first, "--json"], *(["ask", "--session", name, "--json", "again"] for name in damage)
    )

    assert (listed.returncode, shown.returncode) == (0, 0), listed.stderr
    assert first in listed.stdout
    assert json.loads(shown.stdout)["turns"][0]["steps"][0]["text"] == "Hello."
    assert listed.stderr.count("session ") == len(damage)
    assert [result.returncode for result in asked] == [1] * len(damage)
    assert all("session " in result.stderr and "Traceback" not in result.stderr for result in asked)


def test_damaged_turns_and_steps_are_reported_and_the_session_goes_on(told: Shell) -> None:
    with closing(sqlite3.connect(told.home / "data" / "escalera.db")) as database:
        database.execute('UPDATE steps SET payload = \'{"type": "te\'')
        database.commit()

    with OpenAIServer(reply("Again.")) as server:
        told.configure((told.home / "config" / "config.toml").read_text().replace(_port(told), str(server.port)))
        shown, asked = told.run("session", "show", "--json"), told.run("ask", "--json", "and now?")

    assert (shown.returncode, asked.returncode) == (0, 0), asked.stderr
    assert "turn 0" in shown.stderr
    assert json.loads(asked.stdout)["answer"] == "Again."


def _port(shell: Shell) -> str:
    return (shell.home / "config" / "config.toml").read_text().split("127.0.0.1:")[1].split("/")[0]


def test_where_nothing_can_be_written_reading_works_and_asking_says_so(told: Shell) -> None:
    before = told.stored()
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'

    def sealed(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["unshare", "-m", "sh", "-c", script, "sh", str(told.home), PROGRAM, *arguments]
        return subprocess.run(command, cwd=told.cwd, env=told.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    if shutil.which("unshare") is None or sealed("--version").returncode != 0:
        pytest.skip("this system lets us mount nothing, and a mode of a folder does not stop root")
    asked, plan, listed, shown = sealed("ask", "--json", "hello"), sealed("plan", "hello"), sealed("session", "list"), sealed("need", "show")

    assert asked.returncode == 1
    assert json.loads(asked.stdout)["error"]["type"] == "StoreReadOnly"
    assert "ESCALERA_HOME" in asked.stderr
    assert [result.returncode for result in (plan, listed, shown)] == [0, 0, 0], plan.stderr
    assert "open a bakery" in plan.stdout
    assert told.stored() == before


@pytest.mark.parametrize("room", [0, 16_000, 80_000])
def test_a_full_disk_is_said_and_takes_nothing(told: Shell, room: int) -> None:
    before = told.stored()

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    result = told.raw("ask", "--json", stdin=b"x" * 90_000, limit=limit)

    assert result.returncode == 1, result.stderr
    assert b"Traceback" not in result.stderr
    error = json.loads(result.stdout)["error"]
    assert error["type"] in ("StoreFull", "StoreReadOnly")
    assert "full" in error["message"] or "File too large" in error["message"]
    assert told.stored() == before


def test_a_disk_too_full_for_a_first_store_is_said_and_the_next_try_makes_one(shell: Shell, agents: Callable[..., None]) -> None:
    agents("http://127.0.0.1:9/v1", "[limits]\nretry_attempts = 0\n")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))

    full = shell.raw("ask", "--json", "hello", limit=limit)
    assert full.returncode == 1, full.stderr
    assert json.loads(full.stdout)["error"]["type"] == "StoreFull"

    assert json.loads(shell.run("ask", "--json", "hello").stdout)["error"]["type"] == "Unavailable"
    assert len(shell.json("session", "show", "--json")["turns"]) == 1


def test_an_answer_that_cannot_be_stored_is_still_given(shell: Shell, agents: Callable[[str], None]) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    with OpenAIServer(reply("hello"), reply("y" * 600_000)) as server:
        agents(server.url)
        assert shell.run("ask", "first").returncode == 0
        result = shell.raw("ask", "--json", "long", limit=limit)

    document = json.loads(result.stdout)
    assert (result.returncode, document["error"]["type"], len(document["answer"] or document["partial"])) == (1, "StoreFull", 600_000), result.stderr
    first, second = shell.json("session", "show", "--json")["turns"]
    assert (first["outcome"], first["steps"][0]["text"], second["outcome"]) == ("completed", "hello", "interrupted")


# -- the server, the pipe, the streams -----------------------------------------------------------


def test_a_server_that_refuses_is_a_failed_turn_with_the_address(told: Shell) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told.configure((told.home / "config" / "config.toml").read_text().replace(_port(told), str(port)))

    plain, document = told.run("ask", "hello"), told.json("ask", "--json", "hello", code=1)

    assert (plain.returncode, plain.stdout) == (1, "")
    assert f"127.0.0.1:{port}" in plain.stderr
    assert (document["outcome"], document["error"]["type"], document["state"]) == ("failed", "Unavailable", "routing")
    assert [turn["outcome"] for turn in told.json("session", "show", "--json")["turns"]] == ["completed", "failed", "failed"]


@pytest.mark.parametrize("command", ["ask --json hello", "plan hello", "session export", "--help"])
def test_a_closed_pipe_ends_quietly(told: Shell, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        result = subprocess.run(
            [PROGRAM, *command.split()], cwd=told.cwd, env=told.environ, stdin=subprocess.DEVNULL, stdout=gone, stderr=subprocess.PIPE, check=False
        )

    assert result.returncode == 0
    assert result.stderr == b""


def test_a_reader_that_leaves_in_mid_turn_ends_the_turn_and_keeps_what_came(shell: Shell, agents: Callable[[str], None]) -> None:
    gone, whole = threading.Event(), reply("one two three four five")
    with OpenAIServer(Reply([*whole.writes[:2], gone, *whole.writes[2:4]], hold_open=True), reply("fine")) as server:
        agents(server.url)
        process = shell.start("ask", "--stream-json", "count")
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["format"] == "escalera.stream/1"
        assert json.loads(process.stdout.readline())["type"] == "text"
        process.stdout.close()
        gone.set()
        assert process.stderr.read() == ""
        assert process.wait(timeout=30) == 0
        assert shell.json("ask", "--json", "go on")["answer"] == "fine"

    assert [turn["outcome"] for turn in shell.json("session", "show", "--json")["turns"]] == ["cancelled", "completed"]


@pytest.mark.parametrize("command", ["ask hello", "plan --json hello", "--help"])
def test_output_that_cannot_be_written_is_said(told: Shell, command: str) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [PROGRAM, *command.split()], cwd=told.cwd, env=told.environ, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert result.returncode == 1
    assert b"Traceback" not in result.stderr
    if not command.startswith("ask"):  # its turn fails before there is anything to print
        assert b"the output cannot be written: No space left on device" in result.stderr


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_closed_streams_cannot_hurt(told: Shell, closed: str) -> None:
    result = subprocess.run(["sh", "-c", f'"$0" plan hello {closed}', PROGRAM], cwd=told.cwd, env=told.environ, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr) == (0, "")
