"""The driver's own laws, on a small source that is defined outside the tree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipelines import sources
from pipelines.commands import unify_directory
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.mapping.adapter import Raw
from pipelines.raw.rawdata import register_raw
from pipelines.store import Store
from pipelines.store.images import encode_png
from pipelines.unify.unify import unify_source

pytestmark = pytest.mark.slow

ADAPTER = """
import json
from pipelines.mapping.adapter import Adapter, Broken, Record, RecordError, RecordScreen
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.builders import EpisodeBuilder
from schemas.actions import Click, Type
from schemas.coordinates import OffScreen, point_to_unit


class ToyAdapter(Adapter):
    descriptor = Descriptor(
        id="toy", title="Toy", origin="made here", licence="CC0", platforms=("mobile",), language="en",
        objectives=("navigation",), size="a few", citation="", frame="pixels", record_unit="episode",
        item_unit="action", known_problems=(), loss=(Loss("tap", "Click", "kept"), Loss("fill", "Click, Type", "kept")),
    )
    version = 1

    def parts(self, raw):
        return [(name,) for name in raw.files("*.jsonl")]

    def records(self, raw, files):
        for name in files:
            for number, line in enumerate(raw.read(name).splitlines()):
                try:
                    payload = json.loads(line)
                except ValueError as error:
                    yield Broken(name, str(number), "bad_json", str(error), native=line.decode())
                    continue
                yield Record(name, str(number), payload, str(payload["id"]))

    def map(self, record, raw):
        payload = record.payload
        episode = EpisodeBuilder(self.descriptor, record, episode_id=record.native_id, instruction=payload["goal"])
        for index, native in enumerate(payload["actions"]):
            screen = RecordScreen.load(raw.read_if_there(native.get("image", "none.png")), frame=(100, 200))
            try:
                click = Click(point_to_unit(native["at"], (100, 200)))
            except OffScreen as error:
                episode.reject("off_screen", native=native, native_index=index, word="tap", detail=str(error))
                continue
            fill = bool(native.get("text"))
            actions = [click, Type(native["text"])] if fill else click
            episode.add(
                actions, native=native, native_index=index, word="fill" if fill else "tap", screen=screen
            )
        return episode.finish()
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "adapters"
    folder.mkdir()
    (folder / "toy.py").write_text(ADAPTER)
    monkeypatch.setenv("VESPER_SOURCES", str(folder))
    sources.registry.cache_clear()
    raw = tmp_path / "raw"
    raw.mkdir()
    yield raw
    sources.registry.cache_clear()


def _episode(name: str, *points: tuple[int, int], **more: object) -> dict[str, object]:
    return {"id": name, "goal": f"goal of {name}", "actions": [{"at": list(point), **more} for point in points]}


def _write(path: Path, *records: object) -> None:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))


def test_every_native_unit_is_counted_once_and_kept_or_quarantined(toy: Path, tmp_path: Path) -> None:
    (toy / "a.png").write_bytes(encode_png(np.zeros((200, 100, 3), np.uint8)))
    (toy / "b.png").write_bytes(b"no picture")
    _write(
        toy / "1.jsonl",
        _episode("one", (50, 100), (10, 20), image="a.png"),
        _episode("two", (50, 100), (500, 20), (10, 10), text="hi"),  # the middle one lies off the screen
        _episode("three", (1, 1), image="b.png"),
        "{not json",
        {"id": "four", "actions": 3},
        _episode("five", (1, 1), image="../../../etc/passwd"),
    )
    report = unify_directory("toy", Raw(toy), tmp_path / "out")
    # 2 + 3 + 1 actions could be counted; of the broken line no item is known, "four" and "five" count as one each.
    assert report["items"] == {"unit": "action", "in": 8, "mapped": 5, "quarantined": 3}
    assert report["records"] == {"unit": "episode", "in": 6, "mapped": 3, "quarantined": 3}
    assert report["quarantine_reasons"] == {
        "bad_json": 1,
        "image_unreadable": 1,
        "missing_field": 1,
        "off_screen": 1,
        "unsafe_path": 1,
    }
    assert report["loss"] == {"fill": {"kept": 2}, "tap": {"dropped": 1, "kept": 3}}
    quarantined = [json.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()]
    assert json.loads(next(q["native"] for q in quarantined if q["reason"] == "off_screen"))["native"]["at"] == [
        500,
        20,
    ]


