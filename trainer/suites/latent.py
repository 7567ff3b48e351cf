"""How screens lie in a model's latent space: silhouette, intra-class consistency, inter-class similarity.

The report gives the three numbers before and after mid-training without their formulas; these are what the field means
by the words. For unit embeddings x of screens with classes c (app, source or platform), n screens:

* silhouette (Rousseeuw 1987), cosine distance d = 1 − x·y: s(i) = (b − a) / max(a, b), a = mean d to the others of the
  own class, b = smallest over other classes of the mean d to it; s = 0 for a class of one. Mean over screens;
* intra-class consistency: mean over screens of the mean x·y to the others of the own class (classes of two or more);
* inter-class similarity: mean over screens of the mean x·y to screens of other classes.

An embedding is the mean of the last hidden states at the picture's tokens (`pooling="picture"`), or the last token's
(`"last"`), under one fixed question. Hidden states of language models share a large common direction, which makes
every cosine close to 1: figures are given raw and, under `centred`, with the mean embedding taken away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow.parquet as pq

from pipelines.prompts import APP_QUESTION, messages
from schemas.ids import digest
from trainer.runtime.tracking import OnEvent
from trainer.statistics import interval, paired

if TYPE_CHECKING:
    from pipelines.store import Store
    from trainer.modeling.checkpoint import Checkpoint

Pooling = Literal["picture", "last"]
LABELS = ("app", "source", "platform")
MEASURES = ("silhouette", "intra_class_consistency", "inter_class_similarity")
Array = np.ndarray


@dataclass(frozen=True, slots=True)
class LabelledScreen:
    """A screen with its classes; "" where a label isn't known."""

    sha256: str
    app: str
    source: str
    platform: str


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """`per_class`: most screens of an app; `least`: fewer of a class say nothing and are left out of its label."""

    per_class: int = 40
    least: int = 3
    limit: int = 2000
    seed: int = 0
    split: str = "test"
    pooling: Pooling = "picture"
    batch_size: int = 32

    def __post_init__(self) -> None:
        if self.pooling not in ("picture", "last"):
            raise ValueError(f"latent: expected pooling of picture or last, found {self.pooling!r}")
        if min(self.per_class, self.limit, self.batch_size) < 1 or self.least < 2:
            raise ValueError(f"latent: expected sizes of 1 or more and classes of 2 or more, found {self}")


def similarity(vectors: Array) -> Array:
    """[n, d] → cosine similarities [n, n] in float64. Raises `ValueError` for a vector without direction."""
    data = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(data, axis=1, keepdims=True)
    # cosine has no meaning for a vector of length 0
    if not np.all(np.isfinite(norms)) or np.any(norms == 0):
        raise ValueError("latent: expected finite embeddings with a direction, found one of length 0 or not finite")
    unit = data / norms
    return np.clip(unit @ unit.T, -1.0, 1.0)


