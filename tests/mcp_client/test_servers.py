"""MCP servers of the official SDK: started, listed, called, given up, crashed and come back, and gone at the end."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orchestrator.errors import Cancelled
from orchestrator.mcp_client import servers as module
from orchestrator.mcp_client.servers import MOST_RESTARTS, SERVER_MARK
from orchestrator.probes.leftovers import bearers
from orchestrator.providers import OWNER_MARK, SESSION_MARK, STORE_MARK, Answer, Cancel, Question
from orchestrator.settings.secrets import Secret, SecretRef
from orchestrator.settings.tool_servers import ToolServer
from orchestrator.tools import ToolFailed

from .conftest import Address, Using, program, refuse

Use = Callable[..., Using]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)  # another process, which says nothing


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Using]:
    """One server for the tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("shared")
    environ = {**os.environ, "OUR_API_KEY": "sk-ours", STORE_MARK: "/data", OWNER_MARK: "1:2"}
    env = {"MARKS": str(folder), "TEST_API_KEY": Secret("sk-theirs"), "OTHER_TOKEN": SecretRef("env", env="OUR_API_KEY")}
    using = Using(module.ToolServers([program(env=env)], environ=environ, workspace=str(folder)))
    using.prepare()
    yield using
    using.servers.close()


# -- listing --------------------------------------------------------------------------------------


def test_tools_are_listed_under_names_that_can_be_sent(shared: Using) -> None:
    read = shared.tools["mcp__t__files_read_text"]

    assert shared.offer.problems == ()
    assert (read.parallel, shared.tools["mcp__t__say"].parallel) == (True, False)
    assert read.schema.description.startswith("(tool server t) Read it.")
    assert "<escalera" not in read.schema.description
    assert "\x1b" not in read.schema.description
    assert "$ref" not in json.dumps(shared.tools["mcp__t__length"].schema.parameters)


def test_nothing_is_started_before_a_turn_and_that_is_said(use: Use) -> None:
    using = use(program())

    assert using.offer.tools == ()
    assert "are listed when the turn begins" in using.offer.problems[0]
    assert list(bearers(SERVER_MARK, using.servers._mark)) == []


def test_only_the_named_tools_for_the_named_agents(use: Use) -> None:
    using = use(program(tools=("say", "gone"), agents=("a",)))

    offer = using.prepare()

    assert list(using.tools) == ["mcp__t__say"]
    assert offer.problems == ("mcp_servers.t.tools: it has no tool 'gone'",)
    assert using.servers.offered("b").tools == ()
    assert using.servers.offered("a", taken=["mcp__t__say"]).tools[0].schema.name.startswith("mcp__t__say_")
    assert using.servers.offered("a", room=10).tools == ()
    assert "left out: mcp__t__say" in using.servers.offered("a", room=10).problems[-1]


def test_servers_that_do_not_start_are_left_out_with_the_reason_and_without_secrets(use: Use) -> None:
    broken = program("broken", "--broken", env={"TEST_API_KEY": Secret("configuration")})
    told = ToolServer("told", sys.executable, ("-c", "import sys; sys.exit(f'no {sys.argv[1:]}')", "--api-key", "k0a1b2c3", "pg://me:pw9f8e7d@h/db"))
    missing = ToolServer("missing", "/nowhere/program")
    nowhere = ToolServer("nowhere", url="http://127.0.0.1:9/mcp")
    unset = program("unset", env={"A_TOKEN": SecretRef("env", env="NOT_THERE")})
    using = use(broken, told, missing, nowhere, unset, program("good", "--noise"))

    offer = using.prepare()

    problems = {problem.split()[3]: problem for problem in offer.problems}
    assert "its last words were: cannot find my ***" in problems["broken"]
    assert "its last words were: no ['--api-key', '***', 'pg://me:***@h/db']" in problems["told"]
    assert "No such file" in problems["missing"]
    assert "it does not start" in problems["nowhere"]
    assert "NOT_THERE is not set" in problems["unset"]
    assert "mcp__good__say" in using.tools, "noise is no failure, and the others' faults are not its own"
    assert not using.servers.prepare("a", "s1", cancel=Cancel(), tell=print), "what just failed is not tried in every turn"


# -- calls ----------------------------------------------------------------------------------------


def test_a_call_takes_nested_arguments_and_gives_text(shared: Using) -> None:
    assert shared.call("mcp__t__length", line={"start": {"x": 1, "y": 1}, "end": {"x": 4, "y": 2}}) == "3"
    assert shared.call("mcp__t__picture") == "here:\n[image: image/png, 5 bytes; it is not shown]"


def test_a_tool_that_fails_says_so(shared: Using) -> None:
    with pytest.raises(ToolFailed, match="Error executing tool fail"):
        shared.call("mcp__t__fail")


def test_a_program_sees_little_of_our_environment(shared: Using) -> None:
    seen = json.loads(shared.call("mcp__t__environment"))

    allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}
    marks = {SERVER_MARK, SESSION_MARK, STORE_MARK, OWNER_MARK}
    assert set(seen) <= {*allowed, *marks, "MARKS", "TEST_API_KEY", "OTHER_TOKEN"}
    assert (seen["TEST_API_KEY"], seen["OTHER_TOKEN"], seen[SESSION_MARK]) == ("sk-theirs", "sk-ours", "s1")


