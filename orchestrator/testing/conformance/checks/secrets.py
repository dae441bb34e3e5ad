"""Credentials show up nowhere: not in errors, previews, representations, the log or the kept wire."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from orchestrator.errors import AuthFailed, InvalidRequest, RateLimited, Unavailable
from orchestrator.testing.conformance.checks.check import Check, NotClaimed
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Noted, Stage
from orchestrator.testing.conformance.turns import Fault, Turn, in_full

_FAILURES = (AuthFailed, RateLimited, InvalidRequest, Unavailable)


def in_errors(stage: Stage) -> None:
    secrets = _secrets(stage)
    shown = [turn.error for turn in _failed_turns(stage) if turn.error is not None]
    if not shown:
        raise CannotPlay("the harness plays no failure")
    for error in shown:
        _keeps(secrets, in_full(error), f"its {type(error).__name__}")


def in_previews(stage: Stage) -> None:
    preview = stage.provider.preview(stage.request())
    _keeps(_secrets(stage), json.dumps(preview, default=str) + repr(preview), "its preview")


def in_representations(stage: Stage) -> None:
    options = stage.checked_options(stage.harness.options())
    _keeps(_secrets(stage), repr(options) + str(options), "the representation of its options (credentials are `SecretStr`)")
    _keeps(_secrets(stage), repr(stage.provider) + str(stage.provider), "the representation of the provider")


def in_checks(stage: Stage) -> None:
    stage.harness.is_well()
    result = stage.provider.check()
    _keeps(_secrets(stage), f"{result.detail}\n{result.hint}\n{result!r}", "what its `check` says")


def in_the_log(stage: Stage) -> None:
    secrets = _secrets(stage)
    kept = _Kept()
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = [kept]  # what is told here at this level is for nobody else
    root.setLevel(logging.DEBUG)
    try:
        stage.harness.answers(ANSWER)
        stage.run().succeeded()
        list(_failed_turns(stage))
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    _keeps(secrets, "\n".join(kept.lines), "the log")


def on_the_wire(stage: Stage) -> None:
    secrets = _secrets(stage)
    noted = Noted()
    stage.harness.answers(ANSWER)
    stage.run(stage.request(wire=noted)).succeeded()
    if not any(noted.notes.values()):
        raise NotClaimed("it tells `request.wire` nothing")
    for side, notes in noted.notes.items():
        _keeps([secret for secret in secrets if secret not in noted.hidden], b"".join(notes).decode("utf-8", "replace"), f"what it tells the wire as {side}")


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def _failed_turns(stage: Stage) -> list[Turn]:
    """One of each failure that can be played."""
    turns = []
    for failure in _FAILURES:
        try:
            stage.harness.fails(failure)
        except CannotPlay:
            continue
        turns.append(stage.run())
    return turns


def _secrets(stage: Stage) -> Sequence[str]:
    if not stage.harness.secrets:
        raise CannotPlay("the harness names no `secrets`")
    return stage.harness.secrets


def _keeps(secrets: Sequence[str], text: str, where: str) -> None:
    if any(secret in text for secret in secrets):
        raise Fault(f"a credential stands in {where}")


CHECKS = (
    Check("secrets.errors", "no error says a credential, nor does its chain of causes", in_errors),
    Check("secrets.preview", "a preview shows `***` in place of credentials", in_previews, needs=()),
    Check("secrets.repr", "no representation shows a credential", in_representations, needs=()),
    Check("secrets.check", "a check says no credential", in_checks, needs=()),
    Check("secrets.log", "nothing that is logged holds a credential", in_the_log),
    Check("secrets.wire", "what is noted of the wire holds no credential", on_the_wire),
)
