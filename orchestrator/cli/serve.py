"""`escalera serve`: the sessions over HTTP, and the orchestrator as if it were a model."""

from __future__ import annotations

import gc
import importlib.util

import click

from orchestrator.cli.front import Front
from orchestrator.errors import UsageError

PORT = 8484


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Where to listen. Beyond loopback, name the hosts in server.hosts.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, metavar="PORT", help="0 takes any that is free.")
@click.pass_obj
def command(front: Front, host: str, port: int) -> int:
    """Serve sessions, turns, questions, memory and settings under /v1, and OpenAI's chat completions and responses.

    Every request brings the token that stands in a file of the data folder. Ctrl-C lets running turns come to their end for ten seconds.
    """
    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        raise UsageError("the packages of the server are not installed", hint="pip install 'escalera[server]'")
    from orchestrator.bearer import FILE
    from orchestrator.server import create_app
    from orchestrator.server.running import listen, run

    listening = listen(host, port)
    app = create_app(premises=front, hosts=(host,))
    address, bound, *_ = listening.getsockname()
    shown = f"[{address}]" if ":" in address else address

    def ready() -> None:
        front.output.say(f"http://{shown}:{bound}/v1")
        front.output.notice(f"the token is in {front.paths.data / FILE}")

    front.greet()
    gc.freeze()  # what is loaded by now stays: the collector need not walk through it in the midst of a turn
    run(app, listening, ready=ready)
    return 0
