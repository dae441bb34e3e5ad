"""Obvious secrets leave no machine in an export."""

from __future__ import annotations

import time

import pytest

from orchestrator.documents.masking import mask_document, mask_secrets

KEY = "abcDEF0123456789abcDEF"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIEowIBAAKCAQEA7\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"key sk-{KEY}.", "key ***."),
        (f"sk-ant-api03-{KEY}", "***"),
        (f"sk-or-v1-{KEY}", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        (f"AWS_SECRET_ACCESS_KEY={'aB3/' * 10}", "AWS_SECRET_ACCESS_KEY=***"),
        (f"ghp_{KEY} and github_pat_{KEY}", "*** and ***"),
        (f"xoxb-{KEY}", "***"),
        (f"AIza{'a1_-5' * 7}", "***"),
        (f"hf_{KEY}{KEY}", "***"),
        (f"Authorization: Bearer {KEY}==\nAccept: x", "Authorization: Bearer ***\nAccept: x"),
        (f"-H 'authorization: bearer {KEY}'", "-H 'authorization: bearer ***'"),
        (f"eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.{KEY}", "***"),
        ("postgres://me:hunter2@db:5432/x", "postgres://me:***@db:5432/x"),
        (f"a {PEM} b {PEM}", "a *** b ***"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7MIIEowIB\nAAKCAQEA7MIIEowIB\nthe rest is prose", "***\nthe rest is prose"),
    ],
)
def test_a_secret_becomes_stars(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) is masked


@pytest.mark.parametrize(
    "text",
    [
        "risk-assessment-of-the-year-2026",
        "sk-learn-is-a-library-of-python",
        "the bearer of this letter",
        "https://host:8080/a@b",
        "AKIA",
        "",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_other_text_stays_the_same_object(text: str) -> None:
    assert mask_secrets(text) is text


def test_every_text_of_a_document_is_masked() -> None:
    document = {"turns": [{"prompt": f"use ghp_{KEY}", "steps": [{"arguments": {"env": [f"sk-{KEY}"]}, "n": 1, "ok": None}]}]}

    assert mask_document(document) == {"turns": [{"prompt": "use ***", "steps": [{"arguments": {"env": ["***"]}, "n": 1, "ok": None}]}]}


@pytest.mark.parametrize(
    "piece", ["sk-", "eyJ", "bearer ", "a://", "-----BEGIN PRIVATE KEY-----", "AKIA", "a" * 20, "bearer" + " " * 50, "http://a:", "-", "basic a"]
)
def test_masking_is_linear_in_hostile_text(piece: str) -> None:
    started = time.perf_counter()
    mask_secrets(piece * (300_000 // len(piece)))

    assert time.perf_counter() - started < 2