def test_the_user_is_asked_what_a_server_asks(shared: Using) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("accept", {"colour": "blue"})

    assert shared.call("mcp__t__ask", ask) == "accept blue"
    assert (asked[0].message, asked[0].mode) == ("The tool server t asks: Which colour?", "form")
    assert shared.call("mcp__t__ask", refuse) == "decline"


def test_a_cancelled_turn_gives_a_call_up_and_the_server_lives_on(shared: Using, tmp_path: Path) -> None:
    cancel = Cancel()
    threading.Timer(0.2, cancel.set).start()

    began = time.monotonic()
    with pytest.raises(Cancelled):
        shared.call("mcp__t__wait", cancel=cancel)

    assert time.monotonic() - began < 2
    marks = json.loads(shared.call("mcp__t__environment"))["MARKS"]
    until((Path(marks) / "given-up").exists)


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_call_takes_no_longer_than_it_may_and_a_server_that_hangs_is_replaced(use: Use) -> None:
    using = use(program(timeout=1.0))
    using.prepare()
    first = using.call("mcp__t__pid")

    for _ in range(2):
        with pytest.raises(ToolFailed, match="did not answer within 1 s"):
            using.call("mcp__t__sleep", seconds=600)

    assert using.call("mcp__t__pid") != first
    until(lambda: not is_alive(int(first)))


def test_a_server_that_crashes_is_an_error_result_and_comes_back_until_it_is_too_often(use: Use) -> None:
    using = use(program(env={"TEST_API_KEY": Secret("sk-theirs")}))
    using.prepare()

    for _ in range(MOST_RESTARTS + 1):
        with pytest.raises(ToolFailed, match=r"ended in the middle of the call; its last words were: fatal: the key is \*\*\*"):
            using.call("mcp__t__crash")

    with pytest.raises(ToolFailed, match=f"ended {MOST_RESTARTS} times"):
        using.call("mcp__t__say", text="hello")
    using.prepare()  # the next turn
    assert using.call("mcp__t__say", text="hello") == "hello"


def test_a_server_that_went_between_two_calls_is_not_noticed(use: Use) -> None:
    using = use(program())
    using.prepare()
    pid = int(using.call("mcp__t__pid"))
    using.call("mcp__t__leave")
    connection = using.servers._servers[0]._connection
    until(lambda: not is_alive(pid) and connection.silent)  # what a busy machine sees only later is a failed call, as any in the middle of one

    assert using.call("mcp__t__say", text="hello") == "hello"


def test_everything_is_gone_at_the_end(use: Use) -> None:
    using = use(program())
    using.prepare()
    server, escaped = int(using.call("mcp__t__pid")), int(using.call("mcp__t__spawn"))
    assert is_alive(server)
    assert is_alive(escaped)

    using.servers.close()

    until(lambda: not is_alive(server) and not is_alive(escaped))


def test_one_that_hangs_while_it_starts_is_gone_with_the_cancelled_turn(use: Use) -> None:
    using = use(program("t", "--hang"))
    threading.Timer(1.2, using.cancel.set).start()

    with pytest.raises(Cancelled):
        using.prepare()
    using.servers.close()

    assert using.told == ["starting the tool server t …"]
    until(lambda: not list(bearers(SERVER_MARK, using.servers._mark)))


# -- streamable HTTP ------------------------------------------------------------------------------


def test_an_address_that_refuses_or_leads_elsewhere_gets_no_second_look(use: Use) -> None:
    seen: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append((self.path, self.headers["x-key"]))
            self.send_response(307 if self.path == "/moved" else 401)
            self.send_header("location", f"http://localhost:{self.server.server_port}/elsewhere")  # type: ignore[attr-defined]  # of this server
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        using = use(*(ToolServer(name, url=f"{url}/{name}", headers={"x-key": Secret("sk-123")}) for name in ("closed", "moved")))
        offer = using.prepare()
        server.shutdown()

    assert any("the tools of closed (MCP) are left out: it refuses with HTTP 401" in problem for problem in offer.problems)
    assert any("not followed" in problem for problem in offer.problems)
    assert {path for path, _ in seen} == {"/closed", "/moved"}
    assert {key for _, key in seen} == {"sk-123"}


def test_a_server_at_an_address_is_listed_called_gone_and_back(use: Use, address: Address) -> None:
    using = use(ToolServer("t", url=address.url, headers={"authorization": Secret("Bearer sk-1")}, timeout=30.0))
    using.prepare()

    assert using.call("mcp__t__say", text="hello") == "hello"
    assert using.call("mcp__t__ask", lambda question: Answer("accept", {"colour": "blue"})) == "accept blue"
    with pytest.raises(ToolFailed, match="ended in the middle"):
        using.call("mcp__t__crash")
    address.end()
    with pytest.raises(ToolFailed, match="cannot be called: it does not start"):
        using.call("mcp__t__say", text="hello")
    address.start()
    assert using.call("mcp__t__say", text="hello") == "hello"
