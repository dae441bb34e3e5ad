"""One session across the turns of a chat."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.cli.front import Front
from orchestrator.cli.talk.commands import COMMANDS, Commands, Leave
from orchestrator.cli.talk.conversation import Conversation
from orchestrator.errors import EscaleraError, NotFound, UsageError
from orchestrator.needs import stated
from orchestrator.percepts import Percept
from orchestrator.planning.case import Wish
from orchestrator.providers import Answer, Cancel
from orchestrator.recording import Report
from orchestrator.routing import Choice, Pin
from orchestrator.session import Role, State
from orchestrator.sessions import all_turns, forked
from orchestrator.tags import tag
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, reply, sse


def take(talk: Conversation, prompt: str = "hello", role: Role | None = None) -> Report:
    return talk.take(Wish(prompt, Choice(role)), cancel=Cancel(), ask=lambda _question: Answer("cancel"), watch=lambda _shown: None)


def test_nothing_is_stored_until_something_is_said(front: Front, talk: Conversation) -> None:
    assert talk.standing().spent is None
    with pytest.raises(NotFound):
        talk.undo(Cancel())
    assert talk.store.list(None) == []


def test_undoing_restores_the_need_the_open_question_and_what_was_learned(server: OpenAIServer, talk: Conversation) -> None:
    server.add(reply("Which colour?"), reply("Blue it is."))
    talk.change_need(stated("paint it"), Cancel())
    take(talk, "paint it", Role.ESCALATION)
    before = talk.header()
    report = take(talk, "blue")
    source = {"session": talk.session.id, "turn": report.turn.index}
    talk.store.learn(Percept("p1", "blue is nice", producer="escalation", scope="session", session=talk.session.id, source=source))

    exchange, fork = talk.undo(Cancel())

    after = talk.header()
    assert [turn.index for turn in exchange] == [1]
    assert (after.state, after.need, after.brief) == (State.WAITING, before.need, before.brief)
    assert talk.store.percepts(session=talk.session.id) == []
    assert talk.store.log(fork.id).next_index == 2
    assert talk.store.find(None, talk.session.workspace).id == talk.session.id


def test_undone_turns_count_once_and_stay_in_the_sums(server: OpenAIServer, front: Front, talk: Conversation) -> None:
    server.add(*(reply("Fine.", usage=(100, 10)) for _ in range(5)))
    take(talk)
    take(talk)
    commands = Commands(front, talk)
    for _ in range(3):
        wish = commands.understand("/retry", cancel=Cancel())
        assert wish is not None
        take(talk, wish.prompt)
    talk.undo(Cancel())

    spent = talk.standing().spent
    assert spent is not None
    assert (spent.turns, spent.input_tokens, spent.output_tokens) == (5, 500, 50)
    assert [(usage.key, usage.turns) for usage in talk.store.usage("session")] == [(talk.session.id, 5)]

    fork = forked(front, talk.store, talk.header(), all_turns(talk.store.log(talk.session.id)), {})
    assert Conversation(front, talk.store, fork).standing().spent is None
    measured = [turn.usage for turn in talk.store.log(fork.id).newest_first() if turn.usage is not None]
    assert measured[0].sent_chars


def by_tool(_talk: Conversation) -> Reply:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "escalate", "arguments": '{"reason": "too hard"}'}}
    return sse(chunk({"tool_calls": [call]}), chunk({}, finish_reason="tool_calls"))


def by_tag(talk: Conversation) -> Reply:
    return reply(f"I looked. {tag('escalate', 'too hard', talk.session.nonce)}")


@pytest.mark.parametrize("handing", [by_tool, by_tag])
def test_a_hand_over_is_no_news_and_a_turn_of_another_process_is(
    server: OpenAIServer, front: Front, talk: Conversation, capsys: pytest.CaptureFixture[str], handing: Callable[[Conversation], Reply]
) -> None:
    talk.change_need(stated("bake"), Cancel())
    server.add(handing(talk), reply("Done."), reply("Theirs."), handing(talk), reply("Done again."))

    assert take(talk, "first").escalated_from == 0
    assert "another process" not in capsys.readouterr().err
    take(Conversation(front, talk.store, talk.header()), "by another")
    capsys.readouterr()
    assert take(talk, "second").escalated_from == 3
    assert re.findall(r"another process took turn (\d)", capsys.readouterr().err) == ["2"]


def test_a_prompt_repeated_until_it_is_handed_over_is_no_news(server: OpenAIServer, talk: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    server.add(*(reply(f"Answer {number}.") for number in range(3)))
    reports = [take(talk, "why does the oven smoke so much?") for _ in range(2)]

    assert [report.escalated_from for report in reports] == [None, 1]
    talk.tell_news()
    assert "another process" not in capsys.readouterr().err


def test_fresh_waits_for_an_escalation_turn(server: OpenAIServer, talk: Conversation) -> None:
    server.add(*(reply("Fine.") for _ in range(4)))
    take(talk, role=Role.ESCALATION)
    talk.fresh = True

    modes = [take(talk, role=role).turn.mode for role in (None, Role.ESCALATION, Role.ESCALATION)]

    assert modes == [None, "fresh_start", "continuation"]


def test_primary_leaves_an_open_question(server: OpenAIServer, front: Front, talk: Conversation) -> None:
    server.add(reply("Which colour?"), reply("Never mind."))
    take(talk, role=Role.ESCALATION)
    assert talk.standing().agent == "strong"

    Commands(front, talk).understand("/primary", cancel=Cancel())

    assert (talk.standing().agent, talk.standing().pinned, talk.standing().state) == ("local", True, State.ROUTING)
    assert [reason.rule for reason in take(talk).turn.reasons] == ["pinned"]


def test_a_pinned_escalation_that_does_what_the_primary_could_gets_a_hint_once(
    server: OpenAIServer, talk: Conversation, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add(reply("long " * 200), *(reply("Fine.") for _ in range(4)))
    talk.pin = Pin(Role.ESCALATION)

    hinted = []
    for _ in range(5):
        take(talk)
        hinted.append("/primary" in capsys.readouterr().err)

    assert hinted == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("line", "prompt", "role"),
    [
        ("hello", "hello", None),
        ("//etc is a folder", "/etc is a folder", None),
        ("/escalate which?", "which?", Role.ESCALATION),
        ("/escalate\nwith\nlines", "with\nlines", Role.ESCALATION),
        ("/primary me", "me", Role.PRIMARY),
        (" /help", " /help", None),
        ("/no/such/file is broken, why?", "/no/such/file is broken, why?", None),
        ("/usr/bin/foo: error 1\nline two", "/usr/bin/foo: error 1\nline two", None),
        ("/dev is a folder", "/dev is a folder", None),
    ],
)
def test_what_a_line_means(front: Front, talk: Conversation, line: str, prompt: str, role: Role | None) -> None:
    wish = Commands(front, talk).understand(line, cancel=Cancel())
    assert wish is not None
    assert (wish.prompt, wish.choice.role) == (prompt, role)


@pytest.mark.parametrize("line", ["/undo 3", "/quit now", "/exit now", "/fresh x", "/why 5", "/usage all", "/help me\nplease"])
def test_what_a_command_does_not_take_is_refused(front: Front, talk: Conversation, line: str) -> None:
    with pytest.raises(UsageError, match=f"takes nothing more, so not '{line.split()[1]}"):
        Commands(front, talk).understand(line, cancel=Cancel())
    assert not talk.fresh


def test_a_plan_counts_what_its_message_attaches(front: Front, talk: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(front.workspace) / "notes.md").write_text("flour " * 1000)
    commands, line, counted = Commands(front, talk), "/plan see @notes.md", []
    for own in (line, ""):
        commands.understand(line, cancel=Cancel(), own=own)
        counted.append(int(re.findall(r"prompt\s+([\d,]+)", capsys.readouterr().out)[-1].replace(",", "")))
    assert counted[0] - counted[1] > 6000 > counted[1]


def test_every_command_does_something_and_says_what_is_wrong(front: Front, talk: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    commands, silent = Commands(front, talk), []
    for line in (f"/{command.name}{rest}" for command in COMMANDS for rest in ("", " nonsense")):
        said = None
        try:
            wish = commands.understand(line, cancel=Cancel())
        except Leave:
            said = "left"
        except EscaleraError as error:
            said = error.message
        else:
            said = capsys.readouterr().out if wish is None else wish.prompt
        if not said or "there is no command" in said:
            silent.append(line)
    assert silent == []
    with pytest.raises(UsageError, match="there is no command /"):
        commands.understand("/ memory", cancel=Cancel())
    with pytest.raises(UsageError, match="did you mean `/memory`"):
        commands.understand("/memroy", cancel=Cancel())


def test_an_interrupt_ends_the_wait_for_another_process(front: Front, talk: Conversation) -> None:
    talk.change_need(stated("paint it"), Cancel())
    held = Conversation(front, talk.store, talk.header())
    cancel = Cancel()
    cancel.set()
    claim = talk.store.claim(talk.session.id, "another", timedelta(minutes=1))
    with pytest.raises(EscaleraError, match="cancelled"):
        held.change_need(stated("else"), cancel)
    talk.store.release(claim)  # type: ignore[arg-type]  # it was free
