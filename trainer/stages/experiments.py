"""Experiments: stages of the trainer made beside the mainline with other settings, and never read by it.

    experiments/<name>/definition               experiment.json: name, stages, settings, why
    experiments/<name>/checkpoints/<stage>      what the mainline keeps as checkpoints/<stage>

A stage of an experiment reads what the experiment itself makes, and everything else from the mainline. The evaluation
of each of its checkpoints is made with it, by the same suites and samples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pipelines.store import PartSpec, Store
from pipelines.store.manifest import Manifest
from schemas.ids import canonical_json, digest
from trainer.settings.presets import configured
from trainer.settings.tree import over
from trainer.stages.assets import CHECKPOINTS, STAGES, asset_of

GROUP, DEFINITION = "experiments", "experiment.json"
MAINLINE = "mainline"
"""What the assets beside which experiments stand are called in a comparison."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True)
class Experiment:
    """`stages`: the checkpoints that it makes. `settings`: of the trainer, over those of the deployment."""

    name: str
    stages: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name == MAINLINE:
            raise ValueError(f"experiment: expected a name of a-z, 0-9 and _, found {self.name[:60]!r}")
        if unknown := [stage for stage in self.stages if stage not in CHECKPOINTS] or not self.stages:
            raise ValueError(f"experiment {self.name}: expected stages of {', '.join(CHECKPOINTS)}, found {unknown}")
        # Raises for settings that the trainer doesn't have, before anything is stored.
        over(configured(str(self.settings.get("preset", ""))), self.settings, where=f"experiment {self.name}")

    @property
    def wanted(self) -> tuple[str, ...]:
        """Stages of the trainer that make it, in order: its checkpoints, and their evaluations."""
        return tuple(stage for stage in STAGES if stage.rpartition("/")[2] in self.stages)

    def asset(self, key: str) -> str:
        """Where the experiment keeps what the mainline keeps as `key`."""
        return f"{GROUP}/{self.name}/{key}"

    def reads(self, key: str) -> str:
        """The asset that one of its stages reads for `key`: its own where it makes one."""
        return self.asset(key) if key in map(asset_of, self.wanted) else key


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


def evaluation_of(store: Store, side: str, stage: str) -> Manifest | None:
    """The current evaluation of a stage's checkpoint, of an experiment or the mainline; None if there is none."""
    key = f"evaluations/{stage}"
    return store.current(key if side == MAINLINE else f"{GROUP}/{side}/{key}")
