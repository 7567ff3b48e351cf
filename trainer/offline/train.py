"""Offline RL: a specialist (grounding, mobile or web) from the mid-trained checkpoint by single-step GRPO.

For each update: P prompts, G replies each at temperature 1, rewards of docs/method.md §6, group advantages, one or more
AdamW steps on the clipped loss of docs/method.md §7 with T = 1. Nothing here needs a device: truth stands in the rows.
Offline, step success keeps rising while whole traces peak and fall (UI-Venus-1.5, Fig. 6): a validation set that is
neither trained on nor reported watches both, training stops after the peak, and the weights of the peak are kept.
The gain is reported on held-out rows that neither training nor stopping has seen. Between epochs a navigation
specialist's histories are aligned (`epoch_alignment`, by default for published presets); with `semi_online` whole
episodes are replayed with the policy's own history instead of single steps (`trainer.offline.semi_online`). Update u
draws its prompts and replies from (seed, u) and what is saved alone, so a run that was killed goes on exactly where its
last state was saved. Weights stay fp32: bf16 rounding eats RL-sized deltas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from pipelines.whole_files import whole_file
from schemas.ids import canonical_json, digest
from trainer.data.batches import Processor, Row
from trainer.modeling.checkpoint import Checkpoint, lineage, load_checkpoint, save_checkpoint
from trainer.modeling.generation import generate, reply_limit
from trainer.modeling.tensors import WeightFiles
from trainer.offline.config import OfflineConfig, learner_config
from trainer.offline.epoch_alignment import aligned_rows, as_trained, wanted, with_aligned
from trainer.offline.held_out import REPLIES, Measure, RlTask, choose, complete_episodes, measure, succeeds, tasks_of
from trainer.offline.rl_metrics import Trained, in_memory, metrics_of, weight_delta
from trainer.offline.semi_online import Update, answering, prompts_with_thoughts, roll, update_of, whole_episodes
from trainer.rl.box_reward import difficulty_weights
from trainer.rl.grpo import group_advantages, scaled_groups, shrunk_negatives
from trainer.rl.learner import STATE_VERSION, Learner, Reply
from trainer.rl.reward_figures import reward_figures, totals
from trainer.rl.rewards import group_scores
from trainer.runtime.deterministic import deterministic
from trainer.runtime.memory import give_back
from trainer.runtime.tracking import OnEvent

METRICS = "rl.json"
Event = dict[str, Any]


@dataclass(frozen=True)
class OfflineResult:
    """What a run gave: the checkpoint folder and the metrics that stand in its `rl.json`."""

    folder: Path
    metrics: dict[str, Any]


@dataclass
class _State:
    """All that changes during a run; what is saved and restored."""

    update: int = 0
    curve: list[Event] = field(default_factory=list)
    looks: list[Event] = field(default_factory=list)
    peak: tuple[float, ...] = ()
    peak_update: int = 0
    peak_weights: dict[str, torch.Tensor] = field(default_factory=dict)
    below: int = 0
    groups: int = 0
    zero_variance: int = 0
    epoch: int = 0
    offset: int = 0
    """Prompts of this epoch that were used."""
    aligned: list[dict[str, Any]] = field(default_factory=list)
    """New rows of this epoch, without their pictures."""
    alignments: list[Event] = field(default_factory=list)
    shown: list[tuple[int, int, int]] = field(default_factory=list)
    """Where thoughts stood in histories, see `as_trained`."""


def train_offline(
    start: str | Path,
    train_rows: Sequence[Row],
    held_out_rows: Sequence[Row],
    out: str | Path,
    config: OfflineConfig,
    *,
    validation_rows: Sequence[Row] | None = None,
    state_dir: str | Path | None = None,
    parents: Mapping[str, str] | None = None,
    on_event: OnEvent | None = None,
    device: str = "cpu",
) -> OfflineResult:
    """Train the specialist `config.domain` from the checkpoint folder `start` and save it, with `rl.json`, in `out`.

    Rows are dicts of the Samples table with picture bytes; those of other domains are passed over.
    `validation_rows` find the peak; without any, a tenth of the training clusters is set aside. `state_dir` names a
    folder where progress is kept; with it, a killed run goes on exactly. `on_event` receives dicts with a `kind`:
    start, held_out, update, look, saved, resumed, aligned, trained, done. Under torchrun this is what the first rank
    does, while the others follow its learner (`trainer.runtime.launch`).
    Raises `ValueError` when no training or held-out task is left, naming what was found.
    """
    emit = on_event or (lambda event: None)
    loaded = load_checkpoint(start, device=device)
    train, validation, held_out, unusable = _split(loaded.processor, train_rows, validation_rows, held_out_rows, config)
    emit(
        {
            "kind": "start",
            "domain": config.domain,
            "train": len(train),
            "validation": len(validation),
            "held_out": len(held_out),
            "unusable": unusable,
            "updates": config.updates,
        }
    )
    run = _Run(loaded, config, train, validation, emit, Path(state_dir) if state_dir else None, start)
    with deterministic(device, config.threads):
        before = _held_out(loaded, held_out, config)
        emit({"kind": "held_out", "when": "before", **before.summary()})
        run.go()
        run.learner.close()
        emit({"kind": "trained", "update": run.state.update})
        after = _held_out(loaded, held_out, config)
    emit({"kind": "held_out", "when": "after", **after.summary()})
    counted = {
        "tasks": {"train": len(train), "validation": len(validation), "held_out": len(held_out)},
        "validation_traces": len(complete_episodes(validation)),
        "peak_criterion": run.criterion,
        "unusable": unusable,
    }
    metrics = metrics_of(
        config.domain,
        config.rewards,
        config.seed,
        run.course(),
        weight_delta(loaded.model, run.start),
        before,
        after,
        held_out,
        counted,
    )
    metrics["alignments"] = run.state.alignments
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(canonical_json(metrics) + "\n", encoding="utf-8")
    plain = json.loads(json.dumps(asdict(config)))
    loaded.processor.preset = as_trained(loaded.processor.preset, run.state.shown, run.state.peak_update)
    made = lineage(
        f"offline_{config.domain}",
        loaded.processor.preset,
        config=plain,
        seeds={"offline_rl": config.seed},
        parents=parents or {"checkpoints/mid_trained": WeightFiles(start).digest()},
        metrics={
            key: metrics[key]
            for key in ("reward_gain", "zero_variance_share", "weight_delta", "peak_update", "alignments")
        },
    )
    save_checkpoint(folder, loaded.model, loaded.processor, made)
    run.forget()
    emit({"kind": "done", "domain": config.domain, **made.metrics})
    return OfflineResult(folder, metrics)


def _split(
    processor: Processor,
    train_rows: Sequence[Row],
    validation_rows: Sequence[Row] | None,
    held_out_rows: Sequence[Row],
    config: OfflineConfig,
) -> tuple[list[RlTask], list[RlTask], list[RlTask], dict[str, dict[str, int]]]:
    """→ tasks to train on, to find the peak on, to report on; no picture or episode is in two of them."""
    train, bad_train = tasks_of(train_rows, config.domain, processor, config.rewards)
    held_out, bad_held_out = tasks_of(held_out_rows, config.domain, processor, config.rewards)
    validation, bad_validation = tasks_of(validation_rows or [], config.domain, processor, config.rewards)
    held_out = choose(held_out, config.held_out_limit, config.seed)
    if not validation:
        share = max(1, min(config.validation_limit, len(train) // 10))
        validation = choose(train, share, config.seed + 1)
    validation = _apart(validation, held_out)
    traces = config.min_traces if _traces_rule(validation, config) else 0  # too few decide nothing: none cost extra
    validation = choose(validation, config.validation_limit, config.seed, traces=traces)
    train = choose(_apart(train, [*held_out, *validation]), config.train_limit, config.seed)
    for name, found, rows in (("train", train, train_rows), ("held-out", held_out, held_out_rows)):
        if not found:
            raise ValueError(
                f"offline RL {config.domain}: no {name} task left of {len(rows)} rows "
                f"(unusable: {bad_train if name == 'train' else bad_held_out}); is there data of this domain?"
            )
    return train, validation, held_out, {"train": bad_train, "validation": bad_validation, "held_out": bad_held_out}


def _traces_rule(validation: Sequence[RlTask], config: OfflineConfig) -> bool:
    """Whether the peak is that of trace success: these tasks hold enough whole episodes."""
    return len(complete_episodes(validation)) >= max(1, config.min_traces)


def _apart(tasks: Sequence[RlTask], others: Sequence[RlTask]) -> list[RlTask]:
    taken = {task.cluster for task in others}
    return [task for task in tasks if task.cluster not in taken]


def _identity(start: str | Path, config: OfflineConfig, *tasks: Sequence[RlTask]) -> str:
    """What a saved state must have been made with to be gone on from."""
    ids = [[str(task.row["sample_id"]) for task in some] for some in tasks]
    return digest([STATE_VERSION, WeightFiles(start).digest(), json.loads(json.dumps(asdict(config))), ids])


def _held_out(loaded: Checkpoint, tasks: Sequence[RlTask], config: OfflineConfig) -> Measure:
    return measure(
        loaded.model,
        loaded.processor,
        tasks,
        samples=config.held_out_samples,
        seed=config.seed + 17,
        config=config.rewards,
        own_history=True,
    )


class _Run:
    """The training loop with its state."""

    def __init__(
        self,
        loaded: Checkpoint,
        config: OfflineConfig,
        train: list[RlTask],
        validation: list[RlTask],
        emit: OnEvent,
        folder: Path | None,
        start: str | Path,
    ) -> None:
        self.model, self.processor, self.config = loaded.model, loaded.processor, config
        self.train, self.validation = train, validation
        self.emit, self.file = emit, folder / "offline_rl.pt" if folder else None
        self.identity = _identity(start, config, train, validation)
        self.start = in_memory(self.model.named_parameters())
        self.learner = Learner(loaded.model, loaded.processor, learner_config(config))
        self.state = _State()
        self.align = config.semi_online is None and wanted(config.align, config.domain, loaded.processor.preset)
        self.episodes = whole_episodes(train) if config.semi_online else {}
        self.epoch_tasks = [steps[0] for steps in self.episodes.values()] or train  # which stand for their episodes
        self.criterion = "trace_success" if _traces_rule(validation, config) else "reward"

    def go(self) -> None:
        """Train to the bound or past the peak, then put the weights of the peak in place."""
        if not self._restore():
            self._look()
        while self.state.update < self.config.updates and self.state.below < self.config.patience:
            self._update()
            if self.state.update % self.config.eval_steps == 0 or self.state.update == self.config.updates:
                self._look()
            if self.state.update % self.config.save_steps == 0:
                self._save()
        self.model.load_state_dict(self.state.peak_weights)
        self.model.eval()

    def _prompts(self) -> list[RlTask]:
        """Prompts of this update: the training tasks in an order drawn anew each epoch."""
        state, chosen = self.state, []
        for _ in range(self.config.prompts):
            if state.offset == len(self.epoch_tasks):
                state.epoch, state.offset = state.epoch + 1, 0
                if self.align:
                    self._align()
            generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + state.epoch)
            order = torch.randperm(len(self.epoch_tasks), generator=generator)
            chosen.append(self.epoch_tasks[int(order[state.offset])])
            state.offset += 1
        return chosen

    def _align(self) -> None:
        """The tasks of the epoch that begins: histories in the words of the policy as it is now."""
        state, config = self.state, self.config
        settings = replace(config.alignment, rewards=config.rewards, seed=config.alignment.seed + state.epoch)
        made, found = aligned_rows(self.model, self.processor, self.train, settings)
        state.aligned = made
        self.epoch_tasks, used = with_aligned(self.train, made, self.processor)
        event = {
            "kind": "aligned",
            "epoch": state.epoch,
            "update": state.update,
            **found,
            **used,
            "rows": digest(made)[:16],
        }
        state.alignments.append(event)
        state.shown.append((state.update, used["changed"], used["thinking"]))
        self.emit(event)

    def _update(self) -> None:
        config = self.config
        made = self._replayed() if config.semi_online else self._single_steps()
        replies, advantages = made.replies, made.advantages
        compared = [
            Reply(made.tasks[one.row].row, one.token_ids, one.logprobs, place)
            for place, one in enumerate(replies)
            if advantages.weights[place] > 0
        ]
        rate = self.learner.learning_rate(self.state.update)
        figures = self.learner.step(compared, advantages, [len(one.token_ids) for one in replies], self.state.update)
        self.state.groups += advantages.groups
        self.state.zero_variance += advantages.zero_variance
        self.state.update += 1
        event = {
            "kind": "update",
            "update": self.state.update,
            **reward_figures(made.scores),
            "zero_variance": advantages.zero_variance,
            "groups": advantages.groups,
            "learning_rate": rate,
            "reply_tokens": sum(len(reply.token_ids) for reply in replies) / len(replies),
            "unfinished": sum(not reply.finished for reply in replies) / len(replies),
            **figures,
        }
        self.state.curve.append(event)
        self.emit(event)

    def _generator(self) -> torch.Generator:
        """What this update's replies are drawn with."""
        device = next(self.model.parameters()).device
        return torch.Generator(device=device).manual_seed(self.config.seed * 7_368_787 + self.state.update + 1)

    def _replayed(self) -> Update:
        """Rollouts through stored episodes, see `semi_online`."""
        config = self.config
        assert config.semi_online is not None
        episodes = [self.episodes[str(task.episode)] for task in self._prompts()]
        answer = answering(self.model, self.processor, self._generator())
        rollouts = roll(
            episodes, answer, group=config.num_generations, rewards=config.rewards, config=config.semi_online
        )
        self.state.shown.append((self.state.update, *prompts_with_thoughts(rollouts, config.semi_online)))
        return update_of(rollouts, config.grpo, config.semi_online)

    def _single_steps(self) -> Update:
        """Groups of replies to one step each."""
        config = self.config
        tasks = self._prompts()
        limit = reply_limit(self.processor.preset.max_answer_tokens, tasks[0].truth.objective, config.rewards.wide)
        replies = generate(
            self.model,
            self.processor,
            [task.row for task in tasks],
            group=config.num_generations,
            temperature=1.0,
            max_new_tokens=limit,
            generator=self._generator(),
            batch_size=REPLIES,
        )
        groups = [[reply.text for reply in replies if reply.row == row] for row in range(len(tasks))]
        asked = list(zip(groups, tasks, strict=True))
        grouped = [group_scores(texts, task.truth, config.rewards) for texts, task in asked]
        done = [[succeeds(text, task.truth, config.rewards) for text in texts] for texts, task in asked]
        advantages = group_advantages(totals(grouped), config.grpo)
        advantages = shrunk_negatives(advantages, done, config.grpo.negative_floor)
        harder = difficulty_weights([task.truth.boxes for task in tasks], config.difficulty)
        advantages = scaled_groups(advantages, [len(group) for group in groups], harder)
        return Update(tasks, replies, advantages, [one for group in grouped for one in group])

    def _look(self) -> None:
        """Measure on validation, and keep the weights if this is the peak so far."""
        found = measure(
            self.model,
            self.processor,
            self.validation,
            samples=self.config.validation_samples,
            seed=self.config.seed + 29,
            config=self.config.rewards,
        )
        summary = found.summary()
        # traces rule where there are enough of them; the expected reward, which is far less noisy, decides the rest
        traces = summary["trace_success"] if self.criterion == "trace_success" else None
        score = (float(traces or 0.0), float(summary["reward"] or 0.0))
        state = self.state
        if not state.peak or score > state.peak or self.config.keep == "last":
            state.peak, state.peak_update, state.below = score, state.update, 0
            state.peak_weights = in_memory(self.model.state_dict().items())
        else:
            state.below += 1
        event = {
            "kind": "look",
            "update": state.update,
            "peak_update": state.peak_update,
            "criterion": self.criterion,
            **summary,
        }
        state.looks.append(event)
        give_back()
        self.emit(event)

    def _save(self) -> None:
        if self.file is None:
            return
        with whole_file(self.file, lasting=True, alone=True) as part, part.open("wb") as stream:
            torch.save({"identity": self.identity, "learner": self.learner.state(), "state": vars(self.state)}, stream)
        self.emit({"kind": "saved", "update": self.state.update})

    def _restore(self) -> bool:
        """Go on from a saved state of this very run; one of another run is ignored (and later written over)."""
        if self.file is None or not self.file.is_file():
            return False
        saved = torch.load(self.file, weights_only=True, map_location="cpu")
        if saved["identity"] != self.identity:
            return False
        self.learner.load(saved["learner"])
        self.state = _State(**saved["state"])
        if self.state.aligned:
            self.epoch_tasks, _ = with_aligned(self.train, self.state.aligned, self.processor)
        self.emit({"kind": "resumed", "update": self.state.update})
        return True

    def forget(self) -> None:
        """Remove the saved state of a run that is finished."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)

    def course(self) -> Trained:
        """What happened, for the metrics."""
        state = self.state
        return Trained(
            state.update,
            self.config.updates,
            state.peak_update,
            state.groups,
            state.zero_variance,
            state.curve,
            state.looks,
        )
