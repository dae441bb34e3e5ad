"""OpenAI's own Python client talks to the orchestrator as if it were a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from pydantic import ValidationError

from orchestrator.errors import AuthFailed, Blocked, ContextOverflow, RateLimited
from orchestrator.messages import Text, ToolCall, Usage
from orchestrator.providers import Finished, MessageDone, ReasoningDelta, TextDelta, Withdrawn
from orchestrator.server import runs
from orchestrator.server.openai.bodies import ChatBody, ResponsesBody
from orchestrator.server.problems import Refused
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, FakeProvider, calls, says

from .conftest import TOKEN, Home, texts_sent

HI: Any = [{"role": "user", "content": "Hi"}]
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Of a town", "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}},
}
RESPONSE_WEATHER: Any = {"type": "function", **WEATHER["function"], "strict": False}


@pytest.fixture
def client(home: Home) -> Iterator[openai.OpenAI]:
    with home.served() as url:
        made = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=2, timeout=20)
        yield made
        made.close()


def test_its_models_are_the_orchestrator_and_its_agents(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["escalera", "escalera/local", "escalera/strong"]
    assert client.models.retrieve("escalera/strong").id == "escalera/strong"
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="gpt-9", messages=HI)
    assert refused.value.code == "model_not_found"


def test_a_completion_is_a_turn_and_its_headers_say_which(home: Home, client: openai.OpenAI) -> None:
    home.strong.will(says("Hello.", usage=Usage(input_tokens=3, output_tokens=2, cache_read_tokens=4)))

    raw = client.chat.completions.with_raw_response.create(model="escalera/strong", messages=HI)
    answer = raw.parse()

    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Hello.", "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (7, 2, 9)
    assert {name: raw.headers[f"escalera-{name}"] for name in ("turn", "agent", "role", "mode", "reasons")} == {
        "turn": "0",
        "agent": "strong",
        "role": "escalation",
        "mode": "first",
        "reasons": "never_escalated",
    }
    assert home.service.store.log(raw.headers["escalera-session"]).next_index == 1


def test_a_stream_has_the_text_as_it_comes_and_the_usage_at_its_end(home: Home, client: openai.OpenAI) -> None:
    home.local.will([ReasoningDelta("hm"), *says("Hello to you.", usage=Usage(input_tokens=3, output_tokens=2))])

    chunks = list(client.chat.completions.create(model="escalera", messages=HI, stream=True, stream_options={"include_usage": True}))

    words = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert words == ["Hello", " to", " you."]
    assert [getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in chunks[:2]] == [None, "hm"]
    assert chunks[-1].usage is not None
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens, chunks[-2].choices[0].finish_reason) == ([], 5, "stop")


def test_the_session_is_named_by_the_header_or_by_user(home: Home, client: openai.OpenAI) -> None:
    home.local.will(*[says(f"a{number}") for number in range(4)])
    session = home.begin("mine")
    create = client.chat.completions.with_raw_response.create

    first = create(model="escalera", messages=HI, extra_headers={"Escalera-Session": "mine"})
    second = create(model="escalera", messages=HI, user="ann")
    third = create(model="escalera", messages=[*HI, {"role": "assistant", "content": "whatever"}, *HI], user="ann")

    assert first.headers["escalera-session"] == session.id
    assert second.headers["escalera-session"] == third.headers["escalera-session"] != session.id
    assert home.service.store.find("ann", home.service.premises.workspace).id == second.headers["escalera-session"]
    with pytest.raises(openai.NotFoundError):
        create(model="escalera", messages=HI, extra_headers={"Escalera-Session": "nobody's"})


def test_a_client_that_repeats_what_was_said_goes_on_in_the_same_session(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("One. "), says("Two."), says("Other."))
    create = client.chat.completions.with_raw_response.create

    first = create(model="escalera", messages=HI)
    talk: Any = [*HI, {"role": "assistant", "content": "One."}, {"role": "user", "content": "And then?"}]
    second, other = create(model="escalera", messages=talk), create(model="escalera", messages=HI)

    assert first.headers["escalera-session"] == second.headers["escalera-session"] != other.headers["escalera-session"]
    assert home.service.store.log(first.headers["escalera-session"]).next_index == 2


def said(*texts: str) -> Any:
    """Messages of the user's and the agent's by turns."""
    return [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]


def told_last(home: Home) -> list[str]:
    """What the agent was told of the talk, the last time."""
    return texts_sent(home.local.requests[-1])


def test_two_chats_that_begin_alike_never_hear_of_each_other(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("Hello."), says("Hello."), says("Noted."), says("Nothing."), says("Still nothing."))
    create = client.chat.completions.with_raw_response.create
    for _ in range(2):
        create(model="escalera", messages=HI)

    first = create(model="escalera", messages=said("Hi", "Hello.", "My salary is 12345"))
    second = create(model="escalera", messages=said("Hi", "Hello.", "What do you know of me?"))
    assert told_last(home) == ["Hi", "Hello.", "What do you know of me?"]
    third = create(model="escalera", messages=said("Hi", "Hello.", "What do you know of me?", "Nothing.", "Sure?"))

    assert told_last(home) == ["Hi", "Hello.", "What do you know of me?", "Nothing.", "Sure?"]
    assert first.headers["escalera-session"] != second.headers["escalera-session"] == third.headers["escalera-session"]


def test_an_answer_asked_for_again_and_a_prompt_that_is_edited_are_not_told_what_they_replace(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("One."), [RateLimited("slowly", retry_after=900)], says("Two."), says("Another two."), says("Edited."))
    create = client.chat.completions.create
    create(model="escalera", messages=HI)
    with pytest.raises(openai.RateLimitError):
        create(model="escalera", messages=said("Hi", "One.", "And?"))

    for _ in range(2):
        create(model="escalera", messages=said("Hi", "One.", "And?"))
        assert told_last(home) == ["Hi", "One.", "And?"]
    create(model="escalera", messages=said("Hi", "One.", "Or?"))

    assert told_last(home) == ["Hi", "One.", "Or?"]


def test_branches_at_the_same_time_do_not_share_a_session(home: Home, client: openai.OpenAI) -> None:
    both = threading.Barrier(2, timeout=10)
    home.local.will(says("One."), [both.wait, *says("Left.")], [both.wait, *says("Right.")])
    client.chat.completions.create(model="escalera", messages=HI)

    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(client.chat.completions.with_raw_response.create, model="escalera", messages=said("Hi", "One.", side)) for side in ("left", "right")
        ]
        answers = [one.result() for one in asked]

    assert len({answer.headers["escalera-session"] for answer in answers}) == 2
    assert sorted(texts_sent(request) for request in home.local.requests[1:]) == [["Hi", "One.", "left"], ["Hi", "One.", "right"]]


def test_a_session_that_was_named_is_gone_on_with_by_its_name_alone(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("Noted."), says("Hello."), says("Nothing."))
    create = client.chat.completions.create
    create(model="escalera", messages=said("My salary is 12345"), user="ann")
    create(model="escalera", messages=HI, user="ann")

    create(model="escalera", messages=said("Hi", "Hello.", "What do you know of me?"))

    assert told_last(home) == ["Hi", "Hello.", "What do you know of me?"]


def test_a_branch_takes_no_need_of_the_other_with_it(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("One."), says("Two."), says("Other."))
    create = client.chat.completions.with_raw_response.create
    create(model="escalera", messages=HI)
    left = create(model="escalera", messages=said("Hi", "One.", "left")).headers["escalera-session"]
    home.request("PUT", f"/v1/sessions/{left}/need", {"text": "Earn more"})

    right = create(model="escalera", messages=said("Hi", "One.", "right")).headers["escalera-session"]

    assert "Earn more" not in "".join(texts_sent(home.local.requests[-1]))
    assert home.get(f"/v1/sessions/{right}/need").json()["text"] is None


def test_what_was_said_elsewhere_is_taken_in(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("Blue, I said."))
    talk: Any = [{"role": "user", "content": "Which colour?"}, {"role": "assistant", "content": "Blue."}, {"role": "user", "content": "Again?"}]

    raw = client.chat.completions.with_raw_response.create(model="escalera", messages=talk)

    assert raw.headers["escalera-turn"] == "1"
    assert [text for text in texts_sent(home.local.requests[0]) if text in ("Which colour?", "Blue.", "Again?")] == ["Which colour?", "Blue.", "Again?"]


def test_the_system_message_reaches_the_agent_as_one(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("Arr."))

    client.chat.completions.create(model="escalera", messages=[{"role": "system", "content": "Talk like a pirate."}, *HI])

    assert any("Talk like a pirate." in block.text for block in home.local.requests[0].system)
    assert texts_sent(home.local.requests[0]) == ["Hi"]


# -- tools ---------------------------------------------------------------------------------------


def rain(home: Home, *, towns: tuple[str, ...] = ("Rome",)) -> None:
    home.local.will(calls(*[ToolCall(f"c{place}", "weather", {"town": town}) for place, town in enumerate(towns)], text="Let me see."), says("It rains."))


def test_calls_of_the_clients_tools_are_passed_through_and_their_results_come_back(home: Home, client: openai.OpenAI) -> None:
    rain(home, towns=("Rome", "Oslo"))
    talk: Any = [{"role": "user", "content": "Weather?"}]

    asked = client.chat.completions.create(model="escalera", messages=talk, tools=[WEATHER])
    message = asked.choices[0].message
    assert (asked.choices[0].finish_reason, message.content) == ("tool_calls", "Let me see.")
    assert message.tool_calls is not None
    towns = [json.loads(call.function.arguments)["town"] for call in message.tool_calls if call.type == "function"]
    results: Any = [{"role": "tool", "tool_call_id": call.id, "content": f"rain in {town}"} for call, town in zip(message.tool_calls, towns, strict=True)]
    done = client.chat.completions.create(model="escalera", messages=[*talk, message.model_dump(), *reversed(results)], tools=[WEATHER])

    assert (towns, done.choices[0].message.content, done.choices[0].finish_reason) == (["Rome", "Oslo"], "It rains.", "stop")
    assert [part.content for part in home.local.requests[1].messages[-1].parts] == ["rain in Rome", "rain in Oslo"]  # type: ignore[union-attr]
    session = home.service.store.list(None)[0]
    assert session.turns == 1, "all of it is one turn"
    assert [tool.name for tool in home.local.requests[0].tools if tool.name == "weather"] == ["weather"]


def test_calls_are_passed_through_in_a_stream(home: Home, client: openai.OpenAI) -> None:
    rain(home)
    talk: Any = [{"role": "user", "content": "Weather?"}]
    with client.chat.completions.stream(model="escalera", messages=talk, tools=[WEATHER]) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls is not None
    result: Any = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}

    with client.chat.completions.stream(model="escalera", messages=[*talk, message.to_dict(), result], tools=[WEATHER]) as stream:
        done = stream.get_final_completion()

    assert (message.content, message.tool_calls[0].function.arguments) == ("Let me see.\n\n", '{"town": "Rome"}')
    assert (done.choices[0].message.content, done.choices[0].finish_reason) == ("It rains.", "stop")


def test_a_client_that_goes_on_without_the_results_ends_that_turn(home: Home, client: openai.OpenAI) -> None:
    rain(home)
    talk: Any = [{"role": "user", "content": "Weather?"}]
    message = client.chat.completions.create(model="escalera", messages=talk, tools=[WEATHER], user="ann").choices[0].message
    home.local._scripts[1:] = [says("Fine.")]

    done = client.chat.completions.create(model="escalera", messages=[*talk, message.to_dict(), {"role": "user", "content": "Never mind"}], user="ann")  # type: ignore[list-item]
    late: Any = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}  # type: ignore[index]

    assert done.choices[0].message.content == "Fine."
    turns = home.get("/v1/sessions/ann").json()["turns"]
    assert [turn["outcome"] for turn in turns] == ["cancelled", "completed"]
    with pytest.raises(openai.ConflictError):
        client.chat.completions.create(model="escalera", messages=[*talk, message.to_dict(), late], user="ann")  # type: ignore[list-item]


def test_a_turn_whose_client_never_brings_the_results_is_let_go(home: Home, client: openai.OpenAI) -> None:
    home.config += "[limits]\nturn_timeout = 'unlimited'\n"
    rain(home)
    client.chat.completions.create(model="escalera", messages=HI, tools=[WEATHER], user="ann")
    run = home.service.served(home.service.store.find("ann", home.service.premises.workspace).id).runs[-1]

    home.clock.unused += 1700
    home.service.sweep()
    assert not run.ended.is_set()
    home.clock.unused += 200
    home.service.sweep()

    assert run.ended.wait(10)
    assert home.get("/v1/sessions/ann").json()["turns"][0]["outcome"] == "cancelled"


def test_tools_are_not_offered_where_none_are_wanted_and_cannot_be_forced(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("No."))

    client.chat.completions.create(model="escalera", messages=HI, tools=[WEATHER], tool_choice="none")

    assert "weather" not in [tool.name for tool in home.local.requests[0].tools]
    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        client.chat.completions.create(model="escalera", messages=HI, tools=[WEATHER], tool_choice="required")


def test_an_agent_without_tools_answers_and_the_client_is_told(home: Home, client: openai.OpenAI) -> None:
    home.agents["local"] = FakeProvider(says("I cannot see it."))

    answer = client.chat.completions.create(model="escalera", messages=HI, tools=[WEATHER])

    assert answer.choices[0].message.content == "I cannot see it."
    assert any("offered none of the client's tools" in notice for notice in answer.to_dict()["escalera"]["notices"])  # type: ignore[index,call-overload]


# -- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected", "stream"),
    [
        (RateLimited("slowly", retry_after=900), openai.RateLimitError, False),
        (ContextOverflow("too long"), openai.APIStatusError, True),
        (Blocked("no"), openai.UnprocessableEntityError, False),
        (AuthFailed("wrong key"), openai.InternalServerError, True),
    ],
)
def test_a_turn_that_fails_is_an_error_once_and_is_not_paid_for_again(
    home: Home, client: openai.OpenAI, error: Exception, expected: type[openai.APIStatusError], stream: bool
) -> None:
    home.local.will([error])

    with pytest.raises(expected) as raised:
        client.chat.completions.create(model="escalera", messages=HI, stream=stream)

    assert str(error) in str(raised.value)
    assert len(home.local.requests) == 1, "the client did not send it again by itself"


def test_a_stream_that_breaks_off_says_so(home: Home, client: openai.OpenAI) -> None:
    home.local.will([TextDelta("so far "), AuthFailed("wrong key")])
    seen = []

    with pytest.raises(openai.APIError, match="wrong key"):
        seen.extend(client.chat.completions.create(model="escalera", messages=HI, stream=True))


def test_what_is_withdrawn_is_told_to_a_stream_and_left_out_of_a_whole_answer(home: Home, client: openai.OpenAI) -> None:
    script = [TextDelta("wrong"), Withdrawn(), *says("right")]
    home.local.will(script, script)

    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(model="escalera", messages=HI, stream=True))
    whole = client.chat.completions.create(model="escalera", messages=HI).choices[0].message.content

    assert (streamed.startswith("wrong\n\n[What stands above is withdrawn"), streamed.endswith("right"), whole) == (True, True, "right")


def test_a_whole_answer_may_be_longer_than_the_events_that_are_kept(home: Home, client: openai.OpenAI) -> None:
    text = "x" * (runs.MOST_KEPT // 4)
    home.local.will([*[TextDelta(text) for _ in range(5)], MessageDone((Text(5 * text),)), Finished("stop")])

    answer = client.chat.completions.create(model="escalera", messages=HI).choices[0].message.content

    assert answer == 5 * text


def test_a_client_that_goes_away_ends_its_turn(home: Home, client: openai.OpenAI) -> None:
    ended = threading.Event()
    home.local.will([TextDelta("so far "), UNTIL_CANCELLED])

    stream = client.chat.completions.create(model="escalera", messages=HI, stream=True, user="ann")
    next(iter(stream))
    run = home.service.served(home.service.store.find("ann", home.service.premises.workspace).id).runs[-1]
    stream.close()

    assert run.ended.wait(10)
    assert home.get("/v1/sessions/ann").json()["turns"][0]["outcome"] == "cancelled"
    assert not ended.is_set()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"n": 2}, "n:"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, "image_url"),
        ({"messages": [{"role": "system", "content": "only this"}]}, "last message"),
        ({"messages": [*HI, {"role": "assistant", "content": "He"}]}, "last message"),
        ({"tools": [{"type": "function", "function": {"name": "escalate"}}]}, "escalate"),
        ({"tools": [WEATHER, WEATHER]}, "same name"),
    ],
)
def test_what_an_agent_cannot_be_asked_is_refused_and_said(change: dict[str, Any], why: str) -> None:
    body = ChatBody.model_validate({"model": "escalera", "messages": HI, **change})

    with pytest.raises(Refused, match=why) as refused:
        (body.talk(), body.schemas())

    assert refused.value.status_code == 400


@pytest.mark.parametrize("other", [{"type": "web_search"}, {"type": "namespace", "name": "agents"}, {"type": "custom", "custom": {"name": "x"}}])
def test_tools_that_are_no_functions_are_left_out(other: dict[str, Any]) -> None:
    chat = ChatBody.model_validate({"model": "escalera", "messages": HI, "tools": [other, WEATHER]})
    response = ResponsesBody.model_validate({"model": "escalera", "input": "Hi", "tools": [RESPONSE_WEATHER, other]})

    assert [schema.name for schema in (*chat.schemas(), *response.schemas())] == ["weather", "weather"]


@pytest.mark.parametrize("tools", [7, [7], [{"type": 7}], [{"name": "x"}], [{"type": "function"}]])
def test_tools_that_are_none_are_refused(tools: Any) -> None:
    for body, fields in ((ChatBody, {"messages": HI}), (ResponsesBody, {"input": "Hi"})):
        with pytest.raises(ValidationError):
            body.model_validate({"model": "escalera", **fields, "tools": tools})


# -- responses -----------------------------------------------------------------------------------


def test_a_response_is_a_turn_and_the_next_one_goes_on_from_it(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("One.", usage=Usage(input_tokens=3, output_tokens=1)), says("Two."), says("Other."))

    first = client.responses.create(model="escalera", input="Hi", instructions="Be brief.")
    second = client.responses.create(model="escalera", input="And?", previous_response_id=first.id)
    branch = client.responses.create(model="escalera", input="Or?", previous_response_id=first.id)

    assert (first.output_text, second.output_text, branch.output_text) == ("One.", "Two.", "Other.")
    assert first.usage is not None
    assert (first.usage.total_tokens, first.status) == (4, "completed")
    assert any("Be brief." in block.text for block in home.local.requests[0].system)
    assert [sorted(summary.turns for summary in home.service.store.list(None))] == [[2, 2]], "the third began a copy that ends with the first"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="escalera", input="?", previous_response_id="resp_nobody_0")


def test_a_response_that_was_handed_over_is_gone_on_from_behind_both_of_its_turns(home: Home, client: openai.OpenAI) -> None:
    home.local.will(calls(ToolCall("c", "escalate", {"reason": "too hard"})), says("Left."), says("Right."))
    home.strong.will(says("Solved."))
    first = client.responses.create(model="escalera", input="Hard one")

    for side in ("left", "right"):
        client.responses.create(model="escalera/local", input=side, previous_response_id=first.id)
        assert "Solved." in "".join(told_last(home))
    assert "left" not in told_last(home)


def test_a_response_is_streamed_in_its_own_events(home: Home, client: openai.OpenAI) -> None:
    home.local.will(says("Hello to you."))

    with client.responses.stream(model="escalera", input="Hi") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()

    assert final.output_text == "Hello to you."
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_passes_calls_through(home: Home, client: openai.OpenAI, stream: bool) -> None:
    rain(home)
    first = asked(client, stream, input="Weather?", tools=[RESPONSE_WEATHER])
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("weather", {"town": "Rome"})

    output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    done = asked(client, stream, input=[output], previous_response_id=first.id, tools=[RESPONSE_WEATHER])

    assert done.output_text.strip() == "It rains."
    assert home.local.requests[1].messages[-1].parts[0].content == "rain"  # type: ignore[union-attr]


def asked(client: openai.OpenAI, stream: bool, **fields: Any) -> Any:
    if not stream:
        return client.responses.create(model="escalera", **fields)
    with client.responses.stream(model="escalera", **fields) as events:
        for _ in events:
            pass
        return events.get_final_response()


def test_a_response_that_fails_in_its_stream_says_so(home: Home, client: openai.OpenAI) -> None:
    home.local.will([TextDelta("so far "), AuthFailed("wrong key")])

    kinds = list(client.responses.create(model="escalera", input="Hi", stream=True))

    assert kinds[-1].type == "response.failed"
    assert kinds[-1].response.error is not None
    assert "wrong key" in kinds[-1].response.error.message
