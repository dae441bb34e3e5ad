"""A package that `plugins new` writes passes the provider kit as it is; a bad name or a full folder is refused, and nothing is written."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.hookspecs import API_LEVEL
from orchestrator.plugins import PluginManager
from orchestrator.scaffold import Style, write_package
from orchestrator.testing.conformance import Conformance

from ..sites import Site


def write(name: str, style: Style, folder: Path) -> Path:
    return write_package(name, style, folder, version="0.1.0", api_level=API_LEVEL)[0]


@pytest.mark.parametrize("style", ["http", "subprocess"])
def test_it_passes_the_kit_as_it_is_written(style: Style, site: Site) -> None:
    name = f"grey-{style}"
    write(name, style, site.folder.parent)
    module = f"escalera_grey_{style}"
    (site.folder.parent / f"escalera-grey-{style}" / module).rename(site.folder / module)

    report = Conformance(vars(import_module(f"{module}.harness"))[f"Grey{style.capitalize()}Harness"]).report()

    assert [result for result in report.results if result.status == "failed"] == []
    assert report.ok
    assert report.document()["counts"]["passed"] >= 47


def test_its_metadata_names_what_is_there(site: Site) -> None:
    folder = write("grey-owl", "http", site.folder.parent)

    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    (folder / "escalera_grey_owl").rename(site.folder / "escalera_grey_owl")
    groups = project["entry-points"]
    manager = PluginManager.load([EntryPoint(name, value, "escalera") for name, value in groups["escalera"].items()])

    assert project["name"] == "escalera-grey-owl"
    assert groups["escalera"] == {"grey-owl": "escalera_grey_owl"}
    assert groups["escalera.provider_tests"] == {"grey-owl": "escalera_grey_owl.harness:GreyOwlHarness"}
    assert (list(manager.kinds()), [report.problem for report in manager.reports()]) == (["grey-owl"], [None])
    assert import_module("escalera_grey_owl.harness").GreyOwlHarness.kind == "escalera_grey_owl:grey-owl"


@pytest.mark.parametrize("name", ["", "Wren", "1wren", "wren-", "a--b", "a b", "../wren", "wren\n", "é", "w" * 41, "-wren", "wren_", "$name"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no name for a provider kind"):
        write(name, "http", tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_anything_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "escalera-wren").mkdir()
    (tmp_path / "escalera-wren" / ".mine").write_text("mine")

    with pytest.raises(UsageError, match="no empty folder; nothing was written"):
        write("wren", "http", tmp_path)

    assert [path.name for path in (tmp_path / "escalera-wren").iterdir()] == [".mine"]


def test_a_link_or_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "escalera-wren").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "escalera-jay").write_text("mine")

    for name in ("wren", "jay"):
        with pytest.raises(UsageError, match="nothing was written"):
            write(name, "http", tmp_path)

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_nothing_can_be_written_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")

    with pytest.raises(UsageError, match=r"escalera-wren cannot be written: Not a directory"):
        write("wren", "http", tmp_path / "file")

    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "escalera-wren").mkdir()

    assert (write("wren", "subprocess", tmp_path) / "escalera_wren" / "provider.py").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["escalera-wren"]
    assert not any(name.startswith("escalera_wren") for name in sys.modules)
