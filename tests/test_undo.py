"""What a session is without its last turn."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orchestrator.messages import Text
from orchestrator.session import Brief, ExternalSession, Need, Outcome, Role, Session, State, Turn, TurnList
from orchestrator.undo import last_exchange, session_without

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRIMARY = Turn(0, Role.PRIMARY, "local", "hello", (Text("hi"),))
ASKS = Turn(1, Role.ESCALATION, "strong", "paint it", (Text("Which colour?"),))
REPLY = Turn(2, Role.ESCALATION, "strong", "blue", (Text("Blue it is."),))
HANDS = Turn(3, Role.PRIMARY, "local", "too hard", (), Outcome.ESCALATED)
TAKES = Turn(4, Role.ESCALATION, "other", None, (Text("Done."),), continues=3)


def session(**fields: object) -> Session:
    return Session("s1", "/work/a", "n0", **fields)  # type: ignore[arg-type]  # fields of a session


def without(header: Session, *turns: Turn, before: Session | None = None, after: Session | None = None) -> Session:
    log = TurnList(turns)
    return session_without(last_exchange(log), header, log, now=NOW, before=before, after=after)


@pytest.mark.parametrize(("turns", "found"), [((), []), ((PRIMARY, ASKS), [1]), ((REPLY, HANDS, TAKES), [3, 4]), ((REPLY, HANDS), [3])])
def test_the_last_exchange_is_what_came_of_one_message(turns: tuple[Turn, ...], found: list[int]) -> None:
    assert [turn.index for turn in last_exchange(TurnList(turns))] == found


@pytest.mark.parametrize(("turns", "state"), [((PRIMARY,), State.ROUTING), ((PRIMARY, ASKS), State.ROUTING), ((PRIMARY, ASKS, REPLY), State.WAITING)])
def test_a_question_that_was_answered_in_the_undone_turn_is_open_again(turns: tuple[Turn, ...], state: State) -> None:
    assert without(session(state=State.WAITING if turns[-1] is ASKS else State.ROUTING), *turns).state is state


def test_a_conversation_that_knows_the_undone_turn_is_not_gone_on_with() -> None:
    kept = ExternalSession("strong", "e1", "/work/a", turn_index=1)
    known = ExternalSession("other", "e2", "/work/a", turn_index=4)
    assert without(session(external_sessions=(kept, known)), REPLY, HANDS, TAKES).external_sessions == (kept,)


def test_a_need_that_the_undone_turn_set_goes_and_another_stays() -> None:
    assert without(session(need=Need("paint", 1, True, NOW, "tag")), PRIMARY, ASKS).need is None
    assert without(session(need=Need("paint", 1, False, NOW, "user")), PRIMARY, ASKS).need is not None


def test_a_header_that_was_seen_before_the_turn_comes_back_but_for_what_changed_since() -> None:
    before = session(state=State.WAITING, need=Need("old", 0, False, NOW, "user"), brief=Brief("why", "user"))
    after = session(need=Need("new", 2, True, NOW, "tag"))
    now = session(need=Need("newest", 3, False, NOW, "user"))

    assert without(after, PRIMARY, ASKS, REPLY, before=before, after=after) == before
    kept = without(now, PRIMARY, ASKS, REPLY, before=before, after=after)
    assert (kept.state, kept.brief, kept.need) == (State.WAITING, before.brief, now.need)
