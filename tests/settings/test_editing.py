from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ConfigError, UsageError
from orchestrator.settings.editing import Edit, adding_agent, edit, setting_keys, unsetting_key
from orchestrator.settings.paths import paths_of
from orchestrator.settings.resolution import Sources
from orchestrator.settings.trust import TrustStore

from .conftest import Place

USER = """\
\ufeff# mine\r
primary = 'cheap'  # the small one\r
\r
[limits]\r
idle_timeout = "10s"\r
\r
# who works\r
[agents.cheap]\r
provider = "openai"\r
"""


def sources(place: Place, **more: Any) -> Sources:
    return Sources(more.pop("environ", place.environ), place.workspace, place.paths, **more)


def set_(place: Place, path: str, value: str, *, project: bool = False, **more: Any) -> Edit:
    return edit(sources(place, **more), setting_keys({path: value}, workspace=place.workspace), project=project)


def unset(place: Place, path: str, *, project: bool = False) -> Edit:
    return edit(sources(place), unsetting_key(path), project=project)


def written(place: Place, text: str) -> bytes:
    place.user("")
    place.paths.user_file.write_bytes(text.encode())
    return place.paths.user_file.read_bytes()


def test_only_the_key_changes_with_mark_line_ends_quotes_and_comments_kept(place: Place) -> None:
    before = written(place, USER)

    set_(place, "limits.turn_timeout", "5m")
    assert place.paths.user_file.read_bytes() == before.replace(b'"10s"\r\n', b'"10s"\r\nturn_timeout = "5m"\r\n')
    set_(place, "limits.idle_timeout", "20s")
    assert b'idle_timeout = "20s"\r\n' in place.paths.user_file.read_bytes()
    set_(place, "limits.idle_timeout", "10s")
    unset(place, "limits.turn_timeout")

    assert place.paths.user_file.read_bytes() == before


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("need_expiry_hours", "12", "need_expiry_hours = 12"),
        ("need_expiry_hours", "0.5", "need_expiry_hours = 0.5"),
        ("fallback", "on", "fallback = true"),
        ("plugins.blocked", "a, b", 'blocked = ["a", "b"]'),
        ("plugins.blocked", '["a b"]', 'blocked = ["a b"]'),
        ("limits.idle_timeout", "Unlimited", 'idle_timeout = "unlimited"'),
        ("limits.percept_inject_max_bytes", "2 KiB", 'percept_inject_max_bytes = "2KiB"'),
        ("agents.cheap.limits.retry_attempts", "1", "retry_attempts = 1"),
        ("agents.cheap.model", "405", 'model = "405"'),
        ("agents.cheap.prompt", 'say "hi"\n', 'prompt = "say \\"hi\\"\\n"'),
        ("agents.cheap.tools", "false", "tools = false"),
        ("agents.cheap.headers.x-team", "red", '[agents.cheap.headers]\nx-team = "red"'),
        ("agents.cheap.body", '{ temperature = 0.5, stop = ["x"] }', 'body = { temperature = 0.5, stop = ["x"] }'),
        ("agents.cheap.api_key", '{ env = "K" }', 'api_key = { env = "K" }'),
        ("agents.cheap.api_key", '{ cmd = ["pass", "k"] }', 'api_key = { cmd = ["pass", "k"] }'),
        ("agents.cheap.api_key", '{ keyring = "a/b" }', 'api_key = { keyring = "a/b" }'),
        ("agents.cheap.env", "{ API_KEY = { env = 'K' }, DEBUG = '1' }", 'env = { API_KEY = { env = "K" }, DEBUG = "1" }'),
    ],
)
def test_a_value_is_written_as_toml_has_it_and_counts(place: Place, path: str, value: str, line: str) -> None:
    place.user("primary = 'cheap'\n[agents.cheap]\nprovider = 'openai'\n")

    done = set_(place, path, value)

    assert line in place.paths.user_file.read_text()
    assert done.settings.explain(path).source == f"file:{place.paths.user_file}"
    assert place.load().explain(path) == done.settings.explain(path)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("limits.idle_timout", "5s", "did you mean `limits.idle_timeout`"),
        ("limits.idle_timeout", "5", "expected a duration with its unit"),
        ("limits.retry_attempts", "-1", "too small"),
        ("limits", "{ retry_attempts = 1 }", "is a table"),
        ("agents.cheap", "{ provider = 'x' }", "is a table"),
        ("agents.cheap.limits", "{ retry_attempts = 1 }", "is a table"),
        ("agents", "x", "is not a table"),
        ("", "x", "is no path"),
        ("a..b", "x", "is no path"),
        ("agents.cheap.", "1", "is no path"),
        ("agents.cheap.model", "", "expected a text"),
        ("agents.cheap.headers.x-anything", "CANARY", "stays in the shell's history"),
        ("agents.cheap.base_url", "http://h/v1?k=CANARY123", "stays in the shell's history"),
        ("agents.cheap.token_cmd", '["x", "--secret", "CANARY"]', "stays in the shell's history"),
        ("primary", "nobody", "this change: primary: no agent 'nobody' is configured"),
        ("agents.chep.model", "m", "has no `provider`; did you mean `cheap`"),
        ("agents.cheap.prices.inptu", "1", "did you mean `input`"),
        ("questions.ttl", "2h", "is longer than"),
        ("agents.cheap.model", "\ud800", "are no text in UTF-8"),
        ("agents.cheap.provider.x", "1", "is not usable"),
        ("agents.cheap.model.x", "1", "model is no table"),
    ],
)
def test_what_no_file_could_say_is_refused_and_nothing_is_written(place: Place, path: str, value: str, said: str) -> None:
    before = written(place, "primary = 'cheap'\n[agents.cheap]\nprovider = 'openai'\nmodel = 'm'\n")

    with pytest.raises(ConfigError, match=said):
        set_(place, path, value)

    assert place.paths.user_file.read_bytes() == before
    assert list(place.paths.config.iterdir()) == [place.paths.user_file]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("agents.cheap.api_key", "sk-canary"),
        ("agents.cheap.headers.Authorization", "Bearer sk-canary"),
        ("agents.cheap.headers", "{ x-api-key = 'sk-canary' }"),
        ("agents.cheap.env.API_TOKEN", "sk-canary"),
        ("agents.cheap.body", "{ deep = [{ password = 'sk-canary' }] }"),
        ("agents.cheap.base_url", "http://me:sk-canary@h/v1"),
        ("agents.cheap.base_url", "http://h/v1?key=sk-canary"),
        ("agents.cheap.api_key", "{ evn = 'sk-canary' }"),
    ],
)
def test_a_secret_that_is_written_out_is_not_taken_and_not_repeated(place: Place, path: str, value: str) -> None:
    before = written(place, "[agents.cheap]\nprovider = 'openai'\n")

    with pytest.raises(ConfigError) as caught:
        set_(place, path, value)

    assert "{ env =" in f"{caught.value.message} {caught.value.hint}"
    assert "sk-canary" not in f"{caught.value!r} {caught.value.message} {caught.value.hint}"
    assert place.paths.user_file.read_bytes() == before


