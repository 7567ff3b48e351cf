"""A bill of materials as CycloneDX 1.5: python deploy/make_sbom.py [--lock constraints.txt] > sbom.json

Of the environment that runs this, or of a lock, with the hashes of its files. The image's build writes the first to
/opt/vesper/sbom.json, `make sbom` the second. Debian's packages are in the image's own list (`dpkg -l`).
"""

import argparse
import importlib.metadata
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def component(name: str, version: str, licence: str = "", hashes: Iterable[str] = ()) -> dict[str, object]:
    """A library by its package URL; `hashes` = SHA-256 of its files."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    where = f"pkg:pypi/{name}@{version}"
    part: dict[str, object] = {"type": "library", "name": name, "version": version, "purl": where, "bom-ref": where}
    if licence and "\n" not in licence and len(licence) < 100:
        part["licenses"] = [{"license": {"name": licence}}]
    if found := [{"alg": "SHA-256", "content": one} for one in hashes]:
        part["hashes"] = found
    return part


def installed() -> Iterator[dict[str, object]]:
    """Every installed distribution, with its licence as its metadata says it."""
    for one in importlib.metadata.distributions():
        licence = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
        yield component(one.metadata["Name"], one.version, licence)


def locked(lock: str) -> Iterator[dict[str, object]]:
    """Every pin of a lock's text, for whatever platform."""
    for name, version, rest in re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)((?:.*\\\n)*.*)", lock, re.MULTILINE):
        yield component(name, version, hashes=sorted(set(re.findall(r"sha256:([0-9a-f]{64})", rest))))


def bill(components: Iterable[dict[str, object]]) -> dict[str, object]:
    """The whole document, parts by name; of several with one name, Python imports the first."""
    found: dict[str, dict[str, object]] = {}
    for part in components:
        found.setdefault(str(part["name"]), part)
    parts = [found[name] for name in sorted(found)]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": parts}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--lock", type=Path, metavar="FILE", help="of this lock (of the environment that runs this)")
    file = parser.parse_args().lock
    json.dump(bill(locked(file.read_text("utf-8")) if file else installed()), sys.stdout, indent=1)
