"""Escalera: one shared session between a cheap primary agent and a strong escalation agent."""

__version__ = "0.1.0"
