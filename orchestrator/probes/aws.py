"""AWS credentials and region as AWS tools would find them, told by where they are; nobody is contacted, no secret is read out."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_MOST_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class AwsFacts:
    """Where the credentials come from and which region is set, each `None` where there is none; `problem` is what stands in the way."""

    credentials: str | None
    region: str | None
    profile: str
    problem: str | None = None


def aws_facts(environ: Mapping[str, str], *, profile: str | None = None, region: str | None = None) -> AwsFacts:
    """`profile` and `region` are what an agent's options say; they go before the environment. AWS_REGION is no region to boto3."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    shared, shared_problem = _sections(_path(environ.get("AWS_SHARED_CREDENTIALS_FILE"), home, "credentials"))
    config, config_problem = _sections(_path(environ.get("AWS_CONFIG_FILE"), home, "config"))
    chosen = profile or environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    name = chosen or "default"
    settings = config.get("default" if name == "default" else f"profile {name}", {})
    secrets = shared.get(name, {})
    credentials = (None if profile else _in_environment(environ)) or _in_profile(name, secrets, settings) or _in_container(environ)
    found = region or environ.get("AWS_DEFAULT_REGION") or settings.get("region") or secrets.get("region")
    problem = shared_problem or config_problem
    if credentials is None and chosen and not secrets and not settings:
        problem = problem or f"there is no profile {name!r}"
    elif credentials is None and environ.get("AWS_ACCESS_KEY_ID"):
        problem = problem or "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"
    return AwsFacts(credentials, found or None, name, problem)


def _in_environment(environ: Mapping[str, str]) -> str | None:
    if environ.get("AWS_BEARER_TOKEN_BEDROCK"):
        return "AWS_BEARER_TOKEN_BEDROCK"
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        return "AWS_ACCESS_KEY_ID"
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environ.get("AWS_ROLE_ARN"):
        return "AWS_WEB_IDENTITY_TOKEN_FILE"
    return None


def _in_profile(name: str, secrets: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    both = {**settings, **secrets}
    ways = {
        "a role": both.get("role_arn"),
        "SSO; `aws sso login` when that has expired": both.get("sso_session") or both.get("sso_start_url"),
        "access keys": both.get("aws_access_key_id") and both.get("aws_secret_access_key"),
        "credential_process": both.get("credential_process"),
        "`aws login`": both.get("login_session"),
    }
    way = next((way for way, value in ways.items() if value), None)
    return None if way is None else f"the profile {name!r} ({way})"


def _in_container(environ: Mapping[str, str]) -> str | None:
    names = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
    return next((name for name in names if environ.get(name)), None)


def _path(setting: str | None, home: Path, name: str) -> Path:
    if not setting:
        return home / ".aws" / name
    return home / setting[2:] if setting.startswith("~/") else Path(setting)


def _sections(path: Path) -> tuple[dict[str, dict[str, str]], str | None]:
    """The file's sections, and what is wrong with it; a file that is not there is empty."""
    parser = configparser.RawConfigParser(strict=False, default_section="")
    try:
        if path.is_fifo():
            return {}, f"{path} is a pipe, which whoever reads it waits for"
        with open(path, encoding="utf-8", errors="replace") as file:
            parser.read_string(file.read(_MOST_CHARS))
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except OSError as error:
        return {}, f"{path} cannot be read: {error.strerror}"
    except configparser.Error as error:
        return {}, f"{path} is malformed: {type(error).__name__}"  # its words may quote a line with a key
    return {name.strip(): dict(parser.items(name)) for name in parser.sections()}, None
