"""The trainer held against others: GRPO against TRL, linear and TIES merges against mergekit.

GRPO: one batch of replies to screens with pictures, on one tiny Qwen3-VL in fp32, T = 1. Both sides get the same
weights, token ids, pictures, old log-probabilities and rewards, and each computes the rest its own way: advantages,
log-probabilities, the reference's, KL, clipping, loss, and the gradient of every parameter. They must agree within
1e-5 or this raises; the lines say how far apart they are. Groups of equal rewards are left out: TRL keeps them in the
mean with an advantage of 0 (and pulls them to the reference), here they are skipped and counted (docs/method.md §7).

Merges: linear and TIES of a sharded Qwen3-VL, at several densities and weights, in fp32; the weights must be
mergekit's within 1e-6. Where two elements of a delta have the same magnitude at the edge of what is kept, we keep the
first and mergekit whichever its sort brings: such elements are left out, counted and bounded. Then time and memory of
a larger merge.

The peers live in an environment of their own, see `bench/peers_env.py`.
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

TOLERANCE = 1e-5
GROUP, PROMPTS = 4, 2
CASES: dict[str, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo"},
    "grpo, epsilon_high": {"loss_type": "grpo", "epsilon_high": 0.28},
    "grpo, sequence": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    "grpo, batch": {"loss_type": "grpo", "scale_rewards": "batch"},
    "dr_grpo, unscaled": {"loss_type": "dr_grpo", "scale_rewards": "none"},
}
COMMON = {"beta": 0.1, "epsilon": 0.2, "scale_rewards": "group", "max_completion_length": 24}


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    yield from grpo()
    yield from merges()
    yield from merge_cost(small)


# -- GRPO --------------------------------------------------------------------------------------------------------------


def grpo() -> Iterator[dict[str, Any]]:
    """Loss and gradients beside TRL's, a case after the other. Raises `AssertionError` where they differ."""
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batch = _batch(folder)
        cases = {
            case: {"rewards": batch["rewards"], "options": {**COMMON, **options}} for case, options in CASES.items()
        }
        (folder / "cases.json").write_text(json.dumps(cases))
        peers_env.run(HERE / "grpo_trl.py", folder)
        theirs = load_file(folder / "trl.safetensors")
    for case, given in cases.items():
        ours = _ours(batch, given["options"])
        found = {key.removeprefix(f"{case}/"): value for key, value in theirs.items() if key.startswith(f"{case}/")}
        apart = {key: float((ours[key] - found[key]).abs().max()) for key in found}
        assert set(ours) == set(found), sorted(set(ours) ^ set(found))
        worst = max(apart, key=lambda key: apart[key])
        assert apart[worst] <= TOLERANCE, f"{case}: {worst} differs by {apart[worst]}"
        size = max(float(value.abs().max()) for key, value in found.items() if key.startswith("grad/"))
        gradients = max(value for key, value in apart.items() if key.startswith("grad/"))
        assert gradients <= TOLERANCE * size, f"{case}: gradients differ by {gradients} of {size}"
        for what, value in (("loss", apart["loss"]), ("advantages", apart["advantages"]), ("gradients", gradients)):
            yield result(
                f"GRPO ({case}): {what}, difference from TRL's", value, "largest", "bound", TOLERANCE, digits=12
            )


def _batch(folder: Path) -> dict[str, Any]:
    """The models (saved in `folder`, for the peer, with the batch) and the batch, as ours takes it."""
    import torch
    from safetensors.torch import save_file

    from bench.tiny import rows as screens
    from bench.tiny import tiny_processor
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.generation import generate
    from trainer.modeling.model import build_model, reply_logprobs

    processor = tiny_processor(screens(8))
    reference = build_model(processor.preset, processor.tokenizer, seed=1).eval()
    policy, behaviour = (_moved(reference, seed, scale) for seed, scale in ((2, 0.012), (3, 0.012)))
    for word, model in (("reference", reference), ("policy", policy)):
        save_checkpoint(folder / word, model, processor, lineage("peers", processor.preset))
    prompts = [row for row in screens(PROMPTS, seed=5) for _ in range(GROUP)]
    replies = [
        made.token_ids
        for made in generate(
            policy, processor, prompts, temperature=1.0, max_new_tokens=24, generator=torch.Generator().manual_seed(1)
        )
    ]
    replies = [ids[: 3 + 3 * index] for index, ids in enumerate(replies)]  # of many lengths
    batch = processor.reply_batch(prompts, replies)
    with torch.no_grad():
        old = reply_logprobs(behaviour, batch)
    left = processor.prompt_batch(prompts)
    ids = torch.zeros(len(replies), max(map(len, replies)), dtype=torch.long)
    for place, reply in enumerate(replies):
        ids[place, : len(reply)] = torch.tensor(reply)
    mask = old.mask.long()
    plain = left.model_inputs()
    save_file(
        {
            "prompt_ids": left.input_ids,
            "prompt_mask": left.attention_mask,
            "completion_ids": ids,
            "completion_mask": mask,
            "old": old.logprobs,
            "pixel_values": plain["pixel_values"],
            "image_grid_thw": plain["image_grid_thw"],
            "mm_token_type_ids": torch.cat([left.mm_token_type_ids, torch.zeros_like(ids)], 1),
        },
        folder / "batch.safetensors",
    )
    rewards = torch.rand(PROMPTS, GROUP, generator=torch.Generator().manual_seed(4)).tolist()
    return {
        "policy": policy,
        "reference": reference,
        "batch": batch,
        "old": old,
        "rewards": rewards,
        "tokens": [len(reply) for reply in replies],
    }


def _moved(model: Any, seed: int, scale: float) -> Any:
    """A copy whose weights are a little off, so that ratios leave the clip's range and the KL isn't 0."""
    import torch

    other = copy.deepcopy(model)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += torch.randn(parameter.shape, generator=source) * scale
    return other


def _ours(given: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What `grpo_trl.computed` gives, by the same names."""
    import torch

    from trainer.modeling.model import reply_logprobs
    from trainer.rl.grpo import group_advantages, grpo_loss
    from trainer.settings.grpo import GrpoConfig

    config = GrpoConfig(**options)
    advantages = group_advantages(given["rewards"], config)
    assert advantages.used == PROMPTS
    policy, batch, old = given["policy"], given["batch"], given["old"]
    policy.zero_grad(set_to_none=True)
    with torch.no_grad():
        reference = reply_logprobs(given["reference"], batch)
    now = reply_logprobs(policy, batch)
    parts = grpo_loss(
        now.logprobs,
        old.logprobs,
        now.mask,
        range(len(given["tokens"])),
        advantages,
        given["tokens"],
        config,
        reference_SL=reference.logprobs,
        entropy_SL=now.entropy,
    )
    parts.loss.backward()
    assert parts.clip_low > 0 and parts.clip_high > 0 or config.importance_sampling_level == "sequence", parts
    single = {
        "loss": float(parts.loss.detach()),
        "metric/kl": parts.kl,
        "metric/entropy": parts.entropy,
        "metric/clip_ratio/low_mean": parts.clip_low,
        "metric/clip_ratio/high_mean": parts.clip_high,
    }
    return {
        "advantages": torch.tensor(advantages.values),
        "reference": reference.logprobs,
        **{key: torch.tensor([value]) for key, value in single.items()},
        **{f"grad/{key}": p.grad for key, p in policy.named_parameters() if p.grad is not None},
    }


# -- merges ------------------------------------------------------------------------------------------------------------

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
