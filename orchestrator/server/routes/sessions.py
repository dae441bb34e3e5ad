"""/v1/sessions: listed, begun, imported, shown, renamed, forked and dropped; the need of one, and what its next turn would be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query
from starlette.responses import Response

from orchestrator.documents.kinds.sessions import SessionRefDocument
from orchestrator.documents.sessions import hits_document, session_ref_document, sessions_document, shown_document
from orchestrator.errors import NotFound, UsageError
from orchestrator.needs import need_document
from orchestrator.server.bodies import NameBody, RenameBody, SessionBody
from orchestrator.server.openapi import gives
from orchestrator.server.problems import encoded, json_response
from orchestrator.server.service import Service
from orchestrator.sessions import all_turns, dropped, forked, fresh_session, named_session, read_session, renamed


def session_routes(app: FastAPI, service: Service) -> None:
    premises, store = service.premises, service.store

    @app.get("/v1/sessions", openapi_extra=gives("SessionsDocument"))
    def list_sessions(all_workspaces: bool = False) -> Response:
        """The sessions of the server's workspace or of all, newest first."""
        return json_response(sessions_document(store.list(None if all_workspaces else premises.workspace)))

    @app.get("/v1/search", openapi_extra=gives("HitsDocument"))
    def search(text: str, limit: Annotated[int, Query(ge=1, le=1000)] = 50, all_workspaces: bool = False) -> Response:
        """Turns that hold all these words, the best first."""
        return json_response(hits_document(store.search(text, None if all_workspaces else premises.workspace, limit)))

    @app.post("/v1/sessions", status_code=201, openapi_extra=gives("SessionRefDocument", 201))
    def begin_session(body: SessionBody) -> Response:
        """Begin a session, without a turn."""
        workspace = _workspace(body.workspace)
        there = premises if workspace is None else premises.at(workspace)
        if body.name is not None and (taken := named_session(store, there.workspace, body.name)) is not None:
            raise UsageError(f"{body.name!r} is the name of session {taken.id[:8]}", hint="choose another one")
        session = fresh_session(there, body.name)
        store.create(session)
        return _made(session_ref_document(session))

    @app.post("/v1/sessions/import", status_code=201, openapi_extra=gives("SessionRefDocument", 201))
    def import_session(body: dict[str, Any]) -> Response:
        """Store a session document, or its short form: `turns` alone, each with role, prompt and answer."""
        session, turns, receipts = read_session(premises, encoded(body), "the body", new_id=premises.new_id, new_nonce=premises.new_nonce)
        store.import_session(session, turns, receipts)
        return _made(session_ref_document(session))

    @app.get("/v1/sessions/{ref}", openapi_extra=gives("SessionShape"))
    def show_session(ref: str) -> Response:
        """The whole session, with all of its turns, and the need as it stands now under `need_now`."""
        with store.snapshot():
            session = store.find(ref, premises.workspace)
            log = store.log(session.id)
            return json_response(shown_document(session, all_turns(log), store.receipts(session.id), need_document(premises, session, log)))

    @app.patch("/v1/sessions/{ref}", openapi_extra=gives("SessionRefDocument"))
    def rename_session(ref: str, body: RenameBody) -> Response:
        """Give it another name."""
        return json_response(session_ref_document(renamed(premises, store, ref, body.name)))

    @app.delete("/v1/sessions/{ref}", openapi_extra=gives("SessionRefDocument"))
    def drop_session(ref: str, purge: bool = False) -> Response:
        """Remove it; an export is kept in the data folder, unless it is to be purged."""
        session, kept = dropped(premises, store, ref, purge=purge)
        return json_response(session_ref_document(session, export=kept))

    @app.post("/v1/sessions/{ref}/fork", status_code=201, openapi_extra=gives("SessionRefDocument", 201))
    def fork_session(ref: str, body: NameBody) -> Response:
        """A copy that goes its own way."""
        with store.snapshot():
            session = store.find(ref, premises.workspace)
            turns, receipts = all_turns(store.log(session.id)), store.receipts(session.id)
        return _made(session_ref_document(forked(premises, store, session, turns, receipts, name=body.name)))

    @app.get("/v1/sessions/{ref}/turns/{index}", openapi_extra=gives("SessionShape"))
    def show_turn(ref: str, index: int) -> Response:
        """The session with that one turn."""
        with store.snapshot():
            session = store.find(ref, premises.workspace)
            log = store.log(session.id)
            turn = log.get(index) if 0 <= index < log.next_index else None
            if turn is None:
                raise NotFound(f"session {session.id[:8]} has no turn {index}")
            return json_response(shown_document(session, (turn,), store.receipts(session.id), need_document(premises, session, log)))


def _workspace(given: str | None) -> str | None:
    if given is None:
        return None
    try:
        if Path(given).is_absolute() and Path(given).is_dir():
            return given
    except (OSError, ValueError):
        pass
    raise UsageError("workspace: that is no absolute path of a directory that is there")


def _made(document: SessionRefDocument) -> Response:
    from urllib.parse import quote

    return json_response(document, 201, headers={"location": f"/v1/sessions/{quote(document['id'], safe='')}"})
