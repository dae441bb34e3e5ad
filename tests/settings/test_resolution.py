from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ConfigError, NotFound
from orchestrator.settings.limits import Limits
from orchestrator.settings.problems import ConfigProblems, Problem
from orchestrator.settings.resolution import zero_config_notice
from orchestrator.settings.trust import TrustStore

AGENTS = """
primary = "cheap"
escalation = "strong"
[agents.cheap]
provider = "openai"
base_url = "http://127.0.0.1:8080/v1"
model = "small"
[agents.strong]
provider = "claude-cli"
"""


def trust(place: Any) -> None:
    TrustStore(place.paths.trust_file).trust(place.project_file, place.project_file.read_bytes())


def problems_of(place: Any, **more: Any) -> str:
    with pytest.raises(ConfigProblems) as caught:
        place.load(**more)
    return str(caught.value)


def test_nothing_configured_gives_the_two_built_in_agents_and_a_way_on(place: Any) -> None:
    settings = place.load()

    assert settings.zero_config
    assert {name: agent.provider for name, agent in settings.agents.items()} == {"local": "embedded", "stand-in": "embedded"}
    assert (settings.primary, settings.escalation) == ("local", "stand-in")
    assert settings.limits("local") == Limits()
    notice = zero_config_notice(settings) or ""
    assert "no judge of anything" in notice
    assert "--set agents.local.provider=openai --set agents.local.base_url=http://127.0.0.1:11434/v1" in notice
    assert not place.paths.config.exists()


def test_what_the_notice_tells_to_write_leaves_a_working_pair(place: Any) -> None:
    notice = zero_config_notice(place.load()) or ""
    line = " ".join(notice.replace("\\\n", "").split("in one line: ")[1].split())
    sets = [word for word in line.split() if "=" in word]
    snippet = "\n".join(row.strip() for row in notice.splitlines() if row.startswith("  [") or " = " in row)

    by_line = place.load(sets=sets)
    place.paths.user_file.parent.mkdir(parents=True, exist_ok=True)
    place.paths.user_file.write_text(snippet)
    by_file = place.load()

    assert [(settings.primary, settings.escalation) for settings in (by_line, by_file)] == [("local", "stand-in")] * 2
    assert [by_line.agent(name).provider for name in ("local", "stand-in")] == ["openai", "embedded"]
    assert [by_file.agent(name).provider for name in ("local", "stand-in")] == ["openai", "claude-cli"]
    assert by_line.agent("local").options == by_file.agent("local").options == {"base_url": "http://127.0.0.1:11434/v1", "model": "NAME"}


def test_a_primary_alone_has_nobody_to_hand_over_to(place: Any) -> None:
    settings = place.load(sets=["agents.local.provider=openai", "agents.local.base_url=http://127.0.0.1:11434/v1", "agents.local.model=NAME"])

    assert settings.primary == "local"
    assert settings.agent("local").options == {"base_url": "http://127.0.0.1:11434/v1", "model": "NAME"}
    assert zero_config_notice(settings) is None
    with pytest.raises(ConfigError, match="`escalation` is not set"):
        _ = settings.escalation


def test_limits_of_built_in_agents_can_be_set_without_any_other_configuration(place: Any) -> None:
    settings = place.load(sets=["agents.local.limits.idle_timeout=5s"])

    assert settings.zero_config
    assert settings.limits("local").idle_timeout == 5.0
    assert settings.limits("stand-in").idle_timeout == 120.0


def test_each_source_shadows_the_ones_below_it(place: Any) -> None:
    user = place.user("need_expiry_hours = 1")
    project = place.project("need_expiry_hours = 2")
    env = {"ESCALERA_NEED_EXPIRY_HOURS": "3"}

    explained = place.load(env=env, flags={"need_expiry_hours": "4"}, sets=["need_expiry_hours=5"], runtime={"need_expiry_hours": 6}).explain(
        "need_expiry_hours"
    )

    assert (explained.value, explained.source, explained.default) == (6, "runtime", 24)
    assert explained.shadowed == (("flag", 5), ("flag", 4), ("env:ESCALERA_NEED_EXPIRY_HOURS", 3), (f"file:{project}", 2), (f"file:{user}", 1), ("default", 24))
    assert (explained.type, explained.unit, explained.flag, explained.env) == ("number", "hours", "--need-expiry-hours", "ESCALERA_NEED_EXPIRY_HOURS")


