"""A chat without a screen, whose agents `local` and `strong` answer from a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.cli.talk.conversation import Conversation
from orchestrator.testing.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def front(tmp_path: Path, server: OpenAIServer) -> Iterator[Front]:
    (tmp_path / "config").mkdir()
    tables = "".join(f'[agents.{name}]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "fake"\n' for name in ("local", "strong"))
    (tmp_path / "config" / "config.toml").write_text(f'primary = "local"\nescalation = "strong"\n{tables}')
    output = Output(interactive=False, color=False, plain=True)
    made = Front(environ={"ESCALERA_HOME": str(tmp_path)}, cwd=tmp_path, config_file=None, sets=(), flags={}, output=output)
    yield made
    made.close()


@pytest.fixture
def talk(front: Front) -> Conversation:
    return Conversation(front, front.store(), None, first=True)
