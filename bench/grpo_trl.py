"""GRPO by TRL on a batch that is given; runs in the peers' environment (`bench/trainer_peers.py` starts it).

    grpo_trl.py FOLDER    reads policy/, reference/, batch.safetensors and cases.json there, writes trl.safetensors

TRL's own `GRPOTrainer` computes all: advantages where it computes them, behind a rollout function that hands it the
replies; the reference's log-probabilities from its own reference model; the loss by `compute_loss` in training mode.
`use_bias_correction_kl`, on by default in TRL, multiplies the KL by the ratio; it is off here, since the method's KL is
plain k3.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText, AutoTokenizer, logging
from trl import GRPOConfig, GRPOTrainer


def trainer_of(folder: Path, rewards: list[float], group: int, options: dict[str, Any]) -> GRPOTrainer:
    """TRL's trainer on the policy, with the reference beside it."""
    batch = load_file(folder / "batch.safetensors")
    tokenizer = AutoTokenizer.from_pretrained(folder / "reference")
    # TRL loads its reference from the folder that the policy's config names, so the policy comes as weights
    model = AutoModelForImageTextToText.from_pretrained(folder / "reference", dtype=torch.float32)
    model.load_state_dict(AutoModelForImageTextToText.from_pretrained(folder / "policy").state_dict())
    count = len(batch["completion_ids"])

    def replies(prompts: list[Any], trainer: Any) -> dict[str, list[list[float]]]:
        masks = batch["completion_mask"].bool()
        kept = [ids[mask].tolist() for ids, mask in zip(batch["completion_ids"], masks, strict=True)]
        return {"prompt_ids": [[1, 2]] * count, "completion_ids": kept, "logprobs": [[0.0] * len(ids) for ids in kept]}

    settings = GRPOConfig(
        output_dir=str(folder / "trl"),
        use_cpu=True,
        bf16=False,
        report_to=[],
        disable_tqdm=True,
        temperature=1.0,
        per_device_train_batch_size=count,
        num_generations=group,
        use_bias_correction_kl=False,
        **options,
    )
    return GRPOTrainer(
        model=model,
        args=settings,
        processing_class=tokenizer,
        rollout_func=replies,
        reward_funcs=lambda completions, **_: rewards,
        train_dataset=Dataset.from_dict({"prompt": ["x"] * count}),
    )


def computed(folder: Path, name: str, case: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Advantages, reference log-probabilities, loss and the gradient of every parameter, by name."""
    flat = [reward for group in case["rewards"] for reward in group]
    trainer = trainer_of(folder, flat, len(case["rewards"][0]), case["options"])
    trainer.current_gradient_accumulation_steps = 1  # its own loop sets this
    trainer.model.train()
    scored = trainer._generate_and_score_completions([{"prompt": "x"}] * len(flat))
    batch = load_file(folder / "batch.safetensors")
    pictures = {
        "pixel_values": batch["pixel_values"],
        "image_grid_thw": batch["image_grid_thw"],
        "mm_token_type_ids": batch["mm_token_type_ids"],
        "num_images": [1] * len(flat),
    }
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    with torch.no_grad():
        reference, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.ref_model, ids, attention, batch["completion_ids"].shape[1], **pictures
        )
    inputs = {key: batch[key] for key in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")}
    loss = trainer.compute_loss(
        trainer.model,
        {
            **inputs,
            **pictures,
            "advantages": scored["advantages"],
            "old_per_token_logps": batch["old"],
            "ref_per_token_logps": reference,
            "num_items_in_batch": batch["completion_mask"].sum(),
        },
    )
    loss.backward()
    found = {"advantages": scored["advantages"], "reference": reference, "loss": loss.detach().reshape(1)}
    for metric in ("kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "entropy"):
        found[f"metric/{metric}"] = torch.tensor([trainer._metrics["train"][metric][-1]])
    found |= {f"grad/{key}": p.grad for key, p in trainer.model.named_parameters() if p.grad is not None}
    return {f"{name}/{key}": value.contiguous() for key, value in found.items()}


def main(folder: Path) -> None:
    """All cases into one file."""
    logging.disable_progress_bar()
    found: dict[str, torch.Tensor] = {}
    for name, case in json.loads((folder / "cases.json").read_text()).items():
        found |= computed(folder, name, case)
    save_file(found, folder / "trl.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
