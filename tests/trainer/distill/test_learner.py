"""The step of distillation: its gradients by hand, packed as padded, whole as in micro-batches, and what is masked."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import make_rows

from trainer.distill.learner import Distiller, TaughtReply
from trainer.distill.teachers import TeacherPanel
from trainer.modeling.checkpoint import Checkpoint, lineage, load_checkpoint, save_checkpoint
from trainer.modeling.generation import generate
from trainer.modeling.model import hidden_states, reply_log_softmax
from trainer.rl.grpo import Advantages
from trainer.settings.distill import DistillSettings, Teachers

pytestmark = pytest.mark.slow

LIMIT = 6


def settings(**changes: Any) -> DistillSettings:
    return DistillSettings(
        teachers=Teachers(grounding=None, mobile=None), max_grad_norm=1e9, learning_rate=1e-3, threads=1, **changes
    )


@pytest.fixture(scope="module")
def teacher(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another checkpoint of the same model."""
    loaded = load_checkpoint(start)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for tensor in loaded.model.parameters():
            tensor.add_(0.02 * torch.randn(tensor.shape, generator=generator))
    folder = tmp_path_factory.mktemp("teacher")
    save_checkpoint(folder, loaded.model, loaded.processor, lineage("teacher", loaded.processor.preset))
    return folder


@pytest.fixture(scope="module")
def student(start: Path) -> Checkpoint:
    return load_checkpoint(start)


@pytest.fixture(scope="module")
def replies(student: Checkpoint) -> list[TaughtReply]:
    """Replies of several lengths: the second is pushed nowhere but at its last token."""
    rows = make_rows(3, 5)
    torch.manual_seed(0)
    made = generate(
        student.model,
        student.processor,
        rows,
        temperature=1.0,
        max_new_tokens=LIMIT,
        generator=torch.Generator().manual_seed(1),
    )
    cut = [(one.token_ids[: LIMIT - at], one.logprobs[: LIMIT - at]) for at, one in enumerate(made)]
    pushes = [[1.0] * len(ids) for ids, _ in cut]
    pushes[1] = [0.0] * (len(pushes[1]) - 1) + [2.0]
    return [
        TaughtReply(row, ids, logprobs, at, pushes=own)
        for at, (row, (ids, logprobs), own) in enumerate(zip(rows, cut, pushes, strict=True))
    ]


def gradients(
    student: Checkpoint, replies: list[TaughtReply], pack: bool = True, **changes: Any
) -> dict[str, torch.Tensor]:
    """Of one update, the optimiser's step undone."""
    model = copy.deepcopy(student.model)
    learner = Distiller(model, student.processor, settings(**changes))
    learner._packs = pack
    count = len(replies)
    alike = Advantages((0.0,) * count, (1 / count,) * count, count, 0, 0)
    learner.step(replies, alike, [len(one.token_ids) for one in replies], 0)
    return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}


def distributions(model: Any, processor: Any, reply: TaughtReply) -> torch.Tensor:
    """[R, V] log-probabilities in nats before each token, one sample alone and unpacked."""
    batch = processor.reply_batch([reply.row], [reply.token_ids])
    states = hidden_states(model, batch)[0, -len(reply.token_ids) - 1 : -1]
    return reply_log_softmax(model.lm_head(states), processor.never)


def asked(teacher: Path, replies: list[TaughtReply], **changes: Any) -> list[TaughtReply]:
    panel = TeacherPanel({"online_web": teacher}, settings(**changes), "cpu")
    return panel.ask(replies, [one.row for one in replies], ["web"] * len(replies))


def by_hand(student: Checkpoint, teacher: Path, replies: list[TaughtReply], full: bool) -> dict[str, torch.Tensor]:
    """1/N Σ_i 1/|y_i| Σ_t w_t d_t: d_t = −(log π_T(y_t) − log π_S(y_t)) ∇log π_S(y_t), or the whole KL."""
    model, other = copy.deepcopy(student.model), load_checkpoint(teacher)
    loss = torch.zeros(())
    for reply in replies:
        log_p = distributions(model, student.processor, reply)
        log_q = distributions(other.model, other.processor, reply).detach()
        weights = torch.tensor(reply.pushes)
        if full:
            divergence = (log_p.exp() * (log_p - log_q)).sum(-1)
        else:
            chosen = torch.tensor(reply.token_ids)[:, None]
            own, said = (each.gather(1, chosen)[:, 0] for each in (log_p, log_q))
            divergence = -(said - own).detach() * own
        loss = loss + (weights * divergence).sum() / len(reply.token_ids) / len(replies)
    loss.backward()
    return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], factor: float = 1.0) -> None:
    assert set(found) == set(expected) and any(tensor.abs().max() > 1e-5 for tensor in expected.values())
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], factor * tensor, rtol=2e-3, atol=2e-6)


