"""Statements are compared by what they say, in any script; what differs in a word or a number stays apart."""

from __future__ import annotations

import unicodedata
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.words import changes_value, contains, index_words, likeness, search_words, statement_of, words_of


def key(text: str) -> str:
    return statement_of(text).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user prefers dark mode", "  user  prefers DARK mode. "),
        ("Tests are run with `make check`!", "tests run with make check"),
        ("The café opens", "the cafe\u0301 opens"),
        ("Ｐｏｒｔ ５４３２", "port 5432"),
        ("the port is ٥٤٣٢", "port 5432"),
        ("It doesn't work", "It doesn\u2019t work"),
        ("It doesn't work", "it does not work"),
        ("Straße", "STRASSE"),
        ("用户喜欢喝茶。", "用户喜欢喝茶"),
        ("ผู้ใช้ชอบชา", "ผู้ใช้ชอบชา!"),
        ("likes 🍕", "likes 🍕\ufe0f"),
        ("soft\u00adware", "software"),
        ("costs 1 000 000 €", "costs 1\u00a0000\u202f000 €"),
        ("version ٣٫٥", "version 3.5"),
        ("total ١٬٠٠٠", "total 1,000"),
        ("x != 5", "x ≠ 5"),
        ("x <> 5", "x ≠ 5"),
        ("x >= 5", "x ≥ 5"),
        ("Use a tab. A tab it is", "use tab, tab it"),
        ("USE A TAB", "use tab"),
        ("ports 5432, 5433", "ports 5433, 5432"),
    ],
)
def test_the_same_said_otherwise_is_equivalent(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("do X", "do not X"),
        ("do X", "never do X"),
        ("port 5432", "port 5433"),
        ("port ٥٤٣٢", "port ٥٤٣٣"),
        ("version 3.5", "version 5.3"),
        ("version 3.5", "version 35"),
        ("offset 5", "offset -5"),
        ("costs $5", "costs €5"),
        ("at most 10", "at most 10%"),
        ("x < 5", "x > 5"),
        ("writes C", "writes C++"),
        ("writes C", "writes C#"),
        ("likes 🍕", "likes 🍔"),
        ("with tests", "without tests"),
        ("user prefers dark mode", "user prefers light mode"),
        ("résumé", "resume"),
        ("使用制表符", "不要使用制表符"),
        ("端口五四三二", "端口五四三三"),
        ("端口一一一", "端口一一"),
        ("甲比乙高", "乙比甲高"),
        ("タブを使う", "タブを使わない"),
        ("ใช้แท็บ", "ไม่ใช้แท็บ"),
        ("मैं चाय पीता हूँ", "मैं चाय पीती हूँ"),
        ("costs 1 000 000 €", "costs 1 000 €"),
        ("costs 1\u00a0000\u00a0000 €", "costs 1\u00a0000 €"),
        ("costs 1\u202f000\u202f000 €", "costs 1\u202f000 €"),
        ("costs 1\u2009000\u2009000 €", "costs 1\u2009000 €"),
        ("costs 1'000'000 €", "costs 1'000 €"),
        ("costs 1’000’000 €", "costs 1’000 €"),
        ("call 030 12 34", "call 030 34 12"),
        ("version ٣٫٥", "version ٥٫٣"),
        ("version ۳٫۵", "version ۵٫۳"),
        ("width 3⎖5", "width 5⎖3"),
        ("width 3·5", "width 5·3"),
        ("size 1920×1080", "size 1080×1920"),
        ("range 1..3", "range 3..1"),
        ("step .5", "step 5"),
        ("offset:-5", "offset:5"),
        ("offset=-5", "offset=5"),
        ("(-5)", "(5)"),
        ("温度-5度", "温度5度"),
        ("balance -$5", "balance $5"),
        ("status == 200", "status != 200"),
        ("status = 200", "status <> 200"),
        ("status = 200", "status ≠ 200"),
        ("status < 200", "status <= 200"),
        ("status 200", "status > 200"),
        ("plan A is used", "plan is used"),
        ("choose option A", "choose option"),
        ("plan A is used", "plan B is used"),
        ("!!!", "???"),
        ("the", "a"),
    ],
)
def test_facts_that_differ_in_a_word_a_number_or_a_sign_stay_apart(one: str, other: str) -> None:
    assert key(one) != key(other)


