"""Percepts: which of them an agent is told, and how (page 4)."""
