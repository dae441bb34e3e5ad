"""The boto3 client of one agent: region and credentials found as every AWS tool finds them, or a failure that says what to do."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from orchestrator.providers import Stop

CONNECT_TIMEOUT = 5.0
_METADATA_DIAL = 0.15
_METADATA_TIMEOUT = 0.3
"""Seconds for the connection to a cloud machine's own metadata service, and for each answer: where there is one, it takes milliseconds."""


class RuntimeClient(Protocol):
    """What is used of boto3's client, which has no types of its own."""

    @property
    def meta(self) -> Any: ...
    def converse(self, **arguments: Any) -> dict[str, Any]: ...
    def converse_stream(self, **arguments: Any) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Connection:
    """A client, and what must not be shown of it."""

    client: RuntimeClient
    verify: str | bool
    """The certificates to trust, as boto3 would."""
    secrets: tuple[str, ...] = field(repr=False)
    tls: ssl.SSLContext
    """For all calls; they put the certificates in when the first of them needs any."""

    @property
    def where(self) -> str:
        """The endpoint, for messages."""
        return str(self.client.meta.endpoint_url)


class Programs:
    """Starts the `credential_process` of an agent, such that it ends, with all it has started, with the call that wanted it."""

    def __init__(self) -> None:
        self._stop: Stop | None = None

    def belong_to(self, stop: Stop) -> None:
        """From now on, what is started ends when that call is stopped."""
        self._stop = stop

    def __call__(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:  # as botocore calls `subprocess.Popen`
        process: subprocess.Popen[bytes] = subprocess.Popen(command, start_new_session=True, **options)
        if self._stop is not None:
            self._stop.hold(lambda: _kill(process))
        return process


def connect(*, region: str | None, profile: str | None, endpoint_url: str | None, read_timeout: float | None, programs: Programs | None = None) -> Connection:
    """A client with retries switched off. Reads files and environment, may run a `credential_process`; sends nothing to Bedrock.

    Raises `Missing`, and what botocore raises while it looks for credentials.
    """
    from botocore.config import Config
    from botocore.httpsession import create_urllib3_context

    programs = programs or Programs()
    session = _session(region, profile, programs, metadata=False)
    if session.region_name is None:
        raise Missing("region")
    token = os.environ.get("AWS_BEARER_TOKEN_BEDROCK")
    credentials = None if token else session.get_credentials()
    if credentials is None and not token and _metadata_answers(session._session):
        session = _session(region, profile, programs, metadata=True)
        credentials = session.get_credentials()
    if credentials is None and not token:
        raise Missing("credentials")
    config = Config(connect_timeout=CONNECT_TIMEOUT, read_timeout=read_timeout, retries={"mode": "standard", "total_max_attempts": 1}, tcp_keepalive=True)
    client = session.client("bedrock-runtime", endpoint_url=endpoint_url, config=config)
    verify = session._session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE") or True
    return Connection(client, verify, tuple(_secrets(credentials, token)), create_urllib3_context())


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _session(region: str | None, profile: str | None, programs: Programs, *, metadata: bool) -> Any:  # boto3.Session
    """A session; without `metadata` it does not ask the machine's metadata service for credentials."""
    import boto3
    import botocore.session

    core = botocore.session.Session(profile=profile)
    if core.get_config_variable("metadata_service_timeout") == 1 and "AWS_METADATA_SERVICE_TIMEOUT" not in os.environ:
        # Not by the session's own method, which makes whole seconds of it.
        core.get_component("config_store").set_config_variable("metadata_service_timeout", _METADATA_TIMEOUT)
    session = boto3.Session(botocore_session=core, region_name=region)
    providers = core.get_component("credential_provider")
    for provider in providers.providers:
        if provider.METHOD == "custom-process":
            provider._popen = programs
    if not metadata:
        providers.remove("iam-role")
    return session


def _metadata_answers(core: Any) -> bool:  # botocore.session.Session
    """Whether somebody listens where the metadata service would be; elsewhere than in the cloud, a packet there is lost."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return False
    ipv6 = str(core.get_config_variable("ec2_metadata_service_endpoint_mode") or "").lower() == "ipv6" or core.get_config_variable("imds_use_ipv6")
    usual = "http://[fd00:ec2::254]" if ipv6 else "http://169.254.169.254"
    place = urlsplit(core.get_config_variable("ec2_metadata_service_endpoint") or usual)
    try:
        socket.create_connection((place.hostname or "", place.port or 80), _METADATA_DIAL).close()
    except (OSError, ValueError):
        return False
    return True


class Missing(Exception):
    """Something without which there is no client."""

    def __init__(self, what: Literal["region", "credentials"]) -> None:
        super().__init__(f"no {what}")
        self.what = what


def region_hint(profile: str | None) -> str:
    """How to name a region."""
    command = f"aws configure set region us-east-1{_profile_flag(profile)}"
    return f'Set region = "us-east-1" for the agent, run `{command}`, or set AWS_DEFAULT_REGION (boto3 does not read AWS_REGION).'


def credentials_hint(profile: str | None) -> str:
    """How to get credentials."""
    flag = _profile_flag(profile)
    return f"Run `aws sso login{flag}` or `aws configure{flag}`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK."


def _profile_flag(profile: str | None) -> str:
    return f" --profile {profile}" if profile else ""


def _secrets(credentials: Any, token: str | None) -> Iterator[str]:
    if token:
        yield token
    if credentials is not None:
        frozen = credentials.get_frozen_credentials()
        yield from (secret for secret in (frozen.secret_key, frozen.token, frozen.access_key) if secret)
