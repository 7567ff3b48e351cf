"""Settings of online RL: whole trajectories in worlds or on devices. Names are TRL's where they mean the same."""

import math
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from generators.execution.limits import AttemptLimits
from generators.tasks.strata import NANO_EDGES
from schemas.settings import ALWAYS, Flag, Number, Settings, Whole, neutral, other_default, setting
from trainer.settings.grpo import GrpoConfig, LearnerConfig, RlConfig
from trainer.settings.own import with_own
from trainer.settings.rewards import OwnTerm
from trainer.settings.stages import of_section


class TrajectoryReward(Settings):
    """R(τ) = 1_success · r_comp · eta^((T − T_min)/T_min) + max(penalty_floor, −unparsable_penalty · n)."""

    r_comp: Number = setting(1.0, "Of a success.", gt=0)
    eta: Number = setting(0.9, "What is left of it when a success takes twice the steps that it needs.", gt=0, le=1)
    unparsable_penalty: Number = setting(0.1, "Taken off for every reply that can't be read.", ge=0)
    penalty_floor: Number = setting(-0.5, "What these cost at most.", le=0)
    trajectory_terms: dict[str, OwnTerm] = setting(
        {}, "Terms of your own: module:function or file.py:function → weight and options.", neutral=True
    )


class CreditConfig(Settings):
    """Which replies of a trajectory its reward is due to (`trainer.online.credit`)."""

    estimator: str = setting(
        "trajectory",
        "trajectory: all share its advantage; shared_screens: steps of a group on the same screen are compared; "
        "step_labels: steps are compared by labels; or module:function or file.py:function of your own.",
    )
    weight: Number = setting(
        1.0, "Share of a reply's own advantage, where it has one; the rest is its trajectory's.", ge=0, le=1
    )
    options: dict[str, Any] = setting({}, "The estimator's own options, by name.")


class CurriculumConfig(Settings):
    """Which tasks an update draws, by what became of them so far (`trainer.online.curricula`). In mode sync only."""

    name: str = setting(
        "",
        "uniform, staged, growing_horizon or frontier; or module:function or file.py:function of your own; empty: "
        "every task gets its turn, whatever became of it.",
    )
    options: dict[str, Any] = setting({}, "The curriculum's own options, by name.")
    floor: Number = setting(0.1, "Share of the draws that is spread over all tasks evenly.", ge=0, le=1)


class PlatformsConfig(Settings):
    """How tasks of several platforms learn in one run (`trainer.online.platforms`)."""

    weighting: Literal["pooled", "platform"] = setting(
        "pooled",
        "pooled: every group weighs the same; platform: every platform does, and scale_rewards batch is by platform.",
    )
    phase: Whole = setting(0, "Updates of one platform's tasks before the next one's; 0: all in every update.", ge=0)
    oversampling: Number = setting(
        1.0,
        "Rollouts made for each one of `num_generations`; those whose rewards differ most are kept. In mode sync only.",
        ge=1,
    )


class ReferenceConfig(Settings):
    """When the reference policy follows (docs/method.md §7): every `eval_steps` updates the policy and the reference
    are compared on held-out episodes, paired. Fewer validation tasks than `episodes` come again, sampled
    (`trainer.online.reference`); more are left out. Without any, with beta 0, `eval_steps` 0 or `episodes` below
    `min_episodes` it never follows, and each task is tried once at most."""

    alpha: Number = setting(0.5, "How far it follows: π_ref ← (1 − alpha) π_ref + alpha π_θ.", gt=0, le=1)
    margin: Number = setting(0.02, "By how much of success the policy must be better.", ge=0)
    standard_errors: Number = setting(2.0, "And by how many standard errors.", ge=2)
    episodes: Whole = setting(200, "Held-out episodes of a comparison.", ge=1)
    min_episodes: Whole = setting(200, "Fewer pairs than these prove nothing.", ge=2)


_USUAL = AttemptLimits()


