"""What a provider's plugin raises and quotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from orchestrator.errors import AuthFailed, ContextOverflow, PluginError, ProviderError, RateLimited
from orchestrator.guarded import Guarded
from orchestrator.providers import Ask, Cancel, CheckResult, Event, Finished, Notice, Request, TextDelta
from orchestrator.settings.known import KnownSecrets
from orchestrator.testing.fake_provider import FakeProvider

from .conftest import nobody

KEY = "CANARY-1"
REQUEST = Request(agent="a", system=(), messages=())


class Quoting(FakeProvider):
    """Tells its key to everybody, in every way."""

    closed = False
    error: BaseException = AuthFailed(f"no {KEY}", hint=f"not {KEY}", partial=f"so {KEY}")

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        try:
            yield Notice(f"with {KEY}")
            yield TextDelta("text")
            raise self.error
        finally:
            self.closed = True

    def check(self) -> CheckResult:
        return CheckResult(False, "error", f"what {KEY}", f"try {KEY}")

    def preview(self, request: Request) -> Mapping[str, Any]:
        raise LookupError(KEY)


@pytest.fixture
def guarded() -> Guarded:
    known = KnownSecrets()
    known.add([KEY])
    return Guarded(Quoting(), known, agent="a")


def test_errors_notices_and_results_come_without_the_secret(guarded: Guarded) -> None:
    events = guarded.run(REQUEST, cancel=Cancel(), ask=nobody)

    assert [next(events), next(events)] == [Notice("with ***"), TextDelta("text")]
    with pytest.raises(AuthFailed) as caught:
        next(events)
    assert (caught.value.message, str(caught.value), caught.value.hint, caught.value.partial) == ("no ***", "no ***", "not ***", "so ***")
    assert guarded.check() == CheckResult(False, "error", "what ***", "try ***")
    with pytest.raises(PluginError, match=r"LookupError in test_guarded\.py") as broken:
        guarded.preview(REQUEST)
    assert KEY not in broken.value.message


def test_closing_lets_the_provider_go(guarded: Guarded) -> None:
    events = guarded.run(REQUEST, cancel=Cancel(), ask=nobody)
    next(events)

    events.close()  # type: ignore[attr-defined]  # it is a generator

    assert guarded.closed


def test_what_a_provider_has_besides_is_handed_on() -> None:
    guarded = Guarded(FakeProvider([Finished("stop")], model="big", config_dir="/conf"), KnownSecrets(), agent="a")

    assert (guarded.model, guarded.config_dir) == ("big", "/conf")
    assert not hasattr(guarded, "close")
    assert list(guarded.run(REQUEST, cancel=Cancel(), ask=nobody)) == [Finished("stop")]


def test_a_run_that_gives_nothing_is_its_plugins_fault() -> None:
    provider: Any = FakeProvider()
    provider.run = lambda *_, **__: None

    with pytest.raises(PluginError, match=r"agents\.a: its provider's run gave NoneType instead of events") as caught:
        list(Guarded(provider, KnownSecrets(), agent="a").run(REQUEST, cancel=Cancel(), ask=nobody))
    assert "escalera plugins list" in str(caught.value.hint)


@pytest.mark.parametrize("error", [AuthFailed(None), RateLimited(5, hint=5, partial=5)])  # type: ignore[arg-type]  # a plugin makes its errors as it likes
def test_an_error_whose_texts_are_none_is_still_that_error(error: ProviderError) -> None:
    provider = Quoting()
    provider.error = error

    with pytest.raises(type(error)) as caught:
        list(Guarded(provider, KnownSecrets(), agent="a").run(REQUEST, cancel=Cancel(), ask=nobody))
    assert "instead of a text" in caught.value.message


@pytest.mark.parametrize("figure", ["soon", -1, float("nan"), float("inf"), True, [1]])
def test_an_errors_figures_that_are_none_count_as_not_given(figure: Any) -> None:
    limited, overflow = RateLimited("x", retry_after=figure, agent=5), ContextOverflow("x", limit=figure, needed=figure)  # type: ignore[arg-type]  # a plugin makes its errors as it likes
    overflow.own_retries = overflow.affordable_tokens = figure
    provider = Quoting()

    for provider.error in (limited, overflow):
        with pytest.raises(type(provider.error)):
            list(Guarded(provider, KnownSecrets(), agent="a").run(REQUEST, cancel=Cancel(), ask=nobody))

    assert (limited.retry_after, limited.agent) == (None, None)
    assert (overflow.limit, overflow.needed, overflow.affordable_tokens, overflow.own_retries) == (None, None, None, 0)


class Moody(FakeProvider):
    """Fails later to say what it could say at first."""

    asked = 0

    @property
    def config_dir(self) -> str | None:
        self.asked += 1
        if self.asked > 1:
            raise LookupError(KEY)
        return "/conf"

    @config_dir.setter
    def config_dir(self, value: str | None) -> None:
        pass


def test_a_property_that_fails_late_is_its_plugins_fault() -> None:
    guarded = Guarded(Moody(), KnownSecrets(), agent="a")

    assert guarded.config_dir == "/conf"
    with pytest.raises(PluginError, match=r"agents\.a: its provider cannot tell its config_dir: LookupError in test_guarded\.py"):
        _ = guarded.config_dir


@pytest.mark.parametrize("body", [b"x", {1: "x"}, float("nan"), {1, 2}])
def test_a_preview_that_is_no_json_is_its_plugins_fault(body: object) -> None:
    provider: Any = FakeProvider()
    provider.preview = lambda *_: {"body": body}

    with pytest.raises(PluginError, match="preview gives no JSON"):
        Guarded(provider, KnownSecrets(), agent="a").preview(REQUEST)
