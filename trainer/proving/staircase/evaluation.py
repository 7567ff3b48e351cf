"""What each row of the staircase is worth: success in the worlds on held-out episodes, hits on held-out pages.

A row's figures are one file, named after the weights and what they were tried on: made once. Episodes of one family
are one cluster. Grounding is asked on pages that no training row shows, beside the blind table, the random element and
the swapped screen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from pipelines.whole_files import put_json
from schemas.ids import digest
from trainer.data.clusters import picture_key
from trainer.evaluation.controls import BlindTable
from trainer.evaluation.evaluate import evaluate
from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.tensors import WeightFiles
from trainer.proving.staircase.choice import ChosenTasks
from trainer.proving.staircase.config import StaircaseConfig
from trainer.proving.staircase.early_stop import LIMITS
from trainer.proving.staircase.finished_stage import FinishedStage
from trainer.proving.staircase.tasks import family_of, nano_pool
from trainer.runtime.tracking import OnEvent
from trainer.settings.measuring import EvalConfig
from trainer.suites.worlds import world_success

CODE_VERSION = "2"
KEPT = ("task_id", "cluster", "world", "success", "finished", "steps", "attempt", "why", "ended", "unreadable")
"""Of a world record, what the report needs."""


class Evaluation:
    """Measures rows into `folder`. `rows` are the platform's sample rows."""

    def __init__(
        self,
        folder: Path,
        config: StaircaseConfig,
        tasks: ChosenTasks,
        rows: Sequence[Mapping[str, Any]],
        on_event: OnEvent | None = None,
    ) -> None:
        self.folder, self.config, self.tasks = folder, config, tasks
        self.emit = on_event or (lambda event: None)
        self._training = [row for row in rows if row["split"] == "train" and row["objective"] == "grounding"]
        self._asked = [row for row in rows if row["split"] == "test" and row["objective"] == "grounding"]
        self.test = [contract for _, contract in tasks.of("test", *config.worlds, each=config.test_each)]
        self.sampled = [contract for _, contract in tasks.of("test", *config.worlds, each=config.sampled_each)]

    def row(self, name: str, tested: FinishedStage | PolicyMaker) -> dict[str, object]:
        """Figures of a checkpoint or a policy: {"name", "greedy", "sampled", "grounding"}, records each."""
        # By digest and not by path: weights that changed in their folder are measured anew.
        who = tested.name if isinstance(tested, PolicyMaker) else WeightFiles(tested.model).digest()
        tried = [[contract.task_id for contract in some] for some in (self.test, self.sampled)]
        key = digest(
            [
                CODE_VERSION,
                who,
                tried,
                self.tasks.digest,
                self.config.key("episodes", "grounding_test", "attempts", "seed", "max_new_tokens"),
            ]
        )
        # The key holds all that decides the figures, so an existing file is taken as it is: a stage that kept the
        # weights of the one before has its figures, too.
        path = self.folder / f"{key[:12]}.json"
        if not path.is_file():
            self.emit({"kind": "evaluating", "row": name})
            subject = tested if isinstance(tested, PolicyMaker) else _loaded(tested)
            sampled = self.worlds(subject, self.sampled, f"sampled-{key[:12]}", self.config.attempts)
            made = {
                "key": key,
                "greedy": self.worlds(subject, self.test, f"greedy-{key[:12]}"),
                "sampled": sampled,
                # Scripted policies and tables don't answer questions about a picture.
                "grounding": [] if isinstance(subject, PolicyMaker) else self._grounding(subject),
            }
            put_json(path, made)
            self.emit({"kind": "evaluated", "row": name})
        return {"name": name, **json.loads(path.read_text(encoding="utf-8"))}

    def worlds(
        self, tested: object, contracts: Sequence[TaskSpec], journal: str, sampled: int = 0
    ) -> list[dict[str, Any]]:
        """Records of attempts: a greedy one (a random policy draws anyway), or `sampled` at temperature 1."""
        found = world_success(
            tested,
            list(contracts),
            nano_pool(self.config.workers),
            attempts=sampled or 1,
            limits=LIMITS,
            temperature=1.0 if sampled else 0.0,
            workers=self.config.workers,
            seeds=(self.config.seed,),
            folder=self.folder / "journals" / journal,
            cluster=family_of,
            max_new_tokens=self.config.max_new_tokens,
        )
        return [{name: record[name] for name in KEPT} for record in found["records"]]

    def _grounding(self, checkpoint: Checkpoint) -> list[dict[str, Any]]:
        if not self._asked:
            return []
        elements = {picture_key(row): json.loads(row["provenance"])["elements"] for row in self._asked}
        config = EvalConfig(
            grounding=self.config.grounding_test,
            navigation=0,
            threads=self.config.threads,
            max_new_tokens=self.config.max_new_tokens,
        )
        found = evaluate(
            checkpoint, self._asked, config, blind=BlindTable(self._training), elements=elements, progress=False
        )
        names = ("sample_id", "cluster", "hit", "blind", "random_element", "swapped", "refusal")
        # By page family, since rows of a page are alike: the report clusters by it.
        pages = {row["sample_id"]: json.loads(row["provenance"])["family"] for row in self._asked}
        return [
            {**{name: record.get(name) for name in names}, "page": pages[record["sample_id"]]}
            for record in found["records"]
        ]

    def score(self, stage: FinishedStage) -> float:
        """For choosing among merges: greedy success on validation episodes."""
        each = self.config.validation_each
        contracts = [contract for _, contract in self.tasks.of("validation", *self.config.worlds, each=each)]
        key = digest(
            [
                CODE_VERSION,
                stage.facts["weights"],
                [contract.task_id for contract in contracts],
                self.config.max_new_tokens,
            ]
        )[:12]
        path = self.folder / f"validation-{key}.json"
        if not path.is_file():
            records = self.worlds(_loaded(stage), contracts, path.stem)
            # Attempts whose world failed have no success to count.
            counted = [record["success"] for record in records if record["success"] is not None]
            put_json(path, {"success": sum(counted) / max(1, len(counted)), "episodes": len(counted)})
        return float(json.loads(path.read_text(encoding="utf-8"))["success"])


def _loaded(stage: FinishedStage) -> Checkpoint:
    return load_checkpoint(stage.model)
