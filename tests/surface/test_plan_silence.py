"""`plan` opens no connection, starts no process and writes no byte, whatever the provider; seen from inside the interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.mcp_client.listings import Described, Listings
from orchestrator.mcp_client.schema import parameters_of
from orchestrator.settings.known import KnownSecrets
from orchestrator.settings.tool_servers import ToolServer

from .conftest import Shell

WATCHED = """
import contextlib, io, json, os, sys

ACTS = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostby", "subprocess.",
        "os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link",
        "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.",
        "tempfile.", "urllib.", "ftplib.", "smtplib.", "pty.")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
seen = []

def hook(event, arguments):
    if event.startswith(ACTS):
        seen.append(f"{event} {arguments[:2]!r}")
    elif event == "open" and (arguments[2] or 0) & WRITING:
        seen.append(f"open {arguments[0]!r} for writing")
    elif event == "sqlite3.connect" and "mode=ro" not in str(arguments[0]) and arguments[0] != ":memory:":
        seen.append(f"sqlite3.connect {arguments[0]!r}")

sys.dont_write_bytecode = True
sys.addaudithook(hook)
from orchestrator.cli.app import run
results = []
for command in json.load(sys.stdin):
    seen.clear()
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(command)
    results.append({"code": code, "out": out.getvalue(), "err": err.getvalue(), "seen": list(seen)})
json.dump(results, sys.stdout)
"""

KINDS = {
    "claude-cli": "",
    "openai": 'base_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n',
    "openrouter": 'model = "anthropic/claude-opus-4.5"\n',
    "embedded": "",
    "bedrock": 'model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"\nregion = "us-east-1"\n',
}
SERVER = ToolServer("t", "/bin/server", ("all",))
SECRETS = ("", 'api_key = { env = "NO_SUCH_KEY_IS_SET" }\n', 'api_key = { cmd = ["/bin/echo", "key"] }\n')
TURNS = [
    {"role": "escalation", "agent": "strong", "prompt": "p0", "answer": "a0"},
    {"role": "primary", "agent": "local", "prompt": "p1", "answer": "a1"},
]


def watched(shell: Shell, *commands: list[str], path: Path) -> list[dict[str, object]]:
    """What each command did, with nothing to be found on PATH."""
    child = subprocess.run(
        [sys.executable, "-c", WATCHED],
        cwd=shell.cwd,
        env=shell.environ | {"PATH": str(path), "HOME": str(path)},
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    results: list[dict[str, object]] = json.loads(child.stdout)
    return results


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A folder with nothing in it."""
    (tmp_path / "nowhere").mkdir()
    return tmp_path / "nowhere"


def test_plan_asks_nobody_for_a_key(shell: Shell, tmp_path: Path, nowhere: Path) -> None:
    commands = []
    for kind in ("openai", "openrouter"):
        for number, secret in enumerate(SECRETS):
            config = tmp_path / f"{kind}-{number}.toml"
            config.write_text(f'primary = "local"\n[agents.local]\nprovider = "{kind}"\n{KINDS[kind]}{secret}')
            commands.append(["--config", str(config), "plan", "--json", "hello"])

    results = watched(shell, *commands, path=nowhere)

    assert [(result["code"], result["seen"]) for result in results] == [(0, [])] * len(commands), results


@pytest.mark.parametrize("stands", [True, False], ids=["a store", "no store"])
def test_plan_opens_starts_and_writes_nothing(shell: Shell, tmp_path: Path, nowhere: Path, stands: bool) -> None:
    document = tmp_path / "session.json"
    external = {"agent": "strong", "id": "0b2f6c1e-5f3c-4a53-9c54-8d2a1c0e7f11", "workspace": str(shell.cwd), "turn_index": 0, "system_text": "s"}
    document.write_text(json.dumps({"turns": TURNS, "workspace": str(shell.cwd), "external_sessions": [external]}))
    if stands:
        done = shell.each(["session", "import", str(document)], ["memory", "learn", "The user lives in Sevilla."])
        assert [result.returncode for result in done] == [0, 0]
        clock = SystemClock()
        listings = Listings(shell.home / "cache" / "mcp_tools", KnownSecrets(), clock, lambda *_, **__: None, platform=sys.platform)
        listings.keep(SERVER, str(shell.cwd), [Described("look", "Look.", parameters_of({}))])
    commands = []
    for kind, options in KINDS.items():
        config = tmp_path / f"{kind}.toml"
        agents = "".join(f'[agents.{name}]\nprovider = "{kind}"\n{options}' for name in ("local", "strong"))
        server = f'[mcp_servers.t]\ncommand = "{SERVER.command}"\nargs = ["all"]\n'
        config.write_text(f'primary = "local"\nescalation = "strong"\n{agents}{server}')
        for more in ([], ["--session-file", str(document)]):
            commands += [["--config", str(config), "plan", "--json", *flags, *more, "and now?"] for flags in ([], ["--escalate"], ["--escalate", "--fresh"])]
    compared = [["--config", str(config), "plan", "--json", *more, *flags] for flags in (["--compare", "message_budget_chars=9000"], ["--diff", "0"])]
    compared += [["--config", str(config), "tune", "--json", str(document)], ["--config", str(config), "tune", "--json"]]
    before = _files(tmp_path)

    results = watched(shell, *commands, *compared, path=nowhere)

    assert [result["seen"] for result in results] == [[]] * len(results)
    assert [result["code"] for result in results] == [0] * len(results), results
    results = results[: len(commands)]
    assert {json.loads(str(result["out"]))["provider"] for result in results} == set(KINDS)
    offered = {name for result in results for name in json.loads(str(result["out"]))["tools"] if name.startswith("mcp__")}
    assert offered == ({"mcp__t__look"} if stands else set())
    assert _files(tmp_path) == before


def test_the_watch_sees_what_ask_does(shell: Shell, nowhere: Path) -> None:
    shell.configure(
        'primary = "local"\nescalation = "strong"\n[limits]\nretry_attempts = 0\n'
        '[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n[agents.strong]\nprovider = "claude-cli"\nbin = "/bin/true"\n'
    )

    asked, escalated = watched(shell, ["ask", "hello"], ["ask", "--escalate", "hello"], path=nowhere)

    for act in ("os.mkdir", "sqlite3.connect", "socket.connect"):
        assert any(seen.startswith(act) for seen in asked["seen"]), asked  # type: ignore[attr-defined]  # a list, from JSON
    assert any(seen.startswith("subprocess.Popen") for seen in escalated["seen"]), escalated  # type: ignore[attr-defined]  # a list, from JSON


def _files(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes()) for path in files} | {
        str(path): (0, path.stat().st_ino, b"") for path in folder.rglob("*") if path.is_dir()
    }
