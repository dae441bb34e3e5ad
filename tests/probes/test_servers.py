"""Looking for model servers."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from orchestrator.probes.servers import Server, candidates, is_loopback, look_at, ollama_url, versioned
from tests.surface.conftest import answering


def listed(*names: object) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


def test_lists_the_models_in_the_servers_order() -> None:
    with answering(listed("b", "a")) as url:
        server = look_at("x", f"{url}/v1")
    assert (server.status, server.models, server.chat_model) == ("works", ("b", "a"), "b")


@pytest.mark.parametrize(
    ("body", "status", "found"),
    [
        (listed(), 200, "no_models"),
        (b'{"object": "list", "data": null}', 200, "no_models"),
        (b"{}", 401, "needs_key"),
        (b"<html>", 200, "other"),
        (b"{}", 200, "other"),
        (b"[" * 100_000, 200, "other"),
        (b"gone", 404, "other"),
        (listed(7, None, "\x1b[2J", "x" * 300), 200, "no_models"),
    ],
)
def test_what_is_no_model_server_is_told_apart(body: bytes, status: int, found: str) -> None:
    with answering(body, status) as url:
        assert look_at("x", f"{url}/v1").status == found


def test_a_redirect_is_not_followed() -> None:
    with answering(listed("a"), 302) as url:
        assert look_at("x", url).status == "other"


def test_nobody_there_is_absent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert look_at("x", f"http://127.0.0.1:{port}/v1") == Server("x", f"http://127.0.0.1:{port}/v1", "absent", detail="nobody listens there")


@pytest.mark.parametrize("url", ["", "ftp://127.0.0.1", "http://127.0.0.1:99999", "http://[::1", "http://", "http://127.0.0.1:1/\x7f"])
def test_what_is_no_address_is_absent(url: str) -> None:
    assert look_at("x", url).status == "absent"


def test_a_trickle_of_bytes_ends_in_time() -> None:
    stop = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
            while not stop.wait(0.1):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle, args=(server,))
        thread.start()
        began = time.monotonic()
        found = look_at("x", f"http://127.0.0.1:{server.getsockname()[1]}")
        took = time.monotonic() - began
        stop.set()
        thread.join()
    assert found.status in ("absent", "other")
    assert took < 3


def test_an_embedding_model_is_no_choice_for_chat() -> None:
    assert Server("x", "u", "works", ("text-embedding-nomic", "qwen3")).chat_model == "qwen3"
    assert Server("x", "u", "works", ("nomic-embed-text",)).chat_model is None


@pytest.mark.parametrize(
    ("setting", "url"),
    [
        ("", None),
        ("  ", None),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),  # noqa: S104  # a value to be read, nothing listens there
        ("0.0.0.0:8000", "http://127.0.0.1:8000/v1"),
        (":9000", "http://127.0.0.1:9000/v1"),
        ("localhost", "http://localhost:11434/v1"),
        ('"127.0.0.1:1"', "http://127.0.0.1:1/v1"),
        ("http://127.0.0.1", "http://127.0.0.1:80/v1"),
        ("[::1]:5", "http://[::1]:5/v1"),
        ("http://gpu:11434", "http://gpu:11434/v1"),
        ("127.0.0.1:port", None),
        ("ftp://x", None),
    ],
)
def test_ollamas_own_setting_is_read_as_ollama_does(setting: str, url: str | None) -> None:
    assert ollama_url(setting) == url


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://127.9.9.9", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://127.0.0.1.evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1@evil.example", False),
        ("http://192.168.1.5", False),
        ("nonsense", False),
    ],
)
def test_only_this_machine_is_loopback(url: str, here: bool) -> None:
    assert is_loopback(url) is here


def test_each_address_is_asked_once_and_none_of_another_machine() -> None:
    found = candidates({"OLLAMA_HOST": "127.0.0.1:11435"}, ["http://127.0.0.1:1234/", "http://127.0.0.1:7777/v1", "https://api.example/v1"])
    assert found == [
        ("LM Studio", "http://127.0.0.1:1234/v1"),
        ("configured", "http://127.0.0.1:7777/v1"),
        ("Ollama", "http://127.0.0.1:11435/v1"),
        ("Ollama", "http://127.0.0.1:11434/v1"),
        ("llama.cpp", "http://127.0.0.1:8080/v1"),
        ("vLLM", "http://127.0.0.1:8000/v1"),
    ]
    assert all("gpu" not in url for _, url in candidates({"OLLAMA_HOST": "gpu"}))


def test_a_base_url_means_the_same_with_and_without_its_version() -> None:
    assert versioned("http://h:1/") == versioned("http://h:1") == versioned("http://h:1/v1/") == "http://h:1/v1"
    assert versioned("http://h/api") == "http://h/api"
