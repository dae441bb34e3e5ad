"""A session can be read by humans, and what agents wrote stays where it belongs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from orchestrator.documents.readable import html, markdown
from orchestrator.messages import Reasoning, Text, ToolCall, ToolResult
from orchestrator.session import Need, Outcome, Role, Session, State, Turn, TurnError

HOSTILE = '<script>alert(1)</script>\n# Title\n```\nopen <b>fence\x1b[2J\u202e" onload="x'
SESSION = Session(
    "s1", "/w/<b>", "nonce", name="# *x* {facts} </title><script>", created_at=datetime(2026, 1, 1, tzinfo=UTC), need=Need("a\n# b", 0, True, None, "user")
)
TURNS = (
    Turn(0, Role.PRIMARY, "local", HOSTILE, (Text(HOSTILE),), Outcome.ESCALATED),
    Turn(
        1,
        Role.ESCALATION,
        "big<i>",
        None,
        (Reasoning("hm"), ToolCall("c", "grep", {"q": "```</pre>"}), ToolResult("c", "a ````` b", is_error=True), Text("done `<b>` <b>")),
        Outcome.FAILED,
        mode="first",
        continues=0,
        error=TurnError("Incomplete", "cut off"),
    ),
)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_holds_all_texts_and_no_markup_of_theirs() -> None:
    page = Page(html(SESSION, TURNS))

    assert set(page.tags) == {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "dl", "dt", "dd", "article", "pre"}
    assert page.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "id", "dir"}
    assert page.text.count("<script>alert(1)</script>") == 2
    assert "# *x* {facts} </title><script>" in page.text
    assert "done `<b>` <b>" in page.text
    assert "cut off" in page.text


def test_neither_form_can_drive_a_terminal() -> None:
    for text in (html(SESSION, TURNS), markdown(SESSION, TURNS)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "␛[2J" in text
        text.encode()


def test_markdown_has_one_heading_a_turn_whatever_was_said() -> None:
    text = markdown(SESSION, TURNS)

    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        r"# \# \*x\* \{facts\} \</title\>\<script\>",
        "## Turn 0 · primary · local · escalated",
        r"## Turn 1 · escalation · big\<i\> · first · failed",
    ]


def test_markdown_quotes_what_was_said_and_fences_what_tools_said() -> None:
    text = markdown(SESSION, TURNS)

    assert "> &lt;script>alert(1)&lt;/script>\n> # Title\n>\n> ```\n> open <b>fence" in text
    assert "> done `&lt;b>` &lt;b>" in text
    assert "**Call grep**\n\n````\n{\n" in text
    assert "**Failed**\n\n``````\na ````` b\n``````" in text


@pytest.mark.parametrize(
    "said",
    [
        "\\`<img src=x onerror=alert(1)>`",
        "a `\n<img src=x onerror=alert(2)> `",
        "```a`\n<img src=x onerror=alert(3)>",
        "- item\n  ```\n<img src=x onerror=alert(4)>\n  ```\n<img src=x onerror=alert(5)>",
        "~~~\ncode\n````\n<i>\n~~~~\n<img src=x onerror=alert(6)>",
        "    ```\n<img src=x onerror=alert(7)>",
        "```\ncode\n    ```\n<i>\n```\n<img src=x onerror=alert(8)>",
        "![t](http://evil.invalid/x.png)",
        "`![t](http://evil.invalid/x.png)",
    ],
)
def test_markdown_brings_no_markup_of_its_own(said: str) -> None:
    text = markdown(SESSION, [Turn(0, Role.PRIMARY, "local", "p", (Text(said),))])

    page = Page(MarkdownIt("commonmark").render(text))
    assert set(page.tags) <= {"h1", "h2", "ul", "li", "p", "strong", "blockquote", "code", "pre"}


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("```py\nif a < b: ![x]\n```", "if a < b: ![x]\n"),
        ("~~~\n```\n<b>\n~~~", "```\n<b>\n"),
        ("````\n```\n<b>\n````", "```\n<b>\n"),
        ("```\nleft open <b>", "left open <b>\n"),
    ],
)
def test_fenced_code_is_shown_as_it_is(code: str, shown: str) -> None:
    text = markdown(SESSION, [Turn(0, Role.PRIMARY, "local", "p", (Text(f"before\n{code}"),))])

    assert f"<code>{escape(shown)}" in MarkdownIt("commonmark").render(text)


def test_a_session_without_anything_can_be_read() -> None:
    empty = Session("s2", "/w", "nonce", state=State.ROUTING)

    assert markdown(empty, ()) == "# Session s2\n\n- id: s2\n- workspace: /w\n- state: routing\n"
    assert "<h1>Session s2</h1>" in html(empty, ())
