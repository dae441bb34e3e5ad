"""What every store does, whatever it is made of."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import Ambiguous, LeaseLost, NotFound, SessionInUse, StoreError, StoreReadOnly, UsageError
from orchestrator.messages import Reasoning, Text, ToolCall, ToolResult, Usage
from orchestrator.percepts import Percept
from orchestrator.session import (
    TOLD,
    Brief,
    ExternalSession,
    LastNeed,
    Need,
    Outcome,
    Reason,
    Role,
    Session,
    State,
    Turn,
    TurnError,
    TurnList,
    last_escalation_turn,
    primary_turns_since_escalation,
)
from orchestrator.store import Claim, HeldBy, Store, UsageKey

TRIALS = Path(__file__).parents[1] / "trials"
MINUTE = timedelta(seconds=60)
THEN = datetime(2025, 12, 31, 23, 59, 59, 250000, tzinfo=UTC)

Make = Callable[..., Session]
Held = Callable[..., tuple[Session, Claim]]
Completed = Callable[..., Turn]
Opened = Callable[..., Store]

FULL_TURN = Turn(
    index=0,
    role=Role.ESCALATION,
    agent="claude",
    prompt="why?",
    steps=(
        Reasoning("hm", model="m-1", signature="sig", extra={"k": [1, {"deep": None}]}),
        ToolCall("c1", "grep", {"pattern": "a.b", "n": 3}, extra={"thought": "x"}),
        ToolResult("c1", "no match", is_error=True),
        Text("because", extra={"partial": True}),
    ),
    outcome=Outcome.FAILED,
    mode="returning",
    reasons=(Reason("turn_gap", "9 turns"), Reason("forced")),
    started_at=THEN,
    ended_at=THEN + MINUTE,
    usage=Usage(10, 20, cost_usd=0.25),
    error=TurnError("TimedOut", "idle for 120 s"),
    continues=None,
    model_requested="opus",
    model_served="opus-4",
    routing=(Reason("flag", "--escalate"),),
    copied_from="another",
)
FULL_SESSION = Session(
    id="full",
    workspace="/work/a",
    nonce="abcd",
    name="chat",
    created_at=THEN,
    updated_at=THEN,
    state=State.WAITING,
    need=Need("fix it", 0, True, None, "tag"),
    last_need=LastNeed(Need("old", 0, False, THEN, "user"), "expired", THEN),
    brief=Brief("too hard", "primary"),
    external_sessions=(
        ExternalSession("claude", "e-1", "/work/a", "/cfg", 3, "opus", "be brief\n", {"digests": {"a": "1"}, "percepts": ["p"]}),
        ExternalSession("claude", "e-2", "/work/b"),
    ),
)


class TestWithdrawing:
    @pytest.fixture
    def claim(self, store: Store, new_session: Make, completed: Completed) -> Claim:
        """On session `s1`, which has three turns."""
        store.import_session(new_session("s1"), [completed(index) for index in range(3)])
        claim = store.claim("s1", "me", MINUTE)
        assert isinstance(claim, Claim)
        return claim

    def test_the_last_turns_leave_and_their_indexes_are_never_given_again(self, store: Store, new_session: Make, claim: Claim) -> None:
        store.withdraw(claim, 1, new_session("s1", brief=Brief("as it was", "user")))

        log = store.log("s1")
        assert [turn.index for turn in log.newest_first(outcomes=None)] == [0]
        assert (log.next_index, store.find("s1", "/work/a").brief) == (3, Brief("as it was", "user"))
        with pytest.raises(StoreError):
            store.open_turn(claim, Turn(1, Role.PRIMARY, "local", "again"), new_session("s1"))
        store.open_turn(claim, Turn(3, Role.PRIMARY, "local", "again"), new_session("s1"))
        assert log.next_index == 4

    def test_what_was_withdrawn_is_found_no_more(self, store: Store, new_session: Make, claim: Claim) -> None:
        assert len(store.search("prompt", None)) == 3

        store.withdraw(claim, 1, new_session("s1"))

        assert [hit.turn for hit in store.search("prompt", None)] == [0]

    def test_a_dropped_session_leaves_no_index_behind(self, store: Store, new_session: Make, completed: Completed, claim: Claim) -> None:
        store.withdraw(claim, 1, new_session("s1"))
        store.release(claim)
        store.drop("s1", 3)
        store.import_session(new_session("s1"), [completed(0)])
        assert store.log("s1").next_index == 1

    def test_a_lost_lease_withdraws_nothing(self, store: Store, new_session: Make, claim: Claim, clock) -> None:
        clock.advance(seconds=120)
        store.claim("s1", "another", MINUTE)
        with pytest.raises(LeaseLost):
            store.withdraw(claim, 0, new_session("s1"))
        assert store.log("s1").count() == 3


class TestFinding:
    def test_finds_by_exact_id_prefix_and_name(self, store: Store, new_session: Make) -> None:
        store.create(new_session("abc-1", name="plan"))
        store.create(new_session("abd-2"))
        assert store.find("abc-1", "/elsewhere").id == "abc-1"
        assert store.find("abd", "/elsewhere").id == "abd-2"
        assert store.find("plan", "/work/a").id == "abc-1"

    def test_an_exact_id_wins_over_longer_ones(self, store: Store, new_session: Make) -> None:
        store.create(new_session("ab"))
        store.create(new_session("abc"))
        assert store.find("ab", "/work/a").id == "ab"

    def test_a_name_wins_over_an_id_that_begins_with_it(self, store: Store, new_session: Make) -> None:
        store.create(new_session("a1234"))
        store.create(new_session("b1234", name="a"))
        assert store.find("a", "/work/a").id == "b1234"
        assert store.find("a", "/work/other").id == "a1234"

    def test_a_name_belongs_to_its_workspace(self, store: Store, new_session: Make) -> None:
        store.create(new_session("s1", name="plan"))
        with pytest.raises(NotFound):
            store.find("plan", "/work/b")

    def test_an_ambiguous_prefix_lists_its_candidates(self, store: Store, new_session: Make) -> None:
        store.create(new_session("abc-1"))
        store.create(new_session("abc-2"))
        with pytest.raises(Ambiguous) as raised:
            store.find("abc", "/work/a")
        assert raised.value.candidates == ("abc-1", "abc-2")
        assert "abc-1" in raised.value.message

    def test_an_unknown_reference_says_what_there_is(self, store: Store, new_session: Make) -> None:
        store.create(new_session("abc-1", name="plan"))
        with pytest.raises(NotFound, match=r"abc-1 \(plan\)"):
            store.find("zzz", "/work/a")
        assert len(store.list(None)) == 1

    def test_without_a_reference_the_newest_of_the_workspace(self, store: Store, new_session: Make, clock) -> None:
        for identity in ("s1", "s2"):
            store.create(new_session(identity))
        store.create(new_session("other", "/work/b"))
        assert store.find(None, "/work/a").id == "s2"
        clock.advance(seconds=0.5)
        claim = store.claim("s1", "me", MINUTE)
        store.save(claim, store.find("s1", "/work/a"))
        assert store.find(None, "/work/a/").id == "s1"
        with pytest.raises(NotFound):
            store.find(None, "/work/c")

    @pytest.mark.parametrize("ref", ["", "a\x00b"])
    def test_an_unusable_reference_is_refused(self, store: Store, ref: str) -> None:
        with pytest.raises(UsageError):
            store.find(ref, "/work/a")

    def test_the_first_session_of_a_workspace_is_refused_where_there_is_one_by_now(self, opened: Opened, new_session: Make) -> None:
        store = opened()
        store.create(new_session("s1", "/work/b"))
        store.create(new_session("s2"), first=True)
        with pytest.raises(StoreError, match="meanwhile"):
            store.create(new_session("s3"), first=True)
        assert [summary.id for summary in store.list("/work/a")] == ["s2"]

    @pytest.mark.trial("T78")
    def test_t78_any_key_is_a_name(self, opened: Opened, folder: Path, new_session: Make) -> None:
        trial = json.loads((TRIALS / "T78.json").read_text())
        store, kept = opened(), {}
        for number, key in enumerate(trial["keys"]):
            session = new_session(f"id{number}", name=key)
            if not key.strip() or "\x00" in key:
                with pytest.raises(UsageError):
                    store.create(session)
                continue
            store.create(session)
            kept[key] = session.id
        store.close()
        again = opened()
        assert {summary.name: summary.id for summary in again.list("/work/a")} == kept
        assert {key: again.find(key, "/work/a").id for key in kept} == kept
        assert {path.name for path in folder.parent.parent.iterdir()} == {"home"}
        assert {path.name for path in folder.parent.iterdir()} == {"data"}


class TestSessions:
    def test_everything_about_a_session_is_kept(self, opened: Opened) -> None:
        store = opened()
        store.create(FULL_SESSION)
        store.close()
        assert opened().find("full", "/work/a") == FULL_SESSION

    def test_an_id_that_is_taken_is_refused(self, store: Store, new_session: Make) -> None:
        store.create(new_session("s1"))
        with pytest.raises(StoreError, match="s1"):
            store.create(new_session("s1"))

    def test_a_name_that_is_taken_is_refused_within_its_workspace(self, store: Store, new_session: Make) -> None:
        store.create(new_session("s1", name="plan"))
        with pytest.raises(UsageError, match="plan"):
            store.create(new_session("s2", name="plan"))
        store.create(new_session("s2", "/work/b", name="plan"))

    def test_saving_replaces_the_header(self, store: Store, held: Held, clock) -> None:
        session, claim = held(store)
        later = clock.advance(seconds=5)
        store.save(claim, replace(FULL_SESSION, id="s1", nonce=session.nonce, created_at=None))
        assert store.find("s1", "/work/a") == replace(FULL_SESSION, id="s1", nonce="n0", created_at=None, updated_at=later)
        store.save(claim, session)
        assert store.find("s1", "/work/a") == replace(session, updated_at=later)

    def test_of_two_external_sessions_for_one_agent_and_workspace_the_later_stands(self, store: Store, new_session: Make) -> None:
        store.create(new_session(external_sessions=(ExternalSession("c", "1", "/work/a"), ExternalSession("c", "2", "/work/a/"))))
        assert [external.id for external in store.find("s1", "/work/a").external_sessions] == ["2"]

    def test_the_list_is_newest_first_and_counts_turns(self, store: Store, new_session: Make, completed: Completed, clock) -> None:
        store.import_session(new_session("s1", need=Need("n", 0, False, None, "user")), [completed(0), completed(1)])
        clock.advance(seconds=1)
        store.create(new_session("s2", "/work/b"))
        assert [summary.id for summary in store.list(None)] == ["s2", "s1"]
        (summary,) = store.list("/work/a")
        assert (summary.turns, summary.need, summary.state, summary.in_use) == (2, "n", "routing", False)

    def test_the_list_says_what_is_in_use(self, store: Store, held: Held) -> None:
        _, claim = held(store)
        assert store.list(None)[0].in_use
        store.release(claim)
        assert not store.list(None)[0].in_use

    def test_an_import_is_whole_or_not_at_all(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [FULL_TURN, completed(5)])
        assert list(store.log("s1").newest_first(outcomes=None)) == [completed(5), FULL_TURN]
        with pytest.raises(StoreError):
            store.import_session(new_session("s1"), [completed(9)])
        assert store.log("s1").next_index == 6
        with pytest.raises(StoreError):
            store.import_session(new_session("s2"), [completed(0), completed(0)])
        with pytest.raises(NotFound):
            store.find("s2", "/work/a")

    def test_a_dropped_session_is_gone_with_its_turns(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [completed(0)])
        assert store.search("prompt", None)
        store.drop("s1", 1_000_000)
        assert not store.search("prompt", None)
        store.import_session(new_session("s1"), [])
        assert store.log("s1").next_index == 0
        with pytest.raises(NotFound):
            store.drop("nothing", 1_000_000)

    def test_a_session_that_grew_since_it_was_looked_at_is_not_dropped(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [completed(0), completed(1)])
        with pytest.raises(StoreError, match="got turns since"):
            store.drop("s1", 1)
        assert store.log("s1").next_index == 2
        store.drop("s1", 2)

    @pytest.mark.parametrize("read_only", [False, True])
    def test_a_snapshot_is_one_state_whatever_others_write(self, opened: Opened, new_session: Make, completed: Completed, *, read_only: bool) -> None:
        writer = opened()
        writer.import_session(new_session("s1", name="before"), [completed(0)])
        reader = opened(read_only=read_only)
        with reader.snapshot():
            assert reader.find("s1", "/work/a").name == "before"
            claim = writer.claim("s1", "other", timedelta(minutes=1))
            assert isinstance(claim, Claim)
            writer.open_turn(claim, replace(completed(1), outcome=Outcome.OPEN), new_session("s1", name="after"))
            seen = (reader.find("s1", "/work/a").name, reader.log("s1").next_index, [summary.turns for summary in reader.list(None)])
        assert seen == ("before", 1, [1])
        assert (reader.find("s1", "/work/a").name, reader.log("s1").next_index) == ("after", 2)

    def test_nothing_is_written_inside_a_snapshot(self, store: Store, new_session: Make) -> None:
        with store.snapshot(), store.snapshot(), pytest.raises(RuntimeError, match="inside a snapshot"):
            store.create(new_session("s1"))
        store.create(new_session("s1"))

    def test_a_held_session_is_not_dropped(self, store: Store, held: Held) -> None:
        _, claim = held(store, owner="desk")
        with pytest.raises(SessionInUse, match="desk"):
            store.drop("s1", 1_000_000)
        store.release(claim)
        store.drop("s1", 1_000_000)


class TestTurns:
    def test_a_turn_is_stored_before_during_and_after(self, opened: Opened, held: Held) -> None:
        store = opened()
        session, claim = held(store)
        asked = replace(FULL_TURN, steps=(), outcome=Outcome.OPEN, ended_at=None, usage=None, error=None, model_served=None)
        store.open_turn(claim, asked, session)
        for seq, step in enumerate(FULL_TURN.steps):
            store.append_step(claim, 0, seq, step)
        assert store.log("s1").get(0) == replace(asked, steps=FULL_TURN.steps)
        store.close_turn(claim, FULL_TURN, replace(session, state=State.WAITING))
        store.close()
        again = opened()
        assert again.log("s1").get(0) == FULL_TURN
        assert again.find("s1", "/work/a").state is State.WAITING

    def test_the_same_call_twice_stores_once(self, store: Store, held: Held, completed: Completed) -> None:
        session, claim = held(store)
        fact = Percept("p1", "likes tea", "user", weight=70)
        for _ in range(2):
            store.open_turn(claim, completed(0, outcome=Outcome.OPEN), session)
        for _ in range(2):
            store.append_step(claim, 0, 0, Text("one"))
        for _ in range(2):
            store.close_turn(claim, completed(0), session, [fact])
        store.append_step(claim, 0, 0, Text("one"))
        (turn,) = store.log("s1").newest_first(outcomes=None)
        assert turn.steps == (Text("one"),)
        assert store.percepts() == [fact]

    def test_a_step_that_is_stored_is_never_replaced(self, store: Store, held: Held, completed: Completed) -> None:
        session, claim = held(store)
        store.open_turn(claim, completed(0, outcome=Outcome.OPEN), session)
        store.append_step(claim, 0, 0, Text("one"))
        store.append_step(claim, 0, 0, Text("another"))
        assert store.log("s1").get(0).steps == (Text("one"),)

    def test_an_index_is_never_used_twice(self, store: Store, held: Held, completed: Completed) -> None:
        session, claim = held(store)
        store.open_turn(claim, completed(4, outcome=Outcome.OPEN), session)
        for taken in (completed(4, outcome=Outcome.OPEN, prompt="another"), completed(3, outcome=Outcome.OPEN)):
            with pytest.raises(StoreError):
                store.open_turn(claim, taken, session)
        assert store.log("s1").next_index == 5
        assert store.log("s1").get(4).prompt == "prompt 4"

    def test_a_closed_turn_takes_no_more_steps(self, store: Store, held: Held, completed: Completed) -> None:
        session, claim = held(store)
        store.open_turn(claim, completed(0, outcome=Outcome.OPEN), session)
        store.close_turn(claim, completed(0), session)
        with pytest.raises(StoreError, match="completed"):
            store.append_step(claim, 0, 0, Text("late"))
        with pytest.raises(StoreError):
            store.append_step(claim, 1, 0, Text("nowhere"))
        with pytest.raises(StoreError):
            store.close_turn(claim, completed(1), session)

    def test_what_was_learned_is_stored_with_the_end_of_the_turn_or_not_at_all(self, store: Store, held: Held, completed: Completed) -> None:
        session, claim = held(store)
        store.learn(Percept("p1", "one", "user"))
        store.open_turn(claim, completed(0, outcome=Outcome.OPEN), session)
        with pytest.raises(StoreError, match="p1"):
            store.close_turn(claim, completed(0), session, [Percept("p2", "two", "user"), Percept("p1", "other", "user")])
        assert store.log("s1").get(0).outcome is Outcome.OPEN
        assert [percept.id for percept in store.percepts()] == ["p1"]

    def test_hostile_text_is_made_well_formed(self, store: Store, new_session: Make) -> None:
        bad, good = "a\ud800b\x00c \ud83d\ude00", "a\ufffdb\ufffdc 😀"
        turn = Turn(0, Role.PRIMARY, bad, bad, (Text(bad, {bad: [bad]}), ToolCall(bad, bad, {bad: {bad: bad}})))
        store.import_session(new_session("s1", name="n\udc00", need=Need(bad, 0, False, None, "user")), [turn])
        kept = store.log("s1").get(0)
        assert kept == Turn(0, Role.PRIMARY, good, good, (Text(good, {good: [good]}), ToolCall(good, good, {good: {good: good}})))
        assert store.find("n\udc00", "/work/a").need.text == good

    @pytest.mark.trial("T79")
    def test_t79_line_separators_stay_in_the_text(self, opened: Opened, new_session: Make) -> None:
        records = [json.loads(line) for line in (TRIALS / "T79.jsonl").read_bytes().split(b"\n") if line]
        assert len(records) == 2
        store = opened()
        store.import_session(new_session("s1"), [Turn(0, Role.PRIMARY, "local", records[0]["content"], (Text(records[1]["content"]),))])
        store.learn(Percept("p1", records[0]["content"], "user"))
        store.close()
        turn = opened().log("s1").get(0)
        assert (turn.prompt, turn.answer) == (records[0]["content"], records[1]["content"])

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.tuples(st.sampled_from(list(Role)), st.sampled_from([o for o in Outcome if o is not Outcome.OPEN]), st.integers(1, 3)), max_size=60),
        st.data(),
    )
    def test_a_log_reads_like_the_list_of_its_turns(self, store: Store, new_session: Make, kinds: list[tuple[Role, Outcome, int]], data: st.DataObject) -> None:
        index, turns = 0, []
        for role, outcome, step in kinds:
            turns.append(Turn(index, role, "a", f"p{index}", (Text(f"t{index}"),) * (index % 3), outcome))
            index += step
        session = new_session(f"s{len(store.list(None))}")
        store.import_session(session, turns)
        wanted = {
            "role": data.draw(st.sampled_from([None, *Role])),
            "outcomes": data.draw(st.sampled_from([None, TOLD, frozenset({Outcome.INTERRUPTED}), frozenset[Outcome]()])),
            "start": data.draw(st.integers(0, index)),
            "stop": data.draw(st.none() | st.integers(0, index + 1)),
        }
        log, expected = store.log(session.id), TurnList(turns)
        assert list(log.newest_first(**wanted)) == list(expected.newest_first(**wanted))
        assert log.count(**wanted) == expected.count(**wanted)
        assert log.next_index == expected.next_index
        assert last_escalation_turn(log) == last_escalation_turn(expected)
        assert primary_turns_since_escalation(log) == primary_turns_since_escalation(expected)

    def test_a_log_of_many_pages_is_complete_and_lazy(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [completed(index) for index in range(700)])
        turns = store.log("s1").newest_first()
        assert next(turns).index == 699
        assert [turn.index for turn in turns] == list(range(698, -1, -1))

    def test_the_log_of_an_unknown_session_is_an_error(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.log("nothing")


class TestLeases:
    def test_two_owners_take_turns(self, store: Store, held: Held) -> None:
        _, claim = held(store, owner="first")
        assert store.claim("s1", "second", MINUTE) == HeldBy("first", claim.expires_at)
        store.release(claim)
        second = store.claim("s1", "second", MINUTE)
        assert isinstance(second, Claim)
        assert second.fence > claim.fence

    def test_fences_never_repeat_even_when_the_session_comes_anew(self, store: Store, held: Held) -> None:
        _, claim = held(store)
        store.release(claim)
        store.drop("s1", 1_000_000)
        _, again = held(store)
        assert again.fence > claim.fence

    def test_an_overtaken_owner_can_write_nothing(self, store: Store, held: Held, completed: Completed, clock) -> None:
        session, claim = held(store, owner="sleeper")
        store.open_turn(claim, completed(0, outcome=Outcome.OPEN), session)
        clock.advance(seconds=61)
        assert isinstance(store.claim("s1", "other", MINUTE), Claim)
        for write in (
            lambda: store.append_step(claim, 0, 0, Text("late")),
            lambda: store.close_turn(claim, completed(0), session),
            lambda: store.open_turn(claim, completed(1, outcome=Outcome.OPEN), session),
            lambda: store.save(claim, replace(session, name="mine")),
            lambda: store.renew(claim, MINUTE),
        ):
            with pytest.raises(LeaseLost):
                write()
        store.release(claim)
        (turn,) = store.log("s1").newest_first(outcomes=None)
        assert (turn.outcome, turn.steps) == (Outcome.INTERRUPTED, ())
        assert store.list(None)[0].in_use

    def test_an_owner_that_slept_past_its_lease_can_write_nothing(self, store: Store, held: Held, clock) -> None:
        session, claim = held(store)
        clock.advance(seconds=60)
        with pytest.raises(LeaseLost):
            store.save(claim, session)
        with pytest.raises(LeaseLost):
            store.renew(claim, MINUTE)

    def test_renewing_holds_it_longer(self, store: Store, held: Held, clock) -> None:
        session, claim = held(store)
        clock.advance(seconds=50)
        renewed = store.renew(claim, MINUTE)
        clock.advance(seconds=50)
        store.save(claim, session)
        assert isinstance(store.claim("s1", "other", MINUTE), HeldBy)
        clock.at -= timedelta(hours=1)
        assert store.renew(renewed, MINUTE).expires_at == renewed.expires_at

    def test_a_turn_found_open_is_marked_and_the_state_stays(self, store: Store, held: Held, completed: Completed, clock) -> None:
        session, claim = held(store)
        store.open_turn(claim, completed(0, outcome=Outcome.OPEN), replace(session, state=State.WAITING))
        store.append_step(claim, 0, 0, Text("half"))
        store.release(claim)
        store.claim("s1", "next", MINUTE)
        turn = store.log("s1").get(0)
        assert (turn.outcome, turn.ended_at, turn.steps) == (Outcome.INTERRUPTED, None, (Text("half"),))
        assert store.find("s1", "/work/a").state is State.WAITING

    def test_an_open_turn_reads_as_interrupted_when_nobody_holds_the_session(self, store: Store, held: Held, completed: Completed, clock) -> None:
        session, claim = held(store)
        store.open_turn(claim, completed(0, outcome=Outcome.OPEN), session)
        log = store.log("s1")
        opened, cut_off = frozenset({Outcome.OPEN}), frozenset({Outcome.INTERRUPTED})
        assert log.get(0).outcome is Outcome.OPEN
        assert (log.count(outcomes=opened), log.count(outcomes=cut_off)) == (1, 0)
        clock.advance(seconds=60)
        assert log.get(0).outcome is Outcome.INTERRUPTED
        assert (log.count(outcomes=opened), log.count(outcomes=cut_off)) == (0, 1)
        assert [turn.outcome for turn in log.newest_first(outcomes=cut_off)] == [Outcome.INTERRUPTED]
        assert not list(log.newest_first(outcomes=opened))

    def test_a_claim_on_nothing_is_an_error(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.claim("nothing", "me", MINUTE)

    def test_one_store_serves_several_threads(self, store: Store, held: Held, completed: Completed) -> None:
        session, claim = held(store)
        stop, failures = threading.Event(), []

        def renew() -> None:
            while not stop.is_set():
                try:
                    store.renew(claim, MINUTE)
                except Exception as error:
                    failures.append(error)
                    return

        renewer = threading.Thread(target=renew)
        renewer.start()
        for index in range(40):
            store.open_turn(claim, completed(index, outcome=Outcome.OPEN), session)
            store.append_step(claim, index, 0, Text("x"))
            store.close_turn(claim, completed(index), session)
        stop.set()
        renewer.join()
        assert not failures
        assert store.log("s1").count() == 40


class TestSearch:
    def test_finds_what_was_said_anywhere_in_a_turn(self, store: Store, new_session: Make, completed: Completed) -> None:
        steps = (ToolCall("c", "grep", {"pattern": "needle"}), ToolResult("c", "haystack"), Text("a blue answer"))
        store.import_session(new_session("s1", name="plan"), [completed(0), completed(1, steps=steps, prompt="Where?")])
        for word in ("needle", "haystack", "BLUE", "where", "blue where"):
            (hit,) = store.search(word, None)
            assert (hit.session, hit.name, hit.workspace, hit.turn) == ("s1", "plan", "/work/a", 1)
        assert "a [blue] answer" in store.search("blue", None)[0].snippet
        assert not store.search("blue missing", None)

    def test_what_is_stored_after_a_search_is_found_by_the_next(self, store: Store, held: Held, completed: Completed) -> None:
        session, claim = held(store)
        store.open_turn(claim, completed(0, outcome=Outcome.OPEN, prompt="alpha"), session)
        assert not store.search("alpha", None)
        store.open_turn(claim, completed(1, outcome=Outcome.OPEN, prompt="beta"), session)
        store.close_turn(claim, completed(1, prompt="beta"), session)
        assert store.search("beta", None)
        store.append_step(claim, 0, 0, Text("gamma"))
        store.close_turn(claim, completed(0, prompt="alpha"), session)
        assert [hit.turn for hit in store.search("alpha gamma", None)] == [0]
        assert len(store.search("beta", None)) == 1

    def test_a_dropped_session_leaves_the_others_findable(self, store: Store, new_session: Make, completed: Completed) -> None:
        for identity in ("s1", "s2"):
            store.import_session(new_session(identity), [completed(0)])
        assert len(store.search("prompt", None)) == 2
        store.drop("s1", 1_000_000)
        store.import_session(new_session("s3"), [completed(0)])
        assert {hit.session for hit in store.search("prompt", None)} == {"s2", "s3"}

    def test_stays_in_the_workspace_and_within_the_limit(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [completed(0), completed(1)])
        store.import_session(new_session("s2", "/work/b"), [completed(0)])
        assert {hit.session for hit in store.search("prompt", "/work/a/")} == {"s1"}
        assert len(store.search("prompt", None, limit=2)) == 2
        assert not store.search("prompt", None, limit=0)

    @pytest.mark.parametrize("text", ['"', "prompt OR", "a AND (", "-x", "col:x", "NEAR(a b)", "*", "", "  ", "^p", "\x00", "\ud800", "';--", "a" * 5000])
    def test_no_text_is_query_syntax(self, store: Store, new_session: Make, completed: Completed, text: str) -> None:
        store.import_session(new_session("s1"), [completed(0)])
        assert not store.search(text, None)

    def test_quotes_and_operators_are_words_like_any(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [completed(0, prompt='he said "yes OR no" (twice)')])
        assert "[yes]" in store.search('"yes OR (twice)', None)[0].snippet

    def test_finds_words_of_scripts_without_blanks_and_letters_with_accents(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [completed(0, prompt="请修复登录错误"), completed(1, prompt="Écran à Zürich")])
        assert store.search("登录", None)[0].snippet == "请修复[登录]错误"
        assert store.search("zurich", None)[0].snippet == "Écran à [Zürich]"
        assert not store.search("录登", None)

    def test_a_snippet_is_one_short_line(self, store: Store, new_session: Make, completed: Completed) -> None:
        store.import_session(new_session("s1"), [completed(0, prompt="x " * 500 + "here\n\nit is " + "y " * 500)])
        snippet = store.search("here", None)[0].snippet
        assert "[here] it is" in snippet
        assert "\n" not in snippet
        assert len(snippet) < 200
        assert snippet.startswith("…")
        assert snippet.endswith("…")

    def test_a_store_opened_for_reading_finds_the_same(self, opened: Opened, new_session: Make, completed: Completed) -> None:
        store = opened()
        store.import_session(new_session("s1"), [completed(0, prompt="alpha")])
        reader = opened(read_only=True)
        assert len(reader.search("alpha", None)) == 1
        store.search("alpha", None)
        store.import_session(new_session("s2"), [completed(0, prompt="alpha beta")])
        assert {hit.session for hit in reader.search("alpha", None)} == {"s1", "s2"}
        assert {hit.session for hit in reader.search("beta", None)} == {"s2"}


class TestPercepts:
    def test_everything_about_a_percept_is_kept(self, opened: Opened) -> None:
        percept = Percept("p1", "a fact", "primary", "claude", 70, False, "session", "/w", "s1", "subject", THEN, THEN, THEN, 12.5, {"turn": 3}, "agent")
        store = opened()
        assert store.learn(percept) == (percept, True)
        store.close()
        assert opened().percepts(session="s1") == [percept]

    def test_heard_twice_is_reinforced(self, store: Store, clock) -> None:
        store.learn(Percept("p1", "Use tabs, always", "user", weight=85, idle_seconds=99))
        clock.advance(days=1)
        expected = Percept("p1", "Use tabs, always", "user", weight=95, updated_at=clock.now(), last_used_at=clock.now())
        assert store.learn(Percept("p2", "always use TABS!", "user")) == (expected, False)
        assert store.learn(Percept("p3", "use tabs always", "user"))[0].weight == 100
        assert store.percepts() == [replace(expected, weight=100)]

    @pytest.mark.parametrize("other", [{"consumer": "claude"}, {"workspace": "/work/a"}, {"scope": "session", "session": "s1"}])
    def test_what_all_are_told_is_not_stored_again_for_one(self, store: Store, other: dict[str, str]) -> None:
        narrow = replace(Percept("p1", "use tabs", "primary"), **other)
        assert store.learn(narrow)[1]
        assert store.learn(replace(narrow, id="p2"))[0].id == "p1"
        assert store.learn(Percept("p3", "use tabs", "primary"))[1]
        assert store.learn(Percept("p4", "use tabs", "primary"))[0].id == "p3"
        assert store.learn(replace(narrow, id="p5"))[0].id == "p1"
        store.forget("p1")
        assert store.learn(replace(narrow, id="p6"))[0].id == "p3"

    def test_the_heaviest_come_first_and_those_of_other_sessions_not_at_all(self, store: Store) -> None:
        for identity, weight, session in (("b", 70, None), ("a", 70, None), ("c", 90, "s1"), ("d", 99, "s2")):
            scope = "global" if session is None else "session"
            store.learn(Percept(identity, f"fact {identity}", "user", weight=weight, scope=scope, session=session))
        assert [percept.id for percept in store.percepts(session="s1")] == ["c", "a", "b"]
        assert [percept.id for percept in store.percepts()] == ["a", "b"]

    def test_forgetting_takes_a_unique_prefix(self, store: Store) -> None:
        for identity in ("abc", "abd", "ab"):
            store.learn(Percept(identity, f"fact {identity}", "user"))
        with pytest.raises(Ambiguous) as raised:
            store.forget("a")
        assert raised.value.candidates == ("ab", "abc", "abd")
        assert store.forget("ab").content == "fact ab"
        assert store.forget("abc").id == "abc"
        with pytest.raises(NotFound):
            store.forget("x")
        with pytest.raises(UsageError):
            store.forget("")
        assert [percept.id for percept in store.percepts()] == ["abd"]

    def test_being_used_resets_the_idle_time(self, store: Store) -> None:
        store.learn(Percept("p1", "one", "user", idle_seconds=50))
        store.learn(Percept("p2", "two", "user", idle_seconds=50))
        store.mark_used(["p1", "gone"], THEN)
        first, second = store.percepts()
        assert (first.last_used_at, first.idle_seconds) == (THEN, 0)
        assert (second.last_used_at, second.idle_seconds) == (None, 50)


class TestUsage:
    def turn(self, index: int, agent: str = "claude", outcome: Outcome = Outcome.COMPLETED, **fields: object) -> Turn:
        return Turn(index, Role.PRIMARY, agent, f"prompt {index}", outcome=outcome, **fields)  # type: ignore[arg-type]

    def test_sums_by_agent_and_by_where_the_cost_comes_from(self, store: Store, new_session: Make) -> None:
        turns = [
            self.turn(0, usage=Usage(10, 20, 30, 40, 5, 0.5, "billed")),
            self.turn(1, usage=Usage(1, 2, cost_usd=0.25, cost_source="billed")),
            self.turn(2, usage=Usage(100, 200)),
            self.turn(3, usage=Usage(7, cost_usd=1.0)),
            self.turn(4, agent="local"),
        ]
        store.import_session(new_session(), turns)
        billed, counted, reported, silent = sorted(
            store.usage("agent"), key=lambda usage: (usage.agent, usage.cost_source or "none", -(usage.output_tokens or 0))
        )
        assert (billed.turns, billed.input_tokens, billed.output_tokens, billed.cost_usd) == (2, 11, 22, 0.75)
        assert (billed.cache_read_tokens, billed.cache_write_tokens, billed.reasoning_tokens) == (30, 40, 5)
        assert (counted.cost_source, counted.cost_usd, counted.counted) == (None, None, True)
        assert (reported.cost_source, reported.counted, reported.output_tokens) == ("reported", False, None)
        assert (silent.key, silent.turns, silent.input_tokens, silent.counted) == ("local", 1, None, False)

    def test_cached_tokens_are_never_counted_twice(self, store: Store, new_session: Make) -> None:
        within, beside = Usage(100, 1, 60, 30, cache_in_input=True), Usage(10, 1, 60, 30)
        odd = Usage(5, 1, 60, cache_in_input=True)
        store.import_session(new_session(), [self.turn(0, usage=within), self.turn(1, usage=beside), self.turn(2, usage=odd)])
        (usage,) = store.usage("agent")
        assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (20, 180, 60)

    def test_turns_that_failed_were_cancelled_or_broke_off_count(self, store: Store, new_session: Make) -> None:
        outcomes = [Outcome.FAILED, Outcome.CANCELLED, Outcome.INTERRUPTED, Outcome.ESCALATED, Outcome.COMPLETED]
        store.import_session(new_session(), [self.turn(index, outcome=outcome, usage=Usage(1, 1)) for index, outcome in enumerate(outcomes)])
        (usage,) = store.usage("agent")
        assert (usage.turns, usage.input_tokens) == (5, 5)

    def test_sums_by_model_session_and_day(self, store: Store, new_session: Make) -> None:
        store.import_session(
            new_session("s1", name="plan"),
            [
                self.turn(0, usage=Usage(1, 1), started_at=THEN, model_requested="opus", model_served="opus-4"),
                self.turn(1, usage=Usage(2, 2), started_at=THEN + MINUTE, model_requested="opus"),
            ],
        )
        store.import_session(new_session("s2"), [self.turn(0, usage=Usage(4, 4))])

        def by(key: UsageKey) -> dict[str | None, int | None]:
            return {usage.key: usage.input_tokens for usage in store.usage(key)}

        assert by("model") == {"opus-4": 1, "opus": 2, None: 4}
        assert by("day") == {"2025-12-31": 1, "2026-01-01": 2, None: 4}
        assert by("session") == {"s1": 3, "s2": 4}
        assert {usage.name for usage in store.usage("session")} == {"plan", None}

    def test_looks_at_one_workspace_one_session_or_since_a_time(self, store: Store, new_session: Make) -> None:
        store.import_session(new_session("s1"), [self.turn(0, usage=Usage(1, 1), started_at=THEN), self.turn(1, usage=Usage(2, 2), started_at=THEN + MINUTE)])
        store.import_session(new_session("s2", "/work/b"), [self.turn(0, usage=Usage(4, 4), started_at=THEN)])

        def summed(**where: object) -> int | None:
            (usage,) = store.usage("agent", **where)  # type: ignore[arg-type]
            return usage.input_tokens

        assert summed() == 7
        assert summed(workspace="/work/a/") == 3
        assert summed(session="s2") == 4
        assert summed(since=THEN + MINUTE) == 2
        assert store.usage("agent", workspace="/work/c") == []

    def test_a_turn_and_its_copies_count_once_for_the_session_it_was_taken_in(self, store: Store, new_session: Make) -> None:
        taken = [self.turn(index, usage=Usage(10**index, 1)) for index in range(3)]
        copies = [replace(turn, copied_from="s1") for turn in taken]
        store.import_session(new_session("s1", name="plan"), taken)
        store.import_session(new_session("s2"), [*copies, self.turn(3, usage=Usage(5000, 1))])
        store.import_session(new_session("s3"), copies)

        def by_session() -> dict[tuple[str | None, str | None], tuple[int, int | None]]:
            return {(usage.key, usage.name): (usage.turns, usage.input_tokens) for usage in store.usage("session")}

        whole = {("s1", "plan"): (3, 111), ("s2", None): (1, 5000)}
        assert by_session() == whole
        assert [usage.input_tokens for usage in store.usage("agent", session="s1")] == [111]
        assert [usage.input_tokens for usage in store.usage("agent", session="s2")] == [5000]
        assert store.usage("agent", session="s3") == []

        claim = store.claim("s1", "me", MINUTE)
        assert isinstance(claim, Claim)
        store.withdraw(claim, 1, store.find("s1", "/work/a"))
        store.release(claim)
        assert by_session() == whole
        assert [usage.input_tokens for usage in store.usage("agent", session="s1")] == [111]

        store.drop("s1", 3)
        assert by_session() == {("s1", None): (3, 111), ("s2", None): (1, 5000)}
        store.drop("s2", 4)
        assert by_session() == {("s1", None): (3, 111)}
        store.drop("s3", 3)
        assert by_session() == {}

    def test_turns_that_say_to_be_copies_of_each_other_count(self, store: Store, new_session: Make) -> None:
        for identity, other in (("s1", "s2"), ("s2", "s1"), ("s3", "s3")):
            store.import_session(new_session(identity), [self.turn(0, usage=Usage(1, 1), copied_from=other)])
        assert sum(usage.turns for usage in store.usage("agent")) == 3

    def test_a_usage_comes_back_as_it_was_stored(self, store: Store, new_session: Make) -> None:
        usage = Usage(0, 2, 3, cost_usd=0.0, cost_source="estimated", cache_in_input=True)
        store.import_session(new_session(), [self.turn(0, usage=usage)])
        turn = store.log("s1").get(0)
        assert turn is not None
        assert turn.usage == usage

    def test_reads_without_a_trace(self, opened: Opened, new_session: Make) -> None:
        assert opened(read_only=True).usage("agent") == []
        opened().import_session(new_session(), [self.turn(0, usage=Usage(1, 1))])
        assert [usage.turns for usage in opened(read_only=True).usage("day")] == [1]


class TestHealth:
    def test_a_sound_store_has_no_faults(self, opened: Opened, new_session: Make, completed: Completed) -> None:
        opened().import_session(new_session(), [completed(0), completed(1)])
        for health in (opened().check(60), opened(read_only=True).check(60)):
            assert (health.sessions, health.turns, health.faults, health.complete) == (1, 2, (), True)
            assert health.journal

    def test_where_there_is_no_store_yet_all_is_well(self, opened: Opened) -> None:
        health = opened(read_only=True).check(60)
        assert (health.sessions, health.turns, health.journal, health.faults, health.complete) == (0, 0, "", (), True)


class TestReading:
    def test_a_store_that_is_not_there_is_empty(self, opened: Opened) -> None:
        reader = opened(read_only=True)
        assert (reader.list(None), reader.percepts(), reader.search("x", None)) == ([], [], [])
        with pytest.raises(NotFound):
            reader.find(None, "/work/a")

    def test_a_reader_sees_what_is_written_meanwhile(self, opened: Opened, new_session: Make, completed: Completed) -> None:
        reader = opened(read_only=True)
        assert not reader.list(None)
        store = opened()
        store.import_session(new_session("s1"), [completed(0)])
        assert reader.log("s1").count() == 1
        store.import_session(new_session("s2"), [completed(0)])
        store.close()
        assert len(reader.list(None)) == 2

    def test_a_reader_writes_nothing(self, opened: Opened, held: Held) -> None:
        session, claim = held(opened())
        reader = opened(read_only=True)
        for write in (
            lambda: reader.create(session),
            lambda: reader.claim("s1", "x", MINUTE),
            lambda: reader.save(claim, session),
            lambda: reader.drop("s1", 1_000_000),
            lambda: reader.learn(Percept("p", "c", "user")),
            lambda: reader.forget("p"),
            lambda: reader.mark_used(["p"], THEN),
        ):
            with pytest.raises(StoreReadOnly):
                write()
