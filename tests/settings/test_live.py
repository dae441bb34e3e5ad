from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.crew import Crew
from orchestrator.errors import ConfigError
from orchestrator.escalation import Workplace, take_turn
from orchestrator.planning.case import Wish
from orchestrator.providers import Cancel
from orchestrator.recording import Report
from orchestrator.routing import Choice
from orchestrator.settings.live import LiveSettings
from orchestrator.settings.resolution import Sources
from orchestrator.settings.trust import TrustStore
from orchestrator.testing.fake_provider import fake_kind, says

from ..conftest import local, nobody, strong
from .conftest import Place

A = 'primary = "local"\nneed_expiry_hours = 1\n[agents.local]\nprovider = "fake"\n'
B = A.replace("= 1", "= 2") + "[limits]\nretry_attempts = 2\n"
C = A.replace("= 1", "= 3") + "[agents.local.limits]\nretry_attempts = 7\n"
STAYS = "what it said before still counts"


def live_of(place: Place, **more: Any) -> LiveSettings:
    return LiveSettings(Sources(place.environ, place.workspace, place.paths, **more))


def by_rename(path: Path, text: str) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text(text)
    os.replace(fresh, path)


@pytest.mark.trial("T94")
def test_t94_a_file_is_taken_in_when_it_is_whole_and_told_once_when_it_is_not(place: Place, scene: Any) -> None:
    steps = json.loads((Path(__file__).parents[1] / "trials" / "T94.json").read_text())["steps"]
    assert [list(step) for step in steps][-2:] == [["write", "during", "expect"], ["write", "expect"]]
    file = place.user(A)
    live = live_of(place)
    hours = lambda: live.current.value("need_expiry_hours")  # noqa: E731  # said seven times

    file.write_text(B[: len(B) // 2] + "[")
    (notice,) = live.refresh()
    assert f"{file}, line" in notice
    assert notice.endswith(STAYS)
    assert [live.refresh() for _ in range(3)] == [()] * 3
    assert hours() == 1

    by_rename(file, B)
    assert live.refresh() == ()
    assert hours() == 2

    file.write_text("need_expiry_hours = 5\nneed_expiry_hours = 6\n")
    (notice,) = live.refresh()
    assert f"{file}, line 2" in notice
    assert (live.refresh(), hours()) == ((), 2)

    file.unlink()
    assert live.refresh() == (f"{file} is gone; {STAYS}",)
    assert (live.refresh(), hours()) == ((), 2)

    def meanwhile() -> None:
        file.write_text(C)
        thread = threading.Thread(target=live.refresh)
        thread.start()
        thread.join()

    provider = local([meanwhile, *says("one")], says("two"))
    scene.cast(local=provider, strong=strong())
    limits = []

    def turn(prompt: str) -> Report:
        crew = Crew(live.current, {"fake": fake_kind({"local": provider})}, environ={}, workspace=scene.workspace)
        workplace: Workplace = replace(scene.place, crew=crew)
        report = take_turn(workplace, "s1", Wish(prompt, Choice()), cancel=Cancel(), ask=nobody, watch=lambda shown: None)
        limits.append(crew.agent("local").limits.retry_attempts)
        return report

    assert turn("first").turn.outcome == "completed"
    assert (limits, hours()) == ([2], 3)
    turn("second")
    assert limits == [2, 7]

    file.write_text(C + "message_budget_chars = 20\n")
    assert live.refresh() == ()
    with pytest.raises(Exception, match="20") as caught:
        turn("a third one that is too long")
    assert type(caught.value).__name__ == "BudgetExceeded"
    assert len(provider.requests) == 2


def test_every_broken_version_is_told_once(place: Place) -> None:
    file = place.user(A)
    live = live_of(place)

    for text in ("a = ", "a = # again", "\xff"):
        file.write_bytes(text.encode("latin-1"))
        assert len(live.refresh()) == 1
        assert live.refresh() == ()
    file.write_text(A)
    assert live.refresh() == ()


def test_a_file_that_parses_but_cannot_be_used_keeps_everything_and_says_what_is_wrong(place: Place) -> None:
    file = place.user(A)
    live = live_of(place)

    file.write_text(A.replace("need_expiry", "need_expire") + "[limits]\nidle_timeout = 3")
    (notice,) = live.refresh()

    assert "did you mean `need_expiry_hours`" in notice
    assert "limits.idle_timeout: 3 is not usable" in notice
    assert notice.endswith("the settings from before stay")
    assert live.refresh() == ()
    assert live.current.value("need_expiry_hours") == 1


def test_one_broken_file_does_not_hold_up_the_other(place: Place) -> None:
    user, project = place.user(A), place.project("waiting_expiry_hours = 4")
    live = live_of(place)

    user.write_text("a = ")
    project.write_text("waiting_expiry_hours = 5")

    assert len(live.refresh()) == 1
    assert (live.current.value("need_expiry_hours"), live.current.value("waiting_expiry_hours")) == (1, 5)


def test_a_file_that_comes_later_is_found_and_one_of_the_same_size_and_time_is_seen(place: Place) -> None:
    live = live_of(place)
    assert live.current.zero_config

    file = place.user(A)
    assert live.refresh() == ()
    assert live.current.primary == "local"

    times = file.stat()
    file.write_text(A.replace("hours = 1", "hours = 9"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    live.refresh()
    assert live.current.value("need_expiry_hours") == 9


def test_a_changed_project_file_asks_again_and_acceptance_is_noticed(place: Place) -> None:
    place.user(A)
    project = place.project("fallback = true")
    trust = TrustStore(place.paths.trust_file)
    trust.trust(project, project.read_bytes())
    live = live_of(place)
    assert live.current.value("fallback") is True

    project.write_text("fallback = true\n[agents.local]\nbin = './run-me'")
    (notice,) = live.refresh()
    assert "agents.local.bin, fallback" in notice
    assert (live.current.value("fallback"), live.current.agent("local").options) == (False, {})

    trust.trust(project, project.read_bytes())
    live.refresh()
    assert (live.current.value("fallback"), live.current.agent("local").options) == (True, {"bin": f"{place.workspace}/run-me"})

    trust.revoke(project)
    live.refresh()
    assert live.current.value("fallback") is False


def test_a_project_file_that_is_gone_gives_no_room_to_one_further_up(place: Place) -> None:
    (place.workspace.parent / "escalera.toml").write_text("need_expiry_hours = 7")
    project = place.project("need_expiry_hours = 8")
    live = live_of(place)

    project.unlink()

    assert live.refresh() == (f"{project} is gone; {STAYS}",)
    assert live.current.value("need_expiry_hours") == 8


def test_what_counts_from_the_next_start_is_said_and_not_set_while_running(place: Place) -> None:
    file = place.user(A)
    live = live_of(place)

    file.write_text('plugins.blocked = ["x"]\n' + A)

    assert live.refresh() == ("plugins.blocked has changed, which counts from the next start on",)
    with pytest.raises(ConfigError, match="counts from the next start on"):
        live.put("plugins.strict", True)


def test_a_runtime_value_goes_over_everything_and_is_taken_back(place: Place) -> None:
    file = place.user(A)
    live = live_of(place, flags={"need_expiry_hours": "4"})
    before = live.current

    put = live.put("need_expiry_hours", 5)

    assert (put.value, put.source) == (5, "runtime")
    assert put.shadowed == (("flag", 4), (f"file:{file}", 1), ("default", 24))
    assert (live.current.value("need_expiry_hours"), before.value("need_expiry_hours")) == (5, 4)
    assert live.put("agents.local.limits.idle_timeout", "3s").source == "runtime"
    assert live.put("agents.local.model", "m").value == "m"
    assert live.put("agents.local.headers.x-one", "1").value == "***"
    file.write_text(B)
    assert live.refresh() == ()
    assert (live.current.value("need_expiry_hours"), live.current.limits("local").idle_timeout) == (5, 3.0)

    taken = live.remove("need_expiry_hours")

    assert (taken.value, taken.source) == (4, "flag")
    assert live.remove("need_expiry_hours") == taken


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("need_expiry", 5, "did you mean `need_expiry_hours`"),
        ("need_expiry_hours", -5, "too small"),
        ("limits.idle_timeout", 5, "a duration with its unit"),
        ("limits", {"idle_timeout": "5s"}, "no setting 'limits'"),
        ("primary", "nobody", "no agent 'nobody' is configured"),
        ("questions.ttl", "2h", "is longer than"),
        ("agents.locl.model", "m", "did you mean `local`"),
        ("agents.local.limits.idle_timout", "1s", "did you mean `agents.local.limits.idle_timeout`"),
        ("agents.local.api_key", {"evn": "X"}, "is not usable as a secret"),
        ("need_expiry_hours", None, "None is not usable"),
    ],
)
def test_a_runtime_value_is_checked_as_any_other_and_leaves_everything_as_it_was(place: Place, path: str, value: object, said: str) -> None:
    place.user(A)
    live = live_of(place)
    before = live.current

    with pytest.raises(ConfigError, match=said):
        live.put(path, value)

    assert live.current is before
