"""Which journal is kept, and where a write-ahead log cannot be."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.store.journal import choose_journal, file_system, on_network_share

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /home rw shared:2 - nfs4 server:/home rw,vers=4.2
31 30 0:27 / /home/ann/local\\040disk rw - ext4 /dev/sdb1 rw
32 22 0:28 / /mnt/share rw master:3 - cifs //server/share rw
damaged line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/data", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann/data", "nfs4"),
        ("/home/ann/local disk/data", "ext4"),
        ("/homework", "ext4"),
        ("/mnt/share/x", "cifs"),
        ("/", "ext4"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_nearest_mount(path: str, kind: str) -> None:
    assert file_system(path, MOUNTS) == kind
    assert file_system(path, "") == ""


def test_the_disk_of_the_tests_is_no_network_share(tmp_path: Path) -> None:
    assert not on_network_share(tmp_path)


@pytest.mark.parametrize(
    ("vfs", "on_share", "journal", "synchronous"), [("unix", False, "wal", 1), ("unix", True, "delete", 2), ("unix-dotfile", False, "delete", 2)]
)
def test_another_journal_is_kept_where_a_write_ahead_log_cannot_be(tmp_path: Path, vfs: str, on_share: bool, journal: str, synchronous: int) -> None:
    with closing(sqlite3.connect(f"file:{tmp_path / 'x.db'}?vfs={vfs}", uri=True, isolation_level=None)) as connection:
        assert choose_journal(connection, on_share=on_share) == journal
        assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == (journal,)
