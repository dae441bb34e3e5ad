"""What time and later turns do to a session's need and open question before a turn."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from orchestrator.session import LastNeed, Need, Role, Session, State, Turn, TurnList
from orchestrator.standing import cleared_need, restored_need, standing

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SESSION = Session(id="s", workspace="/w", nonce="abcdefgh")
NEED = Need("ship", 0, True, NOW - timedelta(hours=1), "tag")
TURNS = TurnList([Turn(0, Role.PRIMARY, "local", "q"), Turn(1, Role.ESCALATION, "strong", "q", ended_at=NOW - timedelta(hours=30))])


def stand(session: Session, **more: bool):
    return standing(session, TURNS, now=NOW, need_expiry_hours=24, waiting_expiry_hours=24, **more)


def test_fulfilled_need_is_cleared_and_still_told_as_the_previous_goal() -> None:
    found = stand(replace(SESSION, need=NEED))

    assert found.need_status == "fulfilled"
    assert found.session.need is None
    assert found.session.last_need == LastNeed(NEED, "fulfilled", NOW)
    assert found.previous_goal == NEED


def test_need_is_fulfilled_on_the_first_touch_only() -> None:
    assert stand(replace(SESSION, need=NEED), loaded=False).need_status == "set"


def test_need_cleared_by_an_earlier_process_is_told_all_the_same() -> None:
    earlier = replace(SESSION, last_need=LastNeed(NEED, "fulfilled", NOW - timedelta(days=2)))

    assert stand(earlier).previous_goal == NEED
    assert stand(replace(earlier, last_need=LastNeed(NEED, "fulfilled", NOW - timedelta(days=8)))).need_status == "none"
    assert stand(replace(earlier, last_need=LastNeed(NEED, "cleared", NOW))).need_status == "none"


def test_lapsed_question_frees_the_session_and_then_the_need() -> None:
    waiting = replace(SESSION, state=State.WAITING, need=NEED)

    found = stand(waiting)

    assert (found.session.state, found.asking, found.waiting_lapsed, found.need_status) == (State.ROUTING, None, True, "fulfilled")


def test_open_question_keeps_the_need() -> None:
    recent = TurnList([Turn(0, Role.PRIMARY, "local", "q"), Turn(1, Role.ESCALATION, "strong", "q", ended_at=NOW - timedelta(hours=2))])

    found = standing(replace(SESSION, state=State.WAITING, need=NEED), recent, now=NOW, need_expiry_hours=24, waiting_expiry_hours=24)

    assert found.need_status == "set"
    assert found.asking is not None
    assert found.asking.agent == "strong"


def test_cleared_need_can_be_restored_for_seven_days() -> None:
    cleared = cleared_need(replace(SESSION, need=NEED), NOW)
    late = NOW + timedelta(days=7)

    restored = restored_need(cleared, late, turn_index=2)

    assert cleared.need is None
    assert restored == replace(SESSION, need=Need("ship", 2, False, late, "user"))
    assert restored_need(cleared, late + timedelta(seconds=1), turn_index=2) is None


def test_restoring_swaps_the_need_with_the_last_one() -> None:
    other = Need("rest", 1, False, NOW, "user")
    session = replace(cleared_need(replace(SESSION, need=NEED), NOW), need=other)

    restored = restored_need(session, NOW, turn_index=2)

    assert restored is not None
    assert restored.last_need == LastNeed(other, "cleared", NOW)
    again = restored_need(restored, NOW, turn_index=2)
    assert again is not None
    assert again.need is not None
    assert again.need.text == "rest"


def test_a_last_need_is_forgotten_after_seven_days() -> None:
    last = LastNeed(NEED, "cleared", NOW - timedelta(days=7))

    assert stand(replace(SESSION, last_need=last)).session.last_need == last
    assert stand(replace(SESSION, last_need=replace(last, cleared_at=NOW - timedelta(days=7, seconds=1)))).session.last_need is None
