from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings.hiding import has_written_secret, masked
from orchestrator.settings.known import written_secrets
from orchestrator.settings.secrets import Secret, SecretRef, is_secret_name, resolve, secret_texts, with_secrets


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apikey",
        "API-KEY",
        "x-api-key",
        "token",
        "aws_session_token",
        "Authorization",
        "password",
        "client_secret",
        "Cookie",
        "accessToken",
        "MY_PAT",
        "clientSecret",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["model", "max_tokens", "token_cmd", "keyboard", "monkey", "profile", "maxTokens", "format", "compat"])
def test_other_names_are_not_taken_for_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_a_reference_to_the_environment_is_resolved_late() -> None:
    ref = with_secrets("api_key", {"env": "KEY"})

    assert ref == SecretRef("env", env="KEY")
    assert resolve(ref, environ={"KEY": "sk-1"}, path="agents.x.api_key") == "sk-1"


@pytest.mark.parametrize(("environ", "said"), [({}, "KEY is not set"), ({"KEY": ""}, "KEY is empty")])
def test_a_missing_variable_is_named_with_the_agent(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"agents.x.api_key: the environment variable {said}"):
        resolve(SecretRef("env", env="KEY"), environ=environ, path="agents.x.api_key")


def test_a_command_gives_what_it_prints() -> None:
    ref = with_secrets("api_key", {"cmd": [sys.executable, "-c", "import os; print(os.environ['FROM'])"]})

    assert resolve(ref, environ={"FROM": "sk-2"}, path="agents.x.api_key") == "sk-2"


def test_a_command_runs_in_the_folder_of_the_file_that_gives_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-11")
    ref = SecretRef("cmd", cmd=("cat", "key"), folder=str(tmp_path))

    assert resolve(ref, environ={"PATH": os.environ["PATH"]}, path="agents.x.api_key") == "sk-11"


@pytest.mark.parametrize(("code", "said"), [("import sys; print('sk-3'); sys.exit('sk-4')", "ended with exit code 1"), ("print(' ')", "printed nothing")])
def test_a_failing_command_is_named_without_what_it_printed(code: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        resolve(SecretRef("cmd", cmd=(sys.executable, "-c", code)), environ={}, path="agents.x.api_key")

    assert "sk-" not in caught.value.message


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="'/no/such/program' cannot be run: No such file"):
        resolve(SecretRef("cmd", cmd=("/no/such/program", "a")), environ={}, path="agents.x.api_key")


def test_a_keyring_that_is_not_installed_or_does_not_answer_is_said() -> None:
    with pytest.raises(ConfigError, match=r"agents\.x\.api_key: .*keyring"):
        resolve(SecretRef("keyring", keyring="service/name"), environ={}, path="agents.x.api_key")


@pytest.mark.parametrize(
    "raw", [{"evn": "X"}, {"env": ""}, {"env": "A", "cmd": ["b"]}, {"cmd": "text"}, {"cmd": []}, {"keyring": "no-slash"}, "", 3, ["a"], {}]
)
def test_a_malformed_secret_is_refused_without_repeating_it(raw: object) -> None:
    with pytest.raises(ValueError, match=r"^is not usable as a secret; expected a text"):
        with_secrets("api_key", raw)


def test_headers_and_environments_carry_secrets_beside_plain_values() -> None:
    headers = with_secrets("headers", {"Authorization": "Bearer sk", "x-team": {"env": "TEAM"}, "accept": "json"})

    assert headers == {"Authorization": Secret("Bearer sk"), "x-team": SecretRef("env", env="TEAM"), "accept": "json"}
    assert resolve(headers, environ={"TEAM": "red"}, path="p") == {"Authorization": "Bearer sk", "x-team": "red", "accept": "json"}
    assert secret_texts(headers, environ={"TEAM": "red"}) == ("Bearer sk", "red")


def test_a_secret_shows_nothing_of_itself() -> None:
    secret = with_secrets("api_key", "sk-5")

    assert "sk-5" not in f"{secret!r} {secret} {[secret]}"
    assert masked("api_key", secret) == masked("api_key", "sk-5") == "***"


