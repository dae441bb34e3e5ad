"""Which names stand for one model."""

from __future__ import annotations

import pytest

from orchestrator.model_names import is_same_model


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("m", "m"),
        ("m", "vendor/M"),
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-3.5-turbo", "gpt-3.5-turbo-0125"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("llama3", "llama3:latest"),
        ("llama3:latest", "llama3"),
        ("mistral-large-latest", "mistral-large-2411"),
        ("mistral-large-latest", "mistral-large-latest"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("vendor/x:free", "vendor/x"),
        ("vendor/x:free", "vendor/x:free"),
        ("vendor/x:nitro", "x-2025-01-31"),
        ("claude-opus-4-8[1m]", "claude-opus-4-8"),
        ("claude-opus-4-8", "claude-opus-4-8[1m]"),
        ("opus[1m]", "claude-opus-4-8"),
        ("opus", "us.anthropic.claude-opus-4-8-v1:0"),
        ("opusplan", "claude-sonnet-5"),
        ("best", "claude-opus-4-8"),
        ("default", "claude-sonnet-5"),
    ],
)
def test_an_alias_and_the_name_behind_it_are_one_model(asked: str, served: str) -> None:
    assert is_same_model(asked, served)


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("m", "n"),
        ("m", "m-mini"),
        ("x", "x:free"),
        ("vendor/x:free", "vendor/y:free"),
        ("mistral-large-latest", "mistral-small-2411"),
        ("mistral-latest", "mistral-large-2411"),
        ("m-2024-08-06", "m-2024-11-20"),
        ("llama3:8b", "llama3"),
        ("m-4096", "m"),
        ("opus[1m]", "claude-sonnet-5"),
        ("opusplan", "claude-haiku-4-5"),
        ("best", "gpt-4o"),
        ("m[1m]", "n[1m]"),
    ],
)
def test_other_models_are_told_apart(asked: str, served: str) -> None:
    assert not is_same_model(asked, served)
