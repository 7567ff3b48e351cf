"""Linear and TIES merges: hand-worked tensors, the laws of mergers, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from trainer.merge import merge, merge_linear, merge_ties, trim
from trainer.tensors import INDEX, CheckpointMismatch, WeightFiles

Tensors = dict[str, torch.Tensor]
Folders = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folders:
    def make(name: str, tensors: Tensors, *, shards: int = 1, config: dict[str, object] | None = None) -> Path:
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config or {"model_type": "tiny"}))
        (path / "tokenizer.json").write_text("{}")
        if shards == 1:
            save_file(tensors, str(path / "model.safetensors"), {"format": "pt"})
            return path
        placed = {}
        for index in range(shards):
            file = f"model-{index + 1:05d}-of-{shards:05d}.safetensors"
            part = {key: tensors[key] for key in sorted(tensors)[index::shards]}
            save_file(part, str(path / file), {"format": "pt"})
            placed.update(dict.fromkeys(part, file))
        (path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": placed}))
        return path

    return make


def random_tensors(seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "model.layers.0.a.weight": (7, 5),
        "model.layers.1.a.weight": (11,),
        "model.norm": (),
        "model.empty": (0, 3),
    }
    return {name: (torch.randn(shape, generator=generator) * scale).to(dtype) for name, shape in shapes.items()}


def moved(base: Tensors, seed: int, scale: float = 1e-3) -> Tensors:
    step = random_tensors(seed, scale)
    return {name: tensor + step[name].to(tensor.dtype) for name, tensor in base.items()}


def ties(base: list[float], experts: list[list[float]], **options: object) -> list[float]:
    arguments = {"density": [1.0] * len(experts), "weight": [1.0] * len(experts), **options}
    merged, _ = merge_ties(torch.tensor(base), [torch.tensor(e) for e in experts], **arguments)  # type: ignore[arg-type]
    return merged.tolist()


def reference_ties(
    base: np.ndarray, experts: Sequence[np.ndarray], density: Sequence[float], weight: Sequence[float],
    normalize: bool, lam: float,
) -> np.ndarray:  # fmt: skip
    """TIES element by element in float64, written from METHOD §8 and nothing else."""
    flat = [(expert.astype(np.float64) - base).ravel() for expert in experts]
    for delta, part in zip(flat, density, strict=True):
        ranked = sorted(range(delta.size), key=lambda i: (-abs(np.float32(delta[i])), i))
        delta[ranked[int(part * delta.size) :]] = 0.0
    result = np.zeros(base.size)
    for j in range(base.size):
        votes = [w * delta[j] for w, delta in zip(weight, flat, strict=True)]
        sign = 1.0 if sum(votes) >= 0 else -1.0
        agreeing = [(vote, w) for vote, w in zip(votes, weight, strict=True) if vote * sign > 0]
        divisor = sum(w for _, w in agreeing) if normalize else 1.0
        result[j] = lam * sum(vote for vote, _ in agreeing) / (divisor or 1.0)
    return base + result.reshape(base.shape)


class TestTrim:
    def test_keeps_int_density_n_largest(self) -> None:
        assert trim(torch.tensor([1.0, -4.0, 2.0, -3.0]), 0.5).tolist() == [0.0, -4.0, 0.0, -3.0]
        assert trim(torch.tensor([1.0, -4.0, 2.0, -3.0]), 0.7).tolist() == [0.0, -4.0, 0.0, -3.0]  # int(2.8) = 2

    def test_ties_keep_the_lowest_index(self) -> None:
        assert trim(torch.tensor([1.0, -1.0, 1.0, -1.0]), 0.5).tolist() == [1.0, -1.0, 0.0, 0.0]
        assert trim(torch.tensor([1.0, 2.0, -1.0, 1.0]), 0.5).tolist() == [1.0, 2.0, 0.0, 0.0]

    def test_edges(self) -> None:
        assert trim(torch.zeros(0, 3), 0.5).shape == (0, 3)
        assert trim(torch.tensor([3.0]), 0.5).tolist() == [0.0]  # k = int(0.5) = 0
        assert trim(torch.tensor(3.0), 1.0).item() == 3.0
        assert trim(torch.tensor([3.0, 1.0]), 0.0).tolist() == [0.0, 0.0]
        assert trim(torch.zeros(4), 0.5).tolist() == [0.0] * 4

    @given(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]), max_size=30), st.floats(0, 1))
    def test_equals_a_full_stable_sort(self, values: list[float], density: float) -> None:
        ranked = sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))[: int(density * len(values))]
        expected = [value if i in ranked else 0.0 for i, value in enumerate(values)]
        assert trim(torch.tensor(values, dtype=torch.float32), density).tolist() == expected


class TestTies:
    def test_worked_by_hand(self) -> None:
        # deltas: [2,-1,0], [4,3,0], [-1,-4,5]; sums 5,-2,5 -> +,-,+; agreeing: {2,4}, {-1,-4}, {5}
        merged = ties([10.0, 10.0, 10.0], [[12.0, 9.0, 10.0], [14.0, 13.0, 10.0], [9.0, 6.0, 15.0]])
        assert merged == [13.0, 7.5, 15.0]

    def test_weights_enter_the_vote_and_the_mean(self) -> None:
        # deltas 1 and -1; at weights 1, 3 the sum is -2: only the second agrees, -3/3
        assert ties([0.0], [[1.0], [-1.0]], weight=[1.0, 3.0]) == [-1.0]
        # deltas 1 and 3 at weights 1, 3: (1 + 9) / 4
        assert ties([0.0], [[1.0], [3.0]], weight=[1.0, 3.0]) == [2.5]
        assert ties([0.0], [[1.0], [3.0]], weight=[1.0, 3.0], normalize=False) == [10.0]

    def test_a_tied_vote_counts_as_positive(self) -> None:
        assert ties([5.0], [[4.0], [6.0]]) == [6.0]
        assert ties([5.0], [[6.0], [4.0]]) == [6.0]

    def test_lambda_scales_the_merged_delta(self) -> None:
        assert ties([1.0], [[3.0], [5.0]], lam=0.5) == [2.5]  # 1 + 0.5 * (2 + 4)/2
        assert ties([1.0], [[3.0]], lam=0.5) == [2.0]

    def test_trimming_comes_before_the_vote(self) -> None:
        # density 0.5 keeps the largest of two: expert 1 keeps 4 at 1, expert 2 keeps -3 at 0
        assert ties([0.0, 0.0], [[1.0, 4.0], [-3.0, 2.0]], density=[0.5, 0.5]) == [-3.0, 4.0]

    def test_report_counts_kept_and_conflicts(self) -> None:
        base = torch.zeros(4)
        experts = [torch.tensor([1.0, 2.0, 0.0, 0.5]), torch.tensor([-1.0, 3.0, 4.0, 0.1])]
        _, report = merge_ties(base, experts, density=[0.75, 0.5], weight=[1.0, 1.0], name="t")
        assert report.kept == (0.75, 0.5)  # 1, 2, 0.5 of the first; 3, 4 of the second
        assert report.conflicts == 0.0  # the second's -1 was trimmed
        _, full = merge_ties(base, experts, density=[1.0, 1.0], weight=[1.0, 1.0], name="t")
        assert full.conflicts == 0.25

    @settings(max_examples=80, deadline=None)
    @given(st.integers(0, 2**31), st.integers(1, 4), st.floats(0, 1), st.booleans(), st.sampled_from([0.3, 1.0, 1.7]))
    def test_agrees_with_a_float64_reference(
        self, seed: int, n: int, density: float, normalize: bool, lam: float
    ) -> None:
        rng = np.random.default_rng(seed)
        base = rng.normal(size=(5, 4)).astype(np.float32)
        # a coarse grid of deltas: ties, zeros and cancelling votes are common, and fp32 holds the sums exactly
        experts = [base + rng.integers(-3, 4, base.shape).astype(np.float32) for _ in range(n)]
        base = np.round(base * 64) / 64
        experts = [np.round(expert * 64) / 64 for expert in experts]
        weight = rng.choice([0.0, 0.5, 1.0, 2.0], n).tolist()
        merged, _ = merge_ties(
            torch.from_numpy(base), [torch.from_numpy(e) for e in experts], density=[density] * n, weight=weight,
            normalize=normalize, lam=lam,
        )  # fmt: skip
        expected = reference_ties(base, experts, [density] * n, weight, normalize, lam)
        np.testing.assert_allclose(merged.numpy(), expected, rtol=1e-6, atol=1e-6)


FLOATS32 = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**99), max_value=2.0**99)


class TestLaws:
    @given(st.lists(st.tuples(FLOATS32, FLOATS32), max_size=20), st.booleans())
    def test_one_expert_at_weight_1_density_1_returns_itself(
        self, pairs: list[tuple[float, float]], norm: bool
    ) -> None:
        base, expert = torch.tensor([p[0] for p in pairs]), torch.tensor([p[1] for p in pairs])
        assert merge_ties(base, [expert], density=[1.0], weight=[1.0], normalize=norm)[0].equal(expert)
        assert merge_linear(base, [expert], weight=[1.0])[0].equal(expert)

    @given(st.lists(st.tuples(FLOATS32, FLOATS32), max_size=20))
    def test_density_0_returns_the_base(self, pairs: list[tuple[float, float]]) -> None:
        base, expert = torch.tensor([p[0] for p in pairs]), torch.tensor([p[1] for p in pairs])
        assert merge_ties(base, [expert, expert], density=[0.0, 0.0], weight=[1.0, 2.0])[0].equal(base)

    @settings(deadline=None)
    @given(st.integers(0, 2**31), st.floats(0.1, 8.0))
    def test_normalised_ties_ignores_the_scale_of_the_weights(self, seed: int, scale: float) -> None:
        rng = torch.Generator().manual_seed(seed)
        base, *experts = (torch.randn(6, 6, generator=rng) for _ in range(4))
        weight = torch.rand(3, generator=rng).add(0.1).tolist()
        one, _ = merge_ties(base, experts, density=[0.6] * 3, weight=weight)
        other, _ = merge_ties(base, experts, density=[0.6] * 3, weight=[w * scale for w in weight])
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("method", ["linear", "ties"])
    def test_the_order_of_the_models_changes_no_bit(self, folder: Folders, tmp_path: Path, method: str) -> None:
        base = random_tensors(0)
        models = [folder(f"m{i}", moved(base, i + 1, 0.5)) for i in range(3)]
        start = folder("base", base)
        weights = [0.5, 0.2, 0.3]
        first = merge(method, start, models, tmp_path / "one", 0.5, weights)
        order = [2, 0, 1]
        second = merge(method, start, [models[i] for i in order], tmp_path / "two", 0.5, [weights[i] for i in order])
        assert first.weights_digest == second.weights_digest
        assert [first.total.kept[i] for i in order] == list(second.total.kept)

    @pytest.mark.parametrize("method", ["linear", "ties"])
    @pytest.mark.parametrize("shards", [1, 3])
    def test_one_expert_folder_returns_itself(self, folder: Folders, tmp_path: Path, method: str, shards: int) -> None:
        base = random_tensors(0)
        expert = moved(base, 1)
        merge(method, folder("base", base, shards=shards), [folder("e", expert)], tmp_path / "out")
        for name, tensor in expert.items():
            assert WeightFiles(tmp_path / "out").read(name).equal(tensor), name


class TestFolders:
    def test_linear_worked_by_hand(self, folder: Folders, tmp_path: Path) -> None:
        base = {"w": torch.tensor([0.0, 0.0])}
        models = [folder("a", {"w": torch.tensor([1.0, 2.0])}), folder("b", {"w": torch.tensor([3.0, -2.0])})]
        merge("linear", folder("base", base), models, tmp_path / "out", weights=[0.25, 0.75])
        assert load_file(str(tmp_path / "out/model.safetensors"))["w"].tolist() == [2.5, -1.0]

    def test_writes_settings_lineage_and_report(self, folder: Folders, tmp_path: Path) -> None:
        base = random_tensors(0)
        start, expert = folder("base", base), folder("e", moved(base, 1))
        (start / "lineage.json").write_text('{"stage": "mid_training", "preset": "nano"}')
        report = merge("ties", start, [expert], tmp_path / "out", density=0.5)
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"config.json", "tokenizer.json", "model.safetensors", "merge.json", "lineage.json"}
        lineage = json.loads((tmp_path / "out/lineage.json").read_text())
        assert lineage["parents"] == {"base": WeightFiles(start).digest(), "expert_1": WeightFiles(expert).digest()}
        assert lineage["config"]["merge_method"] == "ties" and lineage["config"]["density"] == [0.5]
        assert lineage["preset"] == "nano"  # goes on from the base
        assert {layer.name for layer in report.layers} == {"model.layers.0", "model.layers.1", "model"}
        assert report.total.count == 35 + 11 + 1
        # int(0.5*35) + int(0.5*11) + int(0.5*1) = 17 + 5 + 0 elements of 47
        assert report.total.kept[0] == pytest.approx(22 / 47)

    def test_shards_and_index_are_those_of_the_base(self, folder: Folders, tmp_path: Path) -> None:
        base = random_tensors(0)
        models = [folder("a", moved(base, 1)), folder("b", moved(base, 2), shards=2)]
        merge("ties", folder("base", base, shards=3), models, tmp_path / "sharded", density=0.4)
        merge("ties", tmp_path / "a", [models[0]], tmp_path / "again")
        index = json.loads((tmp_path / "sharded" / INDEX).read_text())
        assert len(set(index["weight_map"].values())) == 3
        assert index["metadata"]["total_size"] == 4 * 47
        one = folder("base1", base)
        merge("ties", one, models, tmp_path / "single", density=0.4)
        single = load_file(str(tmp_path / "single/model.safetensors"))
        for name, file in index["weight_map"].items():
            assert load_file(str(tmp_path / "sharded" / file))[name].equal(single[name])

    def test_bf16_folders_stay_bf16_and_are_merged_in_fp32(self, folder: Folders, tmp_path: Path) -> None:
        # 1 + 2^-7 and 1 + 3*2^-7 average to 1 + 2^-6 in fp32; deltas of bf16 itself would do too, three experts not
        base = {"w": torch.tensor([1.0], dtype=torch.bfloat16)}
        values = (1 + 2**-7, 1 + 2**-7, 1 + 3 * 2**-7, 1 + 3 * 2**-7)
        models = [folder(f"m{i}", {"w": torch.tensor([v], dtype=torch.bfloat16)}) for i, v in enumerate(values)]
        merge("ties", folder("base", base), models, tmp_path / "out")
        merged = load_file(str(tmp_path / "out/model.safetensors"))["w"]
        assert merged.dtype == torch.bfloat16 and merged.item() == 1 + 2**-6

    def test_a_stored_tied_embedding_is_an_alias(self, folder: Folders, tmp_path: Path) -> None:
        tied = {"model_type": "tiny", "tie_word_embeddings": True}
        table = torch.randn(4, 3)
        name = "model.language_model.embed_tokens.weight"
        start = folder("base", {name: table}, config=tied)
        expert = folder("e", {name: table + 1, "lm_head.weight": (table + 1).clone()}, config=tied)
        merge("ties", start, [expert], tmp_path / "out")
        assert set(load_file(str(tmp_path / "out/model.safetensors"))) == {name}
        broken = folder("x", {name: table + 1, "lm_head.weight": table + 2}, config=tied)
        with pytest.raises(CheckpointMismatch, match="lm_head.weight"):
            merge("ties", start, [broken], tmp_path / "out2")

    def test_transformers_opens_a_merged_folder(self, tmp_path: Path) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        for name in ("base", "a", "b"):
            LlamaForCausalLM(LlamaConfig(vocab_size=16, tie_word_embeddings=True, **sizes)).save_pretrained(
                tmp_path / name
            )
        merge("ties", tmp_path / "base", [tmp_path / "a", tmp_path / "b"], tmp_path / "out", density=0.5)
        model, info = LlamaForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda t: {k: v for k, v in t.items() if k != "model.norm"}, "model.norm.*missing"),
            (lambda t: {**t, "extra": torch.zeros(1)}, "'extra' isn't in the base"),
            (lambda t: {**t, "model.norm": torch.zeros(2)}, "shape of tensor 'model.norm'"),
            (lambda t: {**t, "model.norm": torch.zeros((), dtype=torch.bfloat16)}, "dtype of tensor 'model.norm'"),
            (lambda t: {**t, "model.norm": torch.tensor(float("nan"))}, "'model.norm' holds a value that isn't finite"),
        ],
    )
    def test_a_mismatched_tensor_is_named(
        self, folder: Folders, tmp_path: Path, change: Callable[[Tensors], Tensors], words: str
    ) -> None:
        base = random_tensors(0)
        start, other = folder("base", base), folder("other", change(dict(base)))
        with pytest.raises(CheckpointMismatch, match=words):
            merge("ties", start, [other], tmp_path / "out")
        assert not (tmp_path / "out/lineage.json").exists()

    def test_integer_tensors_must_be_the_same(self, folder: Folders, tmp_path: Path) -> None:
        base, other = {"ids": torch.arange(3)}, {"ids": torch.arange(3) + 1}
        start = folder("base", base)
        merge("ties", start, [folder("same", base)], tmp_path / "out")
        assert load_file(str(tmp_path / "out/model.safetensors"))["ids"].tolist() == [0, 1, 2]
        with pytest.raises(CheckpointMismatch, match="'ids'"):
            merge("ties", start, [folder("other", other)], tmp_path / "out2")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"density": 1.2}, "density"),
            ({"density": [0.5]}, "one per model"),
            ({"weights": [1.0]}, "one per model"),
            ({"weights": [1.0, -1.0]}, "weight"),
            ({"weights": [0.0, 0.0]}, "weight"),
            ({"lam": float("inf")}, "lambda"),
            ({"method": "slerp"}, "slerp"),
            ({"method": "linear", "weights": [0.5, 0.6], "normalize": False}, "sum to 1.1"),
        ],
    )
    def test_wrong_parameters(self, folder: Folders, tmp_path: Path, options: dict[str, object], words: str) -> None:
        base = random_tensors(0)
        start, models = folder("base", base), [folder("a", moved(base, 1)), folder("b", moved(base, 2))]
        method = str(options.pop("method", "ties"))
        with pytest.raises(ValueError, match=words):
            merge(method, start, models, tmp_path / "out", **options)  # type: ignore[arg-type]

    def test_never_writes_over_a_checkpoint(self, folder: Folders, tmp_path: Path) -> None:
        base = random_tensors(0)
        start, model = folder("base", base), folder("a", moved(base, 1))
        with pytest.raises(ValueError, match="one of the checkpoints"):
            merge("ties", start, [model], model)
        merge("ties", start, [model], tmp_path / "out")
        with pytest.raises(ValueError, match="already holds"):
            merge("ties", start, [model], tmp_path / "out")

    def test_an_empty_or_broken_folder_is_named(self, folder: Folders, tmp_path: Path) -> None:
        start = folder("base", random_tensors(0))
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match="empty"):
            merge("ties", start, [tmp_path / "empty"], tmp_path / "out")
        (tmp_path / "empty/model.safetensors").write_bytes(b"\xff" * 40)
        with pytest.raises(CheckpointMismatch, match="header"):
            merge("ties", start, [tmp_path / "empty"], tmp_path / "out")