def test_masking_reaches_into_command_lines_and_json() -> None:
    servers = '{"env": {"MY_API_KEY": "c3", "A": "1"}, "headers": {"X": "d4"}}'
    clear = '{"env": {"MY_API_KEY": "***", "A": "1"}, "headers": {"X": "***"}}'
    words = ["--api-key=a1", "--token", "b2", "--max-turns", "3", "-v", "--settings", servers, "{no json"]

    assert masked("extra_args", words) == ["--api-key=***", "--token", "***", "--max-turns", "3", "-v", "--settings", clear, "***"]
    assert masked("mcp_config", '{"a":  1}') == '{"a":  1}'
    assert masked("mcp_config", ["{" * 100_000]) == ["***"]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--header", "Authorization: Bearer CANARY"], ["--header", "Authorization: ***"]),
        (["-H", "X-Team: a CANARY"], ["-H", "X-Team: ***"]),
        (["-HAuthorization: Bearer CANARY"], ["-HAuthorization: ***"]),
        (["--header=Authorization: Bearer CANARY"], ["--header=Authorization: ***"]),
        (["Authorization: Bearer CANARY"], ["Authorization: ***"]),
        (["Cookie: a=CANARY; b=2; c=3"], ["Cookie: ***"]),
        (["-e", "GITHUB_PERSONAL_ACCESS_TOKEN=CANARY"], ["-e", "GITHUB_PERSONAL_ACCESS_TOKEN=***"]),
        (["-eGITHUB_TOKEN=CANARY"], ["-eGITHUB_TOKEN=***"]),
        (["--env=GITHUB_TOKEN=CANARY"], ["--env=GITHUB_TOKEN=***"]),
        (["-e", "T=canary1234567890ab"], ["-e", "T=***"]),
        (["API_KEY=CANARY"], ["API_KEY=***"]),
        (["--password:CANARY"], ["--password:***"]),
        (["-k", "canary1234567890ab"], ["-k", "***"]),
        (["sh", "-c", "API_KEY=CANARY1 curl -H 'Authorization: Bearer CANARY'"], ["sh", "-c", "API_KEY=*** curl -H 'Authorization: ***'"]),
        (
            ["--mcp-config", '{"mcpServers": {"x": {"env": {"T": "CANARY00", "N": "30000000"}}}}'],
            ["--mcp-config", '{"mcpServers": {"x": {"env": {"T": "***", "N": "30000000"}}}}'],
        ),
    ],
)
def test_secrets_in_the_spellings_of_command_lines_are_masked_and_known(words: list[str], shown: list[str]) -> None:
    assert masked("args", words) == shown
    assert masked("args", tuple(words)) == shown
    assert any(secret in " ".join(words) for secret in written_secrets("args", words))


@pytest.mark.parametrize(
    "words",
    [
        ["-y", "@modelcontextprotocol/server-filesystem@2025.1.14", ".", "--port=8080", "--config=a.json", "-e", "NODE_ENV=production"],
        ["--system", "Key: points to be made about it", "https://host/v1", "run", "-k", "test_name", "--region=us-east-1", "-p:8080"],
        ["-lc", "npx thing --max-tokens 5", "https://host/openai/deployments/gpt-4o-2024-08-06-eu/chat", "a=b", "-X", ""],
    ],
)
def test_what_is_no_secret_in_a_command_line_stays(words: list[str]) -> None:
    assert masked("args", words) == words


