"""The embedded data: native forms as the real records have them, the same bytes every time, nothing done twice."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from generators.proving.embedded.build import build_raw
from generators.proving.embedded.sizes import SOURCES
from pipelines.native import accessibility, tf_example, tfrecord
from pipelines.store import Store
from pipelines.store.images import read_image

Samples = Callable[[str], Path]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]


def _hashes(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def _examples(path: Path) -> list[tf_example.Example]:
    return [tf_example.parse(frame.data) for frame in tfrecord.scan(path) if frame.data is not None]


@pytest.fixture
def raw(tiny_home: Callable[..., Path]) -> Callable[[str], Path]:
    """The tiny raw folder of a source, built on first use."""
    return lambda source: tiny_home(source) / "raw" / source


def test_two_builds_give_the_same_bytes_and_another_seed_others(
    raw: Callable[[str], Path], store: Store, tmp_path: Path
) -> None:
    first = raw("aitz")
    with ThreadPoolExecutor(1) as thread:  # which has a Chromium of its own
        thread.submit(build_raw, store, "aitz", tmp_path / "again" / "aitz", size="tiny", seed=0).result()
    assert _hashes(first) == _hashes(tmp_path / "again" / "aitz")
    truth = first.parent / "_truth" / "aitz.jsonl"
    assert truth.read_bytes() == (tmp_path / "again" / "_truth" / "aitz.jsonl").read_bytes()
    build_raw(store, "aitz", tmp_path / "other" / "aitz", size="tiny", seed=1)
    assert not set(_hashes(first).values()) & set(_hashes(tmp_path / "other" / "aitz").values())


def test_a_second_call_renders_nothing_and_damage_is_mended(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_chromium: None
) -> None:
    from generators.proving.embedded import build

    calls: list[str] = []
    true_make = build.make
    monkeypatch.setattr(build, "make", lambda root, config: calls.append(config.source) or true_make(root, config))
    folder = tmp_path / "raw" / "miniwob_demos"
    first = build_raw(store, "miniwob_demos", folder, size="tiny")
    second = build_raw(store, "miniwob_demos", folder, size="tiny")
    assert calls == ["miniwob_demos"] and first.data_version == second.data_version and first.checks_passed
    before = _hashes(folder)
    next(folder.rglob("*.gz")).write_bytes(b"damaged")
    build_raw(store, "miniwob_demos", folder, size="tiny")
    assert calls == ["miniwob_demos"] * 2 and _hashes(folder) == before


def test_files_of_others_are_never_overwritten(store: Store, tmp_path: Path) -> None:
    (tmp_path / "aitw").mkdir()
    (tmp_path / "aitw" / "mine.txt").write_text("precious")
    with pytest.raises(ValueError, match=r"there is no _receipts/aitw.json, such as 'mine.txt'.*delete the folder"):
        build_raw(store, "aitw", tmp_path / "aitw", size="tiny")
    assert (tmp_path / "aitw" / "mine.txt").read_text() == "precious"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source of one small file, other bytes for every seed, without a browser."""
    from generators.proving.embedded import build

    def write(root: Path, config: build.RawConfig) -> build.WrittenSource:
        (root / f"{config.seed % 2}.txt").write_text(f"of seed {config.seed}")
        return build.WrittenSource([], {"episodes": 1})

    monkeypatch.setattr(build, "MAKERS", {"aitw": write})


@pytest.mark.parametrize("killed_at", ["replace", "write_truth", "put_text", "rmtree"])
@pytest.mark.parametrize("first", [True, False])
def test_a_kill_anywhere_leaves_what_the_next_run_takes_for_its_own(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None, killed_at: str, first: bool
) -> None:
    from generators.proving.embedded import build

    class Killed(BaseException):
        pass

    folder, calls = tmp_path / "raw" / "aitw", []
    if not first:
        build_raw(store, "aitw", folder, size="tiny", seed=1)
    owner, name = {
        "replace": (build.Path, "replace"),
        "write_truth": (build.defects, "write_truth"),
        "put_text": (build, "put_text"),
        "rmtree": (build.shutil, "rmtree"),
    }[killed_at]
    true = getattr(owner, name)

    def until(number: int) -> Callable[..., object]:
        def call(*given: object, **options: object) -> object:
            calls.append(name)
            if len(calls) > number:  # dead from here on: what tidies up doesn't run either
                raise Killed
            return true(*given, **options)

        return call

    for number in range(4):
        calls.clear()
        with monkeypatch.context() as dying:
            dying.setattr(owner, name, until(number))
            try:
                build._build(folder, build.RawConfig("aitw", "tiny", 2, build.DefectRates()), "wanted")
            except Killed:
                pass
        build_raw(store, "aitw", folder, size="tiny", seed=2)  # not refused, and whole
        assert {p.name: p.read_text() for p in folder.iterdir()} == {"0.txt": "of seed 2"}
        if first:
            build.shutil.rmtree(folder)


