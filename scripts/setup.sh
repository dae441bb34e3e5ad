# Makes .venv, with Escalera and all its plugins in it; sourced by ./escalera and ./test. Needs Python 3.11 or newer.
# Nothing outside the checkout is touched, except that a Debian without python3-venv or libgomp1 gets them (as root, or by sudo).

set -eu
root=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P)

fail() {
    echo "$1" >&2
    exit 1
}

find_python() {
    for python in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            return
        fi
    done
    fail "Escalera needs Python 3.11 or newer as python3; name another one with PYTHON=/path/to/python"
}

debian_package() {
    command -v apt-get >/dev/null 2>&1 || return 0
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "$1 is missing: installing it with apt-get" >&2
    { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1"; } >/dev/null ||
        fail "$1 could not be installed; install it, then try again"
}

make_venv() {
    "$python" -m venv "$1" >/dev/null 2>&1 && return
    rm -rf "$1"
    debian_package python3-venv
    "$python" -m venv "$1" || fail "$python cannot make a virtual environment; install its venv module, then try again"
}

find_uv() {
    if command -v uv >/dev/null 2>&1; then
        uv=uv
        return
    fi
    uv="$root/.tools/bin/uv"
    [ -x "$uv" ] && return
    find_python
    make_venv "$root/.tools"
    "$root/.tools/bin/pip" install --quiet --disable-pip-version-check uv || fail "uv could not be installed from the package index"
}

# The stamp is a copy of what the environment was made from, so that a pull with other dependencies makes it anew.
wanted=$(cat "$root/pyproject.toml" "$root"/plugins/*/pyproject.toml)
if [ ! -x "$root/.venv/bin/escalera" ] || [ "$(cat "$root/.venv/.made-from" 2>/dev/null)" != "$wanted" ]; then
    echo "setting up .venv (once; about a minute)" >&2
    find_python
    find_uv
    (cd "$root" && UV_PYTHON_DOWNLOADS=never UV_PYTHON="$python" "$uv" sync --quiet --all-packages --all-extras) ||
        fail "the packages could not be installed; see the message above"
    # The embedded model's program is linked against it.
    "$root/.venv/bin/python" -c 'import xllamacpp' 2>/dev/null || debian_package libgomp1
    printf '%s\n' "$wanted" >"$root/.venv/.made-from"
fi
