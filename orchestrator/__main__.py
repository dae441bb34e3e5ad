"""`python -m orchestrator` is the same as `escalera`."""

from orchestrator.cli import main

main()
