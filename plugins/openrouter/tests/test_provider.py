"""What is sent, what is shown of it, and what a check finds."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from escalera_openrouter.options import OpenAIOptions, OpenRouterOptions, versioned
from pydantic import ValidationError

from orchestrator.errors import AuthFailed, Incomplete, InvalidRequest, ProtocolError
from orchestrator.messages import Message, Reasoning, Text, ToolCall, ToolResult
from orchestrator.providers import Finished, SystemBlock, TextDelta, ToolSchema, Withdrawn
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, json_reply, reply, sse

from .conftest import REQUEST, openai, openrouter, play, run

Start = Callable[..., OpenAIServer]
KEY = "sk-demo-0123456789"
SYSTEM = tuple(SystemBlock(name, name.upper()) for name in ("identity", "instructions", "orientation", "percepts"))


def sent(provider: Any, request: Any = REQUEST) -> dict[str, Any]:
    body = provider.preview(request)["body"]
    assert isinstance(body, dict)
    return body


def test_preview_is_exactly_what_is_sent(scripted: Start) -> None:
    server = scripted(reply("hi"))
    agent = openai(server.url, api_key=KEY, headers={"x-team": "secret-team"}, body={"temperature": 0.5})
    request = replace(REQUEST, system=SYSTEM, tools=(ToolSchema("grep", "Search.", {"type": "object"}),), max_output_tokens=99)
    preview = agent.preview(request)
    run(agent, request)
    received = server.requests[0]
    assert preview["body"] == received.body
    assert preview["url"] == server.url + "/chat/completions"
    assert set(preview["headers"]) <= set(received.headers)
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["x-team"] == "secret-team"
    assert KEY not in repr(preview)
    assert "secret-team" not in repr(preview)
    assert preview["headers"]["authorization"] == "Bearer ***"


def test_system_messages_are_static_text_orientation_and_percepts() -> None:
    messages = sent(openai("http://h"), replace(REQUEST, system=SYSTEM))["messages"]
    assert [message["content"] for message in messages[:-1]] == ["IDENTITY\n\nINSTRUCTIONS", "ORIENTATION", "PERCEPTS"]
    assert {message["role"] for message in messages[:-1]} == {"system"}


@pytest.mark.parametrize("whole", [False, True])
def test_thinking_that_the_chat_template_opened_is_no_answer(whole: bool) -> None:
    text = "The user said hi.\n</think>\n\nHello!"
    answer = json_reply({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}) if whole else reply(text)

    turn = play(answer)

    assert [type(part) for part in turn.parts] == [Reasoning, Text]
    assert [part.text for part in turn.parts] == ["The user said hi.", "Hello!"]
    assert turn.events.index(Withdrawn()) < turn.events.index(TextDelta("Hello!"))


def test_strict_roles_make_one_system_message() -> None:
    agent = openai("http://h", strict_roles=True)
    messages = sent(agent, replace(REQUEST, system=SYSTEM))["messages"]
    assert [message["content"] for message in messages] == ["IDENTITY\n\nINSTRUCTIONS\n\nORIENTATION\n\nPERCEPTS", "hello"]
    assert agent.capabilities.profile == "openai-strict"


def test_a_history_with_tools_becomes_its_wire_form() -> None:
    history = (
        Message("user", (Text("look"),)),
        Message("assistant", (Reasoning("hm"), Text("ok"), ToolCall("c1", "grep", {"q": "é"}), ToolCall("c2", "ls", {}))),
        Message("user", (ToolResult("c1", ""), ToolResult("c2", "a.txt"), Text("and?"))),
        Message("assistant", (Text(" "),)),
    )
    assert sent(openai("http://h"), replace(REQUEST, system=(), messages=history))["messages"] == [
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"q": "é"}'}},
                {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "(no output)"},
        {"role": "tool", "tool_call_id": "c2", "content": "a.txt"},
        {"role": "user", "content": "and?"},
    ]


def test_models_without_tool_calling_get_no_tools() -> None:
    agent = openai("http://h", tools=False)
    assert not agent.capabilities.takes_tools
    assert "tools" not in sent(agent, replace(REQUEST, tools=(ToolSchema("grep", "Search.", {}),)))


def test_an_output_limit_of_ones_own_name_stands_alone() -> None:
    body = sent(openai("http://h", body={"max_completion_tokens": 7}), replace(REQUEST, max_output_tokens=99))
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 7


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h:8080", "http://h:8080/v1"),
        ("http://h:8080/", "http://h:8080/v1"),
        ("http://h:8080/v1", "http://h:8080/v1"),
        ("http://h:8080/v1/", "http://h:8080/v1"),
        ("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1"),
        ("https://h/serving-endpoints/", "https://h/serving-endpoints"),
    ],
)
def test_a_base_url_means_the_same_with_and_without_v1_and_slash(base: str, url: str) -> None:
    assert versioned(base) == url
    assert openai(base).preview(REQUEST)["url"] == url + "/chat/completions"


def test_a_query_of_the_base_url_stays_behind_the_path() -> None:
    agent = openai("http://h:8080/?api-version=1")
    azure = openai("https://h/?a=1", chat_path="/chat?b=2")

    assert agent.preview(REQUEST)["url"] == "http://h:8080/v1/chat/completions?api-version=1"
    assert azure.preview(REQUEST)["url"] == "https://h/chat?a=1&b=2"


def test_a_chat_path_follows_the_base_url_as_it_stands() -> None:
    agent = openai("https://h.azure.example/", chat_path="/openai/deployments/d/chat/completions?api-version=1")
    assert agent.preview(REQUEST)["url"] == "https://h.azure.example/openai/deployments/d/chat/completions?api-version=1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "h:8080"},
        {"base_url": "http://user:pass@h"},
        {"base_url": "http://h:99999999"},
        {"base_url": "http://xn--/"},
        {"base_url": "http://\u2024.invalid"},
        {"base_url": "http://h\u00ad\ud800"},
        {"base_url": "http://h/\x01"},
        {"base_url": "http://h", "chat_path": "/\x01"},
        {"base_url": "http://h", "temperatur": 1},
        {"base_url": "http://h", "body": {"messages": []}},
        {"base_url": "http://h", "body": {"temperature": float("nan")}},
        {"base_url": "http://h", "headers": {"bad name": "x"}},
        {"base_url": "http://h", "api_key": f"{KEY}\nx"},
        {"base_url": "http://h", "api_key": KEY, "token_cmd": ["x"]},
    ],
)
def test_options_that_cannot_be_used_are_refused_without_showing_a_secret(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        OpenAIOptions.model_validate(wrong)
    assert KEY not in str(raised.value)


def test_blanks_around_a_pasted_key_do_not_travel() -> None:
    with OpenAIServer(reply("x")) as server:
        run(openai(server.url, api_key=f" {KEY}\n"))
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_that_the_server_quotes_is_masked() -> None:
    with OpenAIServer(json_reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status=401)) as server:
        agent = openai(server.url, api_key=KEY)
        turn = run(agent)
    assert isinstance(turn.error, AuthFailed)
    assert "Incorrect API key provided: ***" in turn.error.message
    assert KEY not in f"{turn.error!r} {turn.error} {agent!r} {vars(agent)!r}"


def test_redirects_are_not_followed_and_the_key_stays(scripted: Start) -> None:
    other = scripted(reply("stolen"))
    first = scripted(Reply(status=307, headers={"location": f"http://user:pw@localhost:{other.port}/v1/chat/completions?k=1"}))
    turn = run(openai(first.url, api_key=KEY))
    assert isinstance(turn.error, InvalidRequest)
    assert f"localhost:{other.port}" in turn.error.message
    assert "pw" not in turn.error.message
    assert not other.requests


def token_cmd(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_token_command_gives_the_bearer_token_and_is_not_run_for_a_preview(scripted: Start) -> None:
    server = scripted(json_reply({"error": {"message": "token-42 has expired"}}, status=401))
    agent = openai(server.url, token_cmd=token_cmd("print('token-42')"))
    assert agent.preview(REQUEST)["headers"]["authorization"] == "Bearer ***"
    turn = run(agent)
    assert server.requests[0].headers["authorization"] == "Bearer token-42"
    assert turn.error is not None
    assert "*** has expired" in turn.error.message


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (token_cmd("import sys; sys.exit('two words')"), "failed with exit code 1"),
        (token_cmd("print('two words')"), "did not print one token"),
        (["/no/such/program"], "cannot be started"),
    ],
)
def test_a_token_command_that_fails_says_so(command: list[str], says: str) -> None:
    turn = run(openai("http://127.0.0.1:9", token_cmd=command))
    assert isinstance(turn.error, AuthFailed)
    assert says in turn.error.message
    assert "two words" not in turn.error.message


def test_json_that_is_no_answer_is_a_protocol_error() -> None:
    assert isinstance(play(json_reply({"hello": "world"})).error, ProtocolError)


def test_a_stream_without_a_content_type_is_read() -> None:
    assert play(replace(reply("hello there"), headers={})).text == "hello there"


def test_a_json_answer_that_breaks_off_is_incomplete() -> None:
    half = Reply([b'{"choices":[{"mess'], headers={"content-type": "application/json", "content-length": "500"})
    assert isinstance(play(half).error, Incomplete)


# -- OpenRouter


def test_openrouter_passes_routing_on_and_switches_compression_off() -> None:
    agent = openrouter("https://openrouter.ai/api", models=["a/b"], provider_routing={"only": ["x"]}, body={"plugins": [{"id": "web"}]})
    preview = agent.preview(REQUEST)
    body = preview["body"]
    assert preview["url"] == "https://openrouter.ai/api/v1/chat/completions"
    assert (body["provider"], body["models"], body["usage"]) == ({"only": ["x"]}, ["a/b"], {"include": True})
    assert body["plugins"] == [{"id": "web"}, {"id": "context-compression", "enabled": False}]
    assert (preview["headers"]["http-referer"], preview["headers"]["x-title"]) == ("https://escalera.example", "Escalera")
    assert agent.capabilities.reports_cost


@pytest.mark.parametrize(("own", "told"), [({}, "https://escalera.example"), ({"HTTP-Referer": "https://own.example"}, "https://own.example")])
def test_openrouter_is_told_once_whose_request_it_is(own: dict[str, str], told: str) -> None:
    with OpenAIServer(reply("x")) as server:
        run(openrouter(server.url, headers=own))
    sent = [(name.lower(), value) for name, value in server.requests[0].headers.items()]
    assert [value for name, value in sent if name == "http-referer"] == [told]
    assert [value for name, value in sent if name == "x-title"] == ["Escalera"]


def test_openrouter_records_cost_and_the_served_model() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "cost": 0.0125}
    with OpenAIServer(sse(chunk({"content": "x"}, model="vendor/served"), chunk({}, finish_reason="stop", model="vendor/served", usage=usage))) as server:
        turn = run(openrouter(server.url))
    assert turn.usage is not None
    assert turn.usage.cost_usd == 0.0125
    assert turn.finished == Finished("stop", "vendor/served")


def test_a_model_that_the_server_does_not_name_stays_unknown_and_its_reasoning_is_that_of_the_one_asked_for() -> None:
    with OpenAIServer(
        sse(chunk({"reasoning_content": "hm"}, model=""), chunk({"content": "x"}, model=""), chunk({}, finish_reason="stop", model=""))
    ) as server:
        turn = run(openai(server.url, model="asked"))
    assert turn.finished == Finished("stop", None)
    assert [part.model for part in turn.parts if isinstance(part, Reasoning)] == ["asked"]


def test_openrouter_gets_reasoning_details_back_unmodified_in_a_tool_loop() -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc", "id": "r1", "format": "f", "index": 0}]
    call = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}}
    script = sse(chunk({"reasoning_details": details}), chunk({"tool_calls": [call]}, finish_reason="tool_calls"))
    with OpenAIServer(script, reply("done")) as server:
        agent = openrouter(server.url)
        turn = run(agent)
        run(agent, replace(REQUEST, messages=(*REQUEST.messages, Message("assistant", turn.parts), Message("user", (ToolResult("c1", "x"),)))))
        assistant = next(message for message in server.requests[1].body["messages"] if message["role"] == "assistant")
    assert assistant["reasoning_details"] == details


def test_openrouter_without_a_key_fails_before_anything_is_sent(scripted: Start) -> None:
    server = scripted(reply("x"))
    agent = openrouter(server.url, api_key=None)
    turn = run(agent)
    assert isinstance(turn.error, AuthFailed)
    assert turn.error.hint is not None
    assert "OPENROUTER_API_KEY" in turn.error.hint
    assert agent.check().status == "no_credentials"
    assert not server.requests


@pytest.mark.parametrize(("left", "status"), [(0, "quota"), (-0.5, "quota"), (0.01, "works"), (None, "works"), ("none", "works")])
def test_openrouter_tells_of_a_key_that_may_spend_nothing_more(left: object, status: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told = {"label": "x", "limit": 5, "limit_remaining": left} if self.path.endswith("/key") else [{"id": "m"}]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": told}).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        result = openrouter(f"http://127.0.0.1:{server.server_address[1]}").check()
        server.shutdown()

    assert (result.ok, result.status) == (status == "works", status)
    assert result.ok or result.hint is not None


def test_openrouter_needs_a_model() -> None:
    with pytest.raises(ValidationError, match="model"):
        OpenRouterOptions.model_validate({})


# -- checking


def test_a_check_asks_for_the_models_and_sends_no_turn(scripted: Start) -> None:
    server = scripted(models=["m", "n"])
    assert openai(server.url).check().status == "works"
    assert [request.method for request in server.requests] == ["GET"]
    missing = openai(server.url, model="other").check()
    assert (missing.ok, missing.status) == (False, "unknown_model")
    assert missing.hint is not None
    assert "m, n" in missing.hint


def test_a_body_without_end_is_not_taken_into_memory() -> None:
    endless = Reply([b'{"choices": [' + b" " * 2**20] * 50, headers={"content-type": "application/json"})
    with OpenAIServer(endless) as server:
        turn = run(openai(server.url))
        assert isinstance(turn.error, ProtocolError)
        assert "more than 32 MB" in turn.error.message


def test_a_list_of_models_that_is_cut_off_is_none() -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000000000\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        result = openai(f"http://127.0.0.1:{listener.getsockname()[1]}").check()

    assert (result.ok, result.status) == (False, "error")
    assert "broke its answer off after 2 bytes" in result.detail


def test_a_check_of_a_tag_that_is_not_there_names_those_that_are(scripted: Start) -> None:
    server = scripted(models=["llama3:8b", "qwen:latest"])
    assert openai(server.url, model="llama3:70b").check().status == "unknown_model"
    assert openai(server.url, model="qwen").check().status == "works"
    assert openai(server.url, model="llama3:8b").check().status == "works"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (json_reply({"error": {"message": "messages is required"}}, status=400), "works"),
        (json_reply({"error": {"message": "messages is required"}}, status=422), "works"),
        (Reply([b"<h1>Unsupported method</h1>"], 501, {"content-type": "text/html"}), "error"),
        (Reply([b"<h1>Bad request</h1>"], 400, {"content-type": "text/html"}), "error"),
        (json_reply({"hello": "world"}), "error"),
        (json_reply({"error": {"message": "no such key"}}, status=401), "refused"),
    ],
)
def test_a_server_without_a_list_is_asked_whether_it_chats_at_all(scripted: Start, answer: Reply, status: str) -> None:
    server = scripted(answer, models=None)
    assert openai(server.url, api_key="sk-1234567890").check().status == status
    assert [request.raw for request in server.requests] == [b"", b"{}"]


def test_a_check_says_that_nothing_answers() -> None:
    with OpenAIServer() as server:
        url = server.url
    result = openai(url).check()
    assert (result.ok, result.status) == (False, "unreachable")
    assert result.hint is not None


def test_a_check_reports_a_certificate_file_that_is_none() -> None:
    result = openai("https://h.invalid", tls_ca="/no/such.pem").check()
    assert (result.ok, result.status) == (False, "error")
    assert "/no/such.pem" in result.detail


# -- importing


def test_importing_the_plugin_and_making_an_agent_loads_no_http_client() -> None:
    code = (
        "import sys, escalera_openrouter as p; assert 'pydantic' not in sys.modules; kinds = {k.name: k for k in p.escalera_provider_kinds()};"
        "from orchestrator.providers import AgentContext as C;"
        "kinds['openai'].factory(kinds['openai'].options(base_url='http://h'), C('a', '/', {}));"
        "print(sorted(kinds), 'httpx' in sys.modules, 'httpcore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['openai', 'openrouter'] False False"


def test_every_option_says_what_it_is() -> None:
    for model in (OpenAIOptions, OpenRouterOptions):
        for name, described in model.model_fields.items():
            assert described.description, name