def test_the_source_of_a_default_is_default_and_nothing_is_shadowed(place: Any) -> None:
    explained = place.load().explain("questions.ttl")

    assert (explained.value, explained.source, explained.shadowed) == ("120s", "default", ())


def test_values_for_code_are_seconds_numbers_and_none(place: Any) -> None:
    settings = place.load(env={"ESCALERA_QUESTIONS_MAX_AGE": "45m"})

    assert settings.value("questions.max_age") == 2700.0
    assert settings.value("percept_store_max") is None
    assert settings.value("fallback") is False
    assert settings.value("session_wait") == 30.0
    assert settings.value("plugins.blocked") == ()


def test_a_config_file_stands_in_for_both_files_and_is_trusted(place: Any, tmp_path: Path) -> None:
    place.user("need_expiry_hours = 1")
    place.project("waiting_expiry_hours = 2")
    given = tmp_path / "given.toml"
    given.write_text(AGENTS + "[plugins]\nstrict = true")

    settings = place.load(config_file=given)

    assert settings.value("need_expiry_hours") == settings.value("waiting_expiry_hours") == 24
    assert settings.value("plugins.strict") is True
    assert settings.agent("cheap").source == f"file:{given}"
    assert settings.notices == ()


def test_an_agents_own_limit_goes_before_the_global_one_whatever_its_source(place: Any) -> None:
    user = place.user(AGENTS + "[limits]\nidle_timeout = '10s'\n[agents.cheap.limits]\nidle_timeout = '20s'")

    settings = place.load(flags={"limits.idle_timeout": "30s"})

    assert settings.limits("cheap").idle_timeout == 20.0
    assert settings.limits("strong").idle_timeout == 30.0
    explained = settings.explain("agents.cheap.limits.idle_timeout")
    assert (explained.value, explained.source) == ("20s", f"file:{user}")
    assert explained.shadowed == (("flag", "30s"), (f"file:{user}", "10s"), ("default", "120s"))
    assert settings.explain("agents.strong.limits.idle_timeout").source == "flag"


def test_the_message_budget_of_an_agent_and_the_global_one_stay_apart(place: Any) -> None:
    place.user(AGENTS + "[limits]\nmessage_budget_chars = 5000\n[agents.strong.limits]\nmessage_budget_chars = 'unlimited'")

    settings = place.load()

    assert (settings.limits("cheap").message_budget_chars, settings.limits("cheap").global_message_budget_chars) == (None, 5000)
    assert (settings.limits("strong").message_budget_chars, settings.limits("strong").global_message_budget_chars) == (0, 5000)


def test_an_agent_that_is_not_configured_has_the_global_limits(place: Any) -> None:
    assert place.load(sets=["limits.max_tool_iterations=3"]).limits("gone").max_tool_iterations == 3


def test_roles_are_swapped_by_one_word(place: Any) -> None:
    place.user(AGENTS + "[agents.other]\nprovider = 'openrouter'")

    assert place.load(flags={"escalation": "other"}).escalation == "other"
    assert place.load(env={"ESCALERA_ESCALATION": "other"}).escalation == "other"


def test_a_role_without_an_agent_is_an_error_only_when_it_is_used(place: Any) -> None:
    place.user("[agents.only]\nprovider = 'claude-cli'")

    settings = place.load()

    with pytest.raises(ConfigError, match="`primary` is not set") as caught:
        _ = settings.primary
    assert "only" in (caught.value.hint or "")


def test_a_role_must_name_an_agent(place: Any) -> None:
    place.user(AGENTS)

    assert "--primary" not in problems_of(place, sets=["primary=chep"])
    assert "no agent 'chep' is configured; did you mean `cheap`?" in problems_of(place, sets=["primary=chep"])


