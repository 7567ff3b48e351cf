"""Files that an export puts beside its data, for a trainer's own launcher: text, which nothing here imports."""

from pathlib import Path

_FOLDER = Path(__file__).parent


def recipe(name: str) -> str:
    """The file of that name, as it stands beside the data."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
