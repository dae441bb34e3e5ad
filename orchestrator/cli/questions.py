"""`escalera questions`: what agents ask while they work, answered from any process (page 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from orchestrator.answers import choices_of, fields_of, is_required, value_of
from orchestrator.asking import how_to_answer
from orchestrator.broker import POLL, Broker
from orchestrator.cli.front import Front
from orchestrator.cli.interrupts import cancelled_by_signals
from orchestrator.documents.question import question_document, question_object
from orchestrator.errors import AnswerInvalid, StoreReadOnly, UsageError
from orchestrator.providers import Answer, Cancel
from orchestrator.questions import StoredQuestion
from orchestrator.quoting import one_line

if TYPE_CHECKING:
    from orchestrator.documents.kinds.questions import QuestionsDocument

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")
session_option = click.option("--session", "ref", metavar="REF", help="Those of this session: an id, the beginning of one, or a name.")


@click.group("questions")
def command() -> None:
    """What agents ask while they work, and what they were answered."""


@command.command("list")
@session_option
@click.option("--all", "everything", is_flag=True, help="Also the answered and expired ones that are kept.")
@json_option
@click.pass_obj
def list_(front: Front, ref: str | None, everything: bool, as_json: bool) -> None:
    """The open questions of all sessions, oldest first. Listing keeps none of them open for longer."""
    store = front.store(read_only=True)
    session = None if ref is None else store.find(ref, front.workspace).id
    found = front.broker(store).listed(session=session, pending=not everything)
    now = store.now()
    if as_json:
        document: QuestionsDocument = {"format": "escalera.questions/1", "questions": [question_object(stored, now) for stored in found]}
        front.output.print_json(document)
        return
    say_questions(front, found)
    if not found:
        front.output.say("no question is open" if not everything else "no question is kept")


def say_questions(front: Front, found: Sequence[StoredQuestion]) -> None:
    """One line each, for people."""
    for stored in found:
        left = (stored.life.expires_at - front.clock.now()).total_seconds()
        stand = f"{_minutes(left)} left" if stored.is_pending else stored.standing
        front.output.say(f"{stored.id[:8]}  {stand:>10}  {stored.question.agent}: {one_line(stored.question.message, 160)}")


@command.command("show")
@click.argument("ref", metavar="ID")
@json_option
@click.pass_obj
def show(front: Front, ref: str, as_json: bool) -> None:
    """One question with all that it asks for. Whoever looks at it keeps it open for longer, up to its ceiling (questions.max_age)."""
    broker = _broker(front)
    stored = broker.read(ref)
    if as_json:
        front.output.print_json(question_document(stored, front.clock.now()))
        return
    say_questions(front, [stored])
    front.output.say()
    front.output.say(stored.question.message)
    if stored.question.url:
        front.output.say(stored.question.url)
    for name, field in fields_of(stored.question).items():
        front.output.say(_field_line(name, field, required=is_required(stored.question, name)))
    front.output.say()
    front.output.say(how_to_answer(stored) if stored.is_pending else _ending(stored))


@command.command("answer")
@click.argument("ref", metavar="ID")
@click.argument("content", nargs=-1, metavar="[JSON | KEY=VALUE …]")
@click.option("--accept", is_flag=True, help="Yes; a form's fields behind it, as one JSON object or as key=value pairs.")
@click.option("--decline", is_flag=True, help="No.")
@click.option("--cancel", "cancelled", is_flag=True, help="Neither: put the question away.")
@json_option
@click.pass_obj
def answer(front: Front, ref: str, content: tuple[str, ...], accept: bool, decline: bool, cancelled: bool, as_json: bool) -> None:
    """Answer an open question; exactly one answer counts. What is accepted too late is kept: `escalera ask --continue` sends it."""
    if accept + decline + cancelled != 1:
        raise UsageError("a question is answered with one of --accept, --decline and --cancel")
    if content and not accept:
        raise UsageError("only --accept takes fields")
    broker = front.broker(front.store())
    stored = broker.peek(ref)
    stored = broker.answer(stored.id, Answer("accept", _content(stored, content)) if accept else Answer("decline" if decline else "cancel"))
    if as_json:
        front.output.print_json(question_document(stored, front.clock.now()))
    else:
        front.output.say(f"question {stored.id[:8]}: {_ending(stored)}")


@command.command("watch")
@session_option
@click.option("--json", "as_json", is_flag=True, help="Print each question as a document on a line, when it comes and when it ends.")
@click.pass_obj
def watch(front: Front, ref: str | None, as_json: bool) -> None:
    """Show questions as they come and as they end, until interrupted. Watching keeps none of them open for longer."""
    store = front.store(read_only=True)
    session = None if ref is None else store.find(ref, front.workspace).id
    broker, cancel, known = front.broker(store), Cancel(), dict[str, StoredQuestion]()
    with cancelled_by_signals(cancel, front.clock.monotonic):
        while not cancel.is_set():
            for stored in _news(broker, session, known):
                if as_json:
                    front.output.print_line(question_document(stored, store.now()))
                else:
                    say_questions(front, [stored])
            front.clock.sleep(POLL, cancel.event)


def _news(broker: Broker, session: str | None, known: dict[str, StoredQuestion]) -> Sequence[StoredQuestion]:
    """Those that came or ended since the last look, which `known` remembers."""
    now = {stored.id: stored for stored in broker.listed(session=session)}
    new = [stored for identity, stored in now.items() if identity not in known]
    gone = [broker.peek(identity) for identity in known if identity not in now]
    known.clear()
    known.update(now)
    return [*gone, *new]


def _broker(front: Front) -> Broker:
    """Of a store that may be written, so that a read can be noted; or of one that cannot."""
    try:
        return front.broker(front.store())
    except StoreReadOnly:
        return front.broker(front.store(read_only=True))


def _content(stored: StoredQuestion, given: Sequence[str]) -> dict[str, Any]:
    """The fields, typed as the question wants them. Raises `UsageError`, `AnswerInvalid`."""
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        return _json_content(given[0])
    fields = fields_of(stored.question)
    content: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{one_line(pair, 60)!r} is no field: give one JSON object, or key=value pairs")
        try:
            content[name] = value_of(fields[name], value) if name in fields else value
        except ValueError as problem:
            content[name], problems[name] = value, str(problem)
    if problems and stored.is_pending:
        said = "; ".join(f"{name} {problem}" for name, problem in problems.items())
        raise AnswerInvalid(f"this does not answer question {stored.id[:8]}: {said}", problems=problems, hint="the question stays as it is")
    return content


def _json_content(text: str) -> dict[str, Any]:
    from orchestrator.documents.json_text import read_json

    value = read_json(text.encode("utf-8", "surrogatepass"), "the answer")
    if not isinstance(value, dict):
        raise UsageError("an answer's fields are one JSON object")
    return value


def _field_line(name: str, field: Mapping[str, Any], *, required: bool) -> str:
    choices = ", ".join(value for value, _ in choices_of(field))
    kind = f"some of {choices}" if field.get("type") == "array" else f"one of {choices}" if choices else str(field.get("type", "string"))
    about = " – ".join(str(field[key]) for key in ("title", "description") if isinstance(field.get(key), str))
    return f"  {name}: {kind}{'' if required else ', may be left out'}{f' ({one_line(about, 300)})' if about else ''}"


def _ending(stored: StoredQuestion) -> str:
    if stored.given is None:
        return "open"
    content = f" {json.dumps(dict(stored.given.answer.content), ensure_ascii=False)}" if stored.given.answer.content else ""
    late = f"; {len(stored.late)} came too late" if stored.late else ""
    return f"{stored.given.answer.action} by {stored.given.answer.by}{content}{late}"


def _minutes(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02}"
