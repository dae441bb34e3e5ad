"""How the suite deals with harnesses and providers that do not go along: nothing is passed that was not shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from orchestrator.errors import PluginError, RateLimited
from orchestrator.messages import Usage
from orchestrator.providers import AgentContext, Finished, ProviderKind
from orchestrator.testing import KIT_VERSION
from orchestrator.testing.conformance import CannotPlay, Conformance, Harness, Result, conformance
from orchestrator.testing.conformance.subject import harness_named, subject_of
from orchestrator.testing.fake_provider import FakeOptions, FakeProvider, Script, says


def kind_of(*scripts: Script) -> ProviderKind:
    def made(options: FakeOptions, context: AgentContext) -> FakeProvider:
        return FakeProvider(*scripts)

    return ProviderKind("scripted", FakeOptions, made)


class Silent(Harness):
    """Plays nothing."""

    kind = kind_of()


class Plain(Harness):
    """Its provider says this once, whatever is asked."""

    kind = kind_of(says("Three birds: a wren, a robin and a jay."))
    limit = 0.3

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        """It does so anyway."""


def statuses(harness: type[Harness]) -> dict[str, Result]:
    return {result.check: result for result in Conformance(harness).report().results}


def test_a_harness_that_plays_nothing_has_passed_nothing_that_matters() -> None:
    report = Conformance(Silent).report()

    assert not report.ok
    assert {result.check for result in report.results if result.status == "passed"} == {"options.strict", "preview.opens_nothing"}
    (answer,) = [result for result in report.results if result.check == "streaming.answer"]
    assert (answer.status, answer.detail) == ("not_shown", "the harness does not play `answers`")
    (pieces,) = [result for result in report.results if result.check == "streaming.pieces"]
    assert (pieces.status, pieces.detail) == ("not_shown", "since streaming.answer was not passed")


def test_every_check_is_told_with_what_it_shows() -> None:
    document = Conformance(Plain).report().document()

    assert document["kit"] == KIT_VERSION
    assert len({check["check"] for check in document["checks"]}) == len(document["checks"])
    assert all(check["shows"] and check["check"].startswith(check["capability"] + ".") for check in document["checks"])
    assert all(check["detail"] for check in document["checks"] if check["status"] == "failed")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ([KeyError("x")], "failed: KeyError: "),
        (says("Something else."), "and the message is 'Something else.'"),
        ([*says("Three birds: a wren, a robin and a jay."), Finished("stop")], "`Finished` came 2 times"),
        ([], "ended without an error and without `Finished`"),
        ([lambda: threading.Event().wait(2)], "had not ended after 0.3 s"),
    ],
)
def test_an_answer_that_is_none_is_named(script: Script, told: str) -> None:
    class Of(Plain):
        kind = kind_of(script)

    result = Conformance(Of).result("streaming.answer")

    assert result.status == "failed"
    assert told in result.detail


def test_a_harness_that_breaks_is_a_failure_and_is_stopped() -> None:
    stopped: list[Path] = []

    class Broken(Plain):
        def start(self) -> None:
            raise RuntimeError("no port is free")

        def stop(self) -> None:
            stopped.append(self.folder)

    result = Conformance(Broken).result("streaming.answer")

    assert (result.status, result.detail) == ("failed", "was not expected: RuntimeError: 'no port is free'")
    assert len(stopped) == 1
    assert not stopped[0].exists()


def test_a_case_of_pytest_fails_or_is_skipped_with_the_reason() -> None:
    class Other(Plain):
        kind = kind_of(says("Something else."))

    case: Callable[..., Any] = conformance(Other, only=("streaming.answer", "streaming.pieces"))
    (mark,) = case.pytestmark  # type: ignore[attr-defined]

    assert mark.args == ("check", ["streaming.answer", "streaming.pieces"])
    with pytest.raises(pytest.fail.Exception, match=r"streaming\.answer .*and the message is 'Something else.'"):
        case("streaming.answer")
    with pytest.raises(pytest.skip.Exception, match=r"not shown: since streaming\.answer was not passed"):
        case("streaming.pieces")


def test_a_subject_is_a_kind_a_module_or_an_installed_name() -> None:
    assert subject_of(Plain.kind).kind is Plain.kind
    assert subject_of("escalera_openrouter:openrouter").distribution == "escalera-openrouter"
    assert (subject_of("openai").module, subject_of("openai").kind.name) == ("escalera_openrouter", "openai")
    with pytest.raises(PluginError, match="there is no provider kind 'parot'"):
        subject_of("parot")
    with pytest.raises(PluginError, match="gives no kind 'parrot'"):
        subject_of("escalera_openrouter:parrot")
    with pytest.raises(PluginError, match="no installed distribution has a harness"):
        harness_named("parrot")


def test_what_cannot_be_played_says_why() -> None:
    with pytest.raises(CannotPlay, match="does not play RateLimited"):
        Silent(Path()).fails(RateLimited)


def test_a_choice_of_checks_that_names_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no check streaming\.anser"):
        conformance(Plain, only=("streaming.answer", "streaming.anser"))


def test_what_a_check_builds_on_has_to_be_shown_first() -> None:
    class Inexact(Plain):
        exact = False

    suite = Conformance(Inexact)

    assert suite.result("streaming.text").status == "not_shown"
    assert (suite.result("streaming.split").status, suite.result("streaming.split").detail) == ("not_shown", "since streaming.text was not passed")


def test_a_protocol_that_cannot_carry_some_characters_is_not_asked_for_them() -> None:
    class Lines(Plain):
        loses = "\n\r"
        given: ClassVar[list[str]] = []

        def answers(self, text: str, *, usage: Usage | None = None) -> None:
            self.given.append(text)

    Conformance(Lines).result("streaming.text")

    _, hard = Lines.given
    assert "quoted" in hard
    assert "\n" not in hard
