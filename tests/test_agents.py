from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from orchestrator.agents import agent_problems, agent_prompt, build_provider
from orchestrator.errors import AuthFailed, ConfigError, PluginError
from orchestrator.providers import AgentContext, Capabilities, CheckResult, ProviderKind
from orchestrator.settings.agent_config import AgentConfig
from orchestrator.settings.secrets import Secret, with_secrets

KEY = "sk-DEMO-4242424242"


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    base_url: str
    model: str | None = None
    api_key: SecretStr | None = None
    headers: dict[str, str] = {}
    temperature: float = Field(default=0.0, ge=0)

    @field_validator("api_key")
    @classmethod
    def _plausible(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value().startswith("bad"):
            raise ValueError(f"the key {value.get_secret_value()} is bad")
        return value


class FakeProvider:
    def __init__(self, options: Options, context: AgentContext) -> None:
        self.options = options
        self.context = context
        self.capabilities = Capabilities()
        self.model = options.model

    def check(self) -> CheckResult:
        return CheckResult(True, "works")

    preview = run = check


KINDS = {"fake": ProviderKind("fake", Options, FakeProvider)}  # type: ignore[arg-type]  # only what these tests look at


def agent(name: str = "a", provider: str = "fake", **options: Any) -> AgentConfig:
    wrapped = {key: with_secrets(key, value) for key, value in {"base_url": "http://h", **options}.items()}
    return AgentConfig(name=name, provider=provider, options=wrapped, sources={**dict.fromkeys(wrapped, "file:/c.toml"), "provider": "file:/c.toml"})


def build(config: AgentConfig, **more: Any) -> Any:
    return build_provider(config, more.pop("kinds", KINDS), environ=more.pop("environ", {}), workspace=Path("/w"), **more)


def test_a_provider_gets_checked_options_with_secrets_resolved() -> None:
    provider = build(agent(api_key={"env": "KEY"}, headers={"x-team": {"env": "TEAM"}}, temperature="0.5"), environ={"KEY": KEY, "TEAM": "red"})

    assert provider.options.api_key.get_secret_value() == KEY
    assert provider.options.headers == {"x-team": "red"}
    assert provider.options.temperature == 0.5
    assert (provider.context.name, provider.context.workspace) == ("a", "/w")


def test_a_provider_is_told_the_secrets_of_the_other_agents_but_not_its_own() -> None:
    environ = {"MINE": "mine-0000", "THEIRS": "theirs-00", "SHARED": "shared-00"}
    own = agent(api_key={"env": "MINE"}, headers={"token": {"env": "SHARED"}})
    others = [
        own,
        agent("b", api_key={"env": "THEIRS"}),
        agent("c", api_key="plain-000"),
        agent("d", api_key={"env": "SHARED"}),
        agent("e", api_key={"env": "GONE"}),
    ]

    context = build(own, environ=environ, others=others).context

    assert context.secret_values == ("plain-000", "theirs-00")
    assert context.secret_names == ("GONE", "THEIRS")


def test_what_a_kind_reads_by_itself_is_its_agents_own_and_no_other_kinds() -> None:
    login = ProviderKind("login", Options, FakeProvider, environment=("LOGIN",))  # type: ignore[arg-type]
    cloud = ProviderKind("cloud", Options, FakeProvider, environment=("CLOUD_KEY", "CLOUD_TOKEN"))  # type: ignore[arg-type]
    agents = [agent("me", "login"), agent("twin", "login"), agent("b", "cloud"), agent("c", "fake", api_key={"env": "LOGIN"}), agent("d", "gone")]

    context = build(agents[0], kinds=KINDS | {"login": login, "cloud": cloud}, environ={"LOGIN": "sk-login-1"}, others=agents).context

    assert context.secret_names == ("CLOUD_KEY", "CLOUD_TOKEN")
    assert context.secret_values == ()


@pytest.mark.parametrize("stand_in", ["1", "true", "dummy", "local"])
def test_a_stand_in_for_a_key_takes_no_variable_away(stand_in: str) -> None:
    assert build(agent(), others=[agent("b", api_key=stand_in)], environ={"SWITCH": stand_in}).context.secret_values == ()


def test_other_agents_commands_are_not_run(tmp_path: Path) -> None:
    other = agent("b", api_key={"cmd": ["touch", str(tmp_path / "ran")]})

    build(agent(), others=[other])

    assert not (tmp_path / "ran").exists()


def test_a_missing_secret_names_variable_and_agent() -> None:
    with pytest.raises(ConfigError, match=r"agents\.a\.api_key: the environment variable KEY is not set"):
        build(agent(api_key={"env": "KEY"}))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"modell": "m"}, "file:/c.toml: agents.a.modell: unknown option of the provider fake; did you mean `model`?"),
        ({"idle_timeout": "5s"}, "agents.a.idle_timeout: unknown option of the provider fake; it belongs under [agents.a.limits]"),
        ({"promt": "x"}, "did you mean `prompt`?"),
        ({"base_url": 3}, "file:/c.toml: agents.a.base_url: 3 is not usable: Input should be a valid string"),
        ({"temperature": -1}, "agents.a.temperature: -1 is not usable: Input should be greater than or equal to 0"),
        ({"headers": {"x": 3}}, "agents.a.headers.x: Input should be a valid string"),
        ({"\x1b[2J": 1}, "agents.a.'\\x1b[2J': unknown option"),
    ],
)
def test_options_that_a_kind_does_not_take_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(agent(**options))

    assert said in caught.value.message
    assert said in str(agent_problems([agent(**options)], KINDS)[0])