def test_a_secret_in_the_path_of_an_address_is_masked() -> None:
    url = "https://gateway.example/v1/{}/openai/gpt-4o-2024-08-06-preview"

    assert masked("base_url", url.format("canary0123456789canary")) == url.format("***")
    assert list(written_secrets("base_url", url.format("canary0123456789canary"))) == ["canary0123456789canary"]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("base_url", "me:CANARY@host/v1", "***@host/v1"),
        ("base_url", "https://me:CAN/AR@Y?@host/v1", "https://***@host/v1"),
        ("base_url", "CANARY", "***"),
        ("base_url", "h.example", "h.example"),
        ("token_cmd", "CANARY", "***"),
        ("token_cmd", ["pass", "show", "--token", "CANARY"], ["pass", "show", "--token", "***"]),
        ("base_url", "https://CANARY@host", "https://***@host"),
        (
            "base_url",
            "https://host/v1?code=CANARY&n=5&api-version=2024-10-21#access_token=CANARY",
            "https://host/v1?code=***&n=5&api-version=2024-10-21#access_token=***",
        ),
        ("headers", ["Authorization: Bearer CANARY"], ["***"]),
        ("headers", "CANARY", "***"),
        ("env", "CANARY", "***"),
        (
            "env",
            {"MY_PAT": "CANARY", "LD_PRELOAD": "./evil.so", "PATH": ".", "OTHER": "canary1234567890ab"},
            {"MY_PAT": "***", "LD_PRELOAD": "./evil.so", "PATH": ".", "OTHER": "***"},
        ),
        ("env", {"env": {"env": "NAME"}, "off": False}, {"env": {"env": "NAME"}, "off": False}),
        ("env", {"ANTHROPIC_MODEL": "claude-sonnet-4-5-20250929"}, {"ANTHROPIC_MODEL": "claude-sonnet-4-5-20250929"}),
        ("body", {"accessToken": "CANARY", "max_tokens": 5, "userPassword": 12345678}, {"accessToken": "***", "max_tokens": 5, "userPassword": "***"}),
        ("api_key", {"evn": "CANARY"}, {"evn": "***"}),
        ("api_key", {"cmd": ["pass", "--token=CANARY"]}, {"cmd": ["pass", "--token=***"]}),
        ("api_key", ["CANARY"], ["***"]),
        ("api_key", True, True),
        ("mcp_config", '{"env": {"TOKEN": "CANARY"}', "***"),
    ],
)
def test_what_is_malformed_is_masked_too(name: str, value: object, shown: object) -> None:
    assert masked(name, value) == shown


def test_a_table_of_the_providers_own_holds_references_at_any_depth() -> None:
    body = with_secrets("body", {"password": {"env": "X"}, "deep": [{"apiKey": "sk-8"}], "schema": {"token": {"type": "string"}}, "key": 3})

    assert body == {"password": SecretRef("env", env="X"), "deep": [{"apiKey": Secret("sk-8")}], "schema": {"token": {"type": "string"}}, "key": 3}
    assert secret_texts(body, environ={"X": "sk-9"}) == ("sk-9", "sk-8")
    assert resolve(body, environ={"X": "sk-9"}, path="p")["deep"] == [{"apiKey": "sk-8"}]


def test_masking_reaches_into_tables_lists_and_urls() -> None:
    value = {"deep": [{"api_key": "sk"}], "url": "http://u:p@h/?access_token=sk&b=1", "n": 3}

    assert masked("body", value) == {"deep": [{"api_key": "***"}], "url": "http://***@h/?access_token=***&b=1", "n": 3}


