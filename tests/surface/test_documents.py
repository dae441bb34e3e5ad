"""Every document of every command, as the program really prints it, against the schemas that are published."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from orchestrator.cli.app import root
from orchestrator.cli.notify import notification
from orchestrator.documents.schemas import schemas
from orchestrator.settings.grants import Grant, GrantStore
from orchestrator.testing.openai_server import OpenAIServer, chunk, json_reply, reply, sse

from .conftest import Shell
from .starter import Starter

pytestmark = pytest.mark.xdist_group("documents")  # what they share is made once

Document = dict[str, Any]

CLAUDE = """\
#!{python}
import json, sys
def say(*lines):
    for line in lines:
        print(json.dumps(line), flush=True)
sys.stdin.readline()
say({{"type": "system", "subtype": "init", "session_id": "11111111-2222-4333-8444-555555555555", "model": "m"}})
say({{"type": "stream_event", "event": {{"type": "message_start", "message": {{"id": "m1"}}}}}})
say({{"type": "stream_event", "event": {{"type": "content_block_delta", "delta": {{"text": "never mind"}}}}}})
say({{"type": "stream_event", "event": {{"type": "message_start", "message": {{"id": "m2"}}}}}})
say({{"type": "control_request", "request_id": "r1", "request": {{"subtype": "can_use_tool", "tool_name": "Bash", "input": {{"command": "make"}}}}}})
sys.stdin.readline()
say({{"type": "result", "subtype": "success", "is_error": False, "result": "not done", "num_turns": 1}})
sys.stdin.read()
"""
"""A stand-in for the real program: takes an answer back, and asks for a permission."""


@dataclass
class Run:
    """The real commands, and all they printed, by command."""

    shell: Shell
    documents: dict[str, list[Document]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, command: str, *arguments: str, code: int = 0) -> Document:
        result = self.shell.run(*command.split(), *arguments, "--json")
        assert result.returncode == code, result.stderr
        document: Document = json.loads(result.stdout)
        self.documents[f"{command} --json"].append(document)
        return document

    def stream(self, *arguments: str, code: int = 0) -> list[Document]:
        result = self.shell.run("ask", *arguments, "--stream-json")
        assert result.returncode == code, result.stderr
        lines: list[Document] = [json.loads(line) for line in result.stdout.splitlines()]
        self.documents["ask --stream-json"].extend(lines)
        return lines


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, starter: Starter) -> dict[str, list[Document]]:
    """What every command prints in one life of a store: turns that end well and badly, lists full and empty, errors."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "work").mkdir()
    run = Run(Shell(folder / "home", folder / "work", starter=starter))
    with OpenAIServer() as server:
        _configure(run.shell, server.url)
        _empty(run)
        _turns(run, server)
        _events(run, server)
        _questions(run)
        _tasks(run, server)
        _artifacts(run, server)
        _sessions(run, folder)
        _others(run, folder)
    run.documents["notify.command"].append({**notification("answer", session="s", agent="a", text="Done.")})
    return dict(run.documents)


def _configure(shell: Shell, url: str) -> None:
    claude = shell.cwd / "claude"
    claude.write_text(CLAUDE.format(python=sys.executable), "utf-8")
    claude.chmod(0o700)
    agents = "".join(f'[agents.{name}]\nprovider = "openai"\nbase_url = "{url}"\nmodel = "{name}-model"\n' for name in ("local", "strong"))
    limits = '[agents.tiny]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nlimits = { message_budget_chars = 10 }\n'
    broken = '[agents.gone]\nprovider = "no-such-kind"\n[agents.claude]\nprovider = "claude-cli"\nbin = "' + str(claude) + '"\n'
    shell.configure(f'primary = "local"\nescalation = "strong"\n{agents}{limits}{broken}')


def _empty(run: Run) -> None:
    run("session list")
    run("memory list")
    run("plan", "hello")
    run("session show", code=3)
    run("need show", code=3)


