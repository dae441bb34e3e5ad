"""Facts that the user adds to the memory, and which of them an agent would be told, as commands and the server have it (page 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ConfigError, NotFound, UsageError
from orchestrator.messages import well_formed
from orchestrator.needs import stand_of
from orchestrator.percepts import CORE_WEIGHT, MAX_CONTENT, Edge, EdgeKind, Percept
from orchestrator.premises import Premises
from orchestrator.session import Role, Session, TurnLog
from orchestrator.settings.problems import did_you_mean, nearest
from orchestrator.standing import Standing
from orchestrator.store import Store

if TYPE_CHECKING:
    from orchestrator.documents.kinds.memory import WhyDocument


@dataclass(frozen=True, slots=True)
class Told:
    """Which facts an agent would be told with some prompt, and which not."""

    agent: str
    sent: tuple[tuple[Percept, float], ...]
    """Best first, each with how well it fits the prompt and the need."""
    withheld: tuple[tuple[Percept, str], ...]
    """With why each is left out."""


def learned(
    premises: Premises, store: Store, text: str, consumer: str = "all", *, subject: str | None = None, links: Mapping[str, Sequence[str]] | None = None
) -> tuple[Percept, bool]:
    """Store a fact of the user's: what stands now, and whether it is new. Raises `UsageError` for one that cannot be kept."""
    content = well_formed(text).strip()
    if not content:
        raise UsageError("a fact cannot be empty", hint="say it in one sentence")
    if len(content) > MAX_CONTENT:
        raise UsageError(f"a fact has at most {MAX_CONTENT} characters, this one has {len(content):,}", hint="say it shorter, or as several")
    known = ["all", *Role, *premises.settings.agents]
    if consumer not in known:
        premises.notice(f"there is no agent {consumer!r} (yet): nobody is told this fact until there is{did_you_mean(nearest(consumer, known))}")
    now = premises.clock.now()
    percept = Percept(
        id=premises.new_id(),
        content=content,
        producer="user",
        consumer=consumer,
        weight=CORE_WEIGHT,
        core=True,
        subject=None if subject is None else well_formed(subject).strip() or None,
        created_at=now,
        updated_at=now,
        source={"by": "command"},
    )
    return store.learn(percept, _links(percept.id, links or {}))


def _links(identity: str, links: Mapping[str, Sequence[str]]) -> list[Edge]:
    kinds: tuple[EdgeKind, ...] = ("extends", "updates", "derives", "contradicts")
    return [Edge(identity, target, kind) for kind in kinds for target in links.get(kind, ())]


def explained(premises: Premises, store: Store, prompt: str, *, agent: str | None, ref: str | None) -> Told:
    """For that agent, or else the primary, in that session or else the newest. Raises `ConfigError` and `NotFound`."""
    name = agent or premises.settings.explain("primary").value
    if name is None:
        raise ConfigError("no primary agent is configured", hint="give one by --agent")
    premises.settings.agent(name)
    with store.snapshot():
        session = found_session(premises, store, ref)
        log = None if session is None else store.log(session.id)
        stand = None if session is None or log is None else stand_of(premises, session, log)
        return told_to(premises, store, name, prompt, stand, log)


def told_to(premises: Premises, store: Store, agent: str, prompt: str, stand: Standing | None, log: TurnLog | None, *, explain: bool = True) -> Told:
    """What `agent` would be told in the next turn of a session, or of a new one, and unless it is not to `explain` also what not.

    Nobody is called, and no fact counts as used.
    """
    from orchestrator.context.delivery import new_percepts, stated_marks
    from orchestrator.memory.inject import select

    role = Role.PRIMARY if agent == premises.settings.explain("primary").value else Role.ESCALATION
    limits = premises.settings.limits(agent)
    workspace, identity, need = (premises.workspace, None, None) if stand is None else (stand.session.workspace, stand.session.id, stand.session.need)
    delivered, goes_on = ({}, False) if stand is None or log is None else _delivered(premises, stand, log, agent, role)
    with store.snapshot():
        chosen = select(
            store.recall,
            agent=agent,
            role=role,
            workspace=workspace,
            session=identity,
            limits=limits,
            prompt=prompt,
            need=None if need is None else need.text,
            stated=stated_marks(delivered),
            explain=explain,
        )
        there = {percept.id: percept for percept in store.percepts(session=identity)} if explain else {}
    sent = new_percepts(chosen.sent, delivered) if goes_on else chosen.sent
    again = tuple((percept, "already told") for percept in chosen.sent if percept not in sent) if explain else ()
    withheld = tuple((there[identity], why) for identity, why in chosen.withheld if identity in there)
    return Told(agent, tuple((percept, chosen.scores[percept.id]) for percept in sent), (*again, *withheld))


def _delivered(premises: Premises, stand: Standing, log: TurnLog, agent: str, role: Role) -> tuple[Mapping[str, Any], bool]:
    """What the agent's own conversation has been told, and whether the next turn tells only what is new in it. Without one no agent is built."""
    from orchestrator.planning.case import delivered_before

    workspace = stand.session.workspace
    if not any(known.agent == agent for known in stand.session.external_sessions):
        return {}, False
    return delivered_before(stand, log, premises.crew(workspace, with_secrets=False).agent(agent), role, workspace=workspace)


def why_document(told: Told) -> WhyDocument:
    return {
        "format": "escalera.why/1",
        "agent": told.agent,
        "chosen": [{"id": percept.id, "content": percept.content, "score": score} for percept, score in told.sent],
        "withheld": [{"id": percept.id, "content": percept.content, "why": reason} for percept, reason in told.withheld],
    }


def found_session(premises: Premises, store: Store, ref: str | None) -> Session | None:
    """By reference, or the newest if there is one."""
    try:
        return store.find(ref, premises.workspace)
    except NotFound:
        if ref is not None:
            raise
        return None
