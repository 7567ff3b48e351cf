"""Settings of the GRPO loss, and of the learner and its engine that offline and online RL share. Names are TRL's."""

from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from schemas.settings import NEVER, Flag, Number, Settings, Whole, setting
from trainer.settings.rate_scales import RateScales
from trainer.settings.supervised import LoraSettings


class KlWeightConfig(Settings):
    """How the weight of the KL term goes on from `beta` (`trainer.rl.trust_region`)."""

    controller: str = setting(
        "fixed",
        "fixed: it stays; target_kl: it follows a target of the KL; reward_guided: it reacts to the reward; or "
        "module:function or file.py:function of your own.",
    )
    options: dict[str, Any] = setting({}, "The controller's own options, by name.")


class CriticConfig(Settings):
    """A value head in place of the group's mean: PPO (`trainer.rl.ppo`)."""

    gae_lambda: Number = setting(0.95, "λ of a token's advantage; 1: reward − value.", ge=0, le=1)
    learning_rate: Number = setting(3e-3, "The head's own rate.", gt=0)
    epochs: Whole = setting(4, "How often the head goes through the tokens of an update.", ge=1)
    warmup_updates: Whole = setting(0, "Updates at the beginning in which the head learns alone.", ge=0)


class GrpoConfig(Settings):
    """The loss's options (`trainer.rl.grpo`)."""

    epsilon: Number = setting(0.2, "How far the ratio of the policies may go from 1 before it is clipped.", gt=0, lt=1)
    epsilon_high: Number | None = setting(None, "The same upwards; null: as `epsilon`.", gt=0)
    delta: Number | None = setting(
        None,
        "The ratio counts as no more than this for a negative advantage, too (dual clip); null: no bound. Above "
        "1 + `epsilon_high`.",
        gt=1,
        neutral=True,
    )
    beta: Number = setting(0.0, "Weight of the KL term; 0 needs no reference.", ge=0)
    kl_weight: KlWeightConfig = setting(KlWeightConfig(), "How that weight changes with the updates.", neutral=True)
    use_bias_correction_kl: Flag = setting(
        False,
        "The KL term is multiplied by the ratio, so that its gradient is that of KL(π_θ‖π_ref): it grows with how much "
        "likelier a token has become. Without, the pull on a token is bounded by `beta`.",
        neutral=True,
    )
    entropy_coef: Number = setting(0.0, "Weight of the entropy bonus at the first update, c_0.", ge=0)
    entropy_floor: Number | None = setting(
        None,
        "In nats a token: the bonus, undecayed, counts only after an update of a lower mean entropy; null: always, "
        "decayed.",
        gt=0,
        neutral=True,
    )
    loss_type: Literal["grpo", "dr_grpo"] = setting(
        "grpo", "What a trajectory's loss is divided by: its tokens (grpo), or `max_completion_length` (dr_grpo)."
    )
    importance_sampling_level: Literal["token", "sequence"] = setting(
        "token", "Whether ratios are of tokens or replies."
    )
    scale_rewards: Literal["group", "batch", "none"] = setting(
        "group", "Whose standard deviation a reward's distance from the mean is divided by."
    )
    std_floor: Number = setting(0.0, "That standard deviation counts as no less than this; 0: no floor.", ge=0)
    advantage_epsilon: Number = setting(1e-4, "Added to that standard deviation.", gt=0)
    advantage_clip: Number | None = setting(
        None, "Advantages count as no more than this, either way; null: as they are.", gt=0, neutral=True
    )
    max_completion_length: Whole = setting(112, "Tokens of a reply at most, and what dr_grpo divides by.", ge=1)
    stale_cap: Number = setting(2.0, "C of the correction for replies of older weights.", gt=0)
    negative_floor: Number = setting(
        1.0, "Below 1, negative advantages shrink, down to this share, where few of a group succeeded.", ge=0, le=1
    )
    critic: CriticConfig | None = setting(
        None,
        "PPO instead: what a reply earned is compared with what a value head expected, and not within its group; null: "
        "within its group.",
        neutral=True,
    )

    @model_validator(mode="after")
    def _dual_clip(self) -> Self:
        high = 1.0 + (self.epsilon if self.epsilon_high is None else self.epsilon_high)
        if self.delta is not None and self.delta <= high:
            raise ValueError(f"expected delta above 1 + epsilon_high, {high:g}, found {self.delta:g}")
        if self.critic and self.negative_floor < 1:
            raise ValueError(f"expected negative_floor 1 beside critic: it has no group, found {self.negative_floor}")
        return self


