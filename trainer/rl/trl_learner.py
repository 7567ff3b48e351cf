"""The GRPO step by TRL's `GRPOTrainer`: its log-probabilities, its loss, its optimiser, run by accelerate.

What stays the stage's: rollouts and their rewards, advantages, which replies count and how much, the rate, the
reference and when it follows, saved states. So used rollouts, lineage and controls are those of our own learner, which
stays the reference: with the same replies both make the same step within 1e-5
(tests/trainer/rl/test_trl_learner.py, docs/decisions/engines.md).
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from trainer.modeling.batches import Batch
from trainer.modeling.model import NEVER, ReplyLogprobs
from trainer.modeling.processor import Processor
from trainer.rl.grpo import Advantages, LossParts, token_shares
from trainer.rl.learner import Learner, ScoredReplies
from trainer.rl.sampled_replies import SampledReply
from trainer.runtime.parallel import ranks
from trainer.runtime.precision import in_bf16
from trainer.settings.grpo import GrpoConfig, RlConfig
from trainer.settings.rate_scales import one_rate

PASSED_ON = (
    "adam_epsilon",
    "cast_lm_head_to_fp32",
    "delta",
    "fp16",
    "off_policy_mask_threshold",
    "optim",
    "optim_args",
    "optim_target_modules",
)
"""Arguments of TRL's GRPOConfig that change a step. Others are settings of the stage by another name, or of the loop
around a step, which is the stage's."""


class TrlLearner(Learner):
    """See `Learner`. Raises `ValueError` for what TRL's step can't do: several ranks, rates by part of the model, and
    arguments that no step of its own knows."""

    def __init__(self, model: Any, processor: Processor, config: RlConfig) -> None:
        if ranks().world > 1:
            raise ValueError(
                f"engine trl: expected one process for RL, found {ranks().world} (engine own shares a step among ranks)"
            )
        one_rate(config.learning_rate_scales)
        if unknown := sorted(set(config.trl) - set(PASSED_ON)):
            raise ValueError(
                f"trl: expected some of {', '.join(PASSED_ON)}, found {', '.join(unknown)}; the stage's own settings "
                "say the rest of a step, and the loop around it is the stage's"
            )
        super().__init__(model, processor, config)
        device = next(model.parameters()).device
        self._trainer = _trainer(model, processor, config, device)
        self._policy, self.optimizer = self._trainer.accelerator.prepare(model, self._trainer.create_optimizer())
        if self.reference is not None:
            add_fused_lm_head(self.reference, temperature=config.sampling_temperature, outputs=("log_probs", "entropy"))
        # Put on for a step alone: samplers copy a model, and the copy of a patched method would answer by the original
        self._heads = {id(one): _taken_off(one) for one in (model, self.reference) if one is not None}
        never = torch.zeros(model.get_output_embeddings().weight.shape[0], device=device)
        never[processor.never] = NEVER
        self._bias = torch.nn.Parameter(never, requires_grad=False)

    @contextmanager
    def _scoring(self, model: Any) -> Iterator[None]:
        """Inside it the model gives log-probabilities by TRL's head, of the tokens that a reply may hold."""
        head = model.get_output_embeddings()
        given, head.bias = head.bias, self._bias if head.bias is None else head.bias + self._bias
        vars(model).update(self._heads[id(model)])
        try:
            yield
        finally:
            head.bias = given
            _taken_off(model)

    def _batch(self, part: Sequence[SampledReply]) -> Batch:
        """Padded: TRL's head knows no prompt that replies share."""
        parameter = next(self.model.parameters())
        batch = self.processor.reply_batch([one.row for one in part], [one.token_ids for one in part])
        return batch.to(parameter.device, parameter.dtype)

    def _logprobs(self, model: Any, batch: Batch) -> ReplyLogprobs:
        with self._scoring(model), self._trainer.accelerator.autocast():
            found = model(**batch.model_inputs(), labels=batch.labels, fused_lm_head=True)
        labelled = batch.labels[:, 1:] != -100
        lengths = labelled.sum(1)
        mask = torch.arange(int(lengths.max()), device=lengths.device)[None] < lengths[:, None]
        blank = found.log_probs.new_zeros(mask.shape, dtype=torch.float32)
        logprobs, entropy = (
            blank.masked_scatter(mask, values[labelled].float()) for values in (found.log_probs, found.entropy)
        )
        return ReplyLogprobs(logprobs, entropy, mask)

    def _minimised(
        self, scored: ScoredReplies, advantages: Advantages, tokens: Sequence[int], grpo: GrpoConfig
    ) -> LossParts:
        """TRL's loss of these log-probabilities; the figures beside it are ours."""
        figures = super()._minimised(scored, advantages, tokens, grpo)
        part, found, old, behaviour = scored.part, scored.found, scored.old, scored.behaviour
        shares = token_shares(found.logprobs, advantages, [one.trajectory for one in part], tokens, grpo)  # [S, 1]
        # TRL weighs all replies alike; the tokens of ours weigh by their trajectory and group. Its loss of dr_grpo is
        # linear in the mask, so the mask holds the weights, none below 1, the least that it divides a ratio's sum by.
        scale = 1.0 / shares.min()
        stale = torch.ones_like(old) if behaviour is None else torch.exp(old - behaviour).clamp(max=grpo.stale_cap)
        own = [advantages.values[one.trajectory] if one.advantage is None else one.advantage for one in part]
        none = torch.zeros((len(part), 0), dtype=torch.long, device=old.device)
        inputs = {
            "prompt_ids": none,
            "prompt_mask": none,
            "completion_ids": found.mask.long(),  # scored already: only their number is asked for
            "completion_mask": found.mask.long(),
            "tool_mask": (shares * scale).expand_as(old),
            "advantages": old.new_tensor(own),
            "old_per_token_logps": old.detach(),
            "importance_sampling_ratio": stale.detach(),
        }
        if scored.reference is not None:
            inputs["ref_per_token_logps"] = scored.reference
        trainer = self._trainer
        trainer.scored, trainer.beta = found, grpo.beta
        loss = trainer.compute_loss(self._policy, inputs) * (len(part) * self.config.grpo.max_completion_length / scale)
        if grpo.entropy_coef:  # TRL's bonus is a mean over a micro-batch's tokens, so that the cut would change it
            loss = loss - grpo.entropy_coef * (found.entropy * found.mask * shares).sum()
        return replace(figures, loss=loss)

    def _backward(self, loss: torch.Tensor) -> None:
        self._trainer.accelerator.backward(loss)

    def _clipped(self) -> float:
        norm = self._trainer.accelerator.clip_grad_norm_(self._policy.parameters(), self.config.max_grad_norm)
        return float(norm)


