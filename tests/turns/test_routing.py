"""Whole turns that are handed over by a rule, or by what the primary's model says of the prompt."""

from __future__ import annotations

import pytest

from orchestrator.errors import AuthFailed
from orchestrator.history.budget import measure_request
from orchestrator.messages import Text, Usage
from orchestrator.planning.case import Additions
from orchestrator.planning.plan import through_rules
from orchestrator.providers import Cancel
from orchestrator.routing import Rules
from orchestrator.session import Outcome, Role
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, FakeProvider, says

from ..conftest import OWN, Scene, rules, system, texts

ASKED = "Why does the build of parser.py fail?"
AGAIN = "why does the build of parser.py still fail"


def repeating(scene: Scene, **agents: FakeProvider) -> None:
    scene.additions = Additions(rules=Rules(repeated_prompts=3))
    scene.cast(**agents)


def classifying(scene: Scene, **agents: FakeProvider) -> None:
    scene.additions = Additions(rules=Rules(classifier=True, classifier_timeout=7))
    scene.cast(**agents)


# -- the same thing again ------------------------------------------------------------------------


def test_a_prompt_that_asks_the_same_again_is_handed_over_without_asking_the_primary(scene: Scene) -> None:
    local, strong = FakeProvider(says("No idea.")), FakeProvider(says("A cycle."))
    repeating(scene, local=local, strong=strong)
    scene.ask(ASKED)

    report = scene.ask(AGAIN)

    first, handed, answered = scene.turns
    assert len(local.requests) == 1
    assert (first.outcome, handed.outcome, answered.outcome) == (Outcome.COMPLETED, Outcome.ESCALATED, Outcome.COMPLETED)
    assert (handed.role, handed.mode, handed.prompt, handed.steps, rules(handed.reasons)) == (Role.PRIMARY, None, AGAIN, (), ["repeated_prompt"])
    assert (answered.role, answered.prompt, answered.continues, rules(answered.routing)) == (Role.ESCALATION, None, 1, ["repeated_prompt"])
    assert report.escalated_from == 1
    assert "in turn 0, and asks it again" in system(strong.requests[0])
    assert texts(strong.requests[0])[-1] == f"user: {AGAIN}"
    assert "hands over" in scene.seen("notice")[0]
    assert scene.session.brief is None
    assert scene.session.need is not None


def test_what_was_handed_over_cost_nothing_and_that_is_known(scene: Scene) -> None:
    repeating(scene, local=FakeProvider(says("No.", usage=Usage(5, 1))), strong=FakeProvider(says("A cycle.", usage=Usage(7, 2))))
    scene.ask(ASKED)
    scene.ask(AGAIN)

    assert [(turn.usage.input_tokens, turn.usage.cost_usd) for turn in scene.turns if turn.usage] == [(5, None), (0, 0.0), (7, None)]


@pytest.mark.parametrize("choice", [{"primary": True}, {"agent": "local"}])
def test_whom_the_user_names_answers_it_again(scene: Scene, choice: dict[str, object]) -> None:
    local = FakeProvider(says("No idea."), says("Still none."))
    repeating(scene, local=local, strong=FakeProvider())
    scene.ask(ASKED)

    assert scene.ask(AGAIN, **choice).turn.agent == "local"  # type: ignore[arg-type]


def test_nobody_to_hand_over_to_is_no_reason_not_to_answer(scene: Scene) -> None:
    scene.roles = {"primary": "local"}
    repeating(scene, local=FakeProvider(says("No idea."), says("Still none.")))
    scene.ask(ASKED)

    assert rules(scene.ask(AGAIN).turn.reasons) == ["default"]


def test_a_plan_shows_the_turn_that_is_really_sent(scene: Scene) -> None:
    strong = FakeProvider(says("A cycle."))
    repeating(scene, local=FakeProvider(says("No idea.")), strong=strong)
    scene.ask(ASKED)

    def planner(session, log, wish):
        from orchestrator.planning.plan import plan_turn

        place = scene.place
        return plan_turn(
            session,
            log,
            wish,
            crew=place.crew,
            expiry=place.expiry,
            templates=place.templates,
            memory=place.store.recall,
            workspace=place.workspace,
            now=place.clock.now(),
            additions=place.additions,
        )

    log = scene.store.log("s1")
    plan = through_rules(planner(scene.session, log, scene.wish(AGAIN)), log, planner)
    scene.ask(AGAIN)

    assert (plan.index, plan.agent.name, rules(plan.route.reasons)) == (2, "strong", ["repeated_prompt"])
    assert plan.request.messages == strong.requests[0].messages
    assert plan.request.system == strong.requests[0].system
    assert "turn 1" in plan.notices[0]


def test_a_primary_that_remembers_is_told_nothing_of_what_it_was_not_asked(scene: Scene) -> None:
    local = FakeProvider(says("No idea."), says("Fine."), capabilities=OWN)
    repeating(scene, local=local, strong=FakeProvider(says("A cycle.")))
    scene.ask(ASKED)
    before = scene.session.external_sessions

    scene.ask(AGAIN)

    assert scene.session.external_sessions == before
    scene.ask("thanks")
    assert "A cycle." in system(local.requests[-1])


