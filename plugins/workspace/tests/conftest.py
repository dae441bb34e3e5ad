"""A workspace, and tools at work in it for a user who says what a test wants."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from escalera_workspace import escalera_tools

from orchestrator.providers import Answer, Cancel
from orchestrator.tools import Act, ToolContext, ToolFailed

TOOLS = {tool.schema.name: tool for tool in escalera_tools() or ()}


@dataclass
class User:
    """Says yes or no to each act that asks, and keeps what was shown."""

    says_yes: bool = True
    meanwhile: Callable[[], object] = lambda: None
    """What happens in the workspace while a question stands, or would."""
    forbids: Callable[[Act], bool] = lambda act: False
    acts: list[Act] = field(default_factory=list)

    def __call__(self, act: Act) -> None:
        self.meanwhile()
        if self.forbids(act):
            raise ToolFailed("forbidden")
        if act.asks:
            self.acts.append(act)
            if not self.says_yes:
                raise ToolFailed("the user said no")

    def stands(self, act: Act) -> bool:
        return not act.asks and not self.forbids(act)


@dataclass
class Work:
    """The workspace with the user who watches over it; beside it lies what is none of a tool's business."""

    root: Path
    user: User = field(default_factory=User)
    context: ToolContext = field(init=False)

    def __post_init__(self) -> None:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.outside)}
        self.context = ToolContext(str(self.root), "s1", "local", lambda _: Answer("cancel"), Cancel(), permit=self.user, environ=environ)

    @property
    def outside(self) -> Path:
        return self.root.parent / "outside"

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def call(self, name: str, **arguments: Any) -> str:
        return TOOLS[name].run(arguments, self.context)

    def refused(self, name: str, **arguments: Any) -> str:
        """Why a call came to nothing."""
        with pytest.raises(ToolFailed) as failed:
            self.call(name, **arguments)
        return str(failed.value)

    def seen(self, **changes: Any) -> None:
        """From now on the tools' context is another one."""
        self.context = replace(self.context, **changes)

    def with_path(self, *folders: Path | str, **more: str) -> None:
        environ: Mapping[str, str] = {**self.context.environ, "PATH": os.pathsep.join(map(str, folders)), **more}
        self.seen(environ=environ)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    for name in ("work", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("the secret\n")
    return Work(tmp_path / "work")
