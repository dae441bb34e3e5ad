"""Fixture sessions with what their turns were decided by: planned one after the other as they would have been, with answers that are the fixture's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.fixture import session, turns
from orchestrator.context.delivery import with_stated
from orchestrator.crew import Crew
from orchestrator.memory.inject import recalled_from
from orchestrator.planning.case import Expiry, Wish
from orchestrator.planning.plan import Plan, plan_turn, started
from orchestrator.planning.receipt import receipt_of
from orchestrator.providers import Capabilities
from orchestrator.receipts import as_json
from orchestrator.routing import Choice
from orchestrator.session import ExternalSession, Session, Turn
from orchestrator.settings.paths import Paths
from orchestrator.settings.resolution import load_settings
from orchestrator.templates import Templates
from orchestrator.testing.fake_provider import FakeProvider, fake_kind
from orchestrator.tuning.past import PastLog

Receipts = Mapping[int, Mapping[str, Any]]


def recorded(folder: Path, entries: int, *, keeps_conversation: bool) -> tuple[Session, tuple[Turn, ...], Receipts]:
    """The session, its turns and their receipts; the escalation agent with a conversation of its own, or without."""
    crew, templates = _crew(folder, keeps_conversation=keeps_conversation), Templates()
    header = session(str(folder), f"{'own' if keeps_conversation else 'http'}-{entries}")
    log = PastLog(list(turns(entries, "mixed")))
    taken: list[Turn] = []
    receipts: dict[int, Mapping[str, Any]] = {}
    for turn in turns(entries, "mixed"):
        plan = plan_turn(
            header,
            log.at(turn.index),
            Wish(turn.prompt or "", Choice(role=turn.role)),
            crew=crew,
            expiry=Expiry(),
            templates=templates,
            memory=recalled_from(()),
            workspace=header.workspace,
            now=turn.started_at,  # type: ignore[arg-type]  # the fixture's turns have their times
        )
        plan = started(plan, f"conversation-{turn.index}")
        receipts[turn.index] = as_json(receipt_of(plan))
        taken.append(replace(turn, mode=plan.mode, reasons=plan.reasons, routing=plan.route.reasons, model_requested=plan.agent.provider.model))
        header = replace(header, external_sessions=_external(header, plan))
    return header, tuple(taken), receipts


def first_turns(whole: tuple[Session, tuple[Turn, ...], Receipts], count: int, name: str) -> tuple[Session, tuple[Turn, ...], Receipts]:
    """A session of its own with the first turns of a longer one."""
    header, taken, receipts = whole
    kept = tuple(turn for turn in taken if turn.index < count)
    return replace(header, id=name, external_sessions=()), kept, {turn.index: receipts[turn.index] for turn in kept}


def _external(header: Session, plan: Plan) -> tuple[ExternalSession, ...]:
    own = plan.request.conversation
    if own is None:
        return header.external_sessions
    return (ExternalSession(plan.agent.name, own.id, header.workspace, None, plan.index, own.model, own.system_text, with_stated(plan.texts.delivered, [])),)


def _crew(folder: Path, *, keeps_conversation: bool) -> Crew:
    file = folder / "bench.toml"
    file.write_text('primary = "local"\nescalation = "strong"\n[agents.local]\nprovider = "fake"\n[agents.strong]\nprovider = "fake"\n')
    own = Capabilities(keeps_conversation=True, profile="none") if keeps_conversation else Capabilities()
    agents = {"local": FakeProvider(model="local-1"), "strong": FakeProvider(model="strong-1", capabilities=own)}
    paths = Paths(folder / "config", folder / "data", folder / "state", folder / "cache")
    settings = load_settings(environ={}, workspace=folder, paths=paths, config_file=file)
    return Crew(settings, {"fake": fake_kind(agents)}, environ={}, workspace=str(folder))
