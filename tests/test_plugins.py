from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import PluginError
from orchestrator.plugins import PluginManager, PluginReport, installed_entry_points

from .sites import KIND, Site, gives


def by_name(manager: PluginManager) -> dict[str, PluginReport]:
    return {report.name: report for report in manager.reports()}


def test_a_good_plugin_registers_its_kinds(site: Site) -> None:
    site.install("Good.Plugin", gives("one", "two"), version="2.1", module="good_plugin")

    manager = site.load()

    assert manager.reports() == (PluginReport("good_plugin", "Good.Plugin", "2.1", loaded=True, kinds=("one", "two"), hooks=("escalera_provider_kinds",)),)
    assert set(manager.kinds()) == {"one", "two"}
    assert manager.kind("two").name == "two"
    assert len(manager.implementations("escalera_provider_kinds")) == 1


@pytest.mark.trial("T85")
def test_t85_plugins_that_cannot_be_imported_are_reported_and_the_others_work(site: Site) -> None:
    site.install("bad", "import module_that_is_not_installed\n")
    site.install("syn", "def broken(:\n")
    site.install("ghost", None, entry="ghost = folder_gone.plugin")
    site.install("quits", "raise SystemExit('bye')\n")
    site.install("attr", "x = 1\n", entry="attr = attr:gone")
    site.install("none", "x = None\n", entry="none = none:x")
    site.install("good", gives("good"))

    manager = site.load()

    reports = by_name(manager)
    assert [name for name, report in reports.items() if report.loaded] == ["good"]
    assert str(reports["bad"]) == "plugin bad (bad 1.0): needs the module module_that_is_not_installed, which is not installed"
    assert "SyntaxError" in str(reports["syn"])
    assert "its module folder_gone is not there; was the package removed?" in str(reports["ghost"])
    assert "tried to end the program" in str(reports["quits"])
    assert "AttributeError" in str(reports["attr"])
    assert "none:x is None" in str(reports["none"])
    assert all("\n" not in str(report) for report in reports.values())


PANIC = "class Panic(BaseException):\n    def __str__(self):\n        raise self\n"


@pytest.mark.parametrize("body", ["raise Panic\n", f"{KIND}\n@hookimpl\ndef escalera_provider_kinds():\n    raise Panic\n"])
def test_a_plugin_that_raises_what_nothing_catches_is_reported(site: Site, body: str) -> None:
    site.install("panics", PANIC + body)
    site.install("good", gives("good"))

    manager = site.load()

    assert set(manager.kinds()) == {"good"}
    assert "Panic" in str(by_name(manager)["panics"].problem)


@pytest.mark.parametrize("body", ["raise KeyboardInterrupt\n", f"{KIND}\n@hookimpl\ndef escalera_provider_kinds():\n    raise KeyboardInterrupt\n"])
def test_what_the_user_presses_ends_the_loading(site: Site, body: str) -> None:
    site.install("slow", body)

    with pytest.raises(KeyboardInterrupt):
        site.load()


@pytest.mark.trial("T85")
def test_t85_strict_raises_with_plugin_distribution_and_cause(site: Site) -> None:
    site.install("bad", "import module_that_is_not_installed\n", version="3")

    with pytest.raises(PluginError, match=r"plugin bad \(bad 3\): needs the module module_that_is_not_installed"):
        site.load(strict=True)


def test_a_plugin_without_metadata_is_still_reported(site: Site) -> None:
    site.install("half-removed", "raise RuntimeError('x')\n")
    (info,) = site.folder.glob("*.dist-info")
    (info / "METADATA").unlink()

    (report,) = site.load().reports()

    assert (report.distribution, report.version, report.problem) == ("unknown", "unknown", "RuntimeError: x")


@pytest.mark.trial("T86")
@pytest.mark.parametrize("body", ["    yield kind('half-a')\n    raise RuntimeError('boom')\n", "    return [kind('half-a'), 'half-b']\n", "    return 3\n"])
def test_t86_a_registration_that_fails_half_way_leaves_nothing(site: Site, body: str) -> None:
    site.install("half", f"{KIND}\n@hookimpl\ndef escalera_provider_kinds():\n{body}")
    site.install("good", gives("good"))

    manager = site.load()

    assert set(manager.kinds()) == {"good"}
    assert not by_name(manager)["half"].loaded
    assert "escalera_provider_kinds failed" in str(by_name(manager)["half"])
    assert len(manager.implementations("escalera_provider_kinds")) == 1


