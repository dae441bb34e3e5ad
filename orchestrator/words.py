"""The words of a statement, in any script: by them two statements are the same, opposed or near, and are found (page 4).

Scripts that put no blanks between words (Chinese, Japanese, Thai …) are taken by pairs of characters. A number is a word
whatever its digits and separators are, and so are symbols that change what is said (`+`, `%`, `€`, emoji).
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from orchestrator.messages import well_formed

NEAR = 0.6
"""Jaccard index of the sets of words from which on two statements are near each other (page 4)."""

Kind = Literal["word", "number", "series", "run", "symbol"]
"""A series is numbers with only blanks between them, after each of which it stands as one: `1 000 000`."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What a text says, as far as comparing goes."""

    words: frozenset[str]
    """Those that count; a text of stop words or punctuation alone counts as one word."""
    key: str
    """The same for equivalent statements."""
    stance: str
    """The same for a statement and its denial."""
    denied: bool


def statement_of(text: str) -> Statement:
    """The text taken apart; costs as much as the text is long."""
    said = list(_tokens(_normal(text)))
    words = _counting(said, text)
    affirmed, denied = _affirmed(said)
    return Statement(words, key_of(words), key_of(affirmed or words), denied)


def words_of(text: str) -> frozenset[str]:
    """The words of the statement alone."""
    return _counting(_tokens(_normal(text)), text)


def key_of(words: Iterable[str]) -> str:
    """A text that is the same for the same set of words."""
    return " ".join(sorted(words))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """The Jaccard index of two sets of words."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def changes_value(old: str, new: str, subject: str | None = None) -> bool:
    """Whether `new` says the same as `old` but for a value, given that both are about one subject.

    Both state a value of the same thing, and it is another number with the same few words about it, or one word instead of
    another. Where an `is` stands before a word, that thing must be more than the subject: Ann is many things, her editor is one.
    So in doubt it is no change, and both are told.
    """
    before, after = _stated(old), _stated(new)
    if before is None or after is None or before.of != after.of or before.says == after.says:
        return False
    if before.numbers and after.numbers:
        return before.numbers != after.numbers and before.beside == after.beside and len(before.beside) <= _BESIDE
    named = before.names and after.names
    return before.is_word and after.is_word and (named or bool(before.of - _owners(words_of(subject or ""))))


def is_number(word: str) -> bool:
    """Whether the word is a number, of whatever form."""
    return any(character.isdigit() for character in word) or _NUMERALS.fullmatch(word) is not None


def contains(text: str, part: str) -> bool:
    """Whether the part's words that count stand in the text, in a row.

    Blanks, case, punctuation, markup, entities, escapes of JSON and what a tool puts in front of lines do not count. Costs as much as the text is long.
    """
    words = _normal(part.casefold())
    aside = _SET_ASIDE if _in_a_row(words, _SET_ASIDE).strip() else frozenset()
    sought = _in_a_row(words, aside)
    if not sought.strip():
        return False
    telling = max((word for word in sought.split() if word not in _NOT_AS_WRITTEN), key=len, default="")
    return any(telling in normal and sought in _in_a_row(normal, aside) for normal in (_normal(form.casefold()) for form in _readings(text)))


_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>")
_NOT_AS_WRITTEN = frozenset(["not", "will", "shall", "ne"])
"""Words that a contraction is spelled out to and that do not stand in it."""
_ESCAPE = re.compile(r"(?<!\\)\\++(?:(?P<blank>[nrt])|(?P<unit>u[0-9A-Fa-f]{4}(?:\\++u[0-9A-Fa-f]{4})*)|(?=[\"'/]))")
_MARK = r"(?:[^\S\n]*(?:[>|\u2502\u2503*#+-]|\d{1,7}(?:[.:)|\u2192\u2502-]|(?=\s))))"
_LINE_START = re.compile(rf"^(?:[^\s:]{{1,200}}:\d{{1,7}}[:-]{_MARK}*|{_MARK}+)", re.MULTILINE)
"""Line numbers, with the file's name as well, and marks of quotes, lists, comments and changes."""


def _readings(text: str) -> Iterator[str]:
    """The text as it is written; as whoever it is shown to reads it; and that without what stands before its lines."""
    yield text
    shown = _ESCAPE.sub(_unescaped, text) if "\\" in text else text
    if "&" in shown:
        shown = html.unescape(html.unescape(shown))
    if "<" in shown:
        shown = _MARKUP.sub(" ", shown)
    if shown != text:
        yield shown
    bare = _LINE_START.sub(" ", shown)
    if bare != shown:
        yield bare


