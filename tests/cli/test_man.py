"""Manual pages: complete, and nothing in them but text."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from orchestrator.cli.app import COMMANDS, root
from orchestrator.cli.man import man_pages
from orchestrator.cli.tree import Option, Place, Values, tree_of

TREE = tree_of(root, "escalera", summaries=COMMANDS)
PAGES = man_pages(TREE, version="1.0")


def test_there_is_a_page_for_the_program_and_for_each_command() -> None:
    assert set(PAGES) == {"escalera.1", *(f"escalera-{name}.1" for name in COMMANDS)}


def test_every_option_stands_in_the_page_of_its_command() -> None:
    missing = [
        (place.path, name)
        for place in TREE.all()
        for option in place.options
        for name in option.names
        if name.replace("-", "\\-") not in PAGES["escalera.1" if not place.path else f"escalera-{place.path[0]}.1"]
    ]
    assert missing == []


def test_a_text_that_looks_like_roff_is_only_text() -> None:
    hostile = ".so /etc/passwd"
    place = Place(("x",), hostile, f"{hostile}\n\n'br\n\n\\*[x] – é", hostile, (Option(("--x",), hostile, "", Values()),), (), ())

    page = man_pages(Place((), "", "", "", (), (), (place,)), version="1")["escalera-x.1"]

    assert re.findall(r"^[.'](?!TH|SH|TP|PP|br$)", page, re.MULTILINE) == []
    assert "\\e*[x] \\[u2013] \\[u00E9]" in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_formatter_has_nothing_to_say_about_them() -> None:
    for page in PAGES.values():
        result = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=page, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")
