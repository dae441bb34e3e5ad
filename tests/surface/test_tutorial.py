"""Every command of the tutorial for authors of providers, as it stands there: in a new environment, without a network."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-provider.md"
PORT = "8765"


def blocks() -> list[tuple[str, str]]:
    """Each fenced block: what stands behind its fence, and its text."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def script() -> str:
    """All commands, in the order of the page; files are written where the page shows them, and what is said to fail has to."""
    lines = ["set -eu"]
    for kind, text in blocks():
        language, _, about = kind.partition(" ")
        if "fails" in about:
            lines.append(f"if (\n{text}); then echo 'this should have failed' >&2; exit 99; fi")
        elif language == "sh":
            lines.append(text)
        elif about:
            file = about.removeprefix('title="').removesuffix('"')
            lines.append(f"cat >{file} <<'END OF FILE'\n{text}END OF FILE")
    return "\n".join(lines)


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """Where Python finds what is installed here, and `pip` finds that it need not ask for it; the program of an environment runs in that environment."""
    (tmp_path / "around").mkdir()
    (tmp_path / "around" / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({sysconfig.get_path('purelib')!r})\n")
    program = tmp_path / "around" / "escalera"
    program.write_text('#!/bin/sh\nexec python -m orchestrator "$@"\n')
    pytest_program = tmp_path / "around" / "pytest"
    pytest_program.write_text('#!/bin/sh\nexec python -m pytest "$@"\n')
    for file in (program, pytest_program):
        file.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ESCALERA_", "PIP_", "PYTHON", "PYTEST"))}
    pip = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # pip reads the second one the wrong way round
    here = {"PATH": f"{tmp_path / 'around'}:{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path / "around")}
    return {**kept, **pip, **here, "ESCALERA_HOME": str(tmp_path / "home")}


@pytest.mark.long
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path, environ: Mapping[str, str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    done = subprocess.run(
        ["bash", "-c", script().replace(PORT, port)], cwd=tmp_path, env=environ, capture_output=True, encoding="utf-8", timeout=300, check=False
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "WHO IS A CLEVER BIRD?" in done.stdout
    assert "WHO IS THE CLEVEREST?" in done.stdout
    assert "streaming.answer         FAILED" in done.stdout
    assert re.search(r"^parrot \(escalera-parrot 0\.1\.0\), kit \d+: 54 passed, 10 not claimed, 1 not shown$", done.stdout, re.MULTILINE)
    assert re.search(r"^crow \(escalera-crow 0\.1\.0\), kit \d+: 57 passed, 7 not claimed, 1 not shown$", done.stdout, re.MULTILINE)
    assert [path.name for path in (tmp_path / "escalera-parrot" / "dist").iterdir()] == ["escalera_parrot-0.1.0-py3-none-any.whl"]
