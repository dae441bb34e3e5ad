"""Tools of MCP servers, by the official SDK: servers started and let go, their tools offered to agents and called."""
