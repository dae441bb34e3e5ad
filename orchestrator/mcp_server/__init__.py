"""The orchestrator as an MCP server: another agent's host escalates to it, with its memory and its modes."""
