"""The conformance cases of the mode decision, through `escalera plan --session-file … --json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell

CASES = json.loads((Path(__file__).parent.parent / "cases" / "modes.json").read_text("utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any], shell: Shell, tmp_path: Path) -> None:
    config, document = tmp_path / "config.toml", tmp_path / "session.json"
    config.write_text(case["config"])
    document.write_text(json.dumps(case["session"]))

    plan = shell.json("--config", str(config), "plan", "--session-file", str(document), "--json", *case["args"], "--", case["prompt"])

    assert _seen(plan, case["expect"]) == case["expect"]


def _seen(plan: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """What the plan says about each thing that the case names."""
    history, delivery = plan["history"], plan["delivery"]
    system = "\n".join(block["text"] for block in plan["system"])
    messages = json.dumps(history["messages"], ensure_ascii=False)
    seen = {
        "mode": plan["mode"],
        "rules": [reason["rule"] for reason in plan["reasons"]],
        "scope": history["scope"],
        "sent": history["sent"],
        "dropped": history["dropped"],
        "need_status": plan["need"]["status"],
        "system_has": [text for text in expect.get("system_has", []) if text in system],
        "messages_lack": [text for text in expect.get("messages_lack", []) if text not in messages],
        "argv_has": [word for word in expect.get("argv_has", []) if word in delivery.get("argv", [])],
        "argv_lacks": [word for word in expect.get("argv_lacks", []) if word not in delivery.get("argv", [])],
        "argv_flag": next((word for word in delivery.get("argv", []) if word == expect.get("argv_flag")), None),
    }
    return {name: seen[name] for name in expect}
