"""Chats of shards: typed turns, from which the prompt comes back as it was, and shards of the older form read alike."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from goldmaker import gold
from hypothesis import given
from hypothesis import strategies as st
from turns import prompt

from pipelines.store import Manifest, PartSpec, Store
from pipelines.takedown.tables import id_rows
from pipelines.takedown.takedown import take_down
from pipelines.takedown.withdrawn import WithdrawnEntry
from pipelines.training_data.chat_turns import TURNS, prompts, trained_turns, with_prompts
from pipelines.training_data.reader import ShardReader
from pipelines.training_data.shard_form import ShardConfig, write_shard
from pipelines.training_data.shards import build_shards
from quality.contamination.shard_scan import scan_shards
from schemas.ids import canonical_json
from trainer.data.rows import light_rows

PARTS = st.lists(
    st.one_of(st.just({"type": "image"}), st.builds(lambda text: {"type": "text", "text": text}, st.text())), max_size=4
)
CHATS = st.lists(
    st.builds(lambda role, content: {"role": role, "content": content}, st.sampled_from(("system", "user")), PARTS),
    min_size=1,
    max_size=4,
)


@given(CHATS, st.text())
def test_a_prompt_comes_back_byte_for_byte(chat: list[dict], answer: str) -> None:
    messages = canonical_json(chat)
    turns = trained_turns(messages, answer)
    array = pa.array([turns, turns, turns], TURNS)
    for stored in (pa.chunked_array([array]), pa.chunked_array([array[:1], array[2:]]), pa.chunked_array([array[1:]])):
        assert prompts(stored) == [messages] * len(stored), "of any chunks and slices"
    assert prompt(turns) == messages
    parts = [part for turn in array.to_pylist()[0] for part in turn["content"]]
    assert [part["image_index"] for part in parts if part["type"] == "image"] == list(
        range(messages.count('{"type":"image"}'))
    )
    assert parts[-1]["text"] == answer


def test_a_turn_of_plain_text_becomes_one_part() -> None:
    turns = trained_turns('[{"role":"system","content":"Be short."},{"role":"user","content":"Hm?"}]', "[1,2]")
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant"]
    assert prompt(turns).startswith('[{"content":[{"text":"Be short.","type":"text"}],"role":"system"}')


@pytest.mark.parametrize("broken", ['{"role":"user"}', '[{"role":"user"}]', '[{"role":"user","content":3}]', "no JSON"])
def test_what_is_no_chat_is_refused(broken: str) -> None:
    with pytest.raises(ValueError, match="expected a JSON chat|Expecting value"):
        trained_turns(broken, "")


def as_before(store: Store) -> Manifest:
    """The current shards written once more in the form of code version 3: prompts as JSON."""
    source, spec = store.require("mid_training/shards"), PartSpec("old", "1")
    with store.build("mid_training/shards", code_version="3", inputs=source.inputs, parts=[spec]) as build:

        def write(out) -> dict:
            for entry in source.files:
                path, name = source.root / entry.path, entry.path.rpartition("/")[2]
                if entry.table == "shard":
                    groups = [
                        pq.ParquetFile(path).read_row_group(n) for n in range(pq.ParquetFile(path).num_row_groups)
                    ]
                    write_shard(out.path(name, table="shard"), [with_prompts(group) for group in groups], ShardConfig())
                else:
                    pq.write_table(pq.read_table(path), out.path(name, table=entry.table))
            return {}

        build.run_part(spec, write)
        return build.commit(counts=source.counts)


@pytest.fixture
def both(tmp_path: Path) -> tuple[Store, Manifest, Manifest]:
    """A store, its shards, and the same in the form of before, which are the current ones."""
    store = gold(tmp_path)
    new = build_shards(store, ["toy"])
    old = as_before(store)
    assert pa.types.is_string(pq.read_schema(old.paths("shard")[0]).field("messages").type)
    return store, new, old


@pytest.mark.slow
def test_training_reads_the_same_of_either_form(both: tuple[Store, Manifest, Manifest]) -> None:
    _, new, old = both
    rows = [ShardReader.from_paths(shards.paths("shard"), global_batch=8) for shards in (new, old)]
    batches = [[reader.batch(0, index) for index in range(reader.batches_per_epoch)] for reader in rows]
    assert batches[0] == batches[1] and batches[0][0][0]["messages"].startswith('[{"content":[{"text":')
    assert light_rows(new) == light_rows(old) and len(light_rows(new)) > 10


@pytest.mark.slow
def test_the_scan_and_takedowns_read_either_form(both: tuple[Store, Manifest, Manifest]) -> None:
    store, new, old = both
    counts = scan_shards(store, []).counts
    assert counts["rows"] == new.rows("index") and counts["unreadable"] == 0
    [texts, before] = [id_rows(shards.paths("shard")[0]) for shards in (new, old)]
    assert texts is not None and before is not None
    assert texts["messages"].to_pylist() == before["messages"].to_pylist()
    report, _ = take_down(store, [WithdrawnEntry("episode:toy/e0000", "asked")], lambda source: None)
    assert report.rows["mid_training/shards"] > 0
    for shards, name in ((new, "new"), (old, "old")):
        left = store.version("mid_training/shards", report.versions[f"mid_training/shards@{shards.version}"])
        [path] = left.paths("shard")
        form = pq.read_schema(path).field("messages").type
        assert pa.types.is_string(form) == (name == "old"), "a shard that is written again keeps its form"
        assert 0 < pq.read_metadata(path).num_rows < new.rows("index")
