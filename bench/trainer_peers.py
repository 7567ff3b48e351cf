"""Linear and TIES merges held against mergekit's (GRPO against TRL: tests/trainer/rl/test_trl_learner.py).

Linear and TIES of a sharded Qwen3-VL, at several densities and weights, in fp32; the weights must be
mergekit's within 1e-6. Where two elements of a delta have the same magnitude at the edge of what is kept, we keep the
first and mergekit whichever its sort brings: such elements are left out, counted and bounded. Then time and memory of
a larger merge.

The peer lives in an environment of its own, see `bench/peers_env.py`.
"""

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench import peers_env  # noqa: E402
from bench.timing import measured_memory, result  # noqa: E402


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    yield from merges()
    yield from merge_cost(small)


MERGES: dict[str, dict[str, Any]] = {
    "ties": {"density": [0.5, 0.5], "weight": [1.0, 1.0]},
    "ties, sparse": {"density": [0.1, 0.03], "weight": [1.0, 1.0]},
    "ties, unequal": {"density": [0.7, 0.2], "weight": [0.3, 1.7], "lambda": 0.6},
    "ties, summed": {"density": [0.4, 0.4], "weight": [0.5, 0.8], "normalize": False, "lambda": 1.4},
    "ties, all kept": {"density": [1.0, 1.0], "weight": [1.0, 0.5]},
    "linear": {"weight": [0.25, 0.75]},
    "linear, normalised": {"weight": [1.0, 3.0]},
}
MERGE_TOLERANCE = 1e-6


