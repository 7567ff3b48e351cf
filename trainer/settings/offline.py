"""Settings of offline RL: a specialist of one domain, from stored rows."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from schemas.settings import ALWAYS, Flag, Number, Settings, Whole, other_default, setting
from trainer.settings.domains import DOMAINS, DomainName
from trainer.settings.grpo import LearnerConfig, RlConfig
from trainer.settings.own import with_own
from trainer.settings.rewards import RewardConfig
from trainer.settings.stages import of_section


class SemiOnlineConfig(Settings):
    """Stored episodes are replayed with the policy's own history (`trainer.offline.semi_online`)."""

    patches: Whole = setting(1, "Wrong actions that a rollout may outlive, the stored one standing in for them.", ge=0)
    gamma: Number = setting(0.5, "Discount of later rewards.", ge=0, le=1)
    step_weight: Number = setting(1.0, "w: weight of a step's advantage beside that of its rollout.", ge=0)
    thoughts: Flag = setting(True, "The history holds what the policy thought, or its actions alone.")


class AlignmentConfig(Settings):
    """Histories in the model's own words, between epochs (`trainer.offline.alignment`)."""

    num_generations: Whole = setting(4, "Replies to every step (R of the report).", ge=1)
    target_length: Whole = setting(
        120, "Characters of a thought that is liked best; a longer one than histories show isn't used.", ge=1
    )
    variants: Whole = setting(3, "How often a step with a rare action comes (M of the report).", ge=1)
    sparse_share: Number = setting(0.02, "Action types of fewer than this share of the steps are rare.", ge=0, le=1)
    seed: Whole = setting(0, "Of the replies.")
    rewards: RewardConfig = setting(RewardConfig(), "When an action counts as right; of a run, its own `rewards`.")


class PassBand(Settings):
    """Tasks that are tried before the run, and left out where the policy hardly ever or nearly always does them."""

    tries: Whole = setting(
        8, "Sampled replies to each task; tasks with no success, or nothing else, are left out.", ge=2
    )
    low: Number = setting(0.0, "Least share of successes.", ge=0, le=1)
    high: Number = setting(1.0, "Largest share of successes.", ge=0, le=1)

    @model_validator(mode="after")
    def _order(self) -> Self:
        # Equal is fine: exactly this share.
        if self.low > self.high:
            raise ValueError(f"expected low <= high, found {self.low} and {self.high}")
        return self


class OfflineSettings(RlConfig):
    """What the runs of all specialists are set by; defaults fit the nano preset on two cores in a minute."""

    updates: Whole = setting(8, "Updates at most.", ge=1, in_version=ALWAYS)
    prompts: Whole = setting(8, "Prompts of an update; with `semi_online`, whole episodes.", ge=1, in_version=ALWAYS)
    num_generations: Whole = setting(8, "Replies to a prompt.", ge=2)
    learning_rate: Number = other_default(LearnerConfig, "learning_rate", 3e-4)
    micro_batch: Whole = other_default(LearnerConfig, "micro_batch", 64)
    train_limit: Whole = setting(2000, "Rows to train on at most.")
    validation_limit: Whole = setting(48, "Tasks on which the peak is looked for.")
    validation_samples: Whole = setting(2, "Sampled replies to each of them, beside the greedy one.")
    held_out_limit: Whole = setting(64, "Tasks of the report before and after.", in_version=ALWAYS)
    held_out_samples: Whole = setting(1, "Sampled replies to each of them, beside the greedy one.", in_version=ALWAYS)
    eval_steps: Whole = setting(4, "Updates between two looks for the peak.", ge=1, in_version=ALWAYS)
    patience: Whole = setting(2, "Looks below the peak after which the run ends.")
    flat_gain: Number = setting(
        0.0, "It also ends where reward rose by less than this in `patience` looks; 0: it doesn't.", ge=0, neutral=True
    )
    min_traces: Whole = setting(
        20,
        "Whole episodes of validation from which on the peak is that of trace success; below it, where all is noise, "
        "it is that of the expected reward.",
    )
    warn_without_traces: Flag = setting(
        True, "Whether a peak that too few whole episodes left to the expected reward warns."
    )
    keep: Literal["peak", "last"] = setting("peak", "Which weights the run ends with; last trains to the bound.")
    save_steps: Whole = setting(4, "Updates between two saved states to go on from.", ge=1)
    seed: Whole = setting(0, "Of the order of the prompts and of the replies.")
    threads: Whole = setting(2, "CPU threads; results are the same for one number of them only.")
    rewards: RewardConfig = setting(RewardConfig(), "The reward of a reply.")
    difficulty: Number = setting(0.0, "Above 0, questions with small targets get a larger share of an update.", ge=0)
    pass_band: PassBand | None = setting(
        None, "Train on the tasks alone that the policy sometimes does, by tries before the run; null: on all."
    )
    semi_online: SemiOnlineConfig | None = setting(
        None, "Replay whole episodes with the policy's own history; null: single steps with the stored one."
    )
    align: Flag | None = setting(None, "Align histories between epochs; null: as the checkpoint's preset is.")
    alignment: AlignmentConfig = setting(AlignmentConfig(), "How they are aligned.")

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        # Replayed episodes are whole; choosing or aligning single steps would break them.
        if self.semi_online and (self.align or self.difficulty or self.pass_band):
            raise ValueError(
                "expected no align, difficulty or pass_band beside semi_online, which replays whole episodes, found "
                f"align {self.align}, difficulty {self.difficulty} and pass_band {self.pass_band}"
            )
        if self.grpo.critic and (self.semi_online or self.difficulty):
            raise ValueError("expected no semi_online or difficulty beside grpo.critic: both scale what groups compare")
        return self


class OfflineConfig(OfflineSettings):
    """The run of one specialist."""

    domain: DomainName = setting(..., "What the specialist is of.")

    @model_validator(mode="after")
    def _domain(self) -> Self:
        # Only navigation has histories to replay.
        if self.semi_online and DOMAINS[self.domain].objective != "navigation":
            raise ValueError(f"expected no semi_online of {self.domain}: it replays navigation, found it set")
        return self


class OfflineSection(OfflineSettings):
    """`offline` of the trainer's settings: what all specialists share, and what is one's own, which wins."""

    def of_domain(self, domain: str) -> OfflineConfig:
        """The run of a domain's specialist, when its own settings are already among the shared ones."""
        # Only what was set: defaults of the section must not count as set in the run.
        run = {name: value for name, value in self.given().items() if name in OfflineSettings.model_fields}
        return OfflineConfig(**{**run, "domain": domain})


if not TYPE_CHECKING:  # which knows the fields that are written down
    OfflineSection = with_own(OfflineSection, of_section("offline"))
