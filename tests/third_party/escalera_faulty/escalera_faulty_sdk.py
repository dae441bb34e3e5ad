"""Stands for a vendor's library."""


class Client:
    """Of no use."""
