from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings.editing import edit
from orchestrator.settings.files import read_config
from orchestrator.settings.live import LiveSettings
from orchestrator.settings.resolution import Sources

FILES = {name: bytes.fromhex(content) for name, content in json.loads((Path(__file__).parents[1] / "trials" / "T97.json").read_text())["files_hex"].items()}


@pytest.mark.trial("T97")
def test_t97_a_byte_order_mark_and_crlf_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(FILES["toml_bom"])

    assert read_config(path).data == {"default_agent": "local"}
    assert path.read_bytes() == FILES["toml_bom"]


@pytest.mark.trial("T97")
@pytest.mark.parametrize(
    ("name", "said"), [("utf16", "is in UTF-16"), ("latin1", "not UTF-8: byte 0xe9 at line 1, column 21"), ("json_bom", "line 1, column 1: Invalid statement")]
)
def test_t97_other_encodings_are_a_clear_error_and_the_file_stays_as_it_is(place: Any, name: str, said: str) -> None:
    path = place.user("")
    path.write_bytes(FILES[name])

    with pytest.raises(ConfigError, match=said) as caught:
        place.load()

    assert str(path) in caught.value.message
    assert path.read_bytes() == FILES[name]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a = 1\nb = = 2\n", "line 2, column 5"),
        (b"a = 1\na = 2\n", "line 2, column 6"),
        (b"[limits]\nidle_timeout = '3s", "line 2, column 19"),
        (b"a = 1\n\nb = [1,", "line 3, column 8"),
        (b"a = " + b"[" * 5000, "nested too deeply"),
        (b"a." * 3000 + b"b = 1", "nested too deeply"),
        (b"a = " + b"[" * 70 + b"1" + b"]" * 70, "nested too deeply"),
        (b"a = " + b"9" * 5000, "not valid TOML"),
        (b"a = '\0'", "line 1, column 6"),
        (b"# caf\xc3\xa9\n# \xff", "byte 0xff at line 2, column 3"),
        (b"#" * 1_000_001, "larger than 1,000,000 bytes"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=said) as caught:
        read_config(path)

    assert str(path) in caught.value.message


def test_a_named_file_that_is_not_there_is_an_error(place: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*missing\.toml: No such file"):
        place.load(config_file=tmp_path / "missing.toml")


def test_a_folder_in_a_files_place_is_an_error(place: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        place.load(config_file=tmp_path)
    place.project_file.mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        place.load()


def test_a_dangling_link_is_an_error_in_the_project_and_nothing_in_the_config_folder(place: Any) -> None:
    os.symlink("/nowhere/at/all", place.project_file)

    with pytest.raises(ConfigError, match="cannot read"):
        place.load()


def test_a_path_cannot_drive_the_terminal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "\x1b[2J.toml")

    assert caught.value.message.isprintable()


def test_a_config_folder_that_is_a_file_is_no_configuration(place: Any) -> None:
    place.paths.config.parent.mkdir(parents=True)
    place.paths.config.write_text("")

    assert place.load().zero_config


def test_a_project_file_that_is_no_file_is_refused_and_not_waited_for(place: Any) -> None:
    os.mkfifo(place.project_file)
    with pytest.raises(ConfigError, match="is no regular file"):
        place.load()

    place.project_file.unlink()
    place.project_file.symlink_to("/dev/tty")
    with pytest.raises(ConfigError, match="is no regular file"):
        place.load()


def test_a_pipe_may_be_named_as_the_configuration(place: Any) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"need_expiry_hours = 3")
    os.close(writing)
    file = Path(f"/dev/fd/{reading}")
    live = LiveSettings(Sources(place.environ, place.workspace, place.paths, config_file=file))

    assert live.refresh() == ()
    assert live.current.value("need_expiry_hours") == 3
    with pytest.raises(ConfigError, match="is no file that could be changed"):
        edit(Sources(place.environ, place.workspace, place.paths, config_file=file), lambda text: text)
    os.close(reading)
