from __future__ import annotations

import json
import multiprocessing
import stat
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings.files import read_config
from orchestrator.settings.trust import TrustStore, would_enable

from .conftest import Place


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state" / "trust.json")


def test_only_the_accepted_content_is_trusted(store: TrustStore, tmp_path: Path) -> None:
    file = tmp_path / "escalera.toml"

    store.trust(file, b"one")

    assert store.is_trusted(file, b"one")
    assert not store.is_trusted(file, b"two")
    assert not store.is_trusted(tmp_path / "other.toml", b"one")


def test_a_file_is_known_by_its_real_path(store: TrustStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    store.trust(tmp_path / "link" / "escalera.toml", b"one")

    assert store.is_trusted(tmp_path / "escalera.toml", b"one")


def test_a_link_to_an_accepted_file_is_another_file(store: TrustStore, tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "escalera.toml").write_bytes(b"one")
    (tmp_path / "clone" / "escalera.toml").symlink_to("../escalera.toml")

    store.trust(tmp_path / "escalera.toml", b"one")

    assert not store.is_trusted(tmp_path / "clone" / "escalera.toml", b"one")


def test_trust_is_listed_and_taken_back(store: TrustStore, tmp_path: Path) -> None:
    file = tmp_path / "escalera.toml"
    store.trust(file, b"one")
    assert list(store.list()) == [str(file)]

    assert store.revoke(file)
    assert not store.revoke(file)
    assert store.list() == {}


def test_the_record_is_private(store: TrustStore, tmp_path: Path) -> None:
    store.trust(tmp_path / "escalera.toml", b"one")

    assert stat.S_IMODE((tmp_path / "state" / "trust.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert not list((tmp_path / "state").glob(".trust-*"))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": "other/1", "files": {"/x": "y"}}', b'{"format": "escalera.trust/1", "files": []}', b"\xff", b"[" * 100000]
)
def test_a_damaged_record_trusts_nothing(store: TrustStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_bytes(content)

    assert store.list() == {}
    store.trust(tmp_path / "escalera.toml", b"one")
    assert store.is_trusted(tmp_path / "escalera.toml", b"one")


def _accept(record: Path, number: int) -> None:
    TrustStore(record).trust(Path(f"/project/{number}/escalera.toml"), b"one")


def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    record = tmp_path / "trust.json"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_accept, [(record, number) for number in range(20)])

    assert len(TrustStore(record).list()) == 20


def test_a_state_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")

    with pytest.raises(ConfigError, match=r"cannot write .*trust\.lock"):
        TrustStore(tmp_path / "state" / "trust.json").trust(tmp_path / "escalera.toml", b"one")


def test_what_trust_would_enable_is_listed_with_secrets_masked(tmp_path: Path) -> None:
    path = tmp_path / "escalera.toml"
    path.write_text(
        "need_expiry_hours = 1\nfallback = true\nprimary = 'x'\n[limits]\nmax_tool_iterations = 2\n[plugins]\nblocked = ['a']\n"
        "[agents.x]\nprovider = 'claude-cli'\nbin = './run-me'\nenv = {API_KEY = 'sk-1', PLAIN = 'p'}\n"
        "headers = {x-thing = 'sk-2'}\napi_key = {env = 'OPENROUTER_API_KEY'}\n"
        "[agents.x.limits]\nretry_attempts = 1"
    )

    enabled = dict(would_enable(read_config(path)))

    assert enabled == {
        "primary": "x",
        "fallback": True,
        "plugins.blocked": ["a"],
        "agents.x.provider": "claude-cli",
        "agents.x.bin": "./run-me",
        "agents.x.env": {"API_KEY": "***", "PLAIN": "p"},
        "agents.x.headers": {"x-thing": "***"},
        "agents.x.api_key": {"env": "OPENROUTER_API_KEY"},
        "agents.x.limits": {"retry_attempts": 1},
    }
    assert "sk-" not in json.dumps(enabled)


def test_everything_that_is_ignored_until_then_is_listed_and_nothing_else(place: Place) -> None:
    place.user("primary = 'mine'\n[agents.mine]\nprovider = 'p'\n[agents.second]\nprovider = 'p'")
    file = place.project(
        "primary = 'second'\nescalation = 'theirs'\nneed_expiry_hours = 1\n[plugins]\nstrict = true\n"
        "[agents.mine]\nbin = 'x'\n[agents.mine.limits]\nretry_attempts = 1\n[agents.theirs]\nprovider = 'q'\n[agents.theirs.limits]\nretry_attempts = 1"
    )

    (notice,) = place.load().notices
    ignored = notice.split("these are ignored: ")[1].split(". To see")[0].split(", ")

    assert sorted(path for path, _ in would_enable(read_config(file), agents=("mine", "second"))) == sorted(ignored)
    assert ignored == ["plugins.strict", "agents.mine.bin", "agents.theirs.provider", "escalation", "agents.theirs.limits"]


def test_an_accepted_file_that_changed_or_went_is_told_apart(store: TrustStore, tmp_path: Path) -> None:
    file = tmp_path / "escalera.toml"
    file.write_bytes(b"one")
    store.trust(file, b"one")
    standings = [store.standing(str(file))]

    file.write_bytes(b"onf")
    standings.append(store.standing(str(file)))
    file.unlink()
    standings.append(store.standing(str(file)))

    assert standings == ["accepted", "changed", "gone"]


def test_every_ignored_key_is_named_and_what_runs_or_sends_comes_first(place: Place) -> None:
    junk = "".join(f"k{number} = 1\n" for number in range(40))
    place.project(f'[agents.mine]\n{junk}"x. All is well" = 1\nbase_url = "http://127.0.0.1:1"\nprompt = "p"\n"{"l" * 500}" = 1\n')

    (notice,) = place.load().notices
    named = notice.split("these are ignored: ")[1].split(". To see")[0].split(", ")

    assert named[:2] == ["agents.mine.base_url", "agents.mine.prompt"]
    assert named[2:-2] == [f"agents.mine.k{number}" for number in range(40)]
    assert named[-2] == "'agents.mine.x. All is well'"
    assert named[-1].endswith("… (512 characters)")