def test_a_missing_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"agents\.a\.base_url: is missing; the provider fake needs it"):
        build(AgentConfig(name="a", provider="fake"))


def test_every_wrong_option_of_an_agent_is_reported_at_once() -> None:
    with pytest.raises(ConfigError, match="2 problems"):
        build(agent(modell="m", temperature=-1))


@pytest.mark.trial("T96")
def test_t96_a_secret_is_in_no_error_whatever_a_plugin_says() -> None:
    def leaks(options: Options, context: AgentContext) -> Any:
        raise RuntimeError(f"cannot use {options.api_key.get_secret_value() if options.api_key else ''} for {options.base_url}")

    with pytest.raises(ConfigError, match="the key") as validator:
        build(agent(api_key="bad" + KEY))
    with pytest.raises(PluginError, match="cannot be made") as factory:
        build(agent(api_key={"env": "KEY"}), environ={"KEY": KEY}, kinds={"fake": ProviderKind("fake", Options, leaks)})
    with pytest.raises(ConfigError, match="api_key") as header:
        build(agent(api_key="sk", headers={"Authorization": KEY, "other": 3}, modell=KEY, api_key_=1))

    for caught in (validator, factory, header):
        assert KEY not in caught.value.message
        assert caught.value.__cause__ is None
        assert not isinstance(caught.value.__context__, Exception) or KEY not in str(caught.value.__context__) or caught.value.__suppress_context__


class Broken(BaseModel):
    """Options whose validators break with more than what pydantic expects of them."""

    how: str
    api_key: SecretStr

    @model_validator(mode="after")
    def _break(self) -> Broken:
        if self.how == "exits":
            raise SystemExit(0)
        raise LookupError(f"no use for {self.api_key.get_secret_value()}")


@pytest.mark.parametrize("how", ["raises", "exits"])
def test_a_model_of_options_that_breaks_is_a_problem_of_its_own_agents(how: str) -> None:
    kinds = {**KINDS, "broken": ProviderKind("broken", Broken, FakeProvider)}  # type: ignore[arg-type]  # as above
    broken = AgentConfig("z", "broken", {"how": how, "api_key": Secret(KEY)}, sources={"provider": "file:/c.toml"})

    problems = agent_problems([agent(temperature=-1), broken], kinds)

    assert [problem.path for problem in problems] == ["agents.a.temperature", "agents.z"]
    assert "the provider broken breaks when it checks the options: " in problems[1].text
    assert KEY not in str(problems)
    with pytest.raises(ConfigError) as refused:
        build(broken, kinds=kinds)
    assert KEY not in refused.value.message


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda *_: None, "its factory gave NoneType, which has no run, preview, check"),
        (lambda *_: sys.exit(0), "the provider fake cannot be made: SystemExit in test_agents.py"),
        (lambda options, context: replaced(FakeProvider(options, context), capabilities=True), "its capabilities are bool"),
        (
            lambda options, context: replaced(FakeProvider(options, context), capabilities=Capabilities(context_window_tokens="8k")),
            "context_window_tokens is no",
        ),
        (lambda options, context: replaced(FakeProvider(options, context), capabilities=Capabilities(profile="x")), "profile is none of openai,"),
        (lambda options, context: replaced(FakeProvider(options, context), capabilities=Capabilities(streams="no")), "streams is neither true nor false"),
        (lambda options, context: replaced(FakeProvider(options, context), model=7), "its model is int"),
        (lambda options, context: replaced(FakeProvider(options, context), config_dir=b"/c"), "its config_dir is bytes"),
    ],
)
def test_what_is_no_provider_is_refused(made: Any, said: str) -> None:
    with pytest.raises(PluginError, match=said):
        build(agent(), kinds={"fake": ProviderKind("fake", Options, made)})


def replaced(provider: FakeProvider, **attributes: object) -> FakeProvider:
    vars(provider).update(attributes)
    return provider


def test_an_error_from_the_tree_passes_through_a_factory() -> None:
    def fails(options: Options, context: AgentContext) -> Any:
        raise AuthFailed("not logged in")

    with pytest.raises(AuthFailed):
        build(agent(), kinds={"fake": ProviderKind("fake", Options, fails)})


def test_a_kind_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(PluginError, match="escalera-bedrock brings it"):
        build(agent(provider="bedrock"))


def test_agents_of_missing_kinds_are_left_alone_when_all_are_checked() -> None:
    assert agent_problems([agent(provider="gone", nonsense=1), agent(api_key={"env": "NOT_SET"})], KINDS) == []


def test_prompts_come_from_the_text_or_the_file(tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_bytes(b"\xef\xbb\xbfBe brief.\r\n")

    assert agent_prompt(AgentConfig(name="a", provider="fake")) == ""
    assert agent_prompt(AgentConfig(name="a", provider="fake", prompt="Be kind.")) == "Be kind."
    assert agent_prompt(AgentConfig(name="a", provider="fake", prompt_file=file)) == "Be brief.\r\n"


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"\xff\xfeB\0", "is in UTF-16"), (b"caf\xe9", "byte 0xe9 at line 1, column 4")])
def test_a_prompt_file_that_cannot_be_read_names_agent_source_and_file(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "prompt.md"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError, match=said) as caught:
        agent_prompt(AgentConfig(name="a", provider="fake", prompt_file=file, sources={"prompt_file": "file:/c.toml"}))

    assert caught.value.message.startswith("agents.a.prompt_file (file:/c.toml): ")
    assert str(file) in caught.value.message
