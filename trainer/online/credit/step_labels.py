"""Steps are compared by labels of their own (after WebGen-Agent's Step-GRPO, whose labels a model and tests give).

A labeller is one function: a rollout → for each reply a number in 0..1, the better the higher, or None where nothing
is known. `effects` comes with Vesper and asks no model; one that asks a judge is named by its path.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from pipelines.extensions import find_part
from schemas.settings import Settings, setting
from trainer.online.credit import Estimates
from trainer.online.rollouts import Rollout
from trainer.rl.grpo import group_advantages
from trainer.settings.grpo import GrpoConfig

Labeller = Callable[[Rollout], Sequence[float | None]]


class StepLabelsOptions(Settings):
    """Options of `step_labels`."""

    labeller: str = setting("effects", "Who labels: effects, or module:function or file.py:function of your own.")


def effects(rollout: Rollout) -> list[float | None]:
    """0 for a step after which the screen is the very same, as after a click on nothing or a reply that can't be read,
    else 1; None for the last, whose effect no picture shows. A wait is labelled by what came of it, too."""
    screens = [sample.picture for sample in rollout.samples]
    return [float(before != after) for before, after in pairwise(screens)] + [None] * bool(screens)


LABELLERS: dict[str, Labeller] = {"effects": effects}


def step_labels(
    rollouts: Sequence[Rollout], rewards: Sequence[float | None], grpo: GrpoConfig, **options: object
) -> Estimates:
    """The label of a step against those of all steps of its group, scaled as `group_advantages` scales rewards; None
    where it has none, and for all where all are equal. Raises `ValueError` for unknown options, and for a labeller that
    doesn't give each reply a number in 0..1 or None."""
    name = StepLabelsOptions.parsed(options, "credit step_labels").labeller
    labeller = find_part("step labeller", name, LABELLERS)
    labels = [
        _checked(name, rollout, labeller(rollout)) if reward is not None else [None] * len(rollout.samples)
        for rollout, reward in zip(rollouts, rewards, strict=True)
    ]
    # one group of all steps, whichever rollout they are of
    compared = group_advantages([[label for some in labels for label in some]], grpo)
    if not compared.used:
        return [[None] * len(some) for some in labels]
    values = iter(compared.values)
    # zip asks `some` first: the end of a row takes no value from the next one
    return [[None if label is None else value for label, value in zip(some, values)] for some in labels]


def _checked(name: str, rollout: Rollout, labels: Sequence[float | None]) -> list[float | None]:
    if len(labels) != len(rollout.samples) or any(one is not None and not 0 <= one <= 1 for one in labels):
        raise ValueError(
            f"step labeller {name!r}: expected {len(rollout.samples)} numbers in 0..1 or None, found {labels!r:.80}"
        )
    return list(labels)
