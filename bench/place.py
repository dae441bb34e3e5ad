"""Places to measure whole turns in: scripted servers in processes of their own, and a home with one escalation agent."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.dispatch.desk import Shown
from orchestrator.providers import Answer, Question


@contextmanager
def served(serve: Callable[[Connection, int], None], replies: int) -> Iterator[str]:
    """A scripted server in a process of its own, so that it takes no time and no memory from ours; gives its address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, replies), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("stop")
        process.join()


@contextmanager
def front_with(table: Callable[[Path, str], str], url: str) -> Iterator[Front]:
    """A home and a workspace of their own, with an escalation agent on that server; `table` is its part of the configuration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "bench.toml"
        primary = '[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
        config.write_text(f'primary = "local"\nescalation = "strong"\n{primary}[agents.strong]\n{table(folder, url)}')
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ESCALERA_")} | {"ESCALERA_HOME": str(folder)}
        output = Output(interactive=False, color=False, plain=True)
        front = Front(environ=environ, cwd=folder, config_file=config, sets=(), flags={}, output=output)
        try:
            yield front
        finally:
            front.close()


def nobody(_question: Question) -> Answer:
    """Nobody is there to ask."""
    return Answer("cancel", by="nobody")


def unseen(_shown: Shown) -> None:
    """Nobody watches."""
