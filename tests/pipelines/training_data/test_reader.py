"""The reader's order: a pure function, the same for any ranks and workers, resumable anywhere and twice."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from goldmaker import gold
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.store import Store, StoreError
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.mixture_config import MixtureConfig
from pipelines.training_data.reader import BadSamples, Order, ShardError, ShardReader, permutation
from pipelines.training_data.shard_files import ShardFiles, ShardRows, _RowGroupPictures
from pipelines.training_data.shard_form import ShardConfig
from pipelines.training_data.shards import build_shards


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Gold of two sources in several parts and shards, and a mixture with repeats."""
    store = gold(tmp_path_factory.mktemp("reader"), count=12, parts=2)
    gold(store, "more", count=6, seed=3)
    build_shards(store, ["toy", "more"], config=ShardConfig(shard_bytes=100_000))
    build_mixture(store, config=MixtureConfig(max_repeats=3))
    return store


def ids(batch: list[dict]) -> list[str]:
    return [row["sample_id"] for row in batch]


def take(reader: ShardReader, count: int) -> list[list[str]]:
    iterator = iter(reader)
    batches = [ids(next(iterator)) for _ in range(count)]
    iterator.close()
    return batches


def synthetic(counts: list[list[int]]) -> list[ShardRows]:
    """Shards of row groups of four; counts are the repeats of each row."""
    return [
        ShardRows(Path(f"s{n}.parquet"), None, range(len(c)), c, [row // 4 for row in range(len(c))])
        for n, c in enumerate(counts)
    ]


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=20), min_size=1, max_size=5),
    st.integers(0, 5),
    st.integers(1, 40),
)
def test_an_epoch_holds_every_repeat_of_every_row_once(counts: list[list[int]], epoch: int, window: int) -> None:
    order = Order(synthetic(counts), seed=7, window=window)
    seen = [(e.shard, e.row) for e in (order.at(epoch, p) for p in range(order.rows))]
    expected = [(s, r) for s, c in enumerate(counts) for r, times in enumerate(c) for _ in range(times)]
    assert sorted(seen) == sorted(expected)
    assert all(order.at(epoch, p).row_group == order.at(epoch, p).row // 4 for p in range(order.rows))


def test_permutation_is_pinned() -> None:
    """Written down once: an upgrade of any library must not change anyone's training order."""
    assert permutation(8, "blocks", 0, 0).tolist() == PINNED
    assert sorted(permutation(1000, "x").tolist()) == list(range(1000))


PINNED = [6, 0, 5, 7, 2, 3, 1, 4]


def test_the_order_is_pinned_and_found_in_any_pieces() -> None:
    """Written down once, as the permutation is: (row group, row) of an epoch with repeats, in windows of four."""
    shards = [ShardRows(Path("a"), None, range(6), [1, 2, 1, 1, 3, 1], [0, 0, 0, 1, 1, 1])]
    order = Order(shards, seed=3, window=4)
    whole = order.between(2, 0, order.rows)
    assert [entry[1:] for entry in whole] == [(1, 5), (1, 3), (1, 4), (1, 4), (1, 4), (0, 0), (0, 1), (0, 1), (0, 2)]
    for first, last in itertools.combinations(range(order.rows + 1), 2):
        assert order.between(2, first, last) == whole[first:last]


def test_rows_of_any_number_of_pictures_come_whole_from_any_row_group(tmp_path: Path) -> None:
    pictures = [[], [b"a"], [b"a", b"bb", b""], [], [b"ccc"], [b"a", b"ccc"]]
    table = pa.table(
        {
            "sample_id": [str(n) for n in range(6)],
            "messages": [""] * 6,
            "answer": [""] * 6,
            "images": pa.array(
                [[{"bytes": data, "path": None} for data in row] for row in pictures],
                pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    files = ShardFiles([ShardRows.whole(tmp_path / "a.parquet")])
    found = [files.row(0, row // 4, row) for row in range(6)]
    assert [row["images"] for row in found] == pictures and [row["sample_id"] for row in found] == list("012345")
    assert list(found[0]) == ["sample_id", "messages", "answer", "images"]
    assert "images" not in ShardFiles([ShardRows.whole(tmp_path / "a.parquet")], columns=["answer"]).row(0, 0, 1)
    # slices and several chunks, as other readers of parquet may give them
    column = pa.chunked_array([table["images"].chunk(0)[1:3], table["images"].chunk(0)[4:]])
    assert [_RowGroupPictures(column).of(n) for n in range(4)] == [pictures[n] for n in (1, 2, 4, 5)]
    sliced = _RowGroupPictures(pa.chunked_array([table["images"].chunk(0)[2:]]))
    assert [sliced.of(n) for n in range(4)] == pictures[2:]


def test_of_pictures_only_bytes_are_read_and_of_columns_those_asked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path, *_] = store.require("mid_training/shards").paths("shard")
    read = []
    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda self, n, columns, **k: (read.append(columns), original(self, n, columns, **k))[1],
    )
    every, some = (
        ShardFiles([ShardRows.whole(path)], columns=names).row(0, 0, 0) for names in (None, ["answer", "images"])
    )
    pictures = "images.list.element.bytes"
    assert {name.partition(".")[0] for name in read[0]} == set(every) and pictures in read[0]
    assert set(read[1]) == {"answer", pictures} and some == {name: every[name] for name in ("answer", "images")}
    assert not [name for name in read[0] if name.endswith(".path")]


def test_memory_is_bounded_and_what_was_given_up_is_read_again(store: Store) -> None:
    shards = [ShardRows.whole(path) for path in store.require("mid_training/shards").paths("shard")]
    places = [(n, group, row) for n, s in enumerate(shards) for group, row in zip(s.row_groups, s.rows, strict=True)]
    roomy = ShardFiles(shards)
    expected = roomy.rows(places)
    limit = max(group.size for group in roomy._groups.values())
    assert len(roomy._groups) > 2 and roomy._held == sum(group.size for group in roomy._groups.values())
    tight = ShardFiles(shards, cache_bytes=limit)
    for place, row in list(zip(places, expected, strict=True)) * 2:
        assert tight.row(*place) == row
        assert tight._held == sum(group.size for group in tight._groups.values()) <= limit


def test_a_row_group_that_cannot_be_read_is_named(store: Store, tmp_path: Path) -> None:
    [path, *_] = store.require("mid_training/shards").paths("shard")
    group = pq.ParquetFile(path).metadata.row_group(0)
    [answer] = [c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "answer"]
    start = answer.dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + answer.total_compressed_size] = bytes([255]) * answer.total_compressed_size
    (tmp_path / "torn.parquet").write_bytes(data)
    with pytest.raises(ShardError, match=r"torn\.parquet: row group 0 can't be read"):
        ShardFiles([ShardRows.whole(tmp_path / "torn.parquet")]).row(0, 0, 0)


def test_epochs_and_seeds_differ_and_equal_ones_agree(store: Store) -> None:
    def first(**options) -> list[list[str]]:
        reader = ShardReader.from_mixture(store, global_batch=16, window=64, **options)
        return [ids(reader.batch(0, i)) for i in range(3)]

    assert first(seed=1) == first(seed=1) != first(seed=2)
    reader = ShardReader.from_mixture(store, global_batch=16, seed=1)
    assert ids(reader.batch(0, 0)) != ids(reader.batch(1, 0))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world", [1, 2, 8])
def test_global_batches_are_the_same_for_any_ranks_and_workers(store: Store, world: int, workers: int) -> None:
    reference = take(ShardReader.from_mixture(store, seed=3, global_batch=16), 12)
    ranks = [
        ShardReader.from_mixture(store, seed=3, global_batch=16, rank=r, world=world, workers=workers)
        for r in range(world)
    ]
    shares = [take(reader, 12) for reader in ranks]
    for step, expected in enumerate(reference):
        joined = [name for group in itertools.zip_longest(*(share[step] for share in shares)) for name in group]
        assert joined == expected


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from([0, 2]), st.sampled_from([1, 2, 4]))
def test_reading_resumes_anywhere_and_twice(first: int, second: int, workers: int, world: int) -> None:
    store = STORE[0]
    whole = take(
        ShardReader.from_mixture(store, seed=5, global_batch=16, rank=1 % world, world=world), first + second + 3
    )

    def fresh() -> ShardReader:
        return ShardReader.from_mixture(store, seed=5, global_batch=16, rank=1 % world, world=world, workers=workers)

    one = fresh()
    head = take(one, first)
    two = fresh()
    two.load_state_dict(json.loads(json.dumps(one.state_dict())))
    middle = take(two, second)
    three = fresh()
    three.load_state_dict(json.loads(json.dumps(two.state_dict())))
    assert head + middle + take(three, 3) == whole


STORE: list[Store] = []


@pytest.fixture(autouse=True)
def _shared(store: Store) -> None:
    STORE[:] = [store]


def test_resume_may_change_ranks_and_workers(store: Store) -> None:
    whole = take(ShardReader.from_mixture(store, global_batch=16), 10)
    start = ShardReader.from_mixture(store, global_batch=16, rank=0, world=2)
    take(start, 4)
    rest = []
    for rank in range(8):
        reader = ShardReader.from_mixture(store, global_batch=16, rank=rank, world=8, workers=2)
        reader.load_state_dict(start.state_dict())
        rest.append(take(reader, 6))
    joined = [[n for pair in zip(*(r[s] for r in rest), strict=True) for n in pair] for s in range(6)]
    assert joined == whole[4:]


def test_resume_opens_only_what_the_next_batch_needs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ShardReader.from_mixture(store, global_batch=4, window=8)
    reader.load_state_dict({**reader.state_dict(), "epoch": 1000, "index": reader.batches_per_epoch - 1})
    read = []
    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, *a, **k: (read.append(a), original(self, *a, **k))[1]
    )
    take(reader, 1)
    assert 1 <= len(read) <= 4


def test_rows_carry_their_own_pictures_as_bytes(store: Store) -> None:
    samples = {
        row["sample_id"]: row
        for source in ("toy", "more")
        for row in store.require(f"gold/{source}").read("samples").to_pylist()
    }
    for row in ShardReader.from_mixture(store, global_batch=16).batch(0, 0):
        truth = samples[row["sample_id"]]
        assert row["images"] == [store.screen_bytes(sha) for sha in truth["images"]]
        assert row["messages"] == truth["messages"] and row["answer"] == truth["answer"]


def test_a_damaged_shard_is_refused_on_first_open(tmp_path: Path) -> None:
    store = gold(tmp_path, count=4)
    build_shards(store, ["toy"])
    build_mixture(store)
    [path] = store.require("mid_training/shards").paths("shard")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises((ShardError, StoreError), match="sha256"):
        ShardReader.from_mixture(store).batch(0, 0)
    path.unlink()
    with pytest.raises(ShardError, match="missing"):
        ShardReader.from_mixture(store).batch(0, 0)


def test_bad_samples_are_replaced_the_same_way_on_every_rank_and_counted_up_to_a_limit(store: Store) -> None:
    victims = set(ids(ShardReader.from_mixture(store, global_batch=16).batch(0, 0))[:2])

    def picky(row: dict) -> dict:
        if row["sample_id"] in victims:
            raise ValueError("no good")
        return row

    whole = ShardReader.from_mixture(store, global_batch=16, transform=picky)
    batch = ids(whole.batch(0, 0))
    assert len(batch) == 16 and not victims & set(batch) and set(whole.bad) == victims
    halves = [
        ShardReader.from_mixture(store, global_batch=16, transform=picky, rank=r, world=2).batch(0, 0) for r in (0, 1)
    ]
    assert [name for pair in zip(*map(ids, halves), strict=True) for name in pair] == batch
    with pytest.raises(BadSamples, match="limit 1"):
        ShardReader.from_mixture(store, global_batch=16, transform=picky, bad_limit=1).batch(0, 0)


def test_a_state_of_another_order_is_refused(store: Store) -> None:
    state = ShardReader.from_mixture(store, global_batch=16, seed=1).state_dict()
    for other in ({"seed": 2}, {"seed": 1, "global_batch": 8}, {"seed": 1, "window": 9}):
        with pytest.raises(ValueError, match="reader state"):
            ShardReader.from_mixture(store, **{"global_batch": 16, **other}).load_state_dict(state)


@pytest.mark.parametrize(
    "bad", [{"global_batch": 10, "world": 4}, {"rank": 2, "world": 2}, {"window": 0}, {"global_batch": 0}]
)
def test_impossible_options_are_refused(store: Store, bad: dict) -> None:
    with pytest.raises(ValueError, match="reader"):
        ShardReader.from_mixture(store, **bad)


def test_plain_paths_are_read_whole_and_what_is_no_shard_is_refused(store: Store, tmp_path: Path) -> None:
    manifest = store.require("mid_training/shards")
    reader = ShardReader.from_paths(manifest.paths("shard"), global_batch=1)
    names = [ids(reader.batch(0, i))[0] for i in range(reader.batches_per_epoch)]
    assert sorted(names) == sorted(manifest.read("index")["sample_id"].to_pylist())
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"x\.parquet"):
        ShardReader.from_paths([tmp_path / "x.parquet"])
    with pytest.raises(ValueError, match="no rows"):
        ShardReader([])
