"""Completion scripts: what a shell needs to know of the commands, as tables in its own language, and a function that reads them.

All three work alike: they walk over the words before the cursor to find the command that is meant, skipping the values of options.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from orchestrator.cli.tree import Option, Place, Values

FILE, ANYTHING = "@file", "@any"
"""What an option or an argument takes, where that is no list of words."""


def script(shell: str, root: Place) -> str:
    """The script for `bash`, `zsh` or `fish`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](root)


def _key(place: Place) -> str:
    return " ".join(place.path)


def _taken(values: Values) -> str:
    return FILE if values.is_file else " ".join(values.words) or ANYTHING


# -- tables for bash and zsh ----------------------------------------------------------------------


def _walked(root: Place) -> str:
    """Two functions that both shells understand: which command a word leads to, and what an option takes."""
    enters = [f"    {shlex.quote(f'{_key(place)}/{below.path[-1]}')}) place={shlex.quote(_key(below))} ;;" for place in root.all() for below in place.places]
    takes = [
        f"    {'|'.join(shlex.quote(f'{_key(place)}/{name}') for name in option.names)}) takes={shlex.quote(_taken(option.takes))} ;;"
        for place in root.all()
        for option in place.options
        if option.takes is not None
    ]
    return "\n".join(
        [
            *("_escalera_enter() {", '    case "$place/$1" in', *enters, "    *) return 1 ;;", "    esac", "}", ""),
            *("_escalera_takes() {", "    takes=", '    case "$place/$1" in', *takes, "    esac", "}", ""),
        ]
    )


def _arguments(root: Place) -> Iterator[str]:
    """What stands where, by command and number of the argument."""
    for place in root.all():
        for number, argument in enumerate(place.arguments):
            if (taken := _taken(argument.takes)) != ANYTHING:
                yield f"    {shlex.quote(f'{_key(place)}/')}{'*' if argument.repeats else number}) takes={shlex.quote(taken)} ;;"


_BASH = """\
# bash completion for escalera, written by `escalera completion bash`.

{walked}
_escalera() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} place= takes= offered= start= ended= word i n=0
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        if [[ -n $takes ]]; then
            [[ $word == = ]] || takes=  # readline cuts --option=value at the sign
        elif [[ -z $ended && $word == -- ]]; then
            ended=1
        elif [[ -z $ended && $word == -* ]]; then
            _escalera_takes "$word"
        elif ! _escalera_enter "$word"; then
            n=$((n + 1))
        fi
    done
    [[ $cur == = ]] && cur=
    if [[ -z $takes && -z $ended && $cur == --*=* ]]; then
        _escalera_takes "${{cur%%=*}}"
        start=${{cur%%=*}}= cur=${{cur#*=}}
    elif [[ -z $takes && -z $ended && $cur == -* ]]; then
        case $place in
{options}
        esac
    elif [[ -z $takes ]]; then
        case $place in
{commands}
        esac
        case "$place/$n" in
{arguments}
        esac
    fi
    case $takes in
    {file})
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$start$word"); done < <(compgen -f -- "$cur")
        return ;;
    {anything}) return ;;
    '') ;;
    *) offered=$takes ;;
    esac
    for word in $(compgen -W "$offered" -- "$cur"); do COMPREPLY+=("$start$word"); done
}}

complete -F _escalera escalera
"""


def _bash(root: Place) -> str:
    options = [_offer(place, _offered(place.options)) for place in root.all() if place.options]
    commands = [_offer(place, (below.path[-1] for below in place.places)) for place in root.all() if place.places]
    return _filled(_BASH, root, options, commands)


def _offer(place: Place, words: Iterable[str]) -> str:
    return f"        {shlex.quote(_key(place))}) offered={shlex.quote(' '.join(words))} ;;"


def _offered(options: Iterable[Option]) -> Iterator[str]:
    """The names of options; a short one only where there is no long one."""
    for option in options:
        long = [name for name in option.names if name.startswith("--")]
        yield from long or option.names