@pytest.mark.parametrize("content", [b"a = ", b"a = 1\na = 2\n", b"\xff", b"\xff\xfea\x00", b"a = '\0'"])
def test_a_file_that_does_not_parse_is_never_rewritten(place: Place, content: bytes) -> None:
    place.user("")
    place.paths.user_file.write_bytes(content)

    for change in (setting_keys({"fallback": "true"}, workspace=place.workspace), unsetting_key("a")):
        with pytest.raises(ConfigError):
            edit(sources(place), change)

    assert place.paths.user_file.read_bytes() == content


def test_a_configuration_with_problems_is_mended_step_by_step(place: Place) -> None:
    place.user("primary = 'gone'\nneed_expire = 1\n[agents.cheap]\nprovider = 'openai'\n")

    first = set_(place, "primary", "cheap")
    second = unset(place, "need_expire")

    assert [problem.path for problem in first.problems] == ["need_expire"]
    assert second.problems == ()
    assert place.load().primary == "cheap"


def test_a_file_that_is_not_there_is_made_for_the_user_alone_and_the_projects_for_all(place: Place) -> None:
    old = os.umask(0o022)
    try:
        set_(place, "fallback", "true")
        set_(place, "need_expiry_hours", "3", project=True)
    finally:
        os.umask(old)

    assert place.paths.user_file.read_text() == "fallback = true\n"
    assert stat.S_IMODE(place.paths.user_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.paths.config.stat().st_mode) == 0o700
    assert place.project_file.read_text() == "need_expiry_hours = 3\n"
    assert stat.S_IMODE(place.project_file.stat().st_mode) == 0o644