# -- the classifier ------------------------------------------------------------------------------


def test_the_classifier_is_off_unless_it_is_asked_for(scene: Scene) -> None:
    local = FakeProvider(says("hi"))
    scene.cast(local=local, strong=FakeProvider())
    scene.ask("x")

    assert len(local.requests) == 1


@pytest.mark.parametrize("said", ["ESCALATE: a deep design", "**Escalate** – a deep design.", "I would say: escalate, a deep design"])
def test_what_the_primary_takes_to_be_beyond_it_goes_on_at_once(scene: Scene, said: str) -> None:
    local, strong = FakeProvider(says(said, usage=Usage(40, 4))), FakeProvider(says("Done.", usage=Usage(9, 9)))
    classifying(scene, local=local, strong=strong)

    report = scene.ask("design it <escalera:need:nonce234>x</escalera:need:nonce234>")

    handed, answered = scene.turns
    assert (handed.outcome, handed.steps, rules(handed.reasons)) == (Outcome.ESCALATED, (), ["classifier"])
    assert rules(answered.routing) == ["classifier"]
    assert "a deep design" in answered.routing[0].detail
    assert (handed.usage.input_tokens, answered.usage.input_tokens) == (40, 9)  # type: ignore[union-attr]
    assert (handed.usage.sent_chars, handed.usage.aside_tokens) == (None, 40)  # type: ignore[union-attr]
    assert report.turn.role is Role.ESCALATION
    assert "a deep design" in system(strong.requests[0])
    assert scene.seen("text") == ["Done."]
    asked = local.requests[0]
    assert (asked.tools, asked.timeouts.turn, asked.max_output_tokens) == ((), 7, 256)
    assert "<escalera:need:nonce234>" not in repr(asked)
    assert "~~~" in texts(asked)[0]


def test_what_it_keeps_it_answers_in_the_same_turn_and_both_calls_count(scene: Scene) -> None:
    local = FakeProvider(says("KEEP: small talk", usage=Usage(40, 4)), says("hi", usage=Usage(10, 1)))
    classifying(scene, local=local, strong=FakeProvider())

    report = scene.ask("hello")

    assert report.turn.steps == (Text("hi"),)
    assert rules(report.turn.reasons) == rules(report.turn.routing) == ["classifier"]
    assert scene.turns[0].reasons == report.turn.reasons
    usage = report.turn.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (50, 5)
    assert (usage.sent_chars, usage.aside_tokens) == (measure_request(local.requests[1]), 40)


@pytest.mark.parametrize(
    ("script", "noticed"),
    [
        (says("what a nice day"), "neither KEEP nor ESCALATE"),
        (says("KEEP or ESCALATE"), "neither KEEP nor ESCALATE"),
        ([AuthFailed("no key")], "no key"),
        ([ValueError("broken")], "the provider broke"),
        (says("KEE", reason="length"), "the output limit"),
        ([], "broke off"),
    ],
)
def test_a_classifier_that_fails_has_no_opinion_and_says_so(scene: Scene, script: list[object], noticed: str) -> None:
    classifying(scene, local=FakeProvider(script, says("hi")), strong=FakeProvider())

    report = scene.ask("hello")

    assert (report.turn.outcome, rules(report.turn.reasons)) == (Outcome.COMPLETED, ["default"])
    assert any(noticed in notice for notice in report.notices)


def test_a_cancel_while_the_classifier_is_asked_cancels_the_turn(scene: Scene) -> None:
    cancel = Cancel()
    classifying(scene, local=FakeProvider([lambda: cancel.set("enough"), UNTIL_CANCELLED]), strong=FakeProvider())

    report = scene.ask("hello", cancel=cancel)

    assert (report.turn.outcome, scene.turns[0].outcome) == (Outcome.CANCELLED, Outcome.CANCELLED)


def test_an_agent_that_keeps_its_own_conversation_is_not_asked_beside_it(scene: Scene) -> None:
    local = FakeProvider(says("hi"), capabilities=OWN)
    classifying(scene, local=local, strong=FakeProvider())

    report = scene.ask("hello")

    assert len(local.requests) == 1
    assert any("routing.classifier asks nobody" in notice for notice in report.notices)


def test_flags_signals_and_repetition_go_before_the_classifier(scene: Scene) -> None:
    local = FakeProvider(says("KEEP"), says("hi"), says("hi"))
    scene.additions = Additions(rules=Rules(classifier=True, repeated_prompts=3))
    scene.cast(local=local, strong=FakeProvider(says("done")))
    scene.ask(ASKED)
    scene.ask(AGAIN)
    scene.ask("x", primary=True)

    assert [rules(turn.routing) for turn in scene.turns] == [["classifier"], ["repeated_prompt"], ["repeated_prompt"], ["flag"]]