class StepTrainer(GRPOTrainer):  # type: ignore[misc]  # which has no types
    """TRL's trainer of replies whose log-probabilities are there: pictures and prompts are laid out by our processor,
    which its own tokenising by a chat template would cut otherwise."""

    scored: ReplyLogprobs

    def _get_per_token_logps_and_entropies(self, *_: object, **__: object) -> tuple[torch.Tensor, torch.Tensor, None]:
        return self.scored.logprobs, self.scored.entropy, None


def _trainer(model: Any, processor: Processor, config: RlConfig, device: torch.device) -> StepTrainer:
    grpo = config.grpo
    arguments = GRPOConfig(
        output_dir=tempfile.gettempdir(),  # where nothing is saved
        learning_rate=config.learning_rate,
        adam_beta1=0.9,
        adam_beta2=0.95,
        weight_decay=config.weight_decay,
        bf16=in_bf16(config.bf16, device.type) and not config.trl.get("fp16"),
        gradient_checkpointing=False,  # the learner's own, where it is asked for
        use_cpu=device.type == "cpu",
        report_to=[],
        temperature=config.sampling_temperature,
        max_completion_length=grpo.max_completion_length,
        epsilon=grpo.epsilon,
        epsilon_high=grpo.epsilon_high,
        importance_sampling_level=grpo.importance_sampling_level,
        loss_type="dr_grpo",  # see `_minimised`
        router_aux_loss_coef=0.0,  # else that of a mixture's configuration, which RL leaves alone
        use_bias_correction_kl=grpo.use_bias_correction_kl,
        num_generations=2,
        per_device_train_batch_size=2,
        **{"delta": grpo.delta, **config.trl},
    )
    text = model.config.get_text_config()
    given = text.pad_token_id, model.generation_config.pad_token_id, torch.get_rng_state()
    made = StepTrainer(
        model=model,
        args=arguments,
        processing_class=processor.tokenizer,
        reward_funcs=_no_reward,
        train_dataset=Dataset.from_dict({"prompt": ["-", "-"]}),
    )
    # a checkpoint is saved as it would have been without this
    text.pad_token_id, model.generation_config.pad_token_id = given[:2]
    torch.set_rng_state(given[2])
    made.use_vllm = True  # else it corrects no reply by the ratio to those who drew it; nothing else asks here
    made.current_gradient_accumulation_steps = 1  # of a loss that is a part of the step's already
    return made


def _no_reward(completions: Sequence[object], **_: object) -> list[float | None]:
    """TRL wants a reward; those of the replies are the stage's."""
    return [None] * len(completions)


def _taken_off(model: Any) -> dict[str, MethodType]:
    """The methods that TRL and accelerate have put on a model; it has its own again."""
    return {name: vars(model).pop(name) for name in ("forward", "_original_forward") if name in vars(model)}
