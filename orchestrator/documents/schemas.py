"""The JSON Schemas of our documents, generated from the models that read them."""

from __future__ import annotations

from typing import Any


def schemas() -> dict[str, dict[str, Any]]:
    """By the name of the format (`session`), what a reader of ours accepts: JSON Schema, draft 2020-12."""
    from orchestrator.documents.models import SessionShape

    return {"session": {"$schema": "https://json-schema.org/draft/2020-12/schema", **SessionShape.model_json_schema()}}
