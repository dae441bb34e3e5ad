"""Sessions recorded from the real `claude` are replayed as they were decided, by `escalera tune`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from orchestrator.testing.anthropic_server import AnthropicServer, Say
from orchestrator.testing.openai_server import OpenAIServer, reply

from .real import CLAUDE, environ_of, needs_claude

pytestmark = needs_claude

LINES = "begin\n/escalate look\nthanks\n/escalate and now?\n/escalate more\nfine\nyes\n/escalate the end\n"
"""`first`, `returning`, `continuation`, and with a gap of two a fresh start."""


def escalera(folder: Path, *arguments: str, stdin: str = "") -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ESCALERA_")} | {"ESCALERA_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "orchestrator", *arguments]
    done = subprocess.run(command, cwd=folder, env=environ, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_decisions_and_tokens_of_recorded_turns_are_found_again(tmp_path: Path) -> None:
    with (
        AnthropicServer([Say(f"Answer {number}. " + "It is so. " * 50) for number in range(4)]) as claude,
        OpenAIServer(*(reply("Done.") for _ in range(4))) as local,
    ):
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in environ_of(tmp_path / "claude-home", claude.url).items())
        (tmp_path / "escalera-config.toml").write_text(
            'primary = "local"\nescalation = "claude"\n[limits]\nreturning_fresh_start_local_turns = 2\n'
            f'[agents.local]\nprovider = "openai"\nbase_url = "{local.url}"\nmodel = "m"\n'
            f'[agents.claude]\nprovider = "claude-cli"\nbin = "{CLAUDE}"\nmodel = "claude-sonnet-4-5"\nenv = {{ {pairs} }}\n'
        )
        escalera(tmp_path, "--config", "escalera-config.toml", "chat", stdin=LINES)
    modes = [turn["mode"] for turn in json.loads(escalera(tmp_path, "session", "export"))["turns"]]

    document = json.loads(escalera(tmp_path, "--config", "escalera-config.toml", "tune", "--json", "--sweep", "returning_fresh_start_local_turns=0,1,2"))

    assert modes == [None, "first", None, "returning", "continuation", None, None, "fresh_start"]
    assert (document["turns"], document["not_replayed"]) == (8, 0)
    assert document["self_test"]["decisions_wrong"] == 0
    assert document["self_test"]["tokens_off_percent"] < 1
    never, always, then = document["sweeps"][0]["settings"]
    assert [setting["mode_changed"] for setting in (never, always, then)] == [1, 1, 0]
    assert {name: then[name] for name in document["then"]} == document["then"]
    assert never["tokens"]["cached"] > then["tokens"]["cached"] > always["tokens"]["cached"]
    assert never["tokens"]["static"] < then["tokens"]["static"] < always["tokens"]["static"]
