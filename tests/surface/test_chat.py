"""`escalera chat` on a terminal of 80 by 24, as a person types and sees it; some screens are kept beside, as text."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import threading
from collections.abc import Callable

import pytest

from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, json_reply, sse

from .conftest import Shell
from .played import Played

Agents = Callable[[str], None]

PLAN = """\
# A bakery

A stone oven holds **heat** well.
It is slow, though.

1. Buy `rye`.
2. Bake:

```sh
bake --slow rye
```

| flour | days |
| --- | --- |
| rye | 3 |

Which flour do you have?"""


def served(text: str) -> Reply:
    """An answer by the model that was asked for, with its tokens."""
    return sse(
        *(chunk({"content": piece}, model="m") for piece in _pieces(text)),
        chunk({}, finish_reason="stop", model="m"),
        chunk({}, model="m", usage={"prompt_tokens": 1200, "completion_tokens": 34}),
    )


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def hanging(text: str) -> Reply:
    """The beginning of an answer, and no end."""
    return Reply([*sse(*(chunk({"content": piece}, model="m") for piece in _pieces(text)), done=False).writes, threading.Event()])


@pytest.fixture
def cast(shell: Shell) -> Callable[[str], None]:
    """Configures `local` and `strong`, both with the model `m`."""

    def configure(base_url: str, more: str = "") -> None:
        tables = "".join(
            f'[agents.{name}]\nprovider = "openai"\nbase_url = "{base_url}"\nmodel = "m"\nprices = {{ input = 1.0, output = 2.0 }}\n'
            for name in ("local", "strong")
        )
        shell.configure(f'primary = "local"\nescalation = "strong"\n{more}\n{tables}')

    return configure


def begun(shell: Shell, *arguments: str, **options: int) -> Played:
    played = Played(shell, *arguments, "chat", "--name", "bakery", **options)  # type: ignore[arg-type]  # columns and rows
    played.until("/help lists")
    return played


def test_a_conversation_with_a_hand_over_a_question_and_its_reply(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("The shop is green."), served(PLAN), served("Rye it is."), served("Pinned."), served("Mine again.")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("how does the shop look?")
            chat.until("turn 0, completed")
            chat.looks_like("question")
            chat.say("/escalate which oven?")
            chat.until("turn 1, completed")
            chat.looks_like("escalated-once")
            chat.say("rye")
            chat.until("turn 2, completed")
            chat.say("/escalate")
            chat.until("all turns go to 'strong'")
            chat.say("and now?")
            chat.until("turn 3, completed")
            chat.say("/primary")
            chat.until("all turns go to 'local'")
            chat.say("thanks")
            chat.until("turn 4, completed")
            chat.looks_like("pinned")
            chat.say("/why")
            chat.until("because pinned")
            chat.type("\x04")
            assert chat.ended() == 0

    turns = shell.json("session", "show", "bakery", "--json")["turns"]
    assert [(turn["agent"], turn["mode"]) for turn in turns] == [
        ("local", None),
        ("strong", "first"),
        ("strong", "resume"),
        ("strong", "continuation"),
        ("local", None),
    ]
    assert [turn["routing"][0]["rule"] for turn in turns] == ["default", "flag", "waiting", "pinned", "pinned"]


def test_a_cancelled_turn_keeps_the_session_and_the_draft(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(hanging("It begins"), served("Done now.")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("go")
            chat.until("It begins")
            chat.type("what I wanted to say")
            chat.until("what I wanted")
            chat.looks_like("running")
            chat.type("\x03")
            chat.until("turn 0, cancelled")
            assert chat.screen.splitlines()[-2] == "> what I wanted to say"
            chat.say("")
            text = chat.until("turn 1, completed")
            assert "Done now." in text
            chat.say("/quit")
            assert chat.ended() == 0

    assert [turn["outcome"] for turn in shell.json("session", "show", "--json")["turns"]] == ["cancelled", "completed"]


def test_what_is_typed_while_a_turn_runs_is_sent_after_it(shell: Shell, cast: Agents) -> None:
    go = threading.Event()
    slow = served("First.")
    with OpenAIServer(Reply([slow.writes[0], go, *slow.writes[1:]]), served("Second.")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("one")
            chat.until("is answering")
            chat.say("two")
            chat.until("then: 1 more")
            go.set()
            chat.until("turn 1, completed")

    prompts = [turn["prompt"] for turn in shell.json("session", "show", "--json")["turns"]]
    assert prompts == ["one", "two"]


def test_what_was_typed_before_an_agents_question_is_no_reply_to_it(shell: Shell, cast: Agents) -> None:
    go = threading.Event()
    asking = served("Shall I delete everything?")
    with OpenAIServer(Reply([asking.writes[0], go, *asking.writes[1:]])) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("/escalate tidy up")
            chat.until("is answering")
            chat.say("yes")
            chat.until("then: 1 more")
            go.set()
            chat.until("it waits for")
            assert chat.screen.splitlines()[-2] == "> yes"

    assert len(shell.json("session", "show", "--json")["turns"]) == 1


def test_the_need_is_set_changed_cleared_and_restored(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(*(served(f"Answer {number}.") for number in range(4))) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("/need open a bakery")
            chat.until("open a bakery [set]")
            chat.say("/escalate where?")
            chat.until("turn 0, completed")
            chat.say("/escalate and then?")
            chat.until("turn 1, completed")
            chat.say("/need sell it again")
            chat.until("sell it again [set]")
            chat.say("/escalate how?")
            chat.until("turn 2, completed")
            chat.say("/need clear")
            chat.until("no need is set")
            chat.say("/need restore")
            chat.until("sell it again [set]", times=2)
            chat.looks_like("need")

    turns = shell.json("session", "show", "--json")["turns"]
    assert [turn["mode"] for turn in turns] == ["first", "continuation", "fresh_start"]
    assert turns[2]["reasons"][0]["rule"] == "need_changed"


def test_a_need_is_not_fulfilled_while_the_chat_that_served_it_goes_on(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(*(served(f"Answer {number}.") for number in range(3))) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("/need open a bakery")
            chat.say("/escalate where?")
            chat.until("turn 0, completed")
            chat.say("/escalate and then?")
            chat.until("turn 1, completed")
            chat.say("/need")
            chat.until("open a bakery [set]", times=2)

    assert shell.json("need", "show", "--json")["status"] == "fulfilled"


def test_five_thousand_pasted_lines_are_one_prompt(shell: Shell, cast: Agents) -> None:
    lines = "\n".join(f"line {number} of what was pasted" for number in range(5000))
    with OpenAIServer(served("Long.")) as server:
        cast(server.url, 'limits.message_budget_chars = "unlimited"')
        with begun(shell) as chat:
            chat.paste(lines)
            chat.until("line 4999")
            chat.type("\x1b\r" + "the end")  # Alt-Enter
            chat.until("the end")
            chat.looks_like("pasted")
            chat.say("")
            chat.until("turn 0, completed")
            chat.looks_like("pasted-and-sent")

    turns = shell.json("session", "show", "--json")["turns"]
    assert [turn["prompt"] for turn in turns] == [f"{lines}\nthe end"]


def test_another_size_of_the_terminal(shell: Shell, cast: Agents) -> None:
    go = threading.Event()
    with OpenAIServer(Reply([*hanging("word " * 60).writes[:-1], go, *served(" and the end.").writes])) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("speak")
            chat.until("is answering")
            chat.resize(40, 12)
            chat.until(lambda _: all(len(line) <= 40 for line in chat.screen.splitlines()) and "is answering" in chat.screen)
            go.set()
            chat.until("and the end.")
            chat.until("turn 0,")
            chat.looks_like("resized")


def test_turns_of_another_process_come_between(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("Mine."), served("Theirs."), served("Mine again.")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("one")
            chat.until("turn 0, completed")
            assert shell.run("ask", "--name", "bakery", "two").returncode == 0
            chat.until("another process took turn 1 with local: > two — Theirs.")
            chat.say("three")
            chat.until("turn 2, completed")

    assert "Theirs." in str(server.requests[-1].body)


def test_the_last_turn_is_undone_and_tried_again_by_another_agent(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("Good."), served("Bad."), served("Better.")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("one")
            chat.until("turn 0, completed")
            chat.say("two")
            chat.until("turn 1, completed")
            chat.say("/retry strong")
            chat.until("undone: turn 1")
            chat.until("turn 2, completed")
            chat.say("/undo")
            chat.until("undone: turn 2")
            chat.say("/undo")
            chat.until("undone: turn 0")
            chat.say("/undo")
            chat.until("there is no turn to undo")
            chat.say("/quit")
            assert chat.ended() == 0

    sessions = shell.json("session", "list", "--json")["sessions"]
    assert [(session["name"], session["turns"]) for session in sessions] == [("bakery", 0), (None, 1), (None, 2), (None, 2)]
    assert "Bad." not in str(server.requests[-1].body)


def test_permission_is_asked_for_in_the_middle_of_the_screen_and_the_draft_stays(shell: Shell, asks) -> None:
    asks("Bash", {"command": "touch made.txt"})
    with begun(shell) as chat:
        chat.say("/escalate go")
        chat.until("[y]es or [n]o:")
        chat.looks_like("permission")
        chat.say("y")
        chat.until("turn 0, completed")
        assert '"behavior": "allow"' in chat.scrolled
        chat.type("still here")
        chat.until("> still here")


@pytest.mark.parametrize(("typed", "code"), [("\x03", 0), (None, 130)])
def test_a_question_ends_with_the_turn_or_the_program(shell: Shell, asks, typed: str | None, code: int) -> None:
    asks("Bash", {"command": "touch made.txt"})
    with begun(shell) as chat:
        chat.say("/escalate go")
        chat.until("[y]es or [n]o:")
        if typed is None:
            chat.process.send_signal(signal.SIGTERM)
        else:
            chat.type(typed)
            chat.until("turn 0, cancelled")
            chat.say("/quit")
        assert chat.ended() == code

    assert [turn["outcome"] for turn in shell.json("session", "show", "--json")["turns"]] == ["cancelled"]


def test_what_could_not_be_sent_is_the_draft_again(shell: Shell, cast: Agents) -> None:
    with OpenAIServer() as server:
        cast(server.url, "limits.message_budget_chars = 1300")
        with begun(shell) as chat:
            chat.say("long " * 60 + "end")
            chat.until("escalera: ")
            chat.until(lambda _: "end" in chat.screen.splitlines()[-2])

    assert shell.run("session", "show").returncode == 3


def test_files_are_attached_by_name_but_not_by_what_was_pasted(shell: Shell, cast: Agents) -> None:
    """Nor by what was pasted and changed, recalled, or given back by a turn that was cancelled; what is typed beside it is."""
    (shell.cwd / "notes.md").write_text("flour is dear")
    (shell.cwd / "oven.md").write_text("it smokes")
    with OpenAIServer(served("Read."), *(served("Not read.") for _ in range(3)), hanging("It begins"), served("One.")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("what do you say to @notes.md?")
            chat.until("· attached")
            chat.until("turn 0, completed")
            chat.paste("see\n@notes.md\n")
            chat.say("")
            chat.until("turn 1, completed")
            chat.paste("see\n@notes.md\nx")
            chat.say("\x7f")
            chat.until("turn 2, completed")
            chat.type("\x1b[A")
            chat.say("")
            chat.until("turn 3, completed")
            chat.say("work")
            chat.until("It begins")
            chat.paste("see\n@notes.md\n")
            chat.say("and @oven.md")
            chat.until("then: 1 more")
            chat.type("\x03")
            chat.until("turn 4, cancelled")
            chat.say(".")
            chat.until("turn 5, completed")
            chat.until(lambda text: text.count("· not attached") == 4)
            assert chat.scrolled.count("· attached") == 2

    turns = shell.json("session", "show", "--json")["turns"]
    assert "flour is dear" in turns[0]["prompt"]
    assert [turn["prompt"] for turn in turns[1:4]] == ["see\n@notes.md\n"] * 3
    assert "it smokes" in turns[5]["prompt"]
    assert "flour" not in turns[5]["prompt"]


def test_what_was_typed_is_kept_for_the_next_time_in_a_private_file(shell: Shell, cast: Agents) -> None:
    with OpenAIServer() as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("/need first\tthing")
            chat.until("[set]")
            chat.type("a draft")
            chat.type("\x03\x03")
            assert chat.ended() == 130
        with begun(shell) as chat:
            chat.type("\x1b[A")
            chat.until("> a draft")

    assert stat.S_IMODE((shell.home / "state" / "chat_history").stat().st_mode) == 0o600


def test_settings_that_change_meanwhile_count_from_the_next_turn(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("One."), served("Two.")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("one")
            chat.until("turn 0, completed")
            config = shell.home / "config" / "config.toml"
            swapped = config.read_text().replace('primary = "local"\nescalation = "strong"', 'primary = "strong"\nescalation = "local"')
            config.write_text(swapped)
            chat.say("two")
            chat.until("turn 1, completed")

    assert [turn["agent"] for turn in shell.json("session", "show", "--json")["turns"]] == ["local", "strong"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_the_turn_kept(shell: Shell, cast: Agents, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests were started with nohup, whose wish is heeded")
    with OpenAIServer(hanging("It begins")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("go")
            chat.until("It begins")
            chat.process.send_signal(number)
            assert chat.ended() == 130

    assert [turn["outcome"] for turn in shell.json("session", "show", "--json")["turns"]] == ["cancelled"]


def test_a_terminal_that_is_closed_ends_it(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(hanging("It begins")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("go")
            chat.until("It begins")
            chat.hang_up()
            assert chat.process.wait(timeout=20) == 130

    assert [turn["outcome"] for turn in shell.json("session", "show", "--json")["turns"]] == ["cancelled"]


def test_two_interrupts_leave_a_turn_that_runs(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(hanging("It begins")) as server:
        cast(server.url)
        with begun(shell) as chat:
            chat.say("go")
            chat.until("It begins")
            chat.type("\x03\x03")
            assert chat.ended() == 130


def test_commands_agents_and_sessions_are_completed(shell: Shell, cast: Agents) -> None:
    with OpenAIServer() as server:
        cast(server.url)
        assert shell.run("need", "set", "x").returncode == 0
        with begun(shell) as chat:
            chat.type("/es")
            chat.until("MSG goes to the escalation agent")
            chat.type("\t")
            chat.until("> /escalate")
            chat.type("\x15/agent st")
            chat.until("strong  openai")
            chat.type("\t")
            chat.until("> /agent strong")
            chat.say("")
            chat.say("")
            chat.until("all turns go to 'strong'")


@pytest.mark.parametrize("arguments", [["--color", "never"], ["--plain"]])
def test_without_colours_and_without_a_screen(shell: Shell, cast: Agents, arguments: list[str]) -> None:
    with OpenAIServer(served(PLAN), served("Rye.")) as server:
        cast(server.url)
        with Played(shell, *arguments, "chat", "--name", "bakery") as chat:
            chat.until(">")
            chat.say("/escalate which oven?")
            text = chat.until("turn 0, completed")
            assert "A stone oven holds **heat** well." in text
            assert "session bakery begins with the first turn: /help lists commands, Ctrl-D leaves" in text
            chat.until(prompted)
            chat.say("rye")
            chat.until("turn 1, completed")
            chat.until(prompted)
            chat.looks_like("plain" if "--plain" in arguments else "no-colours")
            chat.type("\x04")
            assert chat.ended() == 0
    if "--plain" in arguments:
        assert b"\x1b" not in chat.got
    else:
        assert not [code for code in (b"\x1b[1m", b"\x1b[2m", b"\x1b[3", b"\x1b[7m", b"\x1b[0;1m") if code in chat.got]


def test_a_chat_without_a_screen_at_a_terminal_says_what_it_goes_on_with_and_shows_an_answer_that_grows(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(hanging("It begins")) as server:
        cast(server.url)
        with Played(shell, "chat", "--name", "bakery", environ={"TERM": "dumb"}) as chat:
            chat.until(">")
            chat.say("go")
            chat.until("It begins")
            chat.type("\x03")
            chat.until("turn 0, cancelled")
        with Played(shell, "--no-input", "chat", "--session", "bakery") as chat:
            chat.until("session bakery goes on: /help lists commands, Ctrl-D leaves")
            chat.type("\x04")
            assert chat.ended() == 0


def test_focus_is_asked_for_and_the_desktop_notified_only_where_that_is_set(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("One."), served("Two.")) as server:
        cast(server.url)
        with Played(shell, "--notify-terminal", "true", "chat") as chat:
            chat.until("/help lists")
            chat.say("one")
            chat.until("turn 0, completed")
            assert b"\x1b]9;" not in chat.got
            chat.type("\x1b[O")
            chat.say("two")
            chat.until("turn 1, completed")
            chat.type("\x04")
            chat.ended()
            assert chat.got.count(b"\x07\x1b]9;escalera: local has answered\x1b\\") == 1
            assert chat.got.count(b"\x1b[?1004l") == 1


def test_a_command_is_told_in_the_same_cases(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("One."), served("Two."), json_reply({"error": {"message": "no"}}, status=401)) as server:
        cast(server.url, '[notify]\ncommand = ["sh", "-c", "cat >> told"]')
        with Played(shell, "chat", "--name", "bakery") as chat:
            chat.until("/help lists")
            chat.say("one")
            chat.until("turn 0, completed")
            chat.type("\x1b[O")
            chat.say("two")
            chat.until("turn 1, completed")
            chat.say("three")
            chat.until("turn 2, failed")
            chat.type("\x04")
            chat.ended()
            assert b"\x1b]9;" not in chat.got

    told = [json.loads(line) for line in (shell.cwd / "told").read_text().splitlines()]
    session = shell.json("session", "show", "bakery", "--json")["id"]
    assert [(one["event"], one["session"], one["agent"]) for one in told] == [("answer", session, "local"), ("failed", session, "local")]
    assert told[0]["text"] == "Two."


def prompted(text: str) -> bool:
    """Whether the last thing is an empty prompt, with a status line below it or without."""
    return re.search(r"\n>(\nbakery .*)?$", text) is not None


PIPED = "what?\n/need open a bakery\n//etc is a folder\n/nede\n\n/escalate\nagain"


def test_piped_in_each_line_is_a_turn_and_the_last_failure_is_the_exit_code(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(*(served(f"Answer {number}.") for number in range(3))) as server:
        cast(server.url)
        result = shell.run("chat", stdin=PIPED)

    assert (result.returncode, "did you mean `/need`" in result.stderr) == (2, True)
    assert [line for line in result.stdout.splitlines() if "Answer" in line] == ["Answer 0.", "Answer 1.", "Answer 2."]
    assert "> " not in result.stdout
    turns = shell.json("session", "show", "--json")["turns"]
    assert [(turn["agent"], turn["prompt"]) for turn in turns] == [("local", "what?"), ("local", "/etc is a folder"), ("strong", "again")]


def test_piped_in_bytes_that_are_no_text_and_no_line_at_all(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("Fine.")) as server:
        cast(server.url)
        assert shell.raw("chat", stdin=b"").returncode == 0
        result = shell.raw("chat", stdin=b"caf\xe9\r\n")

    assert (result.returncode, result.stdout) == (0, b"Fine.\n")
    assert [turn["prompt"] for turn in shell.json("session", "show", "--json")["turns"]] == ["caf\ufffd"]


def test_a_failed_turn_that_was_piped_in_is_the_exit_code(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("Fine.")) as server:
        cast(server.url)
        assert shell.run("chat", stdin="one\ntwo\n/why\n").returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_piped_chat(shell: Shell, cast: Agents, number: signal.Signals) -> None:
    with OpenAIServer(hanging("It begins")) as server:
        cast(server.url)
        chat = shell.start("chat", stdin="go\nnever sent\n")
        assert server.receiving.wait(30)
        os.kill(chat.pid, number)
        chat.communicate(timeout=20)

    assert chat.returncode == 130
    assert [turn["outcome"] for turn in shell.json("session", "show", "--json")["turns"]] == ["cancelled"]


def test_the_panel_of_remembered_facts_takes_the_place_of_the_prompt_and_gives_it_back(shell: Shell, cast: Agents) -> None:
    with OpenAIServer(served("Noted.")) as server:
        cast(server.url)
        assert shell.run("memory", "learn", "the shop is\x1b[2J green").returncode == 0
        with begun(shell) as chat:
            chat.say("/memory")
            chat.until("[told]")
            chat.until("the shop is␛[2J green  [global, core]")
            chat.type("f")
            chat.until("forgotten: ")
            chat.type("\x1b[Z")
            chat.until("the shop is␛[2J green  [forgotten, ")
            chat.type("\x1b")
            chat.until(lambda _: "[archive]" not in chat.screen)
            chat.say("hello")
            chat.until("turn 0, completed")
            chat.say("/memory")
            chat.until("[told]")
            chat.process.send_signal(signal.SIGTERM)
            assert chat.ended() == 130
