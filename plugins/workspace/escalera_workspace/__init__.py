"""Tools with which a model works in the workspace: `read_file`, `list_dir`, `search`, `write_file`, `edit_file`, `run`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from orchestrator.hookspecs import hookimpl
from orchestrator.tools import Tool

ESCALERA_API_LEVEL = 1


@hookimpl
def escalera_tools() -> Sequence[Tool] | None:
    """All six, for the agents whose `extra_tools` name them; none on systems where a path cannot be followed step by step."""
    if os.open not in os.supports_dir_fd:
        return None
    from escalera_workspace.reading import LIST_DIR, READ_FILE
    from escalera_workspace.running import RUN
    from escalera_workspace.searching import SEARCH
    from escalera_workspace.writing import EDIT_FILE, WRITE_FILE

    return [READ_FILE, LIST_DIR, SEARCH, WRITE_FILE, EDIT_FILE, RUN]
