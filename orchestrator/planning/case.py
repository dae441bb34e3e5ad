"""What is decided about one turn before its texts are built: who takes it, in which mode, for which need, with which facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from orchestrator.attachments import without_attachments
from orchestrator.context.delivery import stated_marks
from orchestrator.context.orientation import brief_of
from orchestrator.crew import Agent, Crew
from orchestrator.errors import UsageError
from orchestrator.history.budget import limit_chars
from orchestrator.history.ratio import ASSUMED, Ratio, ratio_of
from orchestrator.hooks import NO_HOOKS, Given, Hooks
from orchestrator.hookspecs import Sensing
from orchestrator.mcp_client.servers import Offer
from orchestrator.memory.inject import Chosen, select
from orchestrator.messages import well_formed
from orchestrator.modes import Decision, Facts, Flags, Mode, decide, facts_of, lost_reason, own_sessions, resumable_session
from orchestrator.percepts import Memory
from orchestrator.plugins import PluginReport
from orchestrator.quoting import clipped
from orchestrator.repetition import asked_before
from orchestrator.routing import Choice, Route, RouteFacts, Rules, Sensed, route
from orchestrator.session import Brief, EarlierTurns, ExternalSession, Need, Role, Session, TurnLog, set_need
from orchestrator.settings.problems import did_you_mean, nearest
from orchestrator.standing import Standing, standing
from orchestrator.tools import Tool

BRIEF_LENGTH = 280
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
    files: tuple[tuple[str, bytes], ...] = ()
    """The files that go with the prompt, whose texts stand in it: name and content."""

    @property
    def said(self) -> str:
        """What the user said: the prompt without the files that go with it."""
        return without_attachments(self.prompt)


@dataclass(frozen=True, slots=True)
class Expiry:
    """Hours after which needs and open questions lapse; 0 = never (page 1)."""

    need_hours: float = 24
    waiting_hours: float = 24


@dataclass(frozen=True, slots=True)
class Additions:
    """What a turn is planned with beside the session itself: plugins, the rules of routing, the workspace's instructions."""

    hooks: Hooks = NO_HOOKS
    rules: Rules = field(default_factory=Rules)
    sensing: Sensing = field(default_factory=Sensing)
    project_instructions: str = ""
    """The workspace's AGENTS.md, where it is trusted, for agents that do not read it themselves."""
    unaccepted: tuple[str, ...] = ()
    """Files by which an agent's program would go on its own account, and which are not trusted."""
    client_prompt: str = ""
    """What the program that brings the prompt says to the agent beside it, as a client says it in its system message."""
    client_tools: tuple[Tool, ...] = ()
    """Tools of that program, which it runs itself."""


@dataclass(frozen=True, slots=True)
class Supplies:
    """What plugins and the project bring to one turn."""

    tools: tuple[Tool, ...] = ()
    """Those of the client, of plugins and MCP servers, which the agent is offered beside the session's own."""
    contributed: tuple[tuple[PluginReport, str], ...] = ()
    """What plugins tell it."""
    project_instructions: str = ""
    client_prompt: str = ""
    unaccepted: tuple[str, ...] = ()
    """What an agent that obeys the workspace runs without."""
    problems: tuple[str, ...] = ()
    """What plugins broke, and what is wrong with MCP servers."""


@dataclass(frozen=True, slots=True)
class Case:
    """What was decided about one turn, before its texts are built."""

    log: TurnLog
    index: int
    wish: Wish
    workspace: str
    stand: Standing
    route_facts: RouteFacts
    rules: Rules
    way: Route
    agent: Agent
    facts: Facts | None
    """What the decision looked at; `None` for a primary turn, which has none."""
    decision: Decision | None
    chosen: Chosen
    need: Need | None
    brief: Brief | None
    ratio: Ratio
    counterpart: str | None
    """The agent in the other role."""
    supplies: Supplies = field(default_factory=Supplies)

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
        """The external session that this turn goes on in."""
        if self.lost_memory or self.mode in (Mode.FIRST, Mode.FRESH_START):
            return None
        return _own_conversation(self.stand, self.log, self.agent, self.way.role, self.workspace)

    @property
    def delivered(self) -> Mapping[str, Any]:
        """What that has been told; empty without one."""
        return {} if self.external is None else self.external.delivered

    @property
    def takes_tools(self) -> bool:
        """Whether the agent is offered tools; where not, it says by tag what they are for."""
        return self.agent.takes_tools

    @property
    def hands_over(self) -> bool:
        """Whether the agent can give the turn away: a primary, to an escalation agent that there is."""
        return self.way.role is Role.PRIMARY and self.counterpart is not None


