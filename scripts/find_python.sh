#!/bin/sh
# Prints the first Python that can carry torchlint: at least 3.10, with venv and ensurepip.
# Each candidate is run, since a version manager's shim may stand in PATH for a version that is not installed.
# With an argument ("3.12") only that version is looked for, also among pyenv's.
set -u

usable() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

if [ $# -eq 1 ]; then
    candidates="python$1"
    if command -v pyenv >/dev/null 2>&1; then
        for path in "$(pyenv root)"/versions/"$1"*/bin/python"$1"; do
            candidates="$candidates $path"
        done
    fi
else
    candidates="${PYTHON:-} python3.13 python3.12 python3.11 python3.10 python3 python3.14 python"
fi

for candidate in $candidates; do
    if usable "$candidate"; then
        command -v "$candidate"
        exit 0
    fi
done

if [ $# -eq 1 ]; then
    echo "no Python $1 with venv found" >&2
else
    echo "torchlint needs Python 3.10 or newer with venv (Debian: python3-venv); set PYTHON to its path" >&2
fi
exit 1
