"""Settings of mid-training: supervised next-token loss on the answers of the mixture. Names are TRL's where they mean
the same."""

from typing import Any, Literal, Self

from pydantic import model_validator

from schemas.settings import ALWAYS, NEVER, Flag, Number, Settings, Whole, setting
from trainer.settings.rate_scales import RateScales


class SpanWeights(Settings):
    """Loss weight of answer tokens: coordinates and actions matter most, the fixed tags least."""

    coordinate: Number = setting(2.0, "Numbers of points and boxes.", ge=0)
    verb: Number = setting(3.0, "The action's name.", ge=0)
    action: Number = setting(2.0, "The rest of the action.", ge=0)
    tag: Number = setting(0.3, "The tags around thought, action and conclusion.", ge=0)
    end: Number = setting(0.5, "The end of the answer.", ge=0)
    text: Number = setting(1.0, "All other words.", ge=0)


class PerplexityWeights(Settings):
    """Tokens that are hard for the model weigh more: `power` > 0 multiplies a token's weight by min(ppl^power, cap)."""

    power: Number = setting(0.0, "Power of a token's perplexity; 0: all are as `spans` says.", ge=0)
    cap: Number = setting(4.0, "At most so much more than a token that is known for sure.", ge=1)


class LoraSettings(Settings):
    """Low-rank adapters that learn in place of the weights (LoRA); they are merged into the checkpoint, and lie beside
    it for those who serve adapters."""

    rank: Whole = setting(0, "Rank of the adapters; 0: all weights learn.", ge=0)
    alpha: Whole = setting(32, "Their scale is alpha / rank.", ge=1)
    dropout: Number = setting(0.0, "Dropout of what they read.", ge=0, lt=1)
    modules: str = setting(
        r".*language_model.*\.(q|k|v|o|gate|up|down)_proj", "Regular expression of the linear modules that get one."
    )


class MidtrainLora(LoraSettings):
    """The same, and what lies below adapters that supervised training alone has."""

    quantisation: Literal["none", "nf4"] = setting(
        "none",
        "nf4 (QLoRA): the decoder's weights lie in 4 bits while adapters learn above them, by bitsandbytes; they are "
        "merged into the weights as they were. By engine trl.",
        neutral=True,
    )


