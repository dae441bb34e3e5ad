"""The provider kit: stand-ins for backends on loopback, a scripted provider, and the conformance suite (docs/provider-kit.md)."""

KIT_VERSION = 1
"""Grows when a harness or a test that is written for this kit would have to change; new checks and situations do not make it grow."""