@pytest.mark.parametrize("divergence", ["sampled", "full"])
def test_gradients_are_those_by_hand_however_they_are_laid_out(
    student: Checkpoint, teacher: Path, replies: list[TaughtReply], divergence: str
) -> None:
    taught = asked(teacher, replies, divergence=divergence)
    expected = by_hand(student, teacher, replies, divergence == "full")
    same(gradients(student, taught, divergence=divergence), expected)
    same(gradients(student, taught, pack=False, divergence=divergence), expected)
    same(gradients(student, taught, divergence=divergence, micro_batch=1), expected)


@pytest.mark.parametrize("divergence", ["sampled", "full"])
def test_a_teacher_that_is_the_student_pushes_nothing(
    student: Checkpoint, start: Path, replies: list[TaughtReply], divergence: str
) -> None:
    found = gradients(student, asked(start, replies, divergence=divergence), divergence=divergence)
    assert max(float(tensor.abs().max()) for tensor in found.values()) < 1e-4


@pytest.mark.parametrize("divergence", ["sampled", "full"])
def test_tokens_without_weight_have_no_part_in_it(
    student: Checkpoint, teacher: Path, replies: list[TaughtReply], divergence: str
) -> None:
    """What a teacher says of masked tokens changes no gradient, and weights scale it."""
    only = [replace(replies[1], trajectory=0)]
    taught = asked(teacher, only, divergence=divergence)
    plain = gradients(student, taught, divergence=divergence)
    if divergence == "sampled":
        said = [*(value - 5.0 for value in taught[0].taught[:-1]), taught[0].taught[-1]]
        same(gradients(student, [replace(taught[0], taught=said)]), plain)
    doubled = replace(taught[0], pushes=[2 * weight for weight in taught[0].pushes])
    same(gradients(student, [doubled], divergence=divergence), plain, factor=2.0)


def test_the_whole_kl_is_the_mean_of_the_sampled_one(student: Checkpoint, teacher: Path) -> None:
    """Over all first tokens, weighted by the student's own chances: E[log π_S − log π_T] = KL, so is its gradient."""
    row, never = make_rows(1, 5)[0], student.processor.never
    other = load_checkpoint(teacher)
    reply = TaughtReply(row, [student.processor.end_id], [0.0], 0)
    log_p = distributions(student.model, student.processor, reply)[0].detach().requires_grad_()
    log_q = distributions(other.model, other.processor, reply)[0].detach()
    chances, advantages = log_p.exp().detach(), (log_q - log_p).detach()
    (-(chances * advantages * log_p).sum()).backward()
    sampled = log_p.grad.clone()  # type: ignore[union-attr]
    log_p.grad = None
    ((log_p.exp() * (log_p - log_q)).sum()).backward()
    # they differ by ∇ Σ p = 0 of a normalised distribution: π_S(v) in every entry
    torch.testing.assert_close(log_p.grad, sampled + chances, rtol=1e-4, atol=1e-6)
    assert len(never) and math.isclose(float(chances.sum()), 1.0, rel_tol=1e-4)


def test_teachers_answer_in_the_order_of_the_replies_and_may_be_loaded_one_at_a_time(
    teacher: Path, start: Path, replies: list[TaughtReply]
) -> None:
    several = Teachers(grounding="offline_grounding", mobile="online_mobile", web="online_mobile")
    folders = {"offline_grounding": start, "online_mobile": teacher}
    domains = ("web", "grounding", "mobile")
    found = []
    for keep in (True, False):
        wanted = settings().changed(teachers=several, keep_teachers=keep)
        panel = TeacherPanel(folders, wanted, "cpu")
        found.append(panel.ask(replies, [one.row for one in replies], domains))
        assert set(panel._loaded) == (set(folders) if keep else set())
    assert [one.taught for one in found[0]] == [one.taught for one in found[1]]
    [alone] = asked(teacher, [replies[0]])
    [other] = asked(start, [replies[1]])
    assert found[0][0].taught == pytest.approx(alone.taught, abs=1e-4)
    assert found[0][1].taught == pytest.approx(other.taught, abs=1e-4)
    assert other.taught == pytest.approx(list(replies[1].logprobs), abs=1e-4), "the student's own, as it sampled them"
