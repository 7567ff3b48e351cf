"""The card of a checkpoint, written from its lineage and its held-out figures: `README.md` with the front matter that
the Hugging Face hub reads, and `LICENSES.md`. Exports, the API and the folder of its version say the same.

In a version's folder both are small texts beside the manifest and no files that this names: the same weights get a
longer card once they are evaluated, and neither their version nor their data version changes by it. Each is put whole.
Behind a URL other machines read them as they read manifests.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.origins import Origins, origins
from pipelines.exports.choose import counted
from pipelines.markdown_text import markdown_text
from pipelines.store import Store, put_text
from pipelines.store.manifest import Manifest, mainline_key
from pipelines.training_data.dataset_card import Card, Group, card_texts
from pipelines.training_data.shards import ASSET as SHARDS
from trainer.stages.assets import SETTINGS
from trainer.stages.comparison_page import interval_text

MODEL = "config.json"
"""Stands beside the weights of a checkpoint."""
OF_TRAINING = ("checkpoints/", "mid_training/", "task_pool/")
"""What of a lineage a card lists by version; the datasets stand above it."""
FIGURES = {"grounding": ("present", "absent"), "navigation": ("step", "type", "format")}
LIMITS = (
    "Trained and measured on screens of the datasets above; other languages, sizes and programs are unseen.",
    "A reply may name an element that isn't there or miss one that is: the figures say how often.",
    "Screens may hold text that others planted. The model wasn't shown to resist it, so what it may do has to be "
    "limited from outside.",
)
USE = (
    "Research on agents that act on graphical interfaces: it reads a screenshot and an instruction and replies with "
    "one action. Not for unattended use on accounts, money or personal data."
)


def is_checkpoint(asset: str) -> bool:
    """Whether an asset has such a card: a model of the trainer, of the mainline or an experiment."""
    group, _, rest = mainline_key(asset).partition("/")
    # The nano judge is no agent, and its card would claim to be one.
    return group == "checkpoints" and rest != "nano_judge"


def write_cards(store: Store, manifest: Manifest) -> str:
    """Write the card of a checkpoint, or of the one that an evaluation measured, into its version's folder; nothing for
    any other asset → why one couldn't be written: a card is no part of a version, and its lack ends no run."""
    try:
        if is_checkpoint(manifest.asset):
            _write(store, manifest)
        elif "evaluations/" in manifest.asset:
            # An evaluation changes what can be said of the checkpoint that it measured.
            for asset, version in manifest.inputs.items():
                if is_checkpoint(asset):
                    _write(store, store.version(asset, version), manifest)
    except (OSError, ValueError, TypeError, KeyError) as error:
        return f"{manifest.asset}@{manifest.version}: its card wasn't written: {type(error).__name__}: {error}"
    return ""


def _write(store: Store, manifest: Manifest, evaluation: Manifest | None = None) -> None:
    model = next((e.path.partition("/")[2] for e in manifest.files if e.path.endswith(f"/{MODEL}")), MODEL)
    # A reader puts their own folder in the place of these words.
    place = f"THIS FOLDER/{model.removesuffix(MODEL)}".rstrip("/")
    card = checkpoint_card(Manifests(store), manifest, place, evaluation=evaluation)
    put = put_text if store.copies is None else store.copies.write_text
    for name, text in card_texts(card).items():
        put(manifest.directory / name, text)


def checkpoint_card(
    manifests: Manifests, manifest: Manifest, place: str, how: str = "", evaluation: Manifest | None = None
) -> Card:
    """What is said of a checkpoint for people: `place`, by which `transformers` loads it, `how` it came to be there,
    and its figures by `evaluation` (default: the current one, if it measured these very weights)."""
    node = (manifest.asset, manifest.version)
    found = origins(manifests, manifests.start(f"{manifest.asset}@{manifest.version}"))
    # Not past older agents: what those were trained on is their card's matter.
    own = manifests.upstream([node], past_agents=False)
    groups: Counter[Group] = Counter()
    for (asset, _), shards in own.items():
        if asset == SHARDS and shards is not None:
            groups.update(counted(shards))
    if evaluation is None:
        evaluation = manifests.current(_evaluation_of(manifest))
    return Card(
        title=f"{manifest.asset}, a GUI agent",
        about="\n".join([*([f"{how}\n"] if how else []), *_about(manifest, found, place, evaluation)]),
        groups=dict(groups),
        lineage={manifest.asset: manifest.version} | dict(sorted(n for n in own if n[0].startswith(OF_TRAINING))),
        front={
            "library_name": "transformers",
            "pipeline_tag": "image-text-to-text",
            "tags": "[gui-agent, vesper]",
            "datasets": json.dumps(sorted(one.name for one in found.datasets)),
        },
        end=f"`vesper lineage {manifest.asset}@{manifest.version}` lists all that it was made from; `lineage.json` has "
        "the settings and seeds of the run that made it.",
    )