class LearnerConfig(Settings):
    """What every run of RL says of its optimiser and loss."""

    grpo: GrpoConfig = setting(GrpoConfig(), "The loss.")
    learning_rate: Number = setting(..., "The rate after `warmup_steps` updates.", gt=0)
    warmup_steps: Whole = setting(2, "Updates in which the rate rises.", ge=0)
    learning_rate_scales: RateScales = setting(
        {}, "Factors of the rate for parts of the model, as `midtrain.learning_rate_scales`.", neutral=True
    )
    weight_decay: Number = setting(0.0, "AdamW's weight decay.", ge=0)
    max_grad_norm: Number = setting(1.0, "Larger gradients are scaled down to this norm.", gt=0)
    entropy_decay: Number = setting(1.0, "σ: by how much the entropy bonus shrinks with every update.", gt=0, le=1)
    num_iterations: Whole = setting(1, "How often an update goes through its trajectories.", ge=1)
    micro_batch: Whole = setting(
        32, "Replies that are computed at a time, at most; bounds memory, changes no gradient.", ge=1
    )
    micro_batch_tokens: Whole = setting(
        0,
        "Tokens that are computed at a time, at most, a prompt that replies share counted once; 0: by `micro_batch` "
        "alone.",
        ge=0,
        neutral=True,
    )
    freeze_vision: Flag = setting(False, "The vision tower keeps its weights.")
    trainable: str = setting(
        "", "A regular expression: parameters without it in their name keep their weights; empty: all learn."
    )
    gradient_checkpointing: Flag = setting(False, "Recompute activations in the backward pass instead of holding them.")
    bf16: Flag | None = setting(None, "Compute in bfloat16, the weights staying as they are; null: on a GPU only.")
    attention: str = setting("sdpa", "How the learner computes attention, as `midtrain.attention`.", neutral=True)
    compile: Flag = setting(False, "Compile the learner's blocks, as `midtrain.compile`.", neutral=True)
    async_save: Flag = setting(
        False, "Save states beside training, in either engine, as `midtrain.async_save`.", in_version=NEVER
    )

    @property
    def sampling_temperature(self) -> float:
        """Of the distribution that replies were sampled from."""
        return 1.0

    @property
    def optimiser_steps(self) -> int:
        """In how many optimiser steps an update goes through its replies."""
        return 1


class VllmConfig(Settings):
    """Servers that make the replies (docs/training.md, "vLLM as rollout engine"). Where they stand is no part of what a
    run is."""

    endpoints: tuple[str, ...] = setting((), "Their URLs; none: those of VESPER_VLLM_ENDPOINTS, separated by commas.")
    model: str = setting("", "The name under which they serve the model.")
    weight_update: Literal["reload_weights", "weight_transfer"] = setting(
        "reload_weights",
        "reload_weights: the learner saves safetensors in `weights_dir` and each server reloads them; weight_transfer: "
        "they are broadcast to the servers (NCCL from a GPU, Gloo from a CPU), which meet the learner at "
        "`master_address`.",
    )
    weights_dir: str = setting(
        "", "The folder that learner and servers see under the same path; empty: that of VESPER_VLLM_WEIGHTS_DIR."
    )
    master_address: str = setting("127.0.0.1", "Where servers meet the learner for weight_transfer.")
    timeout_s: Number = setting(120.0, "Seconds that a reply may take.", gt=0)
    update_timeout_s: Number = setting(900.0, "Seconds that a change of weights may take.", gt=0)
    wait_s: Number = setting(300.0, "Seconds that a reply waits for a server where none is up.", gt=0)
    logprob_tolerance: Number = setting(
        0.1,
        "By how many nats, on average, servers may differ from the learner on a given text after a change of weights.",
        gt=0,
    )

    @field_validator("endpoints", mode="before")
    @classmethod
    def _urls(cls, given: Any) -> Any:
        # A text is a sequence of letters and would pass as a list of them.
        if isinstance(given, str) or not all(isinstance(one, str) for one in given):
            raise ValueError(f"expected a list of URLs, found {given!r:.80}")
        return given


class RepliesConfig(Settings):
    """Who draws replies (`trainer.vllm.sampler.sampler_of`)."""

    rollout_engine: Literal["in_process", "vllm"] = setting(
        "in_process", "Who makes the replies: the model in this process, or the servers of `vllm`.", neutral=True
    )
    vllm: VllmConfig = setting(VllmConfig(), "Servers that make the replies, with rollout_engine vllm.")

    def run_part(self) -> dict[str, object]:
        """See `Settings.run_part`; without `vllm`: servers, folders and time limits don't make it another run."""
        found = super().run_part()
        # Where replies are made isn't what they are.
        del found["vllm"]
        return found


IN_PROCESS = RepliesConfig()


class RlConfig(LearnerConfig, RepliesConfig):
    """What offline and online RL say of who learns (`trainer.rl.engines`) and who replies."""

    engine: Literal["own", "trl"] = setting(
        "own",
        "Who makes a step of the learner: own, or trl (extra `trl`), TRL's GRPOTrainer by accelerate, on one process; "
        "on the same replies, rewards and advantages to the same loss.",
        neutral=True,
    )
    trl: dict[str, Any] = setting({}, "Further arguments of TRL's GRPOConfig, for engine trl.", neutral=True)
    lora: LoraSettings = setting(
        LoraSettings(), "Low-rank adapters, as `midtrain.lora`; in either engine.", neutral=True
    )

    @model_validator(mode="after")
    def _who_learns(self) -> Self:
        if self.grpo.critic and self.engine != "own":
            raise ValueError(f"expected engine own beside grpo.critic, found {self.engine!r}")
        if self.lora.rank and self.trainable:
            raise ValueError(
                f"expected trainable '' beside lora.rank {self.lora.rank}, whose adapters learn alone, found "
                f"{self.trainable!r}"
            )
        if self.lora.rank and self.rollout_engine == "vllm":  # which are sent whole weights by their names
            raise ValueError(
                f"expected rollout_engine in_process beside lora.rank {self.lora.rank}, found {self.rollout_engine}"
            )
        return self
