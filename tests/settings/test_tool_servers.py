"""MCP servers in the configuration: read, laid over each other, shown, changed; nothing of a file that is not trusted."""

from __future__ import annotations

import json

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings.editing import edit, setting_keys
from orchestrator.settings.files import read_config
from orchestrator.settings.resolution import Sources
from orchestrator.settings.secrets import Secret, SecretRef
from orchestrator.settings.trust import TrustStore, would_enable

from .conftest import Place

FILES = '[mcp_servers.files]\ncommand = "./serve"\nargs = ["-v"]\nenv = { API_KEY = "sk-1", MODE = "fast", TOKEN = { env = "T" } }\ntimeout = "5s"\n'


def test_a_server_is_read_with_its_secrets_wrapped(place: Place) -> None:
    place.user(FILES + '[mcp_servers.web]\nurl = "https://host/mcp"\nheaders = { authorization = "Bearer x" }\ntools = ["get"]\nagents = ["local"]\n')

    servers = place.load().servers

    files, web = servers["files"], servers["web"]
    assert (files.command, files.args, files.timeout) == (str(place.paths.config / "serve"), ("-v",), 5.0)
    assert files.env == {"API_KEY": Secret("sk-1"), "MODE": "fast", "TOKEN": SecretRef("env", env="T")}
    assert (web.url, web.headers, web.tools) == ("https://host/mcp", {"authorization": Secret("Bearer x")}, ("get",))
    assert (web.serves("local"), web.serves("stand-in"), files.serves("stand-in")) == (True, False, True)
    assert "sk-1" not in repr(servers)


def test_a_program_without_a_slash_is_looked_for_as_any_other(place: Place) -> None:
    place.user('[mcp_servers.x]\ncommand = "npx"\n')

    assert place.load().servers["x"].command == "npx"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "needs either `command`"),
        ('command = "a"\nurl = "http://h/"', "needs either `command`"),
        ('url = "http://h/"\nargs = ["a"]', "mcp_servers.x.args: means nothing beside `url`"),
        ('command = "a"\nheaders = { a = "b" }', "mcp_servers.x.headers: means nothing beside `command`"),
        ('url = "ftp://h/"', "mcp_servers.x.url"),
        ('url = "https://me:pw@h/"', "without a user or a password"),
        ("command = 1", "mcp_servers.x.command: 1 is not usable"),
        ('command = "a"\nargs = "b"', "mcp_servers.x.args"),
        ('command = "a"\nenv = { A = 1 }', "mcp_servers.x.env"),
        ('command = "a"\ntimeout = 5', "with its unit"),
        ('command = "a"\ntimeout = "0s"', "with its unit"),
        ('comand = "a"', "did you mean `command`"),
        ('command = "a"\nagents = ["lokal"]', "did you mean `local`"),
    ],
)
def test_what_cannot_be_used_is_named(place: Place, table: str, said: str) -> None:
    place.user(f"[mcp_servers.x]\n{table}\n")

    with pytest.raises(ConfigError) as problem:
        place.load()

    assert said in problem.value.message
    assert "pw" not in problem.value.message.replace("a user or a password", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('mcp_servers = "x"', "one table for each server"),
        ('[mcp_servers]\ncommand = "a"', "belongs under [mcp_servers.NAME]"),
        ('[mcp_servers."a b"]\ncommand = "a"', "no name for a server"),
        ('[mcp_server.x]\ncommand = "a"', "did you mean `mcp_servers"),
    ],
)
def test_a_table_in_the_wrong_place_is_told_where_it_belongs(place: Place, text: str, said: str) -> None:
    place.user(text + "\n")

    with pytest.raises(ConfigError) as problem:
        place.load()

    assert said in problem.value.message


def test_a_file_that_is_not_trusted_brings_no_server_and_is_shown_what_it_would(place: Place) -> None:
    file = place.project(FILES)

    settings = place.load()

    assert settings.servers == {}
    assert "mcp_servers.files.command" in settings.notices[0]
    shown = dict(would_enable(read_config(file)))
    assert shown["mcp_servers.files.command"] == "./serve"
    assert (shown["mcp_servers.files.env"]["API_KEY"], shown["mcp_servers.files.env"]["MODE"]) == ("***", "fast")
    TrustStore(place.paths.trust_file).trust(file, file.read_bytes())
    assert place.load().servers["files"].command == str(place.workspace / "serve")


def test_what_is_wrong_with_a_server_of_a_file_that_is_not_trusted_stops_nobody(place: Place) -> None:
    place.project("[mcp_servers.x]\ncommand = 1\n")

    assert place.load().servers == {}


def test_a_trusted_projects_table_stands_for_the_users_and_gets_none_of_its_secrets(place: Place) -> None:
    place.user(FILES)
    file = place.project('[mcp_servers.files]\nurl = "https://theirs/mcp"\n')
    TrustStore(place.paths.trust_file).trust(file, file.read_bytes())

    server = place.load().servers["files"]

    assert (server.command, server.url, server.env, server.args) == (None, "https://theirs/mcp", {}, ())


def test_single_keys_can_be_set_for_one_run_and_are_explained(place: Place) -> None:
    user = place.user(FILES)

    settings = place.load(sets=["mcp_servers.files.timeout=7s", "mcp_servers.files.env.MODE=slow"])

    server = settings.servers["files"]
    assert (server.timeout, server.env["MODE"], server.env["API_KEY"]) == (7.0, "slow", Secret("sk-1"))
    explained = settings.explain("mcp_servers.files.timeout")
    assert (explained.value, explained.source, explained.shadowed) == ("7s", "flag", ((f"file:{user}", "5s"),))
    everything = json.dumps([[one.path, one.value] for one in settings.all()])
    assert "mcp_servers.files.command" in everything
    assert "sk-1" not in everything
    with pytest.raises(ConfigError, match=r"did you mean `mcp_servers\.files\.timeout`"):
        settings.explain("mcp_servers.files.timeuot")
    with pytest.raises(ConfigError, match="no server 'flies'"):
        settings.explain("mcp_servers.flies.timeout")


def test_a_key_can_be_written_to_the_file_but_no_secret(place: Place) -> None:
    place.user(FILES)
    sources = Sources(place.environ, place.workspace, place.paths)

    done = edit(sources, setting_keys({"mcp_servers.files.tools": '["read"]'}, workspace=place.workspace))

    assert done.settings.servers["files"].tools == ("read",)
    with pytest.raises(ConfigError, match="shell's history"):
        setting_keys({"mcp_servers.files.env.A_TOKEN": "sk-2"}, workspace=place.workspace)
