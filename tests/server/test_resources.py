"""Sessions, needs, memory, settings and tasks over HTTP: the documents of the command line, and errors as problem details."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from fastapi import FastAPI

from orchestrator.server import create_app
from orchestrator.testing.fake_provider import says
from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import TOKEN, Home

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def fits(kind: str, response: httpx.Response, status: int = 200) -> Any:
    """The document, after a look at its schema as it is published."""
    assert response.status_code == status, response.text
    document = response.json()
    jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text())).validate(document)
    return document


def test_a_session_is_begun_named_shown_forked_and_dropped(home: Home) -> None:
    made = home.post("/v1/sessions", {"name": "mine"})
    identity = fits("session-ref", made, 201)["id"]
    assert made.headers["location"] == f"/v1/sessions/{identity}"
    assert home.post("/v1/sessions", {"name": "mine"}).status_code == 400

    assert [one["name"] for one in fits("sessions", home.get("/v1/sessions"))["sessions"]] == ["mine"]
    assert fits("session-ref", home.request("PATCH", "/v1/sessions/mine", {"name": "ours"}))["name"] == "ours"
    assert fits("session", home.get("/v1/sessions/ours"))["id"] == identity
    copy = fits("session-ref", home.post("/v1/sessions/ours/fork", {"name": "copy"}), 201)
    dropped = fits("session-ref", home.request("DELETE", f"/v1/sessions/{copy['id']}"))
    assert Path(dropped["export"]).exists()
    assert home.get(f"/v1/sessions/{copy['id']}").status_code == 404


def test_a_name_that_is_taken_is_the_clients_mistake_whatever_would_take_it(home: Home) -> None:
    session = home.begin("mine")
    home.begin("ours")
    document = home.get("/v1/sessions/mine").json()

    answers = [
        home.post("/v1/sessions/ours/fork", {"name": "mine"}),
        home.post("/v1/sessions/import", {**document, "id": "another"}),
        home.request("PATCH", "/v1/sessions/ours", {"name": "mine"}),
    ]

    assert [(answer.status_code, answer.json()["title"]) for answer in answers] == [(400, "UsageError")] * 3
    assert all(session.id[:8] in answer.json()["detail"] for answer in answers)
    assert len(home.service.store.list(None)) == 2


def test_a_session_document_is_taken_in_and_found_by_its_words(home: Home) -> None:
    made = home.post("/v1/sessions/import", {"turns": [{"role": "primary", "prompt": "Where is the zebra?", "answer": "In the zoo."}]})
    identity = fits("session-ref", made, 201)["id"]

    assert [hit["session"] for hit in fits("hits", home.get("/v1/search?text=zebra"))["hits"]] == [identity]
    broken = home.post("/v1/sessions/import", {"turns": [{"role": "king"}]})
    assert (broken.status_code, broken.json()["title"], "turns[0].role" in broken.json()["detail"]) == (400, "DocumentError", True)


@pytest.mark.parametrize("workspace", ["relative", "/nowhere/at/all", "\0", "", "/" + "x" * 5000])
def test_a_workspace_has_to_be_a_directory_that_is_there(home: Home, workspace: str) -> None:
    assert home.post("/v1/sessions", {"workspace": workspace}).status_code == 400


def test_a_session_of_another_workspace_heeds_that_ones_project_file_and_what_was_set_here(home: Home, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    home.local.will(says("Blue."))
    home.request("PUT", "/v1/settings/limits.context_budget_chars", {"value": 77})

    made = home.post("/v1/sessions", {"workspace": str(tmp_path / "other")}).json()

    assert home.post(f"/v1/sessions/{made['id']}/turns", {"prompt": "?"}).json()["answer"] == "Blue."
    assert home.service.premises.at(str(tmp_path / "other")).settings.value("limits.context_budget_chars") == 77
    assert [one["id"] for one in home.get("/v1/sessions?all_workspaces=true").json()["sessions"]] == [made["id"]]


def test_a_plan_says_what_the_next_turn_would_be_and_does_nothing(home: Home) -> None:
    session = home.begin()

    plan = fits("plan", home.post(f"/v1/sessions/{session.id}/plan", {"prompt": "do it", "role": "escalation"}))

    assert (plan["agent"], plan["mode"], plan["turn"]) == ("strong", "first", 0)
    assert not home.strong.requests
    assert home.service.store.log(session.id).next_index == 0


def test_a_need_is_stated_cleared_and_restored(home: Home) -> None:
    path = f"/v1/sessions/{home.begin().id}/need"

    assert fits("need", home.request("PUT", path, {"text": "ship it"}))["text"] == "ship it"
    assert fits("need", home.request("DELETE", path))["last_need"]["text"] == "ship it"
    assert fits("need", home.post(f"{path}/restore"))["status"] == "set"
    assert fits("need", home.get(path))["label"] == "current"
    assert home.request("PUT", path, {"text": "  "}).status_code == 400


def test_facts_are_learned_explained_forgotten_and_restored(home: Home) -> None:
    fact = fits("percept", home.post("/v1/memory", {"content": "the door is blue"}), 201)
    again = fits("percept", home.post("/v1/memory", {"content": "The door is blue!"}))

    assert (again["id"], again["stored"]) == (fact["id"], False)
    assert [one["id"] for one in fits("percepts", home.get("/v1/memory"))["percepts"]] == [fact["id"]]
    assert [one["id"] for one in fits("why", home.post("/v1/memory/why", {"prompt": "which colour?"}))["chosen"]] == [fact["id"]]
    assert fits("percept", home.request("DELETE", f"/v1/memory/{fact['id']}"))["stored"] is None
    assert [one["id"] for one in fits("archive", home.get("/v1/memory/archive"))["archived"]] == [fact["id"]]
    assert fits("percept", home.post(f"/v1/memory/{fact['id']}/restore"))["stored"] is True
    fits("stale", home.get("/v1/memory/stale"))
    fits("consolidated", home.post("/v1/memory/consolidate"))
    assert home.post("/v1/memory", {"content": " "}).status_code == 400


def test_settings_are_listed_with_their_sources(home: Home) -> None:
    settings = fits("settings", home.get("/v1/settings"))["settings"]

    assert {one["path"]: one["source"] for one in settings}["primary"].startswith("file:")
    assert fits("setting", home.get("/v1/settings/agents.local.limits.idle_timeout"))["value"] == "120s"


def test_text_that_is_none_in_utf8_comes_back_as_json(home: Home) -> None:
    session = home.begin()
    home.local.will(says("Fine."))

    answer = home.request(
        "POST", f"/v1/sessions/{session.id}/turns", content=b'{"prompt": "a\\ud800b\\u0000c\\u001b[31m"}', headers={"content-type": "application/json"}
    )

    assert answer.json()["outcome"] == "completed"
    assert home.get(f"/v1/sessions/{session.id}").json()["turns"][0]["prompt"].startswith("a\ufffdb")


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"name": NaN}', b"\xff\xfe", b'{"name": "\\ud800"}', b'"x"', b"null"])
def test_what_is_no_json_is_refused(home: Home, body: bytes) -> None:
    response = home.request("POST", "/v1/sessions", content=body, headers={"content-type": "application/json"})

    assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json")


def test_ambiguous_and_unknown_references_are_said_with_what_there_is(home: Home) -> None:
    sessions = [home.post("/v1/sessions/import", {"id": f"abcdefgh-{number}", "turns": []}).json()["id"] for number in range(2)]

    ambiguous, unknown = home.get("/v1/sessions/abcdefgh"), home.get("/v1/sessions/zzz")

    assert (ambiguous.status_code, len(ambiguous.json()["error"]["candidates"])) == (409, len(sessions))
    assert (unknown.status_code, unknown.json()["title"], unknown.json()["type"]) == (404, "NotFound", "urn:escalera:error:NotFound")


# -- real parts ----------------------------------------------------------------------------------


def test_a_task_runs_in_a_process_of_its_own_and_its_result_is_the_turn_document(tmp_path: Path) -> None:
    with OpenAIServer(reply("Done in the background.")) as model:
        config = tmp_path / "config.toml"
        config.write_text(f'primary = "local"\n[agents.local]\nprovider = "openai"\nbase_url = "{model.url}"\nmodel = "fake"\n')
        home = Home(tmp_path)
        home._app = create_app(workspace=tmp_path, config_file=config, environ={**os.environ, "ESCALERA_HOME": str(tmp_path / "home")}, token=TOKEN)
        home.begin()

        begun = fits("task", home.post("/v1/tasks", {"prompt": "go"}), 202)
        assert home.get(f"/v1/tasks/{begun['id']}/result").json()["title"] == "TaskRuns"
        until = time.monotonic() + 30
        while home.get(f"/v1/tasks/{begun['id']}").json()["state"] == "running" and time.monotonic() < until:
            home.service.premises.clock.sleep(0.1)

        assert fits("turn", home.get(f"/v1/tasks/{begun['id']}/result"))["answer"] == "Done in the background."
        assert home.post(f"/v1/tasks/{begun['id']}/cancel").status_code == 409
        home.close()


def test_a_program_of_ones_own_mounts_the_application(tmp_path: Path) -> None:
    escalera = create_app(workspace=tmp_path, environ={"ESCALERA_HOME": str(tmp_path / "home")}, token=TOKEN, hosts=("app.example",))
    own = FastAPI()
    own.mount("/agents", escalera)

    async def listed() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=own), base_url="http://app.example") as client:
            return await client.get("/agents/v1/sessions", headers={"authorization": f"Bearer {TOKEN}"})

    response = asyncio.run(listed())
    escalera.state.service.close()

    assert response.json() == {"format": "escalera.sessions/1", "sessions": []}
