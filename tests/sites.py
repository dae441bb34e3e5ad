"""A folder of installed plugins, for tests that load them as the program does."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint
from pathlib import Path

from orchestrator.hooks import Hooks
from orchestrator.plugins import PluginManager

KIND = """
from pydantic import BaseModel
from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind
class Options(BaseModel):
    pass
def kind(name):
    return ProviderKind(name, Options, lambda options, context: None)
"""


def gives(*names: str) -> str:
    return f"{KIND}\n@hookimpl\ndef escalera_provider_kinds():\n    return [kind(name) for name in {names!r}]\n"


class Site:
    """A folder of installed distributions, found by their metadata as in a real environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, code: str | None, *, version: str = "1.0", requires: str = "", entry: str = "", module: str = "") -> None:
        module = module or distribution.replace("-", "_").lower()
        info = self.folder / f"{module}_{len(list(self.folder.iterdir()))}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n" + (f"Requires-Dist: {requires}\n" if requires else "")
        )
        (info / "entry_points.txt").write_text(f"[escalera]\n{entry or f'{module} = {module}'}\n")
        if code is not None:
            (self.folder / f"{module}.py").write_text(code)

    def entry_points(self) -> list[EntryPoint]:
        return [entry for dist in importlib.metadata.distributions(path=[str(self.folder)]) for entry in dist.entry_points]

    def load(self, *, backwards: bool = False, **more: object) -> PluginManager:
        entries = sorted(self.entry_points(), key=lambda entry: entry.name, reverse=backwards)
        return PluginManager.load(entries, **more)  # type: ignore[arg-type]

    def hooks(self, *, strict: bool = False) -> Hooks:
        """The hooks of everything that is installed."""
        return Hooks(self.load().implementations, strict=strict)
