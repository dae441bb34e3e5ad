"""Sessions recorded from the embedded model are replayed as they were decided, by `escalera tune`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def escalera(folder: Path, *arguments: str, stdin: str = "") -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ESCALERA_")} | {"ESCALERA_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "orchestrator", *arguments]
    done = subprocess.run(command, cwd=folder, env=environ, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_decisions_and_tokens_of_recorded_turns_are_found_again(tmp_path: Path) -> None:
    agents = "".join(f'[agents.{name}]\nprovider = "embedded"\nmax_output_tokens = 4\n' for name in ("local", "strong"))
    (tmp_path / "config.toml").write_text(f'primary = "local"\nescalation = "strong"\n{agents}')
    escalera(tmp_path, "--config", "config.toml", "chat", stdin="/escalate Say no.\nSay yes.\n/escalate Say no again.\n")

    document = json.loads(escalera(tmp_path, "--config", "config.toml", "tune", "--json"))

    assert (document["turns"], document["not_replayed"]) == (3, 0)
    assert document["self_test"]["decisions_wrong"] == 0
    assert document["self_test"]["tokens_off_percent"] < 1
    gaps = next(sweep for sweep in document["sweeps"] if sweep["limit"] == "returning_fresh_start_local_turns")
    assert {setting["value"]: setting["mode_changed"] for setting in gaps["settings"]}[1] == 1
