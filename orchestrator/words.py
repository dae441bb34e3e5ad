"""The words of a statement, in any script: by them two statements are the same, opposed or near, and are found (page 4).

Scripts that put no blanks between words (Chinese, Japanese, Thai …) are taken by pairs of characters. A number is a word
whatever its digits and separators are, and so are symbols that change what is said (`+`, `%`, `€`, emoji).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from orchestrator.messages import well_formed

NEAR = 0.6
"""Jaccard index of the sets of words from which on two statements are near each other (page 4)."""

Kind = Literal["word", "number", "run", "symbol"]


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


def changes_value(old: str, new: str) -> bool:
    """Whether `new` says the same as `old` but for a value, given that both are about one subject.

    So it is where only numbers differ, where what stands before an `is`, `=` or `:` is the same, and where most words are
    shared while each has some of its own.
    """
    before, after = statement_of(old).words, statement_of(new).words
    if before <= after or after <= before:
        return False
    if likeness(before, after) >= NEAR or all(is_number(word) for word in before ^ after):
        return True
    return (topic := _topic(old)) is not None and topic == _topic(new)


def is_number(word: str) -> bool:
    """Whether the word is a number, of whatever form."""
    return any(character.isdigit() for character in word) or _NUMERALS.fullmatch(word) is not None


def contains(text: str, part: str) -> bool:
    """Whether the part's words stand in the text, in a row; blanks, case, punctuation and markup do not count."""
    sought = " ".join(token for _, token in _tokens(_normal(part)))
    return bool(sought) and any(f" {sought} " in f" {' '.join(token for _, token in _tokens(_normal(form)))} " for form in (text, _MARKUP.sub(" ", text)))


_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>")


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


_TOPIC = re.compile(r"^(.+?)(?:\s(?:is|are|was|ist|sind|est|es)\s|\s*=\s*|:\s)", re.DOTALL)


def _topic(text: str) -> frozenset[str] | None:
    """The words of what a value is stated of, where that has a plain form."""
    found = _TOPIC.match(_normal(text).strip())
    return None if found is None else statement_of(found[1]).words


# -- what is searched for ------------------------------------------------------------------------

_SMALL = (
    "a about after all also am an and any are as at be been before but by can could did do does for from get had has have he her here him his how i if in"
    " into is it its just may me might more most must my no not of on one only or other our out please shall she should so some such than that the"
    " their them then there these they this those to too up us very was we were what when where which who whom whose why will with would you your"
)
_SMALL_WORDS = frozenset(_SMALL.split())
_VOWELS = re.compile("[aeiouy]")


def _search_forms(kind: Kind, token: str) -> Iterator[str]:
    if kind == "run":
        yield from _pairs(token)
        return
    parts = [part for part in re.split(r"[_:/-]", token) if part]
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

_ALIKE = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u2032", "'") | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KEPT_ASCII = frozenset("<>$%")
_TOKEN = re.compile(
    r"(?P<number>(?:(?<![^ ])[+-](?=d))?d+(?:[.,:/-]d+)*[ad]*)"
    r"|(?P<word>[ad]+(?:'[ad]+|(?<=d)\.(?=d)[ad]+)*)"
    r"|(?P<run>u+)"
    r"|(?P<symbol>s|\++|(?<=[ad])#)"
)
"""Over the kinds of the characters: a letter or mark, d digit, u of a script without blanks, s symbol; others as they are."""


def _normal(text: str) -> str:
    """NFKC and case folding, and what else is written in several ways."""
    if text.isascii():
        return text.casefold()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", well_formed(text)).casefold())
    return "".join(_plain_character(character) for character in folded.translate(_ALIKE))


@lru_cache(maxsize=4096)
def _plain_character(character: str) -> str:
    """Digits of any script as ours; invisible characters and variants not at all."""
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.digit(character))
    return "" if category == "Cf" or "\ufe00" <= character <= "\ufe0f" else character


def _tokens(text: str) -> Iterator[tuple[Kind, str]]:
    kinds = "".join(map(_kind_of, text))
    for found in _TOKEN.finditer(kinds):
        start, end = found.span()
        kind: Kind = found.lastgroup  # type: ignore[assignment]  # the names of its groups are the kinds
        token = text[start:end]
        if (kind == "word" and "'" in token) or token in _CONTRACTIONS:
            yield from (("word", word) for word in _spelled_out(token))
        else:
            yield kind, token


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
    if character.isascii():
        return "s" if character in _KEPT_ASCII else character if character in "'.,:/-+#" else " "
    return "s" if category in ("Sm", "Sc", "So") or "\U0001f3fb" <= character <= "\U0001f3ff" else " "
