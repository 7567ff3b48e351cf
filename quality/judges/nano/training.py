"""Trains the nano judge on the seen part of a judge bench (UI-Genie's recipe: rules, controlled corruption, hard
negatives): first what follows what, then steps, samples and whole traces. CPU, minutes, the same weights by seed.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quality.evidence.episode import Habits
from quality.evidence.order import settled
from quality.evidence.reading import ReadBank, TextReader
from quality.items.bench_folder import judged_part, read_truth
from quality.items.part import SourcePart
from quality.items.truth import INTENT
from quality.judges.nano.augment import damaged_copies
from quality.judges.nano.episode import EPISODE
from quality.judges.nano.forest import fit_forest
from quality.judges.nano.head import NanoHead, matrix, save_heads, sigmoid, standardised
from quality.judges.nano.look import (
    Cosines,
    EpisodeLook,
    look_at,
    risks_of,
    rivals,
    sample_look,
    sample_texts,
    texts_of,
)
from quality.judges.nano.sample import SAMPLE
from quality.judges.nano.step import STEP
from quality.judges.nano.transition import TRANSITION, Features, transition_features
from quality.statistics import cut_at
from schemas.ids import digest

Row = Mapping[str, Any]
PREVALENCE = 0.303
"""Share of low fidelity that risks are calibrated to (the report's corpus before refinement)."""
FALSE_ALARMS = 0.02
"""Of sound items of pages that weren't trained on: an episode has many items, and refinement must keep them."""
FOLDS = 3
"""Of page families, for what a head says of families it wasn't trained on."""
TRAINING_VERSION = 2


@dataclass(frozen=True)
class NanoConfig:
    """`hidden`: widths of the layers; `members`: networks per head; the rest as usual."""

    hidden: tuple[int, ...] = (48, 24)
    members: int = 5
    epochs: int = 120
    batch: int = 64
    lr: float = 3e-3
    weight_decay: float = 0.03
    dropout: float = 0.2
    seed: int = 0


@dataclass
class Example:
    """One labelled item: features, whether it is of low fidelity, its page family, and its defect (for weights)."""

    features: Features
    low: bool
    family: str
    kind: str


def train_nano(
    folder: Path,
    out: Path,
    config: NanoConfig | None = None,
    tell: Callable[[str], None] = print,
    reader: TextReader | None = None,
) -> dict[str, Any]:
    """Train on a bench folder, write the judge to `out`, return its report (items, thresholds, lineage).

    Only items that aren't held out are read: with the elements of their screens, without, and, given a reader, with
    what it reads there. Raises `ValueError` if the bench has no seen positives or negatives.
    """
    config = config or NanoConfig()
    # Held-out items measure the judge later, so it must never see them.
    truth = {row["item_id"]: row for row in read_truth(folder, judged_part(folder)) if not row["held_out"]}
    cosine = Cosines()
    # With and without the source's elements: later corpora may have none.
    parts = [judged_part(folder, elements) for elements in (True, False)]
    if reader is not None:
        # What a reader finds is between the two.
        parts.append(replace(parts[1], bank=ReadBank(parts[1].bank, reader)))
    transition = _transition_head(parts, truth, config, tell)
    looks = [_looks(part, truth, cosine, transition) for part in parts]
    # Of the same step there are several looks, one by each part.
    steps = [
        Example(features, _is_low(truth[item_id]), truth[item_id]["family"], truth[item_id]["kind"])
        for found in looks
        for look in found
        for item_id, features in look.steps.items()
        if item_id in truth
    ]
    tell(f"steps: {len(steps)} examples")
    step_head, step_cut = calibrated_head(steps, STEP, config)
    samples = _samples(parts, truth, cosine)
    tell(f"samples: {len(samples)} examples")
    sample_head, sample_cut = calibrated_head(samples, SAMPLE, config)
    named = [
        (look, row["kind"] if _is_low(row) else "")
        for found in looks
        for look in found
        if (row := truth.get(look.episode.item_id)) is not None
    ]
    # More damaged traces than the bench alone holds.
    copies = list(_damaged(parts, truth, transition, cosine, config))
    tell(f"damaged copies: {len(copies)}")
    wholes = _wholes([*named, *copies], truth, cosine, steps, config)
    tell(f"episodes: {len(wholes)} examples")
    episode_head, episode_cut = calibrated_head(wholes, EPISODE, config)
    heads = {"transition": transition, "step": step_head, "sample": sample_head, "episode": episode_head}
    cuts = {"step": step_cut, "sample": sample_cut, "episode": episode_cut}
    about: dict[str, Any] = {
        "version": TRAINING_VERSION,
        "config": asdict(config),
        "bench": bench_digest(folder),
        "cuts": cuts,
        "examples": {"step": len(steps), "sample": len(samples), "episode": len(wholes)},
        "prevalence": PREVALENCE,
        "read": reader.version if reader is not None else None,
    }
    save_heads(out, heads, about)
    return about


def bench_digest(folder: Path) -> str:
    """Which bench a judge was trained on: digest of its truth and tables."""
    return digest([(folder / f"{name}.parquet").read_bytes().hex() for name in ("steps", "samples", "truth")])[:16]


def _is_low(row: Row) -> bool:
    return row["label"] in ("planted", "natural")


def _transition_head(
    parts: Sequence[SourcePart], truth: Mapping[str, Row], config: NanoConfig, report: Callable[[str], None]
) -> NanoHead:
    """What follows what: recorded next screens of sound traces against other screens of the same trace."""
    examples: list[Example] = []
    for part in parts:
        for episode in part.episodes:
            row = truth.get(episode.item_id)
            # Only sound traces tell what follows what.
            if row is None or row["label"] not in ("clean", "hard"):
                continue
            actions = episode.actions
            for place, step in enumerate(actions):
                # Waits belong to what came before them.
                after = settled(actions, place)
                if after is None or step.screen is None:
                    continue
                examples.append(Example(transition_features(step, after), True, row["family"], "follows"))
                examples += [
                    Example(transition_features(step, other), False, row["family"], "")
                    # Few of each, or long traces would outweigh short ones.
                    for other in rivals(episode, step, after)[:3]
                ]
    report(f"transitions: {len(examples)} examples")
    return fit_head(examples, TRANSITION, config)


def _looks(part: SourcePart, truth: Mapping[str, Row], cosine: Cosines, transition: NanoHead) -> list[EpisodeLook]:
    habits = Habits.of(part.episodes)
    # In one batch, as embedding single texts is slow.
    cosine.learn(text for episode in part.episodes for text in texts_of(episode))
    found = []
    for episode in part.episodes:
        if any(item_id in truth for item_id in (episode.item_id, *(step.item_id for step in episode.actions))):
            found.append(look_at(episode, habits, cosine, transition))
    return found


def _samples(parts: Sequence[SourcePart], truth: Mapping[str, Row], cosine: Cosines) -> list[Example]:
    found = []
    cosine.learn(text for part in parts for sample in part.native_samples for text in sample_texts(sample))
    for part in parts:
        for sample in part.native_samples:
            row = truth.get(sample.item_id)
            if row is not None:
                features = sample_look(sample, cosine)[1]
                found.append(Example(features, _is_low(row), row["family"], row["kind"]))
    return found


def _damaged(
    parts: Sequence[SourcePart], truth: Mapping[str, Row], transition: NanoHead, cosine: Cosines, config: NanoConfig
) -> Iterator[tuple[EpisodeLook, str]]:
    """(look, defect) of copies of sound traces, damaged without a world."""
    for part in parts:
        habits = Habits.of(part.episodes)
        for episode in part.episodes:
            if truth.get(episode.item_id, {}).get("label") == "clean":
                for kind, copy in damaged_copies(episode, config.seed):
                    yield look_at(copy, habits, cosine, transition), kind


def _wholes(
    looks: Sequence[tuple[EpisodeLook, str]],
    truth: Mapping[str, Row],
    cosine: Cosines,
    steps: Sequence[Example],
    config: NanoConfig,
) -> list[Example]:
    """(look, defect or "") → episodes, with step risks by heads that didn't see their family (two folds), as at
    judging time."""
    # By families: a head that saw the family would be too sure of its steps.
    fold_of = lambda family: int(digest(["fold", family])[:4], 16) % 2  # noqa: E731
    heads = [fit_head([e for e in steps if fold_of(e.family) != fold] or list(steps), STEP, config) for fold in (0, 1)]
    found = []
    for look, kind in looks:
        family = truth[look.episode.item_id]["family"]
        risks = dict(zip(look.steps, risks_of(heads[fold_of(family)], list(look.steps.values())), strict=True))
        found.append(Example(look.whole(risks, cosine), bool(kind), family, kind))
    return found


def weights_of(examples: Sequence[Example]) -> np.ndarray:
    """Each defect weighs as much as another; all positives together `PREVALENCE`. Float32 [n], mean 1."""
    groups: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for place, example in enumerate(examples):
        groups[(example.low, example.kind if example.low else "")].append(place)
    defects = sum(low for low, _ in groups)
    if not defects or defects == len(groups):
        raise ValueError("nano judge: expected both sound and damaged items among what isn't held out")
    weights = np.zeros(len(examples), np.float32)
    for (low, kind), places in groups.items():
        # Shares per defect: frequent defects must not drown rare ones.
        share = PREVALENCE / defects if low else 1 - PREVALENCE
        if low and kind in INTENT:
            share *= 0.3  # features can't read intent: don't bend the rest for it
        weights[places] = share * len(examples) / len(places)
    return weights / weights.mean()


def fit_head(examples: Sequence[Example], names: Sequence[str], config: NanoConfig) -> NanoHead:
    """An ensemble on examples, each member stopped by families it didn't train on and scaled by a temperature."""
    import torch

    values = matrix([example.features for example in examples], names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a feature that no example has
        mean = np.nan_to_num(np.nanmean(values, axis=0)).astype(np.float32)
        scale = np.nan_to_num(np.nanstd(values, axis=0)).astype(np.float32)
    # A feature that never varies says nothing and mustn't be divided by.
    scale[scale < 1e-6] = 1.0
    rows = standardised(values, mean, scale)
    low = np.array([example.low for example in examples], np.float32)
    weights = weights_of(examples)
    families = sorted({example.family for example in examples})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order: the same weights on every machine of a kind
    try:
        members = []
        for member in range(config.members):
            # Whole families are held out for early stopping, a fifth of them.
            retained = {f for f in families if int(digest([config.seed, member, f])[:4], 16) % 5 == 0}
            held = np.array([example.family in retained for example in examples])
            # Too few families for that: by examples, then.
            if held.all() or not held.any() or not low[held].any() or low[held].all():
                held = np.arange(len(examples)) % 5 == member % 5
            members.append(_fit_member(rows, low, weights, held, config, member))
    finally:
        torch.set_num_threads(threads)
    return NanoHead(tuple(names), mean, scale, tuple(members), fit_forest(rows, low, weights, config.seed))


def _fit_member(
    rows: np.ndarray, low: np.ndarray, weights: np.ndarray, held: np.ndarray, config: NanoConfig, member: int
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    import torch

    # Seeded by member, so that an ensemble is the same each time.
    torch.manual_seed(config.seed * 1000 + member)
    shuffle = np.random.default_rng(config.seed * 1000 + member)
    widths = (rows.shape[1], *config.hidden, 1)
    layers: list[torch.nn.Module] = []
    for depth, (wide, narrow) in enumerate(zip(widths, widths[1:], strict=False)):
        layers.append(torch.nn.Linear(wide, narrow))
        if depth + 2 < len(widths):
            layers += [torch.nn.ReLU(), torch.nn.Dropout(config.dropout)]
    net = torch.nn.Sequential(*layers)
    optimiser = torch.optim.AdamW(net.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits
    x, y, w = torch.from_numpy(rows), torch.from_numpy(low), torch.from_numpy(weights)
    train, test = np.flatnonzero(~held), torch.from_numpy(np.flatnonzero(held))
    # From before the first step: a member that only gets worse stays as it began.
    best, best_state = math.inf, {name: value.clone() for name, value in net.state_dict().items()}
    patience = 0
    for epoch in range(config.epochs):
        net.train()
        for group in np.array_split(shuffle.permutation(train), max(1, len(train) // config.batch)):
            at = torch.from_numpy(group)
            # A cosine down to 0, once an epoch for all of its batches.
            optimiser.param_groups[0]["lr"] = config.lr * 0.5 * (1 + math.cos(math.pi * epoch / config.epochs))
            loss = loss_of(net(x[at])[:, 0], y[at], w[at])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        net.eval()
        with torch.no_grad():
            now = float(loss_of(net(x[test])[:, 0], y[test], w[test]))
        patience += 1
        # Less isn't progress.
        if now < best - 1e-4:
            best, best_state, patience = now, {name: value.clone() for name, value in net.state_dict().items()}, 0
        if patience > 25:
            break
    net.load_state_dict(best_state)
    # Weights turned, as `rows @ weights` needs them.
    found = [
        (layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy())
        for layer in net
        if isinstance(layer, torch.nn.Linear)
    ]
    return tuple(found)


def calibrated_head(examples: Sequence[Example], names: Sequence[str], config: NanoConfig) -> tuple[NanoHead, float]:
    """A head whose log-odds are those of families it wasn't trained on, at `PREVALENCE`; and the risk above which at
    most `FALSE_ALARMS` of the sound items of such families lie."""
    head = fit_head(examples, names, config)
    weights = weights_of(examples)
    folds = np.array([int(digest(["fold", example.family])[:4], 16) % FOLDS for example in examples])
    low = np.array([example.low for example in examples])
    odds = np.full(len(examples), np.nan)
    for fold in range(FOLDS):
        train = [example for example, at in zip(examples, folds, strict=True) if at != fold]
        held = np.flatnonzero(folds == fold).tolist()
        # A fold whose rest holds one label can't be fitted; its items stay unknown.
        if len(held) and {example.low for example in train} == {True, False}:
            odds[held] = fit_head(train, names, config).logits([examples[place].features for place in held])
    known = ~np.isnan(odds)
    # Nothing to calibrate on.
    if not low[known].any() or low[known].all():
        return head, 0.5
    slope, shift = platt(odds[known], low[known], weights[known])
    head = replace(head, slope=slope, shift=shift)
    return head, float(cut_at(sigmoid(slope * odds[known & ~low] + shift).tolist(), FALSE_ALARMS))


def platt(odds: np.ndarray, low: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """(slope, shift) of the logistic regression of low fidelity on log-odds: Platt 1999, with his smoothed targets.

    The slope is held above 0, so that the order stays.
    """
    from scipy.optimize import minimize

    # Platt's smoothed targets, against certainty from few examples.
    targets = np.where(low, (low.sum() + 1) / (low.sum() + 2), 1 / ((~low).sum() + 2))

    def loss(values: np.ndarray) -> float:
        out = values[0] * odds + values[1]
        return float((weights * (np.logaddexp(0, out) - targets * out)).sum())

    found = minimize(loss, np.array([1.0, 0.0]), method="L-BFGS-B", bounds=[(0.05, 10.0), (-20.0, 20.0)])
    return float(found.x[0]), float(found.x[1])
