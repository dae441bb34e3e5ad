"""What the next turn would be and would send: everything that is decided before anything is done (page 2).

Pure: reads the session, its log and the percepts it is given; opens, writes and sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from orchestrator.context.delivery import context_block, delivered_marks, new_percepts, system_blocks, system_messages, system_text
from orchestrator.context.digest import digest_limits, escalation_since, primary_activity, prior_escalation
from orchestrator.context.orientation import NOT_SHOWN_CHARS, OpenQuestion, Situation, brief_of, orientation
from orchestrator.context.static import static_blocks
from orchestrator.crew import Agent, Crew
from orchestrator.dispatch.heard import Heard, session_tools
from orchestrator.errors import UsageError
from orchestrator.history.budget import PART_OVERHEAD, Budget, PartName, estimate_request_tokens, limit_chars, measure_text, measure_tools, require_room
from orchestrator.history.fit import Fitted, fit
from orchestrator.history.normalise import normalise
from orchestrator.history.ratio import ASSUMED, Ratio, ratio_of
from orchestrator.history.render import Viewer
from orchestrator.history.scope import Scope, scope_of
from orchestrator.memory.inject import Chosen, choose, format_percepts, format_tool_percepts
from orchestrator.messages import Message, Text, well_formed
from orchestrator.modes import Decision, Flags, Mode, decide, facts_of, lost_reason, resumable_session
from orchestrator.percepts import Percept
from orchestrator.providers import Conversation, Request, SystemBlock, Timeouts, ToolSchema
from orchestrator.routing import Choice, Route, route
from orchestrator.session import (
    Brief,
    EarlierTurns,
    ExternalSession,
    Need,
    Reason,
    Role,
    Session,
    TurnLog,
    last_escalation_boundary,
    need_label,
    set_need,
)
from orchestrator.standing import Standing, standing
from orchestrator.tags import neutralise
from orchestrator.templates import Templates

NEW = "<new>"
"""Stands in a plan for an id that the real turn makes (page 6)."""
BRIEF_LENGTH = 280
QUESTION_CHARS = (300, 4000)
"""How much is told of an answer that ends with an open question, at least and at most."""
LOST = frozenset({"external_session_missing", "external_session_lost"})
"""Reasons with which an agent has lost its own memory of the conversation."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for."""

    prompt: str
    choice: Choice = field(default_factory=Choice)
    reason: str | None = None
    """The brief: why the turn is handed over."""
    reason_by: Literal["user", "primary"] = "user"
    fresh: bool = False
    continues: int | None = None
    """The primary turn that handed over, whose prompt this is."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """Hours after which needs and open questions lapse; 0 = never (page 1)."""

    need_hours: float = 24
    waiting_hours: float = 24


@dataclass(frozen=True, slots=True)
class Texts:
    """Every text of a turn but the history."""

    static: tuple[SystemBlock, ...]
    orientation: str
    percepts: str
    tool_percepts: str
    prompt: str
    """What stands in the user message: the prompt, for agents without their own conversation after the facts from tool output."""
    conversation: Conversation | None
    delivered: Mapping[str, Any]
    """What an own conversation has been told once this turn is done."""
    told: tuple[Percept, ...]
    """The percepts that stand in these texts: of those chosen, what an own conversation was not told before."""

    @property
    def blocks(self) -> tuple[SystemBlock, ...]:
        """The system texts by name, whatever the delivery."""
        return system_blocks(self.static, orientation=self.orientation, percepts=self.percepts)


@dataclass(frozen=True, slots=True)
class Plan:
    """The next turn, as far as it can be known before it is taken."""

    index: int
    wish: Wish
    workspace: str
    standing: Standing
    route: Route
    agent: Agent
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
    notices: tuple[str, ...]
    refit: Callable[[int, int], Request] = field(repr=False, compare=False)
    """The request with room for so many characters of the running turn, so many of whose tool batches are not shown."""

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
    percepts: Sequence[Percept],
    workspace: str,
    now: datetime,
    loaded: bool = True,
    conversation_lost: bool = False,
) -> Plan:
    """Load → who and which mode → memory → context → history that fits.

    `conversation_lost`: the agent was called for this turn and said that its own conversation is gone (page 2).
    Raises `UsageError` for an empty prompt, `ConfigError` and `PluginError` for an agent that cannot be built,
    `BudgetExceeded` when what is never dropped is larger than the budget.
    """
    wish = replace(wish, prompt=_said(wish.prompt))
    stand = standing(session, log, now=now, need_expiry_hours=expiry.need_hours, waiting_expiry_hours=expiry.waiting_hours, loaded=loaded)
    asking = None if stand.asking is None else stand.asking.agent
    way = route(wish.choice, asking_agent=asking, primary=crew.primary, escalation=crew.escalation, configured=crew.names)
    agent = crew.agent(way.agent)
    if conversation_lost and way.role is Role.PRIMARY:
        way = replace(way, reasons=(*way.reasons, lost_reason(agent.name)))
    decision = _decided(stand, log, way, agent, workspace=workspace, fresh=wish.fresh, conversation_lost=conversation_lost)
    chosen = choose(percepts, agent=agent.name, role=way.role, workspace=workspace, limits=agent.limits)
    need, brief = _told_need(stand, log, wish, now), _brief(stand, wish, decision)
    case = _Case(log, log.next_index, wish, workspace, stand, way, agent, decision, chosen, need, brief, _ratio(log, way, agent))
    return _fitted(case, crew, templates)


def _said(prompt: str) -> str:
    if not prompt.strip():
        raise UsageError("the prompt is empty", hint="give it as an argument, or pipe it in")
    return well_formed(prompt)


def _decided(stand: Standing, log: TurnLog, way: Route, agent: Agent, *, workspace: str, fresh: bool, conversation_lost: bool) -> Decision | None:
    if way.role is Role.PRIMARY:
        return None
    facts = facts_of(
        stand.session,
        log,
        need=stand.session.need,
        state=stand.session.state,
        agent=agent.name,
        keeps_conversation=agent.provider.capabilities.keeps_conversation,
        workspace=workspace,
        config_dir=agent.config_dir,
        conversation_lost=conversation_lost,
    )
    return decide(facts, agent.limits, Flags(fresh=fresh))


def _told_need(stand: Standing, log: TurnLog, wish: Wish, now: datetime) -> Need | None:
    """A self-escalation without a need makes its prompt the need of the escalation turn itself (page 1)."""
    if stand.session.need is not None or wish.continues is None:
        return stand.session.need
    return set_need(None, wish.prompt.strip()[:BRIEF_LENGTH], turn_index=log.next_index, during=True, now=now, source="self-escalation")


def _brief(stand: Standing, wish: Wish, decision: Decision | None) -> Brief | None:
    """A reason that is given now, else the one that still stands, else on `first` the head of the prompt."""
    if wish.reason and wish.reason.strip():
        return Brief(well_formed(wish.reason.strip()), wish.reason_by)
    if stand.session.brief is not None or decision is None or decision.mode is not Mode.FIRST:
        return stand.session.brief
    return Brief(brief_of(wish.prompt), "prompt")


def _ratio(log: TurnLog, way: Route, agent: Agent) -> Ratio:
    """An agent that keeps its own conversation reads more than what it is sent: nothing can be measured by that."""
    provider = agent.provider
    return ASSUMED if provider.capabilities.keeps_conversation else ratio_of(log, role=way.role, agent=agent.name, model=provider.model)


@dataclass(frozen=True, slots=True)
class _Case:
    """What was decided about one turn, before its texts are built."""

    log: TurnLog
    index: int
    wish: Wish
    workspace: str
    stand: Standing
    way: Route
    agent: Agent
    decision: Decision | None
    chosen: Chosen
    need: Need | None
    brief: Brief | None
    ratio: Ratio

    @property
    def mode(self) -> Mode | None:
        return None if self.decision is None else self.decision.mode

    @property
    def keeps_conversation(self) -> bool:
        return self.agent.provider.capabilities.keeps_conversation

    @property
    def lost_memory(self) -> bool:
        """Whether the agent has lost its own memory of the conversation."""
        return any(reason.rule in LOST for reason in (self.way.reasons if self.decision is None else self.decision.reasons))

    @property
    def external(self) -> ExternalSession | None:
        """The external session that this turn goes on in; a primary's is never stale (page 2)."""
        if not self.keeps_conversation or self.lost_memory or self.mode in (Mode.FIRST, Mode.FRESH_START):
            return None
        own = [known for known in self.stand.session.external_sessions if known.agent == self.agent.name and known.turn_index is not None]
        return resumable_session(own, self.workspace, self.agent.config_dir)


