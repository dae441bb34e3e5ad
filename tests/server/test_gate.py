"""Who may come in, and what those who stay outside cannot do to the others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import httpx
import pytest
from starlette.types import Message

from orchestrator.errors import ConfigError
from orchestrator.providers import TextDelta
from orchestrator.server.app import create_app
from orchestrator.server.streams import EventStream
from orchestrator.testing.fake_provider import says

from .conftest import TOKEN, Home

BEARER = f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"authorization": f"bearer  {TOKEN} "}, 200),
        ({"authorization": ""}, 401),
        ({"authorization": TOKEN}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"host": "localhost:8484"}, 200),
        ({"host": "[::1]:8484"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "localhost:8484@evil.example"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://localhost"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://localhost"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "null"}, 403),
        ({"content-length": "9000000"}, 413),
        ({"content-length": "-1"}, 413),
        ({"content-length": "٣"}, 413),
    ],
)
def test_a_request_passes_or_is_refused_by_its_head(shared: Home, headers: dict[str, str], status: int) -> None:
    response = shared.request("GET", "/v1/sessions", headers={name: value.encode() for name, value in headers.items()})  # type: ignore[misc]  # bytes go, too

    assert response.status_code == status
    if status != 200:
        assert response.headers["content-type"] == "application/problem+json"
        assert (response.json()["status"], response.json()["error"]["type"]) == (status, "UsageError")
        assert TOKEN not in response.text
    if status == 401:
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A server that nothing is done to."""
    home = Home(tmp_path_factory.mktemp("shared"))
    assert home.app
    return home


def test_no_answer_allows_other_origins(shared: Home) -> None:
    preflight = shared.request("OPTIONS", "/v1/sessions", headers={"origin": "http://evil.example", "access-control-request-method": "POST"})

    assert preflight.status_code == 403
    assert not [name for name in preflight.headers if name.startswith("access-control-")]


def test_further_names_are_those_of_the_setting(tmp_path: Path) -> None:
    home = Home(tmp_path, config='[server]\nhosts = ["box.lan"]\n')

    assert home.get("/v1/settings/server.hosts", headers={"host": "box.lan:8484"}).status_code == 200
    home.close()


def test_a_body_that_grows_too_large_is_cut_off_whatever_its_head_says(home: Home) -> None:
    home.config += '[server]\nbody_max = "1MiB"\n'

    def ten_megabytes() -> object:
        for _ in range(160):
            yield b" " * 65536

    with home.client() as client:
        counted = client.post("/v1/sessions", content=b" " * 10_000_000)
        uncounted = client.post("/v1/sessions", content=ten_megabytes())  # type: ignore[arg-type]  # an iterator of bytes
        assert (counted.status_code, uncounted.status_code) == (413, 413)
        assert client.get("/v1/sessions").status_code == 200


def test_a_file_with_the_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    app = create_app(workspace=tmp_path, environ={"ESCALERA_HOME": str(tmp_path / "home")})
    app.state.service.close()
    file = tmp_path / "home" / "data" / "server-token"
    assert file.stat().st_mode & 0o777 == 0o600

    file.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read"):
        create_app(workspace=tmp_path, environ={"ESCALERA_HOME": str(tmp_path / "home")})


# -- connections ---------------------------------------------------------------------------------


def test_a_thousand_idle_connections_keep_nobody_out(home: Home) -> None:
    with home.served() as url, ExitStack() as held:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        idle = [held.enter_context(socket.create_connection(address, timeout=10)) for _ in range(1000)]
        answer = httpx.get(f"{url}/v1/sessions", headers={"authorization": BEARER}, timeout=10, trust_env=False)

        assert answer.status_code == 200
        assert closed(idle[0]), "the one that waits longest went first"
        assert not closed(idle[-1])


def test_no_answer_is_held_back_until_the_client_has_confirmed_its_head(home: Home) -> None:
    with home.client() as client:
        client.get("/v1/models")
        assert home.server is not None
        (ours,) = home.server.server_state.connections
        assert ours.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def closed(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_reader_that_does_not_read_holds_up_nobody_and_is_let_go(home: Home) -> None:
    """The socket takes what the buffers take; the turn ends all the same, others are answered, and the stream is given up in the end."""
    text = "x" * 20_000
    home.local.will([*[TextDelta(text) for _ in range(300)], *says("done", streamed=False)], says("other"))
    session, other = home.begin(), home.begin()
    with home.served() as url:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        body = b'{"prompt": "much", "stream": true}'
        head = f"POST /v1/sessions/{session.id}/turns HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER}\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

        quick = httpx.post(f"{url}/v1/sessions/{other.id}/turns", json={"prompt": "?"}, headers={"authorization": BEARER}, timeout=20, trust_env=False)
        run = home.service.served(session.id).runs[-1]

        assert quick.json()["answer"] in ("other", "done")
        assert run.ended.wait(20), "the turn did not wait for its reader"
        slow.close()


def test_a_stream_asks_for_the_next_event_when_the_last_is_taken_and_gives_up_a_reader_that_stalls() -> None:
    made, taken = [], []

    async def endless() -> AsyncIterator[bytes]:
        for number in count():
            made.append(number)
            yield b"data: x\n\n"

    async def send(message: Message) -> None:
        taken.append(message["type"])
        if len(taken) > 3:  # the start, and two events
            await asyncio.Event().wait()

    gone: list[bool] = []
    asyncio.run(EventStream(endless(), gone=lambda: gone.append(True), stalled=0.05)({"type": "http"}, stays, send))

    assert (len(made), gone) == (3, [True])


def test_a_silent_stream_shows_that_it_lives() -> None:
    over = asyncio.Event()
    bodies: list[bytes] = []

    async def silent() -> AsyncIterator[bytes]:
        await over.wait()
        yield b"data: x\n\n"

    async def send(message: Message) -> None:
        bodies.append(message.get("body", b""))
        if bodies.count(b": \n\n") == 2:
            over.set()

    asyncio.run(EventStream(silent(), heartbeat=0.01)({"type": "http"}, stays, send))

    assert bodies[-2:] == [b"data: x\n\n", b""]


async def stays() -> Message:
    """A client that does not go away."""
    await asyncio.Event().wait()
    return {}
