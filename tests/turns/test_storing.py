"""What is stored when, and what a store that refuses leaves of a turn; tools of the session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from orchestrator.errors import (
    Cancelled,
    LeaseLost,
    NotFound,
    ProtocolError,
    SessionInUse,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UsageError,
)
from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.providers import Cancel, Finished, MessageDone, TextDelta
from orchestrator.session import Brief, Outcome
from orchestrator.store import Claim
from orchestrator.store.sqlite import SqliteStore, open_store
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, calls, says

from ..conftest import OWN, TOOLS, Scene, local, strong, tag, texts

HAND_OVER = f"I looked. {tag('escalate', 'too hard for me')}"


def test_the_turn_and_its_steps_can_be_read_while_it_runs(scene: Scene) -> None:
    seen: list[tuple[Outcome, int, str | None]] = []

    def look() -> None:
        other = open_store(scene.folder / "data", clock=scene.clock, read_only=True)
        (turn,) = other.log("s1").newest_first(outcomes=None)
        seen.append((turn.outcome, len(turn.steps), turn.prompt))
        other.close()

    scene.cast(local=local([look, *calls(ToolCall("c", "current_need", {"text": "x"})), look], [look, *says("done")], capabilities=TOOLS), strong=strong())

    scene.ask("hello")

    assert seen == [(Outcome.OPEN, 0, "hello"), (Outcome.OPEN, 1, "hello"), (Outcome.OPEN, 2, "hello")]


def fill(store: SqliteStore, pages: int = 0) -> None:
    connection = store._database._writing.connection  # type: ignore[union-attr]  # no disk of a test's own can be filled
    used = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {used + pages}")


@pytest.mark.trial("T75")
def test_t75_an_answer_that_cannot_be_saved_is_still_given(scene: Scene) -> None:
    scene.cast(local=local(says("ok"), [lambda: fill(scene.store), *says("x" * 200_000)], says("later")), strong=strong())
    scene.ask("first")
    before = scene.session

    report = scene.ask("second")

    assert isinstance(report.error, StoreFull)
    assert report.turn.answer == "x" * 200_000
    assert "".join(scene.seen("text")) == "x" * 200_000
    assert any("could not be saved" in notice for notice in report.notices)
    fill(scene.store, 100_000)
    scene.restart()
    assert replace(scene.session, updated_at=None) == replace(before, updated_at=None)
    assert scene.ask("third").turn.outcome is Outcome.COMPLETED
    assert [(turn.prompt, turn.outcome) for turn in scene.turns] == [
        ("first", Outcome.COMPLETED),
        ("second", Outcome.INTERRUPTED),
        ("third", Outcome.COMPLETED),
    ]


@pytest.mark.trial("T75")
def test_t75_steps_that_did_not_fit_are_stored_when_there_is_room_again(scene: Scene) -> None:
    script = [lambda: fill(scene.store), MessageDone((Text("x" * 200_000),)), lambda: fill(scene.store, 100_000), MessageDone((Text("y"),)), Finished("stop")]
    scene.cast(local=local(script), strong=strong())  # type: ignore[arg-type]  # a script

    report = scene.ask()

    assert report.error is None
    assert [len(step.text) for step in scene.turns[0].steps if isinstance(step, Text)] == [200_000, 1]


@pytest.mark.trial("T75")
def test_t75_a_hand_over_that_cannot_be_saved_goes_no_further(scene: Scene) -> None:
    agent = strong()
    scene.cast(local=local([lambda: fill(scene.store), *says("x" * 200_000 + HAND_OVER)]), strong=agent)

    report = scene.ask()

    assert isinstance(report.error, StoreFull)
    assert report.turn.answer.startswith("xxx")
    assert agent.requests == []


def test_a_store_that_is_full_from_the_start_refuses_before_anything_is_sent(scene: Scene) -> None:
    scene.cast(local=local(says("never")), strong=strong())
    fill(scene.store)

    with pytest.raises(StoreFull):
        scene.ask("x" * 90_000)

    assert scene.agents["local"].requests == []
    assert scene.turns == []


def test_a_session_in_use_by_another_process_takes_no_turn(scene: Scene) -> None:
    scene.session_wait = 2
    scene.cast(local=local(says("never")), strong=strong())
    scene.store.claim("s1", "somebody else", timedelta(hours=1))

    with pytest.raises(SessionInUse):
        scene.ask()

    assert (scene.turns, scene.agents["local"].requests) == ([], [])


def test_what_no_waiting_could_mend_is_refused_at_once(scene: Scene) -> None:
    scene.session_wait = 3600
    scene.cast(local=local(says("never")), strong=strong())
    scene.store.claim("s1", "somebody else", timedelta(hours=2))
    began = scene.clock.monotonic()

    with pytest.raises(NotFound, match="nobody"):
        scene.ask(agent="nobody")

    assert scene.clock.monotonic() == began


def test_a_lease_lost_in_the_middle_ends_the_call_and_writes_nothing_more(scene: Scene) -> None:
    def taken_over() -> None:
        scene.clock.advance(seconds=61)
        assert isinstance(scene.store.claim("s1", "somebody else", timedelta(seconds=60)), Claim)

    script = [*calls(ToolCall("c", "Read"))[:-1], taken_over, MessageDone((Text("never stored"),)), UNTIL_CANCELLED, *says("never asked for")]
    scene.cast(local=local(script, capabilities=OWN), strong=strong())

    report = scene.ask()

    assert isinstance(report.error, LeaseLost)
    assert (report.turn.outcome, report.turn.answer) == (Outcome.CANCELLED, "never stored")
    (turn,) = scene.turns
    assert (turn.outcome, turn.steps) == (Outcome.INTERRUPTED, (ToolCall("c", "Read"),))
    assert scene.session.external_sessions == ()
    assert "never asked for" not in "".join(scene.seen("text"))


def test_a_turn_that_is_cancelled_since_its_lease_is_gone_writes_nothing(scene: Scene) -> None:
    def taken_over() -> None:
        scene.clock.advance(seconds=61)
        scene.store.claim("s1", "somebody else", timedelta(seconds=60))

    scene.cast(local=local([TextDelta("so f"), taken_over, Cancelled("the lease could not be renewed")]), strong=strong())

    report = scene.ask()

    assert isinstance(report.error, LeaseLost)
    assert (report.turn.answer, report.turn.outcome) == ("so f", Outcome.CANCELLED)
    assert scene.turns[0].steps == ()


def test_an_answer_whose_lease_lapsed_meanwhile_is_still_given(scene: Scene) -> None:
    scene.cast(local=local([TextDelta("precious "), lambda: scene.clock.advance(minutes=10), *says("precious answer", streamed=False)]), strong=strong())

    report = scene.ask()

    assert isinstance(report.error, LeaseLost)
    assert (report.turn.answer, report.turn.outcome) == ("precious answer", Outcome.COMPLETED)
    assert any("could not be saved" in notice for notice in report.notices)
    scene.restart()
    assert [(turn.outcome, turn.steps) for turn in scene.turns] == [(Outcome.INTERRUPTED, ())]


@dataclass
class Refusing:
    """A store of which one call of a kind, and from there on all of that kind, is refused."""

    store: SqliteStore
    call: str
    error: StoreError
    number: int = 1

    def __getattr__(self, name: str) -> object:
        return self._refused if name == self.call else getattr(self.store, name)

    def _refused(self, *arguments: object) -> object:
        self.number -= 1
        if self.number <= 0:
            raise self.error
        return getattr(self.store, self.call)(*arguments)


def refuse(scene: Scene, call: str, error: StoreError, number: int = 1) -> None:
    scene._place = replace(scene.place, store=Refusing(scene.place.store, call, error, number))  # type: ignore[arg-type]  # a store


@pytest.mark.parametrize("call", ["append_step", "close_turn"])
@pytest.mark.parametrize("error", [StoreError("busy: another process is writing"), StoreReadOnly("cannot be written"), StoreFull("full")], ids=lambda e: e.type)
def test_an_answer_that_the_store_refuses_is_still_given(scene: Scene, call: str, error: StoreError) -> None:
    scene.cast(local=local(says("precious " + tag("need", "ship it"))), strong=strong())
    refuse(scene, call, error)

    report = scene.ask()

    assert report.error is error
    assert (report.turn.answer.strip(), report.turn.outcome) == ("precious", Outcome.COMPLETED)
    assert report.notices == (f"this turn could not be saved: {error.message}",)
    assert report.session.need is None
    assert scene.turns[0].outcome is Outcome.INTERRUPTED


def test_a_store_that_cannot_note_what_was_used_takes_nothing_from_the_turn(scene: Scene) -> None:
    scene.cast(local=local(says("fine")), strong=strong())
    scene.remember("likes tea", core=True, weight=100)
    refuse(scene, "mark_used", StoreError("busy"))

    assert scene.ask().error is None
    assert scene.turns[0].outcome is Outcome.COMPLETED


def test_where_it_cannot_be_read_what_tools_gave_nobody_vouches_for_a_fact(scene: Scene) -> None:
    scene.cast(local=local(says("noted" + tag("percept", "likes tea"))), strong=strong())
    refuse(scene, "log", StoreError("busy"), number=2)

    assert scene.ask().error is None
    assert [percept.trust for percept in scene.store.percepts(session="s1")] == ["tool_output"]


@pytest.mark.parametrize("call", ["open_turn", "log"])
def test_a_hand_over_that_the_store_keeps_from_being_taken_leaves_the_primarys_answer(scene: Scene, call: str) -> None:
    agent = strong(says("never"))
    scene.cast(local=local(says(HAND_OVER)), strong=agent)
    error = StoreFull("full")
    refuse(scene, call, error, number=2)

    report = scene.ask()

    assert report.error is error
    assert (report.turn.answer.strip(), report.turn.outcome, report.turn.index) == ("I looked.", Outcome.ESCALATED, 0)
    assert report.notices == ("'local' handed this turn over, and it cannot be gone on with, since the store failed",)
    assert agent.requests == []
    assert [turn.outcome for turn in scene.turns] == [Outcome.ESCALATED]
    assert scene.session.brief == Brief("too hard for me", "primary")


def test_the_session_is_free_again_after_every_kind_of_end(scene: Scene) -> None:
    scene.session_wait = 0
    cancel = Cancel()
    scene.cast(local=local([ProtocolError("noise")], [cancel.set, UNTIL_CANCELLED], says("ok")), strong=strong())
    ends = [scene.ask().turn.outcome, scene.ask(cancel=cancel).turn.outcome]
    with pytest.raises(UsageError, match="empty"):
        scene.ask(" \n")
    scene.restart()

    ends.append(scene.ask().turn.outcome)

    assert ends == [Outcome.FAILED, Outcome.CANCELLED, Outcome.COMPLETED]
    assert not scene.store.list(None)[0].in_use


def test_tool_steps_are_stored_and_sent_again_as_such_to_the_one_who_made_them(scene: Scene) -> None:
    primary = local(calls(ToolCall("c", "current_need", {"text": "ship"}), text="noting"), says("done"), says("ok"), capabilities=TOOLS)
    agent = strong(says("seen"))
    scene.cast(local=primary, strong=agent)
    scene.ask("first")

    scene.ask("second")
    scene.ask("third", escalate=True)

    assert scene.turns[0].steps == (Text("noting"), ToolCall("c", "current_need", {"text": "ship"}), ToolResult("c", "recorded"), Text("done"))
    assert texts(primary.requests[2]) == ["user: first", "assistant: noting|current_need()", "user: recorded", "assistant: done", "user: second"]
    assert not any(isinstance(part, ToolCall | ToolResult) for message in agent.requests[0].messages for part in message.parts)