def test_one_agent_cannot_play_both_roles(place: Any) -> None:
    place.user(AGENTS)

    assert "as `primary` is" in problems_of(place, sets=["escalation=cheap"])


def test_an_unknown_agent_is_not_found_and_the_nearest_is_named(place: Any) -> None:
    place.user(AGENTS)

    with pytest.raises(NotFound, match="did you mean `strong`"):
        place.load().agent("stron")


def test_naming_another_provider_drops_the_options_of_the_one_below(place: Any) -> None:
    place.user(AGENTS + "[agents.cheap.limits]\nretry_attempts = 1")

    agent = place.load(sets=["agents.cheap.provider=bedrock", "agents.cheap.region=eu-west-1"]).agent("cheap")

    assert agent.options == {"region": "eu-west-1"}
    assert agent.limits == {"retry_attempts": 1}


@pytest.mark.parametrize(
    ("assignment", "option", "wanted"),
    [
        ("agents.cheap.model=gpt", "model", "gpt"),
        ('agents.cheap.model="quoted"', "model", "quoted"),
        ("agents.cheap.model=405", "model", "405"),
        ("agents.cheap.headers.x-one=1", "headers", {"x-one": "1"}),
        ("agents.cheap.env.DEBUG=false", "env", {"DEBUG": False}),
        ("agents.cheap.prompt_caching=false", "prompt_caching", False),
        ("agents.cheap.inference.temperature=0.5", "inference", {"temperature": 0.5}),
        ("agents.cheap.add_dirs=['/a', '/b']", "add_dirs", ["/a", "/b"]),
        ("agents.cheap.base_url=http://h/v1?a=b", "base_url", "http://h/v1?a=b"),
        ("agents.cheap.model=1\nother = 2", "model", "1\nother = 2"),
    ],
)
def test_set_takes_toml_and_bare_texts(place: Any, assignment: str, option: str, wanted: object) -> None:
    place.user(AGENTS)

    assert place.load(sets=[assignment]).agent("cheap").options[option] == wanted


def test_set_lays_one_header_over_the_others(place: Any) -> None:
    place.user(AGENTS + "[agents.cheap.headers]\nx-one = '1'")

    assert place.load(sets=["agents.cheap.headers.x-two=b"]).agent("cheap").options["headers"] == {"x-one": "1", "x-two": "b"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("need_expiry = 3", "need_expiry: unknown key; did you mean `need_expiry_hours`?"),
        ("[limits]\nidle_timout = '3s'", "limits.idle_timout: unknown key; did you mean `limits.idle_timeout`?"),
        ("idle_timeout = '3s'", "idle_timeout: unknown key here; it belongs under [limits]"),
        ("max_age = '3s'", "it belongs under [questions] or under [tasks]"),
        ("[limits]\nprimary = 'x'", "limits.primary: unknown key here; it belongs at the top of the file"),
        ("base_url = 'http://h'", "base_url: unknown key here; it belongs under [agents.NAME]"),
        ("[agents]\nmodel = 'm'", "agents.model: belongs under [agents.NAME]"),
        ("[agent.strong]\nprovider = 'x'", "agent.strong: unknown table; did you mean `agents.strong`?"),
        ("[limit]\nidle_timeout = '3s'", "limit.idle_timeout: unknown table; did you mean `limits.idle_timeout`?"),
        ("[zzz]\nprovider = 'x'", "zzz: unknown table; did you mean `agents.zzz`?"),
        ("limits = 3", "limits: 3 is not usable; expected a table: [limits]"),
        ("agents = 3", "agents: is not a table"),
        ("[agents.x]\nprovider = 3", "agents.x.provider: 3 is not usable; expected a text"),
        ("[agents.x]\nmodel = 'm'\n[agents.y]\nprovider = 'p'", "agents.x: has no `provider`"),
        ("[agents.x.limits]\nidle_timout = '3s'", "agents.x.limits.idle_timout: unknown key; did you mean `agents.x.limits.idle_timeout`?"),
        ("[agents.x]\nlimits = 3", "agents.x.limits: 3 is not usable"),
        ("[agents.x.limits]\nretry_attempts = -1", "agents.x.limits.retry_attempts: -1 is too small; expected a whole number, at least 0"),
        ("[agents.'a b']\nprovider = 'x'", "is no name for an agent"),
        ("[agents.x]\nprovider = 'x'\nprompt = 'a'\nprompt_file = 'b'", "agents.x.prompt: stands beside `prompt_file`"),
        ("[agents.x]\nprovider = 'x'\nprices = {inptu = 1}", "agents.x.prices: has the unknown key inptu; did you mean `input`?"),
        ("[agents.x]\nprovider = 'x'\nprices = {input = -1}", "-1 is not usable as `input`"),
        ("[agents.x]\nprovider = 'x'\napi_key = {evn = 'K'}", "agents.x.api_key: is not usable as a secret"),
        ("[questions]\nttl = '2h'", "questions.ttl 2h (file:"),
        ("[tasks]\nmax_age = '1m'", "tasks.ttl 10m (default) is longer than tasks.max_age 1m (file:"),
        ("[artifacts]\nidle_ttl = '2d'", "artifacts.idle_ttl 2d (file:"),
        ('"\\u001b[2J" = 1', "'\\x1b[2J': unknown key"),
        (f"limits = 0x{'f' * 20000}", "limits: a number of thousands of digits is not usable"),
    ],
)
def test_wrong_keys_and_values_are_named_with_what_was_meant(place: Any, text: str, said: str) -> None:
    path = place.user(text)

    message = problems_of(place)

    assert said in message
    assert str(path) in message


