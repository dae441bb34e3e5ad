"""Puts the manual pages into the wheel: they are made from the commands of the very source that is built."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Runs for wheels; an editable install has no manual pages."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them to a folder of their own, and name them as data of the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from orchestrator import __version__
            from orchestrator.cli.app import COMMANDS, root
            from orchestrator.cli.man import man_pages
            from orchestrator.cli.tree import tree_of
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory()
        for name, text in man_pages(tree_of(root, "escalera", summaries=COMMANDS), version=__version__).items():
            page = Path(self._folder.name, name)
            page.write_text(text, "utf-8")
            build_data["shared_data"][str(page)] = f"share/man/man1/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is written: the folder goes."""
        if version != "editable":
            self._folder.cleanup()
