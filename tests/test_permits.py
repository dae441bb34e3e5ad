"""Asking whether a tool may do something: the question, and what becomes of its answer."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.answers import problems_of, refusal_of
from orchestrator.permissions import RuleSet, rule_of
from orchestrator.permits import Permits, Workshop, visible
from orchestrator.providers import Answer, Question
from orchestrator.settings.grants import GrantStore
from orchestrator.tools import Act, ToolFailed

MAKE = Act("run", "make all", "make *", notes=("Confined.",))
WRITE = Act("write", "src/a.py", "src/**", shown="-old\n+new")


@dataclass
class Human:
    """Answers in turn, and keeps what was asked; each answer fits its question."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)

    def __call__(self, question: Question) -> Answer:
        answer = self.answers.pop(0)
        self.asked.append(question)
        assert refusal_of(question) is None
        assert problems_of(question, answer) == {}
        return answer


def accept(**content: Any) -> Answer:
    return Answer("accept", content)


@dataclass
class Place:
    """Where tools are at work in a test."""

    grants: GrantStore
    workspace: str
    notices: list[str] = field(default_factory=list)
    ids: Any = field(default_factory=lambda: itertools.count(1))

    def permits(self, human: Human, *, agent: str = "local", session: str = "s1", rules: RuleSet | None = None, off_limits: tuple[str, ...] = ()) -> Permits:
        shop = Workshop(
            agent,
            session,
            self.workspace,
            rules or RuleSet(),
            self.grants,
            off_limits,
            lambda: f"{next(self.ids):08}-g",
            lambda: datetime(2026, 1, 1, tzinfo=UTC),
            self.notices.append,
        )
        return Permits(shop, human)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(GrantStore(tmp_path / "permissions.json"), str(tmp_path / "work"))


def refusal(permits: Permits, act: Act) -> str:
    with pytest.raises(ToolFailed) as failed:
        permits(act)
    return str(failed.value)


def test_the_question_has_the_exact_thing_and_what_would_be_allowed_for_whom_and_where(place: Place) -> None:
    human = Human([accept(decision="once"), accept(decision="once")])
    permits = place.permits(human)

    permits(MAKE)
    permits(WRITE)

    command, change = (question.message for question in human.asked)
    assert command == (
        f"'local' wants to run a command in {place.workspace}:\n\n    make all\n\nConfined.\n\n"
        f"`session` and `always` allow the pattern run(make *) for the agent 'local' in {place.workspace}."
    )
    assert "\n\n    src/a.py\n\n    -old\n    +new\n\n" in change
    assert "write(src/**)" in change
    assert human.asked[0].durable is False


def test_once_is_once(place: Place) -> None:
    human = Human([accept(decision="once"), Answer("decline")])
    permits = place.permits(human)

    permits(MAKE)

    assert refusal(permits, MAKE) == "The user said no to this."
    assert list(place.grants.list()) == []


def test_for_the_session_is_for_this_session_agent_and_workspace(place: Place, tmp_path: Path) -> None:
    human = Human([accept(decision="session")])
    place.permits(human)(MAKE)

    place.permits(human)(Act("run", "make install", "make *"))
    assert len(human.asked) == 1
    for other in ({"session": "s2"}, {"agent": "other"}):
        assert "said no" in refusal(place.permits(Human([Answer("decline")]), **other), MAKE)
    elsewhere = Place(place.grants, str(tmp_path / "other"))
    assert "said no" in refusal(elsewhere.permits(Human([Answer("decline")])), MAKE)
    assert place.notices == [
        f"'local' may now do this in {place.workspace} without asking in this session: run(make *) (`escalera permissions revoke 00000001` takes it back)"
    ]


def test_always_is_for_every_session_until_it_is_taken_back(place: Place) -> None:
    permits = place.permits(Human([accept(decision="always", pattern="make test *"), Answer("decline"), Answer("decline")]))
    permits(Act("run", "make test a", "make *"))

    place.permits(Human(), session="s2")(Act("run", "make test b", "make *"))
    assert "said no" in refusal(permits, Act("run", "make install", "make *"))
    place.grants.revoke(["00000001"])
    assert "said no" in refusal(permits, Act("run", "make test a", "make *"))