def _turns(run: Run, server: OpenAIServer) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "record_memory", "arguments": '{"content": "the user likes tea"}'}}
    server.add(sse(chunk({"tool_calls": [call]}), chunk({}, finish_reason="tool_calls")), reply("It is done.", usage=(12, 2)))
    server.add(reply("Which colour?"), json_reply({"error": {"message": "no such key"}}, status=401))
    run("ask", "begin")
    run("ask", "--escalate", "--reason", "it is hard", "paint it")
    run("ask", "blue", code=1)
    run("plan", "--escalate", "and now?")
    run("plan", "--agent", "claude", "and now?")
    run("plan", "--agent", "tiny", "and now?", code=1)
    run("plan", "--escalate", "--compare", "message_budget_chars=9000")
    run("plan", "--escalate", "--compare", "message_budget_chars=9")
    run("plan", "--escalate", "--diff", "1")
    run("tune")
    run("ask", "--no-such-flag", code=2)


def _events(run: Run, server: OpenAIServer) -> None:
    thinking = chunk({"reasoning_content": "hm"})
    call = {"index": 0, "id": "c2", "function": {"name": "current_need", "arguments": '{"text": "a blue house"}'}}
    busy = json_reply({"error": {"message": "slow down"}}, status=429, headers={"retry-after": "0", "content-type": "application/json"})
    server.add(busy, sse(thinking, chunk({"tool_calls": [call]}), chunk({}, finish_reason="tool_calls")), reply("Noted."))
    run.stream("--primary", "go on")
    run.stream("--agent", "claude", "check it", code=5)
    run.stream("--session", "no-such-session", "hello", code=3)


def _questions(run: Run) -> None:
    """Asked by one process, looked at and answered by others."""
    run("questions list")
    process = run.shell.start("ask", "--agent", "claude", "--wait-questions", "check it")
    while not (found := run("questions list")["questions"]):
        assert process.poll() is None
    watcher = run.shell.start("questions", "watch", "--json")
    assert watcher.stdout is not None
    run.documents["questions watch --json"].append(json.loads(watcher.stdout.readline()))
    watcher.send_signal(signal.SIGINT)
    watcher.communicate()
    run("questions show", found[0]["id"])
    run("questions answer", found[0]["id"], "--accept", "no=field", code=2)
    run("questions answer", found[0]["id"], "--accept")
    run("questions answer", found[0]["id"], "--decline", code=1)
    run("questions show", "no-such-question", code=3)
    process.communicate()
    run("questions list", "--all")
    GrantStore(run.shell.home / "state" / "permissions.json").add(Grant("g1", "local", str(run.shell.cwd), "run(make *)", None, "2026-01-01T00:00:00Z"))
    run("permissions list")
    run("permissions revoke", "--all")
    run("permissions list")
    run("permissions revoke", "gone", code=3)


def _tasks(run: Run, server: OpenAIServer) -> None:
    """A turn in the background."""
    run("tasks list")
    server.add(reply("Done in the background."))
    task = run("ask", "--background", "--primary", "do it there")["id"]
    assert run.shell.run("tasks", "result", task, "--wait").returncode == 0
    run("tasks result", task)
    run("tasks show", task)
    run("tasks cancel", task, code=1)
    run("tasks list")


def _artifacts(run: Run, server: OpenAIServer) -> None:
    """An attached file, and one that is not there."""
    run("artifacts list")
    server.add(reply("I see."))
    (identity,) = run("ask", "--primary", "--file", "claude", "look")["artifacts"]
    assert len(run("artifacts list")["artifacts"]) == 1
    assert run("artifacts show", identity)["text"] == (run.shell.cwd / "claude").read_text("utf-8")
    run("artifacts show", "no-such-artifact", code=3)


def _sessions(run: Run, folder: Path) -> None:
    run("session list")
    run("session search", "paint")
    shown = run("session show")
    run("session show", "--turn", "1", "--wire")
    for turn in (0, 1):
        run("session show", "--turn", str(turn), "--plan")
    run("session fork", "--name", "other")
    run("session rename", "other", "another")
    run("session show", "another")
    run("session drop", "another")
    exported = folder / "exported.json"
    whole = run("session export", shown["id"])
    assert run.shell.run("session", "export", shown["id"], "--output", str(exported)).returncode == 0
    assert json.loads(exported.read_text("utf-8")) == whole
    exported.write_text(json.dumps(whole | {"id": "imported"}), "utf-8")
    run("session import", str(exported))
    run("session drop", "imported", "--purge")
    run("session show", "no-such-session", code=3)


