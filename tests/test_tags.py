"""Tags are found wherever the stream was cut, never in code, and never by accident."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.tags import KINDS, MAX_BODY, MAX_HELD, Tag, TagFilter, neutralise, new_nonce, strip_tags, tag

N = "7f3a9c"
OPEN, CLOSE = f"<escalera:need:{N}>", f"</escalera:need:{N}>"
TRIALS = Path(__file__).parent / "trials"


def filtered(chunks: Iterable[str], nonce: str = N) -> tuple[str, list[Tag]]:
    tag_filter = TagFilter(nonce)
    shown, tags = "", []
    for text, found in [*map(tag_filter.feed, chunks), tag_filter.finish()]:
        shown += text
        tags += found
    return shown, tags


def needs(text: str) -> list[str]:
    return [found.body for found in filtered([text])[1]]


def trial(name: str) -> dict[str, object]:
    data: dict[str, object] = json.loads((TRIALS / f"{name}.json").read_text("utf-8").replace("x:need", "escalera:need").replace("X:NEED", "ESCALERA:NEED"))
    return data


# -- a second, plain reading of the rules, for whole texts only -----------------------------------

FENCE = re.compile(r" {0,3}(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)(?:\n|\Z)")
MARK = re.compile(rf"<(/?)escalera:(need|percept|escalate):{N}>")


def reading(text: str) -> tuple[str, list[Tag]]:
    shown, tags, at = "", [], 0
    while at < len(text):
        after = at + 1
        at_line = at == 0 or text[at - 1] == "\n"
        if at_line and (fence := FENCE.match(text, at)):
            after = end_of_fence(text, fence)
        elif text[at] == "`":
            run = re.compile("`+").match(text, at)
            assert run
            after = end_of_span(text, run.end(), len(run[0])) or run.end()
        elif (mark := MARK.match(text, at)) and not mark[1]:
            after = mark.end()
            following = MARK.search(text, after)
            if following and following[1] and following[2] == mark[2] and following.start() - after <= MAX_BODY:
                kind = next(kind for kind in KINDS if kind == mark[2])
                tags.append(Tag(kind, text[after : following.start()].strip()))
                at = following.end()
                continue
        shown += text[at:after]
        at = after
    return shown, tags


def end_of_fence(text: str, fence: re.Match[str]) -> int:
    mark = fence[1] or fence[2]
    closing = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t\r]*(?:\n|\Z)", re.MULTILINE)
    found = closing.search(text, fence.end()) if fence.end() > fence.start() and text[fence.end() - 1] == "\n" else None
    return found.end() if found else len(text)


def end_of_span(text: str, start: int, length: int) -> int | None:
    """Runs are weighed one after the other: a run closes the span it fits, and all that were opened in it."""
    pending = [length]
    for token in re.compile(r"\n[ \t\r]*\n|\n(?= {0,3}[`~])|`+").finditer(text, start):
        if token[0].startswith("`"):
            run = len(token[0])
            if run == length:
                return token.end()
            pending = pending[: pending.index(run)] if run in pending else [*pending, run]
        elif re.fullmatch(r"\n[ \t\r]*\n", token[0]):
            return None
        elif not (fence := FENCE.match(text, token.end())):
            continue
        elif fence[1] and len(fence[1]) in pending and not fence[0].replace("`", "").strip(" \t\r\n"):
            continue  # its backticks come next, and close
        else:
            return None
    return None


PIECES = [OPEN, CLOSE, OPEN, CLOSE, f"<escalera:percept:{N}>", f"</escalera:percept:{N}>", "<escalera:need:000000>", "<escalera:need>", "<", "</", "<escalera:"]
PIECES += ["`", "`", "``", "```", "````", "~~~", "~", "\n", "\n", "\n\n", " ", "   ", "    ", "a", "b c", "- "]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@settings(max_examples=400, deadline=None)
@given(texts)
@example("``\n<escalera:need:7f3a9c>x</escalera:need:7f3a9c>``")
@example("` ``` <escalera:need:7f3a9c>a</escalera:need:7f3a9c>\n```\n`")
def test_a_stream_reads_as_the_rules_do_and_wherever_it_is_cut(text: str) -> None:
    expected = reading(text)

    assert filtered([text]) == expected
    assert filtered(text) == expected


@settings(max_examples=150, deadline=None)
@given(texts, st.data())
def test_the_result_is_the_same_for_any_chunks(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert filtered(chunks) == filtered([text])


@settings(max_examples=150, deadline=None)
@given(texts.map(lambda text: re.sub(r"(?<=>)\s+|\s+(?=<)", "", text)))
def test_nothing_is_swallowed(text: str) -> None:
    shown, tags = filtered(text)

    assert Counter(shown + "".join(tag(found.kind, found.body, N) for found in tags)) == Counter(text)


# -- trials --------------------------------------------------------------------------------------


@pytest.mark.trial("T98")
def test_t98_a_tag_is_found_wherever_it_is_cut() -> None:
    case = trial("T98")
    text = str(case["text"])
    expected = ("before a < b  after", [Tag("need", "deploy prod?")])

    for first, second in combinations(range(len(text) + 1), 2):
        assert filtered([text[:first], text[first:second], text[second:]]) == expected


@pytest.mark.trial("T98")
def test_t98_a_plain_bracket_is_not_held_back() -> None:
    tag_filter = TagFilter(N)

    assert [tag_filter.feed(chunk)[0] for chunk in ("1 < 2 and", "x <y ", " done")] == ["1 < 2 and", "x <y ", " done"]
    assert tag_filter.feed("<escal")[0] == ""
    assert tag_filter.feed("ator")[0] == "<escalator"


@pytest.mark.trial("T100")
def test_t100_only_the_agents_own_answer_can_carry_a_tag() -> None:
    cases = trial("T100")["cases"]
    assert isinstance(cases, list)

    for case in cases:
        sent = neutralise(case["text"])
        assert sent != case["text"]
        assert filtered([f"You wrote: {sent}"]) == (f"You wrote: {sent}", [])
    for case in cases[3:]:
        assert filtered([case["text"]]) == (case["text"], [])


@pytest.mark.trial("T101")
def test_t101_code_is_never_acted_on() -> None:
    cases = trial("T101")["cases"]
    assert isinstance(cases, list)

    for case in cases:
        text = case["text"]
        assert filtered([text]) == (text, [])
        assert filtered(text) == (text, [])


# -- what is a tag, and what is none -------------------------------------------------------------


@pytest.mark.parametrize(
    "before", ["<", "<<", "<escalera:need:", "<escalera:need:<", f"<escalera:need:{N}", "</", "x<", CLOSE, OPEN, "<escalera:percept:000000>"]
)
def test_a_tag_is_found_behind_text_that_only_began_like_one(before: str) -> None:
    assert filtered([f"{before}{OPEN}go{CLOSE}!"]) == (f"{before}!", [Tag("need", "go")])


def test_every_kind_is_acted_on_once_in_order_and_trimmed() -> None:
    text = f"a{tag('percept', ' @big: p ', N)}b{tag('need', ' n ', N)}{tag('escalate', '', N)}c"

    assert filtered([text]) == ("abc", [Tag("percept", "@big: p"), Tag("need", "n"), Tag("escalate", "")])


@pytest.mark.parametrize(
    "text",
    [
        "<escalera:need:000000>x</escalera:need:000000>",
        "<escalera:need>x</escalera:need>",
        f"<ESCALERA:NEED:{N}>x</ESCALERA:NEED:{N}>",
        f"<escalera:need:{N} >x{CLOSE}",
        f"< escalera:need:{N}>x{CLOSE}",
        f"<escalera:wish:{N}>x</escalera:wish:{N}>",
        f"＜escalera:need:{N}＞x{CLOSE}",
        f"x{CLOSE}",
        f"{OPEN}never closed",
        f"{OPEN}x</escalera:percept:{N}>",
        f"{OPEN}x</escalera:percept:{N}> y{CLOSE}",
    ],
)
def test_what_is_not_exactly_a_tag_is_text(text: str) -> None:
    assert filtered([text]) == (text, [])
    assert filtered(text) == (text, [])


def test_of_nested_tags_the_innermost_counts() -> None:
    inner = tag("percept", "p", N)

    assert filtered([f"{OPEN}a {inner} b{CLOSE}"]) == (f"{OPEN}a  b{CLOSE}", [Tag("percept", "p")])
    assert filtered([f"{OPEN}a {OPEN}b{CLOSE} c{CLOSE}"]) == (f"{OPEN}a  c{CLOSE}", [Tag("need", "b")])
    assert filtered([f"{OPEN}a <escalera:percept:{N}>b{CLOSE} c</escalera:percept:{N}>"])[1] == []


@pytest.mark.parametrize("body", ["a < b", "run `x", "a\n\nb", "```\ncode\n```", "<b>", "<escalera:need:000000>", "</", "<escalera:need:"])
def test_a_body_may_hold_anything_but_marks_of_its_own_session(body: str) -> None:
    assert filtered(f"{OPEN}{body}{CLOSE}. `x`") == (". `x`", [Tag("need", body)])


@pytest.mark.parametrize(("length", "found"), [(MAX_BODY, True), (MAX_BODY + 1, False), (3 * MAX_BODY, False)])
def test_a_body_over_the_limit_is_shown(length: int, found: bool) -> None:
    body = "x" * length
    text = f"{OPEN}{body}{CLOSE}{tag('percept', 'next', N)}"
    expected = ("", [Tag("need", body), Tag("percept", "next")]) if found else (f"{OPEN}{body}{CLOSE}", [Tag("percept", "next")])

    assert filtered([text]) == expected
    assert filtered(text) == expected


def test_a_body_that_grew_too_long_is_shown_at_once() -> None:
    tag_filter = TagFilter(N)

    shown, _ = tag_filter.feed(OPEN + "x" * (MAX_BODY + 100))

    assert shown == OPEN + "x" * (MAX_BODY + 100)


# -- code ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("`", "`"),
        ("``a ` b ", "``"),
        ("` ``", "`"),
        ("`a\n", "\nb`"),
        ("```\n", "\n```\n"),
        ("````\n```\n", "\n```\n````"),
        ("```\n\n\n", "\n\n```"),
        ("   ~~~ a`b\n", "\n~~~"),
        ("~~~\n```\n", "\n```\n~~~"),
        ("```\n~~~\n", "\n```"),
        ("```\n", "\n    ```\n"),
        ("```\n", "\n``` x\n"),
        ("```\n", ""),
        ("text\n```py\n", ""),
        ("``` ", "\n"),
        ("~~~ ", ""),
        ("```\r\n", "\r\n```\r\n"),
        ("Example: ```xml\n", "\n```\n"),
        ("- ```\n  ", "\n  ```\n"),
        ("> ```\n> ", "\n> ```\n"),
        ("`" * 300 + " ", " " + "`" * 300),
    ],
)
def test_a_tag_in_code_is_text(before: str, after: str) -> None:
    text = f"{before}{OPEN}demo{CLOSE}{after}"

    assert filtered([text]) == (text, [])
    assert filtered(text) == (text, [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("`a` ", ""),
        ("` ", ""),
        ("` ", "\n\n`"),
        ("` ", "\n \t\r\n`"),
        ("``` ` ", "\n"),
        ("`` ", " ```\n`"),
        ("` ", "\n```\n`\n```\n"),
        ("```\n```\n", ""),
        ("```\n````  \n", ""),
        ("~~~\n ~~~\n", ""),
        ("    ```\n", "\n"),
        ("\t~~~\n", "\n~~~"),
        ("``\n", "\n\n``"),
        ("~~\n", "\n~~"),
        ("a ~~~\n", "\n"),
        ("Example: ```xml\nx\n```\n", "\n```\n"),
    ],
)
def test_a_tag_beside_code_counts(before: str, after: str) -> None:
    text = f"{before}{OPEN}go{CLOSE}{after}"

    assert filtered([text]) == (before + after, [Tag("need", "go")])
    assert filtered(text) == (before + after, [Tag("need", "go")])


def test_text_in_a_possible_span_is_shown_until_a_tag_comes() -> None:
    tag_filter = TagFilter(N)

    assert tag_filter.feed("a ` b ") == ("a ` b ", [])
    assert tag_filter.feed(f"c {OPEN}go{CLOSE} d") == ("c ", [])
    assert tag_filter.feed(" e\n\nf") == (" d e\n\nf", [Tag("need", "go")])


def test_in_a_fence_nothing_is_held_back() -> None:
    tag_filter = TagFilter(N)

    assert tag_filter.feed(f"```\n{OPEN}a")[0] == f"```\n{OPEN}a"
    assert tag_filter.feed("<escal")[0] == "<escal"


@pytest.mark.parametrize("size", [1, 7, 4096, 10**6])
def test_a_span_that_stays_open_too_long_is_taken_as_code_to_its_end(size: int) -> None:
    filler = "word " * (MAX_HELD // 5)
    paragraph = f"` {OPEN}a{CLOSE}{filler}{OPEN}b{CLOSE}"
    text = f"{paragraph}\n\n{OPEN}c{CLOSE}"

    assert filtered(text[at : at + size] for at in range(0, len(text), size)) == (f"{paragraph}\n\n", [Tag("need", "c")])


def test_a_tag_close_enough_to_the_end_of_a_long_paragraph_counts() -> None:
    assert needs(f"` {'word ' * MAX_HELD}{OPEN}a{CLOSE}") == ["a"]


# -- cost ----------------------------------------------------------------------------------------

HOSTILE: dict[str, Callable[[int], str]] = {
    "an unclosed tag": lambda size: OPEN + "x" * size,
    "brackets": lambda size: "<" * size,
    "backticks": lambda size: "`" * size,
    "openings": lambda size: OPEN * (size // len(OPEN)),
    "beginnings": lambda size: "<escalera:" * (size // 10),
    "openings in an open span": lambda size: "` " + OPEN * (size // len(OPEN)),
    "spans": lambda size: "`a` ``b`` ~ c\n" * (size // 14),
    "bodies of brackets": lambda size: (OPEN + "<" * MAX_BODY) * (size // MAX_BODY),
    "held paragraphs": lambda size: (f"` {OPEN}" + "y " * 8000 + "\n\n") * (size // 16000),
    "lines that may be fences": lambda size: f"``` {OPEN * 40}\n" * (size // 800),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("chunk", [16, 10**9])
def test_cost_is_linear_whatever_comes(name: str, chunk: int) -> None:
    """Four times the text may take four times as long, and a margin for a busy machine; a square would take sixteen times."""
    small, large = (fastest(HOSTILE[name](size), chunk) for size in (60_000, 240_000))

    assert large < 10 * small + 0.05


def fastest(text: str, size: int) -> float:
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    return min(seconds(chunks) for _ in range(3))


def seconds(chunks: Sequence[str]) -> float:
    started = time.thread_time()
    filtered(chunks)
    return time.thread_time() - started


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_kept_is_bounded(name: str) -> None:
    tag_filter = TagFilter(N)
    text = HOSTILE[name](100_000)
    fed = shown = 0
    for at in range(0, len(text), 100):
        fed += len(text[at : at + 100])
        visible, tags = tag_filter.feed(text[at : at + 100])
        shown += len(visible) + sum(len(tag(found.kind, found.body, N)) for found in tags)
        assert fed - shown <= MAX_HELD + 100


# -- the other way: texts for agents -------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        OPEN,
        CLOSE,
        "<escalera:need>",
        "</ Escalera : NEED :x>",
        "<<escalera:escalate:1>",
        "＜escalera:percept:1＞",
        "<／ｅｓｃａｌｅｒａ：ｎｅｅｄ：1>",
        "<\u200bescalera:need:1>",
        "<escalera:need",
        "<escalera:need_",
        "<\nescalera:need:x>",
    ],
)
def test_what_looks_like_a_tag_is_made_harmless(text: str) -> None:
    harmless = neutralise(text)

    assert harmless == re.sub("[<＜](?!<)", "‹", text)
    assert neutralise(harmless) is harmless


@pytest.mark.parametrize(
    "text", ["", "plain", "a < b", "<div>escalera:need</div>", "escalera:need:7f3a9c", "<escalera:needle>", "<escalera>", "‹escalera:need:1>", "＜＞"]
)
def test_other_text_stays_the_same_object(text: str) -> None:
    assert neutralise(text) is text


@settings(max_examples=200, deadline=None)
@given(texts)
def test_no_tag_survives_being_made_harmless(text: str) -> None:
    harmless = neutralise(text)

    assert filtered([harmless]) == (harmless, [])
    assert neutralise(harmless) == harmless
    assert harmless.replace("‹", "<") == text


def test_making_harmless_is_linear_in_hostile_text() -> None:
    started = time.thread_time()
    for text in ("<" + " " * 300_000, "< " * 150_000, "<escalera:" * 30_000, "<" * 300_000):
        assert neutralise(text) is text

    assert time.thread_time() - started < 2


def test_a_digest_has_no_tags() -> None:
    assert strip_tags(f"Done. {OPEN}x{CLOSE}Next `{OPEN}`", N) == f"Done. Next `{OPEN}`"
    assert strip_tags("Done.", N) == "Done."


def test_a_nonce_has_sixteen_safe_characters_of_the_given_source() -> None:
    assert new_nonce(lambda count: bytes(range(count))) == "aaaqeayeaudaocaj"
    assert re.fullmatch("[a-z0-9]{16}", new_nonce(lambda count: b"\xff" * count))


def test_a_filter_needs_a_nonce() -> None:
    with pytest.raises(ValueError, match="nonce"):
        TagFilter("")


def test_an_example_for_instructions_is_a_tag() -> None:
    assert _only(filtered([tag("escalate", "why", "abc")], "abc")[1]) == Tag("escalate", "why")


def _only(tags: Iterable[Tag]) -> Tag:
    items: Iterator[Tag] = iter(tags)
    first = next(items)
    assert next(items, None) is None
    return first
