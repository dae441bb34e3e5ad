"""Loopback stand-ins for backends, for the tests of providers."""
