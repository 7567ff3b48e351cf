"""Back to every raw dataset, forward to every checkpoint, and exactly the descendants of what is withdrawn."""

from __future__ import annotations

import hashlib
import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from corpusmaker import build_checkpoints, build_corpus, commit, light_source, light_tasks
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_project.cli import main
from dagster_project.lineage.diff import compare
from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.origins import origins
from dagster_project.lineage.picture import Box, draw
from dagster_project.lineage.rebuild import plan
from dagster_project.lineage.subjects import LineageSubject, find_subject
from dagster_project.lineage.touched import forward
from dagster_project.stages.stage import GraphStage
from pipelines.store import Store
from pipelines.store.manifest import Manifest

TASK = "a" * 32


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two sources with shards, a mixture, a task pool and three checkpoints; `bench/judge` stands alone."""
    folder = tmp_path_factory.mktemp("house")
    store = Store(folder / "home")
    for seed, name in enumerate(("alpha", "beta"), start=1):
        light_source(store, folder / "raw", name, seed)
    _rest(store, ("alpha", "beta"))
    return store


def _rest(store: Store, sources: tuple[str, ...]) -> None:
    build_corpus(store, sources)
    build_checkpoints(store)
    light_tasks(store, "beta")
    commit(store, "bench/judge", {}, files={"bench.txt": b"1"})


def test_a_merged_checkpoint_names_every_raw_dataset(house: Store) -> None:
    manifests = Manifests(house)
    found = origins(manifests, manifests.start("unified"))
    assert [d.name for d in found.datasets] == ["alpha", "beta"]
    alpha = found.datasets[0]
    assert (alpha.revision, alpha.role, alpha.files, alpha.current) == ("rev-1", "data", 1, True)
    assert alpha.rows["records"] == 5 and alpha.rows["items"] == 15 and alpha.rows["gold"] == 15
    shards, mixture = house.require("mid_training/shards"), house.require("mid_training/mixture")
    assert sum(d.rows["packed"] or 0 for d in found.datasets) == shards.counts["packed"] > 0
    assert sum(d.rows["trained"] or 0 for d in found.datasets) == mixture.counts["rows"] > 0
    [judge] = found.judges
    assert (judge.judge, judge.rubric_version, judge.verdicts) == ("rules", "rules-1", 30)
    assert found.code["checkpoint"]["action_space"] == "v1.5" and found.code["versions"]["mid_training/shards"]
    assert not found.missing


def test_a_folder_names_its_parents_by_weights_or_by_name(house: Store, tmp_path: Path) -> None:
    [weights] = [e for e in house.require("checkpoints/mid_trained").files if e.path.endswith(".safetensors")]
    digest = hashlib.sha256(bytes.fromhex(weights.sha256)).hexdigest()
    told = {"stage": "ties", "parents": {"base": digest, "expert_1": "f" * 64}}
    (tmp_path / "lineage.json").write_text(json.dumps(told))
    manifests = Manifests(house)
    start = manifests.start(str(tmp_path))
    assert start.inputs == {
        "checkpoints/mid_trained": house.require("checkpoints/mid_trained").version,
        "expert_1": "f" * 64,
    }
    found = origins(manifests, start)
    assert [d.name for d in found.datasets] == ["alpha", "beta"] and list(found.missing) == [f"expert_1@{'f' * 64}"]


def test_evaluation_data_and_companions_are_told_from_training_data(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")

    def made(asset: str, *inputs: str) -> None:
        raw = {"files.json": b"[]"} if asset.startswith("raw/") else {"a": asset.encode()}
        commit(store, asset, {name: store.require(name).version for name in inputs}, files=raw)

    for name in ("raw/screenspot", "raw/rico", "raw/screenqa", "raw/aitz"):
        made(name)
    made("unified/screenqa", "raw/screenqa", "raw/rico")
    made("unified/aitz", "raw/aitz")
    made("fingerprints/screenspot", "raw/screenspot")
    made("fingerprints/aitz_test", "unified/aitz")
    made(
        "hygiene/contamination", "unified/screenqa", "unified/aitz", "fingerprints/screenspot", "fingerprints/aitz_test"
    )
    manifests = Manifests(store)
    found = origins(manifests, manifests.start("hygiene/contamination"))
    assert {d.name: d.role for d in found.datasets} == {
        "screenspot": "evaluation",
        "rico": "companion",
        "screenqa": "data",
        "aitz": "data",
    }


def test_a_screen_without_a_row_of_its_own_is_found(house: Store, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    samples = house.require("gold/alpha").read("samples")
    made = commit(store, "gold/alpha", {}, {"samples": samples})
    shown = samples["images"].to_pylist()[0][0]
    subject = find_subject(Manifests(store), shown)
    assert subject.holders == {("gold/alpha", made.version)} and subject.samples


def test_forward_counts_rows_of_a_dataset_a_screen_an_item_and_a_task(house: Store) -> None:
    manifests = Manifests(house)
    dataset = forward(manifests, find_subject(manifests, "alpha"))
    by_name = {touch.asset: touch for touch in dataset.checkpoints}
    assert set(by_name) == {"checkpoints/mid_trained", "checkpoints/unified"}
    assert by_name["checkpoints/unified"].parents and not by_name["checkpoints/unified"].rows
    alpha = next(d for d in origins(manifests, manifests.start("unified")).datasets if d.name == "alpha")
    rows = by_name["checkpoints/mid_trained"].rows
    assert (rows["mixture"], rows["shards"]) == (alpha.rows["trained"], alpha.rows["packed"])
    step = house.require("unified/alpha").read("steps").to_pylist()[0]
    samples = house.require("gold/alpha").read("samples").to_pylist()
    shown = {s["sample_id"] for s in samples if step["screenshot_sha256"] in s["images"]}
    derived = {s["sample_id"] for s in samples if "step:alpha/e0000/0" in s["parents"]}
    screen = find_subject(manifests, step["screenshot_sha256"])
    assert screen.samples == shown and {node[0] for node in screen.holders} == {"unified/alpha", "gold/alpha"}
    assert find_subject(manifests, "step:alpha/e0000/0").samples == derived
    packed = forward(manifests, screen).checkpoints[0]
    assert packed.asset == "checkpoints/mid_trained" and packed.rows["shards"] == len(shown)
    assert [t.asset for t in forward(manifests, find_subject(manifests, TASK)).checkpoints] == [
        "checkpoints/online_web"
    ]
    episode = forward(manifests, find_subject(manifests, "episode:beta/e0000"))
    assert "checkpoints/online_web" in {t.asset for t in episode.checkpoints} and episode.tasks == [TASK]


def test_a_test_row_reaches_no_checkpoint(house: Store) -> None:
    """Every fifth episode is a test one: its samples are gold, and in no shard."""
    manifests = Manifests(house)
    rows = house.require("gold/alpha").read("samples", columns=["sample_id", "split"]).to_pylist()
    for split, touched in (("test", []), ("train", ["checkpoints/mid_trained", "checkpoints/unified"])):
        sample = next(row["sample_id"] for row in rows if row["split"] == split)
        found = forward(manifests, find_subject(manifests, sample))
        assert [touch.asset for touch in found.checkpoints] == touched
        assert len(found.without_rows) == 2 - len(touched)


def test_an_agent_that_played_a_round_is_no_circle(tmp_path: Path) -> None:
    """Its successor learns from what it played; what it played is made anew, and the old agent isn't."""
    store = Store(tmp_path)

    def made(asset: str, said: bytes, *inputs: str) -> None:
        versions = {name: store.require(name).version for name in inputs}
        commit(store, asset, versions, files={"a.txt": said})

    for name in ("alpha", "beta"):
        made(f"raw/{name}", b"1")
    made("checkpoints/unified", b"first", "raw/alpha", "raw/beta")
    made("generation/verified/round_001", b"played", "checkpoints/unified", "raw/beta")
    made("checkpoints/unified", b"second", "raw/alpha", "raw/beta", "generation/verified/round_001")
    manifests = Manifests(store)
    found = plan(manifests, find_subject(manifests, "raw/alpha"), {})
    assert [step.asset for step in found.steps] == ["generation/verified/round_001", "checkpoints/unified"]
    assert [step.because for step in found.steps] == [(), ("generation/verified/round_001",)]


