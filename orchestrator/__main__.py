"""`python -m orchestrator` is the same as `escalera`."""

from orchestrator.cli import main

if __name__ == "__main__":  # processes that are started for a share of the work import it, too
    main()
