"""The OpenAPI document: FastAPI's, with our problem details in the place of its own errors, and the bearer token."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from orchestrator.documents.kinds import ProblemDocument
from orchestrator.server.problems import PROBLEM_TYPE

Document = dict[str, Any]


def document_of(app: FastAPI) -> Document:
    """Made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _with_problems(get_openapi(title=app.title, version=app.version, routes=app.routes, summary="One session, several agents."))
    return app.openapi_schema


def _with_problems(document: Document) -> Document:
    problem = TypeAdapter(ProblemDocument).json_schema(ref_template="#/components/schemas/{model}")
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    refused = {"description": "Refused", "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for operation in (operation for path in document["paths"].values() for operation in path.values()):
        operation["responses"].pop("422", None)
        operation["responses"] |= {"4XX": refused, "5XX": {**refused, "description": "Failed"}}
    return document
