"""Region and credentials as AWS tools find them; what is missing is said at once, with the command that helps."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orchestrator.errors import AuthFailed
from orchestrator.testing.bedrock_server import BedrockServer, fail, say

from .conftest import CERTIFICATE, REQUEST, bedrock, run, run_with_retries, tls

EXPIRED = fail(403, "ExpiredTokenException", "The security token included in the request is expired")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials in the environment."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")


def configure(home: Path, text: str) -> None:
    (home / ".aws").mkdir(exist_ok=True)
    (home / ".aws" / "config").write_text(text, encoding="utf-8")


def credentials_program(home: Path, *, key: str = "AKIDPROCESS") -> Path:
    """A `credential_process` that counts how often it ran."""
    runs = home / "runs"
    document = {"Version": 1, "AccessKeyId": key, "SecretAccessKey": "process-secret", "Expiration": "2099-01-01T00:00:00Z"}
    (home / "document").write_text(json.dumps(document), encoding="utf-8")
    configure(home, f"[profile work]\nregion = eu-west-3\ncredential_process = sh -c 'echo run >> {runs}; cat {home}/document'\n")
    return runs


def signed_with(turn_server: BedrockServer) -> str:
    return turn_server.requests[-1].headers["authorization"]


def test_no_credentials_fail_at_once_with_the_command_that_helps(bare: None) -> None:
    with BedrockServer() as server:
        turn = run(bedrock(server.url))
        assert server.requests == []
    assert isinstance(turn.error, AuthFailed)
    assert "aws configure" in turn.error.hint


def test_a_metadata_service_that_does_not_answer_is_not_waited_for(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    run(bedrock("http://127.0.0.1:1"))  # boto3 is loaded by now, which no test shall measure
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        turn = run(bedrock("http://127.0.0.1:1"))
    assert isinstance(turn.error, AuthFailed)
    assert time.monotonic() - started < 1


class Metadata(BaseHTTPRequestHandler):
    """What a cloud machine's metadata service says about the role of the machine."""

    def do_PUT(self) -> None:
        self._say("a-token")

    def do_GET(self) -> None:
        role = {"Code": "Success", "AccessKeyId": "AKIDMACHINE", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}
        self._say("the-role" if self.path.endswith("/") else json.dumps(role))

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def _say(self, text: str) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def test_the_role_of_a_cloud_machine_is_found(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as metadata, BedrockServer(say("ok")) as server:
        threading.Thread(target=metadata.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{metadata.server_address[1]}")
        turn = run(bedrock(server.url))
        metadata.shutdown()
        assert turn.text == "ok"
        assert "AKIDMACHINE/" in signed_with(server)


def test_no_region_fails_at_once_with_the_command_that_helps() -> None:
    turn = run(bedrock("http://127.0.0.1:1", region=None, profile=None))
    assert turn.error.type == "InvalidRequest"
    assert "aws configure set region" in turn.error.hint


def test_region_and_endpoint_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with BedrockServer(say("ok")) as server:
        monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url)
        assert run(bedrock(None, region=None)).text == "ok"
        assert "/ap-south-1/bedrock/" in signed_with(server)


def test_a_profile_brings_region_and_credentials_of_its_process(aws: Path, bare: None) -> None:
    credentials_program(aws)
    with BedrockServer(say("ok")) as server:
        assert run(bedrock(server.url, region=None, profile="work")).text == "ok"
        assert "AKIDPROCESS/" in signed_with(server)
        assert "/eu-west-3/bedrock/" in signed_with(server)


def test_a_profile_goes_before_keys_in_the_environment(aws: Path) -> None:
    configure(aws, "[profile work]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = s\n")
    with BedrockServer(say("ok")) as server:
        run(bedrock(server.url, profile="work"))
        assert "AKIDPROFILE/" in signed_with(server)


def test_a_profile_that_is_not_there_is_named(aws: Path) -> None:
    turn = run(bedrock("http://127.0.0.1:1", profile="nope"))
    assert isinstance(turn.error, AuthFailed)
    assert "nope" in turn.error.message
    assert "--profile nope" in turn.error.hint


def test_a_credential_process_that_fails_is_told(aws: Path, bare: None) -> None:
    configure(aws, "[profile work]\ncredential_process = sh -c 'echo please log in >&2; exit 3'\n")
    turn = run(bedrock("http://127.0.0.1:1", profile="work"))
    assert isinstance(turn.error, AuthFailed)
    assert "please log in" in turn.error.message


def test_an_api_key_of_bedrock_is_enough(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-0000")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(CERTIFICATE))
    with BedrockServer(say("ok"), fail(403, "AccessDeniedException", "bedrock-api-key-0000 may not"), tls=tls()) as server:
        provider = bedrock(server.url)
        assert run(provider).text == "ok"
        assert server.requests[0].headers["authorization"] == "Bearer bedrock-api-key-0000"
        assert "bedrock-api-key" not in run(provider).error.message


def test_an_api_key_is_not_sent_in_the_clear(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-0000")
    with BedrockServer(say("never")) as server:
        turn = run(bedrock(server.url))
        assert (turn.error.type, server.requests) == ("InvalidRequest", [])
    assert "HTTPS" in turn.error.message


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    with BedrockServer(say("never"), tls=tls()) as server:
        turn = run(bedrock(server.url))
        assert server.requests == []
    assert turn.error.type == "Unavailable"
    assert "AWS_CA_BUNDLE" in turn.error.hint


def test_expired_credentials_are_looked_for_anew_once(aws: Path, bare: None) -> None:
    runs = credentials_program(aws)
    with BedrockServer(EXPIRED, say("fine")) as server:
        turn, waits = run_with_retries(bedrock(server.url, profile="work"))
        assert (turn.text, waits, len(server.requests)) == ("fine", [0.0], 2)
    assert runs.read_text().split() == ["run", "run"]


def test_credentials_that_stay_expired_fail_after_one_refresh_and_may_be_mended_meanwhile(aws: Path, bare: None) -> None:
    credentials_program(aws)
    with BedrockServer(EXPIRED, EXPIRED, say("fine")) as server:
        provider = bedrock(server.url, profile="work")
        turn, _ = run_with_retries(provider)
        assert isinstance(turn.error, AuthFailed)
        assert (turn.error.repaired, len(server.requests)) == (False, 2)
        assert "aws sso login --profile work" in turn.error.hint
        credentials_program(aws, key="AKIDNEW")
        assert run(provider).text == "fine"
        assert "AKIDNEW/" in signed_with(server)


def test_retries_of_the_sdk_stay_off_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    with BedrockServer(fail(503, "ServiceUnavailableException", "later"), say("never")) as server:
        assert run(bedrock(server.url)).error.type == "Unavailable"
        assert len(server.requests) == 1


def test_one_client_serves_all_calls_of_an_agent() -> None:
    with BedrockServer(say("one"), say("two")) as server:
        provider = bedrock(server.url)
        run(provider)
        client = provider._connection.client
        run(provider)
        assert provider._connection.client is client


# -- check ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (fail(400, "ValidationException", "A conversation must start with a user message."), "works"),
        (say("hello"), "works"),
        (fail(403, "AccessDeniedException", "You don't have access to the model with the specified model ID."), "refused"),
        (fail(403, "UnrecognizedClientException", "The security token included in the request is invalid."), "refused"),
        (fail(400, "ValidationException", "The provided model identifier is invalid."), "unknown_model"),
        (fail(404, "ResourceNotFoundException", "Could not resolve the foundation model"), "unknown_model"),
        (fail(429, "ThrottlingException", "Too many requests"), "quota"),
        (fail(500, "InternalServerException", "oops"), "error"),
    ],
)
def test_check_tells_in_one_word(reply: object, status: str) -> None:
    with BedrockServer(reply) as server:  # type: ignore[arg-type]  # parametrised
        result = bedrock(server.url).check()
        assert (result.status, result.ok) == (status, status == "works")
        assert server.requests[0].body == {"messages": []}


def test_check_sends_nothing_without_credentials_or_region(bare: None) -> None:
    with BedrockServer() as server:
        assert bedrock(server.url, region=None).check().status == "no_region"
        assert bedrock(server.url).check().status == "no_credentials"
        assert bedrock(server.url, profile="nope").check().status == "no_credentials"
        assert server.requests == []


def test_check_of_an_endpoint_where_nobody_listens() -> None:
    result = bedrock("http://127.0.0.1:1").check()
    assert (result.ok, result.status) == (False, "unreachable")
    assert result.hint


def test_a_preview_needs_no_credentials(bare: None) -> None:
    assert bedrock(None, region=None).preview(REQUEST)["body"]["messages"]