KEYRING = """
from . import errors

def get_password(service, name):
    if service == "locked":
        raise errors.KeyringLocked(f"sk-7 of {name}")
    if service == "leaving":
        raise SystemExit(f"sk-7 of {name}")
    if service == "gone":
        raise OSError(f"sk-7 of {name}")
    return {("mail/work", "me"): "sk-6"}.get((service, name))
"""
ASK = """
import subprocess
import sys
from pathlib import Path
from orchestrator.errors import SecretMissing
from orchestrator.settings.secrets import resolve, with_secrets
try:
    print(resolve(with_secrets("api_key", {"keyring": sys.argv[1]}), environ={}, path="agents.x.api_key"))
except SecretMissing as error:
    print(error.message, error.hint)
"""


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("mail/work/me", "sk-6"),
        ("mail/work/you", "agents.x.api_key: the keyring has nothing for 'mail/work/you' keyring set mail/work you"),
        ("gone/me", "agents.x.api_key: the keyring does not answer: OSError None"),
        ("locked/me", "agents.x.api_key: the keyring does not answer: KeyringLocked None"),
        ("leaving/me", "agents.x.api_key: the keyring does not answer: SystemExit None"),
    ],
)
def test_a_keyring_gives_what_it_holds_and_says_why_not(tmp_path: Path, reference: str, said: str) -> None:
    (tmp_path / "keyring").mkdir()
    (tmp_path / "keyring" / "__init__.py").write_text(KEYRING)
    (tmp_path / "keyring" / "errors.py").write_text("class KeyringError(Exception): pass\nclass KeyringLocked(KeyringError): pass\n")

    done = subprocess.run([sys.executable, "-c", ASK, reference], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == said
    assert "sk-7" not in done.stdout


@pytest.mark.parametrize("raised", ["RuntimeError('sk-7')", "SystemExit(0)"])
def test_a_keyring_that_breaks_when_it_is_loaded_is_said(tmp_path: Path, raised: str) -> None:
    (tmp_path / "keyring.py").write_text(f"raise {raised}")

    done = subprocess.run([sys.executable, "-c", ASK, "a/b"], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True)

    said = f"agents.x.api_key: the package `keyring` cannot be loaded: {raised.partition('(')[0]} pip install --force-reinstall keyring"
    assert done.stdout.strip() == said


def test_a_secret_that_is_written_out_is_found_at_any_depth() -> None:
    assert has_written_secret("body", {"deep": [{"password": "sk"}]})
    assert has_written_secret("headers", {"x-api-key": "sk"})
    assert has_written_secret("base_url", "http://u:p@h")
    assert not has_written_secret("api_key", {"env": "KEY"})
    assert not has_written_secret("headers", {"Authorization": {"cmd": ["pass", "x"]}, "x-team": "red"})
    assert not has_written_secret("model", "m")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["curl", "https://hooks.example.com/services/T0123/abcdefghij0123456789xyz"], ["curl", "https://hooks.example.com/services/T0123/***"]),
        (["acme @ https://user:canary@host/x.whl"], ["acme @ https://***@host/x.whl"]),
        (["git+https://host/acme@0123456789abcdef0123456789abcdef"], ["git+https://host/acme@0123456789abcdef0123456789abcdef"]),
        (["sk-canary0123456789canary", "ghp_canary0123456789canary00", "xoxb-canary-0123"], ["***", "***", "***"]),
        (["github_pat_canary0123456789canary", "sk-learn", "ghp_short"], ["***", "sk-learn", "ghp_short"]),
        (
            ["curl", "-u", "me:canary", "-u", "me", "--auth", "canary", "--pass", "canary"],
            ["curl", "-u", "me:***", "-u", "me", "--auth", "***", "--pass", "***"],
        ),
        (["-c", "curl --api-key=canary -H 'X-Api-Key: canary' $URL"], ["-c", "curl --api-key=*** -H 'X-Api-Key: ***' $URL"]),
        (["Server=db;Password=canary;Timeout=5", "tool --api-key=$KEY"], ["Server=db;Password=***;Timeout=5", "tool --api-key=$KEY"]),
    ],
)
def test_words_that_give_a_secret_away_by_how_they_look_are_masked(words: list[str], shown: list[str]) -> None:
    assert masked("args", words) == shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("ANTHROPIC_CUSTOM_HEADERS", "x-gateway: abcdef-123\nX-Team: blue-42", "x-gateway: ***\nX-Team: ***"),
        ("EXTRA", "x-key: abcdef-123", "x-key: ***"),
        ("ARGS", "run --api-key=abcdef-123", "run --api-key=***"),
        ("GREETING", "key: what you say first", "key: what you say first"),
        ("LISTS", "/usr/lib:/usr/local/lib", "/usr/lib:/usr/local/lib"),
    ],
)
def test_a_variable_that_holds_headers_or_options_shows_none_of_their_secrets(name: str, value: str, shown: str) -> None:
    env = with_secrets("env", {name: value})

    assert masked("env", env) == {name: shown}
    assert ("abcdef-123" in set(written_secrets("env", env))) == ("abcdef-123" in value)
