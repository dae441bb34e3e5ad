"""Each hook called on its own: what plugins may give, what is refused, and the examples of the reference."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from orchestrator import hookspecs
from orchestrator.hooks import Hooks
from orchestrator.hookspecs import Sensing
from orchestrator.plugins import PluginManager
from orchestrator.session import Role, Session, TurnList

from .sites import Site

IMPORTS = """
from pathlib import Path
from orchestrator.hookspecs import Signal, hookimpl
from orchestrator.providers import ToolSchema
from orchestrator.tools import Tool
OBJECT = {"type": "object", "properties": {}}
def tool(name, description="what it does", parameters=OBJECT, run=print):
    return Tool(ToolSchema(name, description, parameters), run)
"""
SESSION = Session(id="s1", workspace="/work/a", nonce="nonce234")
HOOKS = {name: function for name, function in inspect.getmembers(hookspecs, inspect.isfunction) if hasattr(function, f"{hookspecs.PROJECT}_spec")}


def tools(site: Site) -> tuple[dict[str, str], list[str]]:
    """Which plugin has each tool, and what is wrong with the others."""
    given = site.hooks().tools(agent="local", role=Role.PRIMARY, workspace="/work/a")
    return {tool.schema.name: plugin.name for plugin, tool in given.values}, list(given.notices)


def test_of_two_tools_with_one_name_the_first_by_distribution_counts_and_the_other_is_told(site: Site) -> None:
    site.install("zebra", IMPORTS + "@hookimpl(tryfirst=True)\ndef escalera_tools():\n    return [tool('read'), tool('own')]\n")
    site.install("acme", IMPORTS + "@hookimpl(trylast=True)\ndef escalera_tools():\n    return (tool('read'),)\n")

    owners, notices = tools(site)

    assert owners == {"read": "acme", "own": "zebra"}
    assert notices == ["plugin zebra (zebra 1.0): its tool read is left out, since plugin acme (acme 1.0) has one of that name"]


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("[tool('9lives')]", "a tool whose name is not made of a letter"),
        ("[tool('a' * 65)]", "a tool whose name"),
        ("[tool('read.file')]", "a tool whose name"),
        ("[tool('lire_été')]", "a tool whose name"),
        ("[tool(3)]", "a tool whose name"),
        ("[tool('escalate')]", "a tool with the name escalate, which is the session's own"),
        ("[tool('x'), tool('x')]", "two tools with the name x"),
        ("[tool('x', ' ')]", "the tool x without a description"),
        ("[tool('x', parameters={'type': 'object', 'x': {1, 2}})]", "parameters that are no JSON"),
        ("[tool('x', parameters={'type': 'object', 'x': float('nan')})]", "parameters that are no JSON"),
        ("[tool('x', parameters={'type': 'string'})]", "no JSON Schema of an object"),
        ("[tool('x', parameters=None)]", "parameters that are no JSON"),
        ("[tool('x', run=None)]", "Tool with other fields than a Tool has"),
        ("[tool('good'), 'x']", "str with other fields than a Tool has"),
        ("{'x': 1}", "dict instead of a list of Tool"),
    ],
)
def test_tools_that_no_wire_format_or_nobody_could_use_are_refused_with_all_of_their_plugin(site: Site, expression: str, wrong: str) -> None:
    site.install("acme", IMPORTS + f"@hookimpl\ndef escalera_tools():\n    return {expression}\n")

    owners, (notice,) = tools(site)

    assert owners == {}
    assert notice.startswith("plugin acme (acme 1.0): escalera_tools gave ")
    assert wrong in notice


def test_texts_of_tools_are_made_well_formed(site: Site) -> None:
    site.install("acme", IMPORTS + "@hookimpl\ndef escalera_tools():\n    return [tool('x', 'a\\ud800\\0', {'type': 'object', 'title': '\\ud800'})]\n")

    ((_, found),) = site.hooks().tools(agent="local", role=Role.PRIMARY, workspace="/").values

    assert (found.schema.description, found.schema.parameters["title"]) == ("a\ufffd\ufffd", "\ufffd")


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("[Signal('Loud', 1)]", "a signal whose name"),
        ("[Signal('x', float('inf'))]", "the signal x with a weight that is no finite number"),
        ("[Signal('x', True)]", "the signal x with a weight"),
        ("[Signal('x', '1')]", "the signal x with a weight"),
        ("[Signal('x', 1, None)]", "other fields than a Signal has"),
        ("[('x', 1)]", "tuple with other fields"),
        ("0.7", "float instead of a list of Signal"),
    ],
)
def test_signals_that_cannot_be_weighed_are_refused(site: Site, expression: str, wrong: str) -> None:
    site.install("acme", IMPORTS + f"@hookimpl\ndef escalera_routing_signals():\n    return {expression}\n")

    given = site.hooks().signals(prompt="x", session=SESSION, turns=TurnList(()), workspace="/", sensing=Sensing())

    assert given.values == ()
    assert wrong in given.notices[0]


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [("['/tmp']", "str instead of a Path"), ("[Path('x')]", "'x', which is no absolute path"), ("[Path('/no/such')]", "'/no/such', which is no folder")],
)
def test_template_folders_are_absolute_and_there(site: Site, expression: str, wrong: str) -> None:
    site.install("acme", IMPORTS + f"@hookimpl\ndef escalera_template_folders():\n    return {expression}\n")
    site.install("zebra", IMPORTS + "@hookimpl\ndef escalera_template_folders():\n    return [Path(__file__).parent]\n")

    given = site.hooks().template_folders()

    assert [(plugin.name, folder) for plugin, folder in given.values] == [("zebra", site.folder)]
    assert given.notices == (f"plugin acme (acme 1.0): escalera_template_folders gave {wrong}",)


def test_the_first_count_of_tokens_is_taken_and_wrong_ones_are_passed_over(site: Site) -> None:
    for name, expression in {
        "a": "None",
        "b": "-1",
        "big": "10**5000",
        "c": "2.5",
        "d": "len(text) * 10 if (kind, model) == ('fake', 'm') else None",
        "e": "1 / 0",
    }.items():
        site.install(f"count-{name}", IMPORTS + f"@hookimpl\ndef escalera_count_tokens(kind, model, text):\n    return {expression}\n")

    given = site.hooks().count_tokens(kind="fake", model="m", text=lambda: "abc")

    assert [(plugin.distribution, count) for plugin, count in given.values] == [("count-d", 30)]
    assert [notice.rpartition("gave ")[2] for notice in given.notices] == [
        "-1 instead of a count",
        "a number of thousands of digits instead of a count",
        "2.5 instead of a count",
    ]


def test_without_plugins_nothing_is_called_and_no_text_is_made_to_be_counted() -> None:
    hooks = Hooks()

    assert hooks.tools(agent="local", role=Role.PRIMARY, workspace="/").values == ()
    assert hooks.count_tokens(kind="k", model=None, text=lambda: pytest.fail("made in vain")).values == ()


def test_what_nothing_catches_is_a_notice_too(site: Site) -> None:
    site.install("acme", IMPORTS + "class Panic(BaseException): pass\n@hookimpl\ndef escalera_template_folders():\n    raise Panic\n")

    (notice,) = site.hooks().template_folders().notices

    assert "escalera_template_folders broke: Panic in acme.py" in notice


def test_what_the_user_presses_goes_through(site: Site) -> None:
    site.install("acme", IMPORTS + "@hookimpl\ndef escalera_template_folders():\n    raise KeyboardInterrupt\n")

    with pytest.raises(KeyboardInterrupt):
        site.hooks().template_folders()


def test_a_wrapper_is_refused_alone(site: Site) -> None:
    site.install("acme", IMPORTS + "@hookimpl(wrapper=True)\ndef escalera_tools():\n    return (yield)\n")
    site.install("zebra", IMPORTS + "@hookimpl\ndef escalera_tools():\n    return [tool('x')]\n")

    assert tools(site) == ({"x": "zebra"}, [])
    assert "implements escalera_tools as a wrapper" in str(site.load().reports()[0].problem)


def test_a_hook_without_its_mark_is_told(site: Site) -> None:
    site.install("acme", "def escalera_tools():\n    return []\n")
    site.install("zebra", "from orchestrator.hookspecs import *\n")

    acme, zebra = site.load().reports()

    assert (acme.loaded, acme.problem) == (True, "defines escalera_tools without @hookimpl, so it is never called")
    assert zebra.problem is None


def test_a_plugin_with_one_wrong_signature_has_no_hook_at_all(site: Site) -> None:
    site.install("acme", IMPORTS + "@hookimpl\ndef escalera_context():\n    return 'x'\n@hookimpl\ndef escalera_tools(agent, mood):\n    return []\n")

    manager = site.load()

    assert not manager.reports()[0].loaded
    assert "mood" in str(manager.reports()[0].problem)
    assert all(manager.implementations(hook) == () for hook in HOOKS)


def test_an_object_can_be_a_plugin(site: Site) -> None:
    code = "class Plugin:\n    @hookimpl\n    def escalera_tools(self, agent):\n        return [tool(agent)]\nplugin = Plugin()\n"
    site.install("acme", IMPORTS + code, entry="acme = acme:plugin")

    assert tools(site) == ({"local": "acme"}, [])


def test_what_is_built_in_is_named_by_import_string_and_comes_before_all_others(site: Site) -> None:
    (site.folder / "of_ours.py").write_text(IMPORTS + "@hookimpl\ndef escalera_tools():\n    return [tool('x')]\n")
    site.install("acme", IMPORTS + "@hookimpl\ndef escalera_tools():\n    return [tool('x')]\n")

    manager = PluginManager.load(site.entry_points(), built_in=["of_ours"])

    first, second = manager.reports()
    assert (first.name, first.distribution, first.loaded, second.distribution) == ("of_ours", "escalera", True, "acme")
    given = Hooks(manager.implementations).tools(agent="local", role=Role.PRIMARY, workspace="/")
    assert [plugin.distribution for plugin, _ in given.values] == ["escalera"]


# -- the reference -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_documented_with_an_example_that_loads_and_implements_it(site: Site, name: str) -> None:
    text = inspect.getdoc(HOOKS[name]) or ""
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    site.install("example", example)
    (site.folder / "templates").mkdir()

    (report,) = site.load().reports()

    assert report.problem is None
    assert report.hooks == (name,)
    assert "Called" in text


def test_the_examples_do_what_they_say(site: Site, tmp_path: Path) -> None:
    for name, function in HOOKS.items():
        site.install(name.replace("_", "-"), re.findall(r"```python\n(.*?)```", inspect.getdoc(function) or "", re.DOTALL)[0])
    (site.folder / "templates").mkdir()
    (tmp_path / "NOTES.md").write_text("mind the step")
    hooks = site.hooks()
    where = {"session": SESSION, "turns": TurnList(()), "workspace": str(tmp_path)}

    told = hooks.context(agent="strong", role=Role.ESCALATION, mode=None, prompt="x", **where)
    signals = hooks.signals(prompt="a Migration", sensing=Sensing(), **where)
    offered = hooks.tools(agent="local", role=Role.PRIMARY, workspace=str(tmp_path))

    assert [text for _, text in told.values] == ["mind the step"]
    assert [signal.name for _, signal in signals.values] == ["migration"]
    assert [tool.schema.name for _, tool in offered.values] == ["count_lines"]
    assert [count for _, count in hooks.count_tokens(kind="x", model="my-model", text=lambda: "x" * 8).values] == [2]
    assert [folder for _, folder in hooks.template_folders().values] == [site.folder / "templates"]


def test_every_hook_is_in_the_reference() -> None:
    reference = (Path(__file__).parent.parent / "docs" / "hooks.md").read_text("utf-8")

    assert re.findall(r"^## `(escalera_\w+)\(", reference, re.MULTILINE) == list(_in_order())


def _in_order() -> list[str]:
    """As they stand in the module, which is the order of a program's life."""
    return sorted(HOOKS, key=lambda name: HOOKS[name].__code__.co_firstlineno)
