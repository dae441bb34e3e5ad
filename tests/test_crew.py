"""The configured agents, each built when it is first needed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from orchestrator.crew import Agent, Crew
from orchestrator.errors import ConfigError, EscaleraError, NotFound, PluginError
from orchestrator.providers import AgentContext, Capabilities, ProviderKind
from orchestrator.settings.paths import Paths
from orchestrator.settings.resolution import load_settings
from orchestrator.settings.trust import TrustStore
from orchestrator.testing.fake_provider import FakeOptions, FakeProvider

CONFIG = """
primary = "local"
escalation = "strong"
[limits]
retry_attempts = 7
turn_timeout = "90s"
[agents.local]
provider = "fake"
prompt = "Be kind."
[agents.strong]
provider = "fake"
model = "big"
[agents.strong.limits]
retry_attempts = 1
context_window_tokens = 5000
[agents.gone]
provider = "not-installed"
[agents.broken]
provider = "bad"
"""


class Keeping(FakeProvider):
    """One that keeps something ready between two turns."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def _raises() -> None:
    raise RuntimeError("x")


def _leaves() -> None:
    raise SystemExit(3)


class Kinds:
    """Counts what is built."""

    def __init__(self) -> None:
        self.built: list[AgentContext] = []
        self.options: list[FakeOptions] = []
        self.kept: list[Keeping] = []

    def fake(self, options: FakeOptions, context: AgentContext) -> FakeProvider:
        self.built.append(context)
        self.options.append(options)
        kind = Keeping if context.long_lived else FakeProvider
        made = kind(model=options.model, capabilities=Capabilities(context_window_tokens=9000), config_dir=f"/conf/{context.name}")
        self.kept += [made] if isinstance(made, Keeping) else []
        return made

    def bad(self, options: FakeOptions, context: AgentContext) -> FakeProvider:
        raise RuntimeError("cannot be made")


@pytest.fixture
def kinds() -> Kinds:
    return Kinds()


def crew(tmp_path: Path, kinds: Kinds, text: str = CONFIG, **more: Any) -> Crew:
    (tmp_path / "c.toml").write_text(text)
    paths = Paths(tmp_path, tmp_path, tmp_path, tmp_path)
    settings = load_settings(environ={}, workspace=tmp_path, paths=paths, config_file=tmp_path / "c.toml")
    known = {name: ProviderKind(name, FakeOptions, factory) for name, factory in (("fake", kinds.fake), ("bad", kinds.bad))}
    return Crew(settings, known, environ={"A": "b"}, workspace="/work/a", **more)


def test_an_agent_is_built_when_it_is_first_asked_for_and_once(tmp_path: Path, kinds: Kinds) -> None:
    made = crew(tmp_path, kinds)
    assert (made.primary, made.escalation, made.names) == ("local", "strong", ("local", "strong", "gone", "broken"))
    assert kinds.built == []

    assert made.agent("strong") is made.agent("strong")

    assert [(context.name, context.workspace, context.environ["A"]) for context in kinds.built] == [("strong", "/work/a", "b")]


def test_an_agent_has_its_own_limits_prompt_and_window(tmp_path: Path, kinds: Kinds) -> None:
    made = crew(tmp_path, kinds)
    local, strong = made.agent("local"), made.agent("strong")

    assert (local.limits.retry_attempts, strong.limits.retry_attempts) == (7, 1)
    assert (local.prompt, strong.prompt) == ("Be kind.", "")
    assert (local.window, strong.window) == (9000, 5000)
    assert (local.kind, strong.provider.model, strong.config_dir) == ("fake", "big", "/conf/strong")


def test_the_time_given_for_one_run_goes_before_the_settings(tmp_path: Path, kinds: Kinds) -> None:
    assert crew(tmp_path, kinds).agent("local").limits.turn_timeout == 90.0
    assert crew(tmp_path, kinds, turn_timeout=5.0).agent("strong").limits.turn_timeout == 5.0


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [("gone", PluginError, "not-installed"), ("broken", PluginError, "cannot be made"), ("strog", NotFound, "strong")],
    ids=["no plugin", "broken plugin", "no agent"],
)
def test_a_broken_agent_says_why_and_harms_nobody_else(tmp_path: Path, kinds: Kinds, name: str, error: type[EscaleraError], text: str) -> None:
    made = crew(tmp_path, kinds)

    with pytest.raises(error, match=text):
        made.agent(name)

    assert made.agent("local").name == "local"