def test_what_an_older_agent_learned_is_history(tmp_path: Path) -> None:
    """The loop closed: the second corpus holds what an agent of the first played, and no row of the first's own."""
    store = Store(tmp_path / "home")
    light_source(store, tmp_path / "raw", "alpha", seed=1)
    light_source(store, tmp_path / "raw", "beta", seed=2)
    build_corpus(store, ("alpha", "beta"))
    build_checkpoints(store)
    old = store.require("checkpoints/unified").version
    # played by an agent, whose results by hand are of held-out shards of its own corpus
    result = commit(
        store,
        "leaderboard/results/miniwob/old",
        {"mid_training/shards": store.require("mid_training/shards").version},
        files={"a.txt": b"result"},
    )
    agent = {"checkpoints/unified": old, result.asset: result.version}
    played = commit(store, "generation/trajectories/round_001", agent, files={"a.txt": b"played"})
    verified = commit(
        store, "generation/verified/round_001", {played.asset: played.version}, files={"a.txt": b"verified"}
    )
    light_source(store, tmp_path / "raw", "generated", seed=3)
    made = store.require("gold/generated")
    tables = {name: made.read(name) for name in ("steps", "samples")}
    commit(store, "gold/generated", {verified.asset: verified.version}, tables, counts=made.counts)
    light_source(store, tmp_path / "raw", "alpha", seed=4)
    build_corpus(store, ("alpha", "generated"))
    build_checkpoints(store)

    manifests = Manifests(store)
    found = origins(manifests, manifests.start("unified"))
    first, new = sorted((d for d in found.datasets if d.name == "alpha"), key=lambda d: d.current)
    [beta] = (d for d in found.datasets if d.name == "beta")
    assert (first.role, beta.role, new.role) == ("history", "history", "data")
    assert first.rows["trained"] is None and beta.rows["packed"] is None and first.rows["gold"] == 15
    [generated] = found.generated
    assert {d.role for d in origins(manifests, manifests.start(played.asset)).datasets} == {"history"}
    mixture, shards = store.require("mid_training/mixture"), store.require("mid_training/shards")
    assert (new.rows["trained"] or 0) + (generated.trained or 0) == mixture.counts["rows"]
    assert 0 < (new.rows["packed"] or 0) < shards.counts["packed"]
    assert [judge.verdicts for judge in found.judges] == [15]

    changes = compare(manifests, f"checkpoints/unified@{old}", "checkpoints/unified").changes
    reasons = {(change.source, change.direction, change.reason) for change in changes}
    assert ("beta", "left", "source withdrawn") in reasons
    assert {("alpha", "left"), ("alpha", "entered"), ("generated", "entered")} <= {r[:2] for r in reasons}


