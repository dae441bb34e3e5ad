"""Stored sessions replayed: read quickly, each with the templates of its own workspace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.receipts import from_stored, from_stored_text
from orchestrator.templates import Override, Templates
from orchestrator.tuning.knobs import SWEEPS, variant
from orchestrator.tuning.sweep import Task
from orchestrator.tuning.sweep import replay as replay_all
from orchestrator.tuning.work import Job, known_percepts, replay_stored

from .conftest import lived, past

TURNS = 30


def test_each_session_is_replayed_with_the_templates_of_its_workspace(templates: Templates, tmp_path: Path) -> None:
    scene = lived(tmp_path, templates, "", turns=TURNS)
    turns, receipts = scene.turns, scene.store.receipts("s1")
    for name in ("a", "b"):
        scene.store.import_session(replace(scene.session, id=name, workspace=f"/{name}", external_sessions=()), turns, receipts)
    longer = Override(tmp_path / "primary_activity.jinja", "project", b"What was done meanwhile, at some length:\n{{ digest }}\n")
    job = Job(tmp_path, Task(()), {"/b": (longer,)})

    off = {name: replay_stored(job, scene.store, [(name, TURNS)]).tokens_off for name in ("a", "b")}

    scene.close()
    assert off["a"] == 0
    assert off["b"] > 0


def test_what_variants_share_changes_none_of_them(templates: Templates, tmp_path: Path) -> None:
    scene = lived(tmp_path, templates, "returning_fresh_start_local_turns = 3", turns=TURNS, facts=2)
    recorded, percepts = past(scene), known_percepts(scene.store)
    scene.close()
    variants = [variant(limit, value, agent=None) for limit, values in (SWEEPS | {"message_budget_chars": ("5000", "9000")}).items() for value in values[::3]]

    together = replay_all([recorded], Task(tuple(variants)), templates, percepts)

    for place, alone in enumerate(variants):
        assert together.under(place) == replay_all([recorded], Task((alone,)), templates, percepts).under(0), alone


def test_a_stored_receipt_is_read_from_its_text_as_from_its_parts(templates: Templates, tmp_path: Path) -> None:
    scene = lived(tmp_path, templates, "", turns=12)
    stored = scene.store.receipts("s1")
    read = scene.store.receipts_by("s1", from_stored_text)
    scene.close()

    assert len(stored) >= 12
    assert read == {index: from_stored(data) for index, data in stored.items()}


@pytest.mark.parametrize("change", [{"version": 2}, {"limits": None}, {"report": {}}])
def test_a_receipt_that_is_none_of_ours_takes_a_longer_look(templates: Templates, tmp_path: Path, change: dict[str, object]) -> None:
    scene = lived(tmp_path, templates, "", turns=1)
    (data, *_) = scene.store.receipts("s1").values()
    scene.close()

    assert from_stored_text(json.dumps({**data, **change}, separators=(",", ":"))) is None
    assert from_stored_text("no json") is None


def test_other_processes_come_to_the_same_and_tell_how_far_they_are(templates: Templates, tmp_path: Path) -> None:
    scene = lived(tmp_path, templates, "", turns=12)
    turns, heard = len(scene.turns), list[int]()
    scene.store.import_session(replace(scene.session, id="s2", external_sessions=()), scene.turns, scene.store.receipts("s1"))
    job, sessions = Job(tmp_path / "data", Task((variant("message_budget_chars", "5000", agent=None),))), [("s1", turns), ("s2", turns)]

    here = replay_stored(job, scene.store, sessions)
    there = replay_stored(job, scene.store, sessions, processes=2, few=0, heard=heard.append)

    scene.close()
    assert there == here
    assert there.replayed == 2 * turns
    assert heard == [2 * turns]
