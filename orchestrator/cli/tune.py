"""`escalera tune`: what other limits would have done to one's own sessions. Writes nothing but, where it is told to, the limit that was chosen."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.charts import CLASSES, bars, compact, shown_value, svg
from orchestrator.cli.edits import file_options, tell
from orchestrator.cli.front import Front
from orchestrator.cli.usage import shown_dollars
from orchestrator.documents.tune import InForce, tune_document
from orchestrator.edits import edited
from orchestrator.errors import EscaleraError, UsageError
from orchestrator.history.budget import estimate_tokens
from orchestrator.settings.files import shown_path
from orchestrator.settings.toml_text import spelled
from orchestrator.tuning.cases import Reader
from orchestrator.tuning.knobs import NEED, SWEEPS, Variant, knob, variant
from orchestrator.tuning.past import past_of
from orchestrator.tuning.sweep import Outcome, Task, replay
from orchestrator.tuning.work import Job, known_percepts, replay_stored

if TYPE_CHECKING:
    from orchestrator.documents.kinds.tuning import SelfTest, TuneApplied, TuneDocument, TuneFigures, TuneSetting, TuneSweep

_CHEAPEST = "cheapest"


@click.command("tune")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option("--sweep", "sweeps", multiple=True, metavar="LIMIT[=V1,V2,…]", help="A limit and the values to try; without values a row that suits it.")
@click.option("--agent", metavar="NAME", help="Only this agent's turns, under limits of its own.")
@click.option("--session", "ref", metavar="REF", help="Only this session: an id, the beginning of one, or a name.")
@click.option("--all-workspaces", is_flag=True, help="Of all directories; else of this one.")
@click.option("--since", metavar="TIME", help="Only turns since then: a day, a time, or how long ago, as in 7d.")
@click.option("--apply", "chosen", metavar="LIMIT=VALUE", help="Write this limit into the configuration; `cheapest`: the one that the only sweep found.")
@file_options
@click.option("--svg", "picture", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw the sweeps there, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the tune document.")
@click.pass_obj
def command(
    front: Front,
    files: tuple[Path, ...],
    sweeps: tuple[str, ...],
    agent: str | None,
    ref: str | None,
    all_workspaces: bool,
    since: str | None,
    chosen: str | None,
    project: bool,
    picture: Path | None,
    as_json: bool,
) -> None:
    """What other limits would have done to your own sessions: turns decided otherwise, tokens, cost, what would be left out.

    Each recorded turn is decided again by what it was decided by then. FILE is an export, in the place of what is stored. Answers
    and the order of turns are held as they were. Nobody is called and nothing is written, but for the limit of --apply.
    """
    if ref is not None and (all_workspaces or files):
        raise UsageError("--session names one stored session; it goes neither with --all-workspaces nor with files")
    if agent is not None:
        front.settings.agent(agent)
    wanted = _wanted(sweeps, chosen, agent)
    task = Task(_variants(front, wanted, agent), _readers(front), agent, None if since is None else Front.since(since, front.clock.now()))
    outcome = _of_files(front, files, task) if files else _of_store(front, ref, task, everywhere=all_workspaces, watched=not as_json and sys.stderr.isatty())
    now = _in_force(front, task)
    document = tune_document(outcome, task, now)
    applied = None if chosen is None else _applied(front, _choice(chosen, document, task), project=project)
    if applied is not None:
        document = tune_document(outcome, task, now, applied)
    if picture is not None:
        _draw(picture, document)
    if as_json:
        front.output.print_json(document)
    else:
        _say(front, document)


# -- what is tried -------------------------------------------------------------------------------


def _wanted(sweeps: Sequence[str], chosen: str | None, agent: str | None) -> dict[str, list[str]]:
    """The limits to sweep, each with its values as they were written."""
    wanted: dict[str, list[str]] = {}
    for text in sweeps:
        name, given, values = text.partition("=")
        limit = knob(name.strip())
        if not given and limit not in SWEEPS:
            raise UsageError(f"--sweep {limit}: which values are to be tried?", hint=f"as in --sweep {limit}=100000,200000")
        wanted.setdefault(limit, []).extend([value.strip() for value in values.split(",")] if given else SWEEPS[limit])
    if chosen is not None and chosen != _CHEAPEST:
        name, given, value = chosen.partition("=")
        if not given:
            raise UsageError(f"--apply {chosen}: which value is to be set?", hint="as in --apply returning_fresh_start_local_turns=5, or `--apply cheapest`")
        wanted.setdefault(knob(name.strip()), []).append(value.strip())
    if chosen == _CHEAPEST and len(wanted) != 1:
        raise UsageError("--apply cheapest goes with just one --sweep", hint="name the limit: --sweep LIMIT")
    return wanted or {limit: list(values) for limit, values in SWEEPS.items() if agent is None or limit != NEED}


def _variants(front: Front, wanted: Mapping[str, Sequence[str]], agent: str | None) -> tuple[Variant, ...]:
    """In the order of their values; what is set now is among them."""
    variants: list[Variant] = []
    for limit, values in wanted.items():
        own = frozenset(config.name for config in front.settings.agents.values() if limit in config.limits)
        tried = [variant(limit, value, agent=agent, except_for=own) for value in values]
        path = tried[0].path if tried else limit
        current = front.settings.explain(path).value
        if current is not None:
            tried.append(variant(limit, str(current).lower() if isinstance(current, bool) else str(current), agent=agent, except_for=own))
        unique = {(one.value is None, one.value): one for one in tried}
        variants += sorted(unique.values(), key=_order)
    return tuple(variants)


def _order(one: Variant) -> tuple[bool, float]:
    """Unlimited last."""
    number = float(one.value) if isinstance(one.value, int | float) else 0.0
    return one.written == "unlimited" or one.value is None, number


def _readers(front: Front) -> dict[str, Reader]:
    """What the configured agents' providers say of the format that they send, and of their models' windows; nobody is called."""
    crew = front.crew(front.workspace, with_secrets=False)
    readers = {}
    for name in front.settings.agents:
        with suppress(EscaleraError):
            agent = crew.agent(name)
            capabilities = agent.provider.capabilities
            wide = estimate_tokens(agent.prompt) - estimate_tokens("x" * len(agent.prompt))
            readers[name] = Reader(capabilities.profile, capabilities.context_window_tokens, wide)
    return readers


def _in_force(front: Front, task: Task) -> InForce:
    values: dict[str, object] = {}
    for one in task.variants:
        current = front.settings.explain(one.path).value
        values[one.limit] = None if current is None else variant(one.limit, str(current), agent=one.agent).value
    unset = {limit for limit, value in values.items() if value is None and all(one.value is not None for one in task.variants if one.limit == limit)}
    prices = {config.name: config.prices for config in front.settings.agents.values()}
    return InForce({limit: value for limit, value in values.items() if limit not in unset}, prices)


# -- what is replayed ----------------------------------------------------------------------------


def _of_store(front: Front, ref: str | None, task: Task, *, everywhere: bool, watched: bool) -> Outcome:
    store = front.store(read_only=True)
    if ref is not None:
        session = store.find(ref, front.workspace)
        sessions, workspaces = [(session.id, store.log(session.id).next_index)], {session.workspace}
    else:
        found = store.list(None if everywhere else front.workspace)
        meant = [one for one in found if task.since is None or one.updated_at is None or one.updated_at >= task.since]
        sessions, workspaces = [(one.id, one.turns) for one in meant], {one.workspace for one in meant}
    overrides = {workspace: tuple(front.overrides(front.project(workspace))) for workspace in workspaces}
    heard = _Heard(front, sum(turns for _, turns in sessions)) if watched else _unheard
    return replay_stored(Job(front.paths.data, task, overrides), store, sessions, heard=heard)


def _unheard(_: int) -> None:
    """Nobody waits at a terminal, or what is printed is read by a program."""


@dataclass(slots=True)
class _Heard:
    """Tells how far a long sweep has come, a few times."""

    front: Front
    turns: int
    told: int = 0

    def __call__(self, done: int) -> None:
        if self.told < (part := 4 * done // max(1, self.turns)) < 4:
            self.told = part
            self.front.output.notice(f"{done:,} of {self.turns:,} turns replayed")


def _of_files(front: Front, files: Sequence[Path], task: Task) -> Outcome:
    from orchestrator.sessions import read_session

    def pasts() -> Iterator[object]:
        for path in files:
            try:
                data = path.read_bytes()
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}") from error
            yield past_of(*read_session(front, data, str(path), new_id=lambda: "<new>", new_nonce=lambda: "<new>"))

    percepts = known_percepts(front.store(read_only=True))
    return replay(pasts(), task, front.templates(front.project(front.workspace)), percepts)  # type: ignore[arg-type]  # a generator of `Past`


# -- what is applied -----------------------------------------------------------------------------


def _choice(chosen: str, document: TuneDocument, task: Task) -> Variant:
    if chosen != _CHEAPEST:
        name, _, value = chosen.partition("=")
        return variant(name.strip(), value.strip(), agent=task.agent)
    (sweep,) = document["sweeps"]
    found = next((one for one in task.variants if one.written == sweep["cheapest"]), None)
    if found is None or not document["self_test"]["decisions"]:
        raise UsageError("there is no turn that says which value is cheapest", hint="give the value: --apply LIMIT=VALUE")
    return found


def _applied(front: Front, one: Variant, *, project: bool) -> TuneApplied:
    """Written as `settings set` writes it."""
    before = front.settings.explain(one.path)
    text = one.written if isinstance(one.written, str) else spelled(one.written)
    done = edited(front, {one.path: text}, project=project)
    tell(front, done, done.settings.explain(one.path) if done.accepted is not False else None)
    given = dict([*before.shadowed, (before.source, before.value)])
    former = given.get(f"file:{done.file}")
    words = ["unset", one.path] if former is None else ["set", one.path, former if isinstance(former, str) else spelled(former)]
    config = [] if front.sources.config_file is None else ["--config", str(front.sources.config_file)]
    undo = shlex.join(["escalera", *config, "settings", *words, *(["--project"] if project else [])])
    return {
        "path": one.path,
        "value": ", ".join(one.written) if isinstance(one.written, tuple) else one.written,
        "file": str(done.file),
        "undo": undo,
    }


# -- what is shown -------------------------------------------------------------------------------


def _draw(file: Path, document: TuneDocument) -> None:
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            opened.write(svg(document))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error


def _say(front: Front, document: TuneDocument) -> None:
    say = front.output.say
    test = document["self_test"]
    if not document["turns"]:
        say("no turns here yet")
    else:
        front.output.heading(f"{document['turns']:,} turns of {document['sessions']:,} sessions; {_error(test)}")
        for mistake in document["mistakes"][:10]:
            say(f"  decided otherwise: session {mistake['session'][:8]}, turn {mistake['turn']}: {mistake['recorded']} became {mistake['replayed']}")
        _say_missing(front, document)
        then = document["then"]
        by_class = ", ".join(f"{name} {compact(int(then['tokens'][name]))}" for name in CLASSES)  # type: ignore[literal-required]  # its keys
        say(f"with the limits of then: {compact(then['tokens']['total'])} tokens read ({by_class}), cost {_cost(then)}; left out: {_left_out(then)}")
        for sweep in document["sweeps"]:
            _say_sweep(front, sweep)
    applied = document["applied"]
    if applied is not None:
        say(f"\nset {applied['path']} = {shown_value(applied['value'])} in {shown_path(Path(applied['file']))}")
        say(f"to undo it: {applied['undo']}")


def _error(test: SelfTest) -> str:
    return f"self-test: {test['decisions_wrong']:,} of {test['decisions']:,} decisions wrong, tokens off by {test['tokens_off_percent']:.2f} %"


def _say_missing(front: Front, document: TuneDocument) -> None:
    if not document["not_replayed"]:
        return
    front.output.say(f"{document['not_replayed']:,} turns cannot be replayed, and are in no figure:")
    by_why: dict[tuple[str, str], list[int]] = {}
    for one in document["missing"]:
        by_why.setdefault((one["session"], one["why"]), []).append(one["turn"])
    for (session, why), turns in list(by_why.items())[:10]:
        front.output.say(f"  session {session[:8]}, {len(turns):,} turns from {min(turns)} to {max(turns)}: {why}")
    if len(by_why) > 10 or len(document["missing"]) < document["not_replayed"]:
        front.output.say("  … --json names the first thousand")


_HEAD = ("value", "modes", "content", *CLASSES, "read", "left out", "cost", "self-test")


def _say_sweep(front: Front, sweep: TuneSweep) -> None:
    rows = [_HEAD, *(_row(setting) for setting in sweep["settings"])]
    told = [column for column in range(len(_HEAD)) if _HEAD[column] != "percepts" or any(row[column] != "0" for row in rows[1:])]
    widths = [max(len(row[column]) for row in rows) for column in told]
    front.output.say()
    for number, row in enumerate(rows):
        line = "  ".join(row[column].rjust(width) for column, width in zip(told, widths, strict=True)).rstrip()
        front.output.heading(f"{sweep['limit']}\n{line}") if number == 0 else front.output.say(line)
    front.output.say()
    for line in bars(sweep):
        front.output.say(line)


def _row(setting: TuneSetting) -> tuple[str, ...]:
    tokens, test = setting["tokens"], setting["self_test"]
    return (
        shown_value(setting["value"]) + ("*" if setting["in_force"] else " "),
        compact(setting["mode_changed"]),
        compact(setting["content_changed"]),
        *(compact(int(tokens[name])) for name in CLASSES),  # type: ignore[literal-required]  # names of `CLASSES` are its keys
        compact(tokens["total"]),
        _left_out(setting),
        _cost(setting),
        f"{test['decisions_wrong']} wrong, {test['tokens_off_percent']:.2f} %",
    )


def _cost(figures: TuneFigures) -> str:
    usd, unknown = figures["cost"]["usd"], figures["cost"]["unknown_turns"]
    if usd is None:
        return "unknown"
    return shown_dollars(usd) + (f" + unknown for {compact(unknown)} turns" if unknown else "")


def _left_out(setting: TuneFigures) -> str:
    left = setting["left_out"]
    named = (
        (left["turns"], "turns"),
        (left["tool_results_shortened"], "results cut"),
        (left["tool_rounds"], "rounds"),
        (left["percepts"], "facts"),
        (setting["refused"], "REFUSED"),
        (setting["beyond_record"], "not on record"),
    )
    return ", ".join(f"{compact(count)} {name}" for count, name in named if count) or "-"
