"""The balance of a mixture of experts: beside transformers' own, over ranks and micro-batches, and that it balances."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import make_rows
from label_logits import label_logits
from tiny_published import write_tiny
from two_ranks import on_two_ranks

from trainer.data.row_sources import ListSource
from trainer.midtrain.global_batch import GlobalBatches, StreamPosition
from trainer.midtrain.step import OptimiserSteps
from trainer.midtrain.train import train
from trainer.modeling.model import recompute
from trainer.modeling.published import load_base
from trainer.modeling.routing import Balance, routed, routers
from trainer.modeling.sharding import sharded
from trainer.presets import preset
from trainer.runtime.parallel import Ranks, launched
from trainer.settings.supervised import MidtrainConfig

pytestmark = pytest.mark.slow

CONFIG = MidtrainConfig(
    max_steps=12,
    batch_size=4,
    warmup_steps=0,
    learning_rate=3e-3,
    threads=1,
    sigma=(0.0, 0.0),
    eval_steps=0,
    max_grad_norm=1e9,
    router_aux_loss_coef=0.5,
)
EXPERTS, CHOSEN = 4, 2


def mixture(folder: Path, kind: str = "moe") -> tuple[Any, Any]:
    """A tiny model of three blocks whose routers send most tokens to the same two of four experts."""
    wanted = replace(preset("30b-a3b" if kind == "moe" else "2b"), max_pixels=96 * 128, min_pixels=32 * 32)
    if not folder.exists():
        write_tiny(folder, kind, 32)
    model, processor = load_base(wanted, folder)
    made = torch.Generator().manual_seed(3)
    for router in routers(model):
        with torch.no_grad():
            common = torch.randn(router.weight.shape[1], generator=made)
            router.weight.copy_(0.1 * torch.randn(router.weight.shape, generator=made))
            router.weight[:CHOSEN] += 0.1 * common
            router.weight[CHOSEN:] -= 0.1 * common
    return model, processor


def balance(model: Any) -> Balance:
    return Balance(model, Ranks())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return mixture(tmp_path_factory.mktemp("routing") / "moe")[0]


def test_one_block_is_transformers_own_loss_and_gradient(model: Any) -> None:
    from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import load_balancing_loss_func

    real = torch.ones(3, 17)
    real[0, 5:] = real[2, 9:] = 0
    logits = torch.randn(3 * 17, EXPERTS, generator=torch.Generator().manual_seed(1), requires_grad=True)
    mine = balance(model).loss([logits], real)
    theirs = load_balancing_loss_func((logits,), EXPERTS, CHOSEN, real)
    assert isinstance(theirs, torch.Tensor)
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(one, logits)[0] for one in (mine, theirs)))


def test_its_ends_are_even_use_and_one_choice_for_all(model: Any) -> None:
    even = torch.eye(EXPERTS).repeat(6, 1) * 1e-3 + torch.eye(EXPERTS).roll(1, 0).repeat(6, 1) * 1e-3
    assert float(balance(model).loss([even], torch.ones(1, 24))) == pytest.approx(CHOSEN, rel=1e-3)
    same = torch.tensor([[40.0, 0.0, 0.0, 0.0]]).repeat(24, 1)
    assert float(balance(model).loss([same, same], torch.ones(1, 24))) == pytest.approx(EXPERTS, rel=1e-6)


def test_tokens_are_counted_over_the_micro_batches_of_a_step(model: Any) -> None:
    """Of halves that go to two experts each neither is to blame: together they use all."""
    ways = [torch.tensor([[9.0, 9.0, 0.0, 0.0]]).repeat(8, 1), torch.tensor([[0.0, 0.0, 9.0, 9.0]]).repeat(8, 1)]
    step = balance(model)
    first, second = (float(step.loss([way], torch.ones(1, 8))) for way in ways)
    assert first == pytest.approx(EXPERTS, rel=1e-2) and second == pytest.approx(CHOSEN, rel=1e-2)


def test_what_routers_say_is_heard_once_also_where_activations_are_made_anew(tmp_path: Path) -> None:
    found = []
    for on in (False, True):
        model, processor = mixture(tmp_path / "moe")
        recompute(model.train(), on)
        batch = processor.training_batch(make_rows(2))
        with routed(model, True) as logits:
            label_logits(model, batch)
        assert [tuple(one.shape) for one in logits] == [(batch.input_ids.numel(), EXPERTS)] * 3
        balance(model).loss(logits, batch.attention_mask).backward()
        assert len(logits) == 3
        found.append([router.weight.grad for router in routers(model)])
    for plain, anew in zip(*found, strict=True):
        assert float(plain.norm()) > 0
        torch.testing.assert_close(plain, anew)


def test_training_brings_unused_experts_back(tmp_path: Path) -> None:
    ends = {}
    for weight in (0.0, CONFIG.router_aux_loss_coef):
        model, processor = mixture(tmp_path / "moe")
        config = CONFIG.changed(router_aux_loss_coef=weight, learning_rate=1e-3)
        curve = train(model, processor, ListSource(make_rows(12)), config, progress=False)
        assert [("aux_loss" in step) for step in curve.steps] == [bool(weight)] * CONFIG.max_steps
        batch = processor.training_batch(make_rows(4, seed=9))
        with torch.no_grad(), routed(model, True) as logits:
            label_logits(model, batch)
            ends[weight] = float(balance(model).loss(logits, batch.attention_mask))
    assert curve.steps[0]["aux_loss"] > 2.2 > 2.15 > curve.steps[-1]["aux_loss"] >= CHOSEN * 0.99
    assert ends[CONFIG.router_aux_loss_coef] < 2.1 < 2.3 < ends[0.0], ends


def test_a_dense_model_has_no_experts(tmp_path: Path) -> None:
    model, processor = mixture(tmp_path / "dense", "dense")
    with pytest.raises(ValueError, match="router_aux_loss_coef: expected a mixture of experts"):
        train(model, processor, ListSource(make_rows(4)), CONFIG, progress=False)
    with pytest.raises(ValueError, match="router_aux_loss_coef: expected a number, 0 or more"):
        CONFIG.changed(router_aux_loss_coef=-0.1)


def gradients(folder: Path, group: Ranks) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Whole gradients of the first step, and what it tells."""
    model, processor = mixture(folder)
    model = sharded(model, group) if group.world > 1 else model
    given = GlobalBatches(ListSource(make_rows(12)), processor, CONFIG, group, StreamPosition()).next()
    optimiser = torch.optim.SGD(model.parameters(), 0.0)
    told = OptimiserSteps(model.train(), processor, optimiser, CONFIG, group, bad_before=0).step(given, 0)
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {n: g.full_tensor() if hasattr(g, "full_tensor") else g.clone() for n, g in found.items()}, told


def on_a_rank(folder: Path) -> None:
    """What each of two processes does."""
    torch.set_num_threads(1)
    with launched() as group:
        found = gradients(folder / "moe", group)
        if group.first:
            torch.save(found, folder / "found.pt")


def test_two_ranks_give_one_ranks_gradients(tmp_path: Path) -> None:
    expected, told = gradients(tmp_path / "moe", Ranks())
    on_two_ranks(on_a_rank, tmp_path)
    found, theirs = torch.load(tmp_path / "found.pt", weights_only=True)
    assert found.keys() == expected.keys() and sum("mlp.gate" in name for name in found) == 3
    largest = max(float((found[n] - g).norm() / g.norm().clamp_min(1e-8)) for n, g in expected.items())
    assert largest <= 1e-5, largest
    assert theirs["aux_loss"] == pytest.approx(told["aux_loss"], rel=1e-5)
    assert theirs["loss"] == pytest.approx(told["loss"], rel=1e-5)
