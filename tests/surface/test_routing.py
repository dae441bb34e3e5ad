"""Routing as the settings have it: nothing surprising by default, everything to be seen and changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell

Agents = Callable[[str], None]
LOUD = "Why not refactor `src/parser.py`, debug /etc/hosts and design it anew? " * 40


def routed(shell: Shell, *arguments: str, prompt: str = LOUD) -> tuple[str, dict[str, str]]:
    document = shell.json(*arguments, "plan", "--json", prompt)
    return document["agent"], {reason["rule"]: reason["detail"] for reason in document["routing"]}


def test_by_default_no_signal_moves_a_prompt(shell: Shell, agents: Agents) -> None:
    agents("http://127.0.0.1:9")

    assert routed(shell) == ("local", {"default": "nothing asked for another agent"})


@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        (['routing.keywords=["parser.py"]'], "signals weigh 1, and 1 is enough: keywords +1 (sensors, parser.py)"),
        (["routing.long_prompt_chars=2000"], f"signals weigh 1, and 1 is enough: long_prompt +1 (sensors, {len(LOUD):,} characters)"),
        (["routing.verbs_weight=1"], "signals weigh 1, and 1 is enough: verbs +1 (sensors, refactor, debug, design)"),
        (
            ["routing.code_weight=0.6", "routing.paths_weight=0.3", "routing.threshold=0.9"],
            "signals weigh 0.9, and 0.9 is enough: code +0.6 (sensors, code between backticks or in a fence); paths +0.3 (sensors, 80 paths)",
        ),
        (["routing.open_questions_weight=0.5", 'routing.factors=["open_questions=2"]'], "signals weigh 1, and 1 is enough: open_questions +1 (sensors, why)"),
        (["routing.verbs_weight=1", 'routing.verbs=["anew"]'], "signals weigh 1, and 1 is enough: verbs +1 (sensors, anew)"),
    ],
)
def test_each_weight_and_list_counts_as_it_is_set(shell: Shell, agents: Agents, settings: list[str], detail: str) -> None:
    agents("http://127.0.0.1:9")
    flags = [part for setting in settings for part in ("--set", setting)]

    assert routed(shell, *flags) == ("strong", {"rules": detail})


def test_what_was_not_enough_is_told_too(shell: Shell, agents: Agents) -> None:
    agents("http://127.0.0.1:9")
    flags = ("--set", "routing.verbs_weight=0.5", "--set", "routing.code_weight=-0.2")

    said = "signals weigh 0.3, and 1 would be enough: verbs +0.5 (sensors, refactor, debug, design); code -0.2 (sensors, code between backticks or in a fence)"
    assert routed(shell, *flags) == ("local", {"default": f"nothing asked for another agent; {said}"})


def test_no_list_is_hidden(shell: Shell, agents: Agents) -> None:
    agents("http://127.0.0.1:9")
    listed = {setting["path"]: setting["value"] for setting in shell.json("settings", "list", "--json")["settings"]}

    assert "refactor" in listed["routing.verbs"]
    assert "why" in listed["routing.question_words"]
    assert (listed["routing.keywords"], listed["routing.classifier"]) == ([], False)
    assert shell.run("settings", "set", "routing.verbs", "knead,bake").returncode == 0
    assert shell.json("settings", "get", "routing.verbs", "--json")["value"] == ["knead", "bake"]
    assert routed(shell, "--set", "routing.verbs_weight=1", prompt="shall I knead the dough")[0] == "strong"


def test_the_sensors_are_a_plugin_that_can_be_blocked(shell: Shell, agents: Agents) -> None:
    agents("http://127.0.0.1:9")
    (sensors,) = [plugin for plugin in shell.json("plugins", "list", "--json")["plugins"] if plugin["name"] == "sensors"]

    assert (sensors["distribution"], sensors["hooks"], sensors["problem"]) == ("escalera", ["escalera_routing_signals"], None)
    assert routed(shell, "--set", "routing.verbs_weight=1", "--set", 'plugins.blocked=["sensors"]')[0] == "local"


def test_a_project_that_is_not_trusted_cannot_send_prompts_elsewhere(shell: Shell, agents: Agents) -> None:
    agents("http://127.0.0.1:9")
    (shell.cwd / "escalera.toml").write_text("[routing]\nverbs_weight = 1\nrepeated_prompts = 0\nclassifier = true\n")

    result = shell.run("plan", "--json", LOUD)

    assert '"agent": "local"' in result.stdout
    assert all(f"routing.{name}" in result.stderr for name in ("verbs_weight", "repeated_prompts", "classifier"))


def test_asking_the_same_again_hands_over_and_says_why(shell: Shell, agents: Agents) -> None:
    asked = "why does the build of parser.py fail?"
    with OpenAIServer(reply("No idea."), reply("A cycle."), reply("Well.")) as server:
        agents(server.url)
        shell.run("ask", asked)
        plan = shell.json("plan", "--json", asked.upper())
        report = shell.json("ask", "--json", asked.upper())
        off = shell.json("--set", "routing.repeated_prompts=0", "ask", "--json", asked)

    assert (plan["turn"], plan["agent"], plan["mode"], plan["routing"][0]["rule"]) == (2, "strong", "first", "repeated_prompt")
    assert "turn 1" in plan["notices"][0]
    assert (report["turn"], report["role"], report["escalated_from"], report["answer"]) == (2, "escalation", 1, "A cycle.")
    assert report["routing"][0]["rule"] == "repeated_prompt"
    assert [turn["outcome"] for turn in shell.json("session", "show", "--json")["turns"]] == ["completed", "escalated", "completed", "completed"]
    assert off["agent"] == "local"


def test_the_classifier_is_asked_first_where_it_is_wanted(shell: Shell, agents: Agents) -> None:
    with OpenAIServer(reply("ESCALATE: much at stake"), reply("Done.")) as server:
        agents(server.url)
        report = shell.json("--set", "routing.classifier=true", "ask", "--json", "move the shop")
        first, second = (request.body for request in server.requests)

    assert (report["agent"], report["escalated_from"], report["routing"][0]["rule"]) == ("strong", 0, "classifier")
    assert (first["max_tokens"] if "max_tokens" in first else first["max_completion_tokens"]) == 256
    assert not first.get("tools")
    assert "much at stake" in str(second)
