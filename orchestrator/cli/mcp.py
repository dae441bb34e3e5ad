"""`escalera mcp`: the orchestrator as a server for hosts that speak the Model Context Protocol."""

from __future__ import annotations

import gc
import importlib.util

import click

from orchestrator.cli.front import Front
from orchestrator.errors import UsageError

PORT = 8485


@click.command("mcp")
@click.option("--http", is_flag=True, help="Over streamable HTTP on loopback, not over standard input and output.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, metavar="PORT", help="With --http; 0 takes any that is free.")
@click.option("--wait-questions", is_flag=True, help="Where a client cannot ask its user, wait for an answer from elsewhere.")
@click.pass_obj
def command(front: Front, http: bool, port: int, wait_questions: bool) -> int:
    """Serve the tools escalate, plan_escalation, current_need, record_memory, get_memory and session_context to an MCP host.

    The working directory is the workspace. Over HTTP every request brings the token that stands in a file of the data folder.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("the package of the protocol is not installed", hint="pip install 'escalera[mcp]'")
    from orchestrator.mcp_server.calls import Calls
    from orchestrator.mcp_server.running import PATH, listen, run_http, run_stdio
    from orchestrator.mcp_server.server import build_server

    listening = listen(port) if http else None
    calls = Calls(front, wait_questions=wait_questions)
    server = build_server(calls)
    gc.freeze()  # what is loaded by now stays: the collector need not walk through it in the midst of a turn
    try:
        if listening is None:
            run_stdio(server, front.output.stdout)
            return 0
        from orchestrator.bearer import FILE, read_or_make

        token = read_or_make(front.paths.data)

        def ready() -> None:
            front.output.notice(f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}")
            front.output.notice(f"the token is in {front.paths.data / FILE}")

        run_http(server, listening, token, ready=ready, ending=calls.close)
        return 0
    finally:
        calls.close()