def _unescaped(found: re.Match[str]) -> str:
    if found["unit"]:
        return bytes.fromhex(found["unit"].replace("\\", "").replace("u", "")).decode("utf-16-be", "replace")
    return "\n" if found["blank"] == "n" else "\t" if found["blank"] else ""


def _in_a_row(normal: str, aside: frozenset[str]) -> str:
    return f" {' '.join(token for kind, token in _tokens(normal) if kind != 'series' and token not in aside)} "


def search_words(text: str) -> tuple[str, ...]:
    """What a search for the text goes by, in its order: without small words, inflections and accents; never with a blank in it."""
    found = [(word, token) for kind, token in _tokens(_normal(text)) for word in _search_forms(kind, token)]
    telling = tuple(word for word, token in found if token not in _SMALL_WORDS)
    return telling or tuple(word for word, _ in found)


def index_words(text: str) -> tuple[str, ...]:
    """What the text is found by: its search words, and the single characters of scripts without blanks."""
    return (*search_words(text), *(character for kind, token in _tokens(_normal(text)) if kind == "run" and len(token) > 1 for character in token))


# -- what counts ---------------------------------------------------------------------------------

_SET_ASIDE = frozenset(["a", "an", "the", "am", "is", "are", "be"])
"""Words whose presence says nothing. Short on purpose: facts that differ in a word stay apart."""

_DENIAL_WORDS = (
    "not no never none nobody nothing neither nor"  # English
    " nicht kein keine keinen keinem keiner keines nie niemals"  # German
    " ne pas jamais aucun aucune non"  # French, Italian
    " nunca jamás mai não niet geen nooit"  # Spanish, Italian, Portuguese, Dutch
    " inte ingen aldrig ikke aldri"  # Swedish, Danish, Norwegian
    " не нет никогда ні ніколи δεν μην όχι değil yok"  # Russian, Ukrainian, Greek, Turkish
    " لا ليس لم لن غير לא אין नहीं मत न 안 못 không chưa đừng tidak bukan jangan"  # Arabic, Hebrew, Hindi, Korean, Vietnamese, Indonesian
)
_DENIALS = frozenset(_DENIAL_WORDS.split())
_EMPHASIS = frozenset(["do", "does", "did", "always", "please", "ever"])
"""What an affirmed statement may have more or less than its denial."""
_NO_MORE = frozenset(["longer", "anymore"])

_DENIED_RUNS = (
    *(("しない", "する"), ("ません", "ます"), ("没有", "有"), ("沒有", "有")),
    *((denial, "") for denial in ("不要", "不用", "请勿", "請勿", "切勿", "不", "没", "沒", "勿", "别", "別", "未", "无", "無", "非")),
    *((denial, "") for denial in ("ไม่", "อย่า", "ห้าม", "ບໍ່", "មិន", "កុំ")),
)
"""Denials in scripts without blanks, and what stands there in the affirmed statement."""
_JAPANESE = dict(zip("わかさたなまらがばざ", "うくすつぬむるぐぶず", strict=True))
_JAPANESE_DENIAL = re.compile(r"(\w)ない")

_CONTRACTIONS = {"can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not"}
_CONTRACTIONS |= {f"{verb}nt": f"{verb} not" for verb in ("do", "does", "did", "is", "are", "was", "were", "has", "have", "should", "must")}

_NUMERALS = re.compile("[〇零一二三四五六七八九十百千万萬亿億兆两兩]{2,}")


def _counting(said: Iterable[tuple[Kind, str]], text: str) -> frozenset[str]:
    return frozenset(word for kind, token in said for word in _words(kind, token) if word not in _SET_ASIDE) or frozenset(["".join(text.split())])


def _words(kind: Kind, token: str) -> Iterator[str]:
    if kind != "run":
        yield token
        return
    yield from _pairs(token)
    yield from _NUMERALS.findall(token)  # pairs alone do not tell how often a numeral is repeated


def _pairs(run: str) -> Iterator[str]:
    """The run by pairs of characters; a single one stands for itself."""
    if len(run) == 1:
        yield run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


