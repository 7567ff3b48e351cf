"""A checkpoint exported: its Hugging Face folder whole, with a model card, lineage, and the licences of its data."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pipelines.exports.choose import counted
from pipelines.exports.folder import ExportPlan, Report, finish, open_folder
from pipelines.markdown_text import markdown_text
from pipelines.store import Manifest, Store, StoreError
from pipelines.store.files import file_sha256
from pipelines.training_data.dataset_card import CARD, LICENCES, Card, Group
from pipelines.training_data.shards import ASSET as SHARDS
from pipelines.whole_files import whole_file
from trainer.stages.assets import checkpoint_folder

CHECKPOINT = {
    "hub": "Hugging Face `transformers` (`from_pretrained`), and whoever takes such a folder: vLLM, TRL, verl"
}
"""Form → who loads it."""
_FRONT = {"library_name": "transformers", "pipeline_tag": "image-text-to-text"}


def export_checkpoint(
    store: Store, checkpoint: Manifest, form: str, folder: Path, report: Report = lambda line: None
) -> dict[Group, int]:
    """Copy a checkpoint's folder and write its card → the rows that it was trained on, by group. Files that are there
    already, whole, aren't copied again.

    Raises `ValueError` if the folder holds something else, `StoreError` if what the checkpoint was made from is gone.
    """
    open_folder(folder, ExportPlan("checkpoint", form, checkpoint.asset, checkpoint.version, {"form": "1"}))
    root = checkpoint_folder(checkpoint)
    digests = {checkpoint.folder / entry.path: entry.sha256 for entry in (*checkpoint.files, *checkpoint.side_files)}
    for path in sorted(found for found in root.rglob("*") if found.is_file() and found.name not in (CARD, LICENCES)):
        target = folder / path.relative_to(root)
        wanted = digests.get(path) or file_sha256(path)
        if target.is_file() and file_sha256(target) == wanted:
            continue
        with whole_file(target, alone=True) as part:
            shutil.copyfile(path, part)
        report(f"{target.name}: {target.stat().st_size} bytes")
    card = checkpoint_card(store, checkpoint, f"Exported by `vesper export checkpoint --to {form}`.", "THIS FOLDER")
    finish(folder, card, {})
    return dict(card.groups)


def checkpoint_card(store: Store, checkpoint: Manifest, how: str, place: str) -> Card:
    """What is said of a checkpoint for people: `how` it came to be where it is, and `place`, by which `transformers`
    loads it. Raises `StoreError` if what it was made from is gone."""
    ancestors = dict(_ancestors(store, checkpoint))
    groups: Counter[Group] = Counter()
    for (asset, _), manifest in ancestors.items():
        if asset == SHARDS:
            groups.update(counted(manifest))
    return Card(
        title=f"{checkpoint.asset}, a GUI agent",
        about=f"{how}\n\n```python\n"
        f'model = transformers.AutoModelForImageTextToText.from_pretrained("{place}")\n```\n\n'
        f"The rows below are those of the shards that it was trained from.\n\n{_figures(store, checkpoint)}",
        groups=dict(groups),
        lineage={checkpoint.asset: checkpoint.version, **dict(sorted(ancestors))},
        front=_FRONT,
        end="`lineage.json` has the settings and seeds of the run that made it.",
    )


def _ancestors(store: Store, manifest: Manifest) -> Iterator[tuple[tuple[str, str], Manifest]]:
    """All that a version was made from, down to the shards, each once."""
    seen: set[tuple[str, str]] = set()
    waiting = list(manifest.inputs.items())
    while waiting:
        asset, version = waiting.pop()
        if (asset, version) in seen or not asset.startswith(("checkpoints/", "mid_training/", "task_pool/")):
            continue
        seen.add((asset, version))
        found = store.version(asset, version)
        yield (asset, version), found
        waiting += found.inputs.items() if asset != SHARDS else ()


def _figures(store: Store, checkpoint: Manifest) -> str:
    """The table of its held-out evaluation; that there is none, where that is so."""
    name = f"evaluations/{checkpoint.asset.rpartition('/')[2]}"
    try:
        made = store.current(name)
    except (StoreError, json.JSONDecodeError):
        made = None
    if made is None or made.inputs.get(checkpoint.asset) != checkpoint.version:
        return f"`{name}` has not evaluated this version.\n"
    rows = "".join(
        f"| {markdown_text(measure)} | {value:.4f} |\n" if isinstance(value, float) else f"| {measure} | {value} |\n"
        for measure, value in made.counts.items()
        if isinstance(value, int | float)
    )
    return f"## Held-out figures ({name}@{made.version})\n\n| measure | value |\n|---|---|\n{rows}"