def delivered_before(stand: Standing, log: TurnLog, agent: Agent, role: Role, *, workspace: str) -> tuple[Mapping[str, Any], bool]:
    """What the conversation has been told that the agent's next turn would go on in, and whether it is told only what is new there.

    As in a `Case` of a turn that nobody asks to begin afresh.
    """
    mode = None
    if role is Role.ESCALATION:
        mode = decide(_facts(stand, log, agent, workspace=workspace, conversation_lost=False), agent.limits, Flags()).mode
    if mode in (Mode.FIRST, Mode.FRESH_START):
        return {}, False
    external = _own_conversation(stand, log, agent, role, workspace)
    return ({}, False) if external is None else (external.delivered, mode is not Mode.RETURNING)


def _own_conversation(stand: Standing, log: TurnLog, agent: Agent, role: Role, workspace: str) -> ExternalSession | None:
    """The agent's own one that could go on; a primary's is never stale (page 2)."""
    if not agent.provider.capabilities.keeps_conversation:
        return None
    return resumable_session(own_sessions(stand.session, log, agent.name, role), workspace, agent.config_dir)


def case_of(
    session: Session,
    log: TurnLog,
    wish: Wish,
    *,
    crew: Crew,
    expiry: Expiry,
    memory: Memory,
    explain: bool = False,
    workspace: str,
    now: datetime,
    additions: Additions,
    loaded: bool = True,
    again: RouteFacts | None = None,
) -> Case:
    """Load → who and which mode → memory. Raises as `plan_turn` does."""
    wish = replace(wish, prompt=_said(wish.prompt))
    stand = standing(session, log, now=now, need_expiry_hours=expiry.need_hours, waiting_expiry_hours=expiry.waiting_hours, loaded=loaded)
    sensed = _sensed(additions, wish, stand, log, crew, workspace) if again is None else _Sensed(again)
    way = route(sensed.facts, additions.rules)
    agent = crew.agent(way.agent)
    if way.asks_classifier and agent.provider.capabilities.keeps_conversation:
        way = replace(way, asks_classifier=False)
    if again is not None and way.role is Role.PRIMARY:
        way = replace(way, reasons=(*way.reasons, lost_reason(agent.name)))
    facts = _facts(stand, log, agent, workspace=workspace, conversation_lost=again is not None) if way.role is Role.ESCALATION else None
    decision = None if facts is None else decide(facts, agent.limits, Flags(fresh=wish.fresh))
    case = Case(
        log=EarlierTurns(log, log.next_index),
        index=log.next_index,
        wish=wish,
        workspace=workspace,
        stand=stand,
        route_facts=sensed.facts,
        rules=additions.rules,
        way=way,
        agent=agent,
        facts=facts,
        decision=decision,
        chosen=Chosen((), ()),
        need=_told_need(stand, log, wish, now),
        brief=_brief(stand, wish, decision),
        ratio=_ratio(log, way, agent),
        counterpart=crew.primary if way.role is Role.ESCALATION else crew.escalation,
    )
    supplies = _supplies(case, additions, sensed.problems, crew)
    return replace(case, chosen=_chosen(case, memory, explain=explain), supplies=supplies)


def _chosen(case: Case, memory: Memory, *, explain: bool) -> Chosen:
    """What the memory has for this turn, but for what this very agent said in the conversation that goes on."""
    agent, role, session = case.agent, case.way.role, case.stand.session
    return select(
        memory,
        agent=agent.name,
        role=role,
        workspace=case.workspace,
        session=session.id,
        limits=agent.limits,
        prompt=case.wish.said,
        need=None if case.need is None else case.need.text,
        stated=stated_marks(case.delivered),
        explain=explain,
    )


def _supplies(case: Case, additions: Additions, problems: tuple[str, ...], crew: Crew) -> Supplies:
    agent, role, workspace = case.agent, case.way.role, case.workspace
    client = additions.client_tools if case.takes_tools else ()
    taken = {tool.schema.name for tool in client}
    tools = additions.hooks.tools(agent=agent.name, role=role, workspace=workspace) if case.takes_tools else Given()
    ours = [tool for plugin, tool in tools.values if tool.schema.name not in taken and (not tool.on_request or agent.asks_for(tool.schema.name, plugin.name))]
    taken |= {tool.schema.name for tool in ours}
    offer = crew.offered(agent.name, room=_tool_room(agent), taken=taken) if case.takes_tools else Offer()
    unaccepted = additions.unaccepted if agent.provider.capabilities.obeys_workspace else ()
    unused = () if case.takes_tools or not additions.client_tools else (f"{agent.name!r} is offered none of the client's tools: it takes none",)
    contributed = additions.hooks.context(
        session=case.stand.session, turns=case.log, agent=agent.name, role=role, mode=case.mode, prompt=case.wish.prompt, workspace=workspace
    )
    return Supplies(
        tools=(*client, *ours, *offer.tools),
        contributed=contributed.values,
        project_instructions="" if case.keeps_conversation else additions.project_instructions,
        client_prompt=additions.client_prompt,
        unaccepted=unaccepted,
        problems=(*problems, *_without(agent, unaccepted), *unused, *tools.notices, *_not_there(agent, tools), *offer.problems, *contributed.notices),
    )


