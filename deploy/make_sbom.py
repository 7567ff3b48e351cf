"""A bill of materials of the environment that runs this, as CycloneDX 1.5: python deploy/make_sbom.py > sbom.json

The image's build writes one to /opt/vesper/sbom.json. Debian's packages are in the image's own list (`dpkg -l`).
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys


def bill() -> dict[str, object]:
    """Every installed distribution with name, version, package URL and licence (as its metadata says it)."""
    found: dict[str, dict[str, object]] = {}
    for one in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()
        part: dict[str, object] = {
            "type": "library",
            "name": name,
            "version": one.version,
            "purl": f"pkg:pypi/{name}@{one.version}",
            "bom-ref": f"pkg:pypi/{name}@{one.version}",
        }
        licence = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
        if licence and "\n" not in licence and len(licence) < 100:
            part["licenses"] = [{"license": {"name": licence}}]
        found.setdefault(name, part)  # of several on the path, Python imports the first
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": [found[name] for name in sorted(found)],
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