def _affirmed(said: list[tuple[Kind, str]]) -> tuple[set[str], bool]:
    """The words without any denial, and whether there was one."""
    denied = any(token in _DENIALS for _, token in said)
    kept: set[str] = set()
    for kind, token in said:
        affirmed = _affirmed_run(token) if kind == "run" else token
        denied = denied or affirmed != token
        if affirmed and token not in _DENIALS and token not in _EMPHASIS and token not in _SET_ASIDE:
            kept.update(_words(kind, affirmed) if kind == "run" else [_without_s(affirmed)])
    return (kept - _NO_MORE if denied else kept), denied


def _affirmed_run(run: str) -> str:
    for denial, affirmation in _DENIED_RUNS:
        run = run.replace(denial, affirmation)
    return _JAPANESE_DENIAL.sub(lambda found: _JAPANESE.get(found[1], found[1] + "る"), run)


def _without_s(word: str) -> str:
    """`likes` and `does not like` say the same of the same."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_NUMERAL = "0-9\u3007\u96f6\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341"
_VALUE = re.compile(
    r"(?P<of>.+?)(?P<by>\s(?:is|ist|est)\s|\s(?:are|sind|es|é|è)\s|\s*=\s*|:\s|(?:是|为|為|は|(?<=[^\x00-\x7f]):)\s*(?=[" + _NUMERAL + r"]))(?P<value>.+)"
    r"|(?P<noun>[^\W\d]+)\s(?P<number>[\d.,]*\d)\W*",
    re.DOTALL,
)
"""How a value is stated: of what, by which word or sign, and the value; or a noun and a number alone."""
_BESIDE = 2
"""How many words may stand beside a number that is a value: `34 years old`."""


@dataclass(frozen=True, slots=True)
class _Value:
    of: frozenset[str]
    """What it is stated of, without an owner's `'s`."""
    says: frozenset[str]
    numbers: tuple[str, ...]
    beside: frozenset[str]
    """Its other words."""
    is_word: bool
    """Whether it is a single word, set apart by blanks."""
    names: bool
    """Whether a sign states it, so that what stands before that is a name."""


def _stated(text: str) -> _Value | None:
    """The value that a text states in a plain form, if it does."""
    found = _VALUE.fullmatch(" ".join(_normal(text).split()))
    if found is None:
        return None
    value, by = found["value"] or found["number"], (found["by"] or "").strip()
    said = list(_tokens(value))
    chunks = [chunk for chunk in value.split() if chunk not in _SET_ASIDE] or value.split()
    return _Value(
        of=_owners(words_of(found["of"] or found["noun"])),
        says=_counting(said, value),
        numbers=tuple(number for kind, token in said for number in ([token] if kind == "number" else _NUMERALS.findall(token) if kind == "run" else ())),
        beside=frozenset(
            word for kind, token in said if kind not in ("number", "series") for word in _words(kind, _NUMERALS.sub("", token)) if word not in _SET_ASIDE
        ),
        is_word=len(chunks) == 1 and by in ("is", "ist", "est", "=", ":") and all(kind != "run" for kind, _ in said),
        names=by in ("=", ":"),
    )


def _owners(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word.removesuffix("'s") for word in words)


# -- what is searched for ------------------------------------------------------------------------

_SMALL = (
    "a about after all also am an and any are as at be been before but by can could did do does for from get had has have he her here him his how i if in"
    " into is it its just may me might more most must my no not of on one only or other our out please shall she should so some such than that the"
    " their them then there these they this those to too up us very was we were what when where which who whom whose why will with would you your"
)
_SMALL_WORDS = frozenset(_SMALL.split())
_VOWELS = re.compile("[aeiouy]")
_PARTS = re.compile(r"(?:[^\w.,']|_)+")


def _search_forms(kind: Kind, token: str) -> Iterator[str]:
    if kind == "run":
        yield from _pairs(token)
    if kind in ("run", "series"):
        return
    parts = [part for part in _PARTS.split(token) if part]
    for form in [token, *parts] if len(parts) > 1 else [token]:
        yield _stem(_without_accents(form))


def _without_accents(word: str) -> str:
    """In Latin, Greek and Cyrillic only: elsewhere the marks are vowels."""
    if word.isascii() or word[0] > "\u052f":
        return word
    return "".join(character for character in unicodedata.normalize("NFD", word) if not "\u0300" <= character <= "\u036f")


def _stem(word: str) -> str:
    """English inflections cut off, so that `deploys` and `deploying` are found by `deploy`."""
    word = word.removesuffix("'s")
    if not (word.isascii() and word.isalpha()) or len(word) < 3:
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and len(word) > 3 and word[-2] not in "sui":
        word = word[:-1]
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2 and _VOWELS.search(stem):
            word = stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "lsz" else stem
            break
    return word[:-1] if word.endswith("e") and len(word) > 2 else word


# -- words ---------------------------------------------------------------------------------------

_ALIKE = str.maketrans(
    dict.fromkeys("\u2018\u2019\u02bc\u2032", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | {"\u066b": ".", "\u2396": ".", "\u066c": ","}  # what parts a number in Arabic, and on keyboards
)
_COMPARISONS = {"!=": "\u2260", "<>": "\u2260", "<=": "\u2264", ">=": "\u2265"}
_COMPARISON = re.compile("|".join(_COMPARISONS))
_LETTER_A = re.compile(r"(?<=[\w,;)] )A(?![\w'])")
_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KEPT_ASCII = frozenset("<>$%")
_TOKEN = re.compile(
    r"(?P<number>(?:(?<![ad])[+-](?=\.?d))?(?:(?<![ad.])\.(?=d))?d+(?:[^adu ]{1,3}d+)*[ad]*)"
    r"|(?P<word>[ad]+(?:'[ad]+|(?<=d)\.(?=d)[ad]+)*)"
    r"|(?P<run>u+)"
    r"|(?P<symbol>s|\++|(?<=[ad])#|(?<![ad])-(?=sd))"
)
"""Over the kinds of the characters: a letter or mark, d digit, u of a script without blanks, s symbol, p punctuation; others as they are.

A sign counts where no letter or digit stands before it, and what parts digits belongs to the number.
"""


def _normal(text: str) -> str:
    """NFKC and case folding, and what else is written in several ways."""
    text = _COMPARISON.sub(lambda found: _COMPARISONS[found[0]], _with_letter(text))
    if text.isascii():
        return text.casefold()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", well_formed(text)).casefold())
    return "".join(_plain_character(character) for character in folded.translate(_ALIKE))


def _with_letter(text: str) -> str:
    """`plan A` names something, unlike an article: in the middle of a sentence that is not all capitals it is marked as a word of its own."""
    return _LETTER_A.sub("A_", text) if " A" in text and not text.isupper() else text


@lru_cache(maxsize=4096)
def _plain_character(character: str) -> str:
    """Digits of any script as ours; invisible characters and variants not at all."""
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.digit(character))
    return "" if category == "Cf" or "\ufe00" <= character <= "\ufe0f" else character


def _tokens(text: str) -> Iterator[tuple[Kind, str]]:
    kinds = "".join(map(_kind_of, text))
    series: list[str] = []
    end = 0
    for found in _TOKEN.finditer(kinds):
        kind: Kind = found.lastgroup  # type: ignore[assignment]  # the names of its groups are the kinds
        token = text[found.start() : found.end()]
        if kind != "number" or not kinds[end : found.start()].isspace():
            yield from _in_series(series)
            series = []
        if kind == "number":
            series.append(token)
        end = found.end()
        if (kind == "word" and "'" in token) or token in _CONTRACTIONS:
            yield from (("word", word) for word in _spelled_out(token))
        else:
            yield kind, token
    yield from _in_series(series)


def _in_series(numbers: list[str]) -> Iterator[tuple[Kind, str]]:
    if len(numbers) > 1:
        yield "series", "_".join(numbers)


def _spelled_out(word: str) -> list[str]:
    """Contractions of a denial as two words."""
    word = _CONTRACTIONS.get(word, word)
    if word.endswith("n't"):
        word = f"{word[:-3]} not"
    if word.startswith("n'"):
        word = f"ne {word[2:]}"
    return word.split()


@lru_cache(maxsize=4096)
def _kind_of(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return "d"
    if _UNSPACED.match(character) and category[0] in "LMN":
        return "u"
    if category[0] in "LMN" or character == "_":
        return "a"
    if character.isspace():
        return " "
    if character.isascii():
        return "s" if character in _KEPT_ASCII else character if character in "'.,:/-+#" else "p"
    return "s" if category in ("Sm", "Sc", "So") or "\U0001f3fb" <= character <= "\U0001f3ff" else "p"
