"""Where the `miniwob` package keeps its pages, and what all ways of showing them share."""

import importlib.util
import re
from pathlib import Path

# The page's own clock would end an episode after ten seconds.
NO_LIMIT_MS = 1_000_000_000  # setTimeout's limit is 2**31 - 1


class OracleMiss(RuntimeError):
    """A scripted oracle couldn't read the task or find what it names."""


def html_folder() -> Path:
    """Where the installed package keeps its pages. Raises `RuntimeError` saying how to get it."""
    spec = importlib.util.find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise RuntimeError("MiniWoB++ isn't installed: `pip install miniwob` (extra `devices`)")
    return Path(spec.origin).parent / "html"


def page_of(task: str) -> Path:
    """The page of a task. Raises `ValueError` for an unknown one."""
    path = html_folder() / "miniwob" / f"{task}.html"
    # Checked before the path is used: a name is data of a task and must not leave the folder.
    if not re.fullmatch(r"[a-z0-9-]+", task) or not path.is_file():
        raise ValueError(f"MiniWoB++ has no task {task!r:.60}; expected the name of one of its pages")
    return path