def merges() -> Iterator[dict[str, Any]]:
    """Merged weights beside mergekit's, over a sharded Qwen3-VL. Raises `AssertionError` where they differ."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base, experts = _experts(folder, 2)
        _by_mergekit(folder, base, experts, MERGES)
        for place, (case, options) in enumerate(MERGES.items()):
            out = folder / f"ours-{place}"
            _by_ours(base, experts, options, out)
            apart, _ = _apart(base, experts, options, folder / f"mergekit-{place}", out)
            assert apart <= MERGE_TOLERANCE, f"{case}: weights differ by {apart}"
            yield result(
                f"merge ({case}): weights, difference from mergekit's",
                apart,
                "largest",
                "bound",
                MERGE_TOLERANCE,
                digits=12,
            )


def _moved(model: Any, seed: int, scale: float) -> Any:
    """A copy whose weights are a little off, so that ratios leave the clip's range and the KL isn't 0."""
    import torch

    other = copy.deepcopy(model)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += torch.randn(parameter.shape, generator=source) * scale
    return other


def _experts(folder: Path, count: int) -> tuple[Path, list[Path]]:
    """A tiny Qwen3-VL in several shards, and models that went their own way from it."""
    from bench.tiny import rows as screens
    from bench.tiny import tiny_processor
    from trainer.modeling.checkpoint import quiet
    from trainer.modeling.model import build_model

    processor = tiny_processor(screens(8))
    base = build_model(processor.preset, processor.tokenizer, seed=1)
    folders = [folder / "base", *(folder / f"expert{place}" for place in range(count))]
    for place, path in enumerate(folders):
        model = _moved(base, place, 0.003) if place else base
        with quiet():
            model.save_pretrained(path, max_shard_size="200KB")
        assert (path / "model.safetensors.index.json").exists()
    return folders[0], folders[1:]


def _by_mergekit(folder: Path, base: Path, experts: list[Path], cases: dict[str, dict[str, Any]]) -> list[Any]:
    """Each case into mergekit-0, mergekit-1, …; → seconds and MiB of each."""
    listed = []
    for place, (case, options) in enumerate(cases.items()):
        each = [
            {key: values[i] for key, values in options.items() if isinstance(values, list)} for i in range(len(experts))
        ]
        shared = {key: value for key, value in options.items() if not isinstance(value, list)}
        models = [{"model": str(path), "parameters": own} for path, own in zip(experts, each, strict=True)]
        config = {
            "merge_method": case.partition(",")[0],
            "dtype": "float32",
            "models": models,
            "parameters": {"normalize": True, **shared},
        }
        if config["merge_method"] == "ties":
            config["base_model"] = str(base)
        listed.append({"out": str(folder / f"mergekit-{place}"), "config": config})
    (folder / "merges.json").write_text(json.dumps(listed))
    found: list[Any] = json.loads(peers_env.run(HERE / "merge_mergekit.py", folder / "merges.json").splitlines()[-1])
    return found


def _by_ours(base: Path, experts: list[Path], options: dict[str, Any], out: Path) -> None:
    from trainer.merging.merge import merge

    words = {"weight": "weights", "lambda": "lam"}
    given = {words.get(key, key): value for key, value in options.items()}
    merge("ties" if "density" in options else "linear", base, experts, out, **given)


def _apart(base: Path, experts: list[Path], options: dict[str, Any], one: Path, other: Path) -> tuple[float, int]:
    """Largest absolute difference of two folders' weights, ties aside, and how many elements are apart by ties.

    Raises `AssertionError` if the folders hold other tensors.
    """
    import torch

    from trainer.modeling.tensors import WeightFiles

    left, right, start = WeightFiles(one), WeightFiles(other), WeightFiles(base)
    moved = [WeightFiles(path) for path in experts]
    assert set(left.tensors) == set(right.tensors), sorted(set(left.tensors) ^ set(right.tensors))
    largest, tied = 0.0, 0
    for key in left.tensors:
        apart = (left.read(key) - right.read(key)).abs()
        at_edge = torch.zeros(apart.shape, dtype=torch.bool)
        if "density" in options and float(apart.max()) > 0:
            for files, density in zip(moved, options["density"], strict=True):
                at_edge |= _at_edge(files.read(key) - start.read(key), density)
        tied += int(((apart > MERGE_TOLERANCE) & at_edge).sum())
        largest = max(largest, float(apart.masked_fill(at_edge, 0.0).max()))
    return largest, tied


def _at_edge(delta: Any, density: float) -> Any:
    """Where a delta has the magnitude of the smallest kept entry and more entries have it than there is room for."""
    import torch

    size = delta.abs()
    room = max(int(density * size.numel()), 1)
    edge = size.reshape(-1).kthvalue(size.numel() - min(room, size.numel()) + 1).values
    return (size == edge) if int((size >= edge).sum()) > room else torch.zeros_like(size, dtype=torch.bool)


def merge_cost(small: int = 1) -> Iterator[dict[str, Any]]:
    """TIES of three experts of a decoder of 40 million weights, in shards of 50 MB: time and memory of both."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from trainer.modeling.checkpoint import quiet

    width = 512 // (4 if small > 1 else 1)
    config = Qwen3Config(
        vocab_size=32_000,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        tie_word_embeddings=True,
    )
    options = {"density": [0.5, 0.3, 0.2], "weight": [1.0, 1.0, 0.5]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.manual_seed(0)
        base = Qwen3ForCausalLM(config)
        paths = [folder / "base", *(folder / f"expert{place}" for place in range(3))]
        for place, path in enumerate(paths):
            with quiet():
                (_moved(base, place, 0.001) if place else base).save_pretrained(path, max_shard_size="50MB")
        count = sum(p.numel() for p in base.parameters())
        del base
        [theirs] = _by_mergekit(folder, paths[0], paths[1:], {"ties": options})
        job = {
            "base": str(paths[0]),
            "experts": [str(path) for path in paths[1:]],
            "options": options,
            "out": str(folder / "ours"),
        }
        made = subprocess.run(
            [sys.executable, __file__, json.dumps(job)], check=True, stdout=subprocess.PIPE, text=True
        )
        ours = json.loads(made.stdout.splitlines()[-1])
        apart, tied = _apart(paths[0], paths[1:], options, folder / "mergekit-0", folder / "ours")
        assert apart <= MERGE_TOLERANCE and tied <= count / 1e5, f"weights differ by {apart}, {tied} of {count} by ties"
    size = f"merge, ties of 3 experts of {count / 1e6:.0f} M weights"
    yield result(f"{size}: time", ours["cpu"], "CPU s", "mergekit", theirs["cpu"], digits=2)
    yield result(f"{size}: time by the clock", ours["seconds"], "s", "mergekit", theirs["seconds"], digits=2)
    yield result(f"{size}: memory", ours["mib"], "MiB above the start", "mergekit", theirs["mib"])


def _own_merge(text: str) -> None:
    """One merge in this process, for `merge_cost`; prints its seconds and MiB."""
    import safetensors.torch  # noqa: F401  (before the memory is taken)
    import torch

    import trainer.merging.merge  # noqa: F401

    torch.set_num_threads(1)
    job = json.loads(text)
    experts = [Path(path) for path in job["experts"]]
    measured = measured_memory(lambda: _by_ours(Path(job["base"]), experts, job["options"], Path(job["out"])))
    print(json.dumps(measured))


if __name__ == "__main__":
    _own_merge(sys.argv[1])
