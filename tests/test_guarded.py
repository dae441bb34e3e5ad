"""What a provider's plugin raises and quotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from orchestrator.errors import AuthFailed, PluginError
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
    return Guarded(Quoting(), known)


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
    guarded = Guarded(FakeProvider([Finished("stop")], model="big", config_dir="/conf"), KnownSecrets())

    assert (guarded.model, guarded.config_dir) == ("big", "/conf")
    assert not hasattr(guarded, "close")
    assert list(guarded.run(REQUEST, cancel=Cancel(), ask=nobody)) == [Finished("stop")]


def test_a_run_that_gives_nothing_is_its_plugins_fault() -> None:
    provider: Any = FakeProvider()
    provider.run = lambda *_, **__: None

    with pytest.raises(PluginError, match=r"agents\.a: its provider's run gave NoneType instead of events") as caught:
        list(Guarded(provider, KnownSecrets()).run(REQUEST, cancel=Cancel(), ask=nobody))
    assert "escalera plugins list" in str(caught.value.hint)