def test_mode_and_link_are_kept(place: Place, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "escalera.toml").write_text("# mine\n")
    (dotfiles / "escalera.toml").chmod(0o640)
    place.user("")
    place.paths.user_file.unlink()
    place.paths.user_file.symlink_to(dotfiles / "escalera.toml")

    set_(place, "fallback", "true")

    assert place.paths.user_file.is_symlink()
    assert (dotfiles / "escalera.toml").read_text() == "# mine\nfallback = true\n"
    assert stat.S_IMODE((dotfiles / "escalera.toml").stat().st_mode) == 0o640
    assert list(dotfiles.iterdir()) == [dotfiles / "escalera.toml"]


def test_setting_what_stands_there_already_and_unsetting_what_does_not_write_nothing(place: Place) -> None:
    place.user("fallback = true\n")
    inode = place.paths.user_file.stat().st_ino

    assert not set_(place, "fallback", "true").changed
    assert not unset(place, "primary").changed

    assert place.paths.user_file.stat().st_ino == inode


def test_the_given_file_stands_in_for_the_users(place: Place, tmp_path: Path) -> None:
    given = tmp_path / "given.toml"
    given.write_text("fallback = true\n")

    set_(place, "fallback", "false", config_file=given)

    assert given.read_text() == "fallback = false\n"
    assert not place.paths.user_file.exists()
    with pytest.raises(UsageError, match="--config"):
        set_(place, "fallback", "true", project=True, config_file=given)


# -- the project's file and its acceptance ------------------------------------------------------------


def trusted(place: Place) -> bool:
    return TrustStore(place.paths.trust_file).is_trusted(place.project_file, place.project_file.read_bytes())


def test_an_accepted_file_stays_accepted_for_this_change_and_no_other(place: Place) -> None:
    place.project("fallback = true\n")
    TrustStore(place.paths.trust_file).trust(place.project_file, place.project_file.read_bytes())

    done = set_(place, "plugins.blocked", "x", project=True)

    assert (done.accepted, trusted(place)) == (True, True)
    assert place.load().value("plugins.blocked") == ("x",)
    place.project_file.write_text(place.project_file.read_text() + "#")
    assert not trusted(place)


def test_a_file_that_was_not_accepted_is_not_by_a_change_of_it(place: Place) -> None:
    place.project("fallback = true\n")

    done = set_(place, "plugins.blocked", "x", project=True)

    assert (done.accepted, trusted(place)) == (False, False)
    assert "plugins.blocked, fallback" in done.settings.notices[0]
    assert done.settings.explain("plugins.blocked").source == "default"


def test_a_file_made_of_nothing_but_the_users_own_words_is_accepted(place: Place) -> None:
    done = set_(place, "fallback", "true", project=True)

    assert (done.accepted, place.load().value("fallback")) == (True, True)


def test_the_nearest_file_above_is_the_projects(place: Place) -> None:
    deep = place.workspace / "a"
    deep.mkdir()
    place.project("")

    done = edit(Sources(place.environ, deep, place.paths), setting_keys({"need_expiry_hours": "3"}, workspace=deep), project=True)

    assert done.file == place.project_file


def test_a_base_url_of_the_project_for_a_secret_of_the_user_is_refused(place: Place) -> None:
    place.user("[agents.cheap]\nprovider = 'openai'\napi_key = { env = 'K' }\n")

    with pytest.raises(ConfigError, match="would be sent to the `base_url`"):
        set_(place, "agents.cheap.base_url", "http://h", project=True)


# -- new agents ----------------------------------------------------------------------------------------


