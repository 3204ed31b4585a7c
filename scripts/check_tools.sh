#!/usr/bin/env bash
# Says what is missing to build (`demo`) or to build and test (`test`), and how to get it. Adds
# rustfmt and clippy where rustup can; changes nothing else.
# usage: check_tools.sh demo|test
set -euo pipefail
goal=${1:-test}
missing=0
need() {
    echo "missing: $1" >&2
    echo "    $2" >&2
    missing=1
}

if ! command -v cargo >/dev/null; then
    need "a Rust toolchain, 1.90 or later" "see https://rustup.rs"
else
    minor=$(cargo --version | sed -E 's/^cargo 1\.([0-9]+).*/\1/')
    [ "$minor" -ge 90 ] || need "Rust 1.90 or later; this is $(cargo --version)" "rustup update stable"
    for part in rustfmt clippy; do
        [ "$goal" = test ] || continue
        cargo "${part/rustfmt/fmt}" --version >/dev/null 2>&1 && continue
        rustup component add "$part" 2>/dev/null || need "$part" "rustup component add $part"
    done
fi
found=
for compiler in ${CXX:-} c++ g++ clang++; do
    if command -v "$compiler" >/dev/null; then found=$compiler; fi
done
[ -n "$found" ] || need "a C++ compiler (custom kernels, some dependencies)" "Debian: apt-get install g++"
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    need "Python 3.11 or later" "Debian 12 or later: apt-get install python3"
elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    need "Python's venv and pip" "Debian: apt-get install python3-venv python3-pip"
fi
[ "$goal" = demo ] || command -v git >/dev/null || need "git" "Debian: apt-get install git"
exit $missing
