"""/v1/memory: remembered facts."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response

from orchestrator.documents.memory import archive_document, consolidated_document, percept_document, percepts_document, stale_document
from orchestrator.facts import explained, learned, why_document
from orchestrator.server.bodies import FactBody, WhyBody
from orchestrator.server.openapi import gives
from orchestrator.server.problems import json_response
from orchestrator.server.service import Service


def memory_routes(app: FastAPI, service: Service) -> None:
    premises, store = service.premises, service.store

    @app.get("/v1/memory", openapi_extra=gives("PerceptsDocument"))
    def list_facts(session: str | None = None) -> Response:
        """All facts that may be told, heaviest first: those that are told everywhere, and those of the session."""
        with store.snapshot():
            identity = None if session is None else store.find(session, premises.workspace).id
            return json_response(percepts_document(store.percepts(session=identity), store.engrams(session=identity), store.edges()))

    @app.post("/v1/memory", status_code=201, openapi_extra=gives("PerceptDocument", 201, 200))
    def learn(body: FactBody) -> Response:
        """Keep a fact, everywhere and for good; said again it is not stored twice (`stored` is then false)."""
        links = {"extends": body.extends, "updates": body.updates, "derives": body.derives, "contradicts": body.contradicts}
        standing, stored = learned(premises, store, body.content, body.consumer, subject=body.subject, links=links)
        return json_response(percept_document(standing, stored=stored), 201 if stored else 200)

    @app.post("/v1/memory/why", openapi_extra=gives("WhyDocument"))
    def why(body: WhyBody) -> Response:
        """Which facts an agent would be told with that prompt, and which not."""
        return json_response(why_document(explained(premises, store, body.prompt, agent=body.agent, ref=body.session)))

    @app.get("/v1/memory/stale", openapi_extra=gives("StaleDocument"))
    def stale() -> Response:
        """Facts that go to the archive unless they are used."""
        after = premises.upkeep.archive_after
        return json_response(stale_document(store.stale(after or 0.0), None if after is None else premises.upkeep.archive_after_days))

    @app.get("/v1/memory/archive", openapi_extra=gives("ArchiveDocument"))
    def archive() -> Response:
        """Facts that left the memory."""
        return json_response(archive_document(store.archived()))

    @app.post("/v1/memory/consolidate", openapi_extra=gives("ConsolidatedDocument"))
    def consolidate() -> Response:
        """Do now what is done after turns."""
        return json_response(consolidated_document(store.consolidate(archive_after=premises.upkeep.archive_after, most=premises.upkeep.most)))

    @app.post("/v1/memory/{identity}/restore", openapi_extra=gives("PerceptDocument"))
    def restore(identity: str) -> Response:
        """Bring a fact back from the archive."""
        return json_response(percept_document(store.restore(identity), stored=True))

    @app.delete("/v1/memory/{identity}", openapi_extra=gives("PerceptDocument"))
    def forget(identity: str, purge: bool = False) -> Response:
        """Take a fact out of the memory; it is kept in the archive, unless it is to be purged."""
        return json_response(percept_document(store.forget(identity, purge=purge), stored=None))