def test_a_new_agent_gets_a_table_and_a_known_one_is_left_alone(place: Place) -> None:
    place.user("# mine\n")
    values = {"provider": "openai", "model": "m", "headers.x-one": "1", "limits.idle_timeout": "3s"}

    edit(sources(place), adding_agent("cheap", values, known={}, workspace=place.workspace))

    before = place.paths.user_file.read_text()
    assert before == (
        '# mine\n\n[agents.cheap]\nprovider = "openai"\nmodel = "m"\n\n[agents.cheap.headers]\nx-one = "1"\n\n[agents.cheap.limits]\nidle_timeout = "3s"\n'
    )
    with pytest.raises(ConfigError, match="there is an agent 'cheap' already"):
        adding_agent("cheap", {"provider": "p"}, known=place.load().agents, workspace=place.workspace)
    with pytest.raises(ConfigError, match="there is an agent 'cheap' already"):
        edit(sources(place), adding_agent("cheap", {"provider": "p"}, known={}, workspace=place.workspace))
    with pytest.raises(ConfigError, match="is no name for an agent"):
        adding_agent("a.b", {"provider": "p"}, known={}, workspace=place.workspace)
    assert place.paths.user_file.read_text() == before


# -- what goes wrong ------------------------------------------------------------------------------------


def _set_many(home: str, workspace: str, names: list[str]) -> None:
    environ = {"ESCALERA_HOME": home, "HOME": home}
    place = Sources(environ, Path(workspace), paths_of(environ, platform="linux"))
    for name in names:
        edit(place, adding_agent(name, {"provider": "p"}, known={}, workspace=Path(workspace)))


def test_of_two_processes_that_write_at_once_nothing_is_lost(place: Place) -> None:
    place.user("# mine\n")
    names = [f"a{number}" for number in range(24)]

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_set_many, [(place.environ["ESCALERA_HOME"], str(place.workspace), names[half::2]) for half in range(2)])

    assert set(place.load().agents) == set(names)
    assert place.paths.user_file.read_text().startswith("# mine\n")


def test_an_editor_that_saved_meanwhile_is_not_overwritten(place: Place) -> None:
    file = place.user("fallback = true\n")

    def slowly(text: str) -> str:
        file.write_text("# saved by an editor\n")
        return text + "need_expiry_hours = 3\n"

    with pytest.raises(ConfigError, match="changed by something else"):
        edit(sources(place), slowly)

    assert file.read_text() == "# saved by an editor\n"


CHILD = """
import os, sys
from pathlib import Path
from orchestrator.errors import ConfigError
from orchestrator.settings.editing import edit, setting_keys
from orchestrator.settings.paths import paths_of
from orchestrator.settings.resolution import Sources

place = Sources(dict(os.environ), Path.cwd(), paths_of(os.environ, platform="linux"))
try:
    edit(place, setting_keys({"need_expiry_hours": "3"}, workspace=Path.cwd()))
except ConfigError as error:
    sys.exit(error.message)
"""


def in_child(place: Place, before: Any) -> subprocess.CompletedProcess[str]:
    """A change in a process of its own, which may be limited as no test can be."""
    environ = {**os.environ, **place.environ}
    return subprocess.run([sys.executable, "-c", CHILD], cwd=place.workspace, env=environ, capture_output=True, text=True, check=False, preexec_fn=before)


def test_a_full_disk_leaves_the_old_file_whole(place: Place) -> None:
    file = place.user("# mine\n" * 400)
    before = file.read_bytes()

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = in_child(place, full)

    assert (done.returncode, done.stderr.strip()) == (1, f"cannot write {file}: {os.strerror(errno.EFBIG)}; it is as it was")
    assert file.read_bytes() == before
    assert os.listdir(place.paths.config) == ["config.toml"]


