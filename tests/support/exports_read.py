"""Exports read by the peers' own loaders; runs in their environment (`bench/peers_env.py`).

    exports_read.py PEER FOLDER OUT     PEER: trl, ms-swift, llama-factory, verl, webdataset, pool-trl, pool-verl

writes to OUT a JSON line for each row that came out: its turns (role and text, `<image>` where the loader put a
picture) and the digests of its pictures' pixels. The loader decides all of it.
"""

import glob
import hashlib
import importlib.machinery
import io
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Told = tuple[list[list[str]], list[str]]


def pixels(image: Any) -> str:
    """Digest of a picture as RGB."""
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def opened(value: Any) -> Any:
    """A picture from a path, or from a struct of bytes and path."""
    from PIL import Image

    if isinstance(value, dict):
        value = io.BytesIO(value["bytes"]) if value.get("bytes") else value["path"]
    return Image.open(value)


def parts(content: Any) -> str:
    """A turn's parts as one text."""
    if isinstance(content, str):
        return content
    return "".join("<image>" if part["type"] == "image" else part["text"] for part in content)


def trl(folder: Path, column: str = "messages") -> Iterator[Told]:
    """`is_conversational`, then the messages as the vision collator makes them."""
    from datasets import load_dataset
    from trl.data_utils import is_conversational, prepare_multimodal_messages

    for row in load_dataset(str(folder), split="train"):
        assert is_conversational(row), "TRL calls it not conversational"
        given = {"images": row["images"]} if row["images"] else {}
        said = prepare_multimodal_messages(row[column], **given)
        shown = [part["image"] for turn in said for part in turn["content"] if part["type"] == "image"]
        yield [[turn["role"], parts(turn["content"])] for turn in said], [pixels(image) for image in shown]


def ms_swift(folder: Path) -> Iterator[Told]:
    """Its `load_dataset`, with the preprocessor that it picks; boxes as its template counts them in 0..1000."""
    from swift.dataset import load_dataset

    os.chdir(folder)
    data, _ = load_dataset(sorted(glob.glob("data/train-*.jsonl")), num_proc=1, strict=True, shuffle=False)
    for row in data:
        said = [[turn["role"], turn["content"]] for turn in row["messages"]]
        if said[-1][1] == "<bbox>":
            [box] = row["objects"]["bbox"]
            assert row["objects"]["bbox_type"] == "norm1"
            said[-1][1] = f"[{','.join(str(round(side * 1000)) for side in box)}]"
        yield said, [pixels(opened(image)) for image in row["images"]]


def llama_factory(folder: Path) -> Iterator[Told]:
    """Its reading of `dataset_info.json`, and its converter."""
    from transformers import Seq2SeqTrainingArguments

    sound = types.ModuleType("torchaudio")  # its plugin for media imports it at once; there is no sound here
    sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
    sys.modules.setdefault("torchaudio", sound)
    os.environ["DISABLE_VERSION_CHECK"] = "1"  # its own switch: it reads data as well beside a newer transformers
    from llamafactory.data.loader import _load_single_dataset
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.hparams import DataArguments, ModelArguments

    data_args = DataArguments(dataset_dir=str(folder), media_dir=str(folder), dataset="vesper_train")
    [attributes] = get_dataset_list(["vesper_train"], str(folder))
    model_args = ModelArguments(model_name_or_path=str(folder))
    run = Seq2SeqTrainingArguments(output_dir=str(folder.parent / "run"), use_cpu=True)
    for row in _load_single_dataset(attributes, model_args, data_args, run):
        turns = [{"role": "system", "content": row["_system"]}] if row["_system"] else []
        turns += [*row["_prompt"], *row["_response"]]
        yield [[turn["role"], turn["content"]] for turn in turns], [pixels(opened(path)) for path in row["_images"]]


def verl(folder: Path) -> Iterator[Told]:
    """`RLHFDataset`, with a processor's place taken by what it needs of one before a rollout: that there is one."""
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    files = sorted(glob.glob(f"{folder}/data/train-*.parquet"))
    config = OmegaConf.create({"cache_dir": str(folder.parent / "verl"), "filter_overlong_prompts": False})
    data = RLHFDataset(files, tokenizer=None, config=config, processor=types.SimpleNamespace(image_processor=None))
    for row in (data[place] for place in range(len(data))):
        truth = row["reward_model"]["ground_truth"]
        shown = [
            part["image"]
            for turn in row["raw_prompt"]
            for part in turn["content"]
            if isinstance(turn["content"], list) and part["type"] == "image"
        ]
        said = [[turn["role"], parts(turn["content"])] for turn in row["raw_prompt"]]
        yield [*said, ["ground_truth", truth]], [pixels(image) for image in shown]


def webdataset(folder: Path) -> Iterator[Told]:
    """Its reader and decoder."""
    import webdataset as wds

    files = sorted(glob.glob(f"{folder}/data/train-*.tar"))
    for row in wds.WebDataset(files, shardshuffle=False).decode("pil"):
        said = row["json"]["messages"]
        places = [part["image_index"] for turn in said for part in turn["content"] if part["type"] == "image"]
        shown = [next(row[key] for key in row if key.startswith(f"{place}.")) for place in places]
        yield [[turn["role"], parts(turn["content"])] for turn in said], [pixels(image) for image in shown]


PEERS: dict[str, Callable[[Path], Iterator[Told]]] = {
    "trl": trl,
    "ms-swift": ms_swift,
    "llama-factory": llama_factory,
    "verl": verl,
    "webdataset": webdataset,
    "pool-trl": lambda folder: trl(folder, "prompt"),
    "pool-verl": verl,
}


def main() -> int:
    """Read FOLDER by the loader of PEER, into OUT."""
    peer, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        for said, shown in PEERS[peer](folder):
            out.write(json.dumps([said, shown], ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
