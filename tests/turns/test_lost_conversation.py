"""An agent that says, when called, that its own conversation is gone: the same turn runs again once, afresh."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.errors import SessionLost, StoreError, TimedOut, Unavailable
from orchestrator.messages import ToolCall
from orchestrator.providers import ExternalSessionStarted, MessageDone
from orchestrator.session import Outcome, State, TurnLog
from orchestrator.testing.fake_provider import FakeProvider, says

from ..conftest import OWN, Scene, local, rules, strong, system

GONE = SessionLost("no conversation found", sent=False)
TOO_LONG = SessionLost("the conversation no longer fits its model")


def _cast(scene: Scene, *scripts: object, retries: int = 3) -> FakeProvider:
    scene.config = f"[agents.strong.limits]\nretry_attempts = {retries}\n"
    agent = strong([ExternalSessionStarted("e1"), *says("A stone oven.")], *scripts, capabilities=OWN)  # type: ignore[arg-type]  # scripts
    scene.cast(local=local(says("green"), says("blue")), strong=agent)
    scene.ask("which oven?", escalate=True)
    return agent


def test_the_same_turn_runs_again_afresh_with_full_context(scene: Scene) -> None:
    agent = _cast(scene, [GONE], [ExternalSessionStarted("e2"), *says("Recovered.")])
    scene.ask("what colour?")

    report = scene.ask("still there?", escalate=True)

    assert (report.error, report.turn.answer, report.turn.index) == (None, "Recovered.", 2)
    assert (report.turn.mode, rules(report.turn.reasons)) == ("fresh_start", ["primary_worked", "external_session_lost"])
    assert scene.turns[2] == report.turn
    assert [turn.outcome for turn in scene.turns] == [Outcome.COMPLETED] * 3
    resumed, afresh = agent.requests[1], agent.requests[2]
    assert resumed.conversation is not None
    assert afresh.conversation is not None
    assert (resumed.conversation.action, afresh.conversation.action) == ("resume", "start")
    assert afresh.conversation.id not in ("e1", resumed.conversation.id)
    for told in ("A stone oven.", "green", "your own memory of it is gone"):
        assert told in system(afresh)
    assert [known.id for known in scene.session.external_sessions] == ["e2"]
    notice = "'strong' lost its own memory of this conversation; it is told what happened and starts afresh"
    assert report.notices == (notice,)
    assert scene.seen("notice") == [notice]


def test_a_reply_to_its_own_question_is_still_one(scene: Scene) -> None:
    agent = _cast(scene, says("Which flour?"), [GONE], says("Rye it is."))
    scene.ask("bread", escalate=True)
    assert scene.session.state is State.WAITING

    report = scene.ask("rye")

    assert (report.turn.mode, rules(report.turn.reasons)) == ("fresh_start", ["waiting", "external_session_lost"])
    assert scene.session.state is State.ROUTING
    assert "Which flour?" in system(agent.requests[3])


def test_it_does_not_run_again_where_something_of_the_answer_had_come(scene: Scene) -> None:
    lost = SessionLost("the conversation no longer fits its model")
    lost.emitted = True
    agent = _cast(scene, [lost], says("never"))

    assert scene.ask("still there?", escalate=True).error is lost
    assert len(agent.requests) == 2


def test_it_runs_again_once_only(scene: Scene) -> None:
    agent = _cast(scene, [GONE], [SessionLost("gone again", sent=False)], says("never"))

    report = scene.ask("still there?", escalate=True)

    assert isinstance(report.error, SessionLost)
    assert (len(agent.requests), scene.turns[1].outcome) == (3, Outcome.FAILED)


def test_a_conversation_that_was_never_found_costs_no_send(scene: Scene) -> None:
    agent = _cast(scene, [GONE], says("Recovered."), retries=0)

    assert scene.ask("still there?", escalate=True).error is None
    assert len(agent.requests) == 3


def test_a_fresh_start_takes_the_last_send_and_has_no_retries_left(scene: Scene) -> None:
    agent = _cast(scene, [TOO_LONG], [Unavailable("no")], says("never"), retries=1)

    report = scene.ask("still there?", escalate=True)

    assert isinstance(report.error, Unavailable)
    assert len(agent.requests) == 3
    assert [known.id for known in scene.session.external_sessions] == ["e1"]


def test_a_fresh_start_has_the_time_that_the_turn_has_left(scene: Scene) -> None:
    agent = _cast(scene, [lambda: scene.clock.sleep(590), GONE], says("Recovered."))

    assert scene.ask("still there?", escalate=True).error is None

    assert [request.timeouts.turn for request in agent.requests[1:]] == [600.0, 10.0]


def test_a_turn_that_used_up_its_time_does_not_start_afresh(scene: Scene) -> None:
    agent = _cast(scene, [lambda: scene.clock.sleep(600), GONE], says("never"))

    report = scene.ask("still there?", escalate=True)

    assert isinstance(report.error, TimedOut)
    assert len(agent.requests) == 2


def test_a_store_that_fails_before_the_fresh_start_is_reported(scene: Scene) -> None:
    agent = _cast(scene, [GONE], says("never"))
    store = scene.place.store

    class Failing:
        """A store that reads the history once."""

        read = 0

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def log(self, session: str) -> TurnLog:
            self.read += 1
            if self.read > 1:
                raise StoreError("failed")
            return store.log(session)

    scene._place = replace(scene.place, store=Failing())  # type: ignore[arg-type]  # a store

    report = scene.ask("still there?", escalate=True)

    assert isinstance(report.error, StoreError)
    assert (scene.turns[1].outcome, len(agent.requests)) == (Outcome.FAILED, 2)


def test_without_a_send_left_the_next_turn_starts_afresh(scene: Scene) -> None:
    agent = _cast(scene, [TOO_LONG], says("Recovered."), retries=0)

    failed = scene.ask("still there?", escalate=True)
    report = scene.ask("and now?", escalate=True)

    assert isinstance(failed.error, SessionLost)
    assert (report.turn.answer, rules(report.turn.reasons)) == ("Recovered.", ["no_primary_turns", "external_session_missing"])
    assert len(agent.requests) == 3


def test_nothing_runs_again_once_something_was_done(scene: Scene) -> None:
    agent = _cast(scene, [MessageDone((ToolCall("c", "Bash", {}),)), GONE], says("never"))

    report = scene.ask("still there?", escalate=True)

    assert isinstance(report.error, SessionLost)
    assert len(agent.requests) == 2


def test_a_primary_with_its_own_conversation_is_told_everything_anew(scene: Scene) -> None:
    own = local(says("one"), [GONE], says("two"), capabilities=OWN)
    scene.cast(local=own, strong=strong(says("strong words")))
    scene.ask("first")
    scene.ask("second", escalate=True)

    report = scene.ask("third")

    assert (report.turn.mode, report.turn.answer, rules(report.turn.reasons)) == (None, "two", ["default", "external_session_lost"])
    for told in ("one", "strong words", "your own memory of it is gone"):
        assert told in system(own.requests[2])


def test_an_agent_without_a_conversation_cannot_lose_one(scene: Scene) -> None:
    scene.cast(local=local(), strong=strong(says("one"), [GONE], says("never")))
    scene.ask("first", escalate=True)

    assert isinstance(scene.ask("second", escalate=True).error, SessionLost)