_ZSH = """\
#compdef escalera
# zsh completion for escalera, written by `escalera completion zsh`.

{walked}
_escalera() {{
    local place= takes= ended= word i n=0
    local -a offered
    for ((i = 2; i < CURRENT; i++)); do
        word=${{(Q)words[i]}}
        if [[ -n $takes ]]; then
            takes=
        elif [[ -z $ended && $word == -- ]]; then
            ended=1
        elif [[ -z $ended && $word == -* ]]; then
            _escalera_takes "$word"
        elif ! _escalera_enter "$word"; then
            n=$((n + 1))
        fi
    done
    word=${{words[CURRENT]}}
    if [[ -z $takes && -z $ended && $word == --*=* ]]; then
        _escalera_takes "${{word%%=*}}"
        compset -P '*='
    elif [[ -z $takes && -z $ended && $word == -* ]]; then
        case $place in
{options}
        esac
        _describe -o option offered
        return
    elif [[ -z $takes ]]; then
        case $place in
{commands}
        esac
        if ((${{#offered}})); then
            _describe command offered
            return
        fi
        case "$place/$n" in
{arguments}
        esac
    fi
    case $takes in
    {file}) _files ;;
    {anything}|'') ;;
    *) compadd -- ${{=takes}} ;;
    esac
}}

if [[ ${{funcstack[1]}} == _escalera ]]; then
    _escalera "$@"
else
    compdef _escalera escalera
fi
"""


def _zsh(root: Place) -> str:
    options = [
        _offer_described(place, ((name, option.help) for option in place.options for name in _offered([option]))) for place in root.all() if place.options
    ]
    commands = [_offer_described(place, ((below.path[-1], below.summary) for below in place.places)) for place in root.all() if place.places]
    return _filled(_ZSH, root, options, commands)


def _offer_described(place: Place, words: Iterable[tuple[str, str]]) -> str:
    described = " ".join(shlex.quote(f"{word}:{text}" if text else word) for word, text in words)
    return f"        {shlex.quote(_key(place))}) offered=({described}) ;;"


def _filled(template: str, root: Place, options: Sequence[str], commands: Sequence[str]) -> str:
    arguments = "\n".join(f"    {line}" for line in _arguments(root))
    parts = {"walked": _walked(root), "options": "\n".join(options), "commands": "\n".join(commands), "arguments": arguments}
    return template.format(**parts, file=FILE, anything=ANYTHING)


# -- fish -----------------------------------------------------------------------------------------

_FISH = """\
# fish completion for escalera, written by `escalera completion fish`.

function __escalera_at --description 'Whether the cursor is at this command, and behind so many arguments of it'
    set -l places {places}
    set -l takes {takes}
    set -l place /
    set -l n 0
    set -l skip 0
    set -l ended 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if test $ended = 0 -a "$word" = --
            set ended 1
        else if test $ended = 0; and string match -q -- '-*' $word
            contains -- "$place$word" $takes; and set skip 1
        else if contains -- "$place$word/" $places
            set place "$place$word/"
        else
            set n (math $n + 1)
        end
    end
    test "$place" = "$argv[1]"; or return 1
    test (count $argv) = 1; or test $argv[2] = '*'; or test $argv[2] = $n
end

complete -c escalera -f
"""


def _fish(root: Place) -> str:
    places = " ".join(_fish_quoted(_slashed(place)) for place in root.all())
    takes = " ".join(
        _fish_quoted(_slashed(place) + name) for place in root.all() for option in place.options if option.takes is not None for name in option.names
    )
    return _FISH.format(places=places, takes=takes) + "".join(f"complete -c escalera {line}\n" for place in root.all() for line in _fish_lines(place))


def _fish_lines(place: Place) -> Iterator[str]:
    here = f"__escalera_at '{_slashed(place)}'"
    for below in place.places:
        yield f"-n {_fish_quoted(f'{here} 0')} -a {below.path[-1]} -d {_fish_quoted(below.summary)}"
    for number, argument in enumerate(place.arguments):
        if (taken := _taken(argument.takes)) != ANYTHING:
            which = "'*'" if argument.repeats else str(number)
            yield f"-n {_fish_quoted(f'{here} {which}')} {'-F' if taken == FILE else f'-a {_fish_quoted(taken)}'}"
    for option in place.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        yield f"-n {_fish_quoted(here)} {names}{_fish_value(option.takes)} -d {_fish_quoted(option.help)}"


def _fish_value(values: Values | None) -> str:
    if values is None:
        return ""
    if values.is_file:
        return " -r -F"
    return f" -x -a {_fish_quoted(' '.join(values.words))}" if values.words else " -x"


def _slashed(place: Place) -> str:
    return "".join(["/", *(f"{name}/" for name in place.path)])


def _fish_quoted(text: str) -> str:
    """In single quotes, between which fish knows two escapes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
