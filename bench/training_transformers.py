"""Mid-training by transformers' `Trainer`; runs in the peers' environment (`bench/training.py` starts it).

    training_transformers.py FOLDER BATCH WARM    reads model/ and rows.jsonl there, in the order of training

Prints {"loss" of the first step, "tokens" and "tokens_per_s" of the steps after the first WARM}, by CPU seconds.
"""

import base64
import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import (
    AutoModelForImageTextToText,
    AutoTokenizer,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    logging,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil


class Rows(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """The rows in the order of the file."""

    def __init__(self, path: Path) -> None:
        self._rows = [json.loads(line) for line in path.read_text().splitlines()]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


class Collator:
    """Rows → a padded batch; labels on the answer and its end."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.images = Qwen2VLImageProcessorPil.from_pretrained(folder)
        self.image_id = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        self.tokens: list[int] = []
        """Of each batch, in order; the loader makes one ahead."""

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        pictures = [Image.open(io.BytesIO(base64.b64decode(row["picture"]))).convert("RGB") for row in rows]
        seen = self.images(images=pictures, return_tensors="pt")
        counts = (seen["image_grid_thw"].prod(-1) // self.images.merge_size**2).tolist()
        ids, labels = [], []
        for row, count in zip(rows, counts, strict=True):
            turns = json.loads(row["messages"])
            for turn in turns:  # the instruction before the picture
                if not isinstance(turn["content"], str):
                    turn["content"].sort(key=lambda part: part["type"] == "image")
            prompt = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            prompt = prompt.replace("<|image_pad|>", "<|image_pad|>" * count)
            before = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
            answer = self.tokenizer(row["answer"] + "<|im_end|>", add_special_tokens=False)["input_ids"]
            ids.append(torch.tensor(before + answer))
            labels.append(torch.tensor([-100] * len(before) + answer))
        pad = torch.nn.utils.rnn.pad_sequence
        mask = pad([torch.ones_like(row) for row in ids], batch_first=True)
        padded = pad(ids, batch_first=True, padding_value=self.tokenizer.pad_token_id)
        self.tokens.append(int(mask.sum()))
        return {
            "input_ids": padded,
            "attention_mask": mask,
            "labels": pad(labels, batch_first=True, padding_value=-100),
            "mm_token_type_ids": (padded == self.image_id).long(),
            "pixel_values": seen["pixel_values"],
            "image_grid_thw": seen["image_grid_thw"],
        }


class Clock(TrainerCallback):
    """CPU seconds at the end of each step, and losses."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.losses: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.process_time())

    def on_log(self, *_: Any, logs: dict[str, Any] | None = None, **__: Any) -> None:
        self.losses += [logs["loss"]] if logs and "loss" in logs else []


def main(folder: Path, batch: int, warm: int) -> None:
    """Train, and print the figures."""
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    rows = Rows(folder / "rows.jsonl")
    collator = Collator(folder / "model")
    clock = Clock()
    model = AutoModelForImageTextToText.from_pretrained(folder / "model", dtype=torch.float32)
    steps = len(list(rows)) // batch
    settings = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=batch,
        max_steps=steps,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        adam_beta1=0.9,
        adam_beta2=0.95,
        weight_decay=0.0,
        max_grad_norm=1.0,
        use_cpu=True,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        accelerator_config={"dispatch_batches": False},
    )
    Trainer(model=model, args=settings, data_collator=collator, train_dataset=rows, callbacks=[clock]).train()
    tokens = sum(collator.tokens[warm:])
    seconds = clock.ends[-1] - clock.ends[warm - 1]
    print(json.dumps({"loss": clock.losses[0], "tokens": tokens, "tokens_per_s": tokens / seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
