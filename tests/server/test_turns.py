"""Turns over HTTP: answered whole, as events, resumed, cancelled, gone on with after a question."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from httpx_sse import connect_sse

from orchestrator.errors import AuthFailed
from orchestrator.messages import ToolCall, Usage
from orchestrator.providers import MessageDone, Question, TextDelta
from orchestrator.server.service import KEPT_RUNS
from orchestrator.server.shelf import Shelf
from orchestrator.store import Claim
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, calls, says

from .conftest import START, Home, events, kinds

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
"""As they are published."""


def turns_of(home: Home) -> str:
    return f"/v1/sessions/{home.begin().id}/turns"


def fits(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text())).validate(document)
    return document


def test_a_turn_is_answered_by_the_turn_document(home: Home) -> None:
    home.local.will(says("Blue.", usage=Usage(input_tokens=3, output_tokens=1)))

    response = home.post(turns_of(home), {"prompt": "Which colour?"})

    assert response.status_code == 200
    document = fits("turn", response.json())
    assert (document["answer"], document["agent"], document["outcome"], document["turn"]) == ("Blue.", "local", "completed", 0)
    shown = home.get(response.headers["location"])
    assert fits("session", shown.json())["turns"][0]["prompt"] == "Which colour?"


@pytest.mark.parametrize(("body", "agent", "mode"), [({"role": "escalation"}, "strong", "first"), ({"agent": "strong", "reason": "hard"}, "strong", "first")])
def test_who_has_the_turn_is_chosen_as_by_the_flags(home: Home, body: dict[str, Any], agent: str, mode: str) -> None:
    home.strong.will(says("Done."))

    document = home.post(turns_of(home), {"prompt": "do it", **body}).json()

    assert (document["agent"], document["mode"], document["role"]) == (agent, mode, "escalation")


def test_a_turn_that_fails_is_answered_by_its_document(home: Home) -> None:
    home.local.will([AuthFailed("the key is wrong", agent="local")])

    response = home.post(turns_of(home), {"prompt": "do it"})

    assert (response.status_code, response.json()["outcome"], response.json()["error"]["type"]) == (200, "failed", "AuthFailed")


def test_what_keeps_a_turn_from_coming_to_be_is_a_problem(home: Home) -> None:
    home.config += "[limits]\nmessage_budget_chars = 2000\n"
    path = turns_of(home)

    response = home.post(path, {"prompt": "x" * 3000})

    assert (response.status_code, response.headers["content-type"], response.json()["title"]) == (413, "application/problem+json", "BudgetExceeded")
    assert home.post(path, {"prompt": "x" * 3000, "stream": True}).status_code == 413
    assert home.get("/v1/sessions").json()["sessions"][0]["turns"] == 0


def test_a_body_that_cannot_be_used_is_refused(home: Home) -> None:
    path, asked = turns_of(home), {"prompt": "x"}

    for body in ({}, {"prompt": "  "}, {**asked, "timeout": "soon"}, {**asked, "timeout": "0s"}, {**asked, "colour": 1}, []):
        response = home.request("POST", path, body)
        assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json"), body


def test_events_have_ids_names_and_the_lines_of_the_command_line(home: Home) -> None:
    home.local.will(says("Blue it is."))

    response = home.post(turns_of(home), {"prompt": "Which colour?", "stream": True})

    lines = events(response.text)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert [identity for identity, _, _ in lines] == [f"0.{number}" for number in range(1, len(lines) + 1)]
    assert kinds(lines) == ["turn_started", "text", "text", "text", "turn"] == [name for _, name, _ in lines]
    assert all(fits("stream", document) for _, _, document in lines)


def test_a_client_that_accepts_nothing_but_events_gets_them(home: Home) -> None:
    home.local.will(says("Blue."))

    assert kinds(events(home.post(turns_of(home), {"prompt": "?"}, headers={"accept": "text/event-stream"}).text))[-1] == "turn"


def test_a_hand_over_goes_on_in_the_same_stream(home: Home) -> None:
    home.local.will(calls(ToolCall("c1", "escalate", {"reason": "too hard"})))
    home.strong.will(says("Solved."))
    path = turns_of(home)

    lines = events(home.post(path, {"prompt": "do it", "stream": True}).text)

    assert [document["turn"] for _, _, document in lines if document["type"] == "turn_started"] == [0, 1]
    assert (lines[-1][2]["answer"], lines[-1][2]["escalated_from"]) == ("Solved.", 0)
    assert events(home.get(f"{path}/0/events").text) == events(home.get(f"{path}/1/events").text) == lines


def test_a_dropped_stream_is_gone_on_with_and_no_event_is_lost_or_doubled(home: Home) -> None:
    said, more = threading.Event(), threading.Event()
    words = [f"w{number} " for number in range(200)]
    home.local.will([*map(TextDelta, words[:100]), lambda: (said.set(), more.wait(10)), *map(TextDelta, words[100:]), *says("".join(words), streamed=False)])
    with home.client() as client:
        seen: list[tuple[str, dict[str, Any]]] = []
        with connect_sse(client, "POST", turns_of(home), json={"prompt": "count", "stream": True}) as source:
            place = source.response.headers["location"]
            for event in source.iter_sse():
                seen.append((event.id, event.json()))
                if len(seen) == 50:
                    break  # the client is gone, in the middle
        assert said.wait(10)
        while True:
            with connect_sse(client, "GET", place, headers={"last-event-id": seen[-1][0]}) as source:
                for event in source.iter_sse():
                    seen.append((event.id, event.json()))
                    if len(seen) in (101, 150):
                        more.set()
                        break  # and again
                else:
                    break

    assert [identity for identity, _ in seen] == [f"0.{number}" for number in range(1, len(seen) + 1)]
    assert "".join(document["text"] for _, document in seen if document["type"] == "text") == "".join(words)
    assert seen[-1][1]["type"] == "turn"


def test_an_event_id_that_is_none_is_refused(home: Home) -> None:
    home.local.will(says("Blue."))
    path = turns_of(home)
    home.post(path, {"prompt": "?"})

    for last in ("nonsense", "1.2", "0.99", "0.", "0.-1", "0.1e3", "9" * 5000):
        assert home.get(f"{path}/0/events", headers={"last-event-id": last}).status_code == 400, last


def test_events_are_held_for_a_while_and_then_the_turn_itself_is_there(home: Home) -> None:
    home.local.will(says("Blue."))
    path = turns_of(home)
    home.post(path, {"prompt": "?"})

    home.clock.seconds += 1700
    assert home.get(f"{path}/0/events").status_code == 200
    home.clock.seconds += 1801

    assert home.get(f"{path}/0/events").status_code == 410
    assert home.get(f"{path}/0").status_code == 200
    assert home.get(f"{path}/1/events").status_code == 404


def test_the_same_key_again_is_the_same_turn(home: Home) -> None:
    home.local.will(says("Once."))
    path = turns_of(home)

    answers = [home.post(path, {"prompt": "pay"}, headers={"idempotency-key": "k1"}).json() for _ in range(3)]

    assert answers[0] == answers[1] == answers[2]
    assert len(home.local.requests) == 1


@pytest.mark.parametrize("prompt", ["pay", "something else"])
def test_a_key_of_which_no_turn_came_is_free_again(home: Home, prompt: str) -> None:
    home.config = f"session_wait = '0s'\n{home.config}"
    home.local.will(says("Done."))
    path, key = turns_of(home), {"idempotency-key": "k1"}
    session = path.split("/")[3]
    claim = home.service.store.claim(session, "another process", timedelta(hours=1))
    assert isinstance(claim, Claim)

    refused = home.post(path, {"prompt": "pay"}, headers=key)
    home.service.store.release(claim)
    done = home.post(path, {"prompt": prompt}, headers=key)

    assert (refused.status_code, refused.json()["title"]) == (409, "SessionInUse")
    assert (done.status_code, done.json()["answer"]) == (200, "Done.")


def test_a_key_stands_for_one_body_however_it_is_answered(home: Home) -> None:
    home.local.will(says("Once."))
    path, key = turns_of(home), {"idempotency-key": "k1", "content-type": "application/json"}
    home.request("POST", path, content=rb'{"prompt": "half a letter: \ud800"}', headers=key)

    other = home.post(path, {"prompt": "something else"}, headers=key)
    streamed = home.request("POST", path, content=rb'{"stream": true, "prompt": "half a letter: \ud800"}', headers=key)

    assert (other.status_code, other.json()["title"], "a key of its own" in other.json()["error"]["hint"]) == (422, "KeyTaken", True)
    assert kinds(events(streamed.text))[-1] == "turn"
    assert len(home.local.requests) == 1


def test_a_key_is_known_before_it_is_looked_what_there_is_to_go_on_with(home: Home) -> None:
    home.local.will([Question("Which colour?", durable=True), *says("I asked.")], says("Blue then."))
    path = turns_of(home)
    first = home.post(path, {"prompt": "paint"}).json()
    home.post(f"/v1/questions/{first['open_questions'][0]}/answer", {"action": "accept"})

    answers = [home.post(path, {"continue": True}, headers={"idempotency-key": "k1"}) for _ in range(2)]

    assert [answer.json()["answer"] for answer in answers] == ["Blue then."] * 2


def test_a_turn_that_runs_is_not_forgotten_for_others_that_come_or_come_to_nothing(home: Home) -> None:
    home.config = f"session_wait = '0s'\n{home.config}"
    home.local.will([Question("May I?"), *says("Done.")])
    path, key = turns_of(home), {"idempotency-key": "k1"}
    waiting = fits_waiting(home.post(path, {"prompt": "go", "wait_questions": True}, headers=key))

    others = [home.post(path, {"prompt": "and"}).status_code for _ in range(6)]
    again = home.post(path, {"prompt": "go", "wait_questions": True}, headers=key)
    done = home.post(f"{path}/0/continue", {"continuation": waiting["continuation"]["token"], "action": "accept"})

    assert (others, again.status_code) == ([409] * 6, 202)
    assert (done.status_code, done.json()["answer"]) == (200, "Done.")
    assert kinds(events(home.get(f"{path}/0/events").text))[-1] == "turn"
    assert len(home.service.served(path.split("/")[3]).runs) == 1


def put_away(home: Home) -> None:
    """Wait for what follows an answer: the events of its turn are put away."""
    assert all(done.wait(10) for done in [*home.service._running.values()])


def test_of_turns_that_have_ended_the_last_ones_are_held_with_their_keys_and_events(home: Home) -> None:
    home.local.will(*[says(f"a{number}") for number in range(KEPT_RUNS + 2)])
    path = turns_of(home)
    for number in range(KEPT_RUNS + 1):
        home.post(path, {"prompt": "?"}, headers={"idempotency-key": f"k{number}"})
    put_away(home)

    assert home.get(f"{path}/0/events").status_code == 410
    assert home.get(f"{path}/1/events").status_code == 200
    assert home.post(path, {"prompt": "?"}, headers={"idempotency-key": "k1"}).json()["turn"] == 1
    assert home.post(path, {"prompt": "?"}, headers={"idempotency-key": "k0"}).json()["turn"] == KEPT_RUNS + 1


def test_events_of_ended_turns_take_so_much_room_at_most_and_the_turn_is_told_all_the_same(home: Home) -> None:
    home.service._shelf = Shelf(most=2000)
    home.local.will(says("x" * 400), says("y" * 400))
    path, key = turns_of(home), {"idempotency-key": "k1"}
    first = home.post(path, {"prompt": "?", "wait_questions": True}, headers=key).json()
    home.post(path, {"prompt": "?"})
    put_away(home)

    assert (home.get(f"{path}/0/events").status_code, home.get(f"{path}/1/events").status_code) == (410, 200)
    assert home.post(path, {"prompt": "?", "wait_questions": True}, headers=key).json() == first
    assert home.post(path, {"prompt": "?", "wait_questions": True, "stream": True}, headers=key).status_code == 410


def test_a_running_turn_is_cancelled(home: Home) -> None:
    begun = threading.Event()
    home.local.will([TextDelta("so far"), begun.set, UNTIL_CANCELLED])
    path = turns_of(home)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(home.post(path, {"prompt": "long"})))
    asking.start()
    assert begun.wait(10)

    assert home.post(f"{path}/0/cancel").status_code == 200
    asking.join(10)

    assert (answers[0].json()["outcome"], answers[0].json()["partial"]) == ("cancelled", "so far")


def test_turns_of_one_session_wait_for_each_other_and_those_of_another_do_not(home: Home) -> None:
    begun, go_on = threading.Event(), threading.Event()
    home.local.will([begun.set, lambda: go_on.wait(10), *says("first")], says("other"), says("second"))
    path, other = turns_of(home), turns_of(home)
    answers: dict[str, Any] = {}
    threads = [threading.Thread(target=lambda p=p, n=n: answers.update({n: home.post(p, {"prompt": n}).json()})) for p, n in ((path, "one"), (path, "two"))]
    threads[0].start()
    assert begun.wait(10)

    assert home.post(other, {"prompt": "three"}).json()["answer"] == "other"
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(10)

    assert [answers[name]["turn"] for name in ("one", "two")] == [0, 1]


def test_what_there_is_to_say_of_a_changed_file_stands_in_the_next_turn_and_in_no_other(home: Home) -> None:
    home.local.will(says("One."), says("Two."), says("Three."))
    path = turns_of(home)
    home.post(path, {"prompt": "one"})
    (home.folder / "config.toml").write_text("[broken")
    home.get("/v1/settings")

    second, third = (home.post(path, {"prompt": prompt}).json() for prompt in ("two", "three"))

    assert ["what it said before still counts" in notice for notice in second["notices"]] == [True]
    assert third["notices"] == []


# -- questions in turns --------------------------------------------------------------------------


def test_without_waiting_what_only_a_human_could_allow_is_denied(home: Home) -> None:
    home.local.will([Question("May I delete it?"), *says("I did not.")])

    document = home.post(turns_of(home), {"prompt": "tidy up"}).json()

    assert (home.local.answers[0].action, home.local.answers[0].by) == ("cancel", "nobody")
    assert any("nobody could be asked" in notice for notice in document["notices"])


def test_a_turn_that_waits_is_gone_on_with_by_its_token_and_the_answer(home: Home) -> None:
    home.local.will([Question("May I delete it?"), *says("Deleted.")])
    path = turns_of(home)

    waiting = home.post(path, {"prompt": "tidy up", "wait_questions": True})
    document = fits_waiting(waiting)
    done = home.post(waiting.headers["location"], {"continuation": document["continuation"]["token"], "action": "accept"})

    assert (done.status_code, done.json()["answer"], home.local.answers[0].action) == (200, "Deleted.", "accept")


def fits_waiting(response: httpx.Response) -> dict[str, Any]:
    document: dict[str, Any] = response.json()
    assert (response.status_code, document["format"], document["question"]["state"]) == (202, "escalera.waiting/1", "pending")
    return document


def test_an_answer_from_elsewhere_does_as_well(home: Home) -> None:
    home.local.will([Question("May I?"), *says("Done.")])
    path = turns_of(home)
    document = fits_waiting(home.post(path, {"prompt": "go", "wait_questions": True}))

    answered = home.post(f"/v1/questions/{document['question']['id']}/answer", {"action": "decline"})
    assert answered.json()["answer"]["action"] == "decline"

    done = home.post(f"{path}/0/continue", {"continuation": document["continuation"]["token"]})
    assert (done.status_code, home.local.answers[0].action) == (200, "decline")


def test_a_stream_shows_its_question_and_goes_on_when_it_is_answered(home: Home) -> None:
    home.local.will([Question("May I?"), *says("Done.")])
    with home.client() as client, connect_sse(client, "POST", turns_of(home), json={"prompt": "go", "stream": True, "wait_questions": True}) as source:
        lines = []
        for event in source.iter_sse():
            lines.append(event.json())
            if event.event == "question":
                home.request("POST", f"/v1/questions/{event.json()['id']}/answer", {"action": "accept"})

    assert [line["type"] for line in lines][-1] == "turn"
    assert lines[-1]["answer"] == "Done."


def test_a_question_left_open_is_answered_and_gone_on_with_in_another_turn(home: Home) -> None:
    home.local.will([Question("Which colour?", durable=True), *says("I asked.")], says("Blue then."))
    path = turns_of(home)
    first = home.post(path, {"prompt": "paint"}).json()
    assert home.post(path, {"continue": True}).json()["title"] == "AnswerAwaited"

    home.post(f"/v1/questions/{first['open_questions'][0]}/answer", {"action": "accept"})
    second = home.post(path, {"continue": True})

    assert (second.status_code, second.json()["answer"]) == (200, "Blue then.")
    assert "Which colour?" in home.get(f"{path}/1").json()["turns"][0]["prompt"]


def test_times_of_documents_are_those_of_the_clock(home: Home) -> None:
    home.local.will([TextDelta("x"), MessageDone(()), *says("Blue.")])
    path = turns_of(home)
    home.post(path, {"prompt": "?"})

    assert home.get(f"{path}/0").json()["turns"][0]["started_at"] == START.isoformat().replace("+00:00", "Z")