class MidtrainConfig(Settings):
    """All that decides the weights, beside data and starting point."""

    max_steps: Whole = setting(200, "Optimiser steps.", ge=1, in_version=ALWAYS)
    batch_size: Whole = setting(
        32, "Rows of a step (with `packing`, sequences of a step), of all ranks and micro-batches together.", ge=1
    )
    learning_rate: Number = setting(2e-3, "The peak of the rate, after `warmup_steps`.", gt=0)
    warmup_steps: Whole = setting(
        None,
        "Steps in which the rate rises. Not given: a tenth of `max_steps`, at most 20.",
        ge=0,
        # A tenth, so that short runs don't spend half their steps rising.
        default_factory=lambda given: min(20, given["max_steps"] // 10),
    )
    final_lr_share: Number = setting(0.05, "What is left of the peak at the last step; a cosine leads to it.")
    learning_rate_scales: RateScales = setting(
        {},
        "Factors of the rate for parts of the model: {regular expression: factor}, the first that is found in a "
        "parameter's name, such as {visual.merger: 1, visual: 0.1}.",
        neutral=True,
    )
    betas: tuple[Number, Number] = setting((0.9, 0.95), "Decay of AdamW's two moments.")
    weight_decay: Number = setting(0.0, "AdamW's weight decay.")
    max_grad_norm: Number = setting(1.0, "Larger gradients are scaled down to this norm.")
    sigma: tuple[Number, Number] = setting(
        (60.0, 12.0),
        "Width of coordinate targets in units of 0..1000 at the first and the last step; [0, 0] is plain cross "
        "entropy.",
        in_version=ALWAYS,
    )
    seed: Whole = setting(0, "Of the order of the rows.")
    threads: Whole = setting(2, "CPU threads; results are the same for one number of them only.")
    spans: SpanWeights = setting(SpanWeights(), "Loss weight of answer tokens by what they are.")
    perplexity: PerplexityWeights = setting(
        PerplexityWeights(), "Loss weight of answer tokens by how hard they are, beside `spans`.", neutral=True
    )
    save_steps: Whole = setting(50, "Steps between two saved states to go on from.", ge=1)
    async_save: Flag = setting(
        False,
        "Save these states beside training, which waits until they are copied and not for the disk; takes memory for "
        "one more state. By engine own.",
        in_version=NEVER,
    )
    eval_steps: Whole = setting(100, "Steps between two validations; 0 validates after the last step only.")
    bf16: Flag | None = setting(
        None, "Compute in bfloat16, with float32 weights, gradients and losses; null: on a GPU only.", neutral=True
    )
    gradient_accumulation_steps: Whole = setting(
        1,
        "Micro-batches that a rank splits its share of a step into; bounds memory, changes no gradient.",
        ge=1,
        neutral=True,
    )
    padding_free: Flag = setting(
        True, "A micro-batch is one sequence without padding, its samples masked from one another.", neutral=True
    )
    packing: Flag = setting(False, "Several samples share a sequence.", neutral=True)
    max_length: Whole = setting(
        2048, "Tokens of a packed sequence; a longer sample has one of its own.", ge=1, neutral=True
    )
    packing_window: Whole = setting(1024, "Rows that are packed together.", ge=1, neutral=True)
    gradient_checkpointing: Flag = setting(
        False, "Recompute each block's activations in the backward pass instead of holding them.", neutral=True
    )
    attention: str = setting(
        "sdpa",
        "How the decoder computes attention: sdpa (PyTorch's own kernels), or another that transformers can load here, "
        "such as flash_attention_2.",
        neutral=True,
    )
    compile: Flag = setting(
        False, "Compile each block of the model by torch.compile: minutes at first, faster steps then.", neutral=True
    )
    router_aux_loss_coef: Number = setting(
        0.0, "Weight of the loss that keeps all experts of a mixture in use; 0: without it.", ge=0, neutral=True
    )
    freeze_vision: Flag = setting(False, "The vision tower keeps its weights.", neutral=True)
    image_labels: Flag = setting(
        False,
        "Image tokens have labels too: whether they show the target of the action or question. For messages that "
        "have the instruction before the picture, as all of ours do.",
        neutral=True,
    )
    image_blocks: Whole = setting(
        0,
        "Blocks of the decoder after which labelled image tokens say so (0: all of them). The blocks that come after "
        "can use for the answer what was found by then; what is found by the last one no answer ever sees.",
        neutral=True,
    )
    lora: MidtrainLora = setting(MidtrainLora(), "Low-rank adapters.", neutral=True)
    engine: Literal["own", "trl"] = setting(
        "own",
        "Who runs it: own, or trl (extra `trl`), TRL's SFTTrainer by accelerate, on the same rows to the same loss.",
        neutral=True,
    )
    trl: dict[str, Any] = setting({}, "Further arguments of TRL's SFTConfig, for engine trl.", neutral=True)
    schedule: tuple[Any, ...] = setting(
        (), "Phases, each [share of the steps, {objective: share of the rows}]; [] is none.", neutral=True
    )

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        # A rate that never reaches its peak.
        if self.warmup_steps > self.max_steps:
            raise ValueError(
                f"expected warmup_steps <= max_steps, found warmup_steps {self.warmup_steps} and "
                f"max_steps {self.max_steps}"
            )
        if self.lora.quantisation != "none" and (self.engine != "trl" or not self.lora.rank):
            raise ValueError(
                f"expected engine trl and lora.rank above 0 with lora.quantisation {self.lora.quantisation}, found "
                f"engine {self.engine} and rank {self.lora.rank}"
            )
        if self.async_save and self.engine != "own":
            raise ValueError(f"expected engine own beside async_save, found {self.engine}, which saves by itself")
        if min(self.sigma) < 0:
            raise ValueError(f"expected sigma of 0 or more, found {self.sigma}")
        # The two change the loss after and before the backward pass.
        if self.perplexity.power and self.router_aux_loss_coef:
            raise ValueError(
                "expected router_aux_loss_coef 0 beside perplexity.power, whose weights are summed after the backward "
                f"passes, found {self.router_aux_loss_coef} and {self.perplexity.power}"
            )
        return self