def _others(run: Run, folder: Path) -> None:
    run("need set", "open a bakery")
    for command in ("need show", "need clear", "need restore"):
        run(command)
    learned = run("memory learn", "the door is blue")
    assert run("memory learn", "the door is blue")["stored"] is False
    run("memory learn", "the door is green", "--subject", "door", "--contradicts", learned["id"])
    run("memory list")
    run("memory why", "which tea?", "--agent", "local")
    run("memory forget", learned["id"])
    run("memory archive")
    _memory(run, learned["id"])
    run("agents list")
    run("agents check", code=1)
    for command in ("plugins list", "settings list", "paths"):
        run(command)
    run("plugins check", "openai")
    run("plugins new", "grey")
    _overrides(run)
    run("doctor", "--server", "http://127.0.0.1:9/v1", code=1)
    for key in ("agent", "model", "session", "day"):
        run("usage", "--by", key)
    for path in ("primary", "limits.turn_timeout", "need_expiry_hours"):
        run("settings get", path)
    run("settings set", "limits.turn_timeout", "5m")
    run("settings unset", "limits.turn_timeout")
    run("settings set", "agents.strong.headers.x-team", '{ env = "TEAM" }')
    run("agents add", "other", "--provider", "openai", "--option", "base_url=http://127.0.0.1:9/v1")
    run("agents use", "other", "--as", "escalation")
    (folder / "work" / "escalera.toml").write_text('[agents.theirs]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\napi_key = "sk-1"\n')
    accepted = run("trust", "--yes")
    assert "sk-1" not in json.dumps(accepted)
    run("trust", "--list")
    run("trust", "--revoke")


def _memory(run: Run, forgotten: str) -> None:
    (run.shell.cwd / "facts.jsonl").write_text(
        '{"content": "a light fact", "weight": 20, "id": "light"}\n{"content": "the user likes milk", "id": "milk"}\n{"cut'
    )
    run("memory import", str(run.shell.cwd / "facts.jsonl"))
    run("memory stale")
    run("memory restore", forgotten)
    run("memory consolidate")
    run("memory export")


