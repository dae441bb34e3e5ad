from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings.paths import Paths, paths_of
from orchestrator.settings.resolution import Settings, load_settings

Load = Callable[..., Settings]


class Place:
    """A user and a cloned project, in a folder of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {"HOME": str(root / "home"), "ESCALERA_HOME": str(root / "escalera")}
        self.workspace = root / "home" / "work" / "project"
        self.workspace.mkdir(parents=True)

    @property
    def paths(self) -> Paths:
        return paths_of(self.environ, platform="linux")

    @property
    def project_file(self) -> Path:
        return self.workspace / "escalera.toml"

    def user(self, text: str) -> Path:
        self.paths.config.mkdir(parents=True, exist_ok=True)
        self.paths.user_file.write_text(text, encoding="utf-8")
        return self.paths.user_file

    def project(self, text: str) -> Path:
        self.project_file.write_text(text, encoding="utf-8")
        return self.project_file

    def load(self, *, env: Mapping[str, str] | None = None, **more: Any) -> Settings:
        return load_settings(environ={**self.environ, **(env or {})}, workspace=more.pop("workspace", self.workspace), paths=self.paths, **more)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
