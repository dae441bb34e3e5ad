"""Plugins that the program installs, misses after an upgrade, brings back and removes, in an environment of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell

OURS = Path(__file__).parents[2] / ".tools" / "bin"
UV = shutil.which("uv", path=f"{os.environ['PATH']}:{OURS}")
FILES = {
    "escalera_tiny.py": "",
    "escalera_tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: escalera-tiny\nVersion: 1.0\n",
    "escalera_tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "escalera_tiny-1.0.dist-info/RECORD": "escalera_tiny.py,,\nescalera_tiny-1.0.dist-info/METADATA,,\nescalera_tiny-1.0.dist-info/RECORD,,\n",
}
POINT = {"escalera_tiny-1.0.dist-info/entry_points.txt": "[escalera]\ntiny = escalera_tiny\n"}


def wheel(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "escalera_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


class Elsewhere:
    """The program in an environment that holds nothing but a way to ours."""

    def __init__(self, folder: Path, shell: Shell) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
        self.python = folder / "env" / "bin" / "python"
        (self.site,) = (folder / "env" / "lib").glob("python*/site-packages")
        (self.site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\nimport site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        self.shell = shell
        self.environ = {**shell.environ, "PATH": f"{os.environ['PATH']}:{OURS}", "UV_OFFLINE": "1", "UV_CACHE_DIR": str(folder / "cache")}

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [self.python, "-m", "orchestrator", *arguments], cwd=self.shell.cwd, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def listed(self) -> tuple[list[str], list[dict[str, Any]]]:
        document = json.loads(self.run("plugins", "list", "--json").partition("\n}\n")[0] + "\n}")
        return [plugin["name"] for plugin in document["plugins"]], document["missing"]

    def wanted(self) -> Any:
        file = self.shell.home / "config" / "config.toml"
        return tomllib.loads(file.read_text()).get("plugins", {}).get("wanted")


@pytest.fixture
def elsewhere(tmp_path: Path, shell: Shell) -> Elsewhere:
    return Elsewhere(tmp_path, shell)


@pytest.mark.long
@pytest.mark.skipif(UV is None, reason="uv is not here")
def test_a_plugin_is_installed_missed_after_an_upgrade_brought_back_and_removed(elsewhere: Elsewhere, tmp_path: Path) -> None:
    requirement = f"escalera-tiny @ {wheel(tmp_path, FILES | POINT).as_uri()}"

    said = elsewhere.run("plugins", "install", str(tmp_path / "escalera_tiny-1.0-py3-none-any.whl"))
    assert f"pip install --python {elsewhere.python}" in said
    assert elsewhere.wanted() == [requirement]
    names, missing = elsewhere.listed()
    assert ("tiny" in names, missing) == (True, [])
    assert "every wanted plugin is installed" in elsewhere.run("plugins", "sync")

    for left in elsewhere.site.glob("escalera_tiny*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    names, missing = elsewhere.listed()
    assert "tiny" not in names
    assert missing == [{"requirement": requirement, "distribution": "escalera-tiny", "problem": "is not installed"}]
    assert "escalera-tiny  wanted, missing: is not installed" in elsewhere.run("plugins", "list")
    assert requirement in elsewhere.run("plugins", "sync", "--dry-run")
    assert "tiny" not in elsewhere.listed()[0]

    elsewhere.run("plugins", "sync")
    assert "tiny" in elsewhere.listed()[0]
    elsewhere.run("plugins", "remove", "Escalera_Tiny")
    names, missing = elsewhere.listed()
    assert ("tiny" in names, missing, elsewhere.wanted()) == (False, [], None)
    assert "there is no plugin escalera-tiny" in elsewhere.run("plugins", "remove", "escalera-tiny", code=3)


@pytest.mark.skipif(UV is None, reason="uv is not here")
def test_what_fails_or_is_no_plugin_is_not_wanted(elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.shell.configure("need_expiry_hours = 3\n")

    assert "failed with exit code" in elsewhere.run("plugins", "install", "escalera-that-nobody-has", code=2)
    path = wheel(tmp_path, FILES)
    said = elsewhere.run("plugins", "install", str(path), code=2)
    assert "is no plugin of escalera" in said
    assert f"pip uninstall --python {elsewhere.python} escalera-tiny" in said
    assert "is no plugin of escalera" in elsewhere.run("plugins", "remove", "httpx", code=2)
    assert "is no plugin of escalera" in elsewhere.run("plugins", "remove", "escalera", code=2)
    assert elsewhere.wanted() is None


@pytest.mark.skipif(UV is None, reason="uv is not here")
def test_inside_a_project_that_wants_plugins_ones_own_list_is_kept_and_nothing_but_requirements_is_installed(elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.shell.configure('[plugins]\nwanted = ["escalera-own"]\n')
    (elsewhere.shell.cwd / "escalera.toml").write_text('[plugins]\nwanted = ["escalera-theirs", "--index-url=http://127.0.0.1:9"]\n')
    elsewhere.run("trust", "--yes")

    elsewhere.run("plugins", "install", str(wheel(tmp_path, FILES | POINT)))
    assert elsewhere.wanted() == ["escalera-own", f"escalera-tiny @ {(tmp_path / 'escalera_tiny-1.0-py3-none-any.whl').as_uri()}"]
    said = elsewhere.run("plugins", "sync", "--dry-run", code=1)
    assert f"pip install --python {elsewhere.python} escalera-theirs\n" in said
    assert "'--index-url=http://127.0.0.1:9' is no requirement" in said
    elsewhere.run("plugins", "remove", "escalera-tiny")
    assert elsewhere.wanted() == ["escalera-own"]
