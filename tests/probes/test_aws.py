"""AWS credentials and region, found and never read out."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.probes.aws import aws_facts

KEYS = {"AWS_ACCESS_KEY_ID": "AKIASECRET", "AWS_SECRET_ACCESS_KEY": "SECRETKEY"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        ({}, None),
        (KEYS, "AWS_ACCESS_KEY_ID"),
        ({"AWS_BEARER_TOKEN_BEDROCK": "SECRET"}, "AWS_BEARER_TOKEN_BEDROCK"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "a"}, "AWS_WEB_IDENTITY_TOKEN_FILE"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://x"}, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    ],
)
def test_credentials_in_the_environment_are_found_by_name(home: Path, environ: dict[str, str], where: str | None) -> None:
    facts = aws_facts({"HOME": str(home), **environ})
    assert facts.credentials == where
    assert "SECRET" not in str(facts)


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ("credential_process = /bin/SECRET", "credential_process"),
        ("sso_session = x", "SSO"),
        ("sso_start_url = x", "SSO"),
        ("role_arn = x\nsource_profile = y", "a role"),
        ("aws_access_key_id = SECRET\naws_secret_access_key = SECRET", "access keys"),
    ],
)
def test_a_profile_says_how_it_gets_them(home: Path, settings: str, way: str) -> None:
    (home / ".aws" / "config").write_text(f"[profile work]\nregion = eu-west-1\n{settings}\n")
    facts = aws_facts({"HOME": str(home), "AWS_PROFILE": "work"})
    assert way in (facts.credentials or "")
    assert (facts.region, facts.profile, facts.problem) == ("eu-west-1", "work", None)
    assert "SECRET" not in str(facts)


def test_keys_of_the_default_profile_and_its_region(home: Path) -> None:
    (home / ".aws" / "credentials").write_text("[default]\naws_access_key_id = SECRET\naws_secret_access_key = SECRET\n")
    (home / ".aws" / "config").write_text("[default]\nregion = us-west-2\n")
    facts = aws_facts({"HOME": str(home)})
    assert (facts.credentials, facts.region) == ("the profile 'default' (access keys)", "us-west-2")


def test_the_variable_that_boto3_does_not_read_is_no_region(home: Path) -> None:
    assert aws_facts({"HOME": str(home), "AWS_REGION": "us-east-1"}).region is None
    assert aws_facts({"HOME": str(home), "AWS_DEFAULT_REGION": "us-east-1"}).region == "us-east-1"


def test_an_agents_options_go_before_the_environment(home: Path) -> None:
    (home / ".aws" / "config").write_text("[profile own]\nregion = eu-west-1\nsso_session = x\n")
    facts = aws_facts({"HOME": str(home), "AWS_DEFAULT_REGION": "us-east-1", **KEYS}, profile="own", region="ap-south-1")
    assert (facts.profile, facts.region) == ("own", "ap-south-1")
    assert "own" in (facts.credentials or "")


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"AWS_PROFILE": "gone"}, "no profile 'gone'"),
        ({"AWS_ACCESS_KEY_ID": "AKIA123"}, "without AWS_SECRET_ACCESS_KEY"),
        ({"AWS_CONFIG_FILE": "/"}, "cannot be read"),
    ],
)
def test_what_stands_in_the_way_is_said(home: Path, environ: dict[str, str], problem: str) -> None:
    facts = aws_facts({"HOME": str(home), **environ})
    assert problem in (facts.problem or "")
    assert "AKIA123" not in str(facts)


@pytest.mark.parametrize("text", ["no section SECRET", "[open\nx = SECRET", "[a]\nSECRET\x00\xff", "[DEFAULT]\nx = SECRET\n[default]\nSECRET"])
def test_a_malformed_file_is_named_and_never_quoted(home: Path, text: str) -> None:
    (home / ".aws" / "credentials").write_text(text)
    facts = aws_facts({"HOME": str(home)})
    assert "malformed" in (facts.problem or "")
    assert "SECRET" not in str(facts)
