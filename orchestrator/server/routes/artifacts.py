"""/v1/artifacts: large answers and tool results, and attached files, until they expire (page 5)."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response

from orchestrator.artifacts import Artifact
from orchestrator.documents.artifact import artifact_document, artifact_object
from orchestrator.errors import NotFound, StoreError
from orchestrator.server.openapi import gives
from orchestrator.server.problems import NO_STORE, json_response
from orchestrator.server.service import Service


def artifact_routes(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.get("/v1/artifacts", openapi_extra=gives("ArtifactsDocument"))
    def list_artifacts(session: str | None = None) -> Response:
        """All that have not expired, oldest first."""
        identity, now = None if session is None else store.find(session, service.premises.workspace).id, store.now()
        return json_response(
            {"format": "escalera.artifacts/1", "artifacts": [artifact_object(artifact, now) for artifact in store.artifacts(session=identity)]}
        )

    @app.get("/v1/artifacts/{identity}", openapi_extra=gives("ArtifactDocument"))
    def show_artifact(identity: str) -> Response:
        """One with what it holds, as text. It is kept for longer by that only where artifacts.idle_ttl says so."""
        artifact = read(identity)
        return json_response(artifact_document(artifact, store.artifact_body(artifact.id).decode("utf-8", "replace"), store.now()))

    @app.get("/v1/artifacts/{identity}/body", responses={200: {"content": {"application/octet-stream": {}}, "description": "The bytes"}})
    def artifact_body(identity: str) -> Response:
        """Its bytes, whatever they are; a browser saves them and runs nothing."""
        artifact = read(identity)
        headers = {**NO_STORE, "x-content-type-options": "nosniff", "content-disposition": "attachment", "etag": f'"{artifact.sha256}"'}
        return Response(store.artifact_body(artifact.id), headers=headers, media_type="application/octet-stream")

    def read(identity: str) -> Artifact:
        """An item read. Where that cannot be noted, it stands as it is stored."""
        try:
            artifact = store.peek_artifact(identity)
        except NotFound as error:
            raise NotFound(error.message, hint="it may have expired: an artifact is kept for artifacts.ttl") from error
        try:
            return store.read_artifact(artifact.id)
        except StoreError:
            return artifact
