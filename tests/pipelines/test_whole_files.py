"""A file that is put in place is there whole or as it was before, whatever becomes of the writer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.whole_files import part_beside, put_json, whole_file


@pytest.mark.parametrize("alone", [True, False])
def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "deep" / "a.json"
    for text in ("old", "new"):
        with whole_file(path, alone=alone) as part:
            part.write_text(text)
            assert not path.exists() or path.read_text() == "old"
    with pytest.raises(RuntimeError, match="cut"), whole_file(path, alone=alone) as part:
        part.write_text("half")
        raise RuntimeError("cut")
    assert path.read_text() == "new" and list(path.parent.iterdir()) == [path]


def test_several_writers_have_names_of_their_own_and_one_alone_takes_its_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.rollout.json"
    with part_beside(path) as first, part_beside(path) as second:
        assert first != second
    with part_beside(path, alone=True) as first, part_beside(path, alone=True) as second:
        assert first == second
        first.write_text("half")
        assert not list(tmp_path.glob("*.json")), "what a killed writer left isn't taken for a file of its kind"


def test_what_lasts_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "a", list[tuple[str, bool]]()
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append((part.read_text(), path.exists())), real(handle))[1])
    with whole_file(path, lasting=True) as part:
        part.write_text("bytes")
    with whole_file(path) as part:
        part.write_text("more")
    assert seen == [("bytes", False)]


def test_json_is_put_canonical_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    put_json(path, {"b": 1.5, "a": ["é"]})
    assert path.read_bytes() == '{"a":["é"],"b":1.5}\n'.encode()
    with pytest.raises(ValueError, match="expected plain data, found set"):
        put_json(path, {"a": {1, 2}})
    assert path.read_text(encoding="utf-8").startswith('{"a"') and list(path.parent.iterdir()) == [path]