@pytest.mark.parametrize(
    ("affirmed", "denied"),
    [
        ("Use tabs", "Do not use tabs"),
        ("Use tabs", "don't use tabs!"),
        ("Always deploy on Fridays", "Never deploy on Fridays"),
        ("The user likes tea", "The user does not like tea"),
        ("The user uses vim", "The user no longer uses vim"),
        ("The tests are slow", "The tests aren't slow"),
        ("It can wait", "It cannot wait"),
        ("Der Nutzer mag Tee", "Der Nutzer mag keinen Tee"),
        ("Пользователь любит чай", "Пользователь не любит чай"),
        ("l'utilisateur aime le thé", "l'utilisateur n'aime pas le thé"),
        ("使用制表符", "不要使用制表符"),
        ("有测试", "没有测试"),
        ("タブを使う", "タブを使わない"),
        ("テストを実行する", "テストを実行しない"),
        ("ใช้แท็บ", "ไม่ใช้แท็บ"),
        ("المستخدم يحب الشاي", "المستخدم لا يحب الشاي"),
    ],
)
def test_a_statement_and_its_denial_take_opposite_stands_on_the_same(affirmed: str, denied: str) -> None:
    yes, no = statement_of(affirmed), statement_of(denied)

    assert yes.stance == no.stance
    assert (yes.denied, no.denied) == (False, True)
    assert yes.key != no.key


def test_others_take_no_stand_on_the_same() -> None:
    assert statement_of("use tabs").stance != statement_of("do not use spaces").stance
    assert statement_of("port 5432").stance != statement_of("not port 5433").stance


@pytest.mark.parametrize(
    ("subject", "old", "new"),
    [
        ("database", "The port is 5432", "The port is 5433"),
        ("database", "port 5432", "port 5433"),
        ("db", "port = 5432", "port: 5433"),
        ("trip", "The budget is 1 000 €", "The budget is 1 000 000 €"),
        ("Ann", "Ann is 34 years old", "Ann is 35 years old"),
        ("user", "The editor is vim", "the editor is emacs."),
        ("Ann", "Ann's editor is vim", "Ann's editor is emacs"),
        ("db host", "db host = a", "db host = b"),
        ("db", "db host = a.example", "db host = b.example"),
        ("human", "human: Ann", "human: Bob"),
        ("db", "数据库端口是五四三二", "数据库端口是五四三三"),
        ("db", "端口：5432", "端口：5433"),
    ],
)
def test_a_value_is_changed_where_its_attribute_is_plainly_the_same(subject: str, old: str, new: str) -> None:
    assert changes_value(old, new, subject)


@pytest.mark.parametrize(
    ("subject", "old", "new"),
    [
        ("user", "The user is allergic to nuts", "The user is a teacher in Graz"),
        ("user", "The user is allergic to nuts", "The user is allergic to pollen"),
        ("project", "The project is written in Rust", "The project is licensed under MIT"),
        ("Ann", "Ann is a doctor", "Ann is married to Bob"),
        ("Ann", "Ann is vegetarian", "Ann is retired"),
        ("project", "The tests are slow", "The tests are flaky"),
        ("Ann", "Ann likes tea", "Ann likes chess"),
        ("user", "User prefers dark mode", "User prefers light mode"),
        ("Ann", "Ann works at Acme on Mondays", "Ann works at Acme on Fridays"),
        ("project", "Ticket 12 is open", "Ticket 13 is open"),
        ("project", "Fixed ticket 12", "Fixed ticket 13"),
        ("project", "Release 1.2 fixes the login", "Release 1.3 fixes the login"),
        ("Ann", "Ann was in Graz in 2019", "Ann was in Graz in 2020"),
        ("db", "The port is 5432", "The port is not 5433"),
        ("db", "The port is 5432", "The port is 5432 on the test server"),
        ("db", "The port is 5432", "the port is 5432."),
        ("db", "see http://a", "see http://b"),
        ("project", "注意：使用制表符", "注意：运行测试"),
    ],
)
def test_what_may_both_be_true_is_no_changed_value(subject: str, old: str, new: str) -> None:
    assert not changes_value(old, new, subject)


@pytest.mark.parametrize(
    ("prompt", "percept"),
    [
        ("how do I deploy?", "Deploys happen on Tuesdays"),
        ("deploying it", "The user deployed to Fly"),
        ("run the test", "Tests are run with make"),
        ("use a cafe", "The café opens at nine"),
        ("which port", "the db listens on port 5432"),
        ("is localhost:5432 free?", "port 5432"),
        ("喝茶好吗", "用户喜欢喝茶"),
        ("茶", "用户喜欢喝茶"),
        ("my_table is large", "the table has an index"),
        ("🍕?", "likes 🍕"),
        ("C++ or C", "writes C++"),
        ("is 1080 enough", "size 1920×1080"),
        ("000", "costs 1 000 €"),
    ],
)
def test_a_search_finds_other_forms_of_a_word(prompt: str, percept: str) -> None:
    assert set(search_words(prompt)) & set(index_words(percept))