@pytest.mark.trial("T87")
def test_t87_wrong_signatures_are_refused_alone_and_unknown_hooks_are_named(site: Site) -> None:
    site.install("old-sig", f"{KIND}\n@hookimpl\ndef escalera_provider_kinds(path):\n    return [kind('old')]\n")
    site.install("typo", gives("typo") + "@hookimpl\ndef escalera_provider_kind():\n    return []\n")
    site.install("newer", gives("newer") + "@hookimpl(optionalhook=True)\ndef escalera_of_tomorrow():\n    return []\n")
    site.install("good", gives("good"))

    manager = site.load()

    reports = by_name(manager)
    assert set(manager.kinds()) == {"typo", "newer", "good"}
    assert not reports["old_sig"].loaded
    assert "escalera_provider_kinds" in str(reports["old_sig"].problem)
    assert "path" in str(reports["old_sig"].problem)
    assert reports["typo"].loaded
    assert "unknown hook escalera_provider_kind, which is never called; did you mean `escalera_provider_kinds`?" in str(reports["typo"])
    assert reports["newer"].problem is None


@pytest.mark.trial("T88")
def test_t88_the_same_plugin_found_twice_is_registered_once(site: Site) -> None:
    site.install("twice", gives("twice"))
    site.install("twice-source", None, entry="other = twice", module="twice_source")

    manager = PluginManager.load([*site.entry_points(), *site.entry_points()])

    assert [report.problem for report in manager.reports()] == [None]
    assert len(manager.implementations("escalera_provider_kinds")) == 1


@pytest.mark.trial("T89")
@pytest.mark.parametrize("backwards", [False, True])
def test_t89_of_two_claims_to_a_name_the_first_by_distribution_has_it(site: Site, backwards: bool) -> None:
    site.install("dist-one", gives("fast"), version="1", entry="zzz = dist_one")
    site.install("dist_two", gives("fast", "slow"), version="2", entry="aaa = dist_two")

    manager = site.load(backwards=backwards)

    assert {report.name: report.kinds for report in manager.reports()} == {"zzz": ("fast",), "aaa": ("slow",)}
    assert "the kind fast is taken by dist-one 1" in str(by_name(manager)["aaa"])
    with pytest.raises(PluginError, match="taken"):
        site.load(backwards=backwards, strict=True)


@pytest.mark.trial("T92")
def test_t92_other_versions_of_the_host_are_refused_with_both_named(site: Site) -> None:
    site.install("needs-future", gives("future"), requires="escalera>=99")
    site.install("fits", gives("fits"), requires="escalera[x]>=0.0.1; python_version >= '3'")
    site.install("elsewhere", gives("elsewhere"), requires="escalera>=99; python_version < '3'")
    site.install("neighbour", gives("neighbour"), requires="escalera-openrouter>=99")
    site.install("attr-gone", "from orchestrator.providers import removed_name\n")
    site.install("api-level", gives("api") + "ESCALERA_API_LEVEL = 99\n")

    manager = site.load()

    reports = by_name(manager)
    assert set(manager.kinds()) == {"fits", "elsewhere", "neighbour"}
    assert "wants escalera >=99, and this is escalera 0." in str(reports["needs_future"])
    assert "removed_name" in str(reports["attr_gone"])
    assert "was made for plugin API level 99, and this is level 1: upgrade escalera, or remove the plugin" in str(reports["api_level"])


@pytest.mark.parametrize("blocked", ["good", "Good.One"])
def test_blocked_plugins_are_not_imported_and_not_fatal(site: Site, blocked: str) -> None:
    site.install("good-one", "raise RuntimeError('imported')\n", entry="good = good_one")

    (report,) = site.load(blocked=[blocked], strict=True).reports()

    assert (report.loaded, report.problem) == (False, "blocked by the setting plugins.blocked")


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "x" * 65, "a\x1b"])
def test_kinds_need_plain_names(site: Site, name: str) -> None:
    site.install("odd", gives(name))

    assert "is no name for a kind" in str(site.load().reports()[0].problem)


