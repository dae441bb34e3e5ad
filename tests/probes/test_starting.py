"""The starting configuration: the best that was found, and always one that loads."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.agents import agent_problems
from orchestrator.plugins import PluginManager, installed_entry_points
from orchestrator.probes.aws import AwsFacts
from orchestrator.probes.keys import VENDORS, keys_found
from orchestrator.probes.servers import Server
from orchestrator.probes.starting import Found, starting_configuration
from orchestrator.settings.paths import paths_of
from orchestrator.settings.resolution import load_settings

ALL = frozenset({"openai", "openrouter", "claude-cli", "bedrock", "embedded"})
OLLAMA = Server("Ollama", "http://127.0.0.1:11434/v1", "works", ("qwen", "llama"))
AWS = AwsFacts("AWS_ACCESS_KEY_ID", "eu-west-1", "default")


def names(found: Found) -> tuple[str | None, str | None]:
    text = starting_configuration(found)
    if text is None:
        return None, None
    data = tomllib.loads(text)
    return data["agents"][data["primary"]]["provider"], data["agents"][data["escalation"]]["provider"] if "escalation" in data else None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Found(), (None, None)),
        (Found(kinds=ALL), (None, None)),
        (Found(embedded=True, kinds=ALL), ("embedded", "embedded")),
        (Found([OLLAMA], kinds=ALL), ("openai", None)),
        (Found([OLLAMA], embedded=True, kinds=ALL), ("openai", "embedded")),
        (Found([OLLAMA], claude=True, aws=AWS, keys=VENDORS, embedded=True, kinds=ALL), ("openai", "claude-cli")),
        (Found([OLLAMA], aws=AWS, keys=VENDORS, embedded=True, kinds=ALL), ("openai", "bedrock")),
        (Found([OLLAMA], aws=AWS, keys=VENDORS, embedded=True, kinds=ALL - {"bedrock"}), ("openai", "openrouter")),
        (Found([OLLAMA], aws=AwsFacts("x", None, "default"), keys=VENDORS[1:], kinds=ALL), ("openai", "openai")),
        (Found([OLLAMA], claude=True, embedded=True, kinds={"embedded"}), ("embedded", "embedded")),
        (Found([Server("x", "http://127.0.0.1:1/v1", "works", ("text-embed",))], embedded=True, kinds=ALL), ("embedded", "embedded")),
    ],
)
def test_the_best_that_can_be_used_is_chosen(found: Found, expected: tuple[str | None, str | None]) -> None:
    assert names(found) == expected


def test_the_program_of_claude_code_is_named_where_it_is_known() -> None:
    text = starting_configuration(Found([OLLAMA], claude=True, kinds=ALL, claude_bin="/opt/claude code"))
    assert text is not None
    assert tomllib.loads(text)["agents"]["claude"] == {"provider": "claude-cli", "bin": "/opt/claude code"}


def test_keys_stand_in_it_by_name_only() -> None:
    keys = keys_found({"OPENROUTER_API_KEY": "sk-1", "OPENAI_API_KEY": " "})
    text = starting_configuration(Found([OLLAMA], keys=keys, kinds=ALL))
    assert [vendor.name for vendor in keys] == ["OpenRouter"]
    assert text is not None
    assert 'api_key = { env = "OPENROUTER_API_KEY" }' in text
    assert "sk-1" not in text


@pytest.mark.parametrize(("region", "model"), [("us-east-1", "us."), ("eu-north-1", "eu."), ("ap-south-1", "global."), ("us-gov-west-1", "global.")])
def test_bedrocks_model_is_one_of_the_region(region: str, model: str) -> None:
    text = starting_configuration(Found([OLLAMA], aws=AwsFacts("x", region, "default"), kinds=ALL))
    assert text is not None
    assert tomllib.loads(text)["agents"]["bedrock"]["model"].startswith(model)


PRINTABLE = st.text(min_size=1, max_size=30).filter(str.isprintable)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    servers=st.lists(
        st.builds(Server, name=st.just("x"), url=st.just(OLLAMA.url), status=st.just("works"), models=st.lists(PRINTABLE, max_size=3).map(tuple)), max_size=2
    ),
    claude=st.booleans(),
    aws=st.builds(AwsFacts, st.sampled_from([None, "the profile 'x' (SSO)"]), st.none() | st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9)),
    keys=st.lists(st.sampled_from(VENDORS), max_size=3),
    embedded=st.booleans(),
)
def test_whatever_is_found_it_loads_without_a_problem(
    tmp_path: Path, servers: list[Server], claude: bool, aws: AwsFacts, keys: list[object], embedded: bool
) -> None:
    text = starting_configuration(Found(servers, claude, aws, keys, embedded, ALL))  # type: ignore[arg-type]
    if text is None:
        return
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
    environ = {"ESCALERA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    loaded = load_settings(environ=environ, workspace=tmp_path, paths=paths_of(environ, platform="linux"))
    kinds = PluginManager.load(installed_entry_points()).kinds()
    assert agent_problems(loaded.agents.values(), kinds) == []
    assert loaded.primary in loaded.agents
