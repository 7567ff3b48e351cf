"""Latent-space measures: equal to scikit-learn and to the definitions, and blind to what they should be blind to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn import draw
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.suites import latent


def clouds(seed: int, sizes: list[int], dimension: int = 5, spread: float = 0.5) -> tuple[np.ndarray, list[str]]:
    source = np.random.Generator(np.random.PCG64(seed))
    centres = source.normal(size=(len(sizes), dimension))
    vectors = [
        centre + spread * source.normal(size=(size, dimension)) for centre, size in zip(centres, sizes, strict=True)
    ]
    return np.concatenate(vectors), [f"c{i}" for i, size in enumerate(sizes) for _ in range(size)]


@settings(max_examples=25)
@given(st.integers(0, 99), st.lists(st.integers(1, 6), min_size=2, max_size=5).filter(lambda s: sum(s) > len(s)))
def test_measures_are_those_of_scikit_learn_and_of_the_definitions(seed: int, sizes: list[int]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    vectors, classes = clouds(seed, sizes)
    found = latent.measures(latent.similarity(vectors), classes)
    expected = metrics.silhouette_samples(vectors, classes, metric="cosine")
    assert found["silhouette"] == pytest.approx(expected, abs=1e-9)
    cosines = metrics.pairwise.cosine_similarity(vectors)
    for i, own in enumerate(classes):
        inside = [cosines[i, j] for j, other in enumerate(classes) if other == own and j != i]
        outside = [cosines[i, j] for j, other in enumerate(classes) if other != own]
        assert found["inter_class_similarity"][i] == pytest.approx(np.mean(outside))
        if inside:
            assert found["intra_class_consistency"][i] == pytest.approx(np.mean(inside))
        else:
            assert np.isnan(found["intra_class_consistency"][i]) and found["silhouette"][i] == 0.0


@settings(max_examples=25)
@given(st.integers(0, 99))
def test_length_rotation_and_order_dont_matter(seed: int) -> None:
    vectors, classes = clouds(seed, [4, 3, 2])
    source = np.random.Generator(np.random.PCG64(seed + 1))
    turned = np.linalg.qr(source.normal(size=(5, 5)))[0]
    order = source.permutation(9)
    stretched = vectors[order] @ turned * source.uniform(0.1, 9, size=(9, 1))
    one, other = (
        latent.measures(latent.similarity(vectors), classes),
        latent.measures(latent.similarity(stretched), [classes[i] for i in order]),
    )
    for name in latent.MEASURES:
        assert other[name] == pytest.approx(one[name][order], abs=1e-9)


def test_closed_forms() -> None:
    # two classes on two axes: every cosine is 1 inside and 0 outside
    apart = latent.measures(latent.similarity(np.array([[1.0, 0], [2, 0], [0, 1], [0, 3]])), list("aabb"))
    assert [apart[name].tolist() for name in latent.MEASURES] == [[1.0] * 4, [1.0] * 4, [0.0] * 4]
    # the same vectors with crossed classes: nearest other class at distance 0.5, own at 1
    crossed = latent.measures(latent.similarity(np.array([[1.0, 0], [2, 0], [0, 1], [0, 3]])), list("abab"))
    assert crossed["silhouette"] == pytest.approx([-0.5] * 4) and crossed["intra_class_consistency"].max() == 0.0
    same = latent.measures(latent.similarity(np.ones((4, 2))), list("aabb"))  # all in one place
    assert same["silhouette"].tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="two classes"):
        latent.measures(np.eye(2), list("aa"))
    with pytest.raises(ValueError, match="length 0"):
        latent.similarity(np.zeros((2, 3)))


def test_a_common_direction_hides_classes_until_it_is_taken_away() -> None:
    vectors, classes = clouds(3, [20, 20, 20], spread=0.3)
    screens = [latent.LabelledScreen(str(i), name, "s", "web") for i, name in enumerate(classes)]
    found = latent.figures(vectors + 100.0, screens, "app")
    assert found["raw"]["inter_class_similarity"]["mean"] > 0.99 > found["centred"]["inter_class_similarity"]["mean"]
    assert found["centred"]["silhouette"]["mean"] > 0.5 and found["classes"] == 3
    assert latent.figures(vectors, screens, "source") == {}  # one class
    tighter = latent.compare(vectors + 100.0, vectors * 3 + 100.0, screens, "app")
    assert tighter["centred"]["silhouette"]["mean"] == pytest.approx(0.0, abs=1e-9)  # a scale changes nothing centred
    assert tighter["raw"]["inter_class_similarity"]["high"] < 0  # raw, it does


@pytest.fixture
def store(tmp_path: Any) -> Any:
    """Two sources of drawn screens, unified."""
    import json

    from tfrecords import small_episode, write_examples

    from pipelines.mapping.adapter import Raw
    from pipelines.store import Store
    from pipelines.unify.unify import unify_source

    colours = (["red", "blue", "green", "black", "red", "blue"], [10, 30, 50, 70, 90, 60])
    episodes = []
    for number, (colour, x) in enumerate(zip(*colours, strict=True)):
        shots = [draw({colour: (x, 10 + 8 * step, x + 30, 40 + 8 * step)}) for step in range(2)]
        episodes.append(small_episode([{"action_type": "wait"}], episode_id=[number], screenshots=shots, goal=[b"x"]))
    write_examples(tmp_path / "raw/android_control-00000-of-00020", episodes)
    (tmp_path / "raw/splits.json").write_text(json.dumps({"train": [], "validation": [], "test": list(range(6))}))
    made = Store(tmp_path / "home")
    unify_source(made, "android_control", Raw(tmp_path / "raw"))
    return made


def test_screens_are_embedded_by_a_checkpoint(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    from trainer.modeling.checkpoint import Checkpoint

    checkpoint = Checkpoint(model, processor, {"stage": "tiny"})
    pictures = [row["images"][0] for row in rows[:3]]
    one = latent.embed(checkpoint, pictures, latent.LatentConfig(batch_size=3))
    other = latent.embed(checkpoint, pictures[::-1], latent.LatentConfig(batch_size=1))[::-1]
    assert one.shape == (3, 64) and one == pytest.approx(other, abs=1e-4)  # a screen's place in a batch doesn't matter
    last = latent.embed(checkpoint, pictures, latent.LatentConfig(pooling="last"))
    assert np.abs(last - one).max() > 1e-3 and model.training


def test_before_and_after_on_the_screens_of_a_store(
    store: Any, model: Any, processor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    import trainer.suites.latent as module
    from trainer.modeling.checkpoint import Checkpoint

    checkpoint = Checkpoint(model, processor, {"stage": "tiny"})
    with pytest.raises(ValueError, match="two apps, sources or platforms"):
        latent.evaluate_latent(checkpoint, store, ["android_control"])
    found = module.screens_of(store, ["android_control"], latent.LatentConfig())
    apps = [replace(screen, app="even" if i % 2 else "odd") for i, screen in enumerate(found)]
    monkeypatch.setattr(module, "screens_of", lambda store, sources, config: apps)
    events: list[dict[str, Any]] = []
    report = latent.evaluate_latent(checkpoint, store, ["android_control"], before=checkpoint, on_event=events.append)
    assert report["summary"]["headline_of"] == "silhouette by app" and report["read"]["asked"] == len(found) > 6
    assert report["summary"]["before"]["app"] == report["summary"]["app"]
    assert report["summary"]["minus_before"]["app"]["raw"]["silhouette"]["mean"] == 0.0
    assert events[-1]["done"] == events[-1]["of"] == 2 * len(found)
