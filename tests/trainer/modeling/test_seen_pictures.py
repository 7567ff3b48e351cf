"""What a frozen tower made of a picture is kept: the same numbers, the same gradients, and no more than may be."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from trainer.modeling.model import freeze_vision, hidden_states
from trainer.modeling.packing import packed
from trainer.modeling.seen_pictures import SeenPictures, of_tower, seen_once


@pytest.fixture
def own(model: Any) -> Any:
    return copy.deepcopy(model)


def test_kept_features_give_the_same_states_and_gradients(own: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    batch = processor.training_batch(rows[:4])
    own.model.visual.requires_grad_(False)
    hidden_states(own, batch).sum().backward()
    plain = {name: one.grad.clone() for name, one in own.named_parameters() if one.grad is not None}
    freeze_vision(own, True)
    for _ in range(2):  # made, then kept
        own.zero_grad()
        hidden_states(own, batch).sum().backward()
        for name, grad in plain.items():
            found = dict(own.named_parameters())[name].grad
            torch.testing.assert_close(found, grad, rtol=1e-3, atol=1e-3 * float(grad.abs().max()))
    assert len(own.seen_pictures) == len(set(batch.picture_keys)) > 1
    assert not any(name.startswith("model.visual") for name in plain)
    freeze_vision(own, False)
    hidden_states(own, batch).sum().backward()
    assert own.seen_pictures is None and own.model.visual.patch_embed.proj.weight.grad is not None


def test_they_depend_on_no_other_picture(own: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    freeze_vision(own, True)
    together = own.seen_pictures.features(own, processor.training_batch(rows[:4]))
    fresh, alone = SeenPictures(), processor.training_batch(rows[:1])
    (found,) = fresh.features(own, alone)
    assert torch.equal(found.tokens, together[0].tokens)
    (rounded,) = SeenPictures(bf16=True).features(own, alone)
    assert not torch.equal(rounded.tokens, found.tokens)
    torch.testing.assert_close(rounded.tokens, found.tokens, rtol=0.1, atol=0.1 * float(found.tokens.abs().max()))
    assert len(fresh) == 1 and len(copy.deepcopy(fresh)) == 0


def test_what_was_seen_needs_no_pixels(own: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    whole = processor.training_batch(rows[:4])
    freeze_vision(own, True)
    expected = hidden_states(own, processor.training_batch(rows[:1], seen=own.seen_pictures))
    states = hidden_states(own, whole)
    for part in (
        processor.training_batch(rows[:4], seen=own.seen_pictures),
        packed(processor.training_batch(rows[:1], seen=own.seen_pictures)),
    ):
        assert part.pixel_values is None and set(part.features) == set(part.picture_keys)
        like = states if part.lengths is None else expected
        torch.testing.assert_close(hidden_states(own, part.to("cpu", torch.float32)), like, rtol=1e-4, atol=1e-4)
    some = SeenPictures()
    some.features(own, processor.training_batch(rows[:1]))
    mixed = processor.training_batch(rows[:4], seen=some)
    assert mixed.pixel_values is not None and len(mixed.features) == 1
    torch.testing.assert_close(hidden_states(own, mixed), states)
    freeze_vision(own, False)
    with pytest.raises(ValueError, match="expected the model with that tower"):
        hidden_states(own, mixed)


def test_the_oldest_go_when_there_is_no_room(own: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    freeze_vision(own, True)
    batches = [processor.training_batch([row]) for row in rows if row["images"]]
    (first,) = SeenPictures().features(own, batches[0])
    kept = SeenPictures(most_bytes=first.size * 2)
    distinct = {batch.picture_keys[0]: batch for batch in batches}
    assert len(distinct) > 3
    for batch in distinct.values():
        kept.features(own, batch)
    assert len(kept) == 2


def test_models_with_one_tower_share_what_it_makes(own: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    """The one that learns in bfloat16 and the one that samples in the weights' type get the same numbers."""
    freeze_vision(own, True, bf16=True)
    other = copy.deepcopy(own)
    assert other.seen_pictures is not own.seen_pictures
    other.seen_pictures = own.seen_pictures
    batch = processor.training_batch(rows[:4])
    calls: list[Any] = []
    for one in (own, other):
        look = one.model.get_image_features
        one.model.get_image_features = lambda *given, look=look, **named: calls.append(1) or look(*given, **named)
    with torch.autocast("cpu", torch.bfloat16):
        made = own.seen_pictures.features(own, batch)
    kept = other.seen_pictures.features(other, batch)
    assert len(calls) == len(set(batch.picture_keys)) and all(a is b for a, b in zip(made, kept, strict=True))
    assert made[0].tokens.dtype == batch.pixel_values.dtype
    assert torch.equal(made[0].tokens, made[0].tokens.bfloat16().float())
    assert torch.isfinite(hidden_states(other, batch)).all()


def test_checkpoints_with_one_tower_share_what_it_saw(own: Any, model: Any, processor: Any) -> None:
    with torch.no_grad():
        own.model.language_model.norm.weight += 1  # another checkpoint of the same training
    shared = of_tower(model, processor)
    with seen_once(own, processor):
        assert own.seen_pictures is shared
    assert own.seen_pictures is None
    assert of_tower(model, processor) is shared


@pytest.mark.parametrize("other", ["tower", "pictures", "threads"])
def test_what_decides_the_bits_keeps_them_apart(own: Any, processor: Any, other: str) -> None:
    before, threads = of_tower(own, processor), torch.get_num_threads()
    if other == "tower":
        with torch.no_grad():
            own.model.visual.patch_embed.proj.weight += 1e-3
    shown = processor.apart()
    if other == "pictures":
        shown.images = copy.deepcopy(processor.images)
        shown.images.image_mean = [0.4, 0.4, 0.4]
    try:
        torch.set_num_threads(threads + (other == "threads"))
        assert of_tower(own, shown) is not before
    finally:
        torch.set_num_threads(threads)