def test_unknown_variables_flags_and_assignments_are_named(place: Any) -> None:
    message = problems_of(
        place,
        env={"ESCALERA_QUESTION_TTL": "1s", "ESCALERA_AGENTS_LOCAL_MODEL": "m", "ESCALERA_SESSION_WAIT": "30"},
        flags={"questions.tl": "1s"},
        sets=["primry=x", "nonsense-secret", "agents.nobody.model=m", "agents.local.limits.x=1"],
    )

    assert "ESCALERA_QUESTION_TTL: unknown variable; did you mean `ESCALERA_QUESTIONS_TTL`?" in message
    assert "ESCALERA_AGENTS_LOCAL_MODEL: agents' values have no environment variables" in message
    assert "ESCALERA_SESSION_WAIT: session_wait: '30' is not usable; expected a duration with its unit" in message
    assert "questions.tl: unknown key; did you mean `questions.ttl`?" in message
    assert "--set: primry: unknown key; did you mean `primary`?" in message
    assert "--set: number 2 is not of the form PATH=VALUE" in message
    assert "nonsense-secret" not in message
    assert "agents.nobody: has no `provider`" in message
    assert "agents.local.limits.x" in message


def test_an_empty_variable_is_refused_by_name(place: Any) -> None:
    assert "ESCALERA_QUESTIONS_TTL: questions.ttl: is empty" in problems_of(place, env={"ESCALERA_QUESTIONS_TTL": ""})


def test_variables_of_our_prefix_that_are_no_settings_are_left_alone(place: Any) -> None:
    assert place.load(env={"ESCALERA_TEST_SLOWNESS": "3", "ESCALERATOR": "x"}).zero_config


def test_the_problems_of_a_check_join_the_others(place: Any) -> None:
    place.user("need_expiry = 3")

    message = problems_of(place, check=lambda settings: [Problem("file:x", "agents.local.modell", "unknown option")])

    assert message.startswith("2 problems")
    assert "agents.local.modell" in message