def _fitted(case: _Case, crew: Crew, templates: Templates, *, running: int = 0, batches: int = 0) -> Plan:
    """Build the texts, with digests that shrink before the turn is refused for its size, then fit the history to what is left.

    `running` characters are already taken by what the turn has done so far, of which `batches` are not shown.
    """
    capabilities = case.agent.provider.capabilities
    boundary = last_escalation_boundary(case.log)
    scope = scope_of(case.mode, keeps_conversation=case.keeps_conversation, boundary=boundary)
    limit = limit_chars(case.agent.limits, capabilities.context_window_tokens, case.ratio.chars_per_token)
    tools = tuple(tool.schema for tool in session_tools(Heard(), hands_over=_hands_over(case, crew))) if _takes_tools(case.agent) else ()
    room = None if limit is None else limit - running
    digests = digest_limits(case.agent.limits.context_budget_chars, limit)
    writer = _Writer(case, crew, templates, scope, boundary)
    line = 0
    while True:
        digests, texts = _shrunk(writer, digests, tools, None if room is None else room - line, batches)
        parts = _parts(texts, measure_tools(tools))
        reserve = writer.line_chars(texts)
        fitted = fit(
            case.log,
            scope,
            Viewer(case.agent.name, case.agent.provider.model, clean=neutralise),
            profile=capabilities.profile,
            available=require_room(parts, room, case.agent.name),
            reserve=reserve,
            returning_boundary=boundary if case.mode is Mode.RETURNING else None,
            continuing=case.wish.continues,
        )
        if fitted.left_out_for_budget:
            texts = writer.texts(digests, not_shown=fitted.dropped.count_not_shown, batches=fitted.batches_left_out + batches)
            parts = _parts(texts, measure_tools(tools))
        if line or room is None or sum(parts.values()) + fitted.chars <= room:
            break
        line = reserve  # it has no room beside what is never dropped, of which it is one now
    require_room({**parts, "history": fitted.chars}, room, case.agent.name)
    prompt = Message("user", (Text(texts.prompt),))
    request = Request(
        agent=case.agent.name,
        system=() if case.keeps_conversation else system_messages(texts.static, orientation=texts.orientation, percepts=texts.percepts),
        messages=normalise((*fitted.messages, prompt), capabilities.profile),
        tools=tools,
        conversation=texts.conversation,
        workspace=case.workspace,
        session=case.stand.session.id,
        timeouts=Timeouts(case.agent.limits.first_byte_timeout, case.agent.limits.idle_timeout, case.agent.limits.turn_timeout),
    )
    return Plan(
        index=case.log.next_index,
        wish=case.wish,
        workspace=case.workspace,
        standing=case.stand,
        route=case.way,
        agent=case.agent,
        decision=case.decision,
        need=case.need,
        brief=case.brief,
        texts=texts,
        chosen=case.chosen,
        scope=scope,
        fitted=fitted,
        budget=Budget(limit, {**parts, "history": fitted.chars}, case.ratio.corrected(estimate_request_tokens(request)), case.ratio),
        request=request,
        notices=_notices(case),
        refit=lambda running, batches: _refitted(case, crew, templates, running, batches),
    )


