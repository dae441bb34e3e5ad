"""`escalera chat`: many turns of one session, typed or piped in."""

from __future__ import annotations

import click

from orchestrator.cli.front import Front
from orchestrator.sessions import stored_session


@click.command("chat")
@click.option("--session", "session", metavar="REF", help="An id, the beginning of one, or a name; else the newest.")
@click.option("--new", is_flag=True, help="Begin a session.")
@click.option("--name", metavar="NAME", help="The session of that name, begun if there is none.")
@click.pass_obj
def command(front: Front, /, session: str | None, new: bool, name: str | None) -> int:
    """Talk with the agents: prompts, and commands that begin with `/`; `/help` lists them.

    Ctrl-C cancels the turn and keeps the session; pressed twice it leaves, as Ctrl-D does. Alt-Enter begins a new line, and what is pasted
    stays one prompt. `@PATH` in a prompt attaches a text file. Where the input is no terminal, each of its lines is a turn, and the exit code
    is that of the last one that failed.
    """
    from orchestrator.cli.talk.conversation import Conversation
    from orchestrator.cli.talk.lines import Lines

    front.greet()
    store = front.store()
    front.broker(store).tidy()
    stored = stored_session(front, store, ref=session, new=new, name=name)
    talk = Conversation(front, store, stored, name=name, first=not new and name is None)
    if not front.output.interactive or front.output.plain:
        return Lines(front, talk).run()
    from orchestrator.cli.talk.interactive import Interactive

    return Interactive(front, talk).run()
