#!/bin/sh
# Runs the Python tests with every supported Python that this machine has, each in its own environment under build/.
# Versions that are not here are named at the end; with STRICT=1 a missing one fails the run.
set -u
cd "$(dirname "$0")/.."

passed="" failed="" missing=""
for version in ${PYTHONS:-3.10 3.11 3.12 3.13 3.14}; do
    python=$(scripts/find_python.sh "$version" 2>/dev/null) || { missing="$missing $version"; continue; }
    environment="build/pythons/$version"
    echo "== Python $version ($("$python" -V 2>&1))"
    if { [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"; } &&
        "$environment/bin/python" -m pip install -q --upgrade "pip>=25.1" &&
        "$environment/bin/python" -m pip install -q --editable . --group dev &&
        "$environment/bin/python" -m pytest -n 2 -p no:cacheprovider "$@"; then
        passed="$passed $version"
    else
        failed="$failed $version"
    fi
done

echo "passed:${passed:- none}; failed:${failed:- none}; not on this machine:${missing:- none}"
[ -z "$failed" ] && [ -n "$passed" ] && { [ -z "${STRICT:-}" ] || [ -z "$missing" ]; }
