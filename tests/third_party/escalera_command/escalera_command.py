"""Any program as an agent: it reads the conversation from its standard input, and what it prints is the answer."""

import os
import shutil
import subprocess
from subprocess import PIPE

from orchestrator.errors import InvalidRequest, TimedOut, Unavailable
from orchestrator.hookspecs import hookimpl
from orchestrator.messages import Text
from orchestrator.providers import SESSION_MARK, Capabilities, CheckResult, Finished, MessageDone, ProviderKind


class CommandProvider:
    capabilities = Capabilities(streams=False, reports_usage=False)

    def __init__(self, options, context):
        self.model, self._command = None, placed(options.command, context.folders.get("command"))
        self._environ = {name: value for name, value in context.environ.items() if value not in context.secret_values}

    def preview(self, request):
        messages = [f"{message.role}: {part.text}" for message in request.messages for part in message.parts if isinstance(part, Text)]
        return {"argv": self._command, "stdin": "\n\n".join([*(block.text for block in request.system), *messages])}

    def run(self, request, *, cancel, ask):
        cancel.raise_if_set()
        environ = self._environ | {SESSION_MARK: request.session}
        try:
            child = subprocess.Popen(self._command, stdin=PIPE, stdout=PIPE, cwd=request.workspace, env=environ, encoding="utf-8", errors="replace")
        except OSError as error:
            raise InvalidRequest(f"{self._command[0]} cannot be started: {error.strerror}") from error
        forget = cancel.on_cancel(child.kill)
        try:
            answer, _ = child.communicate(self.preview(request)["stdin"], timeout=request.timeouts.turn)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"{self._command[0]} did not finish", which="turn") from error
        finally:
            forget()
            child.kill()
            child.wait()
        cancel.raise_if_set()
        if child.returncode != 0:
            raise Unavailable(f"{self._command[0]} ended with exit code {child.returncode}")
        yield MessageDone((Text(answer),))
        yield Finished("stop")

    def check(self):
        found = shutil.which(self._command[0], path=self._environ.get("PATH"))
        return CheckResult(True, "works", found) if found else CheckResult(False, "not_installed", f"there is no program {self._command[0]}")


def placed(command, folder):
    """A relative program starts from the folder of the file that gives it; one without a slash is looked up on PATH."""
    return [os.path.join(folder, command[0]) if folder and "/" in command[0] else command[0], *command[1:]]


@hookimpl
def escalera_provider_kinds():
    from pydantic import BaseModel, Field

    class Options(BaseModel, extra="forbid"):
        command: list[str] = Field(min_length=1)

    return [ProviderKind("command", Options, CommandProvider, summary="asks any program")]