def _refitted(case: _Case, crew: Crew, templates: Templates, running: int, batches: int) -> Request:
    """From the log as it stood when the turn was planned: the turn itself has been opened since."""
    case = replace(case, log=EarlierTurns(case.log, case.index))
    return _fitted(case, crew, templates, running=running, batches=batches).request


def _shrunk(writer: _Writer, digests: int | None, tools: Sequence[ToolSchema], room: int | None, batches: int) -> tuple[int | None, Texts]:
    """The texts with the largest digests, of those halved again and again, that leave no part without room; else with none."""
    texts = writer.texts(digests, batches=batches)
    while room is not None and sum(_parts(texts, measure_tools(tools)).values()) > room and digests != 0:
        digests = min(len(texts.orientation), digests or len(texts.orientation)) // 2
        texts = writer.texts(digests, batches=batches)
    return digests, texts


def _takes_tools(agent: Agent) -> bool:
    """Whether the agent is offered tools; where not, it says by tag what they are for."""
    return agent.provider.capabilities.takes_tools and agent.limits.max_tool_iterations != 0


def _hands_over(case: _Case, crew: Crew) -> bool:
    """Whether the agent can give the turn away: a primary, to an escalation agent that there is."""
    return case.way.role is Role.PRIMARY and crew.escalation is not None


