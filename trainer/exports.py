"""A checkpoint exported: its Hugging Face folder whole, with a model card, lineage, and the licences of its data."""

import shutil
from pathlib import Path

from pipelines.exports.filters import Refuses
from pipelines.exports.folder import ExportPlan, Report, finish, open_folder
from pipelines.store import Manifest
from pipelines.store.files import file_sha256
from pipelines.training_data.dataset_card import CARD, LICENCES, Card, Group
from pipelines.whole_files import whole_file
from trainer.modeling.tensors import REMAINDER
from trainer.stages.assets import checkpoint_folder

CHECKPOINT = {
    "hub": "Hugging Face `transformers` (`from_pretrained`), and whoever takes such a folder: vLLM, TRL, verl"
}
"""Form → who loads it."""


def export_checkpoint(
    checkpoint: Manifest, form: str, folder: Path, card: Card, report: Report = lambda line: None, *, refuses: Refuses
) -> dict[Group, int]:
    """Copy a checkpoint's folder and write its card → the rows that it was trained on, by group. Files that are there
    already, whole, aren't copied again. Raises `ValueError` if the folder holds something else, or if the policy
    refuses the licence of a source that it was trained on.
    """
    plan = ExportPlan("checkpoint", form, checkpoint.asset, checkpoint.version, {"form": "1"})
    root = checkpoint_folder(checkpoint)  # first: what is no checkpoint makes no folder
    open_folder(folder, plan, card.groups, refuses)
    digests = {checkpoint.folder / entry.path: entry.sha256 for entry in (*checkpoint.files, *checkpoint.side_files)}
    own = (CARD, LICENCES, REMAINDER)  # what training goes on from is in no form that others read
    for path in sorted(found for found in root.rglob("*") if found.is_file()):
        if not {*path.relative_to(root).parts}.isdisjoint(own):
            continue
        target = folder / path.relative_to(root)
        # files that a manifest lists have a digest already
        wanted = digests.get(path) or file_sha256(path)
        if target.is_file() and file_sha256(target) == wanted:
            continue
        with whole_file(target, alone=True) as part:
            shutil.copyfile(path, part)
        report(f"{target.name}: {target.stat().st_size} bytes")
    finish(folder, card, {})
    return dict(card.groups)
