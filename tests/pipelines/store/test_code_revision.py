"""Which code made a version: read from a checkout as git writes it, told by an image, kept by what isn't made anew."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipelines.store import PartSpec, Store
from pipelines.store.code_revision import VARIABLE, code_revision


def git(folder: Path, *words: str) -> str:
    told = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(["git", "-C", str(folder), *told, *words], check=True, capture_output=True, text=True).stdout


def test_the_commit_of_a_checkout_however_git_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert code_revision(tmp_path) is None
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    git(checkout, "init", "-q")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "one")
    head = git(checkout, "rev-parse", "HEAD").strip()
    assert code_revision(checkout) == head
    git(checkout, "pack-refs", "--all")
    assert code_revision(checkout) == head
    git(checkout, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "two")
    assert code_revision(tmp_path / "tree") == git(tmp_path / "tree", "rev-parse", "HEAD").strip() != head
    git(checkout, "checkout", "-q", "--detach")
    assert code_revision(checkout) == head


def test_a_version_names_the_code_that_made_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(content: bytes, revision: str) -> tuple[str, str]:
        monkeypatch.setenv(VARIABLE, revision)
        with store.build("raw/x", code_version="1", parts=[]) as made:
            made.run_part(PartSpec("a", content.hex()), lambda out: out.bytes("a.txt", content))
            manifest = made.commit()
        assert store.version("raw/x", manifest.version) == manifest
        return manifest.code_revision, manifest.data_version

    first = build(b"one", "aaa")
    assert first[0] == "aaa"
    assert build(b"one", "bbb") == first  # nothing was made anew
    assert build(b"two", "bbb")[0] == "bbb"