def test_withdrawing_a_source_marks_exactly_its_descendants(house: Store, tmp_path: Path) -> None:
    """The prediction is held against what building again without the source really changes."""
    shutil.copytree(house.home, tmp_path / "home")
    store = Store(tmp_path / "home")
    manifests = Manifests(store)
    predicted = plan(manifests, find_subject(manifests, "raw/alpha"), {})
    before = dict(manifests.pointers)
    _rest(store, ("beta",))
    after = Manifests(store).pointers
    changed = {asset for asset in before if after.get(asset) != before[asset]}
    assert changed == {step.asset for step in predicted.steps}
    assert predicted.gone == ["gold/alpha", "raw/alpha", "unified/alpha", "verdicts/alpha"]
    assert set(predicted.fresh) == set(before) - changed - set(predicted.gone) >= {"bench/judge", "gold/beta"}
    order = [step.asset for step in predicted.steps]
    assert order.index("mid_training/shards") < order.index("mid_training/mixture") < order.index("checkpoints/unified")


@settings(max_examples=60)
@given(data=st.data(), count=st.integers(2, 12))
def test_stale_is_what_can_be_reached_and_its_plan_is_in_order(data: st.DataObject, count: int) -> None:
    """On any graph without cycles, with any assets current or not."""
    edges = {n: sorted(data.draw(st.sets(st.integers(0, n - 1)) if n else st.just(set()))) for n in range(count)}
    current = {n: data.draw(st.booleans()) for n in range(count)}
    manifests = _Made({n: edges[n] for n in edges}, current)
    start = data.draw(st.integers(0, count - 1))
    subject = LineageSubject("asset", f"a/n{start}", frozenset([(f"a/n{start}", "v")]))
    found = plan(manifests, subject, {})
    reach = {start}
    for n in range(count):
        if any(dep in reach for dep in edges[n]):
            reach.add(n)
    assert {step.asset for step in found.steps} == {f"a/n{n}" for n in reach if current[n]}
    assert set(found.fresh) == {f"a/n{n}" for n in range(count) if n not in reach and current[n]}
    assert found.old == sorted(f"a/n{n}@v" for n in reach if not current[n])
    place = {step.asset: step.number for step in found.steps}
    for step in found.steps:
        assert all(place[dep] < step.number for dep in step.because)


