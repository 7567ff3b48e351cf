"""Settings of what is measured: evaluations of checkpoints, suites, merges, and the form of the staircase."""

from typing import Literal

from pydantic import ConfigDict

from schemas.settings import ALWAYS, Flag, Number, Settings, Whole, setting
from trainer.settings.grpo import RepliesConfig
from trainer.settings.reading import Mode
from trainer.settings.rewards import ReplyProfile
from trainer.settings.stages import MERGED, Specialist


class EvalConfig(RepliesConfig):
    """How many held-out samples of each domain a checkpoint is evaluated on, and how they are put."""

    grounding: Whole = setting(200, "Grounding samples.", ge=0)
    navigation: Whole = setting(120, "Navigation samples of each platform.", ge=0)
    seed: Whole = setting(0, "Of the choice of samples.")
    max_new_tokens: Whole | None = setting(
        None, "Tokens of a reply to a navigation prompt; null: as the checkpoint's preset has it.", ge=1
    )
    batch_size: Whole = setting(64, "Samples that are answered at a time.", ge=1)
    reply_profile: ReplyProfile = setting("vesper", "Whose way of writing points and actions replies are read by.")
    reading: Mode | None = setting(
        None, "How screens are looked at (`reading.mode`); null: as the checkpoint was trained."
    )
    swapped: Flag = setting(True, "Also the control with another screen in place of the question's own.")
    threads: Whole = setting(2, "CPU threads; figures are the same for one number of them only.", ge=1)


class SuiteSettings(Settings):
    """What an asset `suites/<suite>` asks, as `vesper eval` names it."""

    limit: Whole | None = setting(
        40, "Questions or episodes at most; null: all (of worlds 100).", ge=1, lt=1e9, in_version=ALWAYS
    )
    seed: Whole = setting(0, "Of the choice of questions.", ge=0, lt=1e9, in_version=ALWAYS)
    attempts: Whole = setting(1, "Of worlds: tries of each task.", ge=1, lt=1e9, in_version=ALWAYS)
    temperature: Number = setting(0.0, "Of worlds: of the sampled replies; 0: greedy.", ge=0, lt=1e9, in_version=ALWAYS)
    workers: Whole = setting(1, "Of worlds: episodes at a time.", ge=1, lt=1e9, in_version=ALWAYS)


class SuitesSection(SuiteSettings):
    """`suites` of the trainer's settings. Settings of one suite stand under its own name and win."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, SuiteSettings]


class EpisodesSettings(Settings):
    """`episodes/unified`: the merged agent plays tasks of a world until one is solved and one failed."""

    world: Literal["miniwob", "phone", "fsm"] = setting("miniwob", "Where it plays.", in_version=ALWAYS)
    attempts: Whole = setting(16, "Tasks at most.", ge=1, lt=1_000, in_version=ALWAYS)
    seed: Whole = setting(0, "Of the tasks.", ge=0, lt=1e9, in_version=ALWAYS)


class MergeSettings(RepliesConfig):
    """The merges `linear` and `unified`. Of several densities and lambdas the TIES merge gets those that do best on
    validation."""

    density: Number | tuple[Number | tuple[Number, ...], ...] = setting(
        (0.2, 0.5, 0.8),
        "Shares of the changes that a TIES merge takes: one, or several to choose from.",
        in_version=ALWAYS,
    )
    lam: Number | tuple[Number, ...] = setting(
        (0.7, 1.0), "Scales of the merged change: one, or several to choose from.", alias="lambda", in_version=ALWAYS
    )
    validation_rows: Whole = setting(
        48, "Rows of each domain on which densities and lambdas are compared.", ge=0, in_version=ALWAYS
    )
    weights: tuple[Number, ...] | None = setting(None, "One of each specialist; null: all alike.", in_version=ALWAYS)
    unified: Literal["ties", "distilled"] = setting(
        "ties",
        "What `checkpoints/unified` is: the TIES merge, or `checkpoints/distilled` as it is. Suites, promotion and the "
        "generation loop go by it.",
    )
    specialists: tuple[Specialist, ...] = setting(
        MERGED, "The specialists that are merged.", min_length=1, in_version=ALWAYS
    )


class StaircaseForm(Settings):
    """`staircase/web`: random, base, mid-training, offline RL, online RL and merge, tried on whole episodes."""

    form: Literal["short", "long"] = setting(
        "short", "short: every part in minutes, no controls; long: at most 100 minutes on two cores.", in_version=ALWAYS
    )
    seed: Whole = setting(0, "Of the training.", in_version=ALWAYS)
    base: str = setting("nano_base", "What it begins from, as `weights`.", in_version=ALWAYS)
