"""What costs nothing costs nothing: importing, making a provider, previews, checks; and options are read strictly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from orchestrator.providers import CheckResult
from orchestrator.testing.conformance.checks.check import Check
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Stage
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
    Check("check.free", "`check` finds a backend that is well and spends no tokens", check_spends_nothing, needs=()),
)