def measures(cosines: Array, classes: Sequence[str]) -> dict[str, Array]:
    """Cosine similarities [n, n] and classes → each measure per screen [n]; NaN where it isn't defined. Raises
    `ValueError` unless there are two classes or more."""
    names, place = np.unique(np.asarray(classes, dtype=str), return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"latent: expected screens of two classes or more, found {len(names)}")
    member = np.zeros((len(place), len(names)))
    member[np.arange(len(place)), place] = 1.0
    sizes = member.sum(0)
    # One matrix product gives the sums to all classes at once.
    sums = cosines @ member  # to each class, oneself included in the own one
    own = np.arange(len(place)), place
    others = sizes[place] - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = np.where(others > 0, (sums[own] - cosines.diagonal()) / others, np.nan)
        means = sums / sizes
    # one's own class is none of the others
    means[own] = -np.inf
    a, b = 1.0 - inside, 1.0 - means.max(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        silhouette = np.where(others > 0, (b - a) / np.maximum(a, b), 0.0)
    # Equal embeddings give 0 / 0; Rousseeuw's measure is 0 where nothing separates.
    silhouette = np.where(np.isnan(silhouette) & (others > 0), 0.0, silhouette)  # all points in one place
    outside = (sums.sum(1) - sums[own]) / (len(place) - sizes[place])
    return {"silhouette": silhouette, "intra_class_consistency": inside, "inter_class_similarity": outside}


def figures(vectors: Array, screens: Sequence[LabelledScreen], label: str, least: int = 3) -> dict[str, Any]:
    """The measures by one label, with 95 % intervals over screens, raw and centred; {} where fewer than two classes
    have `least` screens."""
    chosen = _kept(screens, label, least)
    classes = [getattr(screens[i], label) for i in chosen]
    if len(set(classes)) < 2:
        return {}
    names = [screens[i].sha256 for i in chosen]
    # The same screens for raw and centred figures, so that both may be held side by side.
    found = {"classes": len(set(classes)), "screens": len(chosen)}
    return found | {
        form: {name: _over(values, names) for name, values in _measured(vectors[chosen], classes, form).items()}
        for form in ("raw", "centred")
    }


def _kept(screens: Sequence[LabelledScreen], label: str, least: int) -> list[int]:
    sizes = Counter(getattr(screen, label) for screen in screens)
    return [i for i, screen in enumerate(screens) if getattr(screen, label) and sizes[getattr(screen, label)] >= least]


def _measured(vectors: Array, classes: Sequence[str], form: str) -> dict[str, Array]:
    data = np.asarray(vectors, np.float64)
    # centred on these screens: the direction that all share says nothing of classes
    return measures(similarity(data - data.mean(0) if form == "centred" else data), classes)


def _over(values: Array, names: Sequence[str]) -> dict[str, Any]:
    # Undefined values (a class of one) are left out rather than counted as 0.
    defined = [(float(v), name) for v, name in zip(values, names, strict=True) if np.isfinite(v)]
    return interval([v for v, _ in defined], [name for _, name in defined], proportion=False).plain()


def compare(
    before: Array, after: Array, screens: Sequence[LabelledScreen], label: str, least: int = 3
) -> dict[str, object]:
    """after − before of each measure on the same screens, paired over screens, raw and centred."""
    chosen = _kept(screens, label, least)
    classes = [getattr(screens[i], label) for i in chosen]
    if len(set(classes)) < 2:
        return {}
    found: dict[str, Any] = {}
    for form in ("raw", "centred"):
        one, other = (_measured(vectors[chosen], classes, form) for vectors in (after, before))
        found[form] = {}
        for name in MEASURES:
            # Pairs only where both checkpoints have a figure.
            both = np.isfinite(one[name]) & np.isfinite(other[name])
            names = [screens[i].sha256 for i, held in zip(chosen, both, strict=True) if held]
            found[form][name] = paired(one[name][both].tolist(), other[name][both].tolist(), names).plain()
    return found


def screens_of(store: Store, sources: Sequence[str], config: LatentConfig) -> list[LabelledScreen]:
    """Screens of steps and samples of `unified/<source>` in a split, each once, chosen by hash: at most `per_class` of
    an app (of a source where it has no apps), `limit` in all."""
    found: dict[str, LabelledScreen] = {}
    # Sorted sources: of a screen that two have, the first one's labels stay.
    for source in sorted(sources):
        unified = store.current(f"unified/{source}")
        for path in unified.paths("steps") if unified else []:
            columns = ["screenshot_sha256", "app", "platform", "split"]
            for row in pq.read_table(path, columns=columns, filters=[("split", "==", config.split)]).to_pylist():
                if row["screenshot_sha256"]:
                    found.setdefault(
                        row["screenshot_sha256"],
                        LabelledScreen(row["screenshot_sha256"], row["app"] or "", source, row["platform"]),
                    )
        for path in unified.paths("samples") if unified else []:
            columns = ["images", "platform", "split"]
            for row in pq.read_table(path, columns=columns, filters=[("split", "==", config.split)]).to_pylist():
                for sha256 in row["images"]:
                    found.setdefault(sha256, LabelledScreen(sha256, "", source, row["platform"]))
    taken: Counter[tuple[str, str]] = Counter()
    chosen: list[LabelledScreen] = []
    # by a hash, so that the choice depends on neither order nor number of the sources
    for screen in sorted(found.values(), key=lambda one: digest([config.seed, one.sha256])):
        taken[screen.source, screen.app] += 1
        if taken[screen.source, screen.app] <= config.per_class and len(chosen) < config.limit:
            chosen.append(screen)
    # Sorted again by content: the seed decides which screens, not in which order they are embedded.
    return sorted(chosen, key=lambda one: one.sha256)


def embed(
    checkpoint: Checkpoint,
    pictures: Sequence[bytes],
    config: LatentConfig,
    on_batch: Callable[[int], None] = lambda count: None,
) -> Array:
    """Encoded pictures → embeddings [n, hidden] in float32 (see the module). Raises `BadSample` for bytes that are no
    picture."""
    import torch

    from trainer.modeling.model import hidden_states

    device = next(checkpoint.model.parameters())
    found: list[Array] = []
    was_training = checkpoint.model.training
    checkpoint.model.eval()
    try:
        for start in range(0, len(pictures), config.batch_size):
            some = pictures[start : start + config.batch_size]
            rows = [
                {
                    "messages": messages("vqa", APP_QUESTION),
                    "images": [data],
                    "objective": "vqa",
                    "answer": "",
                    "sample_id": "screen",
                }
                for data in some
            ]
            batch = checkpoint.processor.prompt_batch(rows).to(device.device, device.dtype)
            with torch.no_grad():
                states = hidden_states(checkpoint.model, batch).float()
            if config.pooling == "last":
                pooled = states[:, -1]  # prompts are padded left
            else:
                here = (batch.input_ids == checkpoint.processor.image_id).float()[..., None]
                pooled = (states * here).sum(1) / here.sum(1)
            found.append(pooled.cpu().numpy())
            on_batch(len(some))
    finally:
        checkpoint.model.train(was_training)
    return np.concatenate(found) if found else np.zeros((0, 1), np.float32)


def evaluate_latent(
    checkpoint: Checkpoint,
    store: Store,
    sources: Sequence[str],
    config: LatentConfig | None = None,
    *,
    before: Checkpoint | None = None,
    on_event: OnEvent | None = None,
) -> dict[str, object]:
    """Measures of a checkpoint by app, source and platform → `{"suite", "summary", "read", "config"}`.

    With `before` (the checkpoint it was trained from) also that one's, and the paired differences. Raises `ValueError`
    where no label has two classes.
    """
    from pipelines.store import StoreError
    from trainer.modeling.batches import BadSample

    config = config or LatentConfig()
    screens: list[LabelledScreen] = []
    pictures: list[bytes] = []
    lost: dict[str, int] = defaultdict(int)
    for screen in screens_of(store, sources, config):
        try:
            data = store.screen_bytes(screen.sha256)
            # Decoded here once, so that a broken picture is dropped before the batches are formed.
            checkpoint.processor.picture(data)
        except StoreError:
            lost["picture_missing"] += 1
        except BadSample:
            lost["picture_unreadable"] += 1
        else:
            screens.append(screen)
            pictures.append(data)
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        if on_event:
            on_event(
                {"kind": "suite", "suite": "latent", "done": done, "of": len(pictures) * (1 if before is None else 2)}
            )

    vectors = embed(checkpoint, pictures, config, progress)
    by = {label: found for label in LABELS if (found := figures(vectors, screens, label, config.least))}
    if not by:
        raise ValueError(
            f"latent: expected screens of two apps, sources or platforms with {config.least} each in the "
            f"split {config.split!r}, found {len(screens)} screens"
        )
    # the first label that has two classes
    main = next(iter(by))
    summary: dict[str, Any] = {"headline": by[main]["raw"]["silhouette"], "headline_of": f"silhouette by {main}", **by}
    if before is not None:
        earlier = embed(before, pictures, config, progress)
        summary["before"] = {label: figures(earlier, screens, label, config.least) for label in by}
        summary["minus_before"] = {label: compare(earlier, vectors, screens, label, config.least) for label in by}
    return {
        "suite": "latent",
        "title": "latent space of screens",
        "summary": summary,
        "config": asdict(config),
        "read": {"asked": len(screens), "not_asked": dict(sorted(lost.items()))},
        "records": [asdict(screen) for screen in screens],
    }