def test_explaining_an_unknown_path_names_the_nearest(place: Any) -> None:
    settings = place.load()

    for path, meant in {
        "questions.max_ag": "questions.max_age",
        "agents.locl.model": "local",
        "agents.local.modell": "agents.local.model",
        "agents.local.limits.idle_timout": "agents.local.limits.idle_timeout",
    }.items():
        with pytest.raises(ConfigError, match=f"did you mean `{meant}`"):
            settings.explain(path)


def test_agents_values_are_explained_with_what_they_shadow(place: Any) -> None:
    user = place.user(AGENTS)

    explained = place.load(sets=["agents.cheap.model=big"]).explain("agents.cheap.model")

    assert (explained.value, explained.source, explained.shadowed, explained.type) == ("big", "flag", ((f"file:{user}", "small"),), "text")
    assert place.load().explain("agents.strong.model").value is None


def test_a_key_inside_an_agents_table_is_explained_too(place: Any) -> None:
    user = place.user(AGENTS + "headers = { x-one = '1' }\nbody = { temperature = 0.5 }")

    settings = place.load(sets=["agents.strong.body.temperature=0.7", "agents.strong.body.top_k=3"])

    temperature, top_k = (settings.explain(f"agents.strong.body.{key}") for key in ("temperature", "top_k"))
    assert (temperature.value, temperature.source, temperature.shadowed) == (0.7, "flag", ((f"file:{user}", 0.5),))
    assert (top_k.value, top_k.source, top_k.shadowed) == (3, "flag", ())
    assert settings.explain("agents.strong.headers.x-one").value == "***"
    with pytest.raises(ConfigError, match="is not set"):
        settings.explain("agents.strong.body.gone")


def test_what_toml_has_and_json_has_not_is_shown_as_text(place: Any) -> None:
    place.user(AGENTS + "body = { day = 2020-01-01, at = [10:00:00], no = nan, on = inf }")

    body = place.load().explain("agents.strong.body").value

    assert body == {"day": "2020-01-01", "at": ["10:00:00"], "no": "nan", "on": "inf"}
    json.dumps(body, allow_nan=False)


def test_a_path_of_thousands_of_parts_is_refused(place: Any) -> None:
    deep = "agents.x" + ".a" * 3000

    assert "has more than 32 parts" in problems_of(place, sets=[f"{deep}=1"])
    assert "has more than 32 parts" in problems_of(place, runtime={deep: 1})


def test_a_key_that_another_provider_made_void_is_told_as_unset(place: Any) -> None:
    user = place.user(AGENTS + "body = { temperature = 0.5 }")

    replaced = place.load(config_file=user, sets=["agents.strong.provider=openai"]).explain("agents.strong.body.temperature")

    assert (replaced.value, replaced.source) == (None, "default")


def test_all_lists_every_setting_and_what_agents_set(place: Any) -> None:
    place.user(AGENTS + "[agents.cheap.limits]\nidle_timeout = '20s'")

    listed = {explained.path: explained.value for explained in place.load().all()}

    assert listed["need_expiry_hours"] == 24
    assert listed["agents.cheap.model"] == "small"
    assert listed["agents.cheap.limits.idle_timeout"] == "20s"


def test_the_project_file_is_looked_for_upward_but_not_above_home(place: Any) -> None:
    deep = place.workspace / "a" / "b"
    deep.mkdir(parents=True)
    (place.root / "escalera.toml").write_text("need_expiry_hours = 9")
    assert place.load(workspace=deep).project_file is None

    place.project("need_expiry_hours = 2")
    assert place.load(workspace=deep).value("need_expiry_hours") == 2

    (place.root / "elsewhere").mkdir()
    assert place.load(workspace=place.root / "elsewhere").value("need_expiry_hours") == 9