def test_a_role_may_have_no_agent(tmp_path: Path, kinds: Kinds) -> None:
    made = crew(tmp_path, kinds, 'primary = "a"\n[agents.a]\nprovider = "fake"\n')

    assert (made.primary, made.escalation) == ("a", None)


def test_what_agents_keep_between_turns_is_let_go_at_the_end(tmp_path: Path, kinds: Kinds) -> None:
    made = crew(tmp_path, kinds, long_lived=True)
    made.agent("strong")

    made.close()

    assert [provider.closed for provider in kinds.kept] == [1]


@pytest.mark.parametrize("close", [_raises, _leaves, 5])
def test_one_that_cannot_let_go_keeps_no_other_from_it(tmp_path: Path, kinds: Kinds, close: object) -> None:
    made = crew(tmp_path, kinds, CONFIG + '[agents.other]\nprovider = "fake"\n', long_lived=True)
    made.agent("strong"), made.agent("other")
    kinds.kept[0].close = close  # type: ignore[method-assign, assignment]

    (problem,) = made.close()

    assert "agents.strong: its provider (fake) did not let go" in problem
    assert kinds.kept[1].closed == 1


def test_agents_of_one_turn_are_told_so_and_close_like_any(tmp_path: Path, kinds: Kinds) -> None:
    made = crew(tmp_path, kinds)
    made.agent("strong")

    made.close()

    assert [context.long_lived for context in kinds.built] == [False]


def test_programs_that_tools_start_see_no_secret(tmp_path: Path) -> None:
    config = (
        '[agents.local]\nprovider = "fake"\n[agents.keyed]\nprovider = "fake"\napi_key = { env = "ODDLY_NAMED" }\n'
        '[mcp_servers.files]\ncommand = "x"\nenv = { WORD = { env = "ALSO_ODD" } }\n'
    )
    (tmp_path / "config.toml").write_text(config)
    secrets = {"ODDLY_NAMED": "sk-very-secret", "COPY": "sk-very-secret", "ALSO_ODD": "tok-very-secret", "GITHUB_TOKEN": "x", "CLOUD": "vendor-login"}
    environ = {"PATH": "/bin", "LANG": "C.UTF-8", **secrets}
    paths = Paths(tmp_path, tmp_path, tmp_path, tmp_path)
    settings = load_settings(environ={}, workspace=tmp_path, paths=paths, config_file=tmp_path / "config.toml")
    kind = ProviderKind("fake", FakeOptions, lambda options, context: FakeProvider(), environment=("CLOUD",))

    assert Crew(settings, {"fake": kind}, environ=environ, workspace=str(tmp_path)).tool_environ() == {"PATH": "/bin", "LANG": "C.UTF-8"}


def project_crew(tmp_path: Path, kinds: Kinds, folder: str, *, trusted: TrustStore) -> Crew:
    workspace = tmp_path / "repo" / folder
    settings = load_settings(environ={}, workspace=workspace, paths=Paths(tmp_path, tmp_path, tmp_path, tmp_path))
    return Crew(settings, {"fake": ProviderKind("fake", WordyOptions, kinds.fake)}, environ={}, workspace=str(workspace), trusted=trusted.is_trusted)


class WordyOptions(FakeOptions):
    extra_args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@pytest.fixture
def accepted(tmp_path: Path) -> TrustStore:
    """What is accepted of a project, whose file names the same relative names as there are in a folder below."""
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    (tmp_path / "repo" / "escalera.toml").write_text(
        '[agents.a]\nprovider = "fake"\nextra_args = ["--settings", "s.json"]\n[agents.b]\nprovider = "fake"\ncommand = ["sh", "s.json"]\n'
        '[mcp_servers.s]\ncommand = "sh"\nargs = ["./tool.sh"]\nenv = { FILE = "s.json" }\n[mcp_servers.t]\ncommand = "sh"\nargs = ["later.sh"]\n'
    )
    trusted = TrustStore(Paths(tmp_path, tmp_path, tmp_path, tmp_path).trust_file)
    for name in ("s.json", "tool.sh", "escalera.toml"):
        (tmp_path / "repo" / name).touch()
        trusted.trust(tmp_path / "repo" / name, (tmp_path / "repo" / name).read_bytes())
        (tmp_path / "repo" / "sub" / name).write_text("another")
    (tmp_path / "repo" / "sub" / "escalera.toml").unlink()
    return trusted