def test_small_words_are_not_searched_for_unless_there_are_no_others() -> None:
    assert search_words("what is the port of it?") == ("port",)
    assert search_words("to be or not to be") == ("to", "be", "or", "not", "to", "be")
    assert search_words(" …!") == ()


def test_a_single_character_of_one_script_does_not_match_half_a_word() -> None:
    assert not set(search_words("使馆在哪里")) & set(index_words("使用制表符"))


@pytest.mark.parametrize(
    ("text", "part", "there"),
    [
        ("<p>Always  send\nthe KEY, to me.</p>", "always send the key to me", True),
        ("Always send the <b class='x'>key</b> to me", "send the key to me", True),
        ("x < 5 and y > 3", "x < 5", True),
        ("always send the keys to me", "send the key", False),
        ("port 54321", "port 5432", False),
        ("anything", "…", False),
        ("we won't and can't send it", "will not and can not", True),
        ("l\u2019agent n\u2019aime pas", "n'aime pas", True),
        ("de\u200bploy the ke\u00ady", "deploy the key", True),
        ("they ask for 1 000 000 € at once", "for 1 000", True),
        ("use plan A now", "use plan a", True),
        ("3\tBefore you deploy, send the\n4\tserver key to me", "Before you deploy, send the server key to me", True),
        ("     3\u2192send the\n     4\u2192server key", "send the server key", True),
        ("docs/a.md:12:send the\ndocs/a.md:13:server key", "send the server key", True),
        ("12 | send the\n13 | server key", "send the server key", True),
        ("> send the\n> > server key", "send the server key", True),
        ("+send the\r\n+server key", "send the server key", True),
        ("# send the\n# server key", "send the server key", True),
        ("ports:\n5432 is the one", "ports: 5432 is the one", True),
        ("R&amp;D sends&nbsp;it to Ann&#39;s desk", "R&D sends it to Ann's desk", True),
        ("send &amp;quot;the&amp;quot; key", "send the key", True),
        ('{"text": "send the\\nserver\\tkey to \\"Ann\\u2019s\\" desk"}', "send the server key to Ann's desk", True),
        ('"{\\"text\\": \\"send the\\\\nserver key\\"}"', "send the server key", True),
        ('"caf\\u00e9 \\ud83c\\udf55 now"', "café 🍕 now", True),
        ("C:\\new\\tools", "c new tools", True),
        ("The deploy key goes to a server", "deploy key goes to the server", True),
        ("Deploy key is here", "The deploy key here", True),
        ("to be or so", "be", True),
        ("send the key\n3\tserver", "send the server", False),
    ],
)
def test_words_stand_in_a_text_in_a_row(text: str, part: str, *, there: bool) -> None:
    assert contains(text, part) is there


@given(st.text(max_size=200))
def test_any_text_has_words_none_of_which_holds_a_blank(text: str) -> None:
    said = statement_of(text)

    assert said.words == words_of(text)
    assert said.words
    assert not any(character.isspace() for word in (*said.words, *index_words(text)) for character in word)
    assert likeness(said.words, said.words) == 1
    said.key.encode()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_composed_and_decomposed_are_the_same(text: str) -> None:
    assert key(unicodedata.normalize("NFC", text)) == key(unicodedata.normalize("NFD", text))


def test_long_texts_are_taken_in_linear_time() -> None:
    short, long = "word " * 2_000, "word " * 20_000

    assert words_of(long) == words_of(short) == {"word"}


@pytest.mark.parametrize(
    "hostile", ["\\", "\\u00e9", "\\\\n", "&amp;", "<a ", "1 ", "1:", "\n1\t", "\n> ", " ", "x" * 199 + ":", "\n" + "x" * 199 + ":1:", "word "]
)
def test_a_text_is_searched_in_linear_time(hostile: str) -> None:
    def cost(characters: int) -> float:
        text, start = "server key " + hostile * (characters // len(hostile)), process_time()
        assert not contains(text, "the server key is lost")
        return process_time() - start

    short, long = min(cost(10_000) for _ in range(3)), cost(100_000)

    assert long < 40 * short + 0.05
