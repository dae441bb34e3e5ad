"""Facts that the user adds to the memory, and which of them an agent would be told, as commands and the server have it (page 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError, NotFound, UsageError
from orchestrator.messages import well_formed
from orchestrator.percepts import CORE_WEIGHT, MAX_CONTENT, Edge, EdgeKind, Percept
from orchestrator.premises import Premises
from orchestrator.session import Role, Session
from orchestrator.settings.problems import did_you_mean, nearest
from orchestrator.store import Store

if TYPE_CHECKING:
    from orchestrator.documents.kinds import WhyDocument


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


def why_document(premises: Premises, store: Store, prompt: str, *, agent: str | None, ref: str | None) -> WhyDocument:
    """Which facts that agent, or else the primary, would be told with that prompt. Nobody is called, and no fact counts as used."""
    from orchestrator.memory.inject import chosen_of, inquiry_of

    name = agent or premises.settings.explain("primary").value
    if name is None:
        raise ConfigError("no primary agent is configured", hint="give one by --agent")
    premises.settings.agent(name)
    role, limits = Role.PRIMARY if name == premises.settings.explain("primary").value else Role.ESCALATION, premises.settings.limits(name)
    with store.snapshot():
        session = found_session(premises, store, ref)
        workspace = premises.workspace if session is None else session.workspace
        need = None if session is None or session.need is None else session.need.text
        recalled = store.recall(
            inquiry_of(
                agent=name,
                role=role,
                workspace=workspace,
                session=None if session is None else session.id,
                limits=limits,
                prompt=prompt,
                need=need,
                explain=True,
            )
        )
        contents = {percept.id: percept.content for percept in store.all_percepts()}
    chosen = chosen_of(recalled, agent=name, role=role, workspace=workspace, limits=limits, stated=_stated(session, name, workspace))
    scores = {percept.id: score for percept, score in recalled.found}
    return {
        "format": "escalera.why/1",
        "agent": name,
        "chosen": [{"id": percept.id, "content": percept.content, "score": scores[percept.id]} for percept in chosen.sent],
        "withheld": [{"id": identity, "content": contents.get(identity, ""), "why": reason} for identity, reason in chosen.withheld],
    }


def _stated(session: Session | None, agent: str, workspace: str) -> set[str]:
    """What the agent has said itself in its conversation of this workspace."""
    from orchestrator.context.delivery import stated_marks
    from orchestrator.workspaces import same_workspace

    own = () if session is None else session.external_sessions
    return {mark for one in own if one.agent == agent and same_workspace(one.workspace, workspace) for mark in stated_marks(one.delivered)}


def found_session(premises: Premises, store: Store, ref: str | None) -> Session | None:
    """By reference, or the newest if there is one."""
    try:
        return store.find(ref, premises.workspace)
    except NotFound:
        if ref is not None:
            raise
        return None
