"""`doctor --bundle`: what a bug report needs, and nothing that must not leave the machine."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

from orchestrator.testing.openai_server import OpenAIServer, json_reply, reply

from .conftest import Shell

CANARY = "canary-key-0123456789"
CONTENTS = ["doctor.json", "versions.json", "settings.json", "plugins.json", "store.json", "log.jsonl"]


def contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as bundle:
        return {name: bundle.read(name).decode() for name in bundle.namelist()}


def lived_in(shell: Shell) -> None:
    """Two turns, one of which failed with the key in its error; secrets and a prompt in the configuration."""
    refused = json_reply({"error": {"message": f"wrong key {CANARY}, and sk-proj-abcdefgh12345678"}}, status=401)
    with OpenAIServer(reply(f"Purple geese, {CANARY}."), refused) as server:
        agent = f'provider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\nprompt = "you like geese"\n'
        keys = 'api_key = { env = "MY_KEY" }\nheaders = { x-other = "canary-header-1" }\nbody = { api_key = "canary-body-1" }\n'
        shell.configure(f'primary = "local"\nescalation = "strong"\n[agents.local]\n{agent}{keys}[agents.strong]\n{agent}{keys}')
        for code in (0, 1):
            assert shell.run("ask", "which geese?", MY_KEY=CANARY).returncode == code


def test_it_holds_what_a_report_needs_and_nothing_that_was_said(shell: Shell) -> None:
    lived_in(shell)
    result = shell.run("doctor", "--server", "http://127.0.0.1:9", "--bundle", "report.zip", MY_KEY=CANARY)

    found = contents(shell.cwd / "report.zip")
    assert list(found) == CONTENTS
    assert json.loads(found["doctor.json"])["format"] == "escalera.doctor/1"
    versions = json.loads(found["versions.json"])
    assert {"escalera", "escalera-openrouter", "click", "httpx"} <= set(versions["distributions"])
    assert versions["python"]
    settings = {setting["path"]: setting for setting in json.loads(found["settings.json"])["settings"]}
    assert settings["agents.local.model"] == {"path": "agents.local.model", "value": "m", "source": f"file:{shell.home}/config/config.toml", "shadows": []}
    assert settings["agents.local.prompt"]["value"] == "(14 characters)"
    store = json.loads(found["store.json"])
    assert store["schema"] == store["schema_of_this_program"]
    assert any("is sound" in finding["detail"] for finding in store["check"])
    events = [json.loads(line)["event"] for line in found["log.jsonl"].splitlines()]
    assert events.count("turn_ended") == 2
    text = "".join(found.values())
    assert [word for word in ("canary", "geese", "sk-proj", "Purple") if word in text] == []
    assert all(name in result.stdout for name in (*CONTENTS, "No prompt and no answer is in it"))
    assert stat.S_IMODE((shell.cwd / "report.zip").stat().st_mode) == 0o600


def test_with_the_wire_it_says_so_and_holds_no_secret_either(shell: Shell) -> None:
    lived_in(shell)
    document = json.loads(shell.run("doctor", "--server", "http://127.0.0.1:9", "--bundle", "report.zip", "--with-wire", "--json", MY_KEY=CANARY).stdout)

    found = contents(shell.cwd / "report.zip")
    assert [part["name"] for part in document["bundle"]["contents"]] == list(found)
    wires = [text for name, text in found.items() if name.startswith("wire/")]
    assert len(wires) == 2
    assert "which geese?" in wires[0]
    text = "".join(found.values())
    assert [word for word in (CANARY, "canary-header", "canary-body", "sk-proj") if word in text] == []


def test_it_replaces_no_file_and_wants_one_that_can_be_written(shell: Shell, agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9/v1")
    (shell.cwd / "there.zip").write_text("mine")
    tried = {
        name: shell.run("doctor", "--server", "http://127.0.0.1:9", *more)
        for name, more in {"there": ("--bundle", "there.zip"), "nowhere": ("--bundle", "no/such/folder.zip"), "alone": ("--with-wire",)}.items()
    }

    assert {name: result.returncode for name, result in tried.items()} == {"there": 2, "nowhere": 2, "alone": 2}
    assert "is there already" in tried["there"].stderr
    assert (shell.cwd / "there.zip").read_text() == "mine"
    assert "No such file or directory" in tried["nowhere"].stderr


def test_a_configuration_that_cannot_be_read_is_what_the_report_is_about(shell: Shell) -> None:
    shell.configure("primary = 7\n")

    assert shell.run("doctor", "--server", "http://127.0.0.1:9", "--bundle", "report.zip").returncode == 1
    assert "primary" in json.loads(contents(shell.cwd / "report.zip")["settings.json"])["problems"][0]
