"""`escalera completion`: a script with which a shell completes commands, options and their words."""

from __future__ import annotations

import click

from orchestrator.cli.front import Front

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_obj
def command(front: Front, shell: str) -> None:
    """A script for the shell, made from all commands and options; while completing, Escalera itself is never started.

    bash: `eval "$(escalera completion bash)"` in ~/.bashrc. zsh: `escalera completion zsh > ~/.zfunc/_escalera`, where ~/.zfunc is in your
    fpath. fish: `escalera completion fish > ~/.config/fish/completions/escalera.fish`. After an update of Escalera, write it again.
    """
    from orchestrator.cli.app import COMMANDS, root
    from orchestrator.cli.shells import script
    from orchestrator.cli.tree import tree_of

    front.output.print_text(script(shell, tree_of(root, "escalera", summaries=COMMANDS)))
