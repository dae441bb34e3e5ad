"""/v1/settings: each with its value and source; set for this server as long as it runs, or in a file."""

from __future__ import annotations

from typing import Literal

from fastapi import FastAPI
from starlette.responses import Response

from orchestrator.documents.setting import setting_document, settings_document
from orchestrator.edits import edited
from orchestrator.errors import ConfigError
from orchestrator.server.bodies import SettingBody
from orchestrator.server.openapi import gives
from orchestrator.server.problems import json_response, problem
from orchestrator.server.service import Service
from orchestrator.settings.declarations import BY_PATH
from orchestrator.settings.editing import edit, unsetting_key
from orchestrator.settings.toml_text import spelled


def setting_routes(app: FastAPI, service: Service) -> None:
    premises = service.premises

    def known(path: str) -> Response | None:
        """Why there is no such setting; `None` where there is."""
        if path in BY_PATH:
            return None
        try:
            premises.settings.explain(path)
        except ConfigError as error:
            return problem(error, status=404)
        return None

    @app.get("/v1/settings", openapi_extra=gives("SettingsDocument"))
    def list_settings() -> Response:
        """All of them, with value and source."""
        premises.refresh()
        return json_response(settings_document(premises.settings.all()))

    @app.get("/v1/settings/{path}", openapi_extra=gives("SettingDocument"))
    def get_setting(path: str) -> Response:
        """One of them."""
        premises.refresh()
        return known(path) or json_response(setting_document(premises.settings.explain(path)))

    @app.put("/v1/settings/{path}", openapi_extra=gives("SettingDocument"))
    def put_setting(path: str, body: SettingBody) -> Response:
        """Set it: for as long as this server runs, over every other source; or with `persist` in the user's or the project's file."""
        unknown = known(path)
        if unknown is not None:
            return unknown
        if body.persist is None:
            return json_response({**setting_document(service.put_setting(path, body.value)), "written": None})
        done = edited(premises, {path: _spelled(path, body.value)}, project=body.persist == "project")
        premises.refresh()
        return json_response({**setting_document(premises.settings.explain(path)), "written": str(done.file) if done.changed else None})

    @app.delete("/v1/settings/{path}", openapi_extra=gives("SettingDocument"))
    def unset_setting(path: str, persist: Literal["user", "project"] | None = None) -> Response:
        """Take back what was set for this server; or with `persist` what a file says."""
        unknown = known(path)
        if unknown is not None:
            return unknown
        if persist is None:
            return json_response({**setting_document(service.remove_setting(path)), "written": None})
        done = edit(premises.sources, unsetting_key(path), project=persist == "project")
        premises.refresh()
        return json_response({**setting_document(premises.settings.explain(path)), "written": str(done.file) if done.changed else None})


def _spelled(path: str, value: object) -> str:
    try:
        return spelled(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: a file cannot hold that value") from error
