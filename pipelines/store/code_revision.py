"""Which code is running: the commit, read from the checkout itself, without git."""

import os
from pathlib import Path

VARIABLE = "VESPER_CODE_REVISION"


def code_revision(folder: Path | None = None) -> str | None:
    """$VESPER_CODE_REVISION (an image's build sets it), else the commit of the checkout that this code runs from; None
    where there is neither."""
    if stated := os.environ.get(VARIABLE):
        return stated
    git = (folder or Path(__file__).parents[2]) / ".git"
    try:
        if git.is_file():  # a worktree
            # A worktree's `.git` is a file that names its folder below the real one.
            git = (git.parent / git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()).resolve()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        # A checkout of a commit, not of a branch.
        if not head.startswith("ref: "):
            return head or None
        name = head.removeprefix("ref: ")
        elsewhere = git / "commondir"
        # Branches of all worktrees lie in the folder that they share.
        common = git / elsewhere.read_text(encoding="utf-8").strip() if elsewhere.is_file() else git
        for root in (git, common):
            if (root / name).is_file():
                return (root / name).read_text(encoding="utf-8").strip()
        # git gc moves branches from files of their own into one.
        packed = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except OSError:
        return None
