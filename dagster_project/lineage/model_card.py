"""The card of a checkpoint, written from its lineage: `README.md` in its version's folder, with the front matter that
the Hugging Face hub reads.

It is a small text beside the manifest and not one of the files that this names: the same weights get a longer card once
they are evaluated, and neither their version nor their data version changes by it. It is put whole, in one step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.origins import Origins, origins
from pipelines.markdown_text import markdown_text
from pipelines.store import Store, put_text
from pipelines.store.manifest import Manifest
from trainer.stages.comparison_page import told

CARD = "README.md"
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
    group, _, rest = asset.removeprefix("experiments/").partition("/")
    return (group == "checkpoints" and rest != "nano_judge") or rest.startswith("checkpoints/")


def write_cards(store: Store, manifest: Manifest) -> str:
    """Write the card of a checkpoint, or of the one that an evaluation measured → its text; "" for any other asset."""
    if is_checkpoint(manifest.asset):
        return write_card(store, manifest)
    if "evaluations/" in manifest.asset:
        for asset, version in manifest.inputs.items():
            if is_checkpoint(asset):
                write_card(store, store.version(asset, version), manifest)
    return ""


def write_card(store: Store, manifest: Manifest, evaluation: Manifest | None = None) -> str:
    """Write one card → its text. `evaluation` (default: the current one, if it measured these very weights)."""
    found = origins(Manifests(store), Manifests(store).start(f"{manifest.asset}@{manifest.version}"))
    text = "\n".join(_lines(manifest, found, _summary(store, manifest, evaluation))) + "\n"
    put = put_text if store.copies is None else store.copies.write_text
    put(manifest.directory / CARD, text)
    return text


def _summary(store: Store, manifest: Manifest, evaluation: Manifest | None) -> Mapping[str, Any]:
    found = evaluation or store.current(manifest.asset.replace("checkpoints/", "evaluations/"))
    if found is None or found.inputs.get(manifest.asset) != manifest.version:
        return {}
    report: dict[str, Any] = json.loads(found.file("evaluation.json").read_text(encoding="utf-8"))
    summary: dict[str, Any] = report["summary"]
    return summary


def _lines(manifest: Manifest, found: Origins, summary: Mapping[str, Any]) -> Iterator[str]:
    yield "---\nlibrary_name: transformers\npipeline_tag: image-text-to-text\ntags: [gui-agent, vesper]"
    licences = sorted({one.licence for one in found.datasets if one.role != "evaluation"})
    yield f"license: other\nlicense_name: {json.dumps('; '.join(licences) or 'none')}"
    yield f"datasets: {json.dumps(sorted(one.name for one in found.datasets))}\n---"
    yield f"# {manifest.asset}@{manifest.version}\n\n{USE}\n\n## Data\n"
    yield "| dataset | revision | licence | role | rows |\n|---|---|---|---|---|"
    for one in sorted(found.datasets, key=lambda one: (one.role, one.name)):
        rows = ", ".join(f"{name} {count:,}" for name, count in one.rows.items() if count is not None)
        cells = (one.name, one.revision, one.licence, one.role, rows)
        yield f"| {' | '.join(markdown_text(cell, 200) for cell in cells)} |"
    for made in found.generated:
        yield f"\n{made.verified} of {made.trajectories} generated trajectories of {made.rounds} rounds were verified."
    if found.judges:
        judges = {markdown_text(f"{one.judge} {one.model}".strip()) for one in found.judges}
        yield f"\nJudged by {', '.join(sorted(judges))}."
    yield "\n## Training\n"
    if settings := _settings(manifest):
        yield f"```json\n{json.dumps(settings, indent=1, sort_keys=True)}\n```"
    inputs = ", ".join(f"`{asset}@{version}`" for asset, version in sorted(manifest.inputs.items()))
    yield f"\nFrom {inputs or 'nothing'}; code {manifest.code_revision or 'unknown'}.\n\n## Figures\n"
    yield from _figures(summary)
    failed = [check for check in manifest.checks if not check.passed]
    yield "\n## Limits\n"
    yield from (f"- {line}" for line in LIMITS)
    yield from (
        f"- The check `{c.name}` failed: found {markdown_text(c.found)}, expected {markdown_text(c.expected)}."
        for c in failed
    )
    yield f"\n`vesper lineage {manifest.asset}@{manifest.version}` lists all that it was made from."


def _settings(manifest: Manifest) -> object:
    if not any(entry.path.endswith("/settings.json") for entry in manifest.side_files):
        return None
    return json.loads(manifest.file("settings.json").read_text(encoding="utf-8"))


def _figures(summary: Mapping[str, Any]) -> Iterator[str]:
    """Held-out figures with their 95 % intervals, and below each domain what needs no model of the screen."""
    if not summary:
        yield "Not evaluated yet."
        return
    yield "Held-out samples, in percent with 95 % intervals; controls look at no screen, or at another.\n"
    yield "| domain | measure | | n |\n|---|---|---|---:|"
    for domain, found in sorted(summary.items()):
        for measure in FIGURES["grounding" if domain == "grounding" else "navigation"]:
            yield from _row(domain, measure, found.get(measure))
        for name, value in found["controls"].items():
            yield from _row(domain, f"control: {name.replace('_', ' ')}", value)


def _row(domain: str, measure: str, value: Mapping[str, Any] | None) -> Iterator[str]:
    if value and value.get("n"):
        yield f"| {domain} | {measure} | {told(value)} | {value['n']} |"
