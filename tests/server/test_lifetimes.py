"""The cases of the lifetime convention that are about HTTP, one test each, under a clock that is set by hand."""

from __future__ import annotations

import threading
import tomllib
from datetime import datetime, timedelta
from typing import Any

import pytest
from httpx_sse import connect_sse

from orchestrator.clock import parse_time
from orchestrator.lifetimes import LEASE_TTL, begun
from orchestrator.planning.case import Wish
from orchestrator.providers import Answer, Question
from orchestrator.server.service import Order
from orchestrator.tasks import StoredTask, TaskState
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, says

from .conftest import START, Home

FORM = Question("Colour?", mode="form", schema={"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}, durable=True)
MINUTES = 60.0
HOURS = 3600.0


def life(document: dict[str, Any]) -> tuple[float, float, int]:
    """(last touched, expires, remaining) in seconds since the start, and milliseconds."""
    return seconds(document["lastTouched"]), seconds(document["expiresAt"]), document["ttlRemainingMs"]


def seconds(moment: str) -> float:
    return (parse_time(moment) - START).total_seconds()


def listed(home: Home) -> list[dict[str, Any]]:
    questions: list[dict[str, Any]] = home.get("/v1/questions").json()["questions"]
    return questions


def test_a2_a_read_over_http_renews_and_c6_shows_what_counts_then(home: Home) -> None:
    stored = home.ask_question()
    home.clock.seconds = 60

    assert life(home.get(f"/v1/questions/{stored.id}").json()) == (60, 180, 120_000)


def test_a4_unread_it_has_expired(home: Home) -> None:
    stored = home.ask_question()
    home.clock.seconds = 121

    document = home.get(f"/v1/questions/{stored.id}").json()

    assert (document["state"], document["answer"]["action"], document["answer"]["by"], document["ttlRemainingMs"]) == ("expired", "cancel", "expiry", 0)
    assert listed(home) == [], "B10: absent from the open ones"


def test_b1_c1_a_list_touches_none_of_them_and_has_the_same_fields(home: Home) -> None:
    stored = home.ask_question()
    home.clock.seconds = 60

    assert [life(entry) for entry in listed(home)] == [(0, 120, 60_000)]
    item = home.get(f"/v1/questions/{stored.id}").json()
    assert {"expiresAt", "lastTouched", "ttlRemainingMs"} <= set(item) & set(listed(home)[0])


def test_b3_no_filter_of_a_list_touches(home: Home) -> None:
    session = home.begin()
    home.ask_question(session=session)
    home.clock.seconds = 60

    for path in (f"/v1/questions?session={session.id}", "/v1/questions?everything=true", "/v1/sessions", "/v1/tasks"):
        assert home.get(path).status_code == 200

    assert life(listed(home)[0])[:2] == (0, 120)


@pytest.mark.parametrize("content", [{"colour": 5}, {}, None], ids=["b5 wrong", "b6 empty", "b6 null"])
def test_b5_b6_content_that_does_not_fit_is_refused_and_touches_nothing(home: Home, content: Any) -> None:
    stored = home.ask_question(FORM)
    home.clock.seconds = 100

    response = home.post(f"/v1/questions/{stored.id}/answer", {"action": "accept", "content": content})

    assert (response.status_code, bool(response.json()["error"]["problems"])) == (422, True)
    assert [(entry["state"], *life(entry)[:2]) for entry in listed(home)] == [("pending", 0, 120)]


def test_b7_a_read_of_an_answered_one_shows_it_as_it_was(home: Home) -> None:
    stored = home.ask_question()
    home.clock.seconds = 10
    home.post(f"/v1/questions/{stored.id}/answer", {"action": "accept"})
    home.clock.seconds = 60

    document = home.get(f"/v1/questions/{stored.id}").json()

    assert (document["answer"]["action"], *life(document)[:2]) == ("accept", 0, 120)


def test_b12_a_question_in_an_event_stream_is_not_touched(home: Home) -> None:
    home.local.will([Question("May I?"), *says("Done.")])
    session = home.begin()
    with (
        home.client() as client,
        connect_sse(client, "POST", f"/v1/sessions/{session.id}/turns", json={"prompt": "go", "stream": True, "wait_questions": True}) as source,
    ):
        for event in source.iter_sse():
            if event.event == "question":
                home.clock.seconds = 60
                assert life(listed(home)[0])[:2] == (0, 120)
                client.post(f"/v1/questions/{event.json()['id']}/answer", json={"action": "accept"})


def test_b13_head_and_whatever_is_refused_touch_nothing(home: Home) -> None:
    stored = home.ask_question()
    home.clock.seconds = 60
    path = f"/v1/questions/{stored.id}"

    refused = [
        home.request("HEAD", path),
        home.get(path, headers={"authorization": "Bearer no"}),
        home.get(path, headers={"origin": "http://evil.example"}),
        home.get(path, headers={"host": "evil.example"}),
        home.get("/v1/questions/unknown"),
    ]
    conditional = home.get("/v1/questions", headers={"if-none-match": "*", "if-modified-since": "Sun, 01 Mar 2026 12:00:00 GMT"})

    assert [response.status_code for response in refused] == [405, 401, 403, 421, 404]
    assert conditional.status_code == 200
    assert life(listed(home)[0])[:2] == (0, 120)


def test_b14_a_read_of_another_process_touches_as_one_over_http_does(home: Home) -> None:
    stored = home.ask_question()
    home.clock.seconds = 60
    home.service.broker.read(stored.id)  # what `questions show` calls

    assert life(listed(home)[0])[:2] == (60, 180)


@pytest.mark.parametrize("verb", ["renew", "touch", "extend"])
def test_b15_there_is_nothing_that_renews(home: Home, verb: str) -> None:
    stored = home.ask_question()
    home.clock.seconds = 60

    answers = {home.request(method, f"/v1/questions/{stored.id}/{verb}", {}).status_code for method in ("POST", "PUT", "PATCH")}

    assert answers <= {400, 404, 405}
    assert life(listed(home)[0])[:2] == (0, 120)


def test_b15_no_operation_of_the_published_document_renews(home: Home) -> None:
    document = home.get("/openapi.json").json()
    names = {word for path, operations in document["paths"].items() for word in [*path.split("/"), *(one["operationId"] for one in operations.values())]}

    verbs = ("renew", "touch", "extend", "prolong", "refresh", "keep-alive", "keepalive", "keep_alive")
    assert names
    assert not {name for name in names if any(verb in name.lower() for verb in verbs)}


def test_c8_no_item_and_no_list_is_kept_by_a_cache(home: Home) -> None:
    stored, session = home.ask_question(), home.begin()

    for path in (f"/v1/questions/{stored.id}", "/v1/questions", f"/v1/sessions/{session.id}", f"/v1/sessions/{session.id}/need", "/v1/questions/unknown"):
        assert home.get(path).headers["cache-control"] == "no-store", path


def test_e1_e2_a_late_or_second_answer_is_refused_with_the_state_named(home: Home) -> None:
    first, second = home.ask_question(), home.ask_question()
    home.clock.seconds = 60
    assert home.post(f"/v1/questions/{first.id}/answer", {"action": "accept"}).status_code == 200

    twice = home.post(f"/v1/questions/{first.id}/answer", {"action": "decline"})
    home.clock.seconds = 121
    late = home.post(f"/v1/questions/{second.id}/answer", {"action": "accept"})

    assert (twice.status_code, late.status_code) == (409, 409)
    assert ("accept" in twice.json()["detail"], "expired" in late.json()["detail"]) == (True, True)


def test_e7_each_refusal_has_its_code(home: Home) -> None:
    stored = home.ask_question(FORM)
    answer = f"/v1/questions/{stored.id}/answer"

    assert home.post("/v1/questions/unknown/answer", {"action": "accept"}).status_code == 404
    assert home.post(answer, {"action": "perhaps"}).status_code == 400
    assert home.post(answer, {"action": "accept", "content": {"colour": "x" * 300_000}}).status_code == 413
    assert home.post(answer, {"action": "accept", "content": {"colour": "x" * 9_000_000}}).status_code == 413
    assert home.post(answer, {"action": "accept", "content": {"colour": "red"}}).status_code == 200
    assert home.post(answer, {"action": "accept", "content": {"colour": "red"}}).status_code == 409


def test_e9_a_human_who_reads_late_may_answer_later(home: Home) -> None:
    stored = home.ask_question()
    home.clock.seconds = 100
    home.get(f"/v1/questions/{stored.id}")
    home.clock.seconds = 200

    assert home.post(f"/v1/questions/{stored.id}/answer", {"action": "accept"}).status_code == 200


# -- settings ------------------------------------------------------------------------------------


def test_g5_a16_a_setting_counts_at_once_for_new_questions_alone(home: Home) -> None:
    old = home.ask_question()

    put = home.request("PUT", "/v1/settings/questions.ttl", {"value": "10m"}).json()
    new = home.ask_question()
    home.clock.seconds = 60

    assert (put["value"], put["source"], put["shadowed"][0]["source"]) == ("10m", "runtime", "default")
    assert life(home.get(f"/v1/questions/{old.id}").json())[1] == 180
    assert life(home.get(f"/v1/questions/{new.id}").json())[1] == 660
    assert home.request("DELETE", "/v1/settings/questions.ttl").json()["source"] == "default"


def test_g12_what_is_unknown_or_unusable_changes_nothing(home: Home) -> None:
    assert home.get("/v1/settings/questions.tll").status_code == 404
    assert "questions.ttl" in home.get("/v1/settings/questions.tll").json()["detail"]
    assert home.request("PUT", "/v1/settings/questions.tll", {"value": "1m"}).status_code == 404
    for value in ("forever", "120", 120, "", "0s", "-5s", None, ["1m"], "2h"):
        refused = home.request("PUT", "/v1/settings/questions.ttl", {"value": value})
        assert refused.status_code == 400, value
        assert "runtime" in refused.json()["detail"], value
    assert home.get("/v1/settings/questions.ttl").json()["source"] == "default"


def test_g13_a_kept_setting_changes_that_key_of_the_file_and_counts_at_once(home: Home) -> None:
    assert home.app
    file = home.folder / "config.toml"
    file.write_text(f"{home.config}\n# mine\n[questions]  # and mine\nkeep = '7d'\n")
    before = file.read_text()

    put = home.request("PUT", "/v1/settings/questions.ttl", {"value": "5m", "persist": "user"}).json()

    assert (put["value"], put["source"], put["written"]) == ("5m", f"file:{file}", str(file))
    assert file.read_text().replace('ttl = "5m"\n', "") == before
    assert life(home.get(f"/v1/questions/{home.ask_question().id}").json())[1] == 300


@pytest.mark.parametrize("text", [" [1]", "true", '"quoted"'])
def test_a_text_is_kept_as_the_text_that_it_is(text: str, home: Home) -> None:
    assert home.app
    file = home.folder / "config.toml"
    file.write_text(f"{home.config}\n")

    put = home.request("PUT", "/v1/settings/agents.local.prompt", {"value": text, "persist": "user"})

    assert put.status_code == 200, put.json()
    assert tomllib.loads(file.read_text())["agents"]["local"]["prompt"] == text


# -- other families ------------------------------------------------------------------------------


def task(home: Home, *, explicit: datetime | None = None) -> StoredTask:
    session, now = home.begin(), home.service.store.now()
    made = StoredTask("t" * 8, session.id, {"prompt": "long"}, now, begun(now, ttl=timedelta(minutes=10), max_age=timedelta(hours=24), expires_at=explicit))
    home.service.store.add_task(made, LEASE_TTL)
    home.service.store.end_task(made.id, TaskState.COMPLETED, {"format": "escalera.turn/1"}, 0)
    return made


def test_h1_a_task_is_kept_by_reading_it_and_not_by_listing(home: Home) -> None:
    identity = task(home).id
    home.clock.seconds = 300
    assert life(home.get(f"/v1/tasks/{identity}").json())[:2] == (300, 900)

    home.clock.seconds = 500
    assert [life(entry)[:2] for entry in home.get("/v1/tasks").json()["tasks"]] == [(300, 900)]
    home.clock.seconds = 700
    assert home.get(f"/v1/tasks/{identity}/result").status_code == 200


def test_h2_an_explicit_lifetime_stands(home: Home) -> None:
    home.clock.seconds = 0
    session, now = home.begin(), home.service.store.now()
    made = StoredTask("e" * 8, session.id, {}, now, begun(now, ttl=timedelta(minutes=10), max_age=timedelta(hours=24), expires_at=now + timedelta(minutes=5)))
    home.service.store.add_task(made, timedelta(minutes=4))
    home.clock.seconds = 120

    assert life(home.get(f"/v1/tasks/{made.id}").json())[:2] == (120, 300)


def test_h4_an_unknown_task_may_have_expired(home: Home) -> None:
    identity = task(home).id
    home.clock.seconds = 601

    for path in (f"/v1/tasks/{identity}", f"/v1/tasks/{identity}/result", "/v1/tasks/unknown"):
        response = home.get(path)
        assert response.status_code == 404
        assert "may have expired" in response.json()["error"]["hint"]


def artifact(home: Home) -> str:
    """A large answer, kept as one."""
    home.local.will(says("x" * 70_000))
    document = home.post(f"/v1/sessions/{home.begin().id}/turns", {"prompt": "much"}).json()
    identity: str = document["artifacts"][0]
    return identity


def test_h5_no_read_of_an_artifact_moves_its_expiry(home: Home) -> None:
    identity = artifact(home)
    home.clock.seconds = 12 * HOURS

    shown, body = home.get(f"/v1/artifacts/{identity}"), home.get(f"/v1/artifacts/{identity}/body")

    assert (life(shown.json())[1], len(shown.json()["text"]), len(body.content)) == (24 * HOURS, 70_000, 70_000)
    assert (body.headers["cache-control"], body.headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert [life(entry)[1] for entry in home.get("/v1/artifacts").json()["artifacts"]] == [24 * HOURS]


def test_h6_one_that_opted_in_lives_by_being_read_up_to_its_ceiling(home: Home) -> None:
    home.config += "[artifacts]\nidle_ttl = '2h'\n"
    identity = artifact(home)
    for hours in range(1, 24):
        home.clock.seconds = hours * HOURS
        home.get("/v1/artifacts")
        assert life(home.get(f"/v1/artifacts/{identity}").json())[1] == min(hours + 2, 24) * HOURS


def test_h7_past_its_expiry_nothing_of_it_is_served_though_it_is_not_collected_yet(home: Home) -> None:
    identity = artifact(home)
    home.clock.seconds = 24 * HOURS

    for path in (f"/v1/artifacts/{identity}", f"/v1/artifacts/{identity}/body"):
        response = home.get(path)
        assert (response.status_code, "x" * 100 in response.text) == (404, False)
    home.service.tidy()
    assert home.get("/v1/artifacts").json()["artifacts"] == []


def waiting(home: Home) -> tuple[str, dict[str, Any]]:
    """A turn that waits for its question: where it is gone on with, and what the client was told."""
    home.local.will([Question("May I?"), *says("Done.")])
    response = home.post(f"/v1/sessions/{home.begin().id}/turns", {"prompt": "go", "wait_questions": True})
    assert response.status_code == 202
    return response.headers["location"], response.json()


def test_h8_a_continuation_counts_for_half_an_hour_and_its_use_mints_another(home: Home) -> None:
    home.config += "[questions]\nttl = '2h'\nmax_age = '3h'\n"
    place, told = waiting(home)
    token = told["continuation"]
    assert life(token) == (0, 1800, 1_800_000)

    home.clock.seconds = 29 * MINUTES
    again = home.post(place, {"continuation": token["token"]})
    assert (again.status_code, life(again.json()["continuation"])[1]) == (202, 59 * MINUTES)
    home.clock.seconds = 31 * MINUTES
    assert home.post(place, {"continuation": token["token"], "action": "accept"}).status_code == 403

    done = home.post(place, {"continuation": again.json()["continuation"]["token"], "action": "accept"})
    assert done.status_code == 200


def test_h9_a_continuation_is_good_for_its_own_turn_alone(home: Home) -> None:
    home.agents["local"].will([Question("May I?"), *says("One.")], [Question("May I?"), *says("Two.")])
    replies = [home.post(f"/v1/sessions/{home.begin().id}/turns", {"prompt": "go", "wait_questions": True}) for _ in range(2)]
    places, tokens = ([reply.headers["location"] for reply in replies], [reply.json()["continuation"]["token"] for reply in replies])

    assert home.post(places[0], {"continuation": tokens[1], "action": "accept"}).status_code == 403
    assert home.post(places[0], {"continuation": tokens[0] + "x", "action": "accept"}).status_code == 403
    assert home.post(places[0], {"continuation": "", "action": "accept"}).status_code == 403
    assert len(listed(home)) == 2, "nothing was answered"
    for place, token in zip(places, tokens, strict=True):
        assert home.post(place, {"continuation": token, "action": "decline"}).status_code == 200


def test_j2_going_on_without_an_answer_tells_the_same_question_and_reads_it(home: Home) -> None:
    place, told = waiting(home)
    home.clock.seconds = 60

    again = home.post(place, {"continuation": told["continuation"]["token"]})

    assert (again.status_code, again.json()["question"]["id"]) == (202, told["question"]["id"])
    assert (life(told["question"])[:2], life(again.json()["question"])[:2]) == ((0, 120), (60, 180))
    assert again.json()["continuation"]["token"] != told["continuation"]["token"], "H10: each round has a token of its own"
    home.post(place, {"continuation": again.json()["continuation"]["token"], "action": "cancel"})


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_j1_each_answer_reaches_the_asker_as_what_it_is(home: Home, action: str) -> None:
    place, told = waiting(home)

    home.post(place, {"continuation": told["continuation"]["token"], "action": action})

    assert (home.local.answers[0].action, home.local.answers[0].by) == (action, "human")


def test_e3_expiry_reaches_the_asker_as_a_cancel_by_expiry(home: Home) -> None:
    place, told = waiting(home)
    home.clock.seconds = 121

    done = home.post(place, {"continuation": told["continuation"]["token"]})

    assert done.status_code == 200
    assert (home.local.answers[0].action, home.local.answers[0].by) == ("cancel", "expiry")


def test_h11_what_the_server_holds_of_a_session_lives_as_long_as_it_is_used(home: Home) -> None:
    home.local.will(says("Blue."))
    session = home.begin()
    home.post(f"/v1/sessions/{session.id}/turns", {"prompt": "?"})
    held = home.service._sessions

    for _ in range(100):  # no ceiling
        home.clock.unused += 29 * MINUTES
        assert home.get(f"/v1/sessions/{session.id}/turns/0/events").status_code == 200
    home.clock.unused += 29 * MINUTES
    home.service.sweep()
    assert session.id in held
    home.clock.unused += 1 * MINUTES + 1
    home.service.sweep()

    assert session.id not in held
    assert home.get(f"/v1/sessions/{session.id}/turns/0/events").status_code == 410


def test_h14_an_idle_server_stays_for_a_running_turn_and_ends_when_that_is_over(home: Home) -> None:
    home.config += "[server]\nidle_exit = '4h'\n"
    started, go_on = threading.Event(), threading.Event()
    home.local.will([started.set, lambda: go_on.wait(10), *says("Done.")])
    session = home.begin()
    run = run_alone(home, session.id, started)

    home.clock.unused += 4 * HOURS
    assert home.service.may_end() is False
    go_on.set()
    assert run.ended.wait(10)
    home.service.stop(0)

    assert home.service.may_end() is True


def run_alone(home: Home, session: str, started: threading.Event) -> Any:
    """A turn without a request that waits for it."""
    run = home.service.take(home.service.store.find(session, ""), Order(Wish("go")))
    assert started.wait(10)
    return run


def test_h14_a_server_without_idle_exit_never_ends(home: Home) -> None:
    assert home.app
    home.clock.unused += 1000 * HOURS

    assert home.service.may_end() is False


def test_h14_each_request_begins_the_wait_anew(home: Home) -> None:
    home.config += "[server]\nidle_exit = '4h'\n"
    home.get("/v1/sessions")
    home.clock.unused += 3 * HOURS
    home.get("/v1/sessions")
    home.clock.unused += 3 * HOURS
    assert home.service.may_end() is False

    home.clock.unused += 1 * HOURS
    assert home.service.may_end() is True


def test_h15_an_open_question_keeps_the_server(home: Home) -> None:
    home.config += "[server]\nidle_exit = '4h'\n"
    stored = home.ask_question()
    home.clock.unused += 5 * HOURS
    assert home.service.may_end() is False

    home.service.broker.answer(stored.id, Answer("accept"))
    assert home.service.may_end() is True


def test_h15_a_running_task_keeps_the_server(home: Home) -> None:
    home.config += "[server]\nidle_exit = '4h'\n"
    session, now = home.begin(), home.service.store.now()
    made = StoredTask("r" * 8, session.id, {}, now, begun(now, ttl=timedelta(minutes=10), max_age=timedelta(hours=24)))
    home.service.store.add_task(made, LEASE_TTL)
    home.clock.unused += 5 * HOURS
    assert home.service.may_end() is False

    home.service.store.end_task(made.id, TaskState.COMPLETED, {}, 0)
    assert home.service.may_end() is True


def test_h15_an_open_stream_keeps_the_server(home: Home) -> None:
    home.config += "[server]\nidle_exit = '4h'\n"
    home.local.will([UNTIL_CANCELLED])
    session = home.begin()
    with home.client() as client, connect_sse(client, "POST", f"/v1/sessions/{session.id}/turns", json={"prompt": "go", "stream": True}) as source:
        lines = source.iter_sse()
        assert next(lines).event == "turn_started"
        home.clock.unused += 5 * HOURS
        assert home.service.idleness.is_over(4 * HOURS, is_needed=lambda: False) is False, "the stream alone"
        assert home.service.may_end() is False
        client.post(f"/v1/sessions/{session.id}/turns/0/cancel")