def test_relative_names_of_a_project_lead_to_what_was_accepted_also_from_a_folder_below(tmp_path: Path, kinds: Kinds, accepted: TrustStore) -> None:
    made = project_crew(tmp_path, kinds, "sub", trusted=accepted)

    server = made.accepted_server("s")
    assert (server.args, server.env) == ((f"{tmp_path}/repo/tool.sh",), {"FILE": f"{tmp_path}/repo/s.json"})
    made.agent("a")
    assert kinds.options[-1].extra_args == ("--settings", f"{tmp_path}/repo/s.json")  # type: ignore[attr-defined]  # of the model above


def test_a_name_that_leads_to_another_file_from_where_programs_run_is_no_accepted_one(tmp_path: Path, kinds: Kinds, accepted: TrustStore) -> None:
    (tmp_path / "repo" / "sub" / "later.sh").touch()
    made = project_crew(tmp_path, kinds, "sub", trusted=accepted)

    with pytest.raises(ConfigError, match=r"mcp_servers.t.args .*/sub/later.sh is not accepted"):
        made.accepted_server("t")
    with pytest.raises(ConfigError, match=r"agents.b.command .*/sub/s.json is not accepted"):
        made.agent("b")
    assert project_crew(tmp_path, kinds, "", trusted=accepted).agent("b").name == "b"


class AddressedOptions(FakeOptions):
    endpoint_url: str | None = None
    api_key: str | None = None
    env: dict[str, str] = Field(default={})


LENT = "would be sent there; give it yourself"


@pytest.mark.parametrize(
    ("options", "environ", "refused"),
    [
        ("endpoint_url = 'http://h'", {"ACME_TOKEN": "users"}, f"agents.a.endpoint_url: is from .*what is in ACME_TOKEN {LENT}"),
        ("endpoint_url = 'http://h'", {}, f"your login {LENT}"),
        ("env = {ACME_BASE_URL = 'http://h'}", {}, f"agents.a.env.ACME_BASE_URL: .* your login {LENT}"),
        ("env = {ACME_BASE_URL = 'http://h', ACME_TOKEN = {env = 'THEIRS'}}", {"ACME_KEY": "users"}, f"what is in ACME_KEY {LENT}"),
        ("env = {ACME_BASE_URL = 'http://h', ACME_TOKEN = {env = 'THEIRS'}}", {"ACME_TOKEN": "users"}, None),
        ("endpoint_url = 'http://h'\napi_key = {env = 'THEIRS'}", {"ACME_TOKEN": "users"}, None),
        ("env = {AWS_ENDPOINT_URL = 'http://h', ACME_USE_BEDROCK = '1'}", {"AWS_SECRET_ACCESS_KEY": "users"}, f"what is in AWS_SECRET_ACCESS_KEY {LENT}"),
        ("env = {AWS_ENDPOINT_URL_STS = 'http://h', ACME_TOKEN = {env = 'THEIRS'}}", {}, f"env.AWS_ENDPOINT_URL_STS: .* your login {LENT}"),
        ("env = {ACME_VERTEX_BASE_URL = 'http://h', ACME_TOKEN = {env = 'THEIRS'}}", {}, f"your login {LENT}"),
        ("env = {DATABASE_URL = 'postgres://h'}", {"ACME_TOKEN": "users"}, None),
        ("model = 'm'", {"ACME_TOKEN": "users"}, None),
    ],
)
def test_what_a_provider_signs_in_with_by_itself_goes_to_no_address_of_a_project(
    tmp_path: Path, kinds: Kinds, options: str, environ: dict[str, str], refused: str | None
) -> None:
    (tmp_path / "repo").mkdir()
    project, paths = tmp_path / "repo" / "escalera.toml", Paths(tmp_path, tmp_path, tmp_path, tmp_path)
    project.write_text(f"[agents.a]\nprovider = 'fake'\n{options}\n")
    trusted = TrustStore(paths.trust_file)
    trusted.trust(project, project.read_bytes())
    kind = ProviderKind("fake", AddressedOptions, kinds.fake, environment=("ACME_TOKEN", "ACME_KEY"))

    def made(*sets: str) -> Agent:
        settings = load_settings(environ={}, workspace=tmp_path / "repo", paths=paths, sets=sets)
        return Crew(settings, {"fake": kind}, environ={"THEIRS": "x", **environ}, workspace=str(tmp_path / "repo"), trusted=trusted.is_trusted).agent("a")

    if refused is None:
        assert made().name == "a"
        return
    with pytest.raises(ConfigError, match=refused):
        made()
    names = ("ACME_BASE_URL", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "ACME_VERTEX_BASE_URL")
    assert made("agents.a.endpoint_url=http://mine", *(f"agents.a.env.{name}=http://mine" for name in names)).name == "a"