def _overrides(run: Run) -> None:
    """Templates of the user's own, and one of a project that is not trusted."""
    own, theirs = run.shell.home / "config" / "templates", run.shell.cwd / ".escalera" / "templates"
    for folder, name, text in ((own, "brief", "{{ brief }}"), (own, "need", "{{ need"), (own, "breif", ""), (theirs, "brief", "x"), (theirs, "brif", "x")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jinja").write_text(text, "utf-8")
    run("templates list")


# -- what holds for all of them ------------------------------------------------------------------


def test_every_command_that_prints_json_was_run(printed: dict[str, list[Document]]) -> None:
    assert set(printed) == set(_json_commands(root, "")) | {"notify.command"}


def test_every_document_follows_its_schema_and_has_no_key_that_is_not_declared(printed: dict[str, list[Document]]) -> None:
    problems = [f"{command}: {problem}" for command, document in _all(printed) for problem in _problems(command, document)]

    assert problems == []


def test_every_kind_of_document_was_seen_and_no_other(printed: dict[str, list[Document]]) -> None:
    seen = {_kind(document["format"]) for _, document in _all(printed) if "format" in document}

    assert seen == set(schemas())


def test_every_event_of_a_stream_was_seen(printed: dict[str, list[Document]]) -> None:
    declared = {
        value
        for name, shape in schemas()["stream"]["$defs"].items()
        if name.endswith(("Event", "Started"))
        for value in [shape["properties"]["type"].get("const"), *shape["properties"]["type"].get("enum", [])]
        if value is not None
    }

    assert {line["type"] for line in printed["ask --stream-json"]} == declared


def test_first_line_of_a_stream_names_its_format_and_the_last_is_the_turn_document(printed: dict[str, list[Document]]) -> None:
    lines = printed["ask --stream-json"]

    assert [line["format"] for line in lines if "format" in line] == ["escalera.stream/1", "escalera.turn/1"] * 2 + ["escalera.error/1"]
    assert [line["type"] for line in lines if "format" in line] == ["turn_started", "turn"] * 2 + ["error"]


def test_a_denied_question_stands_in_the_turn_document(printed: dict[str, list[Document]]) -> None:
    turn = next(line for line in printed["ask --stream-json"] if line["type"] == "turn" and line["agent"] == "claude")

    assert any("nobody could be asked" in notice for notice in turn["notices"])
    assert turn["external_session"] == "11111111-2222-4333-8444-555555555555"


def test_the_need_of_a_shown_session_is_a_need_document(printed: dict[str, list[Document]]) -> None:
    shown = [document["need_now"] for document in printed["session show --json"] if "need_now" in document]

    assert shown
    assert [problem for document in shown for problem in _problems("need show", document)] == []


FREE = re.compile(
    r"\$\.delivery[.].*"
    r"|.*\.(value|default|arguments|requested_schema|source|delivered|need_now|extra)([. \[].*)?"
    r"|.*turns\[\]\.receipt([. \[].*)?"
    r"|\$\.receipt\.(routing|rules|limits|facts|flags|conversation_lost)([. \[].*)?"
    r"|\$\.receipt\.report\.(brief|need\.(label|turn_index|source|chars|during|updated_at)|percepts\.over|history\.dropped\.\w+)( \(missing\))?"
    r"|.*\.error\.(which|limit|needed|parts|candidates|problems)([. \[].*)?"
)
"""Places where any value may stand, and keys of errors and receipts that only some have."""


def test_a_schema_refuses_any_key_taken_away_and_any_value_of_another_type(printed: dict[str, list[Document]]) -> None:
    passed = set()
    for command, document in _all(printed):
        schema = _schema(command, document)
        validator = jsonschema.Draft202012Validator(schema)
        of_session = document.get("format") == "escalera.session/1"  # its schema is the reader's, which knows what stands for an absent key
        for path, spoilt in _spoilt(document, remove=not of_session):
            if not FREE.fullmatch(path) and validator.is_valid(spoilt):
                passed.add(f"{command} {path}")

    assert passed == {"ask --stream-json $.format (missing)"}  # only the first line needs it


# -- reading schemas and documents ---------------------------------------------------------------


def _json_commands(command: click.Command, path: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _json_commands(found, f"{path} {name}".strip())
    for option in ("--json", "--stream-json"):
        if any(option in parameter.opts for parameter in command.params):
            yield f"{path} {option}"


def _all(printed: dict[str, list[Document]]) -> Iterator[tuple[str, Document]]:
    return ((command, document) for command, documents in printed.items() for document in documents)


def _kind(name: str) -> str:
    match = re.fullmatch(r"escalera\.([a-z-]+)/1", name)
    assert match is not None, name
    return match[1]


SCHEMAS = schemas()


def _schema(command: str, document: Document) -> dict[str, Any] | None:
    return SCHEMAS.get("stream" if "--stream-json" in command else _kind(document["format"]))


def _problems(command: str, document: Document) -> list[str]:
    schema = _schema(command, document)
    if schema is None:
        return [f"no schema for {document['format']}"]
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(_sealed(schema))
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(document)]


def _sealed(schema: Any) -> Any:
    """The schema without the leave to have further keys, which is meant for fields of later versions."""
    if isinstance(schema, list):
        return [_sealed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    sealed = {key: _sealed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **sealed} if isinstance(schema.get("properties"), dict) and "type" in schema else sealed


def _spoilt(document: Document, *, remove: bool) -> Iterator[tuple[str, Document]]:
    """The document with one key taken away, or with one value of another type; by path."""
    for path in _paths(document, ()):
        spelled = "$" + "".join(f".{step}" if isinstance(step, str) else "[]" for step in path)
        wrong = deepcopy(document)
        holder: Any = wrong
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = "wrong" if isinstance(holder[path[-1]], list | dict) else ["wrong"]
        yield spelled, wrong
        if remove and isinstance(path[-1], str):
            missing = deepcopy(document)
            holder = missing
            for step in path[:-1]:
                holder = holder[step]
            del holder[path[-1]]
            yield f"{spelled} (missing)", missing


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _paths(item, (*path, key))
