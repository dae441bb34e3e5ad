from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orchestrator.settings.declarations import SETTINGS

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA: dict[str, Any] = json.loads((DOCS / "schemas" / "config.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

EXAMPLE = """
primary = "local"
escalation = "claude"
need_expiry_hours = 0.5
global_archive_after_days = -1
[limits]
returning_fresh_start_local_turns = 8
message_budget_chars = "unlimited"
idle_timeout = "500ms"
percept_inject_max_bytes = "2KiB"
[questions]
ttl = "2m"
[plugins]
blocked = ["a"]
[agents.local]
provider = "openai"
base_url = "http://127.0.0.1:8080/v1"
model = "qwen2.5-coder"
headers = { x-one = "1", x-two = { env = "TWO" } }
[agents.claude]
provider = "claude-cli"
env = { ANTHROPIC_API_KEY = { cmd = ["pass", "anthropic"] }, DEBUG = false }
[agents.claude.limits]
returning_fresh_start_local_turns = 4
[agents.sonnet]
provider = "bedrock"
model = "m"
region = "us-east-1"
inference = { temperature = 0.5 }
prices = { input = 3.0 }
[agents.opus]
provider = "openrouter"
model = "anthropic/claude-opus-4.5"
api_key = { keyring = "openrouter/me" }
[agents.theirs]
provider = "a-kind-of-somebody"
whatever = [1, 2]
[agents.part]
model = "completed by another file"
"""


def problems(text: str) -> list[str]:
    return [error.json_path for error in VALIDATOR.iter_errors(tomllib.loads(text))]


def test_it_is_a_schema_and_takes_what_the_program_takes() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    assert problems(EXAMPLE) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("primry = 'x'", "$"),
        ("primary = ''", "$.primary"),
        ("need_expiry_hours = -1", "$.need_expiry_hours"),
        ("need_expiry_hours = '24h'", "$.need_expiry_hours"),
        ("limits = { idle_timeout = 120 }", "$.limits.idle_timeout"),
        ("limits = { idle_timout = '1s' }", "$.limits"),
        ("limits = { percept_inject_max_bytes = '2 pages' }", "$.limits.percept_inject_max_bytes"),
        ("limits = { retry_attempts = 'unlimited' }", "$.limits.retry_attempts"),
        ("agents = { x = { provider = 'openai', modell = 'm' } }", "$.agents.x"),
        ("agents = { x = { provider = 'openai', api_key = { evn = 'K' } } }", "$.agents.x.api_key"),
        ("agents = { x = { provider = 'openai', api_key = { env = 'K', cmd = ['a'] } } }", "$.agents.x.api_key"),
        ("agents = { x = { provider = 'openai', limits = { retry_attempts = -1 } } }", "$.agents.x.limits.retry_attempts"),
        ("agents = { x = { provider = 'openai', prices = { inptu = 1 } } }", "$.agents.x.prices"),
        ("agents = { x = { prompt = 'a', prompt_file = 'b' } }", "$.agents.x"),
        ("agents = { 'a b' = { provider = 'openai' } }", "$.agents"),
    ],
)
def test_it_refuses_what_the_program_refuses(text: str, place: str) -> None:
    assert place in problems(text)


def test_every_declared_setting_stands_in_it_with_its_help_and_its_default() -> None:
    for setting in SETTINGS:
        table, _, name = setting.path.rpartition(".")
        properties = SCHEMA["$defs"]["limits"]["properties"] if table == "limits" else (SCHEMA["properties"][table] if table else SCHEMA)["properties"]
        described = properties[name]
        default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
        assert described["description"].startswith(setting.help)
        assert described.get("default") == default


def test_the_starting_configuration_and_the_readmes_are_valid() -> None:
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    blocks = [block.split("```")[0] for block in readme.split("```toml\n")[1:]]

    assert blocks
    assert [problems(block) for block in blocks] == [[]] * len(blocks)


@pytest.mark.parametrize(("timeout", "valid"), [("UNLIMITED", True), (" unlimited", True), ("10m", True), ("0.5s", True), ("0s", False), ("0.0h", False)])
def test_durations_are_those_that_the_program_takes(timeout: str, valid: bool) -> None:
    assert (problems(f"[limits]\nturn_timeout = '{timeout}'") == []) is valid
