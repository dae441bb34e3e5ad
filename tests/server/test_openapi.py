"""The published document is true: whatever it allows is answered as it says, and by no fault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from orchestrator.testing.fake_provider import says

from .conftest import TOKEN, Home

EXAMPLES = int(os.environ.get("ESCALERA_PROOF_REQUESTS", "5"))
"""Of each operation."""
HEADERS = {"authorization": f"Bearer {TOKEN}", "host": "localhost"}
UNTRIED = {"/v1/tasks"}
"""Starting processes without end is no test of a document."""


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("openapi"))
    home.local.will(*[says("Blue.") for _ in range(50 * EXAMPLES)])
    home.strong.will(*[says("Red.") for _ in range(50 * EXAMPLES)])
    session = home.begin("known")
    home.ask_question(session=session)
    home.post("/v1/memory", {"content": "the door is blue"})
    home.post("/v1/sessions/known/turns", {"prompt": "?"})
    yield home
    home.close()


@pytest.mark.long
@pytest.mark.proof
def test_no_request_that_the_document_allows_is_answered_by_a_fault(subject: Home) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", subject.app, headers=HEADERS)
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    tried = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in UNTRIED and operation.method == "post":
            continue
        tried.append(operation.label)
        refs = {name: value for name, value in (("ref", "known"), ("index", 0)) if f"{{{name}}}" in operation.path}
        _request(operation, refs, checks)

    assert len(tried) > 40
    assert "a fault in Escalera" not in "".join(subject.notices)


def _request(operation: Any, known: dict[str, object], checks: list[Any]) -> None:
    @given(case=operation.as_strategy(), to_known=st.booleans())
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
    def requested(case: Any, to_known: bool) -> None:
        if to_known:
            case.path_parameters = {**(case.path_parameters or {}), **known}
        case.call_and_validate(headers=HEADERS, checks=checks)

    requested()


def test_every_operation_names_its_document_and_its_errors(subject: Home) -> None:
    document = subject.get("/openapi.json").json()
    operations = {f"{method} {path}": operation for path, methods in document["paths"].items() for method, operation in methods.items()}

    assert document["openapi"].startswith("3.1")
    for name, operation in operations.items():
        assert operation["responses"]["4XX"]["content"]["application/problem+json"], name
        given_ = [status for status in operation["responses"] if status.startswith("2")]
        assert given_, name
        assert operation["operationId"], name
    assert {"post /v1/chat/completions", "post /v1/responses", "get /v1/models", "put /v1/settings/{path}"} <= set(operations)
