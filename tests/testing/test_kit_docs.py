"""What the page on the provider kit shows works as it stands there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from orchestrator.testing import KIT_VERSION

PAGE = (Path(__file__).parents[2] / "docs" / "provider-kit.md").read_text("utf-8")


def test_its_modules_and_what_they_hold_are_there() -> None:
    rows = re.findall(r"^\| `(orchestrator\.testing\.\w+)` \| (.*) \|$", PAGE, re.MULTILINE)

    assert len(rows) == 8
    for module, held in rows:
        loaded = import_module(module)
        assert all(hasattr(loaded, name) for name in re.findall(r"`([A-Z]\w+|conformance|counted_ids)\b", held)), module


def test_its_harness_is_one() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}

    exec(code, names)  # noqa: S102 - the page is ours

    assert names["MyHarness"].kind == "my_plugin:mine"  # type: ignore[attr-defined]
    assert callable(names["test_conformance"])


def test_it_names_the_version_of_the_kit() -> None:
    assert f"`orchestrator.testing.KIT_VERSION` ({KIT_VERSION})" in PAGE
