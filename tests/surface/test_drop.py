"""Dropping a session: its export is kept, whatever its id is, and nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.settings.grants import Grant, GrantStore

from .conftest import Shell


def _import(shell: Shell, identity: str, prompt: str) -> None:
    result = shell.run("session", "import", "-", stdin=json.dumps({"id": identity, "turns": [{"role": "primary", "prompt": prompt, "answer": "a"}]}))
    assert result.returncode == 0, result.stderr


@pytest.mark.trial("T78")
@pytest.mark.parametrize("identity", ["../../work/package", "a/b", "..", "x" * 200, "ünï ☃"])
def test_t78_no_id_leads_out_of_the_folder(shell: Shell, identity: str) -> None:
    (shell.cwd / "package.json").write_text("mine")
    _import(shell, identity, "keep me")

    dropped = shell.json("session", "drop", "--json", "--", identity)

    kept = Path(dropped["export"])
    assert kept.parent == shell.home / "data" / "dropped"
    assert json.loads(kept.read_text())["turns"][0]["prompt"] == "keep me"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (shell.cwd / "package.json").read_text() == "mine"


def test_every_export_is_kept_though_the_id_comes_again(shell: Shell) -> None:
    exports, grants = [], GrantStore(shell.home / "state" / "permissions.json")
    for prompt in ("first", "second"):
        _import(shell, "dup", prompt)
        grants.add(Grant("g1", "local", str(shell.cwd), "run(make *)", "dup", "2026-01-01T00:00:00Z"))
        exports.append(Path(shell.json("session", "drop", "--json", "dup")["export"]))
        assert list(grants.list()) == []  # another session of that id inherits nothing

    assert [json.loads(path.read_text())["turns"][0]["prompt"] for path in exports] == ["first", "second"]
