"""One session across the turns of a chat: who is pinned, what other processes did, and taking turns back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from orchestrator.cli.front import Front
from orchestrator.cli.plan import EXAMPLE, unborn
from orchestrator.crew import Crew
from orchestrator.dispatch.desk import Shown, Watch
from orchestrator.errors import EscaleraError, NotFound
from orchestrator.escalation import Workplace, begin_session, take_turn
from orchestrator.facts import Told, told_to
from orchestrator.needs import Change, change_need, need_document, stand_of
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import Plan, counted, plan_turn, through_rules
from orchestrator.providers import Ask, Cancel
from orchestrator.quoting import one_line
from orchestrator.recording import Report
from orchestrator.routing import Choice, Pin, Route, RouteFacts, Rules, route
from orchestrator.session import TOLD, Outcome, Role, Session, State, Turn, TurnList, TurnLog, used_tools
from orchestrator.sessions import all_turns, begun, forked, fresh_session, held_session
from orchestrator.settings.resolution import Settings
from orchestrator.spending import Spending, total
from orchestrator.store import Store
from orchestrator.undo import last_exchange, session_without

if TYPE_CHECKING:
    from orchestrator.documents.kinds.sessions import NeedDocument


EASY, EASY_TURNS = 600, 3
"""Characters of prompt and answer together of a turn that asked little, and how many in a row are worth a hint."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the line below a chat tells."""

    session: str
    agent: str
    """Who gets the next turn unless something else is said."""
    pinned: bool
    state: State
    need: str | None
    spent: Spending | None
    """`None` before the first turn."""
    asked: int = 0
    """Questions of agents in this session that are open."""
    elsewhere: int = 0
    """Those of other sessions."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """The last turn of ours: where it stood, and the headers with which it began and ended."""

    index: int
    before: Session
    after: Session


class Conversation:
    """A session that many turns of this process are taken in. It is held only while one runs, so that others can come between."""

    def __init__(self, front: Front, store: Store, session: Session | None, *, name: str | None = None, first: bool = False) -> None:
        """`session` is a stored one, or `None` for one that the first turn begins, as the `first` of its workspace or one more."""
        self._root, self.store, self._first = front, store, first
        self.session = session or fresh_session(front, name)
        self.is_stored = session is not None
        self.pin: Pin | None = None
        self.fresh = False
        """Whether the next escalation turn starts afresh."""
        self.last: Report | None = None
        """The last turn that this process took in the session."""
        self._taken: _Taken | None = None
        self._loaded = True
        self._easy = 0
        self._kept: tuple[Settings, str, Crew] | None = None
        self._seen = self._end()
        """The index after the last turn that the user was shown or told of."""
        self.lock = threading.Lock()
        """To be held by whoever has something done here: one at a time."""

    @property
    def front(self) -> Front:
        """With the settings that count where the session belongs."""
        return self._root.at(self.session.workspace)

    # -- turns -------------------------------------------------------------------------------------

    def take(self, wish: Wish, *, cancel: Cancel, ask: Ask, watch: Watch) -> Report:
        """One turn, with the settings as they are by now. Raises what keeps it from coming to be."""
        self.front.refresh()
        place = self._place()
        wish = replace(wish, choice=replace(wish.choice, pinned=self.pin), fresh=wish.fresh or self.fresh)
        self._begin(place, wish)
        before, index = self.header(), self._log().next_index

        def watched(shown: Shown) -> None:
            if shown.type == "turn_started":  # from here on the session is ours, and so is this turn
                self.tell_news()
                self._seen = cast("int", shown.data["turn"]) + 1
            watch(shown)

        report = take_turn(place, self.session.id, wish, cancel=cancel, ask=ask, watch=watched, loaded=self._loaded)
        self._loaded = False
        self.fresh = self.fresh and report.turn.role is not Role.ESCALATION
        self.last, self.session = report, report.session
        begun_at = report.turn.index if report.escalated_from is None else report.escalated_from
        self._taken = _Taken(begun_at, before, report.session) if begun_at == index else None
        self._hint(report)
        return report

    def plan(self, prompt: str, choice: Choice | None = None) -> Plan:
        """What the next turn would be; calls nobody and writes nothing."""
        self.front.refresh()
        wish = Wish(prompt.strip() or EXAMPLE, replace(choice or Choice(), pinned=self.pin), fresh=self.fresh)
        crew = self.front.crew(self.session.workspace, with_secrets=False)
        if self._kept is not None and self._kept[0] is self.front.settings:
            crew.tool_servers = self._kept[2].tool_servers  # what they have is known by now
        with self.store.snapshot():
            session = self.header() if self.is_stored else unborn(self.session)
            project = self.front.project(session.workspace)
            planner = partial(
                plan_turn,
                crew=crew,
                expiry=self.front.expiry,
                templates=self.front.templates(project),
                memory=self.store.recall,
                explain=True,
                workspace=session.workspace,
                now=self.front.clock.now(),
                loaded=self._loaded,
                additions=self.front.additions(project),
            )
            log = self._log()
            plan = through_rules(planner(session, log, wish), log, planner)
        return counted(plan, self.front.hooks)

    # -- what is known -----------------------------------------------------------------------------

    def header(self) -> Session:
        """The session as it is stored now, or as it would be begun."""
        if self.is_stored:
            self.session = self.store.find(self.session.id, self.session.workspace)
        return self.session

    def last_turns(self) -> tuple[Turn, ...]:
        """The last turn, and before it the one that it goes on with."""
        return last_exchange(self._log())

    def standing(self) -> Standing:
        """As it is now, also after turns of other processes and changes of the settings."""
        with self.store.snapshot():
            session, log = self.header(), self._log()
            stand = stand_of(self.front, session, log, loaded=self._loaded)
            sums = self.store.usage("session", session=session.id) if self.is_stored else ()
            questions = self.store.questions(pending=True)
        prices = {agent.name: agent.prices for agent in self.front.settings.agents.values()}
        way = self._next(None if stand.asking is None else stand.asking.agent)
        here = sum(stored.question.session == session.id for stored in questions)
        return Standing(
            session=session.name or session.id[:8],
            agent="nobody" if way is None else way.agent,
            pinned=way is not None and any(reason.rule == "pinned" for reason in way.reasons),
            state=stand.session.state,
            need=None if stand.session.need is None else stand.session.need.text,
            spent=total(sums, prices) if sums else None,
            asked=here,
            elsewhere=len(questions) - here,
        )

    def need(self) -> NeedDocument:
        return need_document(self.front, self.header(), self._log(), loaded=self._loaded)

    def telling(self, agent: str, prompt: str, *, explain: bool = True) -> Told:
        """Which facts the agent would be told in the next turn, with that prompt; without one as far as the need says. And which not, if that is to be told."""
        with self.store.snapshot():
            log = self._log()
            stand = stand_of(self.front, self.header(), log, loaded=self._loaded)
            need = "" if stand.session.need is None else stand.session.need.text
            return told_to(self.front, self.store, agent, prompt or need, stand, log, explain=explain)

    def tell_news(self) -> None:
        """Say which turns other processes took since we looked last."""
        for turn in reversed(list(self._log().newest_first(outcomes=None, start=self._seen))):
            if turn.outcome is Outcome.OPEN:
                return
            self._seen = turn.index + 1
            self.front.output.notice(_news(turn))

    # -- changes -----------------------------------------------------------------------------------

    def change_need(self, change: Change, cancel: Cancel) -> None:
        """State, clear or restore the need; begins the session where there is none."""
        self._begin(None, None)
        self.session = change_need(self.front, self.store, self.session.id, change, loaded=self._loaded, cancel=cancel)

    def back_to_primary(self, cancel: Cancel) -> bool:
        """Leave an agent's question open no longer (page 1); whether one was."""
        if not self.is_stored or self.header().state is not State.WAITING:
            return False
        with held_session(self.front, self.store, self.session.id, cancel) as (claim, session):
            self.session = replace(session, state=State.ROUTING)
            self.store.save(claim, self.session)
        return True

    def undo(self, cancel: Cancel) -> tuple[tuple[Turn, ...], Session]:
        """Take the last turn out of the session: what left it, and the fork that keeps all. Raises `NotFound` where there is none."""
        if not self.is_stored:
            raise NotFound("there is no turn to undo")
        with held_session(self.front, self.store, self.session.id, cancel) as (claim, session):
            log = self.store.log(session.id)
            exchange = last_exchange(log)
            if not exchange:
                raise NotFound("there is no turn to undo")
            first = exchange[0].index
            known = self._taken if self._taken is not None and self._taken.index == first else None
            fork = forked(self.front, self.store, session, all_turns(log), self.store.receipts(session.id))
            self._forget_facts(session, first)
            self.session = session_without(
                exchange,
                session,
                log,
                now=self.front.clock.now(),
                before=None if known is None else known.before,
                after=None if known is None else known.after,
            )
            self.store.withdraw(claim, first, self.session)
            self.front.wires.forget(session.id, first)
        self._taken = self.last = None
        return exchange, fork

    def move(self, session: Session | None, *, name: str | None = None) -> None:
        """Go on in another session, or in a new one."""
        self.session = session or fresh_session(self._root, name)
        self.is_stored, self._first = session is not None, False
        self._taken, self.last, self._loaded, self.fresh = None, None, True, False
        self._seen = self._end()
        self.close()

    def close(self) -> None:
        """Let go of what the agents keep ready between two turns; none may run."""
        if self._kept is not None:
            self.front.let_go(self._kept[2])
            self._kept = None

    def _forget_facts(self, session: Session, first: int) -> None:
        """What was learned in turns that leave."""
        for percept in self.store.percepts(session=session.id):
            source = percept.source or {}
            if source.get("session") == session.id and isinstance(source.get("turn"), int) and source["turn"] >= first:
                with suppress(NotFound):
                    self.store.forget(percept.id)

    def _hint(self, report: Report) -> None:
        """Say, once, that a pinned escalation does what the primary could."""
        turn = report.turn
        pinned = turn.role is Role.ESCALATION and any(reason.rule == "pinned" for reason in report.plan.route.reasons)
        easy = pinned and turn.outcome in TOLD and not used_tools(turn) and len(turn.prompt or "") + len(turn.answer) <= EASY
        self._easy = self._easy + 1 if easy else 0
        if self._easy == EASY_TURNS:
            self.front.output.notice(f"the last {EASY_TURNS} turns were short and took no tools: the primary may do for such (/primary)")

    # -- within ------------------------------------------------------------------------------------

    def _begin(self, place: Workplace | None, wish: Wish | None) -> None:
        """Store a session that is not: refused where its first turn could not be sent."""
        if self.is_stored:
            return
        begin: Callable[[], None] = partial(self.store.create, self.session, first=self._first)
        if place is not None and wish is not None:
            begin = partial(begin_session, place, self.session, wish, first=self._first)
        self.session = begun(self.store, self.session, first=self._first, begin=begin)
        self.is_stored = True

    def _place(self) -> Workplace:
        """Where the next turn is taken: with the project's texts as they are now, and the same agents as long as the settings stay."""
        settings, workspace = self.front.settings, self.session.workspace
        if self._kept is not None and (self._kept[0] is not settings or self._kept[1] != workspace):
            self.close()
        place = self.front.workplace(self.store, workspace, long_lived=True, crew=None if self._kept is None else self._kept[2])
        self._kept = settings, workspace, place.crew
        return place

    def _log(self) -> TurnLog:
        return self.store.log(self.session.id) if self.is_stored else TurnList(())

    def _end(self) -> int:
        return self._log().next_index

    def _next(self, asking: str | None) -> Route | None:
        settings = self.front.settings
        primary, escalation = (settings.explain(role).value for role in ("primary", "escalation"))
        try:
            return route(RouteFacts(Choice(pinned=self.pin), asking, asking in settings.agents, primary, escalation), Rules())
        except EscaleraError:
            return None


def _news(turn: Turn) -> str:
    prompt = f"> {one_line(turn.prompt, 100)}" if turn.prompt is not None else f"(goes on with turn {turn.continues})"
    answer = f" — {one_line(turn.answer, 200)}" if turn.outcome in TOLD and turn.answer else f" — {turn.outcome.value}"
    return f"[another process took turn {turn.index} with {turn.agent}: {prompt}{answer}]"
