"""What commands print on the desktop (its python3): each in a fresh folder with files of its own.

Input: JSON {"commands": [{"words": [...], "files": {path: text}}], "limit_s": seconds}. Output: JSON {"printed":
[...]}, for each command its output as text, or null where it fails, prints no text, takes too long, touches a file, or
prints something else on another day; "" where it prints the same of files that say something else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MOST_BYTES = 20_000


def printed(words: list[str], files: dict[str, str], limit_s: float, age_s: int) -> str | None:
    """What one command prints; its files are `age_s` old, so that whatever tells a time tells another one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in files.items():
            (folder / path).write_text(text, encoding="utf-8")
            os.utime(folder / path, (1_600_000_000 - age_s, 1_600_000_000 - age_s))
        try:
            done = subprocess.run(
                words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=True
            )
            text = done.stdout[:MOST_BYTES].decode("utf-8")
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        held = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    same = held == {path: text.encode("utf-8") for path, text in files.items()}
    return text if same and "\0" not in text and len(done.stdout) <= MOST_BYTES else None


def main() -> None:
    """See the module."""
    given: dict[str, Any] = json.loads(sys.stdin.read())
    found = []
    for command in given["commands"]:
        words, files, limit_s = command["words"], command["files"], given["limit_s"]
        # Twice, on files of another age in another folder: what isn't the same again can be no task's goal.
        once, again = (printed(words, files, limit_s, age_s) for age_s in (0, 90_000_000))
        # And of other files: what is the same for all of them tells of the machine (free space), not of the file.
        other = printed(words, {path: f"{text[::-1].strip()}\n1\n" for path, text in files.items()}, limit_s, 0)
        found.append(None if once != again else "" if once == other else once)
    print(json.dumps({"printed": found}))


main()
