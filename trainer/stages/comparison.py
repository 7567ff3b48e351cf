"""Two runs of one stage beside each other: figures with paired intervals, curves, samples where the answers differ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.store import PartSpec, Store, StoreError
from pipelines.store.manifest import Manifest, mainline_key
from schemas.ids import digest
from schemas.settings import differing
from trainer.data.rows import light_rows, with_pictures
from trainer.evaluation.evaluate import compare
from trainer.modeling.batches import row_images
from trainer.runtime.tracking import FOLDER
from trainer.settings.stage_checks import ALL_COMPARED, SAME_SAMPLES
from trainer.settings.stages import HELDOUT
from trainer.stages import comparison_page
from trainer.stages.assets import CHECKPOINTS, SETTINGS
from trainer.stages.compared import SAMPLES, Comparison, DifferingSample, Figure, picture_url
from trainer.stages.compared_data import compare_mixtures, compare_verdicts
from trainer.stages.experiments import GROUP, MAINLINE, MIXED, compared_of, names, read
from trainer.statistics import over

CODE_VERSION = "3"
MEASURES = {"grounding": ("hit", "format"), "navigation": ("step", "type", "format")}
CURVES = ("train/loss", "train/reward", "eval/all_loss", "eval/reward")


def compare_sides(store: Store, first: str, second: str, stage: str = "") -> Comparison:
    """Two sides (an experiment's name, or `mainline`) at a stage (default: the last that both evaluated). Raises
    `StoreError` if there is no such stage."""
    stage = stage or _common(store, first, second)[-1]
    found = [compared_of(store, side, stage) for side in (first, second)]
    for side, manifest in zip((first, second), found, strict=True):
        if manifest is None:
            wanted = (
                f"isn't evaluated there yet; run evaluations/{stage}" if stage in CHECKPOINTS else "isn't there yet"
            )
            raise StoreError(f"{side}: {stage} {wanted}")
    one, other = (manifest for manifest in found if manifest is not None)
    defined = [read(store, side) if side != MAINLINE else None for side in (first, second)]
    why = "; ".join(dict.fromkeys(side.why for side in defined if side is not None and side.why))
    if stage not in CHECKPOINTS:
        compare_data = compare_mixtures if stage == MIXED else compare_verdicts
        said = [side.settings if side is not None else {} for side in defined]
        return replace(compare_data(store, stage, (first, second), (one, other)), differs=differing(*said), why=why)
    a, b = (manifest.read("records").to_pylist() for manifest in (one, other))
    figures = tuple(
        # Second minus first: above 0 the experiment did better.
        Figure(name, measure, _over(a, name, measure), _over(b, name, measure), compare(b, a, measure, name))
        for name, measures in MEASURES.items()
        if any(record["objective"] == name for record in a)
        for measure in measures
    )
    samples, unlike = _differing(store, a, b)
    made = [_checkpoint(store, manifest, stage) for manifest in (one, other)]
    kept = [checkpoint for checkpoint in made if checkpoint is not None]
    whole = Comparison(stage, (first, second), (one, other), figures, _curves(made), tuple(samples), unlike)
    return replace(whole, differs=differing(*map(_made_with, kept)) if len(kept) == 2 else {}, why=why)


def _made_with(checkpoint: Manifest) -> dict[str, Any]:
    """Settings and inputs of a checkpoint; inputs by the mainline's name for them, whoever made them."""
    inputs = {mainline_key(asset): f"{asset}@{version}" for asset, version in checkpoint.inputs.items()}
    return {**checkpoint.json_file(SETTINGS), **inputs}


def _common(store: Store, first: str, second: str) -> list[str]:
    """The stages of the experiment that both sides have, in its order. Raises `StoreError` if there is none."""
    stages = next((read(store, side).stages for side in (second, first) if side != MAINLINE), ())
    found = [stage for stage in stages if all(compared_of(store, side, stage) for side in (first, second))]
    if not found:
        raise StoreError(
            f"{first} and {second}: expected a stage that both have evaluated, found none of {list(stages)}"
        )
    return found


def _over(records: Sequence[Mapping[str, Any]], name: str, measure: str) -> dict[str, object]:
    return over([record for record in records if record["objective"] == name], measure, "cluster")


def _checkpoint(store: Store, evaluation: Manifest, stage: str) -> Manifest | None:
    """The very checkpoint that was evaluated; None if it was collected since."""
    for asset, version in evaluation.inputs.items():
        # By the end of the key: an experiment keeps its checkpoint under its own name.
        if asset.endswith(f"checkpoints/{stage}"):
            try:
                return store.version(asset, version)
            # Collected since: figures stand without their curves.
            except StoreError:
                return None
    return None


def _curves(made: Sequence[Manifest | None]) -> dict[str, tuple[list[tuple[int, float]], list[tuple[int, float]]]]:
    read_of = [_scalars(manifest) if manifest is not None else {} for manifest in made]
    tags = [tag for tag in CURVES if any(tag in found for found in read_of)]
    return {tag: (read_of[0].get(tag, []), read_of[1].get(tag, [])) for tag in tags}


def _scalars(manifest: Manifest) -> dict[str, list[tuple[int, float]]]:
    """What a training wrote for TensorBoard; {} where the package isn't installed or nothing was written."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return {}
    # Nothing recorded for TensorBoard: don't fetch a checkpoint to find that out.
    if not any(f"/{FOLDER}/" in entry.path for entry in manifest.side_files):
        return {}
    _ = manifest.root  # fetches them
    # All points: the package samples ten thousand by default.
    events = EventAccumulator(str(manifest.directory / FOLDER), size_guidance={"scalars": 0})
    events.Reload()
    there = set(events.Tags()["scalars"])
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in CURVES if tag in there}


def _differing(
    store: Store, first: Iterable[Mapping[str, Any]], second: Iterable[Mapping[str, Any]]
) -> tuple[list[DifferingSample], int]:
    other = {record["sample_id"]: record for record in second}
    pairs = [(record, other[record["sample_id"]]) for record in first if record["sample_id"] in other]
    unlike = [pair for pair in pairs if _right(pair[0]) != _right(pair[1])]
    unlike.sort(key=lambda pair: digest(pair[0]["sample_id"]))  # the same ones each time, and no source before others
    shown = {pair[0]["sample_id"]: pair for pair in unlike[:SAMPLES]}
    heldout = store.require(HELDOUT)
    rows = [row for row in light_rows(heldout, ("test",)) if row["sample_id"] in shown]
    found = []
    for row in with_pictures(heldout, rows):
        one, two = shown[row["sample_id"]]
        found.append(
            DifferingSample(
                str(row["sample_id"]),
                comparison_page.question_of(row),
                str(one["answer"]),
                (str(one["reply"]), str(two["reply"])),
                (_right(one), _right(two)),
                _picture(row),
            )
        )
    return found, len(unlike)


def _right(record: Mapping[str, Any]) -> bool:
    # What counts as right in each domain.
    return bool(record["hit" if record["objective"] == "grounding" else "step"])


def _picture(row: Mapping[str, object]) -> str:
    images = row_images(row)
    return picture_url(images[-1]) if images else ""


def build_comparison(store: Store) -> Manifest:
    """`experiments/comparison`: each experiment beside the mainline, as `page.html` and `comparison.md`: its last
    checkpoint, its mixture, its judge on each source. Raises `StoreError` if there is nothing to compare."""
    found, waiting = [], []
    for name in names(store):
        try:
            # One experiment that can't be compared yet must not keep the others off the page.
            common = _common(store, MAINLINE, name)
            # Checkpoints lead from one to the next: the last one tells of all.
            trained = [stage for stage in common if stage in CHECKPOINTS][-1:]
            shown = [*(stage for stage in common if stage not in CHECKPOINTS), *trained]
            found += [compare_sides(store, MAINLINE, name, stage) for stage in shown]
        except StoreError as error:
            waiting.append(str(error))
    if not found:
        raise StoreError(
            f"{GROUP}/comparison: nothing to compare yet; {'; '.join(waiting) or 'there is no experiment'}; "
            "`vesper experiments new` or the job new_experiment begins one"
        )
    inputs = {manifest.asset: manifest.version for one in found for manifest in one.versions}
    spec = PartSpec("comparison", digest([CODE_VERSION, inputs, [one.why for one in found]]))
    with store.build(f"{GROUP}/comparison", code_version=CODE_VERSION, inputs=inputs, parts=[spec]) as build:

        def write(out: Any) -> dict[str, int]:
            out.bytes("page.html", comparison_page.page(found).encode())
            out.bytes("comparison.md", comparison_page.markdown(found).encode())
            return {
                "experiments": len({one.sides[1] for one in found}),
                "differing samples": sum(one.differing for one in found),
            }

        counts = build.run_part(spec, write).counts
        said = "; ".join(waiting) or len(found)
        # A paired difference means something over the same samples alone.
        unequal = [
            f"{one.sides[1]}: {figure.domain} {figure.measure}"
            for one in found
            for figure in one.figures
            if not figure.first["n"] == figure.second["n"] == figure.difference["n"] > 0
        ]
        checks = [
            SAME_SAMPLES.check(not unequal, "; ".join(unequal) or "all", "all figures", len(unequal), 0),
            ALL_COMPARED.check(not waiting, said, f"{len(found) + len(waiting)} experiments", len(found)),
        ]
        return build.commit(counts=counts, checks=checks)