def _evaluation_of(manifest: Manifest) -> str:
    return manifest.asset.replace("checkpoints/", "evaluations/")


def _about(manifest: Manifest, found: Origins, place: str, evaluation: Manifest | None) -> Iterator[str]:
    yield f"{USE}\n\n```python"
    yield f'model = transformers.AutoModelForImageTextToText.from_pretrained("{place}")\n```\n\n## Data\n'
    yield "| dataset | revision | licence | role | rows |\n|---|---|---|---|---|"
    for one in sorted(found.datasets, key=lambda one: (one.role, one.name)):
        rows = ", ".join(f"{name} {count:,}" for name, count in one.rows.items() if count is not None)
        cells = (one.name, one.revision, one.licence, one.role, rows)
        yield f"| {' | '.join(markdown_text(cell, 200) for cell in cells)} |"
    for loop in found.generated:
        yield f"\n{loop.verified} of {loop.trajectories} generated trajectories of {loop.rounds} rounds were verified."
    if found.judges:
        judges = {markdown_text(f"{one.judge} {one.model}".strip()) for one in found.judges}
        yield f"\nJudged by {', '.join(sorted(judges))}."
    if found.missing:
        yield f"\nNo longer in the store, so not counted here: {', '.join(sorted(found.missing))}."
    yield "\n## Training\n"
    if settings := manifest.json_file(SETTINGS):
        yield f"```json\n{json.dumps(settings, indent=1, sort_keys=True)}\n```\n"
    yield f"Code {manifest.code_revision or 'unknown'}.\n"
    # Figures of another version of these weights would be a claim nobody has checked.
    if evaluation is None or evaluation.inputs.get(manifest.asset) != manifest.version:
        yield f"## Held-out figures\n\n`{_evaluation_of(manifest)}` has not evaluated this version."
    else:
        yield f"## Held-out figures ({evaluation.asset}@{evaluation.version})\n"
        yield from _figures(evaluation)
    yield "\n## Limits\n"
    yield from (f"- {line}" for line in LIMITS)
    yield from (
        f"- The check `{c.name}` failed: found {markdown_text(c.found)}, expected {markdown_text(c.expected)}."
        for c in manifest.checks
        if not c.passed
    )
    yield "\nThe rows below are those of the shards that it was trained from."


def _figures(evaluation: Manifest) -> Iterator[str]:
    """Held-out figures with their 95 % intervals, and below each domain what needs no model of the screen; what was
    counted, where an evaluation tells no more."""
    report = evaluation.json_file("evaluation.json")
    if not report:
        yield "| measure | value |\n|---|---|"
        for measure, value in evaluation.counts.items():
            if isinstance(value, int | float):
                yield f"| {markdown_text(measure)} | {f'{value:.4f}' if isinstance(value, float) else value} |"
        return
    yield "Held-out samples, in percent with 95 % intervals; controls look at no screen, or at another.\n"
    yield "| domain | measure | | n |\n|---|---|---|---:|"
    for domain, found in sorted(report["summary"].items()):
        for measure in FIGURES["grounding" if domain == "grounding" else "navigation"]:
            yield from _row(domain, measure, found.get(measure))
        for name, value in found["controls"].items():
            yield from _row(domain, f"control: {name.replace('_', ' ')}", value)


def _row(domain: str, measure: str, value: Mapping[str, Any] | None) -> Iterator[str]:
    if value and value.get("n"):
        yield f"| {domain} | {measure} | {interval_text(value)} | {value['n']} |"
