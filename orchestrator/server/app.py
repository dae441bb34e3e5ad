"""The application: what `escalera serve` runs, and what a program of one's own can mount (docs/server.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import HTTPException, RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from orchestrator import __version__
from orchestrator.bearer import read_or_make
from orchestrator.errors import EscaleraError
from orchestrator.premises import Premises
from orchestrator.server.gate import Gate
from orchestrator.server.openai.routes import openai_routes
from orchestrator.server.openapi import document_of
from orchestrator.server.problems import problem, refusal, refused
from orchestrator.server.routes.artifacts import artifact_routes
from orchestrator.server.routes.memory import memory_routes
from orchestrator.server.routes.needs import need_routes
from orchestrator.server.routes.questions import question_routes
from orchestrator.server.routes.sessions import session_routes
from orchestrator.server.routes.settings import setting_routes
from orchestrator.server.routes.tasks import task_routes
from orchestrator.server.routes.turns import turn_routes
from orchestrator.server.service import Service

ROUTES = (session_routes, need_routes, turn_routes, memory_routes, question_routes, task_routes, artifact_routes, setting_routes, openai_routes)


def create_app(
    *,
    workspace: Path | None = None,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    token: str | None = None,
    hosts: tuple[str, ...] = (),
    premises: Premises | None = None,
) -> FastAPI:
    """An ASGI application for the sessions of a workspace, which is the working directory unless another is given.

    `config_file` stands in for the user's and the project's file, as `--config` does. Without a `token` it is the one in the file that
    `bearer.read_or_make` keeps in the data folder; every request has to bring it. `hosts` are names, besides the loopback ones and those of
    `server.hosts`, under which requests may come. `premises` are those of whoever has them already, and closes them.
    `app.state.service.close()` lets go of everything; the application's lifespan does it, too. Raises `ConfigError`, `StoreError`.
    """
    owns = premises is None
    if premises is None:
        premises = Premises(
            environ=os.environ if environ is None else environ, cwd=workspace or Path.cwd(), config_file=config_file, sets=(), flags={}, tell=_to_stderr
        )
    service = Service(premises, owns=owns)
    app = FastAPI(title="Escalera", version=__version__, docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.service = service
    for routes in ROUTES:
        routes(app, service)
    _explain_errors(app)
    app.openapi = lambda: document_of(app)  # type: ignore[method-assign]  # the way that FastAPI documents
    value = premises.settings.value
    app.add_middleware(
        Gate,
        token=token if token is not None else read_or_make(premises.paths.data),
        hosts=(*hosts, *value("server.hosts")),
        body_max=value("server.body_max"),
        idleness=service.idleness,
        crashed=premises.crashed,
    )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    from starlette.concurrency import run_in_threadpool

    try:
        yield
    finally:
        await run_in_threadpool(app.state.service.close)


def _explain_errors(app: FastAPI) -> None:
    @app.exception_handler(EscaleraError)
    async def ours(_request: Request, error: EscaleraError) -> Response:
        return problem(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        return refusal(400, "; ".join(_said(one) for one in error.errors()[:5]))

    @app.exception_handler(StarletteHTTPException)
    async def http(_request: Request, error: StarletteHTTPException) -> Response:
        return refused(error if isinstance(error, HTTPException) else HTTPException(error.status_code, error.detail, dict(error.headers or {})))


def _said(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg'][:1].lower()}{error['msg'][1:]}"


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
