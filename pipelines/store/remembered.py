"""What a cache remembers in a file of JSON: held to the digest in its text, so that a bit that rots costs the work of
making it again, and never moves a hash, a cut or a score."""

import json
from pathlib import Path
from typing import Any

from pipelines.store.files import StoreError, require_as_sealed, sealed
from pipelines.store.parts import put_text


def remembered(path: Path) -> Any:
    """What `remember` was given last; None where nothing was, or the file isn't what was written."""
    try:
        text = path.read_text("utf-8", "replace")
        require_as_sealed(text, path)
        return json.loads(text)["remembered"]
    except (FileNotFoundError, StoreError, ValueError, LookupError, TypeError, RecursionError):
        return None


def remember(path: Path, value: object) -> None:
    """Put plain JSON data, whole or not at all; several processes may do so at once."""
    put_text(path, sealed(json.dumps({"remembered": value})))