class RolloutLimits(Settings):
    """What ends an episode of online RL (`generators.execution.execute.AttemptLimits`)."""

    step_factor: Number = setting(1.5, "Most steps are this times the expected ones …", ge=0)
    step_extra: Whole = setting(2, "… and so many more.", ge=0)
    unreadable: Whole = setting(_USUAL.unreadable, "Replies in a row that can't be read.", ge=1)
    invalid: Whole = setting(_USUAL.invalid, "Actions in a row that can't be carried out.", ge=1)
    call_s: Number = setting(60.0, "Seconds for one look or action.", ge=0)
    attempt_s: Number = setting(_USUAL.attempt_s, "Seconds for all of a try.", ge=0)
    retries: Whole = setting(2, "A rollout is begun anew after so many infrastructure failures at most.", ge=0)
    pause_s: Number = setting(_USUAL.pause_s, "Seconds before the first retry; it doubles up to 32 times that.", ge=0)
    device_s: Number = setting(_USUAL.device_s, "Seconds to go on asking for a device while none is to be had.", ge=0)

    def limits(self) -> AttemptLimits:
        """As the executor takes them."""
        return AttemptLimits(**self.model_dump())


class OnlineGrpo(GrpoConfig):
    """The loss's options, with online RL's defaults."""

    beta: Number = other_default(GrpoConfig, "beta", 0.02)
    entropy_coef: Number = other_default(GrpoConfig, "entropy_coef", 0.003)
    std_floor: Number = other_default(GrpoConfig, "std_floor", 0.1)


