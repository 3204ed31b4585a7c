#!/usr/bin/env bash
# Builds the Python package, installs it with its test dependencies (the peer's wheel among them)
# into an environment of its own, and runs the Python tests.
#
# PY_PROFILE   cargo profile of the extension (default: dev, which shares the tests' build)
# PY_VENV      the environment (default: venv-python in cargo's target folder)
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
venv=${PY_VENV:-$target/venv-python}
profile=${PY_PROFILE:-dev}

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
venv=$(cd "$venv" && pwd)
"$venv/bin/pip" install -q --disable-pip-version-check 'maturin>=1.9,<2'
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$venv/bin/maturin" build --profile "$profile" --interpreter "$venv/bin/python" --out "$wheels"
wheel=$(echo "$wheels"/isopace-*.whl)
"$venv/bin/pip" install -q --disable-pip-version-check "${wheel}[test]"
# The same version may stand for another build.
"$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps "$wheel"
"$venv/bin/python" -m pytest -q "$@"