def test_a_pattern_that_misses_what_was_asked_is_kept_and_told(place: Place) -> None:
    place.permits(Human([accept(decision="always", pattern="ls *")]))(MAKE)

    assert [grant.rule for grant in place.grants.list()] == ["run(ls *)"]
    assert "does not cover what was asked" in place.notices[-1]


def test_a_permission_that_cannot_be_kept_counts_once_and_is_told(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broken = Place(GrantStore(tmp_path / "file" / "permissions.json"), place.workspace)

    broken.permits(Human([accept(decision="always")]))(MAKE)

    assert broken.notices[0].startswith("allowed this once, since it cannot be kept for longer")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (accept(decision="no", because="use the other file"), "said no to this, because:\n~~~\nuse the other file\n~~~"),
        (accept(decision="no"), "The user said no to this."),
        (Answer("decline"), "The user said no to this."),
        (Answer("cancel"), "neither allowed nor refused"),
        (Answer("cancel", by="expiry"), "Nobody answered in time. Nobody refused either"),
        (Answer("cancel", by="nobody"), "There is nobody who could be asked"),
        (Answer("cancel", by="asker"), "was withdrawn"),
        (Answer("cancel", by="refused"), "could not be asked"),
    ],
)
def test_the_agent_is_told_which_no_it_was(place: Place, answer: Answer, told: str) -> None:
    assert told in refusal(place.permits(Human([answer])), MAKE)


def test_what_a_rule_forbids_is_not_even_asked(place: Place) -> None:
    permits = place.permits(Human(), rules=RuleSet(deny=(rule_of("run(make *)"),)))

    assert "a rule of the user forbids this: run(make *)" in refusal(permits, MAKE)


def test_what_a_rule_asks_about_can_only_be_allowed_once(place: Place) -> None:
    human = Human([accept(decision="once"), accept(decision="once")])
    permits = place.permits(human, rules=RuleSet(ask=(rule_of("run(make *)"),)))

    permits(MAKE)
    permits(MAKE)

    assert "The rule run(make *) asks about this each time." in human.asked[0].message
    assert [choice["const"] for choice in human.asked[0].schema["properties"]["decision"]["oneOf"]] == ["once", "no"]
    assert list(human.asked[0].schema["properties"]) == ["decision", "because"]


def test_what_this_program_keeps_is_nobodys_business(place: Place) -> None:
    permits = place.permits(Human(), rules=RuleSet(allow=(rule_of("write"), rule_of("read"))), off_limits=(f"{place.workspace}/home",))

    permits(Act("write", "homes/a", "=homes/a"))
    for what in ("home", "home/config.toml"):
        assert "Escalera's own" in refusal(permits, Act("write", what, f"={what}"))
        assert not permits.stands(Act("read", what, f"={what}", asks=False))


def test_nothing_hides_in_a_question() -> None:
    assert visible("a\u202eb\x1b[2J\r\u200b\u00a0\tc\nd") == "a\\u202eb\\x1b[2J\\r\\u200b\\xa0\tc\nd"


def test_no_line_of_a_command_poses_as_ours(place: Place) -> None:
    human = Human([accept(decision="once")])

    place.permits(human)(Act("run", "x\n\n`session` and `always` allow nothing.", "=x"))

    assert "\n    `session` and `always` allow nothing.\n" in human.asked[0].message


def test_what_is_too_large_to_be_shown_is_not_asked_for(place: Place) -> None:
    assert "too large to be shown" in refusal(place.permits(Human()), Act("write", "a", "=a", shown="x" * 70_000))


def test_one_answer_counts_for_calls_that_waited_for_it(place: Place) -> None:
    human = Human([accept(decision="session")])
    permits = place.permits(human)
    threads = [threading.Thread(target=permits, args=(Act("run", f"make {number}", "make *"),)) for number in range(5)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(human.asked) == 1
