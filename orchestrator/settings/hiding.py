"""What may be shown of a value that holds secrets, or may: nothing of them (page 5)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, time
from typing import Any

from orchestrator.settings.problems import nearest
from orchestrator.settings.secrets import CARRIERS, MASK, Secret, SecretRef, is_secret_name, reference_of

_NAMES_OF_SECRETS = ("api_key", "token", "secret", "password", "passphrase", "authorization", "credentials", "access_key", "bearer", "cookie")
_URL_NAME = re.compile(r"(^|[_-])(ur[li]|endpoint)$", re.IGNORECASE)
"""What is called so is a URL, however it is written."""
_AUTHORITY = re.compile(r"(?<=://)(?P<user>[^/?#\s]*)@")
_PARAMETER = re.compile(r"(?<=[?&#])(?P<name>[^=&#\s]*)=(?P<value>[^&#\s]*)")
_SECRET_PARAMETER = re.compile(r"key|token|secret|passw|sig|auth|credential", re.IGNORECASE)
_OPAQUE = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=~.-]{16,}", re.ASCII)
"""Letters and digits without a blank, a slash or a colon: no path, no address, no list of options."""
_OPAQUE_VALUE = re.compile(_OPAQUE.pattern.replace("16", "8"), re.ASCII)
_OPAQUE_PART = re.compile(r"(?<=/)(?=[A-Z_a-z]*[0-9])(?=[0-9_]*[A-Za-z])[A-Za-z0-9_]{20,}(?=[/?#]|$)", re.ASCII)
"""Of the path of a URL, as webhooks and gateways have for a password: no dashes and dots, which names of models and deployments have."""
_OPTION = re.compile(r"(?P<flag>-[A-Za-z](?=[A-Z][A-Za-z0-9_-]{1,80}(?:=|: ))|--?[A-Za-z][A-Za-z0-9_.-]{0,80}(?=[=:]))[=:]?")
"""A flag with its value in one word; of one letter also without a sign, as in `-HAuthorization: …`."""
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,80})(?P<sign>[=:] {0,4})(?P<text>.+)", re.DOTALL)
_AUTHORIZED = re.compile(r"""(?P<name>\bauthorization["']?[ ]{0,2}[:=][ ]{0,2})(?P<text>[^"'\n*]{6,})""", re.IGNORECASE)
_WEB_ADDRESS = re.compile(r"\b(https?|wss?)://[^\s\"'<>]+", re.IGNORECASE)
_TELLING = re.compile(
    r"""
    (?P<name> --[a-z0-9-]{0,40}(?:key|token|secret|password|passwd|pass|auth)=
      | (?<![A-Za-z0-9_-])(?:password|passwd|pwd|accountkey|sharedaccesskey)[ ]?=[ ]?
      | (?<![A-Za-z0-9_-])x-api-key["']?[ ]{0,2}:[ ]{0,2}
      | (?<![A-Za-z0-9_-])(?=sk-[a-z0-9_-]{16}|gh[opsur]_[a-z0-9]{20}|github_pat_[a-z0-9_]{20}|xox[a-z]-[a-z0-9-]{10}) )
    (?P<text> (?![$*]) [^\s"';,&)]{3,} )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""In a line: options and parts of connection strings that are called so, and tokens that are known by how they begin."""
_PASSWORD_FLAG = re.compile(r"--(auth|pass)")
_HEADER_FLAGS = ("-H", "--header", "--headers")
_ENV_FLAGS = ("-e", "--env")
_OPEN_HEADERS = ("authorization", "cookie")
"""Headers of any number of words."""
_HEADER_VARIABLE = re.compile(r"(^|_)headers?$", re.IGNORECASE)
_OPEN_NAME = re.compile(r"(model|version|region|profile|path|dir|home)$", re.IGNORECASE)
_TEXTS = re.compile(r':\s*"((?:[^"\\\n]|\\.)*)"')
_SHORTEST = 6
"""Characters of a parameter that may be a secret."""
_VALUE = r"""[^\s"'\\<>,;&|()\[\]{}]"""
_ENDINGS = (b"_KEY", b"_TOKEN", b"_SECRET", b"_PASSWORD")
_ASSIGNED = re.compile(
    rf"""
    (?<![A-Za-z0-9_])(?P<name>[A-Z][A-Z0-9_]{{0,80}}(?:{b"|".join(_ENDINGS).decode()})
        (?: =(?:\\?["'])?                                          (?=(?![$*]){_VALUE}{{6}})
          | (?:\\?["'])?[ ]{{0,2}}[=:][ ]{{0,2}}(?:\\?["'])?     (?=(?![$*]){_VALUE}{{8}})(?={_VALUE}{{0,500}}[0-9])
        ))
    {_VALUE}++(?![(\[])
    """.encode(),
    re.VERBOSE,
)
"""A value that only the command line's spelling gives away has a digit; a call, a variable or something that is masked is none."""


def mask_assigned(content: bytes) -> bytes:
    """With `***` for what stands behind `NAME_KEY=`, `NAME_TOKEN=`, `NAME_SECRET=` and `NAME_PASSWORD=`, as environments are printed, in JSON too."""
    for ending in _ENDINGS:  # there is none in nearly every text; this is ten times faster than the expression
        if ending in content:
            return _ASSIGNED.sub(rb"\g<name>***", content)
    return content


def has_written_secret(name: str, value: object) -> bool:
    """Whether a raw value holds a secret that is written out, at any depth: under a name of secrets, or in a URL."""
    if isinstance(value, Mapping):
        # Under a name of secrets a table is a reference to one.
        return (name in CARRIERS or not is_secret_name(name)) and any(has_written_secret(key, item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(has_written_secret(name, item) for item in value)
    return isinstance(value, str) and (is_secret_name(name) or _has_secret_parts(value))


Hide = Callable[[str, str], str]
"""What is to stand for a secret, by the name that it is found under and its text."""
USER = "user:password"
"""The name of what stands before the host in a URL."""


def masked(name: str, value: object) -> Any:
    """A value as it may be shown: secrets as `***`, references as what they are, URLs without what is secret in them.

    Works on raw values too, for files that are not trusted yet, and on malformed ones: what cannot be read is not shown.
    """
    return hidden(name, value, lambda *_: MASK)


def hidden(name: str, value: object, hide: Hide) -> Any:
    """As `masked`, with what `hide` gives in the place of each secret."""
    if isinstance(value, SecretRef):
        return str(value)
    if isinstance(value, Secret):
        return hide(name, value.text)
    if isinstance(value, Mapping):
        return _hidden_table(name, value, hide)
    if isinstance(value, list | tuple):
        return [_hidden_word(name, before, item, hide) for before, item in zip((None, *value), value, strict=False)]
    if isinstance(value, str):
        is_secret = is_secret_name(name) or name in CARRIERS or name.endswith("_cmd")
        return hide(name, value) if is_secret else _hidden_text(name, value, hide)
    return hide(name, str(value)) if is_secret_name(name) and isinstance(value, int | float) and not isinstance(value, bool) else value


def showable(name: str, value: object) -> Any:
    """As `masked`, and as JSON can carry it: TOML's dates and times, `inf` and `nan` become texts."""
    return _plain(masked(name, value))


def showable_stranger(name: str, value: object) -> Any:
    """As `showable`, where nothing is known of that name: also what looks like a secret is `***`, and all under a name that comes near one of secrets."""
    near = nearest(name, _NAMES_OF_SECRETS, cutoff=0.75) is not None
    return _without_opaque("authorization" if near else name, showable(name, value))


def _without_opaque(name: str, value: Any) -> Any:  # any: what stands in JSON
    if isinstance(value, Mapping):
        return {key: _without_opaque(name if is_secret_name(name) else key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_opaque(name, item) for item in value]
    return MASK if isinstance(value, str) and (is_secret_name(name) or _is_opaque(name, value)) else value


def _is_opaque(name: str, text: str) -> bool:
    return _OPAQUE.fullmatch(text) is not None and _OPEN_NAME.search(name) is None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _hidden_table(name: str, table: Mapping[str, Any], hide: Hide) -> dict[str, Any]:
    if name not in CARRIERS and (reference := reference_of(table)) is not None:
        return {reference.kind: hidden("cmd", list(reference.cmd), hide) if reference.cmd else reference.env or reference.keyring}
    clear = {key: hidden(_carried_name(name, key, item), item, hide) for key, item in table.items()}
    return {key: _hidden_lines(key, item, hide) if item == table[key] else item for key, item in clear.items()} if name == "env" else clear


def _carried_name(name: str, key: str, value: object) -> str:
    """The name by which a value in a table is judged: a header is a secret whatever it is called, and so is what looks like one as a variable."""
    if is_secret_name(name) or (name == "headers" and isinstance(value, str)):
        return "authorization"
    is_opaque = name == "env" and isinstance(value, str) and _is_opaque(key, value)
    return "authorization" if is_opaque else key if key not in CARRIERS or isinstance(value, Mapping) else f"{key}."


def _hidden_lines(variable: str, value: Any, hide: Hide) -> Any:
    """A variable without what is secret in its lines, which may be headers: those of `ANTHROPIC_CUSTOM_HEADERS` are, whatever they are called."""
    if not isinstance(value, str):
        return value
    flag = "--header" if _HEADER_VARIABLE.search(variable) else ""
    return "\n".join(_hidden_assignment("", flag, line, hide) for line in value.split("\n"))


def _hidden_word(name: str, before: object, word: object, hide: Hide) -> Any:
    """One of a list, which may be a command line: `--api-key=…`, what stands behind `--api-key`, variables, headers."""
    name = "" if name.endswith("_cmd") else name
    if not isinstance(word, str) or name in CARRIERS:
        return hidden(name, word, hide)
    flag = before if isinstance(before, str) and before.startswith("-") else ""
    if is_secret_name(flag) or _PASSWORD_FLAG.fullmatch(flag) or (flag == "-k" and _OPAQUE.fullmatch(word)):
        return hide(flag, word)
    if flag in ("-u", "--user") and ":" in word.partition("://")[0].rstrip(":"):
        user, _, password = word.partition(":")
        return f"{user}:{hide(flag, password)}" if password else word
    if (option := _OPTION.match(word)) is None:
        return _hidden_assignment(name, flag, word, hide)
    flag, text = option["flag"], word[option.end() :]
    clear = hide(flag, text) if is_secret_name(flag) else _hidden_assignment(name, flag, text, hide)
    return option[0] + str(clear)


def _hidden_assignment(name: str, flag: str, word: str, hide: Hide) -> Any:
    """A word without what is secret in `NAME=VALUE` and `Header: value`; whatever a header is called, behind a flag of headers it is one."""
    found = _ASSIGNMENT.fullmatch(word)
    if found is None:
        return _hidden_within(name, word, hide)
    is_header = flag in _HEADER_FLAGS and ":" in found["sign"]
    under = "authorization" if is_header else _carried_name("env" if flag in _ENV_FLAGS else "", found["name"], found["text"])
    # `Key: some words` is a sentence; a header of a telling name has a scheme at most.
    is_secret = is_secret_name(under) and (is_header or "=" in found["sign"] or len(found["text"].split()) <= 2 or under.lower() in _OPEN_HEADERS)
    within = _hidden_within(name, word, hide) if not is_secret or " " in found["text"] else word
    return f"{found['name']}{found['sign']}{hide(under, found['text'])}" if is_secret and within == word else within


def _hidden_within(name: str, word: str, hide: Hide) -> Any:
    """A word that is a text of its own, such as a line for a shell."""
    if word.lstrip().startswith("{"):
        return hidden(name, word, hide)

    def assigned(match: re.Match[bytes]) -> bytes:
        head, text = match["name"], match[0][len(match["name"]) :]
        return head + hide(name, text.decode("utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")

    clear = _ASSIGNED.sub(assigned, word.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    clear = _AUTHORIZED.sub(lambda match: match["name"] + hide("authorization", match["text"]), clear)
    clear = _TELLING.sub(lambda match: match["name"] + hide(match["name"], match["text"]), clear)
    clear = _WEB_ADDRESS.sub(lambda match: _OPAQUE_PART.sub(lambda part: hide(name, part[0]), match[0]), clear)
    return hidden(name, clear, hide)


def _hidden_text(name: str, text: str, hide: Hide) -> str:
    """A text without the secrets of a URL, or of the JSON object that it is or was meant to be."""
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return _hidden_texts(name, text, hide)
        clear = _without_env(hidden(name, value, hide), hide)
        return text if clear == value else json.dumps(clear, ensure_ascii=False)
    if _URL_NAME.search(name):
        return _hidden_url(name, text, hide)
    text = _AUTHORITY.sub(lambda match: hide(USER, match["user"]) + "@", text)
    return _PARAMETER.sub(lambda match: f"{match['name']}={hide(name, match['value'])}" if _SECRET_PARAMETER.search(match["name"]) else match[0], text)


def _without_env(value: Any, hide: Hide) -> Any:  # any: what stands in JSON
    """JSON without what may be a secret in its tables of variables, which can hold no reference: those of somebody else's servers."""
    if isinstance(value, list):
        return [_without_env(item, hide) for item in value]
    if not isinstance(value, Mapping):
        return value
    clear = {key: _without_env(item, hide) for key, item in value.items()}
    variables = clear.get("env")
    return clear | {"env": {key: _variable(key, item, hide) for key, item in variables.items()}} if isinstance(variables, dict) else clear


def _variable(name: str, value: object, hide: Hide) -> object:
    is_secret = isinstance(value, str) and _OPAQUE_VALUE.fullmatch(value) and not _OPEN_NAME.search(name)
    return hide(name, str(value)) if is_secret else value


def _hidden_texts(name: str, text: str, hide: Hide) -> str:
    """Of JSON that is broken nobody can tell which texts in it are secrets."""
    for found in _TEXTS.finditer(text):
        hide(name, found[1])
    return hide(name, text)


def _hidden_url(name: str, url: str, hide: Hide) -> str:
    """A URL, be it a good one or one that lacks its scheme or has odd characters in its password: all before the last `@` is a secret."""
    if not any(character in url for character in ":/.@"):
        return hide(name, url)
    before, at, rest = url.rpartition("@")
    scheme = before[: before.index("://") + 3] if "://" in before else ""
    clear = f"{scheme}{hide(USER, before.removeprefix(scheme))}@{rest}" if at else url
    clear = _OPAQUE_PART.sub(lambda match: hide(name, match[0]), clear)
    return _PARAMETER.sub(lambda match: f"{match['name']}={hide(name, match['value'])}" if _is_secret_parameter(match) else match[0], clear)


def _is_secret_parameter(match: re.Match[str]) -> bool:
    """Of a URL that calls go to, whatever is not short and not the version of an interface."""
    return _SECRET_PARAMETER.search(match["name"]) is not None or (len(match["value"]) >= _SHORTEST and not match["name"].endswith("version"))


def _has_secret_parts(text: str) -> bool:
    return _AUTHORITY.search(text) is not None or any(_SECRET_PARAMETER.search(match["name"]) for match in _PARAMETER.finditer(text))