class _Made(Manifests):
    """A graph of manifests that lie nowhere."""

    def __init__(self, edges: dict[int, list[int]], current: dict[int, bool]) -> None:
        made = {}
        for n, deps in edges.items():
            inputs = {f"a/n{dep}": "v" for dep in deps}
            made[f"a/n{n}", "v"] = Manifest(f"a/n{n}", "v", "", "1", "", inputs, [], [], {}, [], True, Path("/nowhere"))
        self._read = dict(made)
        self.__dict__["all"] = list(made.values())
        self.__dict__["pointers"] = {f"a/n{n}": "v" for n in edges if current[n]}


def test_a_companion_takes_no_source_with_it_and_rounds_go_by_their_stage(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    rico = commit(store, "raw/rico", {}, files={"files.json": b"[]"})
    raw = commit(store, "raw/screenqa", {}, files={"files.json": b"[]"})
    unified = commit(store, "unified/screenqa", {raw.asset: raw.version, rico.asset: rico.version})
    commit(store, "generation/verified/round_001", {unified.asset: unified.version})
    stages = {
        key: GraphStage(
            key, (), "generate_round", lambda work: unified, "", (), "1", by_round=key != "unified/screenqa"
        )
        for key in ("unified/screenqa", "generation/verified")
    }
    manifests = Manifests(store)
    found = plan(manifests, find_subject(manifests, "rico"), stages)
    assert found.gone == ["raw/rico"] and "unified/screenqa need its files" in found.notes[0]
    assert [(s.asset, s.stage) for s in found.steps] == [
        ("unified/screenqa", "unified/screenqa"),
        ("generation/verified/round_001", "generation/verified"),
    ]
    assert plan(manifests, find_subject(manifests, "screenqa"), stages).gone[-2:] == [
        "raw/screenqa",
        "unified/screenqa",
    ]


def test_the_command_in_text_json_and_pictures(
    house: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--home", str(house.home)]
    assert main(["lineage", "unified", *data, "--svg", str(tmp_path / "back.svg")]) == 0
    text = capsys.readouterr().out
    assert "raw datasets: 2" in text and "rev-1" in text and "├─" in text or "└─" in text
    assert main(["lineage", "unified", *data, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert {"asset", "inputs", "ancestors", "datasets", "judges", "code"} <= set(plain)
    assert main(["lineage", "alpha", "--withdrawn", *data, "--json", "--svg", str(tmp_path / "without.svg")]) == 0
    plain = json.loads(capsys.readouterr().out)
    jobs = {step["asset"]: step["job"] for step in plain["plan"]["steps"]}
    assert jobs["mid_training/mixture"] == "build_corpus" and jobs["checkpoints/unified"] == "train"
    for name in ("back.svg", "without.svg"):
        root = ElementTree.parse(tmp_path / name).getroot()
        assert root.tag.endswith("svg") and "checkpoints/unified" in "".join(root.itertext())
        assert "href" not in (tmp_path / name).read_text() and "url(" not in (tmp_path / name).read_text()


def test_a_picture_escapes_what_data_says() -> None:
    evil = 'x"/><script>alert(1)</script>&\x07'
    text = draw(evil, [Box(f"{evil}@1", evil, evil)], {f"{evil}@1": []})
    root = ElementTree.fromstring(text)
    assert not [node for node in root.iter() if node.tag.endswith("script")]
    assert "<script" not in text and "alert(1)" in "".join(root.itertext())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "expected a checkpoint folder with lineage.json or a committed asset"),
        (["unified@zzz"], "no version that begin"),
        (["../../etc/passwd", "--forward"], "nothing of that name"),
        (["f" * 64, "--forward"], "nothing of that name"),
        (["step:alpha/x", "--forward"], "expected step:<source>/<episode>/<number>"),
        (["alpha", "--forward", "--withdrawn"], "give one of them"),
        ([], "expected NAME"),
        (["unified", "--svg", "/nowhere/x.svg"], "a folder that exists"),
    ],
)
def test_bad_input_is_one_line(
    house: Store, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["lineage", *arguments, "--home", str(house.home)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_damaged_manifest_is_named(house: Store, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    made = commit(store, "raw/x", {}, files={"files.json": b"[]"})
    (made.directory / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match="raw/x@.*expected a manifest"):
        Manifests(store).start("raw/x")
