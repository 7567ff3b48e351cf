"""What the native files of a source look like, from its adapter's own words; and why a folder holds none of them."""

import inspect
from pathlib import Path

from pipelines.mapping.adapter import Adapter
from pipelines.mapping.raw_files import Raw

NEAR = 200
"""Folders that are tried below the one that was given."""


def layout(adapter: Adapter) -> str:
    """The globs of an adapter's files where it has any, then what its file says of them: rows, columns, words."""
    lines = [f"{adapter.descriptor.id}: {adapter.descriptor.title}"]
    if patterns := getattr(adapter, "patterns", ()):
        lines.append(f"files: {', '.join(patterns)}")
    if adapter.descriptor.companions:
        lines.append(f"beside them, by --companion ID=PATH: {', '.join(adapter.descriptor.companions)}")
    return "\n".join([*lines, "", inspect.getdoc(inspect.getmodule(type(adapter))) or ""])


def why_none(adapter: Adapter, raw: Raw) -> str:
    """What stands in a folder none of whose files are an adapter's: nothing, files of another kind, or a folder whose
    level is one too high or too low."""
    expected = ", ".join(getattr(adapter, "patterns", ())) or "its native files"
    wanted = f"expected {expected} in {raw.root}"
    below = sorted(path for path in raw.root.iterdir() if path.is_dir() and not path.name.startswith("."))[:NEAR]
    # Most often the folder given is one level too high or too low.
    for folder in (*below, raw.root.parent):
        if _parts(adapter, folder, raw):
            return f"{wanted}, found them in {folder}: give --raw {folder}"
    # One example is enough; a folder of a million pictures isn't listed for it.
    files = [path for path in sorted(raw.root.rglob("*"))[:NEAR] if path.is_file()]
    return f"{wanted}, found " + (f"others, such as {files[0].relative_to(raw.root)}" if files else "an empty folder")


def _parts(adapter: Adapter, folder: Path, raw: Raw) -> bool:
    try:
        return bool(adapter.parts(Raw(folder, raw.companions)))
    except (ValueError, OSError, RuntimeError):
        # Adapters may look into files: what can't be read there is no answer to the question.
        return False