def _parts(texts: Texts, tools: int) -> dict[PartName, int]:
    """The sizes of everything that is never dropped; each text counts once, wherever it is sent."""
    facts = len(texts.tool_percepts)
    if texts.conversation is None:
        static = measure_text("\n\n".join(block.text for block in texts.static))
        percepts, prompt = measure_text(texts.percepts) + facts, measure_text(texts.prompt) - facts
        return {"system": static, "orientation": measure_text(texts.orientation), "percepts": percepts, "tools": tools, "prompt": prompt}
    orientation, percepts = len(texts.orientation), len(texts.percepts) + facts
    system = len(texts.conversation.system_text) + len(texts.conversation.context_block) - orientation - percepts
    return {"system": system, "orientation": orientation, "percepts": percepts, "tools": tools, "prompt": measure_text(texts.prompt)}


class _Writer:
    """Writes the texts of one case, for any size of the digests."""

    def __init__(self, case: _Case, crew: Crew, templates: Templates, scope: Scope, boundary: int) -> None:
        self._case, self._templates, self._boundary = case, templates, boundary
        self._in_scope: Callable[[int], bool] = lambda index: scope.name != "none" and index >= scope.start
        other = crew.primary if case.way.role is Role.ESCALATION else crew.escalation
        self._static = static_blocks(
            templates,
            role=case.way.role,
            hands_over=_hands_over(case, crew),
            agent=case.agent.name,
            other_agents=[other] if other and other != case.agent.name else [],
            takes_tools=_takes_tools(case.agent),
            takes_tags=case.agent.provider.capabilities.takes_tags,
            nonce=case.stand.session.nonce,
            agent_prompt=case.agent.prompt,
        )

    def texts(self, digests: int | None, *, not_shown: int = 0, batches: int = 0) -> Texts:
        case = self._case
        nonce = case.stand.session.nonce
        activity = primary_activity(case.log, boundary=self._away_since, nonce=nonce, limit=digests, sent=self._in_scope)
        prior = self._prior(digests)
        told = orientation(self._templates, self._situation(activity, prior, digests), not_shown=not_shown, batches=batches)
        percepts = self._percepts()
        block, tool_block = format_percepts(percepts, self._templates), format_tool_percepts(percepts, self._templates)
        prompt = neutralise(case.wish.prompt)
        if not case.keeps_conversation:
            return Texts(self._static, told, block, tool_block, "\n\n".join(text for text in (tool_block, prompt) if text), None, {}, percepts)
        delivered = delivered_marks(self._delivered, primary_activity=activity, prior_escalation=prior, percepts=[percept.id for percept in percepts])
        return Texts(self._static, told, block, tool_block, prompt, self._conversation(told, block, tool_block), delivered, percepts)

    def _prior(self, limit: int | None) -> str:
        """What the escalation agent did: to a primary that remembers, everything since its own last turn (page 2)."""
        case = self._case
        nonce = case.stand.session.nonce
        if case.way.role is Role.PRIMARY and case.external is not None:
            return escalation_since(case.log, start=self._away_since, nonce=nonce, limit=limit, sent=self._in_scope)
        return prior_escalation(case.log, nonce=nonce, limit=limit, sent=self._in_scope)

    def line_chars(self, texts: Texts) -> int:
        """What the line about turns that are not shown adds to these texts at most; one of the user's own may be longer than ours."""
        count = max(1, self._case.log.next_index)
        line = 2 + len(self._templates.render("not_shown", count=count, batches=count))
        return max(NOT_SHOWN_CHARS, line) + (0 if texts.orientation.strip() else PART_OVERHEAD)

    @property
    def _away_since(self) -> int:
        """From where on others' work is told: the last escalation turn or, to a primary that remembers, its own last turn."""
        external = self._case.external if self._case.way.role is Role.PRIMARY else None
        return self._boundary if external is None or external.turn_index is None else external.turn_index + 1

    @property
    def _delivered(self) -> Mapping[str, Any]:
        return self._case.external.delivered if self._case.external is not None else {}

    def _percepts(self) -> tuple[Percept, ...]:
        """All of them, but for an agent that goes on in its own conversation: those it was not told yet (page 2)."""
        goes_on = self._case.external is not None and self._case.mode is not Mode.RETURNING
        return new_percepts(self._case.chosen.sent, self._delivered) if goes_on else self._case.chosen.sent

    def _conversation(self, told: str, percepts: str, tool_percepts: str) -> Conversation:
        external = self._case.external
        if external is None:
            system = system_text(self._templates, self._static, orientation=told, percepts=percepts)
            return Conversation("start", NEW, system, context_block(self._templates, tool_percepts=tool_percepts))
        system = external.system_text or system_text(self._templates, self._static, orientation="", percepts="")
        block = context_block(self._templates, orientation=told, percepts=percepts, tool_percepts=tool_percepts)
        return Conversation("resume", external.id, system, block, external.model)

    def _situation(self, activity: str, prior: str, digests: int | None) -> Situation:
        case = self._case
        stand, need = case.stand, case.need
        previous = stand.previous_goal
        return Situation(
            mode=case.mode,
            agent=case.agent.name,
            keeps_conversation=case.keeps_conversation,
            prompt=case.wish.prompt,
            need=None if need is None else need.text,
            need_status="none" if need is None else "set",
            need_label="current" if need is None else need_label(need, case.log.next_index),
            previous_need=None if previous is None else previous.text,
            brief=None if case.brief is None else case.brief.text,
            brief_given=case.brief is not None and case.brief.source != "prompt" and not case.brief.carried,
            open_question=self._open_question(digests),
            lost_session=case.lost_memory,
            primary_activity=activity,
            prior_escalation=prior,
            delivered=self._delivered,
        )

    def _open_question(self, digests: int | None) -> OpenQuestion | None:
        """The end of the answer that asks: it shrinks with the digests, the question itself comes last in it."""
        asking = self._case.stand.asking
        if asking is None or self._case.way.role is Role.PRIMARY or asking.agent == self._case.agent.name:
            return None
        room = QUESTION_CHARS[1] if digests is None else min(max(digests, QUESTION_CHARS[0]), QUESTION_CHARS[1])
        return OpenQuestion(asking.agent, asking.answer if len(asking.answer) <= room else f"[…] {asking.answer[-room:]}")


def _notices(case: _Case) -> tuple[str, ...]:
    """What the user should know about this plan."""
    notices = []
    if case.lost_memory:
        notices.append(f"{case.agent.name!r} lost its own memory of this conversation; it is told what happened and starts afresh")
    if case.wish.fresh and case.way.role is Role.PRIMARY:
        notices.append(f"--fresh starts an escalation agent afresh; {case.agent.name!r}, the primary, goes on as it is")
    if case.stand.waiting_lapsed:
        notices.append("nobody replied to the open question in time; it lapsed")
    return tuple(notices)


def started(plan: Plan, new_id: str) -> Plan:
    """The plan with the id that its external session gets, where it starts one."""
    conversation = plan.request.conversation
    if conversation is None or conversation.id != NEW:
        return plan
    return replace(plan, request=replace(plan.request, conversation=replace(conversation, id=new_id)))
