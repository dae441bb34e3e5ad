"""What costs nothing costs nothing: importing, making a provider, previews, checks; and options are read strictly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from orchestrator.providers import CheckResult
from orchestrator.testing.conformance.checks.check import Check, NotClaimed
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Noted, Stage
from orchestrator.testing.conformance.turns import Fault

_IMPORTING = """
import importlib, sys
from importlib.metadata import entry_points
import pydantic, pluggy, orchestrator.hookspecs, orchestrator.errors, orchestrator.providers
from pydantic import SecretStr, BaseModel
before = {name.partition(".")[0] for name in sys.modules}
plugin = importlib.import_module(sys.argv[1])
hook = getattr(plugin, "escalera_provider_kinds", None)
if hook is not None:
    for kind in hook() or ():
        kind.options.model_json_schema()
own = {name.partition(".")[0] for name in (sys.argv[1], *(entry.module for entry in entry_points(group="escalera")))}
new = {name.partition(".")[0] for name in sys.modules} - before - set(sys.stdlib_module_names) - own - {"orchestrator"}
print(" ".join(sorted(name for name in new if not name.startswith("_"))))
"""
"""What the import of a plugin brings that is neither Python's, the core's, its own nor another plugin's; pydantic is needed for the options anyway."""


def importing(stage: Stage) -> None:
    if not stage.module:
        raise CannotPlay("the kind was given as an object, so the module of its plugin is not known")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", _IMPORTING, stage.module], env=environ, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Fault(f"{stage.module} cannot be imported: {done.stderr.strip().splitlines()[-1:]}")
    brought = done.stdout.split()
    if brought:
        raise Fault(f"importing {stage.module} and asking for its kinds imports {', '.join(brought)}; import that where it is first used")


def preview_opens_nothing(stage: Stage) -> None:
    with stage.watch.watching() as seen:
        provider = stage.made()
        provider.preview(stage.request())
        _ = provider.capabilities, provider.model
    if seen:
        raise Fault(f"to be made and to show a preview, it {_listed(seen)}")


def preview_is_true(stage: Stage) -> None:
    request = stage.request()
    preview = stage.provider.preview(request)
    stage.harness.answers(ANSWER)
    stage.run(request).succeeded()
    received = stage.harness.received()
    shown = preview["body"] if "body" in preview else preview.get("stdin")
    if shown is None:
        raise Fault("the preview has neither `body` nor `stdin`")
    if shown != received:
        raise Fault("what was sent is not what the preview shows")


def head_is_true(stage: Stage) -> None:
    """Method, address and headers, of which a preview may leave out what the library adds."""
    request = stage.request()
    preview = stage.provider.preview(request)
    if "url" not in preview:
        raise NotClaimed("its preview names no `url`")
    stage.harness.answers(ANSWER)
    stage.run(request).succeeded()
    received = stage.harness.received_head()
    if preview.get("method", received["method"]) != received["method"]:
        raise Fault(f"the preview shows {preview['method']}, and {received['method']} was sent")
    shown, came = (_path(str(one["url"])) for one in (preview, received))
    if shown != came:
        raise Fault(f"the preview shows {shown}, and {came} was asked for")
    sent = {name.lower(): value for name, value in received["headers"].items()}
    for name, value in preview.get("headers", {}).items():
        _is_sent(stage, name, str(value), sent.get(name.lower()))


def _is_sent(stage: Stage, name: str, shown: str, sent: str | None) -> None:
    if sent is None:
        raise Fault(f"the preview shows the header {name}, which was not sent")
    before, masked, after = shown.partition("***")
    if shown != sent and not (masked and sent.startswith(before) and sent.endswith(after)):
        raise Fault(f"the header {name} was sent as something else than the preview shows")
    if masked and stage.harness.secrets and not any(secret in sent for secret in stage.harness.secrets):
        raise Fault(f"the preview shows *** in the header {name}, and what was sent there is none of the harness's `secrets`")


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def wire_is_told(stage: Stage) -> None:
    noted = Noted()
    stage.harness.answers(ANSWER)
    stage.run(stage.request(wire=noted)).succeeded()
    if not any(noted.notes.values()):
        raise NotClaimed("it tells `request.wire` nothing, and `session show --wire` shows nothing")
    for side, notes in noted.notes.items():
        if not notes:
            raise Fault(f"nothing was told as {side} with `request.wire.{side}(…)`")
    if not noted.begun_first:
        raise Fault("`request.wire.begin()` was not called before what was sent: of a call that is sent again, both would be kept as one")


def check_spends_nothing(stage: Stage) -> None:
    stage.harness.is_well()
    before = stage.harness.calls()
    result = stage.provider.check()
    if not isinstance(result, CheckResult):
        raise Fault(f"`check` gave {type(result).__name__} instead of a `CheckResult`")
    if stage.harness.calls() != before:
        raise Fault("`check` made a call that costs tokens")
    if not result.ok:
        raise Fault(f"the backend is well, and `check` says {result.status}: {result.detail}")


def options_are_strict(stage: Stage) -> None:
    from pydantic import ValidationError

    try:
        stage.checked_options({**stage.harness.options(), "no_such_option": 1})
    except ValidationError as error:
        if not any("no_such_option" in problem["loc"] for problem in error.errors()):
            raise Fault("a misspelt option is refused without its name") from error
        return
    raise Fault('a misspelt option is taken without a word: give the model of the options `extra="forbid"`')


def _listed(seen: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(" ".join(one.split())[:120] for one in seen[:3]))


CHECKS = (
    Check("import.cost", "importing the plugin loads no library but its own modules", importing, needs=()),
    Check("options.strict", "a misspelt option is refused by its name", options_are_strict, needs=()),
    Check("preview.opens_nothing", "making a provider and a preview opens nothing", preview_opens_nothing, needs=()),
    Check("preview.true", "a preview is what is sent", preview_is_true),
    Check("preview.head", "it is sent by the method, to the address and with the headers of the preview", head_is_true, needs=("preview.true",)),
    Check("wire.begun", "what is sent and received is told to `request.wire`, behind a `begin()`", wire_is_told),
    Check("check.free", "`check` finds a backend that is well and spends no tokens", check_spends_nothing, needs=()),
)
