"""Secrets that are known by their text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.documents.masking import mask_secrets
from orchestrator.settings.known import SHORTEST, KnownSecrets, resolved_secrets, written_secrets
from orchestrator.settings.secrets import Secret, SecretRef


def known(*secrets: str) -> KnownSecrets:
    secrets_ = KnownSecrets()
    secrets_.add(secrets)
    return secrets_


def test_a_secret_is_masked_as_it_is_in_json_and_in_a_url() -> None:
    odd = 'p"ä/ss\\word'

    text = f"{odd} {json.dumps(odd)} {json.dumps(odd, ensure_ascii=False)} p%22%C3%A4%2Fss%5Cword"

    assert known(odd).mask(text) == '*** "***" "***" ***'


def test_a_longer_secret_goes_before_one_that_it_begins_with() -> None:
    assert known("secret-1", "secret-1-and-more").mask("secret-1-and-more secret-1") == "*** ***"


def test_a_stand_in_is_no_secret() -> None:
    assert known("local", "").mask("the local agent") == "the local agent"


def test_written_secrets_are_found_wherever_they_are_masked() -> None:
    options = {
        "api_key": Secret("k-0000001"),
        "base_url": "http://user:hunter22@h/v1?api_key=qwerty12&x=1",
        "headers": {"x-team": "team-secret"},
        "extra_args": ["--settings", '{"env": {"MY_API_KEY": "in-json-1"}}', "--api-key=behind-1", "--token", "after-1"],
        "model": "not-secret",
    }

    assert set(written_secrets("", options)) == {"k-0000001", "hunter22", "qwerty12", "team-secret", "in-json-1", "behind-1", "after-1"}


def test_resolved_secrets_are_those_that_were_referred_to() -> None:
    options = {"api_key": SecretRef("cmd", cmd=("x",)), "headers": {"a": SecretRef("env", env="A"), "b": "open"}, "model": "m"}

    assert set(resolved_secrets(options, {"api_key": "one", "headers": {"a": "two", "b": "open"}, "model": "m"})) == {"one", "two"}


@given(st.lists(st.text(min_size=SHORTEST), min_size=1), st.text())
def test_nothing_is_left_of_them(secrets: list[str], text: str) -> None:
    masked = known(*secrets).mask(text.join(secrets))

    assert not any(secret in masked for secret in secrets if known(secret).longest and not set(secret) <= {"*"} and "***" not in secret)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("OPENAI_API_KEY=canary-value x", "OPENAI_API_KEY=*** x"),
        ("export X_SECRET='canary'", "export X_SECRET='***'"),
        ("{'A_TOKEN': 'canary-1'}", "{'A_TOKEN': '***'}"),
        (r'"OPENAI_API_KEY=\"canary\" y"', r'"OPENAI_API_KEY=\"***\" y"'),
        ("DB_PASSWORD: canary-1", "DB_PASSWORD: ***"),
    ],
)
def test_what_an_environment_has_under_a_name_of_secrets_is_masked_whoever_it_belongs_to(text: str, masked: str) -> None:
    assert known().mask(text) == masked
    assert known().mask(masked) is masked
    assert mask_secrets(text) == masked


@pytest.mark.parametrize(
    "text", ["A_KEY=os.environ['X']", "A_KEY=$OTHER_KEY", "SORT_KEY: created_at", "A_KEY=getpass()", "A_KEY=", "A_TOKENS=9", "MAX_TOKEN=7"]
)
def test_code_that_only_names_a_secret_is_left_as_it_is(text: str) -> None:
    assert known().mask(text) is text
    assert mask_secrets(text) is text
