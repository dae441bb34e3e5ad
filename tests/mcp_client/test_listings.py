"""What MCP servers had in the last turn, kept for plans."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.clock import FixedClock
from orchestrator.mcp_client.listings import KEPT, Described, Kept, Listings
from orchestrator.mcp_client.schema import parameters_of
from orchestrator.mcp_client.servers import ToolServers
from orchestrator.providers import Cancel
from orchestrator.settings.known import KnownSecrets
from orchestrator.settings.secrets import Secret, SecretRef
from orchestrator.settings.tool_servers import ToolServer

from .conftest import program

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SERVER = ToolServer("t", "/bin/server", ("--all",), env={"PLAIN": "1", "TEST_API_KEY": Secret("sk-theirs"), "OTHER_TOKEN": SecretRef("env", env="TOKEN")})
TOOLS = (Described("say", "Say it.", parameters_of({"type": "object", "properties": {"text": {"type": "string"}}})), Described("look", "", parameters_of({})))


def listings(folder: Path, now: datetime = NOW) -> Listings:
    return Listings(folder, KnownSecrets(), FixedClock(now), lambda *_, **__: None, platform="linux")


def test_what_was_kept_is_read_with_its_age(tmp_path: Path) -> None:
    listings(tmp_path / "kept").keep(SERVER, "/work", TOOLS)

    assert listings(tmp_path / "kept", NOW + timedelta(hours=2)).read(SERVER, "/work") == Kept(TOOLS, 7200.0)
    assert listings(tmp_path / "kept").read(SERVER, "/elsewhere") is None
    (file,) = (tmp_path / "kept").iterdir()
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)


@pytest.mark.parametrize(
    "change",
    [
        {"command": "/bin/other"},
        {"args": ()},
        {"args": ("--all", "--more")},
        {"command": None, "args": (), "url": "https://example.com/mcp"},
        {"env": {**SERVER.env, "PLAIN": "2"}},
        {"env": {**SERVER.env, "TEST_API_KEY": Secret("sk-other")}},
        {"env": {**SERVER.env, "OTHER_TOKEN": SecretRef("env", env="ANOTHER")}},
        {"env": {**SERVER.env, "PLAIN": SecretRef("env", env="1")}},
        {"headers": {"Authorization": Secret("Bearer x")}},
    ],
)
def test_another_configuration_is_another_server(tmp_path: Path, change: dict[str, object]) -> None:
    listings(tmp_path).keep(SERVER, "/work", TOOLS)

    assert listings(tmp_path).read(replace(SERVER, **change), "/work") is None  # type: ignore[arg-type]  # fields of a server


def test_who_is_offered_what_is_no_part_of_the_listing(tmp_path: Path) -> None:
    listings(tmp_path).keep(SERVER, "/work", TOOLS)
    chosen = replace(SERVER, tools=("look",), agents=("a",), timeout=5.0)

    servers = ToolServers([chosen], environ={}, workspace="/work", listings=listings(tmp_path, NOW + timedelta(days=1, hours=3)))

    offer = servers.offered("a", foresees=True)
    assert [tool.schema.name for tool in offer.tools] == ["mcp__t__look"]
    assert offer.problems == ("the tools of t (MCP) are those that the last turn with it listed, 1 d 3 h ago; the server is asked anew when the turn begins",)
    assert servers.offered("b", foresees=True).tools == ()
    turn = servers.offered("a")  # which asks, and goes by no listing of the past
    assert (turn.tools, "are listed when the turn begins" in turn.problems[0]) == ((), True)


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    says = replace(TOOLS[0], description='the key is sk-theirs, the other is "tok\\en"')

    listings(tmp_path).keep(SERVER, "/work", [says], ("sk-theirs", '"tok\\en"'))

    (file,) = tmp_path.iterdir()
    kept = listings(tmp_path).read(SERVER, "/work")
    assert kept is not None
    assert kept.tools[0].description == "the key is ***, the other is ***"
    assert "sk-theirs" not in file.read_text()


@given(st.binary(max_size=40), st.integers(0, 400))
def test_a_damaged_file_is_as_good_as_none(tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    listings(folder).keep(SERVER, "/work", TOOLS)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:at] + junk + content[at + len(junk) :])

    kept = listings(folder).read(SERVER, "/work")

    assert kept is None or all(isinstance(tool, Described) for tool in kept.tools)


@pytest.mark.parametrize("record", ["[]", "null", '{"format": 1}', '{"format": 2}', "[" * 100_000])
def test_so_is_one_of_another_shape(tmp_path: Path, record: str) -> None:
    listings(tmp_path).keep(SERVER, "/work", TOOLS)
    (file,) = tmp_path.iterdir()
    file.write_text(record)

    assert listings(tmp_path).read(SERVER, "/work") is None


@pytest.mark.parametrize("tools", [None, [1], [{"name": "n"}], [{"name": 1, "description": "", "schema": {}}], {"name": "n"}])
def test_and_one_with_tools_that_are_none(tmp_path: Path, tools: object) -> None:
    listings(tmp_path).keep(SERVER, "/work", TOOLS)
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "tools": tools}))

    assert listings(tmp_path).read(SERVER, "/work") is None


def test_what_cannot_be_written_is_said_to_the_log_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    kept = Listings(tmp_path / "file", KnownSecrets(), FixedClock(NOW), lambda event, **_: said.append(event), platform="linux")

    kept.keep(SERVER, "/work", TOOLS)

    assert (said, kept.read(SERVER, "/work")) == (["listing_not_kept"], None)


def test_the_oldest_files_go(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        listings(tmp_path).keep(SERVER, f"/work/{number}", TOOLS)
        for file in tmp_path.iterdir():
            os.utime(file, (file.stat().st_mtime - 1,) * 2)

    assert len(list(tmp_path.iterdir())) == KEPT
    assert listings(tmp_path).read(SERVER, "/work/0") is None
    assert listings(tmp_path).read(SERVER, f"/work/{KEPT + 2}") is not None


def test_a_turn_keeps_what_its_servers_have_and_a_check_does_not(tmp_path: Path) -> None:
    kept = listings(tmp_path / "kept")
    servers = ToolServers([program()], environ=os.environ, workspace="/", listings=kept)
    try:
        servers.listed()
        assert kept.read(program(), "/") is None
    finally:
        servers.close()
    servers = ToolServers([program()], environ=os.environ, workspace="/", listings=kept)
    try:
        servers.prepare("a", "s1", cancel=Cancel(), tell=lambda _: None)
        real = servers.offered("a")
    finally:
        servers.close()

    foreseen = ToolServers([program()], environ={}, workspace="/", listings=kept).offered("a", foresees=True)

    assert [tool.schema for tool in foreseen.tools] == [tool.schema for tool in real.tools]
