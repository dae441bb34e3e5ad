"""The published schemas say what is read and printed, and promise the keys that scripts rely on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from orchestrator.documents.schemas import JsonSchema
from orchestrator.documents.schemas import schemas as generated

pytestmark = pytest.mark.xdist_group("schemas")  # what they share is made once

CONTRACT = {
    "plan": "agent provider mode reasons state need system history percepts budget delivery",
    "plan NeedFields": "text status label expiresAt lastTouched ttlRemainingMs",
    "plan BlockObject": "name chars text",
    "plan HistoryObject": "scope sent dropped messages",
    "plan LeftOutTurn": "turn why",
    "plan PerceptsObject": "sent withheld",
    "plan WithheldPercept": "id why",
    "plan BudgetObject": "limit_chars parts total_chars tokens_estimate",
    "plan BudgetParts": "system orientation percepts tools prompt history",
    "turn": "session turn role agent mode reasons outcome answer state usage model_served external_session notices error escalated_from",
    "turn ReasonObject": "rule detail",
    "error": "error",
    "error ErrorObject": "type message retry_after agent hint",
    "percepts": "percepts",
    "percepts PerceptObject": "id content weight core scope workspace producer consumer idle_seconds last_used_at",
    "percept": "id content weight core scope workspace producer consumer idle_seconds last_used_at stored",
    "setting": "path value default source shadowed type help",
    "setting ShadowedObject": "source value",
    "sessions": "sessions",
    "agents": "agents",
    "checks": "agents",
    "usage": "by usage totals",
    "usage CostObject": "label usd",
}
"""Keys that every such document has: they may become more, never fewer (page 6)."""


@pytest.fixture(scope="module")
def schemas() -> dict[str, JsonSchema]:
    return generated()


@pytest.mark.parametrize("shape", CONTRACT)
def test_keys_of_the_contract_are_always_there(shape: str, schemas: dict[str, JsonSchema]) -> None:
    kind, _, part = shape.partition(" ")
    schema = schemas[kind]
    declared = schema["$defs"][part] if part else schema

    assert set(CONTRACT[shape].split()) <= set(declared["required"])
    assert part or "format" in declared["required"]


def test_every_schema_names_one_format(schemas: dict[str, JsonSchema]) -> None:
    named = {name: schema["properties"]["format"]["const"] for name, schema in schemas.items() if name != "stream"}

    assert named == {name: f"escalera.{name}/1" for name in schemas if name != "stream"}


def test_the_schema_of_the_session_document_names_every_key_and_step(schemas: dict[str, JsonSchema]) -> None:
    schema = schemas["session"]

    assert schema["required"] == ["turns"]
    assert schema["properties"]["format"]["const"] == "escalera.session/1"
    assert set(schema["$defs"]) >= {"TextStep", "ReasoningStep", "ToolCallStep", "ToolResultStep", "TurnShape", "NeedShape", "ExternalSessionShape"}
    assert schema["$defs"]["TurnShape"]["required"] == ["role"]
    assert {"type": "string", "format": "date-time"} in schema["properties"]["created_at"]["anyOf"]
    json.dumps(schema)


def test_writing_and_reading_along_needs_no_pydantic() -> None:
    modules = ", ".join(f"orchestrator.documents.{name}" for name in ("session", "need", "error", "readable", "masking", "schemas", "json_text"))
    code = f"import sys, {modules}; sys.exit('pydantic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