def test_options_must_be_a_model(site: Site) -> None:
    site.install("odd", f"{KIND}\n@hookimpl\ndef escalera_provider_kinds():\n    return [ProviderKind('x', dict, print)]\n")

    assert "the options of x are no pydantic model" in str(site.load().reports()[0].problem)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ProviderKind('x', Options, None)", "the factory of x cannot be called"),
        ("ProviderKind('x', Options, print, None)", "the summary of x is no text"),
        ("ProviderKind('x', Options, print, environment=None)", "the environment of x is no tuple of names"),
        ("ProviderKind('x', Options, print, environment='X_KEY')", "the environment of x is no tuple of names"),
        ("ProviderKind('x', Later, print)", "name 'Missing' is not defined"),
    ],
)
def test_a_kind_that_could_not_be_used_is_refused(site: Site, kind: str, said: str) -> None:
    site.install("odd", f"{KIND}\nclass Later(BaseModel):\n    x: 'Missing'\n@hookimpl\ndef escalera_provider_kinds():\n    return [{kind}]\n")
    site.install("good", gives("good"))

    manager = site.load()

    assert set(manager.kinds()) == {"good"}
    assert said in str(by_name(manager)["odd"].problem)


@pytest.mark.parametrize(
    ("kind", "distribution"),
    [
        ("claude-cli", "escalera-claude-cli"),
        ("bedrock", "escalera-bedrock"),
        ("openrouter", "escalera-openrouter"),
        ("openai", "escalera-openrouter"),
        ("embedded", "escalera-embedded"),
    ],
)
def test_a_missing_kind_names_the_distribution_that_brings_it(site: Site, kind: str, distribution: str) -> None:
    with pytest.raises(PluginError, match=f"{kind!r} is not installed: {distribution} brings it") as caught:
        site.load().kind(kind)

    assert caught.value.hint == f"escalera plugins install {distribution}"


def test_a_kind_whose_plugin_failed_says_why(site: Site) -> None:
    site.install("escalera-bedrock", "import module_that_is_not_installed\n", module="broken_bedrock")

    with pytest.raises(PluginError, match="needs the module module_that_is_not_installed"):
        site.load().kind("bedrock")


def test_an_unknown_kind_names_the_nearest(site: Site) -> None:
    with pytest.raises(PluginError, match="did you mean `openrouter`"):
        site.load().kind("openruter")


def test_plugins_of_this_environment_are_found() -> None:
    assert {"bedrock", "claude_cli", "openrouter", "embedded"} <= {entry.name for entry in installed_entry_points()}


def test_a_distribution_whose_entry_points_cannot_be_read_ends_nothing(site: Site) -> None:
    site.install("good", gives("good"))
    site.install("broken", None, entry="no line of ours")
    site.install("neighbour", None)
    (neighbour,) = site.folder.glob("neighbour*.dist-info")
    (neighbour / "entry_points.txt").write_text("[console_scripts]\nno line of anybody's\n")

    manager = PluginManager.load(installed_entry_points(importlib.metadata.distributions(path=[str(site.folder)])))

    reports = {report.distribution: report for report in manager.reports()}
    assert set(manager.kinds()) == {"good"}
    assert set(reports) == {"good", "broken"}
    assert "its entry_points.txt cannot be read" in str(reports["broken"])


def test_of_two_distributions_with_one_name_the_first_on_the_path_counts(site: Site, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Site(tmp_path / "other")
    site.install("Twice.Plugin", gives("first"), module="twice_first")
    other.install("twice-plugin", gives("second"), module="twice_second")

    entries = installed_entry_points(importlib.metadata.distributions(path=[str(site.folder), str(other.folder)]))

    assert [entry.name for entry in entries] == ["twice_first"]


def test_building_the_manager_loads_no_vendor_module() -> None:
    code = (
        "import json, sys, orchestrator.plugins; print(json.dumps([m for m in ('httpx', 'boto3', 'pydantic', 'packaging', 'xllamacpp') if m in sys.modules]))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("value", ["", "no module", ":x", "a-b"])
def test_an_entry_point_that_is_none_says_so(site: Site, value: str) -> None:
    site.install("odd", "x = 1", entry=f"odd = {value}")

    (report,) = site.load().reports()

    assert f"its entry point {value!r} is none; expected module or module:object" in str(report.problem)
