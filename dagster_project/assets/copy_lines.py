"""Lines to copy from an asset's page: how to open this version in the tools that people use."""

from dagster_project.lineage.model_card import MODEL, is_checkpoint
from dagster_project.stages.stage import GraphStage
from pipelines.store.manifest import Manifest
from pipelines.training_data.shards import ASSET as SHARDS
from quality.browser.view import browse_line


def copy_lines(stage: GraphStage, manifest: Manifest) -> str:
    """Markdown with the lines for a version; empty where only Vesper reads it, and no item of it can be looked at. Its
    folder holds all of its files."""
    folder, name = manifest.directory, f"{manifest.asset}@{manifest.version[:8]}"
    model = next((e.path for e in manifest.files if e.path.endswith(f"/{MODEL}")), None)
    if model is not None:
        # Weights may lie in a folder below the version, which is what a loader wants.
        weights = folder / model.partition("/")[2].removesuffix(MODEL)
        # Commands know checkpoints by their names, and the export of one by its folder.
        called = name if is_checkpoint(manifest.asset) else weights
        python = (
            "from transformers import AutoModelForImageTextToText\n"
            f'model = AutoModelForImageTextToText.from_pretrained("{weights}")\n'
        )
        return _blocks(python, f"vesper serve {called}\nvesper eval {called} --suite heldout\nvllm serve {weights}\n")
    if manifest.files and stage.form is not None:
        loading = f"{stage.form.loading}\n".replace("THIS FOLDER", str(folder))
        return _blocks(loading, "") if stage.form.language == "python" else _blocks("", loading)
    tables = sorted({entry.table for entry in manifest.files if entry.table})
    if manifest.asset == SHARDS:
        # Shards beside tables of the index: only the former are rows to train on.
        patterns = {"samples": "*-[0-9][0-9][0-9].parquet"}
    elif stage.table in tables:
        patterns = {table: f"*.{table}.parquet" for table in tables}
    else:
        # Neither weights nor tables: there may be items of it to browse.
        return _blocks("", browse_line(manifest.asset))
    lines = ["from datasets import load_dataset"]
    lines += [
        f'{table} = load_dataset("parquet", data_files="{folder}/{pattern}", split="train")'
        for table, pattern in patterns.items()
    ]
    return _blocks(
        "\n".join(lines) + "\n",
        f"vesper promote {manifest.asset} --list\nvesper explain ITEM_ID\n{browse_line(manifest.asset)}",
    )


def _blocks(python: str, shell: str) -> str:
    blocks = (("python", python), ("sh", shell))
    return "".join(f"```{language}\n{lines}```\n" for language, lines in blocks if lines)
