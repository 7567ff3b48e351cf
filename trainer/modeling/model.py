"""Building and loading the model, and the few forward passes that training, RL and generation share.

All of them feed `model.model(...)` with position ids of our own and apply the head only where it is needed. Two
kernels are replaced in place, with the same parameters on disk and the same result: the patch embedding becomes a
matrix product (Conv3d is slow on CPU) and vision attention runs once per picture size instead of once per picture.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from trainer.modeling.attention import attention, attention_in_row, lengths_fit_one_kernel
from trainer.modeling.head_chunks import Terms, head_terms
from trainer.modeling.packing import accept_packed, attention_arguments
from trainer.modeling.published_files import put_back_remainder
from trainer.modeling.published_layout import loaded_as_published
from trainer.modeling.seen_pictures import SeenPictures, deepstack, tower_output
from trainer.modeling.smooth_start import smooth_numbers, smooth_positions
from trainer.modeling.tokenizer import IMAGE, VIDEO, VISION_END, VISION_START, number_ids
from trainer.presets import Preset
from trainer.runtime.parallel import hollow

if TYPE_CHECKING:
    from trainer.modeling.batches import Batch

NEVER = -1e9
"""Logit of a token that must not be sampled."""


def nano_config(preset: Preset, tokenizer: Any) -> Any:
    """`Qwen3VLConfig` of a from-scratch preset, with the tokenizer's control ids."""
    from transformers import Qwen3VLConfig

    shape = preset.shape
    if shape is None:
        raise ValueError(f"preset {preset.name}: has no shape to build from scratch; it loads {preset.source!r}")
    ids = tokenizer.convert_tokens_to_ids
    return Qwen3VLConfig(
        text_config={
            "vocab_size": shape.vocab_size,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "max_position_embeddings": 4096,
            "initializer_range": shape.init,
            "pad_token_id": tokenizer.pad_token_id,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": shape.rope_theta,
                "mrope_section": list(shape.mrope_section),
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": shape.vision_depth,
            "hidden_size": shape.vision_hidden,
            "num_heads": shape.vision_heads,
            "intermediate_size": shape.vision_intermediate,
            "patch_size": shape.patch,
            "spatial_merge_size": shape.merge,
            "temporal_patch_size": shape.temporal_patch,
            "out_hidden_size": shape.hidden,
            # positions are learned on a square grid, and interpolated for pictures of other shapes
            "num_position_embeddings": shape.position_grid**2,
            "deepstack_visual_indexes": list(shape.deepstack),
            "initializer_range": shape.init,
        },
        image_token_id=ids(IMAGE),
        video_token_id=ids(VIDEO),
        vision_start_token_id=ids(VISION_START),
        vision_end_token_id=ids(VISION_END),
        tie_word_embeddings=True,
    )


def build_model(preset: Preset, tokenizer: Any, seed: int = 0) -> Any:
    """A model with random weights, a pure function of (preset, tokenizer ids, seed); float32, sped up."""
    from transformers import Qwen3VLForConditionalGeneration

    config = nano_config(preset, tokenizer)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # sums are cut by threads, and another cut rounds to other weights
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(config)
        smooth_numbers(model.model.language_model.embed_tokens.weight, number_ids(tokenizer), preset)
        smooth_positions(model.model.visual.pos_embed.weight, preset)
    finally:
        torch.set_num_threads(threads)
        # the run's own random numbers go on as if no model had been built
        torch.set_rng_state(state)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return speed_up(model)


def load_model(source: str | Path, device: str | torch.device = "cpu", layers: int | None = None) -> Any:
    """A checkpoint folder (or a published name) → model with float32 weights, sped up. The class follows its config
    (dense or MoE); `layers` keeps the first decoder layers only. Raises `ValueError` where tensors are missing."""
    from transformers import AutoConfig, AutoModelForImageTextToText

    config: Any = AutoConfig.from_pretrained(str(source))
    if layers is not None:
        reduce_layers(config, layers)
    if hollow():  # the first rank has the weights
        with torch.device("meta"):
            return speed_up(AutoModelForImageTextToText.from_config(config, dtype=torch.float32))
    read: Any = AutoModelForImageTextToText.from_pretrained
    model: Any = loaded_as_published(*read(str(source), config=config, dtype=torch.float32, output_loading_info=True))
    # after the layout is put right: the remainder is of weights as they are published
    put_back_remainder(Path(source), model)
    return speed_up(model.to(device))


