"""/v1/sessions/REF/need and /plan: what the user is trying to do, and what the next turn would be."""

from __future__ import annotations

from functools import partial

from fastapi import FastAPI
from starlette.responses import Response

from orchestrator.documents.plan import plan_document
from orchestrator.needs import Change, change_need, cleared, need_document, restored, stated, usable_need
from orchestrator.planning.plan import counted, plan_turn, through_rules
from orchestrator.server.bodies import Asked, NeedBody
from orchestrator.server.openapi import gives
from orchestrator.server.problems import json_response
from orchestrator.server.service import Service

EXAMPLE = "…"
"""Stands for the prompt of a plan where none is given."""


def need_routes(app: FastAPI, service: Service) -> None:
    premises, store = service.premises, service.store

    @app.post("/v1/sessions/{ref}/plan", openapi_extra=gives("PlanDocument"))
    def plan(ref: str, body: Asked) -> Response:
        """What the next turn would be and would send. Calls nobody, and writes nothing."""
        wish = body.wish(default=EXAMPLE)
        with store.snapshot():
            session = store.find(ref, premises.workspace)
            there, log, now = service.premises_at(session.workspace), store.log(session.id), premises.clock.now()
            project = there.project(session.workspace)
            planner = partial(
                plan_turn,
                crew=there.crew(session.workspace, with_secrets=False),
                expiry=there.expiry,
                templates=there.templates(project),
                memory=store.recall,
                explain=True,
                workspace=session.workspace,
                now=now,
                additions=there.additions(project),
            )
            planned = counted(through_rules(planner(session, log, wish), log, planner), there.hooks)
        return json_response(plan_document(planned, expiry=there.expiry, now=now))

    @app.get("/v1/sessions/{ref}/need", openapi_extra=gives("NeedDocument"))
    def show_need(ref: str) -> Response:
        """What the user is trying to do, or was with the reason why that was cleared."""
        with store.snapshot():
            session = store.find(ref, premises.workspace)
            return json_response(need_document(premises, session, store.log(session.id)))

    def changed(ref: str, change: Change) -> Response:
        session = change_need(premises, store, ref, change)
        return json_response(need_document(premises, session, store.log(session.id)))

    @app.put("/v1/sessions/{ref}/need", openapi_extra=gives("NeedDocument"))
    def set_need(ref: str, body: NeedBody) -> Response:
        """State it; the same text again only renews it."""
        return changed(ref, stated(usable_need(body.text)))

    @app.delete("/v1/sessions/{ref}/need", openapi_extra=gives("NeedDocument"))
    def clear_need(ref: str) -> Response:
        """Forget it; it can be brought back for seven days."""
        return changed(ref, cleared)

    @app.post("/v1/sessions/{ref}/need/restore", openapi_extra=gives("NeedDocument"))
    def restore_need(ref: str) -> Response:
        """Bring the last one back."""
        return changed(ref, restored)
