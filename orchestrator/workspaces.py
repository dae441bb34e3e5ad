"""When two spellings name the same workspace: compared by the rules of the platform, shown as they were typed."""

from __future__ import annotations

import ntpath
import posixpath
import sys
import unicodedata


def workspace_key(path: str, platform: str) -> str:
    """What makes two absolute paths the same workspace; `platform` as in `sys.platform`.

    A pure rule over the text: no link is followed. On Windows, letter case and the kind of separator do not count;
    on macOS, composed and decomposed letters are one; a trailing separator counts nowhere.
    """
    if platform == "win32":
        return "".join(_upper(letter) for letter in ntpath.normpath(_without_long_prefix(path.replace("/", "\\"))))
    plain = posixpath.normpath(path)
    if plain.startswith("//"):
        plain = plain[1:]
    return unicodedata.normalize("NFC", plain) if platform == "darwin" else plain


def same_workspace(one: str, other: str, platform: str = sys.platform) -> bool:
    """Whether two spellings name the same workspace, by the rules that the store goes by."""
    return one == other or workspace_key(one, platform) == workspace_key(other, platform)


def _without_long_prefix(path: str) -> str:
    if path.upper().startswith("\\\\?\\UNC\\"):
        return "\\\\" + path[8:]
    return path.removeprefix("\\\\?\\")


def _upper(letter: str) -> str:
    """Windows compares by single capital letters: `ß` has none and stays itself."""
    upper = letter.upper()
    return upper if len(upper) == 1 else letter
