"""Linear and TIES merges: hand-worked tensors, the laws of mergers, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from trainer.merging.merge import merge
from trainer.modeling.tensors import INDEX, CheckpointMismatch, WeightFiles

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


class TestLaws:
    @pytest.mark.parametrize("method", ["linear", "ties"])
    def test_the_order_of_the_models_changes_no_bit(self, folder: Folders, tmp_path: Path, method: str) -> None:
        base = random_tensors(0)
        models = [folder(f"m{i}", moved(base, i + 1, 0.5)) for i in range(3)]
        start = folder("base", base)
        weights, density = [0.5, 0.2, 0.3], 0.5 if method == "ties" else 1.0
        first = merge(method, start, models, tmp_path / "one", density, weights)
        order = [2, 0, 1]
        second = merge(
            method, start, [models[i] for i in order], tmp_path / "two", density, [weights[i] for i in order]
        )
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
        # int(0.5*35) + int(0.5*11) + at least one of 1 = 17 + 5 + 1 elements of 47
        assert report.total.kept[0] == pytest.approx(23 / 47)

    def test_it_is_played_as_those_experts_that_learned_from_thoughts(self, folder: Folders, tmp_path: Path) -> None:
        base = random_tensors(0)
        start, one, other = folder("base", base), folder("e", moved(base, 1)), folder("f", moved(base, 2))
        for path in (start, one, other):
            (path / "preset.json").write_text('{"name": "8b"}')
        merge("linear", start, [one, other], tmp_path / "plain")
        assert (tmp_path / "plain/preset.json").read_text() == '{"name": "8b"}'
        (one / "preset.json").write_text('{"history": "think_action", "name": "8b", "thinking": true}')
        merge("linear", start, [one, other], tmp_path / "out")
        told = json.loads((tmp_path / "out/preset.json").read_text())
        assert told == {"history": "think_action", "name": "8b", "thinking": True}

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

    def test_bf16_folders_stay_bf16_and_are_merged_in_fp32_with_a_warning(
        self, folder: Folders, tmp_path: Path
    ) -> None:
        # 1 + 2^-7 and 1 + 3*2^-7 average to 1 + 2^-6 in fp32; deltas of bf16 itself would do too, three experts not
        base = {"w": torch.tensor([1.0], dtype=torch.bfloat16)}
        values = (1 + 2**-7, 1 + 2**-7, 1 + 3 * 2**-7, 1 + 3 * 2**-7)
        models = [folder(f"m{i}", {"w": torch.tensor([v], dtype=torch.bfloat16)}) for i, v in enumerate(values)]
        with pytest.warns(UserWarning, match="BF16.*fp32"):
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
        sizes: Any = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        for name in ("base", "a", "b"):
            LlamaForCausalLM(LlamaConfig(vocab_size=16, tie_word_embeddings=True, **sizes)).save_pretrained(
                tmp_path / name
            )
        merge("ties", tmp_path / "base", [tmp_path / "a", tmp_path / "b"], tmp_path / "out", density=0.5)
        loaded: Any = LlamaForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
        model, info = loaded
        assert not info["missing_keys"] and not info["unexpected_keys"]
        assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()


class TestStreaming:
    @pytest.mark.slow
    def test_no_tensor_is_ever_whole_in_memory(self, folder: Folders, tmp_path: Path) -> None:
        reset = Path("/proc/self/clear_refs")
        if not reset.exists():
            pytest.skip("the peak of a process's memory can't be reset here")
        source = torch.Generator().manual_seed(0)
        base = {f"layers.{place}.w": torch.randn(1 << 12, generator=source) for place in range(16)}
        few = folder("few", base, shards=3)
        merge("ties", few, [few, few], tmp_path / "first", 0.5)  # what is loaded once isn't counted
        base["embed.w"] = torch.randn(1 << 23, generator=source)  # 32 MiB
        start = folder("base", base, shards=6)
        models = [
            folder(f"m{place}", {name: t * (1 + 1e-3 * place) for name, t in base.items()}, shards=6)
            for place in (1, 2)
        ]
        size = base["embed.w"].numel() * 4
        del base
        reset.write_text("5")
        before = _kib("VmRSS")
        merge("ties", start, models, tmp_path / "out", 0.5)
        assert (_kib("VmHWM") - before) * 1024 < size  # base, two models and the result together

    def test_a_file_that_was_cut_off_is_named(self, folder: Folders, tmp_path: Path) -> None:
        start, model = folder("base", random_tensors(0)), folder("m", random_tensors(1))
        file = model / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-3])
        with pytest.raises(CheckpointMismatch, match="cut off"):
            merge("ties", start, [model], tmp_path / "out")


def _kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


class TestReport:
    def test_counts_by_layer(self, folder: Folders, tmp_path: Path) -> None:
        base = {"model.layers.0.w": torch.zeros(4), "model.layers.1.w": torch.zeros(2)}
        one = {"model.layers.0.w": torch.tensor([1.0, 2.0, 0.0, 0.5]), "model.layers.1.w": torch.tensor([1.0, 0.0])}
        two = {"model.layers.0.w": torch.tensor([-1.0, 3.0, 4.0, 0.1]), "model.layers.1.w": torch.tensor([0.0, 0.0])}
        models = [folder("one", one), folder("two", two)]
        report = merge("ties", folder("base", base), models, tmp_path / "out")
        assert report.counts() == {
            "kept": [4 / 6, 4 / 6],
            "sign_conflicts": 1 / 6,
            "layers": {
                "model.layers.0": {"kept": [0.75, 1.0], "sign_conflicts": 0.25},
                "model.layers.1": {"kept": [0.5, 0.0], "sign_conflicts": 0.0},
            },
        }
        written = json.loads((tmp_path / "out/merge.json").read_text())
        assert [layer["conflicts"] for layer in written["layers"]] == [0.25, 0.0]
        assert written["total"]["kept"] == report.counts()["kept"]


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
            ({"method": "linear", "density": 0.5}, "expected density and lambda 1"),
            ({"method": "linear", "lam": 0.5}, "expected density and lambda 1"),
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
