"""A checkpoint exported: its Hugging Face folder whole, with a model card, lineage, and the licences of its data."""

import shutil
from pathlib import Path

from pipelines.exports.asset import CODE_VERSION, put_texts
from pipelines.exports.export import ExportPlan
from pipelines.exports.filters import Refuses, require_allowed
from pipelines.exports.folder import INSTEAD, Report, open_folder
from pipelines.store import CheckSpec, Manifest, PartSpec, PartWriter, Store
from pipelines.store.files import file_sha256
from pipelines.training_data.dataset_card import CARD, LICENCES, Card, Group, card_texts, write_texts
from pipelines.whole_files import link_file, whole_file
from schemas.ids import digest
from trainer.modeling.tensors import REMAINDER
from trainer.stages.assets import checkpoint_folder

CHECKPOINT = {
    "hub": "Hugging Face `transformers` (`from_pretrained`), and whoever takes such a folder: vLLM, TRL, verl"
}
"""Form → who loads it."""
SAME_FILES = CheckSpec(
    "every file of the checkpoint is in the export", "A file of the export is missing or has other bytes"
)


def export_checkpoint(
    checkpoint: Manifest, form: str, folder: Path, card: Card, report: Report = lambda line: None, *, refuses: Refuses
) -> dict[Group, int]:
    """Copy a checkpoint's folder and write its card → the rows that it was trained on, by group. Files that are there
    already, whole, aren't copied again. Raises `ValueError` if the folder holds something else, or if the policy
    refuses the licence of a source that it was trained on.
    """
    plan = ExportPlan("checkpoint", form, checkpoint.asset, checkpoint.version, {"form": "1"})
    files = _files(checkpoint)  # first: what is no checkpoint makes no folder
    open_folder(folder, plan, card.groups, refuses)
    for name, (path, sha256) in files.items():
        target = folder / name
        if target.is_file() and file_sha256(target) == sha256:
            continue
        with whole_file(target, alone=True) as part:
            shutil.copyfile(path, part)
        report(f"{target.name}: {target.stat().st_size} bytes")
    write_texts(folder, card_texts(card))
    return dict(card.groups)


def build_export(store: Store, asset: str, checkpoint: Manifest, card: Card, *, refuses: Refuses) -> Manifest:
    """Retain a checkpoint's export as an asset: its files, which are linked rather than copied, and its card. Raises
    `ValueError` if the policy refuses the licence of a source that it was trained on."""
    require_allowed(checkpoint.asset, card.groups, refuses, INSTEAD)
    files, texts = _files(checkpoint), card_texts(card)
    wanted = {name: sha256 for name, (_, sha256) in files.items()}
    model, about = (PartSpec(key, digest([CODE_VERSION, made])) for key, made in (("model", wanted), ("about", texts)))

    def link(out: PartWriter) -> None:
        for name, (path, _) in files.items():
            link_file(path, out.path(name))

    inputs = {checkpoint.asset: checkpoint.version}
    with store.build(asset, code_version=CODE_VERSION, inputs=inputs, parts=[model, about]) as build:
        made = {entry.path.partition("/")[2]: entry.sha256 for entry in build.run_part(model, link).files}
        build.run_part(about, lambda out: put_texts(out, texts))
        check = SAME_FILES.check(made == wanted, len(made.items() & wanted.items()), len(wanted))
        return build.commit(counts={"files": len(made)}, checks=[check])


def _files(checkpoint: Manifest) -> dict[str, tuple[Path, str]]:
    """Name → file of a checkpoint that is exported, and its sha256. Raises `StoreError` for what is no checkpoint."""
    root = checkpoint_folder(checkpoint)
    digests = {checkpoint.folder / entry.path: entry.sha256 for entry in (*checkpoint.files, *checkpoint.side_files)}
    own = (CARD, LICENCES, REMAINDER)  # what training goes on from is in no form that others read
    found = ((path.relative_to(root), path) for path in sorted(root.rglob("*")) if path.is_file())
    # files that a manifest lists have a digest already
    return {
        name.as_posix(): (path, digests.get(path) or file_sha256(path))
        for name, path in found
        if {*name.parts}.isdisjoint(own)
    }
