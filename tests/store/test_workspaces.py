"""When two spellings are one workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.session import Session
from orchestrator.workspaces import workspace_key

TRIALS = Path(__file__).parents[1] / "trials"


@pytest.mark.trial("T76")
def test_t76_letter_case_counts_where_the_platform_says_so() -> None:
    trial = json.loads((TRIALS / "T76.json").read_text())
    for one, other in trial["same"]:
        assert workspace_key(one, trial["platform"]) == workspace_key(other, trial["platform"])
    for one, other in trial["different"]:
        assert workspace_key(one, trial["platform2"]) != workspace_key(other, trial["platform2"])


@pytest.mark.parametrize(
    ("platform", "one", "other"),
    [
        ("linux", "/srv/app/", "/srv/app"),
        ("linux", "/srv//app/.", "/srv/app"),
        ("linux", "//srv/app", "/srv/app"),
        ("linux", "/", "//"),
        ("darwin", "/caf\u00e9", "/cafe\u0301"),
        ("win32", "C:\\", "c:/"),
        ("win32", "\\\\?\\C:\\Code", "c:\\code"),
        ("win32", "\\\\Server\\Share\\x", "//server/share/X/"),
        ("win32", "\\\\?\\UNC\\Server\\Share\\x", "\\\\server\\share\\x"),
        ("win32", "C:\\ÄRGER", "c:\\ärger"),
    ],
)
def test_one_workspace_in_two_spellings(platform: str, one: str, other: str) -> None:
    assert workspace_key(one, platform) == workspace_key(other, platform)


@pytest.mark.parametrize(
    ("platform", "one", "other"),
    [
        ("linux", "/caf\u00e9", "/cafe\u0301"),
        ("linux", "/a\\b", "/a/b"),
        ("linux", "/a", "/a/b"),
        ("darwin", "/Srv", "/srv"),
        ("win32", "C:\\straße", "C:\\STRASSE"),
        ("win32", "C:\\a", "D:\\a"),
    ],
)
def test_two_workspaces(platform: str, one: str, other: str) -> None:
    assert workspace_key(one, platform) != workspace_key(other, platform)


def test_the_spelling_shown_is_the_users(sqlite) -> None:
    store = sqlite()
    store.create(Session(id="s1", workspace="/srv//App/", nonce="n"))
    assert store.find(None, "/srv/App").workspace == "/srv//App/"
    assert not store.list("/srv/app")
