"""Settings of `worth/*`: the probes that measure what data is worth to the agent."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.settings import ALWAYS, NEVER, Flag, Number, Settings, Whole, setting

Score = Annotated[Whole, Field(ge=0, le=10)]


class WorthSettings(Settings):
    """Probes: short trainings of nano that differ in one thing, on equal tokens, compared on the same questions."""

    base: str = setting("nano_base", "What every probe begins from, as `weights`.", in_version=ALWAYS)
    seeds: Whole = setting(
        3, "Training seeds of each probe; what two probes differ in is compared seed by seed.", ge=3, in_version=ALWAYS
    )
    first_seed: Whole = setting(0, "The first of these seeds; the others follow it.", ge=0, in_version=ALWAYS)
    tokens: Whole = setting(
        150_000,
        "Tokens of prompts and answers that each probe trains on; the last batch is filled.",
        ge=1,
        in_version=ALWAYS,
    )
    batch_size: Whole = setting(8, "Rows of a step of a probe.", ge=1, in_version=ALWAYS)
    learning_rate: Number = setting(2e-3, "The peak of a probe's rate.", gt=0, in_version=ALWAYS)
    sigma: tuple[Number, Number] = setting(
        (40.0, 15.0),
        "Width of coordinate targets at the first and the last step, as in mid-training.",
        in_version=ALWAYS,
    )
    freeze_vision: Flag = setting(
        True,
        "The vision tower keeps its weights, so that a picture is encoded once; false costs about twice the time.",
        in_version=ALWAYS,
    )
    grounding: Whole = setting(200, "Held-out grounding questions that each probe answers.", ge=0, in_version=ALWAYS)
    navigation: Whole = setting(60, "Held-out steps of each platform that each probe answers.", ge=0, in_version=ALWAYS)
    parts: Whole = setting(
        8, "Parts of each source that probes draw their rows from, by hash, so that reading stays short.", ge=1
    )
    thresholds: tuple[Score, ...] = setting(
        (5, 6, 7, 8), "Least scores of the judge at which steps and samples are kept, each a rule of its own."
    )
    company: Literal["kept", "current"] = setting(
        "kept",
        "Which versions of the other sources a source is measured beside: kept: those of the last measurement, so that "
        "a source that changed costs its own probes alone, until more than a third of the sources have changed; "
        "current: the newest, which measures all of them again.",
        in_version=ALWAYS,
    )
    floor: Number = setting(
        0.05, "Least share of an objective in a proposed mixture.", ge=0, lt=0.25, in_version=ALWAYS
    )
    threads: Whole = setting(1, "CPU threads of a probe; figures are the same for one number of them only.", ge=1)
    processes: Whole = setting(2, "Probes that train at a time, each in a process of its own.", ge=1, in_version=NEVER)
