"""What of a turn becomes an artifact, and that neither agents nor the history are told anything else by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.artifacts import ArtifactTerms
from orchestrator.documents.session import session_document
from orchestrator.documents.turn import turn_document
from orchestrator.escalation import take_turn
from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.planning.case import Additions, Wish
from orchestrator.providers import Cancel, Finished, MessageDone, ToolResultSeen
from orchestrator.testing.fake_provider import calls, says

from ..conftest import OWN, TOOLS, Scene, local, strong, texts
from ..sites import Site

LOG = "".join(f"line {number}\n" for number in range(8_000))
TERMS = ArtifactTerms()
READ_LOG = """
from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ToolSchema
from orchestrator.tools import Tool
@hookimpl
def escalera_tools():
    log = "".join(f"line {number}\\n" for number in range(8_000))
    return [Tool(ToolSchema("read_log", "Read the log.", {"type": "object", "properties": {}}), lambda *_: log)]
"""


def kept(scene: Scene) -> list[tuple[str, str | None, int | None, bytes]]:
    return [(one.kind, one.name, one.turn, scene.store.artifact_body(one.id)) for one in scene.store.artifacts()]


def test_a_large_answer_is_an_artifact_and_stays_in_its_turn(scene: Scene) -> None:
    scene.cast(local=local(says(LOG), says("short")), strong=strong())

    report = scene.ask("show me")
    later = scene.ask("and?")

    assert kept(scene) == [("answer", None, 0, LOG.encode())]
    assert turn_document(report)["artifacts"] == [artifact.id for artifact in scene.store.artifacts()]
    assert report.turn.answer == LOG
    assert (turn_document(later)["artifacts"], later.notices) == ([], ())
    assert any(LOG[:1000] in text for text in texts(scene.agents["local"].requests[-1]))
    assert LOG in str(session_document(scene.session, list(scene.store.log("s1").newest_first()))["turns"][-1]["steps"][0]["text"])


def test_of_a_large_tool_result_the_agent_has_head_and_tail_and_the_artifact_all(scene: Scene, site: Site) -> None:
    site.install("acme", READ_LOG)
    scene.additions = Additions(site.hooks())
    scene.cast(local=local(calls(ToolCall("c1", "read_log", {})), says("Read."), capabilities=TOOLS), strong=strong())

    report = scene.ask("what does the log say?")

    assert kept(scene) == [("tool_result", "read_log", 0, LOG.encode())]
    (result,) = (step for step in report.turn.steps if isinstance(step, ToolResult))
    assert len(result.content) == 8000
    assert (result.content[:7], result.content[-10:]) == ("line 0\n", "line 7999\n")
    assert report.turn.steps == scene.store.log("s1").get(0).steps  # type: ignore[union-attr]


def test_what_an_agent_saw_of_its_own_tools_is_kept_with_their_names(scene: Scene) -> None:
    call = ToolCall("c1", "Read", {"file": "log"})
    events = [MessageDone((call,)), ToolResultSeen("c1", LOG, False), MessageDone((Text("Read."),)), Finished("stop")]
    scene.cast(local=local(), strong=strong(events, capabilities=OWN))

    report = scene.ask("read it", escalate=True)

    assert kept(scene) == [("tool_result", "Read", 0, LOG.encode())]
    assert ToolResult("c1", LOG) in report.turn.steps
    assert ToolResult("c1", LOG) in scene.store.log("s1").get(0).steps  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("answer", "terms", "count"),
    [
        ("x" * 65_536, TERMS, 0),
        ("x" * 65_537, TERMS, 1),
        ("\u00e9" * 32_769, TERMS, 1),
        (LOG, replace(TERMS, inline_max=None), 0),
        ("ten letters", replace(TERMS, inline_max=10), 1),
    ],
    ids=["just as large", "one byte more", "bytes, not characters", "never", "from few on"],
)
def test_what_is_larger_than_the_setting_is_one(scene: Scene, answer: str, terms: ArtifactTerms, count: int) -> None:
    scene.cast(local=local(says(answer)), strong=strong())
    take_turn(replace(scene.place, artifacts=terms), "s1", Wish("go"), cancel=Cancel(), ask=lambda _: pytest.fail("asked"), watch=lambda _: None)

    assert len(kept(scene)) == count


def test_beyond_the_quota_the_turn_has_it_all_the_same_and_the_user_is_told(scene: Scene) -> None:
    scene.cast(local=local(says(LOG)), strong=strong())
    place = replace(scene.place, artifacts=ArtifactTerms(quota=1000))

    report = take_turn(place, "s1", Wish("go"), cancel=Cancel(), ask=lambda _: pytest.fail("asked"), watch=lambda _: None)

    assert kept(scene) == []
    assert "artifacts.quota" in "".join(report.notices)
    assert scene.store.log("s1").get(0).answer == LOG  # type: ignore[union-attr]


def test_attached_files_are_kept_byte_for_byte_and_once(scene: Scene) -> None:
    scene.cast(local=local(says("a"), says("b")), strong=strong())
    files = (("notes.txt", b"\xef\xbb\xbfhello\n"), ("empty", b""))
    for _ in range(2):
        take_turn(scene.place, "s1", Wish("look", files=files), cancel=Cancel(), ask=lambda _: pytest.fail("asked"), watch=lambda _: None)

    assert kept(scene) == [("file", name, turn, content) for turn in (0, 1) for name, content in files]
    assert len({artifact.sha256 for artifact in scene.store.artifacts()}) == 2


def test_a_turn_that_is_handed_over_keeps_its_files_once(scene: Scene) -> None:
    scene.cast(local=local(calls(ToolCall("c1", "escalate", {"reason": "too hard"})), capabilities=TOOLS), strong=strong(says("Done.")))

    report = take_turn(scene.place, "s1", Wish("look", files=(("a.txt", b"x"),)), cancel=Cancel(), ask=lambda _: pytest.fail("asked"), watch=lambda _: None)

    assert [(name, turn) for _, name, turn, _ in kept(scene)] == [("a.txt", 0)]
    assert [artifact.turn for artifact in report.artifacts] == [0]


def test_when_it_has_expired_the_history_is_as_it_was(scene: Scene) -> None:
    scene.cast(local=local(says(LOG), says("again")), strong=strong())
    scene.ask("show me")
    scene.clock.advance(hours=25)
    scene.store.collect_artifacts()
    scene.restart()

    scene.ask("and?")

    assert kept(scene) == []
    assert scene.store.log("s1").get(0).answer == LOG  # type: ignore[union-attr]
    assert any(LOG[:1000] in text for text in texts(scene.agents["local"].requests[-1]))
    assert timedelta(hours=24) == TERMS.ttl