def test_steps_carry_keys_gaps_and_provenance(toy: Path, tmp_path: Path) -> None:
    _write(toy / "1.jsonl", _episode("two", (50, 100), (500, 20), (10, 10), text="hi"))
    steps = unify_source(Store(tmp_path / "home"), "toy", Raw(toy)).read("steps").to_pylist()
    assert [row["action_text"] for row in steps] == [
        "Click(box=(500,500))",
        "Type(content='hi')",
        "Click(box=(100,50))",
        "Type(content='hi')",
    ]
    assert [row["step_index"] for row in steps] == [0, 1, 2, 3]
    assert [json.loads(row["provenance"]).get("gap_at") for row in steps] == [None, None, 2, None]
    assert json.loads(steps[1]["provenance"])["rules"] == ["part 2 of 2"]
    assert json.loads(steps[0]["provenance"])["image_missing"] == "image_missing"


def test_repeats_are_quarantined_and_other_content_under_one_id_gets_another(toy: Path, tmp_path: Path) -> None:
    _write(toy / "1.jsonl", _episode("a", (1, 1)), _episode("a", (1, 1)), _episode("a", (2, 2)))
    _write(toy / "2.jsonl", _episode("a", (1, 1)), _episode("a", (3, 3)), _episode("b", (4, 4)))
    manifest = unify_source(Store(tmp_path / "home"), "toy", Raw(toy))
    steps = manifest.read("steps").to_pylist()
    names = sorted((row["episode_id"].partition("#")[0], row["action_text"]) for row in steps)
    assert names == [
        ("a", "Click(box=(10,5))"),
        ("a", "Click(box=(20,10))"),
        ("a", "Click(box=(30,15))"),
        ("b", "Click(box=(40,20))"),
    ]
    assert len({row["episode_id"] for row in steps}) == 4
    assert manifest.counts["reasons"] == {"duplicate": 2}
    assert manifest.counts["items_in"] == 6 == manifest.counts["items_mapped"] + manifest.counts["items_quarantined"]


def test_a_rerun_works_nothing_twice_and_a_new_file_costs_one_part(toy: Path, tmp_path: Path) -> None:
    store, by_file = Store(tmp_path / "home"), Execution(EngineSettings(part_bytes=1))
    _write(toy / "1.jsonl", _episode("a", (1, 1)))
    _write(toy / "2.jsonl", _episode("b", (2, 2)))
    first = unify_source(store, "toy", Raw(toy), execution=by_file)
    mapped = store.require("mapped/toy")
    written = set(store.home.rglob("*.parquet"))
    assert unify_source(store, "toy", Raw(toy), execution=by_file) == first
    assert set(store.home.rglob("*.parquet")) == written
    _write(toy / "3.jsonl", _episode("c", (3, 3)))
    # The other parts' files don't list 3.jsonl among what they may read: it is a part of its own.
    third = unify_source(store, "toy", Raw(toy), execution=by_file)
    assert third.data_version != first.data_version
    assert {entry.path for entry in mapped.files} < {entry.path for entry in store.require("mapped/toy").files}


def test_workers_give_the_same_bytes_as_one_process(toy: Path, tmp_path: Path) -> None:
    """Worker processes; those of Beam and Ray have tests of their own (`test_dask`, `engines/test_ray`)."""
    for number in range(4):
        _write(toy / f"{number}.jsonl", _episode(f"e{number}", (number, 1)))
    _write(toy / "5.jsonl", _episode("e0", (7, 1)))  # an id of the first: this part is run again
    here = Execution(EngineSettings(runner="in-process", part_bytes=1))
    one = unify_source(Store(tmp_path / "one"), "toy", Raw(toy), execution=here)
    by_workers = Execution(EngineSettings(runner="processes", workers=2, part_bytes=1))
    two = unify_source(Store(tmp_path / "two"), "toy", Raw(toy), execution=by_workers)
    assert (two.data_version, two.version, two.counts) == (one.data_version, one.version, one.counts)
    assert [entry.sha256 for entry in two.files] == [entry.sha256 for entry in one.files]


def test_records_in_more_and_smaller_files_give_the_same_rows_but_for_their_places(toy: Path, tmp_path: Path) -> None:
    records = [_episode(f"e{number:02d}", (number, 1), (number, 2)) for number in range(41)]
    found = []
    for files in (1, 7, 41):
        for number in range(files):
            _write(toy / f"{number:02d}.jsonl", *records[number::files])
        manifest = unify_source(Store(tmp_path / f"home{files}"), "toy", Raw(toy))
        rows = manifest.read("steps").to_pylist()
        for row in rows:
            places = json.loads(row.pop("provenance"))
            row["provenance"] = {name: value for name, value in places.items() if name not in ("file", "locator")}
        found.append((rows, [entry.path.rpartition("/")[2] for entry in manifest.files]))
    assert found[0] == found[1] == found[2] and len(found[0][0]) == 82


