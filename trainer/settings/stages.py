"""The trainer's stages, in an order that satisfies their inputs. What the commands offer, the graph shows, settings and
versions hold and reports compare is read from here: a new stage is an entry (docs/add-a-trainer-stage.md).

Stages of your own are named in $VESPER_STAGES, separated by commas: module:stage or path/to/file.py:stage.
"""

import os
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Literal

from pipelines.extensions import find_part
from trainer.settings import stage_checks
from trainer.settings.domains import DOMAINS, USUAL, Domain, carries
from trainer.settings.stage import TrainerStage

VARIABLE = "VESPER_STAGES"
CORPUS, MIXTURE, HELDOUT, TASKS = (
    "mid_training/shards",
    "mid_training/mixture",
    "evaluations/heldout",
    "task_pool/shards",
)
BASE = TrainerStage(
    name="base",
    title="base",
    description="Random weights of the preset, and a tokenizer learned on the corpus: what everything is compared "
    "with.",
    make="trainer.stages.checkpoints:base",
    checks=stage_checks.BASE,
    reads=(CORPUS,),
    settings=(
        "preset",
        "shape",
        "pixels",
        "reading",
        "seed",
        "tokenizer_texts",
        "weights",
        "action_space",
        "history",
        "action_codec",
    ),
)
MID_TRAINED = TrainerStage(
    name="mid_trained",
    title="mid-trained",
    description="Mid-training on the mixture: grounding, perception, question answering and navigation at once.",
    make="trainer.stages.checkpoints:midtrain",
    checks=stage_checks.TRAINED,
    start=BASE.name,
    reads=(CORPUS, MIXTURE),
    settings=("device", "midtrain", "validation_share", "validation_episodes", "validation_rows"),
    shared=True,
)


def _offline(domain: Domain) -> TrainerStage:
    return TrainerStage(
        name=domain.offline,
        title=f"RL {domain.name}",
        description=f"Specialist by single-step GRPO: {domain.learns}.",
        make="trainer.stages.checkpoints:specialist",
        checks=stage_checks.SPECIALIST,
        start=MID_TRAINED.name,
        reads=(CORPUS, HELDOUT),
        settings=("device", "validation_share", "validation_episodes", "offline", *_trained_beside(domain)),
        section="offline",
        domain=domain.name,
        shared=True,
    )


def _online(domain: Domain) -> TrainerStage:
    return TrainerStage(
        name=domain.last,
        title=f"online RL {domain.name}",
        description=f"Online RL on whole trajectories: the {domain.name} specialist acts in worlds on tasks of the "
        "pool.",
        make="trainer.stages.online:online",
        checks=stage_checks.ONLINE,
        start=domain.offline,
        reads=(TASKS,),
        settings=("device", "online", *_trained_beside(domain)),
        section="online",
        domain=domain.name,
        shared=True,
        needs=("devices",),
    )


def _trained_beside(domain: Domain) -> tuple[str, ...]:
    """The setting that says which rows of other domains ride in it, where any may."""
    return ("domains",) if carries(domain.name) else ()


LINEAR = TrainerStage(
    name="linear",
    title="linear merge",
    description="The specialists' mean, to compare TIES with.",
    make="trainer.stages.checkpoints:linear_merge",
    checks=stage_checks.MERGE,
    start=MID_TRAINED.name,
    settings=("merge",),
    merges=True,
    compared=(),
)
UNIFIED = TrainerStage(
    name="unified",
    title="TIES merge",
    description="One agent of the specialists: TIES against the mid-trained checkpoint; or the distilled one, where "
    "the settings say so.",
    make="trainer.stages.distilled:unified",
    checks=stage_checks.MERGE,
    start=MID_TRAINED.name,
    reads=(CORPUS,),
    settings=("device", "validation_share", "validation_episodes", "merge"),
    merges=True,
    compared=(LINEAR.name, MID_TRAINED.name, "distilled"),
)
DISTILLED = TrainerStage(
    name="distilled",
    title="distilled",
    description="One agent of several teachers, by on-policy distillation: each domain's specialist judges the tokens "
    "of the student's own replies. In place of a merge, as the successor of the method has it.",
    make="trainer.stages.distilled:distilled",
    checks=stage_checks.DISTILLED,
    start=MID_TRAINED.name,
    reads=(CORPUS, HELDOUT),
    settings=("device", "validation_share", "validation_episodes", "distilled"),
    distils=True,
    compared=(LINEAR.name, MID_TRAINED.name),
)


def _of_your_own() -> Iterator[TrainerStage]:
    """Those that $VESPER_STAGES names. Raises `ValueError` for one that is none."""
    # An empty entry is a comma too many, and no stage.
    for name in filter(None, os.environ.get(VARIABLE, "").split(",")):
        found: object = find_part("stage", name.strip(), {})
        if not isinstance(found, TrainerStage):
            raise ValueError(f"{VARIABLE}: {name:.80}: expected a TrainerStage, found {found!r:.60}")
        yield found


STAGES: dict[str, TrainerStage] = {
    stage.name: stage
    for stage in (
        BASE,
        MID_TRAINED,
        *(_offline(domain) for domain in DOMAINS.values()),
        *(_online(domain) for domain in DOMAINS.values() if domain.acts),
        LINEAR,
        DISTILLED,
        UNIFIED,
        *_of_your_own(),
    )
}
OTHERS = {
    "evaluations": ("device", "evaluate"),
    "suites": ("device", "suites"),
    "episodes": ("device", "episodes"),
    "staircase": ("staircase",),
    "worth": ("worth",),
}
"""What makes no checkpoint, by the first word of its assets' keys → the settings that it depends on."""


def of_section(section: str) -> tuple[str, ...]:
    """Names of the specialists that share these settings."""
    return tuple(name for name, stage in STAGES.items() if stage.section == section)


def settings_of(stage: str) -> tuple[str, ...]:
    """Names of the settings of the first level that a stage depends on; of what makes no checkpoint, by its key."""
    # Not a checkpoint: its settings follow its group.
    found = STAGES.get(stage)
    if found is None:
        return OTHERS.get(stage.partition("/")[0], ())
    return (*found.settings, *((found.name,) if found.own_settings else ()))


SPECIALISTS, ONLINE = of_section("offline"), of_section("online")
if TYPE_CHECKING:
    Specialist = str
else:
    Specialist = Literal[tuple(name for name, stage in STAGES.items() if stage.domain)]


def merged_of(trained: Container[str]) -> tuple[Specialist, ...]:
    """The specialists that are merged where those of the domains `trained` are trained."""
    # The last stage of each domain: online RL where it acts.
    return tuple(one.last for one in DOMAINS.values() if one.name in trained)


MERGED = merged_of(USUAL)
"""The specialists that are merged, unless the configuration names others."""
