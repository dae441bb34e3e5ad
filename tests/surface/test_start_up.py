"""What a start costs, and what asking for help must not do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell
from .played import Played

VENDORS = ("httpx", "boto3", "xllamacpp", "jinja2", "pydantic", "prompt_toolkit", "rich")


def test_help_loads_no_vendor_module(shell: Shell) -> None:
    script = "import sys; from orchestrator.cli.app import run; run(['--help']); print([name for name in sys.argv[1:] if name in sys.modules], file=sys.stderr)"

    result = subprocess.run([sys.executable, "-c", script, *VENDORS], env=shell.environ, cwd=shell.cwd, capture_output=True, text=True, check=True)

    assert result.stderr.strip() == "[]"


def test_ask_on_a_terminal_loads_neither_the_chats_input_nor_its_colours(shell: Shell, tmp_path: Path) -> None:
    script = tmp_path / "ask.py"
    script.write_text(
        "import sys; from orchestrator.cli.app import run; code = run(['ask', 'hello'])\n"
        "print('loaded:', [name for name in ('prompt_toolkit', 'rich', 'pygments') if name in sys.modules], code)"
    )
    with OpenAIServer(reply("Hello.")) as server:
        shell.configure(f'primary = "local"\n[agents.local]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\n')
        with Played(shell, str(script), program=sys.executable) as played:
            played.until("loaded: [] 0")


def test_plan_without_a_store_writes_no_byte(shell: Shell) -> None:
    result = shell.run("plan", "--escalate", "what now?")

    assert result.returncode == 0, result.stderr
    assert "mode first" in result.stdout
    assert not shell.home.exists()


def test_plan_changes_no_file_of_the_store(shell: Shell) -> None:
    assert shell.run("need", "set", "open a bakery").returncode == 0
    before = _state(shell.home)

    result = shell.run("plan", "--escalate", "what now?")

    assert result.returncode == 0, result.stderr
    assert "open a bakery" in result.stdout
    assert _state(shell.home) == before


def _state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.read_bytes()) for path in files}
