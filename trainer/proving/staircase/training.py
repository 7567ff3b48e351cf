"""The steps of the staircase as folders of checkpoints, each made once; and the controls, given online RL's wall time.

A stage's folder is named after what it is made from (weights it starts from, settings, tasks), so a run that is called
again goes on where it was killed: finished stages are skipped, an unfinished one resumes from its trainer's own state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from generators.tasks.task_spec import TaskSpec
from pipelines.prompts import prompt_text
from schemas.ids import digest
from trainer.data.row_sources import ListSource, RowSource
from trainer.merging.merge import merge
from trainer.midtrain.schedule import scheduled
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import LINEAGE, Checkpoint, lineage, load_checkpoint, save_checkpoint
from trainer.modeling.model import build_model
from trainer.modeling.processor import Processor
from trainer.modeling.tensors import WeightFiles
from trainer.modeling.tokenizer import train_tokenizer
from trainer.offline.train import train_offline
from trainer.online.train import train_online
from trainer.presets import image_processor, preset
from trainer.proving.staircase.choice import ChosenTasks
from trainer.proving.staircase.config import PIXELS, StaircaseConfig
from trainer.proving.staircase.early_stop import EarlyStopping, StopTraining
from trainer.proving.staircase.finished_stage import STATE, FinishedStage, keep_peak, made_once, weights_of
from trainer.proving.staircase.screening import Screened, screen, worth_training
from trainer.proving.staircase.stopwatch import Stopwatch, TimeUp
from trainer.proving.staircase.tasks import nano_pool
from trainer.runtime.tracking import OnEvent
from trainer.settings.model_shape import Shape
from trainer.settings.offline import OfflineConfig
from trainer.settings.online import OnlineConfig
from trainer.settings.stages import BASE, MID_TRAINED
from trainer.settings.supervised import MidtrainConfig

CODE_VERSION = "1"
TOKENIZER_TEXTS = 4000
WITHOUT_END = 1_000_000
"""Steps or updates of a control: the time ends it."""
Rows = list[dict[str, Any]]


class Trainings:
    """All stages of one seed in `folder`. `rows` are those of the platform's worlds."""

    def __init__(
        self, folder: Path, config: StaircaseConfig, tasks: ChosenTasks, rows: Rows, on_event: OnEvent | None = None
    ) -> None:
        self.folder, self.config, self.tasks = folder, config, tasks
        self.emit = on_event or (lambda event: None)
        self.rows = {split: [row for row in rows if row["split"] == split] for split in ("train", "validation", "test")}

    # --- one after the other
    def base(self) -> FinishedStage:
        """The checkpoint folder of the config, or nano with random weights."""
        if self.config.base:
            weights = WeightFiles(self.config.base).digest()
            return FinishedStage("base", Path(self.config.base), 0.0, {"weights": weights, "random_weights": False})
        return self.random_weights("base")

    def random_weights(self, name: str = "random_weights") -> FinishedStage:
        """The nano preset as it is built, its tokenizer learned on the training texts."""

        def make(folder: Path, watch: Stopwatch) -> dict[str, Any]:
            # The base's own shape and tokenizer: random weights are to differ from it in nothing else.
            if self.config.base:
                like = load_checkpoint(self.config.base).processor
            else:
                shape = Shape(**{"pixels": PIXELS, **self.config.shape})
                nano = replace(
                    preset("nano"), shape=shape, max_pixels=shape.pixels, max_answer_tokens=self.config.max_new_tokens
                )
                # By digest of the id: a spread over all families that is the same on every run.
                some = sorted(self.rows["train"], key=lambda row: digest(row["sample_id"]))[:TOKENIZER_TEXTS]
                texts = [text for row in some for text in (prompt_text(row["messages"]), row["answer"])]
                like = Processor(train_tokenizer(texts, shape.vocab_size), image_processor(nano), nano)
            model = build_model(like.preset, like.tokenizer, self.config.seed)
            save_checkpoint(folder, model, like, lineage("base", like.preset, seeds={"weights": self.config.seed}))
            return {"random_weights": True}

        return self._stage(name, self.config.key("base", "shape", "seed", tasks=self.tasks.digest), make)

    def mid(self, base: FinishedStage) -> FinishedStage:
        """Mid-training on episodes and grounding, stopped in the window of pass@1."""
        config = self.config

        def make(folder: Path, watch: Stopwatch) -> dict[str, Any]:
            loaded = load_checkpoint(base.model)
            looks = EarlyStopping(folder.parent / STATE, config, self.validation(config.look_each), loaded, self.emit)
            settings = MidtrainConfig(**{"threads": config.threads, **config.midtrain, "seed": config.seed})

            def after(step: int) -> None:
                # When the time is up this step is the last, which is always looked at.
                looks.after(step, step if watch.up else settings.max_steps)
                if watch.up:
                    raise StopTraining(f"its time is up after {step} steps")

            stopped = self._supervised("mid", loaded, settings, folder, watch, after)
            found = {"stopped": stopped, **looks.settle()}
            made = lineage(
                MID_TRAINED.name,
                loaded.processor.preset,
                config={"midtrain": dict(config.midtrain)},
                seeds={"order": config.seed},
                parents={f"checkpoints/{BASE.name}": weights_of(base)},
                metrics=found,
            )
            save_checkpoint(folder, loaded.model, loaded.processor, made)
            return found

        # What decides when to stop decides the weights too, so it is part of the key.
        looking = ("look_every", "look_each", "look_attempts", "stop_at", "window", "mid_budget_s")
        return self._stage("mid", self._key(base, "midtrain", "episodes", "seed", *looking), make, config.mid_budget_s)

    def _supervised(
        self,
        name: str,
        loaded: Checkpoint,
        settings: MidtrainConfig,
        folder: Path,
        watch: Stopwatch,
        after: Callable[[int], None],
    ) -> str:
        """Train a checkpoint in place on the training rows, until all steps are done or `after`, which is called with
        every step, raises `StopTraining`; → why it ended."""

        def step(event: Mapping[str, Any]) -> None:
            if event["kind"] == "step":
                after(event["step"])

        source = self._source(settings)
        how: dict[str, Any] = {"state_dir": folder.parent / STATE, "progress": False}
        try:
            train(loaded.model, loaded.processor, source, settings, on_event=self._timed(name, watch, step), **how)
        except StopTraining as reason:
            loaded.model.eval()
            return str(reason)
        return "all steps done"

    def _source(self, settings: MidtrainConfig) -> RowSource:
        """The training rows in the order and mixture of these settings."""
        rows = self.rows["train"]
        return scheduled(ListSource(rows, settings.seed), settings, rows)

    def offline(self, start: FinishedStage, domain: str, control_s: float = 0.0) -> FinishedStage:
        """Offline RL of a domain, its peak being kept. As a control it goes on and on for that time."""
        config, name = self.config, "more_offline" if control_s else f"offline_{domain}"
        budget_s = control_s or config.offline_budget_s
        # Saved at every update: when the time ends it, what was learned is on the disk.
        given = {"save_steps": 1, **config.offline, **(config.grounding if domain == "grounding" else {})}
        if control_s:
            given |= {"updates": WITHOUT_END, "patience": WITHOUT_END, "save_steps": 1}

        def make(folder: Path, watch: Stopwatch) -> dict[str, Any]:
            settings = OfflineConfig.parsed({"threads": config.threads, **given, "seed": config.seed, "domain": domain})
            looks: list[dict[str, Any]] = []
            state = folder.parent / STATE

            def saved(event: Mapping[str, object]) -> None:
                # Right after saving, so that no update is lost.
                if event["kind"] == "saved" and watch.up:
                    raise TimeUp

            try:
                found = train_offline(
                    start.model,
                    self.rows["train"],
                    self.rows["test"],
                    folder,
                    settings,
                    validation_rows=self.rows["validation"] or None,
                    state_dir=state,
                    on_event=self._timed(name, watch, saved),
                    parents={f"checkpoints/{MID_TRAINED.name}": weights_of(start)},
                )
                looks = found.metrics["looks"]
            except TimeUp:
                looks = keep_peak(start.model, state / "offline_rl.pt", folder, name, weights_of(start))
            return {
                "looks": looks,
                "budget_s": budget_s,
                "validation_traces": looks[0]["traces"],
                "peak_criterion": looks[0].get("criterion"),
            }

        key = self._key(start, "episodes", "seed", given=given, domain=domain, budget=round(budget_s, 3))
        return self._stage(name, key, make, budget_s)

    def online(self, start: FinishedStage) -> FinishedStage:
        """Online RL on the training episodes of the families that its start sometimes solves."""
        config, name = self.config, f"online_{self.config.platform}"

        def make(folder: Path, watch: Stopwatch) -> dict[str, Any]:
            event = self._timed(name, watch)
            shares, screened_s = self._screened(start, folder.parent, watch, event)
            settings = OnlineConfig.parsed({"threads": config.threads, **config.online, "seed": config.seed})
            if settings.budget_s:
                # Screening is paid for out of online RL's own time: the controls get as much as both.
                settings = settings.changed(budget_s=max(1.0, settings.budget_s - screened_s))
            families = worth_training(shares, config.screen_least)
            # Without screening (or without a counted attempt) all families are trained on.
            chosen = [
                contract
                for family, contract in self.tasks.of("train", *config.worlds, each=config.online_each)
                if not shares or family in families
            ]
            found = train_online(
                start.model,
                chosen,
                folder,
                settings,
                pool=nano_pool(settings.workers),
                validation=self.validation(config.online_validation_each),
                state_dir=folder.parent / STATE,
                stage=name,
                on_event=event,
                parents={f"checkpoints/offline_{config.platform}": weights_of(start)},
            )
            return {"metrics": found.metrics, "timing": found.timing, "screened": shares, "families": families}

        key = self._key(
            start,
            "online",
            "online_each",
            "online_validation_each",
            "screen_each",
            "screen_attempts",
            "screen_least",
            "seed",
        )
        return self._stage(name, key, make)

    def _screened(self, start: FinishedStage, folder: Path, watch: Stopwatch, event: OnEvent) -> Screened:
        """What the checkpoint that online RL begins with solves; nothing, at once, where nobody asks."""
        config = self.config
        some = [contract for _, contract in self.tasks.of("train", *config.worlds, each=config.screen_each)]
        return screen(start.model, some, config, folder, lambda: watch.seconds, event) if some else Screened({}, 0.0)

    def more_supervised(self, start: FinishedStage, budget_s: float) -> FinishedStage:
        """A control: supervised training goes on from where online RL began, for as long as that took."""
        config, name = self.config, "more_supervised"

        def make(folder: Path, watch: Stopwatch) -> dict[str, Any]:
            loaded, steps = load_checkpoint(start.model), 0
            # As narrow as mid-training ended: a control that starts with coarse targets would unlearn first.
            narrow = MidtrainConfig(**config.midtrain).sigma[1]
            control = {
                # Another order than mid-training's, whose rows would come again in the same batches.
                "seed": config.seed + 1,
                "max_steps": WITHOUT_END,
                "learning_rate": config.control_learning_rate,
                "sigma": (narrow, narrow),
                "eval_steps": 0,
            }
            settings = MidtrainConfig(**{"threads": config.threads, **config.midtrain, **control})

            def after(step: int) -> None:
                nonlocal steps
                steps = step
                if watch.up:
                    raise StopTraining("its time is up")

            self._supervised(name, loaded, settings, folder, watch, after)
            made = lineage(
                name,
                loaded.processor.preset,
                seeds={"order": config.seed + 1},
                parents={"checkpoints/start": weights_of(start)},
                metrics={"steps": steps},
            )
            save_checkpoint(folder, loaded.model, loaded.processor, made)
            return {"steps": steps, "budget_s": budget_s}

        key = self._key(start, "midtrain", "episodes", "control_learning_rate", "seed", budget=round(budget_s, 3))
        return self._stage(name, key, make, budget_s)

    def merged(self, method: str, base: FinishedStage, experts: Sequence[FinishedStage], **how: Any) -> FinishedStage:
        """Linear or TIES merge of specialists against their common ancestor."""
        name = method if not how else f"{method}-{digest(how)[:8]}"

        def make(folder: Path, watch: Stopwatch) -> dict[str, Any]:
            if not (folder / LINEAGE).is_file():  # it is written last: a folder that has it is whole
                merge(method, base.model, [expert.model for expert in experts], folder, stage=method, **how)
            return {"how": how}

        started = [weights_of(stage) for stage in (base, *experts)]
        return self._stage(name, digest([CODE_VERSION, method, how, started]), make)

    # --- what they share
    def validation(self, each: int) -> list[TaskSpec]:
        """Validation episodes of the platform, the first of every family."""
        return [contract for _, contract in self.tasks.of("validation", *self.config.worlds, each=each)]

    def _key(self, start: FinishedStage, *settings: str, **more: object) -> str:
        """Digest of all that a stage is made from."""
        return self.config.key(*settings, **more, start=weights_of(start), tasks=self.tasks.digest)

    def _timed(
        self, name: str, watch: Stopwatch, then: Callable[[Mapping[str, Any]], None] = lambda event: None
    ) -> OnEvent:
        """Passes a trainer's events on under the stage's name, and keeps the time; `then` may end the training."""

        def event(happened: Mapping[str, object]) -> None:
            # Before `then`: it may raise, and the time counts all the same.
            watch.tick()
            self.emit({"stage": name, **happened})
            then(happened)

        return event

    def _stage(
        self, name: str, key: str, make: Callable[[Path, Stopwatch], dict[str, Any]], budget_s: float = 0.0
    ) -> FinishedStage:
        return made_once(self.folder, name, key, make, budget_s, self.emit)
