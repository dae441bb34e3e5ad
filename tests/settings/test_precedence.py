"""For every declared setting: whatever sources set it, the highest wins, each is told, and a file gives back what was put into it."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.settings.declarations import LIMITS, SETTINGS, UNLIMITED, Setting, SettingValue
from orchestrator.settings.editing import edit, setting_keys, unsetting_key
from orchestrator.settings.live import LiveSettings
from orchestrator.settings.resolution import Explained, Settings, Sources
from orchestrator.settings.toml_text import spelled, with_key
from orchestrator.settings.trust import TrustStore
from orchestrator.settings.values import python_value

from .conftest import Place

EXAMPLES = int(os.environ.get("ESCALERA_TEST_SETTINGS_EXAMPLES", "5"))
LAYERS = ("user", "project", "env", "flag", "set", "runtime")
"""From low to high."""

AGENTS = "".join(f'[agents.{name}]\nprovider = "p"\n' for name in "abcd")
ROLES = {"primary": ("a", "b"), "escalation": ("c", "d")}
TTLS, CEILINGS = ("questions.ttl", "tasks.ttl", "artifacts.idle_ttl"), ("questions.max_age", "tasks.max_age", "artifacts.ttl")
RANGES = dict.fromkeys(TTLS, (1, 60)) | dict.fromkeys(CEILINGS, (2000, 9000))
"""Seconds, so that no ttl is longer than its ceiling."""

each = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
quick = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def values(setting: Setting) -> st.SearchStrategy[Any]:
    """Values as a file has them."""
    if setting.path in ROLES:
        return st.sampled_from(ROLES[setting.path])
    if setting.path in RANGES:
        return st.integers(*RANGES[setting.path]).map("{}s".format)
    low = setting.minimum if setting.minimum is not None else -1000
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "int": st.integers(int(low), 10**12),
        "number": st.integers(int(low), 10**6) | st.floats(low, 1000).map(lambda number: round(number, 3)),
        "duration": st.tuples(st.integers(1, 1000), st.sampled_from(["ms", "s", "m", "h", "d"])).map("{0[0]}{0[1]}".format),
        "size": st.integers(0, 10**12) | st.tuples(st.integers(0, 900), st.sampled_from(["B", "kB", "KiB", "MiB", "GB"])).map("{0[0]}{0[1]}".format),
        "list": st.lists(st.from_regex(r"[a-z][a-z_-]{0,8}", fullmatch=True), max_size=3),
    }
    kind = kinds[setting.type]
    return kind | st.just(UNLIMITED) if setting.unlimited else kind


def text(value: Any) -> str:
    """A value as a variable or a flag has it; an empty text is refused there, so no entry is a comma alone."""
    return ",".join(value) or "," if isinstance(value, list) else value if isinstance(value, str) else spelled(value)


def stored(value: Any) -> SettingValue:
    return tuple(value) if isinstance(value, list) else value


def key(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def laid(place: Place, given: dict[str, dict[str, Any]]) -> tuple[Settings, dict[str, str]]:
    """Settings of these sources, each with its values by path; and how each source is called."""
    user, project = AGENTS, "# a project\n"
    for path, value in given.get("user", {}).items():
        user = with_key(user, key(path), value)
    for path, value in given.get("project", {}).items():
        project = with_key(project, key(path), value)
    place.user(user)
    place.project(project)
    TrustStore(place.paths.trust_file).trust(place.project_file, project.encode())
    env = {f"ESCALERA_{path.upper().replace('.', '_')}": text(value) for path, value in given.get("env", {}).items()}
    loaded = place.load(
        env=env,
        flags={path: text(value) for path, value in given.get("flag", {}).items()},
        sets=[f"{path}={text(value) if isinstance(value, str) else spelled(value)}" for path, value in given.get("set", {}).items()],
        runtime=given.get("runtime") or None,
    )
    names = {"user": f"file:{place.paths.user_file}", "project": f"file:{place.project_file}", "env": f"env:{next(iter(env), '')}"}
    return loaded, {**names, "flag": "flag", "set": "flag", "runtime": "runtime"}


def below(setting: Setting) -> list[tuple[str, Any]]:
    """The default, where it would count."""
    default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
    return [] if default in (None, []) else [("default", default)]


def shown(explained: Explained) -> list[tuple[str, Any]]:
    return [(explained.source, explained.value), *explained.shadowed]


@each
@given(data=st.data())
@quick
def test_the_highest_source_wins_and_every_one_below_is_told_in_order(place: Place, setting: Setting, data: st.DataObject) -> None:
    given = data.draw(st.dictionaries(st.sampled_from(LAYERS), values(setting)), label="by source")

    loaded, names = laid(place, {layer: {setting.path: value} for layer, value in given.items()})

    explained = loaded.explain(setting.path)
    wanted = [(names[layer], given[layer]) for layer in reversed(LAYERS) if layer in given]
    default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
    assert shown(explained) == ([*wanted, *below(setting)] if wanted else [("default", default)])
    assert explained.default == default
    assert loaded.value(setting.path) == python_value(setting, stored(wanted[0][1]) if wanted else setting.default)


@pytest.mark.parametrize("setting", LIMITS.values(), ids=lambda setting: setting.name)
@given(data=st.data())
@quick
def test_an_agents_own_limit_wins_over_every_global_one(place: Place, setting: Setting, data: st.DataObject) -> None:
    everywhere = data.draw(st.dictionaries(st.sampled_from(LAYERS), values(setting)), label="for all")
    own = data.draw(st.dictionaries(st.sampled_from(["user", "project", "set", "runtime"]), values(setting)), label="for one")
    path = f"agents.a.{setting.path}"
    given = {layer: {p: by[layer] for p, by in ((setting.path, everywhere), (path, own)) if layer in by} for layer in LAYERS}

    loaded, names = laid(place, given)

    wanted = [(names[layer], by[layer]) for by in (own, everywhere) for layer in reversed(LAYERS) if layer in by]
    assert shown(loaded.explain(path)) == ([*wanted, *below(setting)] if wanted else [("default", setting.default)])
    assert loaded.explain(f"agents.b.{setting.path}").value == (next((everywhere[layer] for layer in reversed(LAYERS) if layer in everywhere), setting.default))
    if setting.name != "message_budget_chars":
        assert getattr(loaded.limits("a"), setting.name) == python_value(setting, wanted[0][1] if wanted else setting.default)


FILES = (
    "",
    "# nothing yet",
    "\r\n# mine\r\n\r\n" + AGENTS.replace("\n", "\r\n"),
    "\ufeff# with a mark\n" + AGENTS,
    "global_archive_after_days = 3 # kept\n\n[limits] # for all\nretry_attempts = 1\n\n# agents\n" + AGENTS,
    "agents = { a = { provider = 'p' }, b = {provider='p'}, c = { provider = 'p', limits = { retry_attempts = 1 } }, d = { provider = 'p' } }",
    "limits.retry_attempts = 1\nquestions.keep = '3d'\n" + AGENTS + "\n\n# the end",
)


@pytest.mark.parametrize("path", [setting.path for setting in SETTINGS] + [f"agents.c.limits.{name}" for name in LIMITS], ids=str)
@given(data=st.data())
@quick
def test_what_is_set_in_a_file_is_read_back_and_unset_gives_the_same_bytes(place: Place, path: str, data: st.DataObject) -> None:
    setting = LIMITS[path.rpartition(".")[2]] if path.startswith("agents.") else next(setting for setting in SETTINGS if setting.path == path)
    before = data.draw(st.sampled_from([file for file in FILES if path.rpartition(".")[2] not in file and ("[agents.c]" in file or path[:7] != "agents.")]))
    if path in ROLES and "agents" not in before:
        before += AGENTS if not before or before.endswith("\n") else "\n" + AGENTS
    value = data.draw(values(setting))
    place.user("")
    place.paths.user_file.write_bytes(before.encode())
    sources = Sources(place.environ, place.workspace, place.paths)

    done = edit(sources, setting_keys({path: text(value) if isinstance(value, str) else spelled(value)}, workspace=place.workspace))

    read = place.load().explain(path)
    assert (read.value, read.source) == (value, f"file:{place.paths.user_file}")
    assert done.settings.explain(path) == read
    edit(sources, unsetting_key(path))
    assert place.paths.user_file.read_bytes() == before.encode()


@each
@given(data=st.data())
@quick
def test_a_runtime_value_goes_over_all_and_leaves_no_trace_when_it_is_taken_back(place: Place, setting: Setting, data: st.DataObject) -> None:
    if not setting.hot:
        return
    given = data.draw(st.dictionaries(st.sampled_from(LAYERS[:4]), values(setting)))
    loaded, _ = laid(place, {layer: {setting.path: value} for layer, value in given.items() if layer != "env"})
    flags = {setting.path: text(given["flag"])} if "flag" in given else {}
    live = LiveSettings(Sources(place.environ, place.workspace, place.paths, flags=flags))
    value = data.draw(values(setting))

    put = live.put(setting.path, value)

    before = shown(loaded.explain(setting.path))
    assert shown(put) == [("runtime", value), *(below(setting) if before[0][0] == "default" else before)]
    assert live.remove(setting.path) == loaded.explain(setting.path)