def test_an_untrusted_project_file_sets_only_what_is_harmless(place: Any) -> None:
    place.user(AGENTS)
    place.project(
        "primary = 'evil'\nfallback = true\nneed_expiry_hours = 2\n[limits]\nmax_tool_iterations = 3\n[plugins]\nblocked = ['x']\n"
        "[agents.cheap]\nbase_url = 'http://evil.example'\n[agents.cheap.limits]\nretry_attempts = 1\n"
        "[agents.evil]\nprovider = 'claude-cli'\nbin = './run-me'\napi_key = {broken = 1}\n[agents.evil.limits]\nretry_attempts = 9"
    )

    settings = place.load()

    assert settings.primary == "cheap"
    assert set(settings.agents) == {"cheap", "strong"}
    assert settings.agent("cheap").options["base_url"] == "http://127.0.0.1:8080/v1"
    assert (settings.value("need_expiry_hours"), settings.value("fallback"), settings.value("plugins.blocked")) == (2, False, ())
    assert settings.limits("cheap").max_tool_iterations == 3
    assert settings.limits("cheap").retry_attempts == 1
    (notice,) = settings.notices
    for key in ("primary", "fallback", "plugins.blocked", "agents.cheap.base_url", "agents.evil.provider", "agents.evil.bin", "agents.evil.limits"):
        assert key in notice
    assert notice.endswith("escalera trust")


def test_an_untrusted_project_file_may_choose_among_the_users_agents(place: Any) -> None:
    place.user(AGENTS + "[agents.third]\nprovider = 'openrouter'")
    place.project("escalation = 'third'")

    settings = place.load()

    assert settings.escalation == "third"
    assert settings.notices == ()


def test_a_role_of_an_untrusted_file_that_does_not_go_with_the_users_own_is_ignored(place: Any) -> None:
    user = place.user("primary = 'a'\nescalation = 'b'\n[agents.a]\nprovider = 'p'\n[agents.b]\nprovider = 'p'")
    place.project("primary = 'b'\nneed_expiry_hours = 2")

    settings = place.load()

    assert (settings.primary, settings.escalation, settings.value("need_expiry_hours")) == ("a", "b", 2)
    assert "these are ignored: primary." in settings.notices[0]
    user.write_text(user.read_text().replace("escalation = 'b'", "escalation = 'c'"))
    with pytest.raises(ConfigError, match=r"config\.toml: escalation: no agent 'c'"):
        place.load()


def test_malformed_keys_of_an_untrusted_file_are_named_too(place: Any) -> None:
    place.user(AGENTS)
    place.project("[agents.x]\nprovider = 7\nprices = { x = 1 }\nbin = 'b'\n[agents.'a b']\nprovider = 'p'")

    (notice,) = place.load().notices

    assert [key for key in ("agents.x.bin", "agents.x.provider", "agents.x.prices", "agents.'a b'") if key not in notice] == []


def test_a_trusted_project_file_sets_everything_until_it_changes(place: Any) -> None:
    place.project(AGENTS)
    trust(place)
    assert place.load().primary == "cheap"
    assert place.load().project_trusted

    place.project(AGENTS + "# changed")
    changed = place.load()

    assert changed.zero_config
    assert not changed.project_trusted


def test_unknown_keys_of_an_untrusted_file_are_errors_too(place: Any) -> None:
    place.project("need_expiry = 1")

    assert "did you mean `need_expiry_hours`" in problems_of(place)


@pytest.mark.parametrize("secret", ["api_key = 'sk-user'", "api_key = {env = 'K'}", "headers = {x-org = 'mine'}", "token_cmd = ['echo', 'sk-user']"])
def test_a_users_secret_is_not_sent_to_a_base_url_of_the_project(place: Any, secret: str) -> None:
    place.user(f"[agents.cheap]\nprovider = 'openai'\n{secret}")
    place.project("[agents.cheap]\nbase_url = 'http://evil.example'")
    trust(place)

    message = problems_of(place)

    assert "would be sent to the `base_url` of" in message
    assert "sk-user" not in message


def test_a_secret_may_go_to_a_base_url_of_its_own_file_or_of_the_user(place: Any) -> None:
    both = "[agents.cheap]\nprovider = 'openai'\nbase_url = 'http://h'\napi_key = {env = 'K'}"
    place.project(both)
    trust(place)
    assert place.load().agent("cheap").options["base_url"] == "http://h"

    settings = place.load(sets=["agents.cheap.base_url=http://mine"])

    assert settings.agent("cheap").options["base_url"] == "http://mine"