def test_a_read_only_folder_leaves_the_file_as_it_was(place: Place) -> None:
    file = place.user("# mine\n")
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'

    def sealed(*command: str) -> subprocess.CompletedProcess[str]:
        arguments = ["unshare", "-m", "sh", "-c", script, "sh", str(place.paths.config), *command]
        return subprocess.run(arguments, cwd=place.workspace, env={**os.environ, **place.environ}, capture_output=True, text=True, check=False)

    if shutil.which("unshare") is None or sealed("true").returncode != 0:
        pytest.skip("this system lets us mount nothing, and a mode of a folder does not stop root")
    done = sealed(sys.executable, "-c", CHILD)

    assert (done.returncode, done.stderr.strip()) == (1, f"cannot write {file}: {os.strerror(errno.EROFS)}; it is as it was")
    assert file.read_text() == "# mine\n"


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(place: Place) -> None:
    file = place.user("# mine\n" * 2000)
    old, new = file.read_bytes(), file.read_bytes() + b"need_expiry_hours = 3\n"
    environ = {**os.environ, **place.environ}
    killer = "import orchestrator.settings.writing as w, os\nw.os.{place} = lambda *a, **k: os.kill(os.getpid(), 9)\n" + CHILD

    for name, wanted in (("fsync", old), ("replace", old), ("open", old)):
        subprocess.run([sys.executable, "-c", killer.replace("{place}", name)], cwd=place.workspace, env=environ, check=False, capture_output=True)
        assert file.read_bytes() == wanted
    assert in_child(place, None).returncode == 0
    assert file.read_bytes() == new


def test_a_project_file_that_leads_out_of_the_project_is_not_written_through(place: Place) -> None:
    before = written(place, USER)
    place.project_file.symlink_to(place.paths.user_file)

    with pytest.raises(ConfigError, match="is a link that leads out of the project"):
        set_(place, "limits.turn_timeout", "5m", project=True)

    assert place.paths.user_file.read_bytes() == before


def test_a_header_with_a_dot_in_its_name_is_set_read_and_unset(place: Place) -> None:
    path = 'mcp_servers.s.headers."X.Team"'
    place.user('[mcp_servers.s]\nurl = "http://h"\n')

    done = set_(place, path, '{ env = "TEAM" }')

    assert done.settings.explain(path).value == "{ env = 'TEAM' }"
    assert '"X.Team"' in place.paths.user_file.read_text()
    assert place.load(sets=[f"{path}=red"]).servers["s"].headers["X.Team"] == "red"
    assert unset(place, path).changed
    assert "X.Team" not in place.paths.user_file.read_text()


def test_a_secret_in_a_command_is_refused_as_anywhere(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"notify.command: a secret on the command line"):
        set_(place, "notify.command", '["curl", "-H", "Authorization: Bearer CANARY-1"]')
    assert set_(place, "notify.command", '["notify-send", "Escalera"]').changed


def test_a_role_of_a_built_in_agent_says_how_to_keep_it_when_the_first_agent_is_added(place: Place) -> None:
    place.user('primary = "local"\n')
    change = adding_agent("x", {"provider": "openai"}, known={}, workspace=place.workspace)

    with pytest.raises(ConfigError, match=r"primary: no agent 'local' is configured; .*`escalera agents add local --provider embedded` keeps it"):
        edit(sources(place), change)

    edit(sources(place), adding_agent("local", {"provider": "embedded"}, known=place.load().agents, workspace=place.workspace))
    assert edit(sources(place), change).changed


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "PLAIN"])
def test_false_takes_a_variable_away_in_a_file_by_a_flag_and_by_a_command(place: Place, name: str) -> None:
    table = '[agents.cl]\nprovider = "claude-cli"\n'
    place.user(f"{table}env = {{ {name} = false }}\n")
    in_file = place.load().agents["cl"].options["env"]
    place.user(table)
    by_flag = place.load(sets=[f"agents.cl.env.{name}=false"]).agents["cl"].options["env"]
    set_(place, f"agents.cl.env.{name}", "false")
    by_command = place.load().agents["cl"].options["env"]

    assert in_file == by_flag == by_command == {name: False}


def test_a_setting_whose_path_is_in_quotes_is_explained_as_what_it_is(place: Place) -> None:
    done = set_(place, 'limits."turn_timeout"', "5m")

    assert (done.settings.explain('limits."turn_timeout"').path, done.settings.explain("limits.turn_timeout").value) == ("limits.turn_timeout", "5m")


def test_a_password_in_a_wanted_plugins_address_is_neither_taken_nor_shown(place: Place) -> None:
    wanted = "acme @ https://user:canary@host/x.whl"
    with pytest.raises(ConfigError, match="a secret on the command line"):
        set_(place, "plugins.wanted", wanted)
    place.user(f'[plugins]\nwanted = ["{wanted}"]\n')

    assert place.load().explain("plugins.wanted").value == ["acme @ https://***@host/x.whl"]
    assert place.load().value("plugins.wanted") == (wanted,)
