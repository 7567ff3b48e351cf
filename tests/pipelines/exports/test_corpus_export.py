"""Exports of the corpus: each form holds every row once, as it trains; a killed run goes on to the same bytes."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import resource
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from corpusmaker import light_source
from exports_made import build_export, export_corpus
from goldmaker import commit_gold, gold

from pipelines.exports import parts
from pipelines.exports.choose import choose, read, verdict_scores
from pipelines.exports.filters import Filters
from pipelines.exports.forms import CORPUS
from pipelines.exports.records import Sample, marked, unmarked
from pipelines.store import Manifest, Store
from pipelines.takedown.takedown import take_down
from pipelines.takedown.withdrawn import WithdrawnEntry
from pipelines.training_data.chat_turns import trained_turns
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.mixture_config import MixtureConfig
from pipelines.training_data.shards import build_shards
from schemas.tables import Samples

HOSTILE = "press <image> or <|image_pad|>, <bbox> and </s><|im_end|>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Manifest]:
    """Gold whose first training sample holds marks of pictures in its text, packed."""
    store = gold(tmp_path_factory.mktemp("exports"), count=6, parts=2)
    table = store.require("gold/toy").read("samples").to_pylist()
    first = next(row for row in table if row["split"] == "train" and row["objective"] == "vqa")
    turns = json.loads(first["messages"])
    turns[0]["content"][0]["text"] = HOSTILE
    first["messages"] = json.dumps(turns, sort_keys=True, separators=(",", ":"))
    commit_gold(store, "toy", store.require("gold/toy").read("steps"), Samples.table(table), parts=2)
    return store, build_shards(store, ["toy"])


def samples(corpus: tuple[Store, Manifest], form: str) -> list[Sample]:
    store, shards = corpus
    return list(read(choose(store, shards, Filters(), CORPUS[form].objectives)))


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


Told = tuple[str, list[tuple[str, str]], list[str]]


def told(sample: Sample, turns: int | None = None) -> Told:
    """Id, (role, text) of each turn with `<image>` for a picture, digests of the pictures."""
    said = [(turn["role"], marked(turn)) for turn in sample.turns[:turns]]
    return sample.key, said, [hashlib.sha256(picture.data).hexdigest() for picture in sample.pictures]


def of_parquet(folder: Path, column: str) -> Iterator[Told]:
    for path in sorted((folder / "data").glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            name = row["extra_info"]["sample_id"] if "extra_info" in row else row["sample_id"]
            said = [(turn["role"], text_of(turn["content"])) for turn in row[column]]
            yield name, said, [hashlib.sha256(image["bytes"]).hexdigest() for image in row["images"]]


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join("<image>" if part["type"] == "image" else unmarked(part["text"]) for part in content)


def of_lines(folder: Path) -> Iterator[Told]:
    for path in sorted((folder / "data").rglob("*.jsonl")):
        for line in path.read_text().split("\n")[:-1]:
            row = json.loads(line)
            said = [(turn["role"], turn["content"]) for turn in row["messages"]]
            if said[-1][1] == "<bbox>":
                box = ",".join(str(round(side * 1000)) for side in row["objects"]["bbox"][0])
                assert row["objects"]["bbox_type"] == "norm1"
                said[-1] = ("assistant", f"[{box}]")
            shown = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in row["images"]]
            yield row["sample_id"], said, shown


def of_tars(folder: Path) -> Iterator[Told]:
    for path in sorted((folder / "data").glob("*.tar")):
        held: dict[str, dict[str, bytes]] = {}
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, ending = member.name.partition(".")
                held.setdefault(key, {})[ending] = tar.extractfile(member).read()  # type: ignore[union-attr]
        for key, group in held.items():
            said = [(turn["role"], text_of(turn["content"])) for turn in json.loads(group.pop("json"))["messages"]]
            yield key, said, [hashlib.sha256(data).hexdigest() for _, data in sorted(group.items())]


READ = {
    "trl": lambda folder: of_parquet(folder, "messages"),
    "ms-swift": of_lines,
    "llama-factory": of_lines,
    "verl": lambda folder: of_parquet(folder, "prompt"),
    "webdataset": of_tars,
    "hub": lambda folder: of_parquet(folder, "messages"),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", CORPUS)
def test_every_row_is_in_an_export_once_as_it_trains(corpus: tuple[Store, Manifest], tmp_path: Path, form: str) -> None:
    groups = export_corpus(*corpus, form, tmp_path / "out")
    expected = [told(sample, -1 if form == "verl" else None) for sample in samples(corpus, form)]

    def plain(rows: list[Told]) -> list[Told]:
        """What every form does to marks: the special tokens that only some escape, on both sides."""
        marks = ("<bbox>",)

        def bare(role: str, text: str) -> tuple[str, str]:
            return role, unmarked(text, marks) if role == "user" else text

        return [(name, [bare(*turn) for turn in said], shown) for name, said, shown in rows]

    assert plain(list(READ[form](tmp_path / "out"))) == plain(expected)
    assert sum(groups.values()) == len(expected) > 50
    card, licences = ((tmp_path / "out" / name).read_text() for name in ("README.md", "LICENSES.md"))
    assert f"{len(expected)} samples" in card and f"| `mid_training/shards` | `{corpus[1].version}` |" in card
    assert f"| toy | CC0-1.0 | {len(expected)} |" in licences


@pytest.mark.parametrize("form", ["ms-swift", "llama-factory"])
def test_every_line_has_the_same_columns(corpus: tuple[Store, Manifest], tmp_path: Path, form: str) -> None:
    """`datasets` takes columns and types from the first 10 MB of a file, and refuses what it finds later."""
    export_corpus(*corpus, form, tmp_path / "out")
    lines = [line for path in (tmp_path / "out/data").rglob("*.jsonl") for line in path.read_bytes().splitlines()]
    schemas = {str(pa_json.read_json(io.BytesIO(line)).schema) for line in lines}
    assert len(lines) > 50 and len(schemas) == 1, schemas


@pytest.mark.slow
@pytest.mark.parametrize("form", CORPUS)
def test_a_file_that_finds_no_room_is_named_and_left_out(
    corpus: tuple[Store, Manifest], tmp_path: Path, form: str
) -> None:
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, usual[1]))  # as a full disk, for files of more than 3,000 bytes
    try:
        with pytest.raises(OSError, match=r"Errno 27.*: '.*/out/data/") as found:
            export_corpus(*corpus, form, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert found.value.errno == errno.EFBIG, "and not what closing a file says after that"
    assert not [path for path in (tmp_path / "out/data").rglob("*") if path.is_file()]
    export_corpus(*corpus, form, tmp_path / "out")
    assert list(READ[form](tmp_path / "out"))


@pytest.mark.parametrize("form", ["ms-swift", "llama-factory", "verl"])
def test_a_text_cannot_pass_for_a_picture(corpus: tuple[Store, Manifest], tmp_path: Path, form: str) -> None:
    export_corpus(*corpus, form, tmp_path / "out")
    for _, said, shown in READ[form](tmp_path / "out"):
        assert sum(text.count("<image>") for _, text in said) == len(shown)
        assert not any(mark in text for _, text in said for mark in ("<|image_pad|>", "<|im_end|>"))
    escaped = "press < image> or < |image_pad|>"
    assert form == "verl" or any(escaped in text for _, said, _ in READ[form](tmp_path / "out") for _, text in said)


@pytest.mark.slow
@pytest.mark.parametrize("form", CORPUS)
def test_a_killed_run_goes_on_to_the_same_bytes(
    corpus: tuple[Store, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(parts, "MB", 2**12)  # so that a small corpus has several files
    filters = Filters(shard_mb=8)
    export_corpus(*corpus, form, tmp_path / "whole", filters)
    written: list[str] = []

    def killed(line: str) -> None:
        written.append(line)
        if len(written) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_corpus(*corpus, form, tmp_path / "cut", filters, killed)
    begun = {path.stat().st_ino for path in (tmp_path / "cut" / "data").rglob("*.*")}
    more: list[str] = []
    export_corpus(*corpus, form, tmp_path / "cut", filters, more.append)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert len(begun) == 2 and not set(more) & set(written), "what was whole is not written again"
    assert begun <= {path.stat().st_ino for path in (tmp_path / "cut" / "data").rglob("*.*")}
    again: list[str] = []
    export_corpus(*corpus, form, tmp_path / "cut", filters, again.append)
    assert again == []


def test_a_damaged_part_is_written_again(corpus: tuple[Store, Manifest], tmp_path: Path) -> None:
    export_corpus(*corpus, "trl", tmp_path / "out")
    before = files(tmp_path / "out")
    (tmp_path / "out/data/train-00000.parquet").write_bytes(b"torn")
    export_corpus(*corpus, "trl", tmp_path / "out")
    assert files(tmp_path / "out") == before


def test_a_folder_takes_one_export_only(corpus: tuple[Store, Manifest], tmp_path: Path) -> None:
    export_corpus(*corpus, "trl", tmp_path / "out")
    with pytest.raises(ValueError, match=r'to be of objective \["vqa"\], found \[\]; give another folder'):
        export_corpus(*corpus, "trl", tmp_path / "out", Filters(objective=("vqa",)))
    with pytest.raises(ValueError, match='to be of form "verl", found "trl"; give another'):
        export_corpus(*corpus, "verl", tmp_path / "out")
    assert Filters(source=("b", "a", "b")).plain() == Filters(source=("a", "b")).plain(), "the same filter"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="found other files in it"):
        export_corpus(*corpus, "trl", tmp_path / "mine")


def test_filters_leave_what_they_name(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    for seed, name in enumerate(("one", "two")):
        light_source(store, tmp_path / "raw", name, seed)
    shards = build_shards(store, ["one", "two"])
    for filters, holds in (
        (Filters(source=("two",)), lambda group: group.source == "two"),
        (Filters(platform=("web",), objective=("vqa", "grounding")), lambda g: g.platform == "web" != g.objective),
        (Filters(licence=("mi*",)), lambda group: group.licence == "MIT"),
    ):
        groups = Counter(one.group for one in choose(store, shards, filters))
        assert groups and all(holds(group) for group in groups)
        assert all(filters.takes(group) for group in groups)
    with pytest.raises(ValueError, match=r"found none; it holds source one.*; licence MIT; .*objective grounding"):
        choose(store, shards, Filters(licence=("Apache-*",)))
    with pytest.raises(ValueError, match="source: expected any of one.*, found 'onne'"):
        choose(store, shards, Filters(source=("one", "onne")))


def test_scores_are_those_of_a_sample_and_all_it_was_made_from(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    light_source(store, tmp_path / "raw", "one", 0)
    shards = build_shards(store, ["one"])
    scores = verdict_scores(store, shards)
    assert set(scores.values()) == {9} and len(scores) == 15
    whole, good = choose(store, shards, Filters()), choose(store, shards, Filters(score=9))
    assert {one.score for one in good} == {9} and 0 < len(good) <= len(whole)
    with pytest.raises(ValueError, match="expected rows that filters leave"):
        choose(store, shards, Filters(score=10))


def test_a_mixture_repeats_rows_and_must_be_of_these_shards(corpus: tuple[Store, Manifest], tmp_path: Path) -> None:
    store, shards = corpus
    made = build_mixture(store, config=MixtureConfig(max_repeats=3))
    chosen = choose(store, shards, Filters(mixture=True))
    assert len(chosen) == made.counts["epoch_rows"] > made.counts["rows"]
    export_corpus(store, shards, "webdataset", tmp_path / "out", Filters(mixture=True))
    keys = [name for name, _, _ in of_tars(tmp_path / "out")]
    assert len(set(keys)) == len(keys) == len(chosen), "a repeat has a key of its own"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["trl", "ms-swift"])
def test_the_asset_writes_only_what_changed_and_goes_with_a_takedown(tmp_path: Path, form: str) -> None:
    store = gold(tmp_path / "home", count=6, parts=2)
    build_shards(store, ["toy"])
    first = build_export(store, form)
    assert first.checks_passed and build_export(store, form).version == first.version
    gold(store, "more", count=3, seed=9)
    build_shards(store, ["toy", "more"])
    second = build_export(store, form)
    data = {entry.path for entry in first.files if "/data/" in entry.path}
    assert len(data) == 2 and data < {entry.path for entry in second.files}
    assert second.counts["rows"] > first.counts["rows"]
    assert (second.directory / "README.md").is_file() and (second.directory / "LICENSES.md").is_file()
    report, _ = take_down(store, [WithdrawnEntry("episode:toy/e0000", "asked")], lambda source: None)
    [asset] = [
        name for name in report.versions if name.startswith(f"exports/{form.replace('-', '_')}@{second.version}")
    ]
    left = store.version(asset.partition("@")[0], report.versions[asset])
    assert left.files == [], "nobody can tell whom a tar or a picture shows: the export is written again"


def test_turns_of_a_system_prompt_keep_their_order(tmp_path: Path) -> None:
    turns = trained_turns('[{"role":"system","content":"Be brief."},{"role":"user","content":"Hm?"}]', "yes")
    assert [marked(turn) for turn in turns] == ["Be brief.", "Hm?", "yes"]
    assert io.BytesIO(unmarked("<image><image>").encode()).read() == b"< image>< image>"
