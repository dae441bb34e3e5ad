"""Two plans of a turn for people: what differs in the decision, the budget and what is left out, then in the texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orchestrator.cli.output import Output
from orchestrator.cli.runs import spans
from orchestrator.errors import UsageError
from orchestrator.settings.declarations import BY_PATH, LIMITS
from orchestrator.settings.limits import Limits
from orchestrator.settings.problems import did_you_mean, nearest
from orchestrator.settings.values import parse_value, python_value

if TYPE_CHECKING:
    from orchestrator.documents.kinds.plans import PlanDiffDocument, PlanSide
    from orchestrator.planning.case import Expiry

_NEED = "need_expiry_hours"
_COMPARED = {**LIMITS, _NEED: BY_PATH[_NEED]}


@dataclass(frozen=True, slots=True)
class Others:
    """Other values for limits, whosever turn it is, and for how long a need counts."""

    limits: Mapping[str, object]
    need_hours: float | None = None

    def applied(self, limits: Limits) -> Limits:
        return replace(limits, **self.limits)  # type: ignore[arg-type]  # checked by the settings' declarations

    def expiry(self, expiry: Expiry) -> Expiry:
        return expiry if self.need_hours is None else replace(expiry, need_hours=self.need_hours)


def others_of(given: tuple[str, ...]) -> Others:
    """From `LIMIT=VALUE`. Raises `UsageError`."""
    values: dict[str, object] = {}
    for text in given:
        name, sign, value = text.partition("=")
        short = name.strip().removeprefix("limits.")
        setting = _COMPARED.get(short)
        if not sign or setting is None:
            hint = "as in --compare message_budget_chars=24000"
            raise UsageError(f"--compare: {text[:80]!r} is no LIMIT=VALUE{did_you_mean(nearest(short, _COMPARED))}", hint=hint)
        try:
            values[short] = python_value(setting, parse_value(setting, value.strip(), text=True))
        except ValueError as problem:
            raise UsageError(f"--compare {short}: {problem}") from problem
    hours = values.pop(_NEED, None)
    return Others(values, hours if isinstance(hours, int | float) else None)


def show_diff(output: Output, document: PlanDiffDocument) -> None:
    """The differences; what is the same is not said."""
    before, after = document["before"], document["after"]
    output.heading(f"before: {_who(before)}")
    output.heading(f"after:  {'nothing, it could not be sent' if after is None else _who(after)}")
    for notice in document["notices"]:
        output.say(f"  note: {notice}")
    if document["error"] is not None:
        output.say(f"  {document['error']['message']}")
    if after is not None:
        differing = list(_differences(before, after))
        for line in differing or ["nothing else differs"]:
            output.say(f"  {line}")
        for line in document["diff"] or ["the texts are the same"]:
            output.say(line)


def _who(side: PlanSide) -> str:
    mode = f", mode {side['mode']}" if side["mode"] else ""
    what = "" if side["what"] == f"turn {side['turn']}" else f"{side['what']}, "
    return f"{what}turn {side['turn']}, {side['agent']}, {side['role']}{mode}"


def _differences(before: PlanSide, after: PlanSide) -> Iterator[str]:
    if before["mode"] != after["mode"]:
        yield f"mode: {before['mode'] or 'none'} -> {after['mode'] or 'none'}"
    if before["reasons"] != after["reasons"]:
        yield f"reasons: {_reasons(before)} -> {_reasons(after)}"
    if before["limit_chars"] != after["limit_chars"]:
        yield f"budget: {_limit(before)} -> {_limit(after)}"
    for name, size in before["parts"].items():
        other = after["parts"][name]  # type: ignore[literal-required]  # both have the same keys
        if size != other:
            yield f"{name}: {size:,} -> {other:,} characters"
    if before["total_chars"] != after["total_chars"]:
        tokens = f"about {before['tokens_estimate']:,} -> {after['tokens_estimate']:,} tokens"
        yield f"in all: {before['total_chars']:,} -> {after['total_chars']:,} characters, {tokens}"
    if before["scope"] != after["scope"]:
        yield f"history: {before['scope']} -> {after['scope']}"
    yield from _turns("turns sent", before["sent"], after["sent"])
    yield from _turns("left out (budget)", before["dropped"], after["dropped"])
    yield from _turns("tool results shortened in", before["shortened"], after["shortened"])
    counted = (
        ("rounds of tool calls left out", before["rounds_left_out"], after["rounds_left_out"]),
        ("remembered facts told", before["percepts"], after["percepts"]),
        ("remembered facts withheld", before["percepts_withheld"], after["percepts_withheld"]),
    )
    for name, old, new in counted:
        if old != new:
            yield f"{name}: {old} -> {new}"


def _turns(what: str, before: list[int], after: list[int]) -> Iterator[str]:
    if before != after:
        yield f"{what}: {spans(before) or 'none'} -> {spans(after) or 'none'}"


def _reasons(side: PlanSide) -> str:
    return "; ".join(f"{reason['rule']} ({reason['detail']})" for reason in side["reasons"])


def _limit(side: PlanSide) -> str:
    return "no limit" if side["limit_chars"] is None else f"{side['limit_chars']:,} characters"
