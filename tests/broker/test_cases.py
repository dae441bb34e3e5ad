"""The cases of the lifetime convention, one test each, under a clock that is set by hand. `desk` counts seconds from the question's creation.

What is about HTTP, MCP, artifacts, tokens and servers stands with those.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.asking import Asking
from orchestrator.broker import Waiting
from orchestrator.clock import parse_time
from orchestrator.continuing import due_questions
from orchestrator.documents.question import question_document, question_object
from orchestrator.errors import AnswerInvalid, NotFound, QuestionClosed, StoreError
from orchestrator.messages import well_formed
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.questions import QuestionState, StoredQuestion
from orchestrator.store import schema

from .conftest import COLOUR, RED, START, YES, Desk, exp, how, lt

# -- A. formula, ceiling, explicit deadlines -----------------------------------------------------


def test_a1_a_question_that_nobody_read_counts_as_read_when_it_was_made(desk: Desk) -> None:
    stored = desk.open()

    assert (stored.state, exp(stored), lt(stored)) == (QuestionState.PENDING, 120, 0)
    assert question_object(stored, START)["ttlRemainingMs"] == 120_000


def test_a2_a_read_renews(desk: Desk) -> None:
    desk.open()

    stored = desk.read_at(60)

    assert (lt(stored), exp(stored), question_object(stored, desk.clock.now())["ttlRemainingMs"]) == (60, 180, 120_000)


def test_a3_each_read_renews(desk: Desk) -> None:
    desk.open()
    desk.read_at(60, 150, 240)

    stored = desk.peek_at(359)

    assert (stored.is_pending, exp(stored)) == (True, 360)


def test_a4_unread_it_expires(desk: Desk) -> None:
    desk.open()

    stored = desk.peek_at(121)

    assert how(stored) == ("expired", "cancel", "expiry")
    assert question_object(stored, desk.clock.now())["ttlRemainingMs"] == 0


def test_a5_a7_no_read_passes_the_ceiling_or_revives(desk: Desk) -> None:
    desk.open()
    at_ceiling = desk.read_at(*range(100, 1701, 100))
    assert (exp(at_ceiling), question_object(at_ceiling, desk.clock.now())["ttlRemainingMs"]) == (1800, 100_000)

    assert (exp(last := desk.read_at(1790)), lt(last)) == (1800, 1790)
    dead = desk.read_at(1800)

    assert (how(dead), lt(dead)) == (("expired", "cancel", "expiry"), 1790)


def test_a10_an_explicit_deadline_may_lie_beyond_the_ceiling(desk: Desk) -> None:
    desk.open(explicit=7200)
    assert exp(desk.read_at(1000)) == 7200

    assert desk.peek_at(1801).is_pending


def test_a11_d3_an_explicit_deadline_does_not_move(desk: Desk) -> None:
    desk.open(explicit=45)
    stored = desk.read_at(30)
    assert (exp(stored), lt(stored)) == (45, 30)

    assert desk.peek_at(45).state is QuestionState.EXPIRED


def test_a12_an_explicit_deadline_in_the_past_has_expired(desk: Desk) -> None:
    stored = desk.open(explicit=-5)

    assert how(desk.wait(stored).until_it_ends()) == ("expired", "cancel", "expiry")


def test_a14_d2_to_the_millisecond(desk: Desk) -> None:
    desk.open()
    desk.open()

    assert exp(desk.read_at(119.999)) == 239.999
    assert desk.read_at(120, of="q2").state is QuestionState.EXPIRED


def test_a15_two_reads_at_one_moment_are_one(desk: Desk) -> None:
    desk.open()

    first, second = desk.read_at(60), desk.read_at(60)

    assert first == second


def test_a16_a_question_lives_by_the_settings_of_its_creation(desk: Desk) -> None:
    desk.open()
    desk.clock.to(50)
    desk.shorter(ttl=300)
    desk.open()

    assert (exp(desk.read_at(60)), exp(desk.read_at(60, of="q2"))) == (180, 360)


def test_a17_who_asks_without_a_deadline_of_its_own_is_renewable(desk: Desk) -> None:
    assert not desk.open().life.explicit


def test_a18_a_question_with_the_askers_own_time_goes_with_its_asker(desk: Desk) -> None:
    stored = desk.open(explicit=45)
    cancel = Cancel()
    cancel.set()

    assert stored.life.explicit
    assert how(desk.wait(stored, cancel).until_it_ends()) == ("answered", "cancel", "asker")
    assert desk.broker.listed() == []


# -- B. what touches and what does not -----------------------------------------------------------


def test_b1_a_list_does_not_touch(desk: Desk) -> None:
    desk.open()
    desk.clock.to(60)

    (stored,) = desk.broker.listed()

    assert (lt(stored), exp(stored), question_object(stored, desk.clock.now())["ttlRemainingMs"]) == (0, 120, 60_000)


def test_b3_no_list_touches_however_it_is_filtered(desk: Desk) -> None:
    desk.open()
    desk.clock.to(60)
    for session in (None, "s1", "other"):
        for pending in (True, False):
            desk.broker.listed(session=session, pending=pending)

    assert lt(desk.broker.peek("q1")) == 0


def test_b4_the_waiter_renews_nothing(desk: Desk) -> None:
    ended = desk.wait(desk.open()).until_it_ends()

    assert (how(ended), 120 <= desk.clock.seconds < 120.5) == (("expired", "cancel", "expiry"), True)


@pytest.mark.parametrize("content", [{"colour": 3}, {"other": "x"}, {}], ids=["b5 a wrong type", "b5 another field", "b6 nothing"])
def test_b5_b6_an_answer_that_does_not_fit_changes_nothing(desk: Desk, content: dict[str, object]) -> None:
    before = desk.form()
    desk.clock.to(100)

    with pytest.raises(AnswerInvalid):
        desk.broker.answer("q1", Answer("accept", content))

    assert desk.broker.peek("q1") == before


@pytest.mark.parametrize("answer", [RED, Answer("decline"), Answer("cancel")], ids=["b7 answered", "b8 declined", "b8 cancelled"])
def test_b7_b8_reading_a_closed_question_changes_nothing(desk: Desk, answer: Answer) -> None:
    desk.form()
    desk.clock.to(30)
    ended = desk.broker.answer("q1", answer)

    assert desk.read_at(60) == ended
    assert (ended.given is not None and ended.given.answer, lt(ended), exp(ended)) == (answer, 0, 120)


def test_b10_an_expired_question_stays_so(desk: Desk) -> None:
    desk.open()

    stored = desk.read_at(*range(121, 131))

    assert (stored.state, desk.broker.listed()) == (QuestionState.EXPIRED, [])


def test_b11_looking_without_reading_does_not_touch(desk: Desk) -> None:
    desk.open()

    assert exp(desk.peek_at(60)) == 120


def test_b13_asking_for_an_unknown_one_touches_nothing(desk: Desk) -> None:
    desk.open()
    desk.clock.to(60)

    with pytest.raises(NotFound):
        desk.broker.read("unknown")

    assert lt(desk.broker.peek("q1")) == 0


def test_b14_a_read_from_another_process_is_the_same(desk: Desk) -> None:
    desk.open()
    desk.clock.to(60)

    assert exp(desk.another().read("q1")) == 180
    assert exp(desk.broker.peek("q1")) == 180


@pytest.mark.parametrize("answer", [RED, Answer("decline"), Answer("cancel")])
def test_b17_answering_is_no_touch(desk: Desk, answer: Answer) -> None:
    desk.form()
    desk.clock.to(60)

    ended = desk.broker.answer("q1", answer)

    assert (ended.is_pending, lt(ended), exp(ended)) == (False, 0, 120)


# -- C. representation ---------------------------------------------------------------------------


def test_c1_item_and_list_entry_say_the_same(desk: Desk) -> None:
    desk.open()
    now = desk.clock.now()
    (entry,) = desk.broker.listed()

    assert question_document(desk.broker.peek("q1"), now) == {"format": "escalera.question/1", **question_object(entry, now)}


def test_c2_the_deadline_is_said_to_the_millisecond(desk: Desk) -> None:
    desk.clock.step(microseconds=123_456)
    stored = desk.open()

    said = question_object(desk.broker.peek("q1"), desk.clock.now())["expiresAt"]

    assert said is not None
    assert parse_time(said) == stored.life.expires_at == START + timedelta(seconds=120, milliseconds=123)


def test_c6_a_read_says_what_it_made(desk: Desk) -> None:
    desk.open()

    said = question_object(desk.read_at(60), desk.clock.now())

    assert [parse_time(str(said[key])) for key in ("lastTouched", "expiresAt")] == [START + timedelta(seconds=60), START + timedelta(seconds=180)]  # type: ignore[literal-required]


def test_c7_a_touch_leaves_the_rest_as_it_was(desk: Desk) -> None:
    before = desk.open()

    after = desk.read_at(60)

    assert replace(after, life=before.life) == before
    assert after.life.created == before.life.created


# -- E. answering and expiry ---------------------------------------------------------------------


def test_e1_too_late_is_refused_also_where_nothing_was_swept(desk: Desk) -> None:
    desk.open()
    desk.clock.to(121)

    with pytest.raises(QuestionClosed, match="expired"):
        desk.broker.answer("q1", YES)

    assert how(desk.broker.peek("q1")) == ("expired", "cancel", "expiry")


def test_e2_the_first_answer_stands(desk: Desk) -> None:
    desk.open()
    desk.clock.to(60)
    desk.broker.answer("q1", YES)
    desk.clock.to(61)

    with pytest.raises(QuestionClosed, match="answered already"):
        desk.broker.answer("q1", Answer("decline"))

    assert how(desk.broker.peek("q1")) == ("answered", "accept", "human")


def test_e4_decline_and_cancel_are_two_things(desk: Desk) -> None:
    desk.open()
    desk.open()
    desk.broker.answer("q1", Answer("decline"))
    desk.broker.answer("q2", Answer("cancel"))
    desk.restart()

    assert how(desk.broker.peek("q1")) == ("answered", "decline", "human")
    assert how(desk.broker.peek("q2")) == ("answered", "cancel", "human")


def test_e5_an_address_is_accepted_without_content(desk: Desk) -> None:
    desk.open(mode="url", url="https://example.org/")

    assert how(desk.broker.answer("q1", YES)) == ("answered", "accept", "human")


def test_e7_an_unknown_one_is_another_error_than_a_closed_one(desk: Desk) -> None:
    with pytest.raises(NotFound):
        desk.broker.answer("unknown", YES)


def test_e9_who_reads_late_may_answer_later(desk: Desk) -> None:
    desk.open()
    desk.read_at(100)
    desk.clock.to(200)

    assert how(desk.broker.answer("q1", YES)) == ("answered", "accept", "human")


# -- F. persistence, clock -----------------------------------------------------------------------


def test_f3_a_touch_after_the_expiry_hits_nothing(desk: Desk) -> None:
    desk.open()
    desk.clock.to(119)
    desk.store.expire_question("q1", START + timedelta(seconds=120))

    assert how(desk.read_at(119)) == ("expired", "cancel", "expiry")


def test_f6_f7_a_question_survives_its_process(desk: Desk) -> None:
    desk.open()
    desk.read_at(60)
    desk.clock.to(70)
    desk.restart()

    stored = desk.peek_at(75)
    assert (lt(stored), exp(stored), stored.life.explicit, stored.life.created) == (60, 180, False, START)
    assert exp(desk.read_at(*range(100, 1701, 100))) == 1800
    waiting = desk.another().wait(stored, stored.question, Cancel())
    assert waiting.ended() is None
    desk.broker.answer("q1", YES)
    desk.clock.sleep(0.25)
    ended = waiting.ended()
    assert ended is not None
    assert how(ended) == ("answered", "accept", "human")


def test_f9_a_touch_that_cannot_be_stored_is_not_reported(desk: Desk) -> None:
    desk.open()
    desk.clock.to(60)
    with closing(sqlite3.connect(desk.folder / "escalera.db", isolation_level=None)) as other:
        other.execute("CREATE TRIGGER full BEFORE UPDATE ON questions BEGIN SELECT raise(ABORT, 'no space'); END")

    stored = desk.broker.read("q1")

    assert (lt(stored), exp(stored)) == (0, 120)


def test_f11_a_wall_clock_that_steps_forward_expires_it_for_everyone(desk: Desk) -> None:
    waiting = desk.wait(desk.open())
    assert waiting.ended() is None
    desk.clock.step(hours=1)
    desk.clock.sleep(0.25)

    ended = waiting.ended()

    assert ended is not None
    assert how(ended) == how(desk.broker.peek("q1")) == ("expired", "cancel", "expiry")


def test_f11_a_wall_clock_that_steps_back_lets_nobody_wait_for_longer(desk: Desk) -> None:
    waiting = desk.wait(desk.open())
    desk.clock.step(hours=-1)

    ended = waiting.until_it_ends()

    assert (how(ended), 120 <= desk.clock.seconds < 120.5) == (("expired", "cancel", "expiry"), True)
    assert desk.another().peek("q1").state is QuestionState.EXPIRED


def test_a_waiter_goes_by_the_reads_of_others(desk: Desk) -> None:
    waiting, other = desk.wait(desk.open()), desk.another()
    desk.clock.on_sleep = lambda: other.read("q1") if 60 <= desk.clock.seconds < 60.3 else None

    waiting.until_it_ends()

    assert 180 <= desk.clock.seconds < 181


def test_f12_a_store_from_before_there_were_questions_is_migrated(desk: Desk) -> None:
    assert desk.store
    desk.close()
    with closing(sqlite3.connect(desk.folder / "escalera.db", isolation_level=None)) as other:
        for table in ("questions", "tasks", "artifacts", "step_contents", "contents"):
            other.execute(f"DROP TABLE {table}")
        other.execute("DROP INDEX turns_copied")
        other.execute("ALTER TABLE turns DROP COLUMN copied_from")
        other.execute(f"PRAGMA user_version = {schema.MIGRATIONS.index(schema._QUESTIONS)}")
    desk.restart()

    assert desk.open().is_pending


def test_f13_reads_in_quick_succession_write_once_a_second(desk: Desk) -> None:
    desk.open()
    desk.clock.to(60)
    changes = desk.store._database._writing.connection.total_changes  # type: ignore[union-attr]  # how much was really written
    for _ in range(1000):
        desk.clock.sleep(0.001)
        stored = desk.broker.read("q1")
        assert desk.broker.peek("q1") == stored

    assert desk.store._database._writing.connection.total_changes - changes == 1  # type: ignore[union-attr]


# -- T106, retention, withdrawal -----------------------------------------------------------------


def test_what_is_answered_too_late_is_kept_and_told_once(desk: Desk) -> None:
    stored = desk.form()
    desk.wait(stored).until_it_ends()
    desk.broker.told(stored)
    with pytest.raises(QuestionClosed) as refused:
        desk.broker.answer("q1", RED)
    desk.restart()

    kept = desk.broker.peek("q1")

    assert "--continue" in (refused.value.hint or "")
    assert (how(kept), [late.answer for late in kept.late], kept.told) == (("expired", "cancel", "expiry"), [RED], False)


def test_what_a_human_was_typing_when_it_expired_is_gone_on_with_though_the_agent_knows_of_the_end(desk: Desk) -> None:
    def human(waiting: Waiting) -> StoredQuestion:
        ended = waiting.until_it_ends()
        assert how(ended) == ("expired", "cancel", "expiry")
        return waiting.answer(RED)

    asking = Asking(desk.broker, Cancel(), human=human, waits=False, watch=lambda _: None)
    told = asking(Question("Colour?", mode="form", schema=COLOUR, session="s1", turn=0, agent="strong", durable=True))

    (due,) = due_questions(desk.broker, "s1")
    assert (told.action, told.by, [late.answer for late in due.late]) == ("cancel", "expiry", [RED])


def test_a_late_no_is_not_kept(desk: Desk) -> None:
    desk.open()
    desk.clock.to(200)
    with pytest.raises(QuestionClosed):
        desk.broker.answer("q1", Answer("decline"))

    assert desk.broker.peek("q1").late == ()


def test_closed_questions_are_removed_when_they_were_kept_long_enough(desk: Desk) -> None:
    desk.open()
    desk.open()
    desk.broker.answer("q1", YES)
    day = 86_400
    desk.clock.to(30 * day - 1)
    desk.broker.tidy()
    assert len(desk.broker.listed(pending=False)) == 2

    desk.clock.to(30 * day + 1)
    desk.broker.tidy()
    assert [stored.id for stored in desk.broker.listed(pending=False)] == ["q2"]
    desk.clock.to(30 * day + 121)
    desk.broker.tidy()
    assert desk.broker.listed(pending=False) == []


def test_j7_with_a_process_its_pipes_questions_end_and_the_durable_stay(desk: Desk) -> None:
    desk.open(durable=False)
    desk.open(durable=True)
    other = desk.another()
    desk.store.close()

    assert [stored.id for stored in other.listed()] == ["q2"]
    assert how(other.peek("q1")) == ("answered", "cancel", "asker")
    with pytest.raises(QuestionClosed, match="withdrawn by its asker"):
        other.answer("q1", YES)


def test_a_withdrawn_question_is_cancelled_by_its_asker(desk: Desk) -> None:
    question = Question("May I?", agent="strong", durable=True)
    stored = desk.broker.open(question)
    waiting = desk.wait(stored, question=question)
    assert waiting.ended() is None

    question.withdrawn.set()

    ended = waiting.ended()
    assert ended is not None
    assert how(ended) == how(desk.broker.peek("q1")) == ("answered", "cancel", "asker")


def test_a_dropped_session_takes_its_questions_along(desk: Desk) -> None:
    waiting = desk.wait(desk.open())
    desk.another()
    desk.stores[1].drop("s1", 0)
    desk.clock.sleep(0.25)

    ended = waiting.ended()

    assert ended is not None
    assert how(ended) == ("answered", "cancel", "asker")


def test_a_form_that_asks_for_a_secret_is_not_put(desk: Desk) -> None:
    with pytest.raises(ValueError, match="secret"):
        desk.open(mode="form", schema={"properties": {"password": {"type": "string"}}})

    assert desk.broker.listed(pending=False) == []


@pytest.mark.parametrize("broken", ["state = 'odd'", "expires_at = 'never'", "requested_schema = '['", "mode = 'x'", "answer = '{}'"])
def test_a_damaged_row_is_skipped_and_said(desk: Desk, broken: str) -> None:
    desk.open()
    desk.form()
    with closing(sqlite3.connect(desk.folder / "escalera.db", isolation_level=None)) as other:
        other.execute(f"UPDATE questions SET {broken} WHERE id = 'q1'")  # noqa: S608  # of this test

    assert [stored.id for stored in desk.broker.listed(pending=False)] == ["q2"]
    assert any("question q1" in notice for notice in desk.store.notices)


def test_a_store_that_fails_lets_the_asker_end(desk: Desk) -> None:
    waiting = desk.wait(desk.open())
    desk.store.close()

    with pytest.raises(StoreError):
        desk.broker.peek("q1")
    assert how(waiting.until_it_ends()) == ("expired", "cancel", "expiry")


def test_hostile_texts_are_kept_as_texts(desk: Desk) -> None:
    message = "a\x00b\x1b[31m\ud800" + "x" * 60_000
    desk.open(message=message, schema={"properties": COLOUR["properties"]}, mode="form")

    kept = desk.broker.peek("q1").question.message

    assert kept == well_formed(message)


@pytest.mark.parametrize("fields", [{"message": "x" * 100_000}, {"schema": {"title": "x" * 100_000}}], ids=["message", "schema"])
def test_what_would_not_be_read_to_its_end_is_not_put(desk: Desk, fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="more than 65,536 characters"):
        desk.open(**fields)