def test_files_that_the_receipt_doesnt_name_are_somebody_elses(store: Store, tmp_path: Path, quick: None) -> None:
    folder, receipt = tmp_path / "raw" / "aitw", tmp_path / "raw" / "_receipts" / "aitw.json"
    build_raw(store, "aitw", folder, size="tiny")
    (folder / ".put-xyz").write_text("what a killed process left")
    build_raw(store, "aitw", folder, size="tiny")
    assert (folder / ".put-xyz").exists()  # nothing was made again for that
    (folder / "mine.txt").write_text("precious")
    for seed in (0, 1):
        with pytest.raises(ValueError, match=r"1 files that _receipts/aitw.json doesn't name, such as 'mine.txt'"):
            build_raw(store, "aitw", folder, size="tiny", seed=seed)
    (folder / "mine.txt").unlink()
    receipt.write_text(receipt.read_text()[:40])
    with pytest.raises(ValueError, match=r"holds 1 files and _receipts/aitw.json can't be read.*run it again"):
        build_raw(store, "aitw", folder, size="tiny")
    assert (folder / "0.txt").read_text() == "of seed 0"
    (folder / "0.txt").unlink()
    build_raw(store, "aitw", folder, size="tiny")  # without files a torn receipt stops nobody
    assert (folder / "0.txt").read_text() == "of seed 0" and receipt.read_text().endswith("}")


