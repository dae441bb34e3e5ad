"""One turn planned: its texts, and the history that fits beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.context.delivery import system_messages
from orchestrator.context.digest import digest_limits
from orchestrator.crew import Agent, Crew
from orchestrator.dispatch.heard import Heard, session_tools
from orchestrator.dispatch.own_tools import OWN_SCHEMAS
from orchestrator.errors import BudgetExceeded
from orchestrator.history.budget import Budget, PartName, corrected_tokens, estimate_request_tokens, limit_chars, measure_tools, request_text, require_room
from orchestrator.history.fit import Fitted, fit
from orchestrator.history.normalise import normalise
from orchestrator.history.ratio import text_since
from orchestrator.history.render import Viewer
from orchestrator.history.scope import Scope, scope_of
from orchestrator.hooks import Hooks
from orchestrator.memory.inject import Chosen
from orchestrator.messages import Message, Text
from orchestrator.modes import Decision, Facts, Mode
from orchestrator.percepts import Memory
from orchestrator.planning.case import Additions, Case, Expiry, Wish, brief_with, case_of
from orchestrator.planning.texts import NEW, Texts, Writer
from orchestrator.providers import Request, Timeouts
from orchestrator.routing import Choice, Route, RouteFacts, Rules
from orchestrator.session import Brief, Need, OneMore, Outcome, Reason, Role, Session, State, Turn, TurnLog, last_escalation_boundary
from orchestrator.standing import Standing
from orchestrator.tags import neutralise
from orchestrator.templates import Templates
from orchestrator.tools import Tool

NO_ADDITIONS = Additions()
"""The session alone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The next turn, as far as it can be known before it is taken."""

    index: int
    wish: Wish
    workspace: str
    standing: Standing
    route_facts: RouteFacts
    rules: Rules
    route: Route
    agent: Agent
    facts: Facts | None
    """What the decision looked at; `None` for a primary turn."""
    decision: Decision | None
    """`None` for a primary turn."""
    need: Need | None
    """As it is told in this turn, and stands after it."""
    brief: Brief | None
    texts: Texts
    chosen: Chosen
    scope: Scope
    fitted: Fitted
    budget: Budget
    request: Request
    tools: tuple[Tool, ...]
    """The plugins' tools that the request offers."""
    notices: tuple[str, ...]
    refit: Callable[[int | None, int, int], Request] = field(repr=False, compare=False)
    """The request within a limit, with room for so many characters of the running turn, so many of whose tool batches are not shown."""

    @property
    def mode(self) -> Mode | None:
        return None if self.decision is None else self.decision.mode

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why this mode or, for a primary turn, why this agent (page 2)."""
        return self.route.reasons if self.decision is None else self.decision.reasons


def plan_turn(
    session: Session,
    log: TurnLog,
    wish: Wish,
    *,
    crew: Crew,
    expiry: Expiry,
    templates: Templates,
    memory: Memory,
    explain: bool = False,
    workspace: str,
    now: datetime,
    additions: Additions = NO_ADDITIONS,
    loaded: bool = True,
    again: RouteFacts | None = None,
) -> Plan:
    """Load → who and which mode → memory → context → history that fits.

    `memory` is asked for what the agent may be told; with `explain`, also for why it is not told the rest.
    `again`: what this very turn was routed by, whose agent was called and said that its own conversation is gone (page 2).
    Raises `UsageError` for an empty prompt, `ConfigError` and `PluginError` for an agent that cannot be built,
    `BudgetExceeded` when what is never dropped is larger than the budget.
    """
    case = case_of(
        session,
        log,
        wish,
        crew=crew,
        expiry=expiry,
        memory=memory,
        explain=explain,
        workspace=workspace,
        now=now,
        additions=additions,
        loaded=loaded,
        again=again,
    )
    fitter = _Fitter(case, templates)
    done, limit = fitter.first_fit()
    return Plan(
        index=case.index,
        wish=case.wish,
        workspace=case.workspace,
        standing=case.stand,
        route_facts=case.route_facts,
        rules=case.rules,
        route=case.way,
        agent=case.agent,
        facts=case.facts,
        decision=case.decision,
        need=case.need,
        brief=case.brief,
        texts=done.texts,
        chosen=case.chosen,
        scope=fitter.scope,
        fitted=done.history,
        budget=Budget(limit, done.parts, corrected_tokens(estimate_request_tokens(done.request), case.ratio, new=fitter.new), case.ratio),
        request=done.request,
        tools=case.supplies.tools,
        notices=_notices(case),
        refit=lambda limit, running, batches: fitter.fit(limit, running, batches).request,
    )


Planner = Callable[[Session, TurnLog, Wish], Plan]
"""`plan_turn` with everything else given."""


def through_rules(plan: Plan, log: TurnLog, planner: Planner) -> Plan:
    """The plan of what is sent next: where a rule hands the turn over before its agent is called, that is the escalation turn which follows."""
    if plan.route.brief is None:
        return plan
    before, brief = plan.standing.session, brief_with(plan.brief, plan.route.brief)
    turn = Turn(plan.index, plan.route.role, plan.agent.name, plan.wish.prompt, outcome=Outcome.ESCALATED, reasons=plan.reasons, routing=plan.reasons)
    after = planner(replace(before, state=State.ROUTING, brief=Brief(brief, "primary")), OneMore(log, turn), handed_on(plan.wish, plan, brief))
    said = f"{plan.agent.name!r} would hand over turn {plan.index} without being asked ({plan.reasons[0].rule}); this is the escalation turn that follows"
    return replace(after, notices=(said, *after.notices))


def handed_on(wish: Wish, plan: Plan, brief: str) -> Wish:
    """What is wished for after the primary gave its turn away, by itself or by a rule."""
    agent, rule = plan.agent.name, plan.route.reasons[0]
    by_rule = Reason(rule.rule, f"{rule.detail}; {agent!r} handed over in turn {plan.index}")
    reason = by_rule if plan.route.brief is not None else Reason("self_escalation", f"{agent!r} handed over in turn {plan.index}")
    return replace(wish, choice=Choice(handed_over=reason), reason=brief, reason_by="primary", continues=plan.index)


def revised(wish: Wish, brief: str) -> Wish:
    """With the brief as the user has written it."""
    return replace(wish, reason=brief, reason_by="user")


@dataclass(frozen=True, slots=True)
class _Fit:
    """A request that fits, and what it was made from."""

    texts: Texts
    history: Fitted
    parts: Mapping[PartName, int]
    request: Request


class _Fitter:
    """Fits one case into its agent's budget: when it is planned, and again when the running turn takes room of its own."""

    def __init__(self, case: Case, templates: Templates) -> None:
        self._case, self._capabilities = case, case.agent.provider.capabilities
        self._boundary = last_escalation_boundary(case.log)
        self.scope = scope_of(case.mode, keeps_conversation=case.keeps_conversation, boundary=self._boundary)
        window = self._capabilities.context_window_tokens
        assumed = limit_chars(case.agent.limits, window)
        told = [text.text for text in (case.need, case.brief) if text is not None]
        self.new = "".join([case.wish.prompt, *told, text_since(case.log, case.ratio, most=assumed or 0)])
        """What the measured ratio says nothing about."""
        self._limits = limit_chars(case.agent.limits, window, case.ratio, new=self.new), assumed
        said = [tool.schema for tool in session_tools(Heard(), hands_over=case.hands_over)]
        self._tools = (*said, *OWN_SCHEMAS, *(tool.schema for tool in case.supplies.tools)) if case.takes_tools else ()
        self._tools_chars = measure_tools(self._tools)
        self._writer = Writer(case, templates, self.scope, self._boundary)

    def first_fit(self) -> tuple[_Fit, int | None]:
        """With the limit that it fits. A measured ratio says how much history there is room for; it never keeps a turn from being sent."""
        measured, assumed = self._limits
        try:
            return self.fit(measured), measured
        except BudgetExceeded:
            if measured is None or assumed is None or assumed <= measured:
                raise
        return self.fit(assumed), assumed

    def fit(self, limit: int | None, running: int = 0, batches: int = 0) -> _Fit:
        """Build the texts, with digests that shrink before the turn is refused for its size, then fit the history to what is left.

        `running` characters are already taken by what the turn has done so far, of which `batches` are not shown.
        """
        room = None if limit is None else limit - running
        digests = digest_limits(self._case.agent.limits.context_budget_chars, limit)
        line = 0
        while True:
            digests, texts = self._shrunk(digests, None if room is None else room - line, batches)
            reserve = self._writer.line_chars(texts)
            history = self._history(require_room(self._parts(texts), room, self._case.agent.name), reserve)
            if history.left_out_for_budget:
                texts = self._writer.texts(digests, not_shown=history.dropped.count_not_shown, batches=history.batches_left_out + batches)
            parts = {**self._parts(texts), "history": history.chars}
            if line or room is None or sum(parts.values()) <= room:
                break
            line = reserve  # it has no room beside what is never dropped, of which it is one now
        require_room(parts, room, self._case.agent.name)
        return _Fit(texts, history, parts, self._request(texts, history))

    def _shrunk(self, digests: int | None, room: int | None, batches: int) -> tuple[int | None, Texts]:
        """The texts with the largest digests, of those halved again and again, that leave no part without room; else with none."""
        texts = self._writer.texts(digests, batches=batches)
        while room is not None and sum(self._parts(texts).values()) > room and digests != 0:
            digests = min(len(texts.orientation), digests or len(texts.orientation)) // 2
            texts = self._writer.texts(digests, batches=batches)
        return digests, texts

    def _parts(self, texts: Texts) -> dict[PartName, int]:
        return texts.parts(self._tools_chars)

    def _history(self, available: int | None, reserve: int) -> Fitted:
        case = self._case
        return fit(
            case.log,
            self.scope,
            Viewer(case.agent.name, case.agent.provider.model, clean=neutralise),
            profile=self._capabilities.profile,
            available=available,
            reserve=reserve,
            returning_boundary=self._boundary if case.mode is Mode.RETURNING else None,
            continuing=case.wish.continues,
            weighed=case.agent.weighed,
        )

    def _request(self, texts: Texts, history: Fitted) -> Request:
        case, limits = self._case, self._case.agent.limits
        prompt = Message("user", (Text(texts.prompt),))
        return Request(
            agent=case.agent.name,
            system=() if case.keeps_conversation else system_messages(texts.static, orientation=texts.orientation, percepts=texts.percepts),
            messages=normalise((*history.messages, prompt), self._capabilities.profile),
            tools=self._tools,
            conversation=texts.conversation,
            workspace=case.workspace,
            session=case.stand.session.id,
            unaccepted=case.supplies.unaccepted,
            timeouts=Timeouts(limits.first_byte_timeout, limits.idle_timeout, limits.turn_timeout),
        )