@pytest.mark.parametrize("secret", ["api_key = {env = 'K'}", "additional_fields = {password = 'sk-user'}"])
def test_every_address_of_the_project_is_held_to_that(place: Any, secret: str) -> None:
    place.user(f"[agents.cheap]\nprovider = 'openai'\n{secret}")
    place.project("[agents.cheap]\nendpoint_url = 'http://evil.example'\n")
    trust(place)
    assert "would be sent to the `endpoint_url` of" in problems_of(place)
    place.project("[agents.cheap]\ngateway = 'https://evil.example'\n")
    trust(place)
    assert "would be sent to the `gateway` of" in problems_of(place)
    place.project("[agents.cheap]\nmodel = 'm'\nbody = {page = 'https://fine.example'}\n")
    trust(place)
    assert place.load().agent("cheap").model == "m"


def test_a_header_of_the_users_is_not_sent_to_a_server_of_the_project(place: Any) -> None:
    place.project("[mcp_servers.s]\nurl = 'http://evil.example'\nheaders = {a = 'theirs'}")
    trust(place)
    assert place.load().servers["s"].url == "http://evil.example"

    assert "mcp_servers.s.headers: would be sent to the `url` of" in problems_of(place, sets=["mcp_servers.s.headers.Authorization=sk-user"])
    mine = place.load(sets=["mcp_servers.s.headers.Authorization=sk-user", "mcp_servers.s.url=http://mine.example"])
    assert mine.servers["s"].url == "http://mine.example"


def test_a_variable_of_the_project_stays_theirs_when_another_is_laid_over_it(place: Any) -> None:
    place.project("[agents.x]\nprovider = 'claude-cli'\nenv = {ANTHROPIC_BASE_URL = 'http://evil.example'}")
    trust(place)

    assert "agents.x.env: would be sent to the `env.ANTHROPIC_BASE_URL` of" in problems_of(place, sets=["agents.x.env.ANTHROPIC_API_KEY=sk-user"])


def test_a_relative_prompt_file_counts_from_the_file_that_names_it(place: Any) -> None:
    place.user(AGENTS + "[agents.x]\nprovider = 'p'\nprompt_file = 'x.md'\n[agents.y]\nprovider = 'p'\nprompt_file = '~/y.md'")

    settings = place.load(sets=["agents.cheap.prompt_file=z.md"])

    assert settings.agent("x").prompt_file == place.paths.config / "x.md"
    assert settings.agent("y").prompt_file == Path(place.environ["HOME"]) / "y.md"
    assert settings.agent("cheap").prompt_file == place.workspace / "z.md"


def test_relative_names_of_programs_and_files_count_from_the_file_that_names_them(place: Any) -> None:
    place.user(
        "[agents.x]\nprovider = 'claude-cli'\nbin = './tool.sh'\nadd_dirs = ['docs', '/abs', '~/d']\nmcp_config = 'mcp.json'\n"
        "env = { A = { cmd = ['./key.sh', './arg'] } }\n"
        "[agents.y]\nprovider = 'openai'\ntoken_cmd = ['bin/token', '-v']\ntls_ca = 'ca.pem'\napi_key = { cmd = ['pass', 'x'] }\n"
        "[agents.z]\nprovider = 'claude-cli'\nbin = 'claude'\nmcp_config = '{}'\n"
    )

    settings = place.load(workspace=place.workspace, sets=["agents.w.provider=claude-cli", "agents.w.bin=./here"])

    config, x, y, z = place.paths.config, *(settings.agent(name).options for name in "xyz")
    assert (x["bin"], x["mcp_config"], x["add_dirs"]) == (f"{config}/tool.sh", f"{config}/mcp.json", [f"{config}/docs", "/abs", f"{place.environ['HOME']}/d"])
    assert (x["env"]["A"].cmd, x["env"]["A"].folder) == ((f"{config}/key.sh", "./arg"), str(config))
    assert (y["token_cmd"], y["tls_ca"]) == ([f"{config}/bin/token", "-v"], f"{config}/ca.pem")
    assert (y["api_key"].cmd, y["api_key"].folder) == (("pass", "x"), str(config))
    assert (z["bin"], z["mcp_config"]) == ("claude", "{}")
    assert settings.agent("w").options["bin"] == f"{place.workspace}/here"