def test_bad_input_is_named(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown source 'nope'; known are .*toy"):
        unify_directory("nope", Raw(toy), tmp_path / "out")
    with pytest.raises(ValueError, match="found an empty folder"):
        unify_directory("toy", Raw(toy), tmp_path / "out")
    with pytest.raises(ValueError, match="expected a folder"):
        unify_directory("toy", Raw(tmp_path / "missing"), tmp_path / "out")


def test_raw_files_are_named_and_hashed(toy: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    _write(toy / "1.jsonl", _episode("a", (1, 1)))
    first = register_raw(store, "toy", toy)
    assert register_raw(store, "toy", toy).data_version == first.data_version
    _write(toy / "1.jsonl", _episode("a", (2, 1)))
    assert register_raw(store, "toy", toy).data_version != first.data_version
    with pytest.raises(ValueError, match="expected a folder"):
        register_raw(store, "toy", tmp_path / "missing")


def test_a_lone_surrogate_costs_its_record_and_not_the_part(tmp_path: Path) -> None:
    from native import write_lines

    said = {"role": "assistant", "content": "I go ```go_back```"}
    rows = [{"id": "a", "messages": []}]
    for name, goal in (("b", "find \ud800 tea"), ("c", "find tea")):
        asked = {"role": "user", "content": f"OBJECTIVE: {goal}\nPREVIOUS ACTIONS:\n"}
        rows.append({"id": name, "messages": [asked, said]})
    write_lines(tmp_path / "raw/train.jsonl", [json.dumps(row) for row in rows])
    manifest = unify_source(Store(tmp_path / "home"), "nnetnav", Raw(tmp_path / "raw"))
    assert [row["instruction"] for row in manifest.read("steps").to_pylist()] == ["find tea"]
    assert manifest.counts["items_in"] == 3 and manifest.counts["reasons"]["bad_value"] == 1


def test_a_lone_surrogate_in_what_the_quarantine_tells_is_written_out(toy: Path, tmp_path: Path) -> None:
    """Reason, detail, file, place and native unit come from strangers as well."""
    _write(toy / "a.jsonl", _episode("e1", (10, 20)))
    adapter = tmp_path / "adapters" / "toy.py"
    broken = 'Broken("\\ud800.jsonl", "row \\ud801", "unknown_action:\\ud802", "found \\ud803", native="\\ud804")'
    text = adapter.read_text().replace(
        "        for name in files:", f"        yield {broken}\n        for name in files:"
    )
    adapter.write_text(text.replace('word="fill" if fill else "tap"', 'word="tap \\ud805"'))
    sources.registry.cache_clear()
    manifest = unify_source(Store(tmp_path / "home"), "toy", Raw(toy))
    [row] = manifest.read("quarantine").to_pylist()
    told = [row[name] for name in ("file", "record", "reason", "detail", "native")]
    assert told == [r"\ud800.jsonl", r"row \ud801", r"unknown_action:\ud802", r"found \ud803", r'"\\ud804"']
    assert manifest.counts["reasons"] == {r"unknown_action:\ud802": 1}
    assert manifest.counts["losses"] == {r"tap \ud805": {"kept": 1}}
    assert manifest.read("steps").num_rows == 1


def test_a_lone_surrogate_on_a_screen_costs_its_record_and_not_the_part(tmp_path: Path) -> None:
    from native import write_bytes, write_json
    from webnative import png

    rows = {}
    for number, label in enumerate(("a \ud83d", "fine")):
        write_bytes(tmp_path / f"raw/data/s{number}.png", png(100, 100, number))
        write_bytes(tmp_path / f"raw/data/t{number}.txt", b"Task: do it\nOutput Script:\npyautogui.click(10,10)\n")
        box = {"top_left": [1, 1], "bottom_right": [30, 30], "label": label, "valid": 1}
        write_bytes(tmp_path / f"raw/data/b{number}.json", json.dumps({"k": box}).encode())
        rows[str(number)] = {
            name: f"data/{kind}"
            for name, kind in (("task", f"t{number}.txt"), ("image", f"s{number}.png"), ("box", f"b{number}.json"))
        }
    write_json(tmp_path / "raw/train.json", rows)
    manifest = unify_source(Store(tmp_path / "home"), "omniact", Raw(tmp_path / "raw"))
    assert manifest.counts["reasons"]["bad_value"] == 1 and manifest.read("steps").num_rows >= 1
    names = [element["name"] for row in manifest.read("screens").to_pylist() for element in row["elements"]]
    assert names == ["fine"]
