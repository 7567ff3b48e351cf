"""What a newcomer gets wrong, and the line that says so: the nearest name, the level of a folder, what was expected."""

from __future__ import annotations

from pathlib import Path

import native
import pytest

from dagster_project import cli
from pipelines import sources
from pipelines.mapping.layouts import layout
from pipelines.store import Store, StoreError
from pipelines.unify.unify import unify_source


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The last line of what a command refuses to do."""
    try:
        code = cli.main(words)
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert code == 2 and "Traceback" not in captured.err
    return captured.err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("unifi",), "unknown 'unifi'; did you mean unify?"),
        (("unify", "aitzz", "--raw", "x", "--out", "y"), "unknown source 'aitzz'; did you mean aitz or aitw?"),
        (("unify", "aitz", "--rwa", "x"), "unrecognized arguments: --rwa x; did you mean --raw"),
        (("unify", "aitz"), "expected --raw and --out, found none; `--layout` shows what aitz reads"),
        (("sources", "pul", "aitz"), "unknown 'pul'; did you mean pull?"),
        (("train", "bas"), "unknown 'bas'; did you mean base"),
        (("shard", "nowhere", "--out", "y"), "expected samples*.parquet"),
        (("unify", "aitz", "--raw", ".", "--out", "/proc/none/x"), "/proc/none"),
    ],
)
def test_a_wrong_word_is_told_the_nearest(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: str
) -> None:
    assert expected in said(capsys, *words)


def test_a_folder_of_the_wrong_level_is_told_the_right_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    native.fixture("insta").write(tmp_path / "data")
    right = tmp_path / "data" / "raw"
    out = ("--out", str(tmp_path / "out"))
    (tmp_path / "data" / "other").mkdir()
    high = said(capsys, "unify", "insta", "--raw", str(tmp_path / "data"), *out)
    assert f"give --raw {right}" in high and "expected " in high
    (right / "deeper").mkdir()
    assert f"give --raw {right}" in said(capsys, "unify", "insta", "--raw", str(right / "deeper"), *out)
    (tmp_path / "junk").mkdir()
    assert "found an empty folder" in said(capsys, "unify", "insta", "--raw", str(tmp_path / "junk"), *out)
    (tmp_path / "junk" / "a.txt").write_text("x")
    wrong = said(capsys, "unify", "insta", "--raw", str(tmp_path / "junk"), *out)
    assert "found others, such as a.txt" in wrong and "vesper unify --layout insta" in wrong


@pytest.mark.parametrize("source", sorted(sources.registry()))
def test_every_source_says_what_it_reads(source: str) -> None:
    adapter = sources.get(source)
    shown = layout(adapter)
    assert shown.startswith(f"{source}: {adapter.descriptor.title}") and len(shown) > 400 and "`" in shown


def test_the_layout_needs_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["unify", "aitz", "--layout"]) == 0
    assert "coat_action_desc" in capsys.readouterr().out


def test_an_asset_that_is_not_there_is_told_the_nearest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    native.fixture("insta").write(tmp_path / "raw")
    unify_source(store, "insta", native.raw_of("insta", tmp_path / "raw"))
    with pytest.raises(StoreError, match=r"unified/inster: nothing committed .*; did you mean unified/insta\?"):
        store.require("unified/inster")
    with pytest.raises(StoreError, match=r"materialise it first$"):
        store.require("checkpoints/base")