def _notices(case: Case) -> tuple[str, ...]:
    """What the user should know about this plan."""
    notices = []
    if case.lost_memory:
        notices.append(f"{case.agent.name!r} lost its own memory of this conversation; it is told what happened and starts afresh")
    if case.wish.fresh and case.way.role is Role.PRIMARY:
        notices.append(f"--fresh starts an escalation agent afresh; {case.agent.name!r}, the primary, goes on as it is")
    if case.stand.waiting_lapsed:
        notices.append("nobody replied to the open question in time; it lapsed")
    if case.rules.classifier and case.route_facts.is_open and case.way.role is Role.PRIMARY and case.keeps_conversation:
        notices.append(f"routing.classifier asks nobody: {case.agent.name!r} keeps its own conversation, and cannot be asked beside it")
    return (*notices, *case.supplies.problems)


def counted(plan: Plan, hooks: Hooks) -> Plan:
    """The plan with a plugin's count of its tokens, where one has it, in the place of our estimate."""
    given = hooks.count_tokens(kind=plan.agent.kind, model=plan.agent.provider.model, text=lambda: request_text(plan.request))
    budget = plan.budget
    for plugin, tokens in given.values:
        budget = replace(budget, tokens_estimate=tokens, counted_by=plugin.label)
    return replace(plan, budget=budget, notices=(*plan.notices, *given.notices))


def started(plan: Plan, new_id: str) -> Plan:
    """The plan with the id that its external session gets, where it starts one."""
    conversation = plan.request.conversation
    if conversation is None or conversation.id != NEW:
        return plan
    return replace(plan, request=replace(plan.request, conversation=replace(conversation, id=new_id)))