def test_a_prompt_from_above_replaces_a_prompt_file_from_below(place: Any) -> None:
    place.user("[agents.x]\nprovider = 'p'\nprompt_file = 'x.md'")

    agent = place.load(sets=["agents.x.prompt=Be brief"]).agent("x")

    assert (agent.prompt, agent.prompt_file) == ("Be brief", None)


@pytest.mark.trial("T96")
def test_t96_secrets_are_in_no_listing_and_no_representation(place: Any) -> None:
    place.user(
        AGENTS.replace("http://127.0.0.1:8080/v1", "https://user:hunter2@h/v1?key=AIzaDEMO123&x=1")
        + "[agents.third]\nprovider = 'openai'\napi_key = 'sk-DEMO-4242424242'\n"
        "headers = {Authorization = 'Bearer sk-DEMO-4242424242', x-trace = {env = 'TRACE'}}"
    )

    settings = place.load()

    said = "".join(map(repr, [settings, settings.layers, settings.agents, settings.all(), settings.agent("third"), settings.agent("third").options]))
    for secret in ("sk-DEMO", "hunter2", "AIzaDEMO123"):
        assert secret not in said
    assert settings.explain("agents.third.api_key").value == "***"
    assert settings.explain("agents.third.headers").value == {"Authorization": "***", "x-trace": "{ env = 'TRACE' }"}
    assert settings.explain("agents.cheap.base_url").value == "https://***@h/v1?key=***&x=1"


@pytest.mark.parametrize("written", ["api_kye = 'short'", "api_keys = ['short']", "auth = 'sk-DEMO-4242424242'", "kye = {x = 'sk-DEMO-4242424242'}"])
def test_a_secret_under_a_misspelt_name_is_not_shown(place: Any, written: str) -> None:
    place.user(f"{AGENTS}[agents.third]\nprovider = 'openai'\n{written}\nstyle = 'plain'\n")

    shown = {one.path: one.value for one in place.load().all()}

    assert not {"short", "sk-DEMO-4242424242"} & set(re.findall(r"[\w-]+", str(shown)))
    assert shown["agents.third.style"] == "plain"


def test_a_command_that_is_no_list_is_not_repeated(place: Any) -> None:
    place.user("[notify]\ncommand = 'curl -u me:hunter2 https://x'\n")

    with pytest.raises(ConfigError, match="a text of 28 characters is not usable"):
        place.load()


@pytest.mark.trial("T93")
def test_t93_every_unknown_misspelt_and_misplaced_key_is_reported_at_once(place: Any) -> None:
    from pydantic import BaseModel, ConfigDict

    from orchestrator.agents import agent_problems
    from orchestrator.providers import ProviderKind

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")
        base_url: str = ""
        model: str = ""

    kinds = {"openai": ProviderKind("openai", Options, lambda options, context: pytest.fail("nothing may be started"))}
    text = (Path(__file__).parents[1] / "trials" / "T93.toml").read_text(encoding="utf-8").replace('type = "openai"', 'provider = "openai"')
    place.user(text)

    message = problems_of(place, check=lambda settings: agent_problems(settings.agents.values(), kinds))

    assert message.startswith("6 problems")
    for report in (
        "base_url: unknown key here; it belongs under [agents.NAME]",
        "max_tokns: unknown key; did you mean",
        "agents.local.modell: unknown option of the provider openai; did you mean `model`?",
        "agents.local.timeout: unknown option of the provider openai",
        "agent.strong: unknown table; did you mean `agents.strong`?",
        "agents.local.limts: unknown option of the provider openai; did you mean `limits`?",
    ):
        assert report in message
