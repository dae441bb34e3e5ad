"""Obvious secrets leave no machine in an export."""

from __future__ import annotations

import json
import time
from html import unescape

import pytest

from orchestrator.documents.masking import mask_secrets, mask_values
from orchestrator.documents.readable import html, markdown
from orchestrator.documents.session import session_document
from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.session import Brief, Need, Role, Session, Turn

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


SECRETS = {
    "quoted key": ('aws_secret_access_key = "' + "aB3/" * 10 + '"', "aB3/" * 10),
    "single-quoted key": ("aws_secret_access_key = '" + "aB3/" * 10 + "'", "aB3/" * 10),
    "underscores": (f"ghp_{KEY} sk_live_{KEY} hf_{KEY}{KEY}", KEY),
    "password with markup": ("postgres://u:p<w&d'x@h and https://user:p'w@host", "w&d"),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("style", ["json", "markdown", "html"])
def test_no_form_of_a_session_shows_a_secret(secret: str, style: str) -> None:
    said, hidden = SECRETS[secret]
    call = ToolCall("c", "run", {"command": said, "aws_secret_access_key": "aB3/" * 10, f"ghp_{KEY}": "x"})
    turns = (Turn(0, Role.PRIMARY, "local", said, (Text(said), call, ToolResult("c", said))),)
    session = Session("s1", "/w", "nonce", name=said, need=Need(said, 0, False, None, "user"), brief=Brief(said, "user"))

    session, turns = mask_values(session), mask_values(turns)
    forms = {"json": lambda: json.dumps(session_document(session, turns)), "markdown": lambda: markdown(session, turns), "html": lambda: html(session, turns)}
    text = unescape(forms[style]()).replace("\\", "")

    assert hidden not in text
    assert KEY not in text
    assert "aB3/aB3/" not in text


def test_every_text_of_a_document_is_masked() -> None:
    document = {"turns": [{"prompt": f"use ghp_{KEY}", "steps": [{"arguments": {"env": [f"sk-{KEY}"]}, "n": 1, "ok": None}]}]}

    assert mask_values(document) == {"turns": [{"prompt": "use ***", "steps": [{"arguments": {"env": ["***"]}, "n": 1, "ok": None}]}]}


@pytest.mark.parametrize(
    "piece", ["sk-", "eyJ", "bearer ", "a://", "-----BEGIN PRIVATE KEY-----", "AKIA", "a" * 20, "bearer" + " " * 50, "http://a:", "-", "basic a"]
)
def test_masking_is_linear_in_hostile_text(piece: str) -> None:
    started = time.perf_counter()
    mask_secrets(piece * (300_000 // len(piece)))

    assert time.perf_counter() - started < 2
