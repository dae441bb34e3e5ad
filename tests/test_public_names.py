"""`__all__` is exact wherever it stands: every public name that the module defines, and none that it does not have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTING = [path for folder in ("orchestrator", "plugins") for path in sorted((ROOT / folder).rglob("*.py")) if "__all__" in path.read_text("utf-8")]


@pytest.mark.parametrize("path", LISTING, ids=lambda path: str(path.relative_to(ROOT)))
def test_all_is_exact(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    listed, defined, imported = set[str](), set[str](), set[str]()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = {target.id for target in (node.targets if isinstance(node, ast.Assign) else [node.target]) if isinstance(target, ast.Name)}
            if names == {"__all__"}:
                assert node.value is not None
                listed |= set(ast.literal_eval(node.value))
            defined |= names

    public = {name for name in defined if not name.startswith("_")}
    assert public <= listed, "defined and not listed"
    assert listed <= public | imported, "listed and not there"


def test_some_modules_list_their_names() -> None:
    assert len(LISTING) > 5
