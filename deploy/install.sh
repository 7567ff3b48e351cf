#!/usr/bin/env bash
# Installs Vesper with the packages of constraints.txt, each held to its hash there.
#   deploy/install.sh PYTHON EXTRAS [--editable]      extras of pyproject.toml, with commas between them
# pip takes hashes of constraints from release 26 on, so the locked one comes first, with what builds the project. The
# project itself has no hash: what it depends on is installed by name, then its own folder without dependencies.
# PyTorch's build without CUDA comes before the registry's where pip's settings offer it: of two that are allowed pip would
# take the one whose index names its hash.
set -euo pipefail
cd "$(dirname "$0")/.."
python="$1" extras="$2" editable="${3:-}"
pip() { "$python" -m pip install --quiet --disable-pip-version-check "$@"; }

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
locked() { awk -v name="^($1)==" '$0 ~ name {on = 1} on {print; on = /\\$/}' constraints.txt; }
locked 'pip|setuptools' > "$folder/tools.txt"
locked torch | sed 's/^torch==[^ ]*/&+cpu/' > "$folder/torch.txt"
"$python" - "$extras" > "$folder/wanted.txt" <<'PY'
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], sep="\n")
for extra in sys.argv[1].split(","):
    print(*project["optional-dependencies"][extra], sep="\n")
PY
pip --require-hashes --requirement "$folder/tools.txt"
if grep -q '^torch' "$folder/wanted.txt"; then pip --no-deps --require-hashes --requirement "$folder/torch.txt" 2> /dev/null || true; fi
pip --constraint constraints.txt --requirement "$folder/wanted.txt"
pip --no-deps --no-build-isolation ${editable:+--editable} .