def test_an_unknown_source_is_refused_by_name(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected one of agentnet, aitw.*found 'aitw2'"):
        build_raw(store, "aitw2", tmp_path / "aitw2")


def test_aitw_has_the_features_of_the_real_steps(raw: Callable[[str], Path], samples_dir: Samples) -> None:
    real = json.loads((samples_dir("aitw") / "adp_sample_raw.json").read_text())[0]
    steps = [e for p in sorted((raw("aitw") / "general").iterdir()) for e in _examples(p)]
    assert set(steps[0]) == set(real)
    for step in steps:
        height, width = step["image/height"][0], step["image/width"][0]
        assert len(step["image/encoded"][0]) == height * width * 3  # type: ignore[arg-type,operator]
        assert len(step["image/ui_annotations_positions"]) == 4 * len(step["image/ui_annotations_text"])
    splits = json.loads((raw("aitw") / "splits" / "standard.json").read_text())
    assert (
        set(splits) == {"train", "validation", "test"}
        and splits["test"]
        and not set(splits["test"]) & set(splits["train"])
    )


def test_android_control_has_one_screen_more_than_actions_and_true_forests(raw: Callable[[str], Path]) -> None:
    episodes = [e for p in sorted(raw("android_control").glob("android_control-*")) for e in _examples(p)]
    assert episodes
    for e in episodes:
        assert (
            len(e["screenshots"])
            == len(e["accessibility_trees"])
            == len(e["actions"]) + 1
            == len(e["step_instructions"]) + 1
        )
        for picture, tree, action in zip(e["screenshots"], e["accessibility_trees"], e["actions"], strict=False):
            nodes = accessibility.decode(tree)[0].nodes  # type: ignore[arg-type]
            assert read_image(picture).width_px == 360 and len(nodes) > 5  # type: ignore[arg-type]
            assert "action_type" in json.loads(action)  # type: ignore[arg-type]


def test_aitz_has_the_fields_of_the_real_steps_in_their_order(raw: Callable[[str], Path], samples_dir: Samples) -> None:
    real = json.loads(next(samples_dir("aitz").glob("*.json")).read_text())[0]
    files = sorted(raw("aitz").glob("t*/*/*/*.json"))
    assert files
    for path in files:
        steps = json.loads(path.read_text())
        assert [list(s) for s in steps] == [list(real)] * len(steps)
        assert all(isinstance(json.loads(s["ui_positions"]), list) for s in steps)
        assert (path.parent / f"{path.stem}_{len(steps) - 1}.png").is_file()


def test_mind2web_targets_lie_on_their_page(raw: Callable[[str], Path]) -> None:
    found = 0
    for path in sorted((raw("mind2web") / "data").rglob("*.json")):
        for episode in json.loads(path.read_text()):
            for action in episode["actions"]:
                picture = raw("mind2web") / "screenshots" / f"{episode['annotation_id']}-{action['action_uid']}.png"
                info = read_image(picture.read_bytes())
                for candidate in action["pos_candidates"]:
                    x, y, w, h = (float(v) for v in json.loads(candidate["attributes"])["bounding_box_rect"].split(","))
                    assert 0 <= x + w / 2 <= info.width_px and 0 <= y + h / 2 <= info.height_px
                    assert f'backend_node_id="{candidate["backend_node_id"]}"' in action["cleaned_html"]
                    found += 1
    assert found > 5


def test_miniwob_demos_are_real_successful_runs(raw: Callable[[str], Path], samples_dir: Samples) -> None:
    real = json.loads(gzip.decompress(next(samples_dir("miniwob_demos").glob("*.gz")).read_bytes()))
    demos = [json.loads(gzip.decompress(p.read_bytes())) for p in sorted(raw("miniwob_demos").rglob("*.gz"))]
    assert len(demos) == 6 and all(d["rawReward"] == 1 for d in demos)
    for demo in demos:
        assert set(real) <= set(demo) and demo["states"][0]["action"] is None
        assert {s["action"]["timing"] for s in demo["states"][1:]} <= {1, 3}
        assert set(real["states"][0]["dom"]) - {"focused"} <= set(demo["states"][0]["dom"]) | {"focused"}


def test_a_wrong_text_in_a_demo_is_the_marked_act_s_alone(has_chromium: None) -> None:
    from generators.proving.embedded.native.miniwob_demos import Demo, _act_states, _damage
    from generators.worlds.miniwob.oracles import perform
    from generators.worlds.miniwob.recorded import open_miniwob

    with open_miniwob() as world:
        data, acts, reward = perform(world, "login-user", 4_000_001)
    demo = Demo("login", "login-user", data, tuple(acts), reward)

    def typed(demo: Demo) -> list[str]:
        actions = [[demo.data["states"][i]["action"] for i in _act_states(demo, at)] for at in range(len(demo.acts))]
        return [
            "".join(chr(a["charCode"]) for a in some if a["type"] == "keypress" and a["timing"] == 1)
            for some in actions
        ]

    said = [act.get("text", "") for act in acts]
    assert typed(demo) == said and sum(map(bool, said)) == 2
    for which in (at for at, text in enumerate(said) if text):
        damaged = _damage("wrong_text", demo, which, Random(0))
        assert damaged is not None
        assert [at for at, text in enumerate(typed(damaged)) if text != said[at]] == [which]


def test_rico_boxes_lie_on_the_picture(raw: Callable[[str], Path]) -> None:
    from PIL import Image

    files = sorted((raw("rico") / "combined").glob("*.jpg"))
    assert len(files) == 12
    for path in files:
        with Image.open(io.BytesIO(path.read_bytes())) as picture:
            assert picture.size == (540, 960)
        tree = json.loads(path.with_suffix(".json").read_text())
        todo, seen = [tree["activity"]["root"]], 0
        while todo:
            node = todo.pop()
            left, top, right, bottom = node["bounds"]
            assert 0 <= left < right <= 1440 and 0 <= top < bottom <= 2560
            todo += node["children"]
            seen += 1
        assert seen > 5


def test_ui_refexp_has_the_features_of_the_real_records(raw: Callable[[str], Path], samples_dir: Samples) -> None:
    real = _examples(samples_dir("ui_refexp") / "dev_head40.tfrecord")[0]
    rows = [e for p in sorted(raw("ui_refexp").glob("*.tfrecord")) for e in _examples(p)]
    assert len(rows) >= 24 and set(rows[0]) == set(real)
    assert {type(rows[0][name][0]) for name in real} == {type(real[name][0]) for name in real}
    screens = {
        split: {e["image/id"][0] for e in _examples(raw("ui_refexp") / f"{split}.tfrecord")}
        for split in ("train", "dev", "test")
    }
    assert screens["test"] and not screens["test"] & (screens["train"] | screens["dev"])


def test_screenqa_has_the_fields_of_the_real_rows_and_several_raters(
    raw: Callable[[str], Path], samples_dir: Samples
) -> None:
    real = json.loads((samples_dir("screenqa") / "two_records.json").read_text())[0]
    rows = json.loads((raw("screenqa") / "answers_and_bboxes" / "train.json").read_text())
    assert list(rows[0]) == list(real) and all(len(row["ground_truth"]) >= 2 for row in rows)
    assert list(rows[0]["ground_truth"][0]) == list(real["ground_truth"][0])


def test_screen_annotation_nests_and_puts_x_before_y(raw: Callable[[str], Path]) -> None:
    import csv

    with (raw("screen_annotation") / "train.csv").open(newline="") as lines:
        rows = list(csv.reader(lines))
    assert rows[0] == ["screen_id", "screen_annotation"] and len(rows) > 5
    assert any("(" in text for _, text in rows[1:])
    assert all(text.count("(") == text.count(")") for _, text in rows[1:])


def test_the_marked_boxes_of_an_annotation_are_those_that_miss_their_element(has_chromium: None) -> None:
    from generators.proving.embedded import screens
    from generators.proving.embedded.defects import DefectRates
    from generators.proving.embedded.native.screen_annotation import annotate, plant
    from schemas.coordinates import centre, contains

    sound = [annotate(screen) for screen in screens.render_all(12, pictures=False)]
    for seed in range(8):
        found, truths = plant(sound, DefectRates(duplicate=0, unreadable=0), seed)
        marked = {(truth.record, truth.item) for truth in truths if truth.defect == "shifted_point"}
        pairs = {
            (str(before.screen.number), i): (part.box, moved.box)
            for before, after in zip(sound, found, strict=True)
            for i, (part, moved) in enumerate(zip(before.parts, after.parts, strict=True))
        }
        assert {at for at, (box, moved) in pairs.items() if not contains(box, centre(moved))} == marked
        for box, moved in pairs.values():  # none is cut to a sliver
            assert moved[2] - moved[0] >= (box[2] - box[0]) / 2 and moved[3] - moved[1] >= (box[3] - box[1]) / 2
            assert min(moved) >= 0 and moved[2] <= 360 and moved[3] <= 640


def test_omniact_rows_name_files_that_are_there_but_for_the_known_web_bug(raw: Callable[[str], Path]) -> None:
    rows = [
        row
        for name in ("train", "val", "test")
        for row in json.loads((raw("omniact") / f"{name}.json").read_text()).values()
    ]
    assert len(rows) == 12
    for row in rows:
        assert (raw("omniact") / row["task"]).read_text().startswith("Task: ")
        for kind in ("image", "box", "ocr", "icon", "color"):
            web = "/web/" in row[kind]
            assert (raw("omniact") / row[kind]).is_file() != web
            assert (raw("omniact") / row[kind].replace("screen_", "screen")).is_file() == web


def test_agentnet_points_are_shares_of_the_screen(raw: Callable[[str], Path]) -> None:
    import re

    lines = [json.loads(line) for line in (raw("agentnet") / "agentnet_ubuntu_5k.jsonl").read_text().splitlines()]
    codes = [step["value"]["code"] for line in lines for step in line["traj"]]
    numbers = [float(v) for code in codes for v in re.findall(r"[xy]=([0-9.]+)", code)]
    assert numbers and sum(v > 1 for v in numbers) <= 2
    assert all((raw("agentnet") / "ubuntu_images" / s["image"]).is_file() for line in lines for s in line["traj"])


def test_screens_of_different_sources_differ(raw: Callable[[str], Path]) -> None:
    pictures = {
        source: {h for n, h in _hashes(raw(source)).items() if n.endswith((".png", ".jpg"))}
        for source in ("aitz", "mind2web", "agentnet", "omniact", "rico")
    }
    names = sorted(pictures)
    for i, one in enumerate(names):
        for two in names[i + 1 :]:
            assert not pictures[one] & pictures[two], (one, two)


def test_held_out_pictures_are_not_in_training(raw: Callable[[str], Path]) -> None:
    files = _hashes(raw("aitz"))
    train = {h for n, h in files.items() if n.startswith("train/") and n.endswith(".png")}
    test = {h for n, h in files.items() if n.startswith("test/") and n.endswith(".png")}
    assert train and test and not train & test


def test_all_sources_have_a_maker_and_counts() -> None:
    from generators.proving.embedded.makers import MAKERS
    from generators.proving.embedded.sizes import COUNTS

    assert set(MAKERS) == set(SOURCES) == set(COUNTS["tiny"])
