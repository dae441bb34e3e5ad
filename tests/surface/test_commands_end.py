"""Programs that give a key or credentials end with the turn that wanted them, and so does what they have started."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Shell
from .processes import processes_with

HANGS = "touch {folder}/runs; sleep 3461 & sleep 3462"
AGENTS = {
    "api_key": 'provider = "openai"\nbase_url = "http://127.0.0.1:9"\nmodel = "m"\napi_key = {{ cmd = ["sh", "-c", "{hangs}"] }}\n',
    "token_cmd": 'provider = "openai"\nbase_url = "http://127.0.0.1:9"\nmodel = "m"\ntoken_cmd = ["sh", "-c", "{hangs}"]\n',
    "credential_process": 'provider = "bedrock"\nmodel = "m"\nregion = "us-east-1"\nprofile = "work"\nendpoint_url = "http://127.0.0.1:9"\n',
}


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """What is started in the background has SIGINT ignored, and so would the program here, before its turn begins."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", AGENTS)
def test_a_cancel_ends_the_program_and_what_it_started(shell: Shell, tmp_path: Path, kind: str) -> None:
    hangs = HANGS.format(folder=tmp_path)
    (tmp_path / "aws").write_text(f"[profile work]\ncredential_process = sh -c '{hangs}'\n")
    shell.configure(f'primary = "a"\n[agents.a]\n{AGENTS[kind].format(hangs=hangs)}')
    process = shell.start("ask", "--json", "hi", environ={"AWS_CONFIG_FILE": str(tmp_path / "aws"), "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"})
    deadline = time.monotonic() + 20
    while not (tmp_path / "runs").exists() and time.monotonic() < deadline:
        time.sleep(0.02)

    cancelled = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)

    assert process.returncode == 130
    assert time.monotonic() - cancelled < 3
    while processes_with("sleep 346", str(tmp_path)):  # what was killed is seen for a moment longer
        assert time.monotonic() - cancelled < 6
        time.sleep(0.02)