class OnlineConfig(RlConfig):
    """A run; defaults fit the nano preset on two cores.

    In mode "async" or with servers no run is reproducible bit for bit: workers go on while the learner learns, and a
    server's kernels aren't the learner's, so that its log-probabilities are the behaviour policy's alone.
    """

    mode: Literal["sync", "async"] = setting(
        "sync",
        "sync: an update's rollouts are made with the very weights that it starts from, and the run is reproducible; "
        "async: `workers` devices go on while the learner learns.",
    )
    updates: Whole = setting(2, "Updates.", ge=1, in_version=ALWAYS)
    tasks_per_update: Whole = setting(4, "Groups of an update, each of one task.", ge=1, in_version=ALWAYS)
    num_generations: Whole = setting(4, "Rollouts of a group.", ge=2, in_version=ALWAYS)
    steps_per_generation: Whole = setting(
        1, "Optimiser steps in which an update goes through its rollouts.", ge=1, neutral=True
    )
    grpo: OnlineGrpo = setting(OnlineGrpo(), "The loss.")
    freeze_vision: Flag = neutral(LearnerConfig, "freeze_vision")
    trainable: str = neutral(LearnerConfig, "trainable")
    gradient_checkpointing: Flag = neutral(LearnerConfig, "gradient_checkpointing")
    bf16: Flag | None = neutral(LearnerConfig, "bf16")
    learning_rate: Number = other_default(LearnerConfig, "learning_rate", 1e-4)
    lr_scheduler_type: Literal["constant", "linear"] = setting(
        "constant",
        "linear: the rate falls to 0 at the end of `updates`; in mode async of `budget_s`, if that comes first.",
        neutral=True,
    )
    entropy_decay: Number = other_default(LearnerConfig, "entropy_decay", 0.95)
    temperature: Number = setting(1.0, "Of the distribution that replies are sampled from.", gt=0)
    thinking: Flag | None = setting(None, "Ask for thoughts; null: as the checkpoint was trained.")
    edges: tuple[Whole, Whole] = setting(
        NANO_EDGES,
        "Expected steps up to which a task is easy, and medium. A stage without them takes its checkpoint's own.",
    )
    workers: Whole = setting(2, "Devices at a time.", ge=1, in_version=ALWAYS)
    max_staleness: Whole = setting(
        2, "In mode async a rollout whose oldest reply is more updates old than this is dropped.", ge=0
    )
    replay_per_task: Whole = setting(2, "Successes of a task that are held for groups without one; 0: no replay.", ge=0)
    eval_steps: Whole = setting(
        0, "Updates between two validations; 0: at the beginning and the end only.", ge=0, in_version=ALWAYS
    )
    save_steps: Whole = setting(4, "Updates between two saved states to go on from.", ge=1)
    budget_s: Number = setting(0.0, "Seconds after which no further update begins; 0: no bound.", ge=0)
    success_judge: str = setting(
        "",
        "The multimodal model that decides a rollout from its final keyframe where no rule can, at "
        "$VESPER_JUDGE_BASE_URL; empty: tasks without a rule can't be trained on. A rollout on which it gives no "
        "answer is lost like one whose device broke.",
        neutral=True,
    )
    seed: Whole = setting(0, "Of the order of the tasks and of the replies.")
    threads: Whole = setting(1, "CPU threads, of the learner and of the reply engine each.", ge=1)
    reward: TrajectoryReward = setting(TrajectoryReward(), "The reward of a trajectory.")
    credit: CreditConfig = setting(CreditConfig(), "Credit within a trajectory.", neutral=True)
    platforms: PlatformsConfig = setting(PlatformsConfig(), "Several platforms in one run.", neutral=True)
    curriculum: CurriculumConfig = setting(CurriculumConfig(), "Which tasks an update draws.", neutral=True)
    reference: ReferenceConfig = setting(ReferenceConfig(), "When the reference policy follows.")
    limits: RolloutLimits = setting(RolloutLimits(), "What ends an episode.")

    @model_validator(mode="after")
    def _edges(self) -> Self:
        if not 0 < self.edges[0] < self.edges[1]:
            raise ValueError(f"expected edges 0 < e1 < e2, found {list(self.edges)}")
        return self

    @model_validator(mode="after")
    def _oversampling(self) -> Self:
        if self.platforms.oversampling > 1 and self.mode != "sync":
            raise ValueError(
                "expected platforms.oversampling 1 in mode async, whose groups are compared before all of their "
                f"rollouts have ended, found {self.platforms.oversampling:g}"
            )
        return self

    @model_validator(mode="after")
    def _critic(self) -> Self:
        if self.grpo.critic and (self.credit != CreditConfig() or self.platforms.weighting != "pooled"):
            raise ValueError(
                "expected no credit or platforms.weighting beside grpo.critic: both compare within groups, found "
                f"{self.credit.estimator!r:.40} and {self.platforms.weighting!r}"
            )
        return self

    @model_validator(mode="after")
    def _curriculum(self) -> Self:
        if self.curriculum.name and (self.mode != "sync" or self.platforms.phase):
            raise ValueError(
                "expected no curriculum in mode async, which draws tasks ahead of what became of them, or beside "
                f"platforms.phase, found {self.curriculum.name!r:.60}"
            )
        return self

    @property
    def rollouts(self) -> int:
        """How many are made of a group, of which `num_generations` are kept."""
        return math.ceil(self.platforms.oversampling * self.num_generations)

    @property
    def adaptive(self) -> bool:
        """Whether the reference may follow the policy, validation tasks given."""
        # Without a KL term there is no reference to move.
        return self.grpo.beta > 0 and self.eval_steps > 0 and self.reference.episodes >= self.reference.min_episodes

    @property
    def sampling_temperature(self) -> float:
        """See `LearnerConfig`."""
        return self.temperature

    @property
    def optimiser_steps(self) -> int:
        """See `LearnerConfig`."""
        return self.steps_per_generation


class OnlineSection(OnlineConfig):
    """`online` of the trainer's settings: what all specialists share, what is one's own, which wins, and where and on
    what they train."""

    worlds: tuple[str, ...] | None = setting(
        None,
        "Worlds to use; null: those that a Chromium is enough for, and for computers the desktop.",
        in_version=ALWAYS,
    )
    world_options: dict[str, dict[str, Any]] = setting(
        {}, "World → what it is opened with on this machine.", in_version=ALWAYS
    )
    validation_share: Number = setting(
        0.2, "Share of the pool's tasks that is kept for validation.", ge=0, le=1, in_version=ALWAYS
    )

    def of_run(self, **more: object) -> OnlineConfig:
        """The run of a specialist, when its own settings are already among the shared ones. `more`: settings to take
        where nothing is set."""
        run = {name: value for name, value in self.given().items() if name in OnlineConfig.model_fields}
        # What was set wins over what the caller would take.
        return OnlineConfig(**{**more, **run})


if not TYPE_CHECKING:  # which knows the fields that are written down
    OnlineSection = with_own(OnlineSection, of_section("online"))
