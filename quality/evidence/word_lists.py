"""Word lists beside modules: data that people extend, in files of sections."""

from pathlib import Path


def sections_of(path: Path) -> dict[str, list[str]]:
    """Section → its lines, of a file with `[section]` lines; empty lines and those with # in front are left out."""
    sections: dict[str, list[str]] = {}
    listed: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            listed = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            listed.append(line)
    return sections