class ArgumentOptions(FakeOptions):
    extra_args: tuple[str, ...] = ()


def obeying(options: FakeOptions, _: AgentContext) -> FakeProvider:
    return FakeProvider(model=options.model, capabilities=Capabilities(obeys_workspace=True))


TOLD = '{"env": {"ACME_BASE_URL": "http://h"}}'


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--settings", TOLD], "extra_args"),
        ([f"--settings={TOLD}"], "extra_args"),
        (["--settings=./s.json"], "extra_args, in s.json"),
        (["--settings", "s.json"], "extra_args, in s.json"),
        ([], ".claude/settings.json"),
    ],
)
def test_what_a_provider_signs_in_with_goes_to_no_address_that_a_project_gives_in_json(tmp_path: Path, words: list[str], where: str) -> None:
    (tmp_path / "repo" / ".claude").mkdir(parents=True)
    project, paths = tmp_path / "repo" / "escalera.toml", Paths(tmp_path, tmp_path, tmp_path, tmp_path)
    project.write_text(f"[agents.a]\nprovider = 'fake'\nextra_args = {json.dumps(words)}\n")
    (tmp_path / "repo" / "s.json").write_text(TOLD)
    (tmp_path / "repo" / ".claude" / "settings.json").write_text("{}" if words else TOLD)
    trusted = TrustStore(paths.trust_file)
    for file in (project, tmp_path / "repo" / "s.json", tmp_path / "repo" / ".claude" / "settings.json"):
        trusted.trust(file, file.read_bytes())

    def made(environ: dict[str, str], *sets: str) -> Agent:
        settings = load_settings(environ={}, workspace=tmp_path / "repo", paths=paths, sets=sets)
        kind = ProviderKind("fake", ArgumentOptions, obeying, environment=("ACME_TOKEN",))
        return Crew(settings, {"fake": kind}, environ=environ, workspace=str(tmp_path / "repo"), trusted=trusted.is_trusted).agent("a")

    with pytest.raises(ConfigError, match=rf"env.ACME_BASE_URL \(.*{where}\): is from .* what is in ACME_TOKEN would be sent there"):
        made({"ACME_TOKEN": "users"})
    (tmp_path / "repo" / "s.json").write_text("{}")
    trusted.trust(tmp_path / "repo" / "s.json", b"{}")
    (tmp_path / "repo" / ".claude" / "settings.json").write_text(TOLD + " ")
    assert made({"ACME_TOKEN": "users"}, "agents.a.extra_args=[]").name == "a", "what is not accepted is not gone by"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/ptmx")], ids=["pipe", "terminal"])
def test_a_prompt_file_of_a_project_that_would_hold_us_up_is_refused(tmp_path: Path, kinds: Kinds, make: Callable[[Path], object]) -> None:
    (tmp_path / "repo").mkdir()
    project, paths = tmp_path / "repo" / "escalera.toml", Paths(tmp_path, tmp_path, tmp_path, tmp_path)
    project.write_text("[agents.a]\nprovider = 'fake'\nprompt_file = 'p.md'\n")
    TrustStore(paths.trust_file).trust(project, project.read_bytes())
    make(tmp_path / "repo" / "p.md")

    with pytest.raises(ConfigError, match=r"agents.a.prompt_file .*p.md is no regular file"):
        project_crew(tmp_path, kinds, "", trusted=TrustStore(paths.trust_file)).agent("a")


def test_a_changed_prompt_file_counts_from_the_next_turn_on_and_keeps_the_provider(tmp_path: Path, kinds: Kinds) -> None:
    (tmp_path / "repo").mkdir()
    project, prompt = tmp_path / "repo" / "escalera.toml", tmp_path / "repo" / "p.md"
    project.write_text("[agents.a]\nprovider = 'fake'\nprompt_file = 'p.md'\n")
    prompt.write_text("one")
    trusted = TrustStore(Paths(tmp_path, tmp_path, tmp_path, tmp_path).trust_file)
    for file in (project, prompt):
        trusted.trust(file, file.read_bytes())
    crew = project_crew(tmp_path, kinds, "", trusted=trusted)
    first = crew.agent("a")

    prompt.write_text("two")
    with pytest.raises(ConfigError, match=r"p\.md is not accepted as it is now"):
        crew.agent("a")
    trusted.trust(prompt, b"two")
    second = crew.agent("a")

    assert (first.prompt, second.prompt, second.provider is first.provider, len(kinds.built)) == ("one", "two", True, 1)
