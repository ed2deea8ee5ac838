#!/usr/bin/env bash
# Runs the tests with several releases of PyTorch, each in an environment of its own that is removed again, and prints one table
# for docs/versions.md:
#
#     tests/matrix.sh 2.11.0 2.15.0                                 # with every Python from 3.10 to 3.13 that is found
#     PYTHON=3.12 tests/matrix.sh 2.14.1                            # with some (PYTHON="3.10 3.13")
#     TESTS="tests/runtime tests/programs" tests/matrix.sh 2.15.0   # some of the tests
#
# A release of PyTorch takes about 6 GB below TMPDIR while it is tested. Logs are kept in build/matrix.
set -uo pipefail

[[ $# -gt 0 ]] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
logs=build/matrix
mkdir -p "$logs"
read -ra tests <<<"${TESTS:-tests}"
export PIP_DISABLE_PIP_VERSION_CHECK=1 DY2ST_CACHE=$scratch/cache PYTHONDONTWRITEBYTECODE=1

# The interpreter of a version: on the PATH, or one that pyenv has.
interpreter() {
    local found
    found=$(command -v "python$1") && "$found" -c '' 2>/dev/null && echo "$found" && return
    found=$(compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1.*/bin/python" | sort -V | tail -n 1)
    [[ -n $found ]] && echo "$found"
}

# How many tests ended in one way, by the last line of pytest.
count() { tail -n 1 "$2" | grep -oE "[0-9]+ $1" | grep -oE '[0-9]+' || echo 0; }

rows=()
row() { rows+=("$(printf '| %s | %s | %s | %s | %s |' "$@")"); }

run() {
    local torch=$1 python=$2 environment=$scratch/environment log=$logs/torch-$1-python-$2.log native=no
    "$(interpreter "$python")" -m venv "$environment"
    if ! "$environment/bin/pip" install -q "torch==$torch" -e '.[test,examples]' >"$log" 2>&1; then
        row "$torch" "$python" "not installed" "" ""
        return
    fi
    "$environment/bin/python" -m dy2st build >>"$log" 2>&1 && native=yes
    "$environment/bin/python" -m pytest -q -p no:cacheprovider "${tests[@]}" >>"$log" 2>&1
    row "$torch" "$python" "$(count passed "$log")" "$(($(count failed "$log") + $(count 'errors?' "$log")))" "$native"
}

for torch in "$@"; do
    for python in ${PYTHON:-3.10 3.11 3.12 3.13}; do
        if [[ -z $(interpreter "$python") ]]; then
            echo "no Python $python here" >&2
            continue
        fi
        echo "torch $torch, Python $python ..." >&2
        run "$torch" "$python"
        rm -rf "$scratch/environment" "$DY2ST_CACHE"
    done
done
printf '%s\n' '| torch | Python | passed | failed | native built |' '|---|---|---|---|---|' "${rows[@]}"
