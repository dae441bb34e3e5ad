"""Usage: what the backend reported, and nothing that it did not."""

from __future__ import annotations

from orchestrator.messages import Usage
from orchestrator.providers import Capabilities
from orchestrator.testing.conformance.checks.check import Check
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault

SPENT = Usage(input_tokens=31, output_tokens=17)
COST = 0.0125


def reported(stage: Stage) -> None:
    stage.harness.answers(ANSWER, usage=SPENT)
    usage = stage.run().succeeded().usage
    if usage is None:
        raise Fault("the backend reported its usage, and no `UsageReport` tells of it")
    if stage.harness.exact and (usage.input_tokens, usage.output_tokens) != (SPENT.input_tokens, SPENT.output_tokens):
        raise Fault(f"31 tokens in and 17 out were reported, and {usage.input_tokens} in and {usage.output_tokens} out are told")
    if not usage.input_tokens or not usage.output_tokens:
        raise Fault(f"{usage.input_tokens} tokens in and {usage.output_tokens} out cannot be")


def unknown(stage: Stage) -> None:
    if not stage.harness.exact:
        raise CannotPlay("the backend counts by itself")
    stage.harness.answers(ANSWER)
    usage = stage.run().succeeded().usage
    if usage is None:
        return
    made_up = {name: value for name in ("input_tokens", "output_tokens", "cost_usd") if (value := getattr(usage, name)) is not None}
    if made_up:
        raise Fault(f"the backend reported no usage, and {made_up} is told; what is unknown is None")


def cost(stage: Stage) -> None:
    stage.harness.answers(ANSWER, usage=Usage(input_tokens=31, output_tokens=17, cost_usd=COST))
    usage = stage.run().succeeded().usage
    if usage is None or usage.cost_usd is None or (stage.harness.exact and abs(usage.cost_usd - COST) > 1e-9):
        raise Fault(f"the backend reported a cost of {COST}, and {None if usage is None else usage.cost_usd} is told")


def reports_usage(capabilities: Capabilities) -> bool:
    return capabilities.reports_usage


def reports_cost(capabilities: Capabilities) -> bool:
    return capabilities.reports_cost


CHECKS = (
    Check("usage.reported", "the tokens that the backend reports are told", reported, reports_usage),
    Check("usage.unknown", "what it does not report stays unknown, not 0", unknown),
    Check("usage.cost", "the cost that the backend reports is told", cost, reports_cost, ("usage.reported",)),
)