def reduce_layers(config: Any, layers: int) -> None:
    """Keep the first decoder layers. Raises `ValueError` if there are fewer, or if DeepStack needs more."""
    text, needed = config.text_config, len(getattr(config.vision_config, "deepstack_visual_indexes", ()))
    if not needed <= layers <= text.num_hidden_layers:
        raise ValueError(f"layers: expected {needed} to {text.num_hidden_layers}, found {layers}")
    text.num_hidden_layers = layers
    # one word for each layer: those of the layers that are gone would be refused
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]


def parameter_count(model: nn.Module) -> int:
    """Trainable numbers, tied ones once."""
    return sum(p.numel() for p in model.parameters())


# --- the same numbers, sooner ---------------------------------------------------------------------------------------


def _patch_embed(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """[N, C*T*P*P] → [N, D]: a Conv3d whose stride equals its kernel is a matrix product."""
    weight = self.proj.weight.flatten(1)
    return functional.linear(hidden_states.to(weight.dtype).view(-1, weight.shape[1]), weight, self.proj.bias)


def _vision_attention(
    self: Any,
    hidden_states: torch.Tensor,
    cu_seqlens: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
    max_seqlen: int | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """Attention within each picture, [N, D] → [N, D]; pictures of equal length form one batch, or one kernel takes all
    of them. `max_seqlen`: patches of the largest picture."""
    from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb_vision

    total = hidden_states.shape[0]
    # [N, H, D]
    query, key, value = self.qkv(hidden_states).reshape(total, 3, self.num_heads, -1).permute(1, 0, 2, 3).unbind(0)
    cos, sin = position_embeddings  # type: ignore[misc]
    query, key = apply_rotary_pos_emb_vision(query, key, cos, sin)
    if lengths_fit_one_kernel(query) and max_seqlen is not None:
        if max_seqlen * (len(cu_seqlens) - 1) == total:  # all of one size
            return self.proj(_attend(self, query, key, value, max_seqlen))
        bounds, longest = (cu_seqlens, cu_seqlens), (max_seqlen, max_seqlen)
        found = attention_in_row(query, key, value, bounds, longest, causal=False, scale=self.scaling)
        return self.proj(found.reshape(total, -1))
    lengths = (cu_seqlens[1:] - cu_seqlens[:-1]).tolist()
    if len(set(lengths)) == 1:  # pictures of one size, the common case: one batch, nothing to sort
        return self.proj(_attend(self, query, key, value, lengths[0]))
    out = torch.empty_like(query).reshape(total, -1)
    places = torch.repeat_interleave(torch.tensor(lengths, device=query.device), cu_seqlens[1:] - cu_seqlens[:-1])
    for length in sorted(set(lengths)):
        rows = (places == length).nonzero(as_tuple=True)[0]
        out = out.index_copy(0, rows, _attend(self, query[rows], key[rows], value[rows], length))
    return self.proj(out)


def _attend(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, length: int) -> torch.Tensor:
    heads, size = query.shape[1:]
    q, k, v = (x.view(-1, length, heads, size).transpose(1, 2) for x in (query, key, value))
    return attention(q, k, v, scale=module.scaling).transpose(1, 2).reshape(-1, heads * size)


def speed_up(model: Any) -> object:
    """Replace the two slow vision kernels in place (flash attention is left alone); parameters stay as they are."""
    visual = model.model.visual
    visual.patch_embed.forward = types.MethodType(_patch_embed, visual.patch_embed)
    # flash attention has kernels of its own for pictures of several sizes
    if "flash" not in str(getattr(visual.config, "_attn_implementation", "")):
        for block in visual.blocks:
            block.attn.forward = types.MethodType(_vision_attention, block.attn)
    accept_packed(model)
    return model


def recompute(model: object, on: bool) -> None:
    """Gradient checkpointing of every decoder layer and vision block: their activations are made anew when needed."""
    for name in ("activation_checkpointing", "gradient_checkpointing"):  # the second up to transformers 5.22
        switch = getattr(model, f"{name}_{'enable' if on else 'disable'}", None)
        if switch is not None:
            switch(*([{"use_reentrant": False}] if on else []))
            return


def freeze_vision(model: Any, on: bool, *, keep: bool = True, bf16: bool = False) -> None:
    """Whether the vision tower keeps its weights while the rest is trained: a small tower that has learned to read
    unlearns it under the gradients of a decoder that can't use it yet. With `keep` what it makes of a picture is kept
    meanwhile (`SeenPictures`, with its `bf16`; not where ranks share the tower and run it together), in those that the
    model was given before, if it was."""
    model.model.visual.requires_grad_(not on)
    given = getattr(model, "seen_pictures", None)
    kept = SeenPictures(bf16=bf16) if given is None else given
    model.seen_pictures = kept if on and keep else None


def train_only(model: Any, pattern: str) -> None:
    """Of the parameters that learn, keep those as they are whose name a regular expression isn't found in.

    A few hundred episodes carry little signal: of a few million numbers most would learn noise. Raises `ValueError`
    where no name holds it, or it is none.
    """
    learning = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    try:
        chosen = {name for name in learning if re.search(pattern, name)}
    except re.error as error:
        raise ValueError(f"trainable: expected a regular expression, found {pattern!r:.80}: {error}") from error
    if not chosen:
        raise ValueError(
            f"trainable: expected a part of a parameter's name, found {pattern!r:.80}; there are "
            f"{', '.join(learning[-3:])} and others"
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in chosen)


# --- forward passes -------------------------------------------------------------------------------------------------


def image_outputs(model: Any, batch: Batch) -> dict[str, object]:
    """Features of each distinct picture, computed once, laid out in order of use; {} for a batch without pictures."""
    from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures

    if not batch.image_use:
        return {}
    kept = getattr(model, "seen_pictures", None)
    if batch.features and kept is None:
        raise ValueError("a batch of pictures that a frozen tower has seen: expected the model with that tower")
    # pictures that the tower has seen cost a look-up
    if kept is not None and batch.picture_keys:
        features = kept.features(model, batch)
        tokens = [one.tokens for one in features]
        deep = list(zip(*(one.deep for one in features), strict=True))
    else:
        seen = tower_output(model, *batch.pictures)
        tokens, deep = seen.pooler_output, [tuple(layer) for layer in deepstack(seen)]
    fields: dict[str, Any] = {  # as `get_image_features` fills them: one tensor per picture
        "pooler_output": [tokens[i] for i in batch.image_use],
        "deepstack_features": [[layer[i] for i in batch.image_use] for layer in deep],
    }
    used = BaseModelOutputWithDeepstackFeatures(**fields)
    return {"mm_encoder_outputs": {"image": used}}


def hidden_states(model: Any, batch: Batch, image_blocks: int = 0) -> torch.Tensor:
    """Last hidden states [B, S, D] of a batch; with `image_blocks` image tokens have theirs after so many blocks of the
    decoder, normalised as the last ones are."""
    alone: dict[str, Any] = {"attention_mask": batch.attention_mask}
    if batch.lengths is not None:
        alone = attention_arguments(model, batch)
    unused = _unused_vision(model, batch) if batch.pixel_values is not None and not batch.image_use else None
    with _after_block(model, image_blocks) as early:
        output = model.model(
            input_ids=batch.input_ids,
            position_ids=batch.position_ids,
            use_cache=False,
            **alone,
            **image_outputs(model, batch),
        )
    states = output.last_hidden_state  # [B, S, D]
    if early:
        # image tokens alone: text has the states of the last block
        shown = batch.input_ids == model.config.image_token_id  # [B, S]
        states = torch.where(shown[..., None], model.model.language_model.norm(early[0]), states)
    return states if unused is None else states + unused


@contextmanager
def _after_block(model: Any, blocks: int) -> Iterator[list[torch.Tensor]]:
    """What the decoder's block number `blocks` makes of a batch, once it has run (nothing for 0)."""
    states_of_block: list[torch.Tensor] = []
    if not blocks:
        yield states_of_block
        return
    block = model.model.language_model.layers[blocks - 1]
    hook = block.register_forward_hook(lambda _block, _given, states: states_of_block.append(states))
    try:
        yield states_of_block
    finally:
        hook.remove()


def _unused_vision(model: Any, batch: Batch) -> torch.Tensor:
    """Zero, by way of the vision tower: ranks that share a model must all run all of its parts, in one order (see
    `Processor.with_picture`)."""
    seen = tower_output(model, *batch.pictures)
    features = [*seen.pooler_output, *(part for layer in deepstack(seen) for part in layer)]
    return torch.stack([feature.sum() for feature in features]).sum() * 0.0


@dataclass
class LabelTerms:
    """What is asked of the logits of each labelled token: `values [N, …]`, `labels [N]`, `rows [N]` and `columns [N]`
    (the place of the label's token in `input_ids`), `samples [N]` (which sample: the row, unless samples share one)."""

    values: torch.Tensor
    labels: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    samples: torch.Tensor


def forward_labels(
    model: Any, batch: Batch, terms: Terms, image_blocks: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(values [N, …], rows [N], columns [N]) of the labelled tokens: the one before predicts a token, -100 is no
    label."""
    states = hidden_states(model, batch, image_blocks)
    rows, columns = (batch.labels != -100).nonzero(as_tuple=True)
    given = batch.labels[rows, columns], batch.coordinate[rows, columns]
    return head_terms(model.lm_head, states[rows, batch.before(columns)], *given, terms), rows, columns


def label_terms(model: object, batch: Batch, terms: Terms, image_blocks: int = 0) -> LabelTerms:
    """What `terms` makes of the logits that predict the labelled tokens; `image_blocks`: see `hidden_states`."""
    in_parts = getattr(model, "forward_labels", None)  # a model in parts is gathered by a method of its own
    given = (batch, terms, image_blocks)
    values, rows, columns = in_parts(*given) if in_parts else forward_labels(model, *given)
    samples = rows if batch.lengths is None else batch.samples_at(columns)
    return LabelTerms(values, batch.labels[rows, columns], rows, columns, samples)


@dataclass
class ReplyLogprobs:
    """Per reply token, padded on the right: `logprobs`, `entropy` [B, R] float32 and `mask` [B, R] bool."""

    logprobs: torch.Tensor
    entropy: torch.Tensor
    mask: torch.Tensor


def reply_log_softmax(logits: torch.Tensor, never: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
    """Log-probabilities [N, V] of the next reply token; ids in `never` (`Processor.never`) have none to speak of.

    Sampling and training both go through here, so that both speak of one distribution. Finite, not -inf, so that
    p · log p is 0 there and not nan.
    """
    scaled = logits.float() / temperature
    if len(never):
        # a large negative number, not -inf: see above
        scaled = scaled.index_fill(-1, torch.as_tensor(list(never), device=scaled.device), NEVER)
    return torch.log_softmax(scaled, dim=-1)


def reply_terms(never: Sequence[int], temperature: float = 1.0) -> Terms:
    """Log-probability and entropy [n, 2] of each token, see `reply_log_softmax`."""

    def terms(logits: torch.Tensor, labels: torch.Tensor, _coordinate: torch.Tensor) -> torch.Tensor:
        log_p = reply_log_softmax(logits, never, temperature)
        return torch.stack([log_p.gather(1, labels[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)], dim=-1)

    return terms


def reply_logprobs(
    model: object, batch: Batch, temperature: float = 1.0, *, never: Sequence[int] = ()
) -> ReplyLogprobs:
    """Log-probability and entropy (nats) of each reply token of a `Processor.reply_batch`, differentiable.

    With the same weights and `never=processor.never` these equal what `generation.generate` recorded at sampling, up
    to float error.
    """
    found = label_terms(model, batch, reply_terms(never, temperature))
    chosen, entropy = found.values.unbind(-1)
    size = batch.size
    lengths = torch.bincount(found.samples, minlength=size)
    width = int(lengths.max()) if len(found.rows) else 0
    mask = torch.arange(width, device=chosen.device)[None] < lengths[:, None]
    blank = chosen.new_zeros((size, width))
    # labels come row by row, which is the order that masked_scatter fills in
    return ReplyLogprobs(blank.masked_scatter(mask, chosen), blank.masked_scatter(mask, entropy), mask)
