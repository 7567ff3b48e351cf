"""Plain-text tables and trees for a terminal."""

import json
from collections.abc import Iterator, Sequence

from dagster_project.lineage.manifests import Manifests


def clean(text: object, width: int = 200) -> str:
    """Text from data on one line: control characters escaped, cut at `width`."""
    plain = json.dumps(text, ensure_ascii=False) if isinstance(text, dict | list) else str(text)
    # Text of data may hold escape sequences that a terminal would obey.
    line = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in " ".join(plain.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], width: int = 60) -> Iterator[str]:
    """Lines of a table; numbers to the right, None as a dash, cells cut at `width`."""
    cells = [[f"{c:,}" if type(c) is int else "-" if c is None else clean(c, width) for c in row] for row in rows]
    # Numbers to the right, as their digits are compared from there.
    right = [bool(rows) and all(row[i] is None or type(row[i]) is int for row in rows) for i in range(len(head))]
    widths = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    for line in [list(head), *cells]:
        sized = zip(line, widths, right, strict=True)
        yield "  ".join(cell.rjust(size) if flush else cell.ljust(size) for cell, size, flush in sized).rstrip()


def tree(
    manifests: Manifests, inputs: dict[str, str], indent: str = "", shown: set[tuple[str, str]] | None = None
) -> Iterator[str]:
    """Lines of what lies above; an ancestor met again is named without what lies above it."""
    shown = set() if shown is None else shown
    for number, (asset, version) in enumerate(sorted(inputs.items())):
        last = number == len(inputs) - 1
        manifest = manifests.find((asset, version))
        # Once is enough: the same ancestors would be listed again and again.
        again = " (above)" if (asset, version) in shown and manifest and manifest.inputs else ""
        gone = "" if manifest else f" ({clean(manifests.gone((asset, version)))})"
        files = f"  {manifest.counts.get('files', 0)} files" if manifest and asset.startswith("raw/") else ""
        yield f"{indent}{'└─' if last else '├─'} {clean(asset)} {clean(version)}{files}{again}{gone}"
        if manifest and not again:
            shown.add((asset, version))
            yield from tree(manifests, manifest.inputs, indent + ("   " if last else "│  "), shown)
