"""The OpenAPI document: FastAPI's, with the documents as they are declared, problem details for every error, and the bearer token."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from orchestrator.documents import kinds, models
from orchestrator.server.problems import JSON_TYPE, PROBLEM_TYPE

Document = dict[str, Any]

_GIVES = "x-gives"


def gives(kind: str, *statuses: int, waits: bool = False) -> Document:
    """For a route: which document of `documents.kinds` it answers with; one that `waits` may also answer that a question is open."""
    return {_GIVES: {**{str(status): kind for status in statuses or (200,)}, **({"202": "WaitingDocument"} if waits else {})}}


def document_of(app: FastAPI) -> Document:
    """Made once, when it is first asked for."""
    if app.openapi_schema is None:
        app.openapi_schema = _completed(get_openapi(title=app.title, version=app.version, routes=app.routes, summary="One session, several agents."))
    return app.openapi_schema


def _completed(document: Document) -> Document:
    for path, operations_of in document["paths"].items():
        for operation in operations_of.values():
            operation["tags"] = [path.split("/")[2]]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    given: list[dict[str, str]] = [operation.pop(_GIVES, {}) for operation in operations]
    names = sorted({"ProblemDocument"}.union(*(documents.values() for documents in given)))
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    refs = _declared(names, schemas)
    refused = {"description": "Refused", "content": {PROBLEM_TYPE: {"schema": refs["ProblemDocument"]}}}
    for operation, documents in zip(operations, given, strict=True):
        responses = operation["responses"]
        responses.pop("422", None)
        if documents:
            responses.pop("200", None)
        for status, name in documents.items():
            responses[status] = {"description": "The document", "content": {JSON_TYPE: {"schema": refs[name]}}}
        responses |= {"4XX": refused, "5XX": {**refused, "description": "Failed"}}
    document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    return document


def _declared(names: list[str], schemas: Document) -> dict[str, Any]:
    """The schema of each document by its name; what they have in common goes among the components."""
    mode: Literal["serialization"] = "serialization"
    inputs = [(name, mode, TypeAdapter(getattr(kinds, name, None) or getattr(models, name))) for name in names]
    found, common = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")
    schemas |= common.get("$defs", {})
    return {name: schema for (name, _), schema in found.items()}