def _without(agent: Agent, unaccepted: Sequence[str]) -> Iterator[str]:
    if unaccepted:
        yield f"{agent.name!r} runs without what is not trusted: {', '.join(unaccepted)}. To see it and accept it as it is: escalera trust"


def _not_there(agent: Agent, tools: Given[Tool]) -> Iterator[str]:
    """What its settings ask for and nobody has."""
    if agent.extra_tools and not agent.takes_tools:
        yield f"agents.{agent.name}.extra_tools has no effect: {agent.name!r} takes no tools of Escalera's"
        return
    known = {name for plugin, tool in tools.values for name in (plugin.name, tool.schema.name)}
    for name in agent.extra_tools:
        if name not in known:
            yield f"agents.{agent.name}.extra_tools: no plugin has {name!r}{did_you_mean(nearest(name, known))}; `escalera plugins list` says what is installed"


def _tool_room(agent: Agent) -> int | None:
    """How many characters the tools of MCP servers may take together: a quarter of the budget, by what does not change from turn to turn."""
    limit = limit_chars(agent.limits, agent.provider.capabilities.context_window_tokens)
    return None if limit is None else limit // 4


@dataclass(frozen=True, slots=True)
class _Sensed:
    """What the routing looks at, and what plugins broke on the way."""

    facts: RouteFacts
    problems: tuple[str, ...] = ()


def _sensed(additions: Additions, wish: Wish, stand: Standing, log: TurnLog, crew: Crew, workspace: str) -> _Sensed:
    """The prompt is looked at only where that can decide something."""
    asking = None if stand.asking is None else stand.asking.agent
    facts = RouteFacts(wish.choice, asking, asking in crew.names, crew.primary, crew.escalation)
    if not facts.is_open:
        return _Sensed(facts)
    again = asked_before(wish.prompt, log, additions.rules.repeated_prompts)
    facts = replace(facts, repeats=None if again is None else again.index)
    if not additions.rules.threshold:
        return _Sensed(facts)
    given = additions.hooks.signals(prompt=wish.said, session=stand.session, turns=log, workspace=workspace, sensing=additions.sensing)
    return _Sensed(replace(facts, signals=tuple(Sensed(plugin.name, signal) for plugin, signal in given.values)), given.notices)


def _said(prompt: str) -> str:
    if not prompt.strip():
        raise UsageError("the prompt is empty", hint="give it as an argument, or pipe it in")
    return well_formed(prompt)


def _facts(stand: Standing, log: TurnLog, agent: Agent, *, workspace: str, conversation_lost: bool) -> Facts:
    return facts_of(
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


def _told_need(stand: Standing, log: TurnLog, wish: Wish, now: datetime) -> Need | None:
    """A self-escalation without a need makes its prompt the need of the escalation turn itself (page 1)."""
    if stand.session.need is not None or wish.continues is None:
        return stand.session.need
    return set_need(None, wish.said.strip()[:BRIEF_LENGTH], turn_index=log.next_index, during=True, now=now, source="self-escalation")


def _brief(stand: Standing, wish: Wish, decision: Decision | None) -> Brief | None:
    """A reason that is given now, else the one that still stands, else on `first` the head of the prompt."""
    if wish.reason and wish.reason.strip():
        return Brief(well_formed(wish.reason.strip()), wish.reason_by)
    if stand.session.brief is not None or decision is None or decision.mode is not Mode.FIRST:
        return stand.session.brief
    return Brief(brief_of(wish.said), "prompt")


_BRIEF_MAX = 8000
"""Characters: what a user and a primary may each say at once (4,000)."""


def brief_with(given: Brief | None, reason: str) -> str:
    """The primary's reason, and before it what was given before and no escalation turn has carried yet, the middle cut out where it gets long."""
    if given is None or given.source == "prompt" or given.carried:
        return reason
    if given.text.endswith(reason):
        return given.text
    return clipped(f"{given.text}\n\n{reason}", _BRIEF_MAX)


def _ratio(log: TurnLog, way: Route, agent: Agent) -> Ratio:
    """An agent that keeps its own conversation reads more than what it is sent: nothing can be measured by that."""
    provider = agent.provider
    return ASSUMED if provider.capabilities.keeps_conversation else ratio_of(log, role=way.role, agent=agent.name, model=provider.model)
