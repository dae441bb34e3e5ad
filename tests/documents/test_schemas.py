"""The published schema says what the reader accepts."""

from __future__ import annotations

import json
import subprocess
import sys

from orchestrator.documents.schemas import schemas


def test_the_schema_of_the_session_document_names_every_key_and_step() -> None:
    schema = schemas()["session"]

    assert schema["required"] == ["turns"]
    assert schema["properties"]["format"]["const"] == "escalera.session/1"
    assert set(schema["$defs"]) >= {"TextStep", "ReasoningStep", "ToolCallStep", "ToolResultStep", "TurnShape", "NeedShape", "ExternalSessionShape"}
    assert schema["$defs"]["TurnShape"]["required"] == ["role"]
    assert {"type": "string", "format": "date-time"} in schema["properties"]["created_at"]["anyOf"]
    json.dumps(schema)


def test_writing_and_reading_along_needs_no_pydantic() -> None:
    modules = ", ".join(f"orchestrator.documents.{name}" for name in ("session", "readable", "masking", "schemas", "json_text"))
    code = f"import sys, {modules}; sys.exit('pydantic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
