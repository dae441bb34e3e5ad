"""What a rule covers, and what counts where several do."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.commands import plain_words, started
from orchestrator.permissions import RuleSet, covers, rule_of, verdict
from orchestrator.tools import Act, Beyond, Verb


def act(verb: Verb, what: str, *beyond: Beyond, asks: bool = True) -> Act:
    return Act(verb, what, f"={what}", beyond=frozenset(beyond), asks=asks)


def allows(rule: str, one: Act) -> bool:
    return covers(rule_of(rule), one)


def forbids(rule: str, one: Act) -> bool:
    return verdict(one, RuleSet(deny=(rule_of(rule),))).effect == "deny"


@pytest.mark.parametrize(
    "text", ["run", "run(git status *)", "write(docs/**)", "read(=a(b).txt)", "run+network(pip install *)", "run+network+unconfined(make)"]
)
def test_a_rule_is_written_as_it_is_read(text: str) -> None:
    assert str(rule_of(f" {text} ")) == text


@pytest.mark.parametrize("text", ["", "rum(x)", "edit_file(x)", "run()", "run(x", "write+network(x)", "run+sudo(x)", "run x", "Run(x)"])
def test_what_is_no_rule_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"run\(git status \*\)|\+network"):
        rule_of(text)


# -- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("run(git status *)", "git status"),
        ("run(git status *)", "git status -s 'a b'"),
        ("run(make)", "make"),
        ("run(=make; make install)", "make; make install"),
        ("run", "anything; at > all"),
        ("run(pytest *)", 'pytest -k "a or b" tests/*.py'),
    ],
)
def test_a_rule_allows_what_it_says(rule: str, command: str) -> None:
    assert allows(rule, act("run", command))


SECOND_PROGRAMS = [
    *("; rm -rf ~", " && rm x", " | sh", " || x", " & x", "\nrm x", "\r\nrm x", " $(rm x)", " `rm x`", ' "$(rm x)"', " > ~/.bashrc", " < /etc/passwd", " <(x)"),
    *(" $HOME", ' "$HOME"', " \\\nrm", "\x00", "\u2028rm x; x", " 'unclosed", ' "a`rm`"', " {a;}", " (x)"),
]


@pytest.mark.parametrize("rest", SECOND_PROGRAMS)
def test_a_rule_with_a_star_allows_nothing_that_may_start_or_write_more(rest: str) -> None:
    assert not allows("run(git status *)", act("run", f"git status{rest}"))
    assert not allows("run(git *)", act("run", f"git status{rest}"))


@pytest.mark.parametrize(
    "command", ["GIT_PAGER=x git status", "git statusx", "gitx status", "/opt/git status", "./git status", "sudo git status", "git -c a=b status"]
)
def test_another_program_is_not_allowed_along(command: str) -> None:
    assert not allows("run(git status *)", act("run", command))


def test_what_was_allowed_as_it_stands_stands_for_nothing_else() -> None:
    assert allows("run(=rm *)", act("run", "rm *"))
    assert not allows("run(=rm *)", act("run", "rm -rf /"))
    assert not allows("run(=make)", act("run", "make "))


@pytest.mark.parametrize(
    "command",
    [
        *("rm x", "rm", "/bin/rm -rf x", "cd a && rm x", "true;rm x", "(rm x)", "sudo rm x", "sudo -u root rm x", "A=1 rm x", "env A=1 rm x", "echo $(rm x)"),
        *(
            "bash -c 'rm x'",
            "sh -c 'cd a; rm x'",
            "find . -name a -exec rm {} ;",
            "ls | xargs rm",
            "timeout 5 rm x",
            "if true; then rm x; fi",
            "`rm x`",
            "echo 'a; rm x'",
        ),
        *("nohup rm x &", "'rm' x", "r''m x", "rm>x", "true\nrm x", "rm 'unclosed"),
        *("2>/dev/null rm x", ">f rm x", ">'a b' rm x", "2>&1 >f A=1 rm x", "<<<x rm x", "sudo 2>f rm x", "&>f rm x", "{fd}>f rm x", "sh -c '>f rm x'"),
    ],
)
def test_a_rule_that_forbids_finds_its_program_wherever_it_may_start(command: str) -> None:
    assert forbids("run(rm *)", act("run", command))
    assert forbids("run(rm)", act("run", command))


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git push",
            "git -C . push origin",
            "git -c a=b --git-dir=.git push",
            "git --git-dir .git --work-tree . push",
            "git --no-pager -p push",
            "/usr/bin/git -P push",
        ),
        *("/usr/bin/git -P push", "git 2>f -C . push", "sudo git -C '$HOME/a b' push", "git --exec-path push", "cd a && A=1 git -C . push"),
    ],
)
def test_a_rule_about_a_command_of_git_finds_it_behind_gits_own_options(command: str) -> None:
    assert forbids("run(git push *)", act("run", command))


@pytest.mark.parametrize("command", ["git commit -m push", "git -C push status", "git log -- push"])
def test_and_leaves_its_other_commands_alone(command: str) -> None:
    assert not forbids("run(git push *)", act("run", command))


def test_a_command_without_end_is_read_in_a_moment() -> None:
    began = time.process_time()
    for command in ("1" * 20_000, ">'" * 10_000, '>"' * 10_000, "2>" * 10_000, "git " + "-C " * 6_000):
        list(started(command))

    assert time.process_time() - began < 5


@pytest.mark.parametrize("command", ["ls rm", "grep -r rm .", "rmdir x", "git commit -m 'rm x'"])
def test_a_rule_that_forbids_leaves_other_programs_alone(command: str) -> None:
    assert not forbids("run(rm *)", act("run", command))


@given(st.text(alphabet="ab *;&|<>()`$'\"\\\n={}!#~rm", max_size=40))
def test_reading_a_command_never_fails_and_a_plain_one_starts_just_one_program(command: str) -> None:
    words, programs = plain_words(command), list(started(command))

    if words is not None:
        parts = shlex.shlex(command, posix=False, punctuation_chars=True)
        parts.whitespace_split, parts.commenters = True, ""
        assert not [part for part in parts if not set(part) - set("();<>|&")]
    assert all(program and "/" not in program[0] for program in programs)


# -- what a command can reach ----------------------------------------------------------------------


def test_what_was_allowed_in_the_sandbox_is_not_allowed_outside_of_it() -> None:
    assert not allows("run(make)", act("run", "make", "network"))
    assert not allows("run(make)", act("run", "make", "network", "unconfined"))
    assert not allows("run+network(make)", act("run", "make", "network", "unconfined"))
    assert allows("run+network+unconfined(make)", act("run", "make"))


def test_what_is_forbidden_is_forbidden_with_more_reach_as_well() -> None:
    assert forbids("run(make)", act("run", "make", "network", "unconfined"))
    assert forbids("run+network", act("run", "make", "network", "unconfined"))
    assert not forbids("run+network", act("run", "make"))


# -- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("a.py", "a.py", True),
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("src/*", "src/a/b", False),
        ("src/**", "src/a/b", True),
        ("src/", "src/a/b", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "x/y/a.py", True),
        ("src/**/test_?.py", "src/a/b/test_1.py", True),
        ("**", "src/a", True),
        ("**", ".git/hooks/pre-commit", False),
        ("src/**", "src/.env", False),
        ("*", ".env", False),
        (".github/**", ".github/x.yml", True),
        ("=a*", "a*", True),
        ("=a*", "ab", False),
        ("src/**", "srcs/a", False),
        ("**", ".", True),
        ("./a.py", "a.py", True),
    ],
)
def test_a_rule_allows_the_paths_that_fit_and_nothing_hidden_that_it_does_not_name(pattern: str, path: str, covered: bool) -> None:
    assert allows(f"write({pattern})", act("write", path)) is covered


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("secrets", "secrets/a/b"),
        (".env", ".ENV"),
        ("**", ".git/config"),
        ("*", ".env"),
        ("caf\u00e9", "cafe\u0301"),
        ("**/*.pem", "a/.ssh/k.pem"),
        ("=a", "A"),
    ],
)
def test_a_rule_that_forbids_reaches_what_is_hidden_below_or_spelled_otherwise(pattern: str, path: str) -> None:
    assert forbids(f"read({pattern})", act("read", path, asks=False))


# -- several -------------------------------------------------------------------------------------


def test_deny_beats_ask_beats_allow() -> None:
    rules = RuleSet(deny=(rule_of("run(git push *)"),), ask=(rule_of("run(git *)"),), allow=(rule_of("run(git push *)"), rule_of("run(ls *)")))
    granted = (rule_of("run(git status *)"), rule_of("run(cat *)"))

    assert verdict(act("run", "git push"), rules, granted).effect == "deny"
    assert verdict(act("run", "git status"), rules, granted).effect == "ask"
    assert [verdict(act("run", one), rules, granted).effect for one in ("ls -l", "cat x", "rm x")] == ["allow", "allow", "ask"]
    assert verdict(act("write", "a"), rules, granted).effect == "ask"


def test_reading_is_allowed_unless_a_rule_says_otherwise() -> None:
    rules = RuleSet(deny=(rule_of("read(.env)"),), ask=(rule_of("read(private/**)"),))

    effects = [verdict(act("read", path, asks=False), rules).effect for path in ("a", ".env", "private/x")]
    assert effects == ["allow", "deny", "ask"]


@given(st.text(alphabet="a*?[]/.=!-", min_size=1, max_size=30), st.text(alphabet="ab./", min_size=1, max_size=30))
def test_no_pattern_makes_reading_it_fail(pattern: str, path: str) -> None:
    allows(f"write({pattern})", act("write", path))
    assert forbids(f"write({pattern})", act("write", path)) or not allows(f"write({pattern})", act("write", path))
