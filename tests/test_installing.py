"""By which command a plugin comes to stand beside the program, for each way in which that was installed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from orchestrator import __version__
from orchestrator.errors import PluginError, UsageError
from orchestrator.installing import Installation, Way, adding, distribution_of, installation, missing, names, removing, requirement_of

RECEIPT = """
[tool]
requirements = [
    { name = "escalera", extras = ["mcp", "server"], specifier = ">=0.1" },
    { name = "escalera-acme", specifier = ">=2" },
    { name = "own", editable = "/src/own one" },
]
entrypoints = [{ name = "escalera", install-path = "/bin/escalera", from = "escalera" }]
"""
ROOT = Path(__file__).parents[1]


def place(way: Way, prefix: Path = Path("/env/escalera"), *, tool: str | None = None, has_pip: bool = True, managed: bool = False) -> Installation:
    return Installation(way, "/env/python", prefix, tool, has_pip, managed)


@pytest.fixture
def uv_tool(tmp_path: Path) -> Installation:
    (tmp_path / "uv-receipt.toml").write_text(RECEIPT)
    return place("uv tool", tmp_path, tool="/bin/uv")


@pytest.mark.parametrize(
    ("left", "is_venv", "way", "tool"),
    [
        ("uv-receipt.toml", True, "uv tool", "/bin/uv"),
        ("pipx_metadata.json", True, "pipx", "/bin/pipx"),
        ("pyvenv.cfg", True, "venv", "/bin/uv"),
        ("EXTERNALLY-MANAGED", False, "system", "/bin/uv"),
    ],
)
def test_the_way_is_told_by_what_its_tool_leaves(tmp_path: Path, left: str, is_venv: bool, way: str, tool: str) -> None:
    (tmp_path / left).touch()
    base = tmp_path / "base" if is_venv else tmp_path
    found = installation(prefix=tmp_path, base_prefix=base, standard_library=tmp_path, python="/p", has_pip=False, which=lambda name: f"/bin/{name}")
    assert (found.way, found.tool, found.managed) == (way, tool, left == "EXTERNALLY-MANAGED")


def test_uv_is_told_all_that_the_tool_was_installed_with_and_the_new_one(uv_tool: Installation) -> None:
    command = adding(uv_tool, ["escalera-acme>=3", "other"])
    main = ["/bin/uv", "tool", "install", "escalera[mcp,server]>=0.1"]
    assert (command.argv, command.why_not) == ([*main, "--with-editable", "/src/own one", "--with", "escalera-acme>=3", "--with", "other"], None)
    assert removing(uv_tool, ["Escalera_Acme"]).argv == [*main, "--with-editable", "/src/own one"]


def test_what_uv_did_not_install_beside_the_program_is_not_removed_by_it(uv_tool: Installation) -> None:
    with pytest.raises(PluginError, match="escalera-openrouter was not installed beside escalera"):
        removing(uv_tool, ["escalera-openrouter"])


@pytest.mark.parametrize(
    ("entry", "main"),
    [
        ('{ name = "escalera", path = "/w/escalera-1.whl" }', ["escalera @ file:///w/escalera-1.whl"]),
        ('{ name = "escalera", extras = ["mcp"], directory = "/w/src" }', ["escalera[mcp] @ file:///w/src"]),
        ('{ name = "escalera", editable = "/w/src" }', ["--editable", "/w/src"]),
        ('{ name = "escalera", url = "https://host/escalera.whl" }', ["escalera @ https://host/escalera.whl"]),
    ],
)
def test_the_program_stays_what_it_was_installed_from(tmp_path: Path, entry: str, main: list[str]) -> None:
    (tmp_path / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{entry}]\n")
    assert adding(place("uv tool", tmp_path, tool="uv"), ["x"]).argv == ["uv", "tool", "install", *main, "--with", "x"]


@pytest.mark.parametrize(
    "receipt",
    [
        "",
        "[tool",
        "[tool]\nrequirements = 3",
        "[tool]\nrequirements = []",
        '[tool]\nrequirements = [{ name = "escalera", git = "https://host/x?rev=1" }]',
    ],
)
def test_a_receipt_that_says_nothing_we_know_changes_nothing(tmp_path: Path, receipt: str) -> None:
    (tmp_path / "uv-receipt.toml").write_text(receipt)
    with pytest.raises(PluginError, match=r"uv-receipt\.toml"):
        adding(place("uv tool", tmp_path, tool="uv"), ["x"])


@pytest.mark.parametrize(
    ("where", "add", "remove"),
    [
        (place("pipx", tool="pipx"), "pipx inject escalera x", "pipx uninject escalera x"),
        (place("venv"), "/env/python -m pip install x", "/env/python -m pip uninstall --yes x"),
        (place("venv", tool="uv", has_pip=False), "uv pip install --python /env/python x", "uv pip uninstall --python /env/python x"),
        (place("system"), "/env/python -m pip install x", "/env/python -m pip uninstall --yes x"),
    ],
)
def test_each_other_way_has_its_command(where: Installation, add: str, remove: str) -> None:
    assert (str(adding(where, ["x"])), str(removing(where, ["x"]))) == (add, remove)
    assert adding(where, ["x"]).why_not is None


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (place("pipx"), "pipx is not on PATH"),
        (place("venv", has_pip=False), "no pip"),
        (place("system", managed=True), "the system's package manager"),
    ],
)
def test_what_cannot_be_run_is_for_the_user(where: Installation, why: str) -> None:
    assert why in str(adding(where, ["x"]).why_not)


def test_a_wheel_and_a_folder_are_kept_by_their_whole_path(tmp_path: Path) -> None:
    (tmp_path / "acme_x-1.0-py3-none-any.whl").touch()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").write_text('[project]\nname = "acme-y"\n')
    assert requirement_of("acme_x-1.0-py3-none-any.whl", tmp_path) == f"acme-x @ {tmp_path.as_uri()}/acme_x-1.0-py3-none-any.whl"
    assert requirement_of("./project", tmp_path) == f"acme-y @ {tmp_path.as_uri()}/project"
    assert requirement_of(" Acme [a] >= 2 ", tmp_path) == "Acme[a]>=2"
    assert distribution_of("Acme_X.y>=2") == "acme-x-y"


@pytest.mark.parametrize("text", ["", "--index-url=http://evil", "a b", "./nothing", "x.whl", "./empty"])
def test_what_names_no_plugin_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        requirement_of(text, tmp_path)


def test_what_is_wanted_is_compared_with_what_is_installed() -> None:
    wanted = ["a", "B_b>=2", "c>=1", "d @ file:///w/d.whl", "?"]
    assert [(one.distribution, one.problem) for one in missing(wanted, {"b-b": "1.0", "c": "1.5", "d": "1"})] == [
        ("a", "is not installed"),
        ("b-b", "is installed as 1.0"),
        ("?", "is no requirement"),
    ]


def test_the_program_and_its_own_plugins_are_of_one_version_and_want_each_others_range() -> None:
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    major, minor, _ = __version__.split(".")
    range_ = f">={major}.{minor},<{major}.{int(minor) + 1}"
    extras = {text for texts in core["optional-dependencies"].values() for text in texts if text.startswith("escalera")}
    plugins = [tomllib.loads(path.read_text())["project"] for path in ROOT.glob("plugins/*/pyproject.toml")]
    assert extras == {f"{plugin['name']}{range_}" for plugin in plugins}
    for plugin in plugins:
        assert plugin["version"] == __version__
        assert f"escalera{range_}" in plugin["dependencies"]


def test_what_is_no_requirement_is_not_to_be_had_and_no_password_is_shown() -> None:
    option, plugin = missing(["--index-url=https://u:canary@h", "acme @ https://u:canary@h/x.whl"], {})

    assert (option.can_be_had, plugin.can_be_had) == (False, True)
    assert "canary" not in f"{option.shown} {option.distribution} {plugin.shown}"
    assert (names("--index-url=x", "acme"), names("Acme>=2", "acme")) == (False, True)
    with pytest.raises(UsageError) as error:
        distribution_of("--index-url=https://u:canary@h")
    assert "canary" not in error.value.message
