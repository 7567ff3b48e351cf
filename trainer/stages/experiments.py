"""Experiments: trainings, mixtures and judges beside the mainline with other settings, and never read by it.

    experiments/<name>/definition               experiment.json: name, stages, settings, why
    experiments/<name>/checkpoints/<stage>      what the mainline keeps as checkpoints/<stage>
    experiments/<name>/mid_training/mixture     the mixture of the same shards
    experiments/<name>/verdicts/<source>        another judge on the same items

A stage of an experiment reads what the experiment itself makes, and everything else from the mainline. The evaluation
of each of its checkpoints is made with it, by the same suites and samples.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pipelines.store import PartSpec, Store
from pipelines.store.manifest import EXPERIMENTS, Manifest
from pipelines.training_data.mixture_config import MixtureConfig
from schemas.ids import canonical_json, digest
from schemas.settings import Flag, Settings, setting
from trainer.settings.presets import configured
from trainer.settings.stages import MIXTURE
from trainer.settings.tree import over
from trainer.stages.assets import CHECKPOINTS, STAGES, asset_of

GROUP, DEFINITION = EXPERIMENTS, "experiment.json"
MAINLINE = "mainline"
"""What the assets beside which experiments stand are called in a comparison."""
MIXED, JUDGED = "mixture", "verdicts/"
"""Stages that are no training: the mixture, and the judge on a source (`verdicts/<source>`)."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_JUDGED = re.compile(rf"{JUDGED}[a-z0-9_]+")


class JudgeChoice(Settings):
    """The judge of an experiment; what isn't said is as for the mainline."""

    name: str = setting("", "Its name (rules, nano, openai, … or module:name); none: the mainline's.")
    base_url: str = setting("", "The endpoint that it asks.")
    model: str = setting("", "The model that it asks there.")
    read: Flag | None = setting(None, "Whether it gets what Tesseract reads on screens without elements.")
    thoughts: Flag | None = setting(None, "Whether a step whose thought contradicts its action scores low.")
    process: Flag | None = setting(None, "Whether a run that leaves out what its goal names scores low.")


SECTIONS: Mapping[str, type[Settings]] = {"mixture": MixtureConfig, "judge": JudgeChoice}
"""Settings of an experiment that aren't the trainer's, by their names."""


@dataclass(frozen=True)
class Experiment:
    """`stages`: what it makes: checkpoints, `mixture`, `verdicts/<source>`. `settings`: of the trainer, `mixture` and
    `judge`, over those of the deployment."""

    name: str
    stages: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name == MAINLINE:
            raise ValueError(f"experiment: expected a name of a-z, 0-9 and _, found {self.name[:60]!r}")
        known = (*CHECKPOINTS, MIXED)
        unknown = [stage for stage in self.stages if stage not in known and not _JUDGED.fullmatch(stage)]
        if unknown or not self.stages:
            raise ValueError(
                f"experiment {self.name}: expected stages of {', '.join(known)} or {JUDGED}<source>, found {unknown}"
            )
        # Raises for settings that the trainer doesn't have, before anything is stored.
        over(configured(str(self.settings.get("preset", ""))), self.trainer, where=f"experiment {self.name}")
        used = {"mixture": MIXED in self.stages, "judge": any(_JUDGED.fullmatch(stage) for stage in self.stages)}
        for section in SECTIONS.keys() & self.settings.keys():
            SECTIONS[section].parsed(self.settings[section], f"experiment {self.name}: {section}")
            # A setting without a stage that reads it would look as if it had been tried.
            if not used[section]:
                stage = MIXED if section == "mixture" else f"{JUDGED}<source>"
                raise ValueError(f"experiment {self.name}: {section}: expected the stage {stage}, which reads it")

    @property
    def trainer(self) -> dict[str, Any]:
        """Those of its settings that are the trainer's."""
        return {name: value for name, value in self.settings.items() if name not in SECTIONS}

    @property
    def wanted(self) -> tuple[str, ...]:
        """What it makes, as the mainline keeps it and in an order in which each finds what it reads: verdicts, the
        mixture, checkpoints with their evaluations."""
        judged = sorted(stage for stage in self.stages if _JUDGED.fullmatch(stage))
        mixed = (MIXTURE,) if MIXED in self.stages else ()
        trained = [asset_of(stage) for stage in STAGES if stage.rpartition("/")[2] in self.stages]
        return (*judged, *mixed, *trained)

    def asset(self, key: str) -> str:
        """Where the experiment keeps what the mainline keeps as `key`."""
        return f"{GROUP}/{self.name}/{key}"

    def reads(self, key: str) -> str:
        """The asset that one of its stages reads for `key`: its own where it makes one."""
        return self.asset(key) if key in self.wanted else key


def define(store: Store, experiment: Experiment) -> Manifest:
    """Keep an experiment's definition; the same one again changes nothing."""
    # Stages, settings and reasons: another reason is another definition, and changes no training.
    plain = {**asdict(experiment), "stages": list(experiment.stages)}
    spec = PartSpec("definition", digest(plain))
    with store.build(experiment.asset("definition"), code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes(DEFINITION, f"{canonical_json(plain)}\n".encode()))
        return build.commit(counts={"stages": len(experiment.stages)})


def read(store: Store, name: str) -> Experiment:
    """An experiment by its name. Raises `StoreError` if there is none."""
    # Checked first: the name becomes part of a path.
    Experiment(name, CHECKPOINTS[:1])  # a name that is none is no part of a key
    plain = json.loads(store.require(f"{GROUP}/{name}/definition").file(DEFINITION).read_text(encoding="utf-8"))
    return Experiment(plain["name"], tuple(plain["stages"]), plain["settings"], plain["why"])


def names(store: Store) -> list[str]:
    """All experiments of a store."""
    root = store.home / "assets" / GROUP
    return sorted(path.parents[1].name for path in root.glob("*/definition/current.json"))


def compared_of(store: Store, side: str, stage: str) -> Manifest | None:
    """What a comparison reads of a stage of an experiment or the mainline: a checkpoint's current evaluation, the
    mixture or the verdicts themselves; None if there is none."""
    key = {MIXED: MIXTURE}.get(stage, stage if _JUDGED.fullmatch(stage) else f"evaluations/{stage}")
    return store.current(key if side == MAINLINE else f"{GROUP}/{side}/{key}")
