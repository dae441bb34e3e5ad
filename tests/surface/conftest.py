"""The command line from outside: every test runs the program as a process of its own (`starter.py` says how that is made quick)."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .starter import PROGRAM, Starter

Result = subprocess.CompletedProcess[str]


STUB = """\
#!{python}
import json, sys
def heard(): return json.loads(sys.stdin.buffer.readline())
def say(item): sys.stdout.write(json.dumps(item) + "\\n"); sys.stdout.flush()
heard()
say({{"type": "system", "subtype": "init", "session_id": sys.argv[sys.argv.index("--session-id") + 1], "model": "m"}})
say({{"type": "control_request", "request_id": "r1", "request": {{"subtype": "can_use_tool", "tool_name": {tool!r}, "input": {input!r}}}}})
reply = heard()["response"]["response"]
text = json.dumps(reply, sort_keys=True)
say({{"type": "assistant", "message": {{"id": "m1", "role": "assistant", "model": "m", "content": [{{"type": "text", "text": text}}]}}}})
say({{"type": "result", "subtype": "success", "is_error": False, "result": text, "num_turns": 1}})
"""


@dataclass(frozen=True)
class Shell:
    """A home and a working directory of its own, and a way to run commands there."""

    home: Path
    cwd: Path
    more: Mapping[str, str] = field(default_factory=dict)
    """Variables that its commands see besides."""
    starter: Starter | None = None
    """Without it the program is started from nothing."""

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ESCALERA_", "AWS_")) and name != "PYTHONPATH"}
        return kept | {"ESCALERA_HOME": str(self.home), "PYTHONIOENCODING": "utf-8"} | self.more

    def run(self, *arguments: str, stdin: str | None = None, **environ: str) -> Result:
        if self.starter is None or any(name.startswith(("PYTHON", "LANG", "LC_")) for name in environ):
            return self.start_and_wait(*arguments, stdin=stdin, **environ)
        done = self.starter.run([PROGRAM, *arguments], self.cwd, self.environ | environ, (stdin or "").encode(), timeout=60)
        return Result(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start_and_wait(self, *arguments: str, stdin: str | None = None, **environ: str) -> Result:
        """The installed program itself, from its first byte."""
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.cwd,
            env=self.environ | environ,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def raw(self, *arguments: str, stdin: bytes = b"", limit: Callable[[], None] | None = None) -> subprocess.CompletedProcess[bytes]:
        """With bytes on both sides; `limit` runs in the child before the program."""
        if self.starter and not limit:
            return self.starter.run([PROGRAM, *arguments], self.cwd, self.environ, stdin, timeout=60)
        return subprocess.run(
            [PROGRAM, *arguments], cwd=self.cwd, env=self.environ, input=stdin, capture_output=True, timeout=60, check=False, preexec_fn=limit
        )

    def each(self, *commands: Sequence[str]) -> list[Result]:
        """Many command lines, one after the other."""
        return [self.run(*command) for command in commands]

    def start(self, *arguments: str, environ: Mapping[str, str] | None = None, stdin: str = "") -> subprocess.Popen[str]:
        """With a few lines as its whole input."""
        ours, theirs = os.pipe()
        os.write(theirs, stdin.encode())
        os.close(theirs)
        try:
            return self._started(arguments, dict(environ or {}), ours)
        finally:
            os.close(ours)

    def _started(self, arguments: Sequence[str], environ: dict[str, str], stdin: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=self.cwd,
            env=self.environ | environ,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def json(self, *arguments: str, code: int = 0, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
        result = self.run(*arguments, **(environ or {}))
        assert result.returncode == code, result.stderr
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    def stored(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row that is the user's, as it lies in the database."""
        with closing(sqlite3.connect(f"file:{self.home}/data/escalera.db?mode=ro", uri=True)) as database:
            tables = ("sessions", "turns", "steps", "external_sessions", "percepts")
            return {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608  # names of ours

    def on_terminal(self, *arguments: str) -> tuple[int, str]:
        """On a terminal of its own: the exit code, and everything that the terminal got."""
        assert self.starter is not None
        ours, theirs = pty.openpty()
        try:
            running = self.starter.begin([PROGRAM, *arguments], self.cwd, self.environ | {"TERM": "xterm-256color"}, (theirs, theirs, theirs))
        finally:
            os.close(theirs)
        got = b""
        try:
            while block := os.read(ours, 65536):
                got += block
        except OSError:  # how Linux says that the other side has gone
            pass
        finally:
            os.close(ours)
        return running.wait(30), got.decode("utf-8")

    def elsewhere(self, home: Path, cwd: Path) -> Shell:
        """Another home, or another working directory."""
        return replace(self, home=home, cwd=cwd)

    def configure(self, text: str) -> None:
        (self.home / "config").mkdir(parents=True, exist_ok=True)
        (self.home / "config" / "config.toml").write_text(text, encoding="utf-8")


@contextmanager
def answering(body: bytes, status: int = 200, content_type: str = "application/json") -> Iterator[str]:
    """A server on loopback that answers every GET alike; gives its address, without a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    with Starter() as running:
        yield running


@pytest.fixture
def shell(tmp_path: Path, starter: Starter) -> Shell:
    (tmp_path / "work").mkdir()
    return Shell(tmp_path / "home", tmp_path / "work", starter=starter)


@pytest.fixture
def agents(shell: Shell) -> Callable[[str], None]:
    """Configure `local` and `strong` as OpenAI-compatible agents at that base URL."""

    def configure(base_url: str, more: str = "") -> None:
        tables = "".join(f'[agents.{name}]\nprovider = "openai"\nbase_url = "{base_url}"\nmodel = "{name}-model"\n' for name in ("local", "strong"))
        shell.configure(f'primary = "local"\nescalation = "strong"\n{more}\n{tables}')

    return configure


@pytest.fixture
def asks(shell: Shell, tmp_path: Path):
    """Configures an escalation agent that asks for a tool and answers with the reply it got."""

    def configure(tool: str, tool_input: dict[str, object]) -> None:
        stub = tmp_path / "claude"
        stub.write_text(STUB.format(python=sys.executable, tool=tool, input=tool_input))
        stub.chmod(0o755)
        primary = '[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\nmodel = "m"\n'
        shell.configure(f'primary = "local"\nescalation = "strong"\n{primary}[agents.strong]\nprovider = "claude-cli"\nbin = "{stub}"\n')

    return configure
