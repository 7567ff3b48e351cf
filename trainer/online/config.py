"""Settings of online RL. Names are TRL's where they mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from generators.execution.limits import Limits
from generators.tasks.strata import NANO_EDGES
from trainer.rl.grpo import GrpoConfig
from trainer.runtime.settings import require_known

MODES = ("sync", "async")
SCHEDULES = ("constant", "linear")
ENGINES = ("in_process", "vllm")
WEIGHT_UPDATES = ("reload_weights", "weight_transfer")


@dataclass(frozen=True)
class TrajectoryReward:
    """R(τ) = 1_success · r_comp · eta^((T − T_min)/T_min) + max(penalty_floor, −unparsable_penalty · n)."""

    r_comp: float = 1.0
    eta: float = 0.9
    unparsable_penalty: float = 0.1
    penalty_floor: float = -0.5

    def __post_init__(self) -> None:
        if not 0 < self.eta <= 1 or self.r_comp <= 0 or self.unparsable_penalty < 0 or self.penalty_floor > 0:
            raise ValueError(
                f"trajectory reward: expected 0 < eta <= 1, r_comp > 0, unparsable_penalty >= 0 and "
                f"penalty_floor <= 0, found {self}"
            )


@dataclass(frozen=True)
class ReferenceConfig:
    """When the reference policy follows (docs/method.md §7): every `eval_steps` updates the policy and the reference
    are compared on `episodes` held-out episodes, paired. Better by `margin` and by `standard_errors` of them: π_ref ←
    (1 − alpha) π_ref + alpha π_θ. Fewer than `min_episodes` pairs prove nothing. Fewer validation tasks come again,
    sampled (`trainer.online.reference`); more are left out. Without any, with beta 0, `eval_steps` 0 or `episodes`
    below `min_episodes` it never follows, and each task is tried once at most."""

    alpha: float = 0.5
    margin: float = 0.02
    standard_errors: float = 2.0
    episodes: int = 200
    min_episodes: int = 200

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ValueError(f"reference: expected episodes >= 1, found {self.episodes}")
        if not 0 < self.alpha <= 1 or self.margin < 0 or self.standard_errors < 2 or self.min_episodes < 2:
            raise ValueError(
                f"reference: expected 0 < alpha <= 1, margin >= 0, standard_errors >= 2 and "
                f"min_episodes >= 2, found {self}"
            )


@dataclass(frozen=True)
class VllmConfig:
    """Servers that make the replies (docs/training.md, "vLLM as rollout engine"). Where they stand is no part of what a
    run is: left empty, `endpoints` are those of `VESPER_VLLM_ENDPOINTS` (separated by commas) and `weights_dir` that of
    `VESPER_VLLM_WEIGHTS_DIR`.

    `weight_update` "reload_weights": the learner saves safetensors in `weights_dir`, which learner and servers see
    under the same path, and each server reloads them; "weight_transfer": they are broadcast to the servers (NCCL from a
    GPU, Gloo from a CPU), which meet the learner at `master_address`. `timeout_s` is that of a reply,
    `update_timeout_s` that of a change of weights, `wait_s` how long a reply waits for a server where none is up.
    `logprob_tolerance`: by how many nats, on average, servers may differ from the learner on a given text after a
    change of weights.
    """

    endpoints: tuple[str, ...] = ()
    model: str = ""
    weight_update: str = "reload_weights"
    weights_dir: str = ""
    master_address: str = "127.0.0.1"
    timeout_s: float = 120.0
    update_timeout_s: float = 900.0
    wait_s: float = 300.0
    logprob_tolerance: float = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.endpoints, str) or not all(isinstance(one, str) for one in self.endpoints):
            raise ValueError(f"vllm: expected endpoints to be a list of URLs, found {self.endpoints!r:.80}")
        object.__setattr__(self, "endpoints", tuple(self.endpoints))
        if self.weight_update not in WEIGHT_UPDATES:
            raise ValueError(
                f"vllm: expected weight_update to be one of {', '.join(WEIGHT_UPDATES)}, found "
                f"{self.weight_update!r:.40}"
            )
        for name in ("timeout_s", "update_timeout_s", "wait_s", "logprob_tolerance"):
            if not isinstance(value := getattr(self, name), int | float) or not value > 0:
                raise ValueError(f"vllm: expected {name} > 0, found {value!r:.40}")


@dataclass(frozen=True)
class OnlineConfig:
    """A run; defaults fit the nano preset on two cores.

    An update uses `tasks_per_update` groups of `num_generations` rollouts, in `steps_per_generation` optimiser steps,
    and goes through them `num_iterations` times; `warmup_steps`, `eval_steps` (0: at the beginning and end only) and
    `save_steps` count updates. `mode` "sync": they are made with the
    very weights that the update starts from, and the run is reproducible; "async": `workers` devices go on while
    the learner learns, and a rollout whose oldest reply is more than `max_staleness` updates old is dropped.
    `budget_s` of wall time ends the run after the update in which it is reached (0: none). With `lr_scheduler_type`
    "linear" the rate falls to 0 at the end: of `updates`, in mode "async" of `budget_s` if that comes first.
    `replay_per_task` successes are kept of a task for groups without one (0: no replay). `entropy_decay` is σ.
    `thinking` asks for thoughts (None: as the checkpoint was trained, `Preset.thinking`). `threads` as in torch, of the
    learner and of the reply engine each. `freeze_vision` keeps the vision tower as it is,
    `trainable` all parameters without that regular expression in their name;
    `gradient_checkpointing` makes activations anew where they are needed; `bf16` (None: on a GPU) learns in bfloat16
    with the weights as they are. `limits` end an episode; its `retries` are
    those of a rollout after infrastructure failures, each from the beginning.
    `rollout_engine` "in_process": a copy of the policy in this process makes the replies; "vllm": the servers of
    `vllm` do. Their kernels aren't the learner's, so the log-probabilities they tell are the behaviour policy's
    alone, and no run is reproducible bit for bit.
    `success_judge` names the multimodal model that decides a rollout from its final keyframe where no rule can: tasks
    without one, and devices that tell no state ("": such tasks can't be trained on). Its server is
    `$VESPER_JUDGE_BASE_URL`; a rollout that it gives no answer on is lost like one whose device broke.
    """

    mode: str = "sync"
    rollout_engine: str = "in_process"
    updates: int = 20
    tasks_per_update: int = 8
    num_generations: int = 4
    num_iterations: int = 1
    steps_per_generation: int = 1
    learning_rate: float = 1e-4
    lr_scheduler_type: str = "constant"
    warmup_steps: int = 2
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    freeze_vision: bool = False
    trainable: str = ""
    gradient_checkpointing: bool = False
    bf16: bool | None = None
    temperature: float = 1.0
    thinking: bool | None = None
    entropy_decay: float = 0.95
    micro_batch: int = 32
    edges: tuple[int, int] = NANO_EDGES
    workers: int = 4
    max_staleness: int = 2
    replay_per_task: int = 2
    eval_steps: int = 10
    save_steps: int = 4
    budget_s: float = 0.0
    success_judge: str = ""
    seed: int = 0
    threads: int = 1
    grpo: GrpoConfig = field(
        default_factory=lambda: GrpoConfig(beta=0.02, entropy_coef=0.003, std_floor=0.1, max_completion_length=112)
    )
    reward: TrajectoryReward = field(default_factory=TrajectoryReward)
    reference: ReferenceConfig = field(default_factory=ReferenceConfig)
    limits: Limits = field(default_factory=lambda: Limits(step_factor=1.5, step_extra=2, retries=2, call_s=60.0))
    vllm: VllmConfig = field(default_factory=VllmConfig)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"online RL: expected mode to be one of {', '.join(MODES)}, found {self.mode!r:.40}")
        if self.rollout_engine not in ENGINES:
            raise ValueError(
                f"online RL: expected rollout_engine to be one of {', '.join(ENGINES)}, found "
                f"{self.rollout_engine!r:.40}"
            )
        if self.lr_scheduler_type not in SCHEDULES:
            raise ValueError(
                f"online RL: expected lr_scheduler_type to be one of {', '.join(SCHEDULES)}, found "
                f"{self.lr_scheduler_type!r:.40}"
            )
        least = {
            "updates": 1,
            "tasks_per_update": 1,
            "num_generations": 2,
            "num_iterations": 1,
            "steps_per_generation": 1,
            "warmup_steps": 0,
            "weight_decay": 0,
            "micro_batch": 1,
            "workers": 1,
            "max_staleness": 0,
            "replay_per_task": 0,
            "eval_steps": 0,
            "save_steps": 1,
            "budget_s": 0,
            "threads": 1,
        }
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise ValueError(f"online RL: expected {name} of {bound} or more, found {getattr(self, name)!r:.40}")
        if min(self.learning_rate, self.max_grad_norm, self.temperature) <= 0:
            raise ValueError(
                "online RL: expected learning_rate, max_grad_norm and temperature > 0, found "
                f"{self.learning_rate}, {self.max_grad_norm}, {self.temperature}"
            )
        if not 0 < self.entropy_decay <= 1:
            raise ValueError(f"online RL: expected 0 < entropy_decay <= 1, found {self.entropy_decay}")
        if len(self.edges) != 2 or not 0 < self.edges[0] < self.edges[1]:
            raise ValueError(f"online RL: expected strata edges 0 < e1 < e2, found {self.edges}")

    @property
    def adaptive(self) -> bool:
        """Whether the reference may follow the policy, validation tasks given."""
        return self.grpo.beta > 0 and self.eval_steps > 0 and self.reference.episodes >= self.reference.min_episodes

    def plain(self) -> dict[str, Any]:
        """As JSON values, without `vllm`: servers, folders and time limits don't tell one run from another."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        del found["vllm"]
        if self.rollout_engine == "in_process":
            del found["rollout_engine"]
        added = {
            "lr_scheduler_type": "constant",
            "success_judge": "",
            "freeze_vision": False,
            "trainable": "",
            "gradient_checkpointing": False,
            "bf16": None,
            "steps_per_generation": 1,
        }
        for name, before in added.items():
            if found[name] == before:
                del found[name]
        return found


def config_from(plain: Mapping[str, Any]) -> OnlineConfig:
    """From JSON; settings of a part that aren't given keep the defaults of `OnlineConfig`. Raises `ValueError` naming
    an unknown key."""
    defaults = OnlineConfig()
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    require_known("online RL", values, OnlineConfig.__dataclass_fields__)
    for key, kind in (
        ("grpo", GrpoConfig),
        ("reward", TrajectoryReward),
        ("reference", ReferenceConfig),
        ("limits", Limits),
        ("vllm", VllmConfig),
    ):
        if isinstance(given := values.get(key), Mapping):
            require_known(f"online RL {key}", given, kind.__dataclass_fields__)
            values[key] = kind(**{**asdict(getattr(defaults, key)), **given})
    return OnlineConfig(**values)
